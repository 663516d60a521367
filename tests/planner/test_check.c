/* test_check.c - planner/check accepts valid plans, and refuses every kind of corruption with a message that names the fault.
 *
 * With MEMPLAN_DUMP=FOLDER set, graphs and plans are also written there, so that check_plans.sh can compare verdicts. */
#include "estimator/base/memory.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/graph_json.h"
#include "memplan/planning.h"
#include "planner/solve/solver.h"
#include "tests/cases/test.h"
#include "tests/oracles/corruptions.h"
#include "tests/oracles/random_beside.h"

/* Returns a graph and a valid plan for it, with offsets, a budget and a true floor. */
static mp_plan *random_plan(uint64_t seed, int percent_beside, mp_graph **graph)
{
    mp_plan *plan = NULL;
    mp_error err = {0};
    size_t n;
    *graph = random_graph(seed, 2 + (int)(seed % 9), (mp_fuse)(seed % MP_N_FUSES), seed % 7 == 0);
    mp_step *steps = random_schedule(*graph, seed, (int)(seed % 4) * 5, &n);
    random_beside(*graph, seed, percent_beside, steps, n);
    if (mp_plan_new(*graph, "test", steps, n, &plan, &err) != MP_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    mp_free(steps);
    plan->seed = seed;
    if (percent_beside)
        assert_int_equal(mp_arena_layout(*graph, plan, &err), MP_OK);
    else
        place_first_fit(*graph, plan);
    if (plan->n_places) plan->budget_bytes = plan->static_bytes + plan->arena_bytes;
    return plan;
}

static void dump(const mp_graph *graph, const mp_plan *plan, const char *verdict, const char *name, uint64_t seed)
{
    const char *folder = getenv("MEMPLAN_DUMP");
    char path[512];
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%s-%s-%llu.graph.json", folder, verdict, name, (unsigned long long)seed);
    assert_int_equal(mp_graph_write(graph, path, NULL), MP_OK);
    snprintf(path, sizeof path, "%s/%s-%s-%llu.plan.json", folder, verdict, name, (unsigned long long)seed);
    assert_int_equal(mp_plan_write(plan, graph, path, NULL), MP_OK);
}

TEST(plans_that_hold_are_accepted)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        mp_graph *graph;
        mp_error err = {0};
        mp_plan *plan = random_plan(seed, 0, &graph);
        if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        if (seed <= 100) dump(graph, plan, "holds", "as-made", seed);
        int unused;
        assert_int_equal(mp_floor(graph, &plan->floor_bytes, &unused, &err), MP_OK);
        plan->lower_bound_seconds = plan->baseline_seconds;
        mp_free(plan->recompute); /* without these claims the plan must still be valid */
        mp_free(plan->frees_start);
        mp_free(plan->frees);
        plan->recompute = NULL;
        plan->frees_start = plan->frees = NULL;
        plan->graph_hash[0] = '\0';
        plan->n_checkpoints = plan->n_places = 0;
        plan->arena_bytes = plan->static_bytes = plan->baseline_peak_bytes = -1;
        plan->baseline_seconds = -1;
        plan->budget_bytes = plan->peak_bytes;
        if (mp_plan_check(graph, plan, &err) != MP_OK || mp_plan_check_proofs(graph, plan, true, &err) != MP_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        if (seed <= 20) dump(graph, plan, "holds", "bare", seed);
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
}

static void are_refused(const corruption *rows, size_t n, int percent_beside)
{
    for (size_t k = 0; k < n; k++) {
        const corruption *c = &rows[k];
        int n_spoilt = 0;
        for (uint64_t seed = 1; seed <= 2000 && n_spoilt < 25; seed++) {
            mp_graph *graph;
            mp_error err = {0};
            random_source random = {seed * 31 + k};
            mp_plan *plan = random_plan(seed, percent_beside, &graph);
            if (c->spoil(graph, plan, &random)) {
                mp_status st = mp_plan_check(graph, plan, &err);
                if (st == MP_OK) st = mp_plan_check_proofs(graph, plan, true, &err);
                if (st != MP_REFUTED && st != MP_INVALID)
                    fail_msg("%s, seed %llu: status %d %s", c->name, (unsigned long long)seed, (int)st, err.message);
                if (!strstr(err.message, c->fault))
                    fail_msg("%s, seed %llu: %s", c->name, (unsigned long long)seed, err.message);
                if (n_spoilt++ < 4 && !percent_beside) /* the independent verifier does not support a second stream */
                    dump(graph, plan, c->own_claim ? "stricter" : "spoilt", c->name, seed);
            }
            mp_plan_free(plan);
            mp_graph_free(graph);
        }
        if (n_spoilt < 10) fail_msg("only %d plans could be spoilt by %s", n_spoilt, c->name);
    }
    assert_int_equal(mp_alloc_live, 0);
}

TEST(every_kind_of_wrong_steps_and_claims_is_refused)
{
    are_refused(corruptions, n_corruptions, 0);
}

TEST(every_kind_of_wrong_offsets_is_refused)
{
    are_refused(corruptions_of_places, n_corruptions_of_places, 0);
}

TEST(every_wrong_use_of_the_second_stream_is_refused)
{
    are_refused(corruptions_beside, n_corruptions_beside, 70);
}

/* Repeats a check while allowing more and more allocations, until it succeeds. */
TEST(check_survives_every_allocation_failure)
{
    mp_graph *graph;
    mp_plan *plan = random_plan(8, 0, &graph);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_alloc_budget = k;
        st = mp_plan_check(graph, plan, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_plan_free(plan);
    mp_graph_free(graph);
}

TEST(a_new_plan_survives_every_allocation_failure)
{
    size_t n;
    mp_graph *graph = random_graph(5, 6, MP_FUSE_NONE, false);
    mp_step *steps = random_schedule(graph, 5, 6, &n);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_plan *plan = NULL;
        mp_alloc_budget = k;
        st = mp_plan_new(graph, "test", steps, n, &plan, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || (st == MP_NOMEM && !plan));
        mp_plan_free(plan);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_free(steps);
    mp_graph_free(graph);
}

/* f0 writes a; f1 reads a and writes b; backward reads b's gradient and a. If a is recomputed before backward, it is not a
 * checkpoint. */
TEST(checkpoints_are_what_backward_reads_of_the_first_run)
{
    mp_graph *g;
    mp_storage *s;
    mp_node *node;
    static const mp_kind kinds[] = {MP_KIND_ACTIVATION, MP_KIND_ACTIVATION, MP_KIND_ACTIVATION_GRADIENT};
    static const struct {
        mp_phase phase;
        int reads[2], n_reads, writes;
    } nodes[] = {{MP_PHASE_FORWARD, {0}, 0, 0},
                 {MP_PHASE_FORWARD, {0}, 1, 1},
                 {MP_PHASE_LOSS, {1}, 1, 2},
                 {MP_PHASE_BACKWARD, {2, 0}, 2, -1}};
    assert_int_equal(mp_graph_new("two", &g, NULL), MP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->bytes = 4;
        s->kind = kinds[i];
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        node->phase = nodes[i].phase;
        node->alternatives[0].n_reads = (size_t)nodes[i].n_reads;
        node->alternatives[0].reads = mp_graph_list(g, nodes[i].reads, (size_t)nodes[i].n_reads);
        node->alternatives[0].n_writes = nodes[i].writes >= 0;
        node->alternatives[0].writes = mp_graph_list(g, &nodes[i].writes, 1);
    }
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    int found[3];
    size_t n;
    const mp_step keep[] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}},
                  again[] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {0, 0, 0}, {3, 0, 0}};
    assert_int_equal(mp_plan_checkpoints(g, keep, 4, found, &n, NULL), MP_OK);
    assert_true(n == 1 && found[0] == 0); /* b is not a checkpoint, because only the loss reads it */
    assert_int_equal(mp_plan_checkpoints(g, again, 5, found, &n, NULL), MP_OK);
    assert_int_equal(n, 0);

    mp_plan *plan;
    assert_int_equal(mp_plan_new(g, "hand", again, 5, &plan, NULL), MP_OK);
    assert_true(plan->recompute[3] && !plan->recompute[0]);
    assert_true(plan->peak_bytes == 8 && plan->baseline_peak_bytes == 12 && plan->n_checkpoints == 0);
    const int frees_start[] = {0, 0, 1, 2, 2, 4}, frees[] = {0, 1, 2, 0};
    assert_memory_equal(plan->frees_start, frees_start, sizeof frees_start);
    assert_memory_equal(plan->frees, frees, sizeof frees);
    mp_plan_free(plan);
    mp_graph_free(g);
}

/* f0 writes x of 512 bytes. f1 reads x, and writes y in the memory of x and z elsewhere, 256 bytes each. x stays live until f1
 * ends, including the bytes that y does not take over, so z must not overlap them. */
TEST(an_output_in_place_does_not_hide_its_input)
{
    mp_graph *g;
    mp_plan *plan;
    mp_storage *s;
    mp_node *node;
    mp_error err = {0};
    assert_int_equal(mp_graph_new("in place", &g, NULL), MP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->bytes = i ? 256 : 512;
        s->kind = MP_KIND_ACTIVATION;
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        node->alternatives[0].n_writes = i ? 2 : 1;
        node->alternatives[0].writes = mp_graph_list(g, i ? (int[]){1, 2} : (int[]){0}, i ? 2 : 1);
    }
    node->alternatives[0].n_reads = node->alternatives[0].n_in_place = 1;
    node->alternatives[0].reads = mp_graph_list(g, (int[]){0}, 1);
    node->alternatives[0].in_place = &(mp_in_place){0, 1};
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_int_equal(mp_plan_new(g, "hand", (mp_step[]){{0, 0, 0}, {1, 0, 0}}, 2, &plan, NULL), MP_OK);
    assert_true(plan->peak_bytes == 768);
    plan->places = mp_alloc(3, sizeof *plan->places);
    plan->n_places = 3;
    for (int y = 1; y <= 2; y++) { /* both orders of the offsets */
        plan->places[0] = (mp_place){0, 0, 2, 0, 512};
        plan->places[y] = (mp_place){1, 1, 2, 0, 256};
        plan->places[3 - y] = (mp_place){2, 1, 2, 512, 256};
        plan->arena_bytes = 768;
        if (mp_plan_check(g, plan, &err) != MP_OK) fail_msg("%s", err.message);
        plan->places[3 - y].offset = 256;
        plan->arena_bytes = 512;
        assert_int_equal(mp_plan_check(g, plan, &err), MP_REFUTED);
        assert_non_null(strstr(err.message, "overlap in step 1"));
    }
    mp_plan_free(plan);
    mp_graph_free(g);
}

/* ---- a plan at other sizes of its graph ---- */

enum { LAYERS = 16 };

/* A chain of layers. Each activation and gradient has `bytes`, each forward takes `ticks`, each backward twice as much. */
static mp_planning *chain(int n, int64_t bytes, int64_t ticks)
{
    int a[LAYERS + 2], g[LAYERS + 2];
    mp_planning *p = mp_planning_new("chain", 1);
    for (int k = 0; k <= n; k++) a[k] = mp_planning_add_storage(p, "a", k ? "activation" : "input", bytes);
    for (int k = 0; k <= n; k++) g[k] = mp_planning_add_storage(p, "g", "activation_gradient", bytes);
    for (int k = 1; k <= n; k++) {
        const int f = mp_planning_add_node(p, "f", "Layer", "forward", ticks, 0);
        assert_int_equal(mp_planning_connect(p, f, "reads", &a[k - 1], 1), MP_OK);
        assert_int_equal(mp_planning_connect(p, f, "writes", &a[k], 1), MP_OK);
    }
    const int loss = mp_planning_add_node(p, "loss", "Loss", "loss", ticks, 0);
    assert_int_equal(mp_planning_connect(p, loss, "reads", &a[n], 1), MP_OK);
    assert_int_equal(mp_planning_connect(p, loss, "writes", &g[n], 1), MP_OK);
    for (int k = n; k >= 1; k--) {
        const int b = mp_planning_add_node(p, "b", "Layer", "backward", 2 * ticks, 0);
        assert_int_equal(mp_planning_connect(p, b, "reads", (const int[]){a[k - 1], g[k]}, 2), MP_OK);
        assert_int_equal(mp_planning_connect(p, b, "writes", &g[k - 1], 1), MP_OK);
    }
    if (mp_planning_finish(p) != MP_OK) fail_msg("%s", mp_planning_message(p));
    return p;
}

/* All sizes of the second chain are multiples of the first one's, so its peak and time are these multiples. */
TEST(a_replayed_plan_has_the_numbers_of_the_other_sizes)
{
    int before[256], after[256];
    mp_planning *p = chain(LAYERS, 100, 1), *larger = chain(LAYERS, 300, 7);
    assert_int_equal(mp_planning_solve(p, 1000), MP_OK);
    const int64_t peak = mp_planning_number(p, "planned_bytes"), ticks = mp_planning_number(p, "planned_ticks");
    assert_in_range(ticks, mp_planning_number(p, "keep_all_ticks") + 1, 1000);
    assert_string_not_equal(mp_planning_hash(p), mp_planning_hash(larger));
    assert_int_equal(mp_planning_take(larger, 3000, mp_planning_plan(p)), MP_INVALID); /* the plan of another graph */
    if (mp_planning_replay(larger, 3000, mp_planning_plan(p)) != MP_OK) fail_msg("%s", mp_planning_message(larger));
    assert_int_equal(mp_planning_number(larger, "planned_bytes"), 3 * peak);
    assert_int_equal(mp_planning_number(larger, "planned_ticks"), 7 * ticks);
    assert_int_equal(mp_planning_number(larger, "bound_ticks"), -1);
    const size_t n = mp_planning_steps(p, before, 256);
    assert_int_equal(mp_planning_steps(larger, after, 256), n);
    assert_memory_equal(before, after, n * sizeof *before);
    /* a budget one byte below its peak at these sizes */
    assert_int_equal(mp_planning_replay(larger, 3 * peak - 1, mp_planning_plan(p)), MP_INFEASIBLE);
    assert_int_equal(mp_planning_number(larger, "planned_bytes"), -1);
    assert_int_equal(mp_planning_number(larger, "smallest_bytes"), 3 * peak);
    mp_planning_free(p);
    mp_planning_free(larger);
}

TEST(steps_of_another_graph_are_refused)
{
    mp_planning *p = chain(LAYERS, 100, 1), *shorter = chain(LAYERS - 1, 100, 1), *longer = chain(LAYERS + 1, 100, 1);
    assert_int_equal(mp_planning_solve(p, 1000), MP_OK);
    assert_int_equal(mp_planning_solve(shorter, 900), MP_OK);
    const int64_t before = mp_planning_number(shorter, "planned_bytes");
    assert_int_not_equal(mp_planning_replay(shorter, 1000, mp_planning_plan(p)), MP_OK);
    assert_int_equal(mp_planning_number(shorter, "planned_bytes"), before); /* unchanged */
    assert_int_not_equal(mp_planning_replay(longer, 1000, mp_planning_plan(p)), MP_OK);
    assert_int_equal(mp_planning_number(longer, "planned_bytes"), -1);
    mp_planning_free(p);
    mp_planning_free(shorter);
    mp_planning_free(longer);
}

TEST(a_missing_part_has_a_sentence)
{
    assert_int_equal(mp_planning_replay(NULL, 100, NULL), MP_INVALID);
    mp_planning *p = chain(1, 100, 1), *open = mp_planning_new("open", 1);
    assert_int_equal(mp_planning_replay(p, 100, NULL), MP_INVALID);
    assert_string_equal(mp_planning_message(p), "the plan is NULL");
    assert_int_equal(mp_planning_solve(p, INT64_MAX), MP_OK);
    assert_int_equal(mp_planning_replay(open, 100, mp_planning_plan(p)), MP_INVALID);
    assert_string_equal(mp_planning_message(open), "the graph is not finished");
    mp_planning_free(p);
    mp_planning_free(open);
}
