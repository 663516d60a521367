/* test_second_stream.c - updates on a second stream: lifetimes and waits against hand-computed numbers, the checker's verdict
 * on random plans with waits, and files. Invalid waits are tested in test_check. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "planner/plan/check.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_beside.h"
#include "tests/oracles/random_graph.h"

/* b0 writes the gradient g of w; the update has a workspace of 2. b1 also reads g and may write its output in the memory of g;
 * b2 and b3 continue from there. Each step takes 10 ticks, the update 15. */
enum { W, G, A1, A2, A3, N_STORAGES };
enum { B0, UPDATE, B1, B2, B3, N_NODES };

static mp_graph *chain(void)
{
    static const struct {
        mp_kind kind;
        int64_t bytes;
        const char *name;
    } storages[N_STORAGES] = {{MP_KIND_PARAMETER, 100, "w"},
                              {MP_KIND_GRADIENT, 8, "g"},
                              {MP_KIND_ACTIVATION_GRADIENT, 5, "a1"},
                              {MP_KIND_ACTIVATION_GRADIENT, 4, "a2"},
                              {MP_KIND_ACTIVATION_GRADIENT, 3, "a3"}};
    static const struct {
        int read, write;
        const char *name;
    } nodes[N_NODES] = {{W, G, "b0"}, {G, W, "update"}, {G, A1, "b1"}, {A1, A2, "b2"}, {A2, A3, "b3"}};
    mp_graph *g;
    assert_int_equal(mp_graph_new("chain", &g, NULL), MP_OK);
    g->fuse = MP_FUSE_BACKWARD;
    for (int s = 0; s < N_STORAGES; s++) {
        mp_storage *storage;
        assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
        storage->kind = storages[s].kind;
        storage->bytes = storage->payload_bytes = storages[s].bytes;
        storage->name = storages[s].name;
    }
    for (int k = 0; k < N_NODES; k++) {
        mp_node *node;
        const int update_reads[] = {W, G};
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        node->name = nodes[k].name;
        node->phase = k == UPDATE ? MP_PHASE_UPDATE : MP_PHASE_BACKWARD;
        mp_alternative *f = &node->alternatives[0];
        f->n_reads = k == UPDATE ? 2 : 1;
        f->reads = mp_graph_list(g, k == UPDATE ? update_reads : &nodes[k].read, f->n_reads);
        f->writes = mp_graph_list(g, &nodes[k].write, 1);
        f->n_writes = 1;
        f->ticks = k == UPDATE ? 15 : 10;
        f->workspace_bytes = k == UPDATE ? 2 : 0;
    }
    mp_alternative *b1 = &g->nodes[B1].alternatives[0];
    b1->in_place = mp_pool_alloc(g->pool, 1, sizeof *b1->in_place);
    b1->in_place[0] = (mp_in_place){G, A1};
    b1->n_in_place = 1;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

TEST(lifetimes_end_where_the_wait_is)
{
    static const struct {
        int until;
        int64_t live[5], between[6];
        int last_of_g, room_of_a1;
    } cases[] = {
        /* a1 takes over the memory of g while g is still needed */
        {0, {8, 10, 8, 9, 7}, {100, 108, 108, 105, 104, 100}, 2, G},
        {2, {8, 10, 8, 9, 7}, {100, 108, 108, 105, 104, 100}, 2, G},
        /* the update reads g during b1, so a1 needs other memory, and the update's workspace stays allocated */
        {3, {8, 10, 8 + 2 + 5, 9, 7}, {100, 108, 110, 105, 104, 100}, 2, -1},
        {5, {8, 10, 8 + 2 + 5, 8 + 2 + 9, 8 + 2 + 7}, {100, 108, 110, 115, 114, 100}, 4, -1},
    };
    mp_graph *g = chain();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const mp_step steps[] = {{B0, 0, 0}, {UPDATE, 0, cases[k].until}, {B1, 0, 0}, {B2, 0, 0}, {B3, 0, 0}};
        mp_timeline *tl;
        mp_plan *plan;
        mp_error err = {0};
        int64_t between[6];
        assert_int_equal(mp_timeline_build(g, steps, 5, &tl, NULL), MP_OK);
        assert_memory_equal(tl->live_bytes, cases[k].live, sizeof cases[k].live);
        assert_int_equal(tl->ticks, 55);
        assert_int_equal(tl->spans[0].storage, G);
        assert_int_equal(tl->spans[0].end, cases[k].last_of_g + 1);
        assert_int_equal(tl->spans[1].takes_over, cases[k].room_of_a1);
        mp_timeline_between(g, tl, between);
        assert_memory_equal(between, cases[k].between, sizeof between);
        mp_timeline_free(tl);
        assert_int_equal(mp_plan_new(g, "", steps, 5, &plan, NULL), MP_OK);
        assert_int_equal(mp_arena_layout(g, plan, NULL), MP_OK);
        if (mp_plan_check(g, plan, &err) != MP_OK) fail_msg("until %d: %s", cases[k].until, err.message);
        assert_int_equal(plan->arena_bytes, plan->peak_bytes - 100); /* the lifetimes of a chain cause no fragmentation */
        mp_plan_free(plan);
    }
    mp_graph_free(g);
}

static void expect(const mp_graph *g, const mp_step *steps, size_t n, const char *timeline, const char *replay)
{
    mp_error err = {0};
    mp_timeline *tl;
    mp_replay *found;
    assert_int_equal(mp_timeline_build(g, steps, n, &tl, &err), MP_INVALID);
    assert_string_equal(err.message, timeline);
    if (!replay) return;
    err = (mp_error){0};
    assert_int_equal(mp_replay_new(g, steps, n, &found, &err), MP_REFUTED);
    assert_string_equal(err.message, replay);
}

TEST(what_an_update_uses_is_left_alone)
{
    mp_graph *g = chain();
    expect(g, (const mp_step[]){{B0, 0, 0}, {UPDATE, 0, 3}, {B0, 0, 0}}, 3,
           "step 2: node 0 (b0) reads storage 0 (w), which an update on the second stream uses up to step 3",
           "step 2: node 0 (b0) reads storage 0 (w), which an update changes concurrently; the wait is at step 3");
    g->nodes[B0].alternatives[0].n_reads = 0;
    expect(g, (const mp_step[]){{B0, 0, 0}, {UPDATE, 0, 4}, {B1, 0, 0}, {B0, 0, 0}}, 4,
           "step 3: node 0 (b0) changes storage 1 (g), which an update on the second stream uses up to step 4",
           "step 3: node 0 (b0) changes storage 1 (g), which an update still reads concurrently; the wait is at "
           "step 4");
    expect(g, (const mp_step[]){{B0, 0, 2}, {UPDATE, 0, 0}}, 2,
           "step 0: node 0 (b0) is on the compute channel, where steps cannot run concurrently", NULL);
    expect(g, (const mp_step[]){{B0, 0, 0}, {UPDATE, 0, 3}}, 2,
           "step 1: node 1 (update) runs on the second stream, but no later step waits for it", NULL);
    expect(g, (const mp_step[]){{B0, 0, 0}, {UPDATE, 0, 1}, {B1, 0, 0}}, 3,
           "step 1: node 1 (update) runs on the second stream, but no later step waits for it", NULL);
    mp_graph_free(g);
}

static mp_plan *random_plan(uint64_t seed, mp_graph **graph, int *n_beside)
{
    mp_error err = {0};
    mp_plan *plan;
    size_t n;
    *graph = random_graph(seed, 2 + (int)(seed % 9), (mp_fuse)(seed % MP_N_FUSES), false);
    mp_step *steps = random_schedule(*graph, seed, (int)(seed % 4) * 5, &n);
    *n_beside = random_beside(*graph, seed, 70, steps, n);
    if (mp_plan_new(*graph, "test", steps, n, &plan, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
    mp_free(steps);
    if (mp_arena_layout(*graph, plan, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
    return plan;
}

TEST(random_plans_with_waits_are_accepted_and_come_back)
{
    char path[] = "/tmp/memplan-second-stream-XXXXXX";
    int all = 0, file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *graph;
        mp_plan *again;
        mp_error err = {0};
        int n_beside;
        mp_plan *plan = random_plan(seed, &graph, &n_beside);
        all += n_beside;
        if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        assert_int_equal(mp_plan_write(plan, graph, path, &err), MP_OK);
        if (mp_plan_read(path, graph, &again, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        assert_memory_equal(plan->steps, again->steps, plan->n_steps * sizeof *plan->steps);
        if (mp_plan_check(graph, again, &err) != MP_OK) fail_msg("seed %d, read: %s", (int)seed, err.message);
        mp_plan_free(again);
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
    assert_true(all > 150);
    unlink(path);
    assert_int_equal(mp_alloc_live, 0);
}
