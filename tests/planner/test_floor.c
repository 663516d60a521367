/* test_floor.c - planner/floor against every schedule of tiny graphs: the floor is never above the lowest peak, and often equal
 * to it. */
#include "estimator/base/memory.h"
#include "memplan/floor.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

enum { MOST_STEPS = 40 };
#ifndef FIRST_SEED
enum { FIRST_SEED = 1, SEEDS = 400 };
#endif

/* Enumerates all schedules with at most one recomputation per forward node, by trying every node and alternative at every step.
 */
struct enumeration {
    const mp_graph *graph;
    mp_step steps[MOST_STEPS];
    int runs[MOST_STEPS];
    size_t n, n_left; /* number of steps so far; number of nodes that have not run */
    long n_schedules, most, n_tries;
    int64_t lowest_peak;
};

static int64_t made_by(const mp_alternative *alternative, int s)
{
    int64_t n = 0;
    for (size_t i = 0; i < alternative->n_writes; i++) n += alternative->writes[i] == s;
    for (size_t i = 0; i < alternative->n_adds; i++) n += alternative->adds[i] == s;
    return n;
}

/* Returns the node that updates storage s; -1: none. */
static int update_of(const mp_graph *graph, int s)
{
    for (int i = 0; i < (int)graph->n_nodes; i++)
        if (graph->nodes[i].phase == MP_PHASE_UPDATE && graph->storages[s].kind == MP_KIND_PARAMETER &&
            made_by(&graph->nodes[i].alternatives[0], s))
            return i;
    return -1;
}

/* True if the next step may run this alternative after the steps so far; orders that cannot be completed are skipped. */
static bool may_run(const struct enumeration *e, int node, const mp_alternative *alternative)
{
    const mp_graph *graph = e->graph;
    mp_phase phase = graph->nodes[node].phase;
    bool forward = graph->fuse == MP_FUSE_FORWARD;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        int s = alternative->reads[i], n_adders = graph->adders_start[s + 1] - graph->adders_start[s],
            update = update_of(graph, s);
        const mp_storage *storage = &graph->storages[s];
        int64_t made = 0;
        if (update >= 0 && phase != MP_PHASE_UPDATE && (e->runs[update] > 0) != forward) return false;
        for (size_t t = 0; t < e->n; t++)
            made += made_by(&graph->nodes[e->steps[t].node].alternatives[e->steps[t].alternative], s);
        if (mp_storage_is_static(storage) || (storage->carried && !made)) continue;
        if (made < (n_adders ? n_adders : 1)) return false;
    }
    for (size_t i = 0; i < alternative->n_adds; i++) {
        int s = alternative->adds[i], turn = 0;
        for (size_t t = 0; t < e->n; t++)
            turn += (int)made_by(&graph->nodes[e->steps[t].node].alternatives[e->steps[t].alternative], s);
        if (!graph->storages[s].any_sum_order && graph->adders[graph->adders_start[s] + turn] != node) return false;
    }
    for (int i = 0; i < (int)graph->n_nodes && phase == MP_PHASE_UPDATE; i++) {
        const mp_node *other = &graph->nodes[i];
        bool backward = other->phase == MP_PHASE_LOSS || other->phase == MP_PHASE_BACKWARD;
        if (graph->fuse == MP_FUSE_NONE && backward && !e->runs[i]) return false;
        for (size_t k = 0; k < other->alternatives[0].n_reads && other->phase != MP_PHASE_UPDATE; k++)
            if (update_of(graph, other->alternatives[0].reads[k]) == node && (e->runs[i] > 0) == forward) return false;
    }
    return true;
}

static void enumerate(struct enumeration *e)
{
    if (e->n_schedules >= e->most || e->n_tries++ > 20000) return;
    if (!e->n_left) {
        simulation sim = simulate(e->graph, e->steps, e->n);
        if (!e->n_schedules++ || sim.tiers[0].peak_bytes < e->lowest_peak) e->lowest_peak = sim.tiers[0].peak_bytes;
        simulation_free(&sim);
    }
    for (int i = 0; i < (int)e->graph->n_nodes; i++) {
        const mp_node *node = &e->graph->nodes[i];
        bool repeatable = node->phase == MP_PHASE_FORWARD && !(node->flags & MP_NODE_ONCE);
        if (e->runs[i] > (repeatable ? 1 : 0) || !e->n_left) continue;
        for (int k = 0; k < (int)node->n_alternatives; k++) {
            if (!may_run(e, i, &node->alternatives[k])) continue;
            e->steps[e->n++] = (mp_step){.node = i, .alternative = k};
            e->n_left -= e->runs[i]++ == 0;
            enumerate(e);
            e->n_left += --e->runs[i] == 0;
            e->n--;
        }
    }
}

TEST(floor_is_never_above_the_peak_of_any_schedule)
{
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

/* The storages of a node, against a search of its lists for every storage. */
TEST(storages_of_a_node_are_listed_once)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        mp_graph *graph = random_graph(seed, 3, (mp_fuse)(seed % MP_N_FUSES), false);
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            const mp_alternative *a = &graph->nodes[i].alternatives[0];
            int found[64];
            int64_t bytes, sum = 0;
            size_t n_used = 0, n = mp_floor_storages(graph, i, found, 64, &bytes);
            for (int s = 0; s < (int)graph->n_storages; s++) {
                bool is_used = made_by(a, s) > 0, is_found = false;
                for (size_t k = 0; k < a->n_reads; k++) is_used |= a->reads[k] == s;
                is_used &= !mp_storage_is_static(&graph->storages[s]);
                for (size_t k = 0; k < n; k++) is_found |= found[k] == s;
                assert_int_equal(is_found, is_used);
                n_used += is_used;
                sum += is_used ? graph->storages[s].bytes : 0;
            }
            assert_int_equal(n, n_used);
            assert_int_equal(bytes, sum);
            for (size_t k = 1; k < n; k++) assert_true(graph->storages[found[k]].bytes <= graph->storages[found[k - 1]].bytes);
        }
        mp_graph_free(graph);
    }
}

/* Larger graphs, with random schedules that recompute a lot. */
TEST(floor_is_never_above_random_schedules)
{
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

/* Backward writes four parameter gradients of 100 bytes one after the other, each from the previous data gradient of 10 bytes.
 */
TEST(gradients_wait_for_updates_after_all_of_backward)
{
    for (int fuse = MP_FUSE_NONE; fuse <= MP_FUSE_BACKWARD; fuse++) {
        mp_graph *g;
        mp_storage *s;
        mp_node *node;
        enum { LAYERS = 4 };
        assert_int_equal(mp_graph_new("chain", &g, NULL), MP_OK);
        g->fuse = (mp_fuse)fuse;
        for (int i = 0; i < 3 * LAYERS; i++) { /* storages 0..3 are parameters, 4..7 their gradients, 8..11 data gradients */
            assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
            s->kind = i < LAYERS ? MP_KIND_PARAMETER : i < 2 * LAYERS ? MP_KIND_GRADIENT : MP_KIND_ACTIVATION_GRADIENT;
            s->bytes = i < LAYERS ? 1 : i < 2 * LAYERS ? 100 : 10;
        }
        for (int i = 0; i < 2 * LAYERS; i++) {
            assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
            mp_alternative *f = &node->alternatives[0];
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
        /* without fusion: all four gradients and the last two data gradients; fused into backward: any backward node except the
         * first */
        assert_int_equal(floor_bytes, 4 + (fuse == MP_FUSE_NONE ? 400 + 20 : 100 + 20));
        assert_int_equal(at, fuse == MP_FUSE_NONE ? 3 : 1);
        mp_graph_free(g);
    }
}

/* Sets other sizes and almost no workspace, so that held activations decide the peak. */
static void resize(mp_graph *graph, uint64_t seed)
{
    random_source random = {seed};
    for (size_t s = 0; s < graph->n_storages; s++)
        if (!mp_storage_is_static(&graph->storages[s])) graph->storages[s].bytes = 1 + random_below(&random, 40);
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < graph->nodes[i].n_alternatives; k++)
            graph->nodes[i].alternatives[k].workspace_bytes = random_chance(&random, 80) ? 0 : random_below(&random, 40);
}

/* Checks that no schedule fits one byte below the floor; false: too many schedules. *is_met: a schedule fits in exactly the
 * floor. */
static bool judge(const mp_graph *graph, uint64_t seed, mp_floor_reason *reason, bool *is_met)
{
    int64_t floor_bytes, ticks;
    assert_int_equal(mp_floor_explained(graph, &floor_bytes, reason, NULL), MP_OK);
    if (!oracle_exact(graph, floor_bytes - 1, true, &ticks)) return false;
    if (ticks >= 0)
        fail_msg("seed %llu: floor %lld, node %d, storage %d, producer %d, beside %d, and a schedule fits below",
                 (unsigned long long)seed, (long long)floor_bytes, reason->node, reason->storage, reason->producer,
                 reason->beside);
    if (reason->storage >= 0) {
        int64_t least = reason->beside_bytes < reason->again_bytes ? reason->beside_bytes : reason->again_bytes;
        assert_int_equal(floor_bytes, mp_graph_static_bytes(graph) + least);
    }
    *is_met = oracle_exact(graph, floor_bytes, true, &ticks) && ticks >= 0;
    return true;
}

TEST(nothing_fits_below_the_floor)
{
    int n_judged = 0, n_held = 0, n_met = 0;
    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 5), (mp_fuse)(seed / 5 % MP_N_FUSES), false);
        mp_floor_reason reason;
        bool is_met;
        if (seed % 4) resize(graph, seed);
        if (judge(graph, seed, &reason, &is_met)) {
            n_judged++;
            n_held += reason.storage >= 0;
            n_met += is_met;
        }
        mp_graph_free(graph);
    }
    /* measured: 53 with the reason "held or run again", 322 equal to the floor */
    if (n_judged < SEEDS * 9 / 10 || n_held < 50 || n_met < 321)
        fail_msg("%d of %d judged, %d of them held or run again, %d equal to the floor", n_judged, SEEDS, n_held, n_met);
}

static int add_storage(mp_graph *g, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = bytes;
    return (int)g->n_storages - 1;
}

/* Adds a node that reads up to two storages (-1: fewer) and writes one. */
static mp_alternative *add_node(mp_graph *g, mp_phase phase, int read, int also_read, int written)
{
    mp_node *node;
    const int reads[2] = {read, also_read};
    assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
    node->phase = phase;
    mp_alternative *f = &node->alternatives[0];
    f->n_reads = (size_t)(read >= 0) + (also_read >= 0);
    f->n_writes = written >= 0;
    f->reads = mp_graph_list(g, reads, f->n_reads);
    f->writes = mp_graph_list(g, &written, f->n_writes);
    assert_true(f->reads && f->writes);
    return f;
}

/* Lets the output `to` take over the memory of the input `from`. */
static void may_reuse(mp_graph *g, mp_alternative *f, int from, int to)
{
    assert_non_null(f->in_place = mp_pool_alloc(g->pool, 1, sizeof *f->in_place));
    f->in_place[0] = (mp_in_place){from, to};
    f->n_in_place = 1;
}

/* Data gradients d1 of 10 bytes, d2 and d3 of 50 bytes, each computed from the previous one, and a node that computes a
 * parameter's gradient from d1. If that node runs before d3's, its gradient is live with d2 and d3; otherwise d1 is. */
TEST(a_gradient_lives_or_what_is_made_of_it)
{
    for (int i = 0; i < 4; i++) {
        const int64_t gradient_bytes = i % 2 ? 4 : 40;
        mp_graph *g;
        mp_floor_reason reason;
        bool is_met;
        assert_int_equal(mp_graph_new("gradients", &g, NULL), MP_OK);
        g->fuse = i < 2 ? MP_FUSE_NONE : MP_FUSE_BACKWARD;
        const int parameter = add_storage(g, MP_KIND_PARAMETER, 1), p = add_storage(g, MP_KIND_GRADIENT, gradient_bytes);
        const int d1 = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 10), d2 = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 50);
        const int d3 = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 50);
        add_node(g, MP_PHASE_BACKWARD, -1, -1, d1);
        add_node(g, MP_PHASE_BACKWARD, d1, -1, p);
        add_node(g, MP_PHASE_BACKWARD, d1, -1, d2);
        add_node(g, MP_PHASE_BACKWARD, d2, -1, d3);
        add_node(g, MP_PHASE_UPDATE, p, -1, parameter);
        assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
        assert_true(judge(g, (uint64_t)i, &reason, &is_met));
        assert_true(is_met);
        int64_t floor_bytes;
        int node;
        assert_int_equal(mp_floor(g, &floor_bytes, &node, NULL), MP_OK);
        assert_int_equal(floor_bytes, 1 + 100 + (i >= 2 ? 0 : gradient_bytes == 4 ? 4 : 10));
        assert_int_equal(node, 3);
        assert_int_equal(reason.storage, -1);
        mp_graph_free(g);
    }
}

/* A convolution with workspace writes c of 10 bytes, and a relu writes a in the memory of c. Backward writes g of 10 bytes; v
 * writes h of 10 bytes from g with 20 bytes of workspace; j reads h and a. Either a (or c) is held during v: 10 + 40 bytes. Or
 * both forward nodes run again after v, while h is live. */
TEST(an_activation_is_held_or_run_again)
{
    const int64_t workspace[] = {15, 25, 35, 35}, expected[] = {40, 45, 50, 45};
    const int expected_node[] = {3, 4, 4, 0};
    for (int i = 0; i < 4; i++) {
        const bool v_reads_it = i == 3; /* the reason is v itself, and the convolution needs most memory */
        mp_graph *g;
        mp_floor_reason reason;
        bool is_met;
        int64_t floor_bytes;
        int node;
        assert_int_equal(mp_graph_new("held", &g, NULL), MP_OK);
        const int c = add_storage(g, MP_KIND_ACTIVATION, 10), a = add_storage(g, MP_KIND_ACTIVATION, 10);
        const int d = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 10), h = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 10);
        add_node(g, MP_PHASE_FORWARD, -1, -1, c)->workspace_bytes = workspace[i];
        mp_alternative *relu = add_node(g, MP_PHASE_FORWARD, c, -1, a);
        may_reuse(g, relu, c, a);
        add_node(g, MP_PHASE_BACKWARD, -1, -1, d);
        add_node(g, MP_PHASE_BACKWARD, d, v_reads_it ? a : -1, h)->workspace_bytes = v_reads_it ? 10 : 20;
        add_node(g, MP_PHASE_BACKWARD, h, a, -1);
        assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
        assert_true(judge(g, (uint64_t)i, &reason, &is_met));
        assert_int_equal(mp_floor(g, &floor_bytes, &node, NULL), MP_OK);
        assert_int_equal(floor_bytes, expected[i]);
        assert_true(is_met || v_reads_it);
        assert_int_equal(node, expected_node[i]);
        assert_int_equal(reason.storage, i == 1 || i == 2 ? a : -1);
        if (reason.storage >= 0) assert_int_equal(reason.producer, 0);
        if (reason.storage >= 0) assert_int_equal(reason.beside, 3);
        mp_graph_free(g);
    }
}

/* x, which can be computed only once, becomes a. x is live during v, because k reads x after v; then j reads a. After k, no
 * other node reads x, so a is recomputed in its memory. In its first run, a cannot overwrite x. */
TEST(a_later_run_may_be_in_place)
{
    mp_graph *g;
    mp_floor_reason reason;
    bool is_met;
    int64_t floor_bytes;
    int node;
    assert_int_equal(mp_graph_new("in place later", &g, NULL), MP_OK);
    const int x = add_storage(g, MP_KIND_ACTIVATION, 10), a = add_storage(g, MP_KIND_ACTIVATION, 10);
    const int d = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 10), h = add_storage(g, MP_KIND_ACTIVATION_GRADIENT, 10);
    add_node(g, MP_PHASE_FORWARD, -1, -1, x);
    g->nodes[0].flags |= MP_NODE_ONCE;
    mp_alternative *relu = add_node(g, MP_PHASE_FORWARD, x, -1, a);
    relu->workspace_bytes = 20;
    may_reuse(g, relu, x, a);
    add_node(g, MP_PHASE_BACKWARD, a, -1, d);
    add_node(g, MP_PHASE_BACKWARD, d, -1, h)->workspace_bytes = 15;
    add_node(g, MP_PHASE_BACKWARD, h, x, -1);
    add_node(g, MP_PHASE_BACKWARD, h, a, -1);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_true(judge(g, 0, &reason, &is_met));
    assert_true(is_met);
    assert_int_equal(mp_floor(g, &floor_bytes, &node, NULL), MP_OK);
    assert_int_equal(floor_bytes, 45); /* during v: d, h, its workspace and x */
    assert_int_equal(node, 3);
    mp_graph_free(g);
}

/* Two outputs of 8 bytes may take over the memory of one input of 16 bytes; only one of them does. */
TEST(a_room_is_taken_over_once)
{
    mp_graph *g;
    mp_floor_reason reason;
    bool is_met;
    int64_t floor_bytes;
    int node;
    assert_int_equal(mp_graph_new("one room", &g, NULL), MP_OK);
    const int x = add_storage(g, MP_KIND_ACTIVATION, 16), y = add_storage(g, MP_KIND_ACTIVATION, 8);
    const int z = add_storage(g, MP_KIND_ACTIVATION, 8);
    add_node(g, MP_PHASE_FORWARD, -1, -1, x);
    mp_alternative *f = add_node(g, MP_PHASE_FORWARD, x, -1, y);
    f->n_writes = f->n_in_place = 2;
    f->writes = mp_graph_list(g, (int[]){y, z}, 2);
    f->in_place = (mp_in_place[]){{x, y}, {x, z}};
    add_node(g, MP_PHASE_FORWARD, y, z, -1);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_true(judge(g, 0, &reason, &is_met));
    assert_true(is_met);
    assert_int_equal(mp_floor(g, &floor_bytes, &node, NULL), MP_OK);
    assert_int_equal(floor_bytes, 16 + 8);
    assert_int_equal(node, 1);
    mp_graph_free(g);
}

/* v writes y in the memory of x. The node after v reads y, and reads x in only one of its two alternatives. */
TEST(a_reader_that_may_do_without_holds_nothing)
{
    mp_graph *g;
    mp_floor_reason reason;
    bool is_met;
    int64_t floor_bytes;
    int node;
    assert_int_equal(mp_graph_new("two ways", &g, NULL), MP_OK);
    const int x = add_storage(g, MP_KIND_ACTIVATION, 10), y = add_storage(g, MP_KIND_ACTIVATION, 10);
    add_node(g, MP_PHASE_FORWARD, -1, -1, x);
    g->nodes[0].flags |= MP_NODE_ONCE;
    may_reuse(g, add_node(g, MP_PHASE_FORWARD, x, -1, y), x, y);
    mp_alternative *both = add_node(g, MP_PHASE_BACKWARD, x, y, -1), *ways = mp_pool_alloc(g->pool, 2, sizeof *ways);
    assert_non_null(ways);
    ways[0] = *both;
    ways[1] = (mp_alternative){.n_reads = 1, .reads = mp_graph_list(g, &y, 1), .ticks = 1};
    g->nodes[2].alternatives = ways;
    g->nodes[2].n_alternatives = 2;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_true(judge(g, 0, &reason, &is_met));
    assert_true(is_met);
    assert_int_equal(mp_floor(g, &floor_bytes, &node, NULL), MP_OK);
    assert_int_equal(floor_bytes, 10);
    mp_graph_free(g);
}

TEST(floor_survives_every_allocation_failure)
{
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
