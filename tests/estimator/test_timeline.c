/* test_timeline.c - estimator/timeline compared with a slow simulator and with sums computed by hand. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/timeline.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_beside.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/same_timeline.h"

TEST(timeline_equals_the_simulator_on_random_training_graphs)
{
    size_t rooms = 0, recomputed = 0;
    int beside = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        mp_graph *graph = random_graph(seed, 1 + (int)(seed % 12), (mp_fuse)(seed % MP_N_FUSES), seed % 5 == 0);
        size_t n;
        mp_step *steps = random_schedule(graph, seed, (int)(seed % 4) * 6, &n);
        same_timeline(graph, steps, n, seed);
        recomputed += n - graph->n_nodes;
        beside += random_beside(graph, seed, 60, steps, n);
        same_timeline(graph, steps, n, seed);
        for (size_t i = 0; i < graph->n_nodes; i++) rooms += graph->nodes[i].alternatives[0].n_in_place;
        steps = (mp_free(steps), mp_alloc(graph->n_nodes, sizeof *steps));
        mp_keep_all(graph, steps);
        same_timeline(graph, steps, graph->n_nodes, seed);
        mp_free(steps);
        mp_graph_free(graph);
    }
    assert_true(rooms > 500 && recomputed > 500 && beside > 200); /* the generator covers all tested cases */
    assert_int_equal(mp_alloc_live, 0);
}

/* x -> f0 -> a -> f1 -> b -> f2 -> c. b may reuse the memory of a. f1 has a workspace, and an alternative without one. */
static mp_graph *chain(void)
{
    mp_graph *g;
    mp_storage *s;
    mp_node *n;
    static const int64_t bytes[] = {1000, 10, 8, 5};
    static const char *const names[] = {"x", "a", "b", "c"};
    assert_int_equal(mp_graph_new("chain", &g, NULL), MP_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->name = names[i];
        s->bytes = bytes[i];
        s->kind = i ? MP_KIND_ACTIVATION : MP_KIND_INPUT;
    }
    for (int i = 0; i < 3; i++) {
        int read = i, write = i + 1;
        assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
        n->name = i == 0 ? "f0" : i == 1 ? "f1" : "f2";
        mp_alternative *f = &n->alternatives[0];
        f->reads = mp_graph_list(g, &read, 1);
        f->writes = mp_graph_list(g, &write, 1);
        f->n_reads = f->n_writes = 1;
        f->ticks = i + 1;
    }
    n = &g->nodes[1];
    mp_alternative *alternatives = mp_pool_alloc(g->pool, 2, sizeof *alternatives);
    alternatives[0] = alternatives[1] = n->alternatives[0];
    alternatives[1].ticks = 20;
    alternatives[0].workspace_bytes = 3;
    alternatives[0].in_place = mp_pool_alloc(g->pool, 1, sizeof *alternatives[0].in_place);
    alternatives[0].in_place[0] = (mp_in_place){1, 2};
    alternatives[0].n_in_place = 1;
    n->alternatives = alternatives;
    n->n_alternatives = 2;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

TEST(chain_with_a_recomputation_is_as_done_by_hand)
{
    mp_graph *g = chain();
    /* step 0 writes a; 1 writes b in place of a, with 3 bytes of workspace; 2 writes a again, unread; 3 reads b */
    const mp_step steps[] = {{0, 0, 0}, {1, 0, 0}, {0, 0, 0}, {2, 0, 0}};
    mp_timeline *tl;
    assert_int_equal(mp_timeline_build(g, steps, 4, &tl, NULL), MP_OK);
    const int64_t live[] = {10, 10 + 3, 8 + 10, 8 + 5};
    assert_memory_equal(tl->live_bytes, live, sizeof live);
    assert_int_equal(tl->static_bytes, 1000);
    assert_int_equal(tl->peak_bytes, 1018);
    assert_int_equal(tl->peak_step, 2);
    assert_int_equal(tl->ticks, 1 + 2 + 1 + 3);
    assert_int_equal(tl->n_spans, 4);
    const mp_span b = {2, 1, 4, 1};
    assert_memory_equal(&tl->spans[1], &b, sizeof b);
    int holders[2];
    assert_int_equal(mp_timeline_holders(g, tl, 2, holders, 2), 2);
    assert_int_equal(tl->spans[holders[0]].storage, 1);
    assert_int_equal(tl->spans[holders[1]].storage, 2);
    assert_int_equal(mp_timeline_holders(g, tl, 1, holders, 1), 1); /* b is in a's memory and adds no bytes yet */
    assert_int_equal(tl->spans[holders[0]].storage, 1);
    mp_timeline_free(tl);

    const mp_step apart[] = {{0, 0, 0}, {1, 1, 0}, {2, 0, 0}}; /* the other alternative of f1: no workspace, not in place */
    assert_int_equal(mp_timeline_build(g, apart, 3, &tl, NULL), MP_OK);
    assert_int_equal(tl->peak_bytes, 1018);
    assert_int_equal(tl->peak_step, 1);
    assert_int_equal(tl->ticks, 1 + 20 + 3);
    mp_timeline_free(tl);
    mp_graph_free(g);
}

static void expect(const mp_graph *g, const mp_step *steps, size_t n, const char *message)
{
    mp_error err = {0};
    mp_timeline *tl = NULL;
    assert_int_equal(mp_timeline_build(g, steps, n, &tl, &err), MP_INVALID);
    assert_string_equal(err.message, message);
    assert_null(tl);
}

/* The second step writes 49 storages, listed from the last to the first. The first of them reuses the memory of the step's
 * input. */
TEST(many_outputs_of_one_step_are_in_order)
{
    enum { MANY = 50 };
    mp_graph *g;
    mp_storage *s;
    mp_node *n;
    int list[MANY];
    mp_in_place pair = {0, 1};
    assert_int_equal(mp_graph_new("many", &g, NULL), MP_OK);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->bytes = i ? i : 100;
        s->kind = MP_KIND_ACTIVATION;
        list[i] = MANY - 1 - i;
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
        mp_alternative *f = &n->alternatives[0];
        f->writes = mp_graph_list(g, i ? list : &list[MANY - 1], i ? MANY - 1 : 1);
        f->n_writes = i == 0 ? 1 : i == 1 ? MANY - 1 : 0;
        f->reads = mp_graph_list(g, i == 2 ? list : &list[MANY - 1], i == 2 ? MANY - 1 : 1);
        f->n_reads = i == 0 ? 0 : i == 1 ? 1 : MANY - 1;
        f->in_place = &pair;
        f->n_in_place = i == 1;
    }
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    same_timeline(g, (mp_step[]){{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}, 3, 0);
    mp_graph_free(g);
}

TEST(orders_that_cannot_run_are_refused)
{
    mp_graph *g = chain();
    expect(g, (const mp_step[]){{0, 0, 0}, {2, 0, 0}}, 2,
           "step 1: node 2 (f2) reads storage 2 (b), which no earlier step has produced");
    expect(g, (const mp_step[]){{7, 0, 0}}, 1, "step 0 runs node number 7, which does not exist");
    expect(g, (const mp_step[]){{0, 1, 0}}, 1, "step 0: node 0 (f0) has no alternative 1");
    mp_graph_free(g);

    /* a sum of two contributions, read by a third node */
    mp_storage *s;
    mp_node *n;
    const int sum = 0;
    assert_int_equal(mp_graph_new("sum", &g, NULL), MP_OK);
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    *s = (mp_storage){.name = "d", .bytes = 1, .kind = MP_KIND_ACTIVATION_GRADIENT};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
        n->phase = MP_PHASE_BACKWARD;
        *(i < 2 ? &n->alternatives[0].adds : &n->alternatives[0].reads) = mp_graph_list(g, &sum, 1);
        *(i < 2 ? &n->alternatives[0].n_adds : &n->alternatives[0].n_reads) = 1;
    }
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    expect(g, (const mp_step[]){{0, 0, 0}, {2, 0, 0}}, 2,
           "step 1: node 2 reads storage 0 (d), to which only 1 of 2 nodes have added");
    expect(g, (const mp_step[]){{1, 0, 0}}, 1, "step 0: node 1 adds to storage 0 (d) out of order");
    g->storages[0].any_sum_order = true;
    mp_timeline *tl;
    assert_int_equal(mp_timeline_build(g, (const mp_step[]){{1, 0, 0}, {0, 0, 0}, {2, 0, 0}}, 3, &tl, NULL), MP_OK);
    assert_int_equal(tl->spans[0].end, 3);
    mp_timeline_free(tl);
    mp_graph_free(g);
}

/* b is of a static kind. f2 may still read it only after f1 has written it. */
TEST(what_is_asked_for_is_made_before_it_is_read)
{
    mp_graph *g = chain();
    const mp_step right[] = {{0, 0, 0}, {1, 1, 0}, {2, 0, 0}}, wrong[] = {{0, 0, 0}, {2, 0, 0}, {1, 1, 0}};
    mp_timeline *tl;
    mp_plan *plan;
    mp_error err = {0};
    g->storages[2].kind = MP_KIND_INPUT;
    g->nodes[1].alternatives[0].n_in_place = 0;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_int_equal(g->writer[2], 1);
    assert_int_equal(mp_timeline_build(g, right, 3, &tl, NULL), MP_OK);
    mp_timeline_free(tl);
    assert_int_equal(mp_timeline_build(g, wrong, 3, &tl, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "step 1: node 2 (f2) reads storage 2 (b), which no earlier step has produced"));
    assert_int_equal(mp_plan_new(g, "", right, 3, &plan, NULL), MP_OK);
    assert_int_equal(mp_plan_check(g, plan, NULL), MP_OK);
    memcpy(plan->steps, wrong, sizeof wrong);
    err = (mp_error){0};
    assert_int_equal(mp_plan_check(g, plan, &err), MP_REFUTED);
    assert_non_null(strstr(err.message, "which no earlier step has produced"));
    mp_plan_free(plan);
    mp_graph_free(g);
}

/* A backward node writes gradient 0, or adds to it; an update then reads it and changes parameter 1. The gradient is
 * persistent, as if it were accumulated over micro-batches. */
static mp_graph *accumulation(mp_fuse fuse, bool is_sum)
{
    mp_graph *g;
    mp_storage *s;
    mp_node *backward, *update;
    const int gradient = 0, parameter = 1, both[] = {0, 1};
    assert_int_equal(mp_graph_new("accumulation", &g, NULL), MP_OK);
    g->fuse = fuse;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    *s = (mp_storage){.name = "g", .bytes = 64, .kind = MP_KIND_GRADIENT, .persistent = true};
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    *s = (mp_storage){.id = 1, .name = "p", .bytes = 64, .kind = MP_KIND_PARAMETER};
    assert_int_equal(mp_graph_node(g, &backward, NULL), MP_OK);
    backward->phase = MP_PHASE_BACKWARD;
    *(is_sum ? &backward->alternatives[0].adds : &backward->alternatives[0].writes) = mp_graph_list(g, &gradient, 1);
    *(is_sum ? &backward->alternatives[0].n_adds : &backward->alternatives[0].n_writes) = 1;
    assert_int_equal(mp_graph_node(g, &update, NULL), MP_OK);
    update->phase = MP_PHASE_UPDATE;
    update->alternatives[0].reads = mp_graph_list(g, both, 2);
    update->alternatives[0].n_reads = 2;
    update->alternatives[0].writes = mp_graph_list(g, &parameter, 1);
    update->alternatives[0].n_writes = 1;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

/* An update reads the complete gradient of its own step. Only an update at the start of a step reads the gradient of the
 * previous step, so it may precede the backward node. */
TEST(updates_wait_for_persistent_gradients)
{
    const mp_step right[] = {{0, 0, 0}, {1, 0, 0}}, wrong[] = {{1, 0, 0}, {0, 0, 0}};
    for (int k = 0; k < 2 * MP_N_FUSES; k++) {
        const mp_fuse fuse = (mp_fuse)(k / 2);
        mp_graph *g = accumulation(fuse, k % 2);
        mp_timeline *tl = NULL;
        mp_plan *plan;
        mp_error err = {0};
        const mp_status st = mp_timeline_build(g, wrong, 2, &tl, &err);
        assert_int_equal(st, fuse == MP_FUSE_FORWARD ? MP_OK : MP_INVALID);
        if (st != MP_OK)
            assert_non_null(
                strstr(err.message, k % 2 ? "to which only 0 of 1 nodes have added" : "no earlier step has produced"));
        mp_timeline_free(tl);
        assert_int_equal(mp_plan_new(g, "", right, 2, &plan, NULL), MP_OK);
        assert_int_equal(mp_plan_check(g, plan, NULL), MP_OK);
        memcpy(plan->steps, wrong, sizeof wrong);
        assert_int_equal(mp_plan_check(g, plan, NULL), fuse == MP_FUSE_FORWARD ? MP_OK : MP_REFUTED);
        mp_plan_free(plan);
        mp_graph_free(g);
    }
}

TEST(holders_add_up_to_the_live_bytes)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = random_graph(seed, 8, (mp_fuse)(seed % MP_N_FUSES), false);
        size_t n;
        mp_step *steps = random_schedule(graph, seed, 10, &n);
        mp_timeline *tl;
        int spans[400], three[3];
        assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
        for (int t = 0; t < (int)n; t++) {
            int64_t sum = graph->nodes[steps[t].node].alternatives[steps[t].alternative].workspace_bytes;
            size_t n_holders = mp_timeline_holders(graph, tl, t, spans, 400);
            for (size_t i = 0; i < n_holders; i++) {
                const mp_storage *s = &graph->storages[tl->spans[spans[i]].storage];
                sum += s->bytes;
                if (i) assert_true(s->bytes <= graph->storages[tl->spans[spans[i - 1]].storage].bytes);
            }
            assert_int_equal(sum, tl->live_bytes[t]);
            assert_int_equal(mp_timeline_holders(graph, tl, t, three, 3), n_holders);
            for (size_t i = 0; i < 3 && i < n_holders; i++) assert_int_equal(three[i], spans[i]);
        }
        mp_timeline_free(tl);
        mp_free(steps);
        mp_graph_free(graph);
    }
}

TEST(updates_come_last_in_keep_all_or_first_when_forward_fused)
{
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        mp_graph *graph = random_graph(11, 8, (mp_fuse)fuse, false);
        mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
        int n_updates = 0;
        mp_keep_all(graph, steps);
        for (size_t i = 0; i < graph->n_nodes; i++) n_updates += graph->nodes[i].phase == MP_PHASE_UPDATE;
        assert_true(n_updates > 1);
        for (int t = 0; t < (int)graph->n_nodes; t++) {
            bool update = graph->nodes[steps[t].node].phase == MP_PHASE_UPDATE;
            assert_int_equal(update, fuse == MP_FUSE_FORWARD ? t < n_updates : t >= (int)graph->n_nodes - n_updates);
            bool border = t == (fuse == MP_FUSE_FORWARD ? n_updates : (int)graph->n_nodes - n_updates);
            if (t && !border) assert_true(steps[t].node > steps[t - 1].node);
        }
        mp_free(steps);
        mp_graph_free(graph);
    }
}

TEST(timeline_survives_every_allocation_failure)
{
    mp_graph *graph = random_graph(3, 6, MP_FUSE_FORWARD, false);
    size_t n;
    mp_step *steps = random_schedule(graph, 3, 5, &n);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_timeline *tl = NULL;
        mp_alloc_budget = k;
        st = mp_timeline_build(graph, steps, n, &tl, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) {
            assert_int_equal(st, MP_NOMEM);
            assert_null(tl);
        }
        mp_timeline_free(tl);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_free(steps);
    mp_graph_free(graph);
}
