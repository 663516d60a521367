/* test_floor.c - planner/floor against every schedule of tiny graphs: never above the lowest peak, and often equal to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_simulator.h"
#include "planner/floor.h"
#include "random_graph.h"

enum { MOST_STEPS = 40 };

/* All schedules with at most one recomputation per forward node, by trying every node and form at every step. */
struct enumeration {
    const mp_graph *graph;
    mp_step steps[MOST_STEPS];
    int runs[MOST_STEPS];
    size_t n, n_left; /* steps so far; nodes that have not run */
    long n_schedules, most, n_tries;
    int64_t lowest_peak;
};

static int64_t made_by(const mp_form *form, int s)
{
    int64_t n = 0;
    for (size_t i = 0; i < form->n_writes; i++) n += form->writes[i] == s;
    for (size_t i = 0; i < form->n_adds; i++) n += form->adds[i] == s;
    return n;
}

/* The node that updates storage s, -1: none. */
static int update_of(const mp_graph *graph, int s)
{
    for (int i = 0; i < (int)graph->n_nodes; i++)
        if (graph->nodes[i].phase == MP_PHASE_UPDATE && graph->storages[s].kind == MP_KIND_PARAMETER &&
            made_by(&graph->nodes[i].forms[0], s))
            return i;
    return -1;
}

/* Whether the next step may run this form, judged from the steps so far; orders that could not be completed are left out. */
static bool may_run(const struct enumeration *e, int node, const mp_form *form)
{
    const mp_graph *graph = e->graph;
    mp_phase phase = graph->nodes[node].phase;
    bool forward = graph->fuse == MP_FUSE_FORWARD;
    for (size_t i = 0; i < form->n_reads; i++) {
        int s = form->reads[i], n_adders = graph->adders_start[s + 1] - graph->adders_start[s], update = update_of(graph, s);
        const mp_storage *storage = &graph->storages[s];
        int64_t made = 0;
        if (update >= 0 && phase != MP_PHASE_UPDATE && (e->runs[update] > 0) != forward) return false;
        for (size_t t = 0; t < e->n; t++) made += made_by(&graph->nodes[e->steps[t].node].forms[e->steps[t].form], s);
        if (mp_storage_is_static(storage) || (storage->carried && !made)) continue;
        if (made < (n_adders ? n_adders : 1)) return false;
    }
    for (size_t i = 0; i < form->n_adds; i++) {
        int s = form->adds[i], turn = 0;
        for (size_t t = 0; t < e->n; t++) turn += (int)made_by(&graph->nodes[e->steps[t].node].forms[e->steps[t].form], s);
        if (!graph->storages[s].any_sum_order && graph->adders[graph->adders_start[s] + turn] != node) return false;
    }
    for (int i = 0; i < (int)graph->n_nodes && phase == MP_PHASE_UPDATE; i++) {
        const mp_node *other = &graph->nodes[i];
        bool backward = other->phase == MP_PHASE_LOSS || other->phase == MP_PHASE_BACKWARD;
        if (graph->fuse == MP_FUSE_NONE && backward && !e->runs[i]) return false;
        for (size_t k = 0; k < other->forms[0].n_reads && other->phase != MP_PHASE_UPDATE; k++)
            if (update_of(graph, other->forms[0].reads[k]) == node && (e->runs[i] > 0) == forward) return false;
    }
    return true;
}

static void enumerate(struct enumeration *e)
{
    if (e->n_schedules >= e->most || e->n_tries++ > 20000) return;
    if (!e->n_left) {
        simulation sim = simulate(e->graph, e->steps, e->n);
        if (!e->n_schedules++ || sim.peak_bytes < e->lowest_peak) e->lowest_peak = sim.peak_bytes;
        simulation_free(&sim);
    }
    for (int i = 0; i < (int)e->graph->n_nodes; i++) {
        const mp_node *node = &e->graph->nodes[i];
        bool repeatable = node->phase == MP_PHASE_FORWARD && !(node->flags & MP_NODE_ONCE);
        if (e->runs[i] > (repeatable ? 1 : 0) || !e->n_left) continue;
        for (int k = 0; k < (int)node->n_forms; k++) {
            if (!may_run(e, i, &node->forms[k])) continue;
            e->steps[e->n++] = (mp_step){.node = i, .form = k};
            e->n_left -= e->runs[i]++ == 0;
            enumerate(e);
            e->n_left += --e->runs[i] == 0;
            e->n--;
        }
    }
}

static void floor_is_never_above_the_peak_of_any_schedule(void **state)
{
    (void)state;
    int n_equal = 0, n_complete = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        bool plain = seed % 4 == 0;
        mp_graph *graph = random_graph(seed, plain ? 4 : 1 + (int)(seed % 3), (mp_fuse)(seed % MP_N_FUSES), plain);
        struct enumeration e = {.graph = graph, .n_left = graph->n_nodes, .most = 1500};
        int64_t floor_bytes;
        int node;
        assert_true(2 * graph->n_nodes <= MOST_STEPS);
        assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
        enumerate(&e);
        if (!e.n_schedules) fail_msg("seed %llu: no schedule in %ld tries", (unsigned long long)seed, e.n_tries);
        if (floor_bytes > e.lowest_peak)
            fail_msg("seed %llu: floor %lld, and a schedule needs %lld", (unsigned long long)seed, (long long)floor_bytes,
                     (long long)e.lowest_peak);
        assert_true(node >= -1 && node < (int)graph->n_nodes);
        n_equal += floor_bytes == e.lowest_peak;
        n_complete += e.n_schedules < e.most && e.n_tries <= 20000;
        mp_graph_free(graph);
    }
    if (n_complete < 60 || n_equal < 60) fail_msg("%d of 200 complete, %d equal to the floor", n_complete, n_equal);
}

/* Larger graphs: random schedules with many recomputations. */
static void floor_is_never_above_random_schedules(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *graph = random_graph(seed, 3 + (int)(seed % 10), (mp_fuse)(seed % MP_N_FUSES), false);
        int64_t floor_bytes;
        int node;
        assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
        for (uint64_t k = 0; k < 8; k++) {
            size_t n;
            mp_timeline *tl;
            mp_step *steps = random_schedule(graph, seed + 1000 * k, (int)k * 10, &n);
            assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
            if (floor_bytes > tl->peak_bytes)
                fail_msg("seed %llu, schedule %llu", (unsigned long long)seed, (unsigned long long)k);
            mp_timeline_free(tl);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
}

/* Four parameter gradients of 100 bytes that backward makes one after the other, each from the data gradient of 10 bytes
 * before. */
static void gradients_wait_for_updates_after_all_of_backward(void **state)
{
    (void)state;
    for (int fuse = MP_FUSE_NONE; fuse <= MP_FUSE_BACKWARD; fuse++) {
        mp_graph *g;
        mp_storage *s;
        mp_node *node;
        enum { LAYERS = 4 };
        assert_int_equal(mp_graph_new("chain", &g, NULL), MP_OK);
        g->fuse = (mp_fuse)fuse;
        for (int i = 0; i < 3 * LAYERS; i++) { /* 0..3 parameters, 4..7 their gradients, 8..11 data gradients */
            assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
            s->kind = i < LAYERS ? MP_KIND_PARAMETER : i < 2 * LAYERS ? MP_KIND_GRADIENT : MP_KIND_ACTIVATION_GRADIENT;
            s->bytes = i < LAYERS ? 1 : i < 2 * LAYERS ? 100 : 10;
        }
        for (int i = 0; i < 2 * LAYERS; i++) {
            assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
            mp_form *f = &node->forms[0];
            int layer = i % LAYERS, made[2] = {LAYERS + layer, 2 * LAYERS + layer}, before = 2 * LAYERS + layer - 1;
            int gradient = LAYERS + layer;
            node->phase = i < LAYERS ? MP_PHASE_BACKWARD : MP_PHASE_UPDATE;
            f->reads = mp_graph_list(g, i < LAYERS ? &before : &gradient, 1);
            f->n_reads = i != 0;
            f->writes = mp_graph_list(g, i < LAYERS ? made : &layer, i < LAYERS ? 2 : 1);
            f->n_writes = i < LAYERS ? 2 : 1;
        }
        assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
        int64_t floor_bytes;
        int at;
        assert_int_equal(mp_floor(g, &floor_bytes, &at, NULL), MP_OK);
        /* none: all four and the last two data gradients; backward: any backward node but the first */
        assert_int_equal(floor_bytes, 4 + (fuse == MP_FUSE_NONE ? 400 + 20 : 100 + 20));
        assert_int_equal(at, fuse == MP_FUSE_NONE ? 3 : 1);
        mp_graph_free(g);
    }
}

static void floor_survives_every_allocation_failure(void **state)
{
    (void)state;
    mp_graph *graph = random_graph(9, 5, MP_FUSE_NONE, false);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        int64_t floor_bytes;
        int node;
        mp_alloc_budget = k;
        st = mp_floor(graph, &floor_bytes, &node, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floor_is_never_above_the_peak_of_any_schedule),
        cmocka_unit_test(floor_is_never_above_random_schedules),
        cmocka_unit_test(gradients_wait_for_updates_after_all_of_backward),
        cmocka_unit_test(floor_survives_every_allocation_failure),
    };
    return cmocka_run_group_tests_name("planner/floor", tests, NULL, NULL);
}
