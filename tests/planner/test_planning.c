/* test_planning.c - the planning handle builds the same graph as the structs, and its plans equal mp_solve's. */
#include <limits.h>
#include <math.h>

#include "estimator/base/memory.h"
#include "memplan/planning.h"
#include "memplan/solver.h"
#include "memplan/target.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

static void pass_list(mp_planning *p, int node, const char *how, const int *list, size_t n)
{
    if (n && mp_planning_connect(p, node, how, list, n) != MP_OK) fail_msg("%s", mp_planning_message(p));
}

/* Builds the same graph through the handle. */
static mp_planning *handle_of(const mp_graph *graph)
{
    mp_planning *p = mp_planning_new(graph->name, graph->tick_seconds);
    assert_non_null(p);
    for (size_t s = 0; s < graph->n_storages; s++) {
        const mp_storage *t = &graph->storages[s];
        assert_int_equal(mp_planning_add_storage(p, t->name ? t->name : "", mp_kind_name(t->kind), t->bytes), (int)s);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        const mp_alternative *a = node->alternatives;
        int pairs[64];
        assert_in_range(a->n_in_place, 0, 32);
        for (size_t k = 0; k < a->n_in_place; k++) pairs[2 * k] = a->in_place[k].from, pairs[2 * k + 1] = a->in_place[k].to;
        assert_int_equal(mp_planning_add_node(p, node->name ? node->name : "", node->op ? node->op : "",
                                              mp_phase_name(node->phase), a->ticks, a->workspace_bytes),
                         (int)i);
        pass_list(p, (int)i, "reads", a->reads, a->n_reads);
        pass_list(p, (int)i, "writes", a->writes, a->n_writes);
        pass_list(p, (int)i, "adds", a->adds, a->n_adds);
        pass_list(p, (int)i, "in_place", pairs, 2 * a->n_in_place);
        if (node->flags & MP_NODE_ONCE) assert_int_equal(mp_planning_flag(p, (int)i, "once"), MP_OK);
        if (node->flags & MP_NODE_RANDOM) assert_int_equal(mp_planning_flag(p, (int)i, "random"), MP_OK);
    }
    assert_int_equal(mp_planning_set(p, "fuse", mp_fuse_name(graph->fuse)), MP_OK);
    if (mp_planning_finish(p) != MP_OK) fail_msg("%s", mp_planning_message(p));
    return p;
}

/* A chain of n layers of 100 bytes each; the gradient of the first activation has no reader. */
static mp_planning *chain(int n)
{
    enum { MOST = 64 };
    int a[MOST], g[MOST];
    mp_planning *p = mp_planning_new("chain", 1);
    for (int k = 0; k <= n; k++) a[k] = mp_planning_add_storage(p, "a", k ? "activation" : "input", 100);
    for (int k = 0; k <= n; k++) g[k] = mp_planning_add_storage(p, "g", "activation_gradient", 100);
    for (int k = 1; k <= n; k++) {
        const int f = mp_planning_add_node(p, "f", "Layer", "forward", 1, 0);
        pass_list(p, f, "reads", &a[k - 1], 1);
        pass_list(p, f, "writes", &a[k], 1);
    }
    const int loss = mp_planning_add_node(p, "loss", "Loss", "loss", 1, 0);
    pass_list(p, loss, "reads", &a[n], 1);
    pass_list(p, loss, "writes", &g[n], 1);
    for (int k = n; k >= 1; k--) {
        const int b = mp_planning_add_node(p, "b", "Layer", "backward", 2, 0);
        pass_list(p, b, "reads", (const int[]){a[k - 1], g[k]}, 2);
        pass_list(p, b, "writes", &g[k - 1], 1);
    }
    if (mp_planning_finish(p) != MP_OK) fail_msg("%s", mp_planning_message(p));
    return p;
}

static void assert_list(const int *mine, size_t n_mine, const int *theirs, size_t n_theirs)
{
    assert_int_equal(n_mine, n_theirs);
    if (n_mine) assert_memory_equal(mine, theirs, n_mine * sizeof *mine);
}

TEST(a_graph_through_the_handle_is_the_one_that_structs_make)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        mp_graph *graph = random_graph(seed, 6, seed % 2 ? MP_FUSE_BACKWARD : MP_FUSE_NONE, false);
        mp_planning *p = handle_of(graph);
        const mp_graph *mine = mp_planning_graph(p);
        assert_int_equal(mine->n_storages, graph->n_storages);
        assert_int_equal(mine->n_nodes, graph->n_nodes);
        assert_int_equal(mine->fuse, graph->fuse);
        for (size_t s = 0; s < graph->n_storages; s++) {
            assert_int_equal(mine->storages[s].bytes, graph->storages[s].bytes);
            assert_int_equal(mine->storages[s].kind, graph->storages[s].kind);
        }
        for (size_t i = 0; i < graph->n_nodes; i++) {
            const mp_alternative *a = mine->nodes[i].alternatives, *b = graph->nodes[i].alternatives;
            assert_int_equal(mine->nodes[i].phase, graph->nodes[i].phase);
            assert_int_equal(mine->nodes[i].flags, graph->nodes[i].flags & (MP_NODE_ONCE | MP_NODE_RANDOM));
            assert_int_equal(a->ticks, b->ticks);
            assert_int_equal(a->workspace_bytes, b->workspace_bytes);
            assert_list(a->reads, a->n_reads, b->reads, b->n_reads);
            assert_list(a->writes, a->n_writes, b->writes, b->n_writes);
            assert_list(a->adds, a->n_adds, b->adds, b->n_adds);
            assert_list((const int *)a->in_place, 2 * a->n_in_place, (const int *)b->in_place, 2 * b->n_in_place);
        }
        mp_planning_free(p);
        mp_graph_free(graph);
    }
}

TEST(an_answer_is_that_of_mp_solve_and_holds_in_the_simulator)
{
    int n_plans = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        mp_graph *graph = random_graph(seed, 6, seed % 2 ? MP_FUSE_BACKWARD : MP_FUSE_NONE, false);
        mp_planning *p = handle_of(graph);
        const int64_t all = mp_planning_number(p, "keep_all_bytes"), floor = mp_planning_number(p, "floor_bytes");
        const mp_request request = {
            .graph = mp_planning_graph(p), .budget_bytes = floor + (all - floor) / 2, .wants_bound = true};
        mp_answer answer = {0};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        const mp_status st = mp_planning_solve(p, request.budget_bytes);
        assert_int_equal(st, answer.plan ? MP_OK : MP_INFEASIBLE);
        assert_int_equal(floor, answer.floor_bytes);
        assert_int_equal(mp_planning_number(p, "bound_ticks"), answer.bound.ticks);
        assert_int_equal(mp_planning_number(p, "smallest_bytes"), answer.smallest->peak_bytes);
        if (answer.plan) {
            int nodes[256];
            mp_step steps[256] = {{0}};
            const size_t n = mp_planning_steps(p, nodes, 256);
            assert_in_range(n, 1, 256);
            assert_int_equal(n, mp_planning_number(p, "n_steps"));
            for (size_t t = 0; t < n; t++) steps[t].node = nodes[t];
            simulation s = simulate(mp_planning_graph(p), steps, n);
            assert_int_equal(s.tiers[0].peak_bytes, mp_planning_number(p, "planned_bytes"));
            assert_int_equal(s.ticks, mp_planning_number(p, "planned_ticks"));
            assert_true(s.tiers[0].peak_bytes <= request.budget_bytes);
            simulation_free(&s);
            n_plans++;
        }
        mp_answer_free(&answer);
        mp_planning_free(p);
        mp_graph_free(graph);
    }
    assert_in_range(n_plans, 6, 12);
}

TEST(a_budget_that_cannot_be_met_says_the_smallest_and_who_holds_it)
{
    mp_planning *p = chain(16);
    int node = -1, holders[17];
    /* by hand: at the loss, activations 1 to 16 (0 is an input) and the first gradient (storage 17 + 16) are live */
    assert_int_equal(mp_planning_number(p, "static_bytes"), 100);
    assert_int_equal(mp_planning_number(p, "keep_all_bytes"), 100 + 16 * 100 + 100);
    assert_int_equal(mp_planning_holders(p, &node, holders, 17), 17);
    for (int k = 0; k < 16; k++) assert_int_equal(holders[k], k + 1);
    assert_int_equal(holders[16], 33);
    assert_int_equal(node, 16);
    assert_int_equal(mp_planning_solve(p, 350), MP_INFEASIBLE);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "the smallest plan found needs %lld", (long long)mp_planning_number(p, "smallest_bytes"));
    assert_non_null(strstr(mp_planning_message(p), wanted));
    assert_int_equal(mp_planning_number(p, "planned_bytes"), -1);
    assert_int_equal(mp_planning_steps(p, holders, 8), 0);
    const size_t n = mp_planning_holders(p, &node, holders, 8);
    assert_int_equal(100 * n + 100, mp_planning_number(p, "smallest_bytes"));
    assert_in_range(node, 0, 32);
    /* the smallest plan fits in its own size */
    assert_int_equal(mp_planning_solve(p, mp_planning_number(p, "smallest_bytes")), MP_OK);
    assert_string_equal(mp_planning_message(p), "");
    mp_planning_free(p);
}

/* Computed by hand: two layers with a parameter of 100 bytes each. Their gradients die at their updates, or wait for the end of
 * backward. */
TEST(updates_within_backward_free_gradients_early)
{
    for (int fused = 0; fused < 2; fused++) {
        int w[2], dw[2], b[2];
        mp_planning *p = mp_planning_new("updates", 1);
        for (int k = 0; k < 2; k++) w[k] = mp_planning_add_storage(p, "w", "parameter", 100);
        for (int k = 0; k < 2; k++) dw[k] = mp_planning_add_storage(p, "dw", "gradient", 100);
        for (int k = 0; k < 2; k++) {
            b[k] = mp_planning_add_node(p, "b", "Layer", "backward", 1, 0);
            pass_list(p, b[k], "reads", &w[k], 1);
            pass_list(p, b[k], "writes", &dw[k], 1);
        }
        for (int k = 0; k < 2; k++) {
            const int u = mp_planning_add_node(p, "u", "SGD", "update", 1, 0);
            pass_list(p, u, "reads", (const int[]){w[k], dw[k]}, 2);
            pass_list(p, u, "writes", &w[k], 1);
        }
        if (fused) assert_int_equal(mp_planning_set(p, "fuse", "backward"), MP_OK);
        if (mp_planning_finish(p) != MP_OK) fail_msg("%s", mp_planning_message(p));
        assert_int_equal(mp_planning_set(p, "fuse", "none"), MP_INVALID);
        assert_int_equal(mp_planning_number(p, "keep_all_bytes"), 400);
        assert_int_equal(mp_planning_solve(p, 300), fused ? MP_OK : MP_INFEASIBLE);
        assert_int_equal(mp_planning_number(p, "smallest_bytes"), fused ? 300 : 400);
        mp_planning_free(p);
    }
}

TEST(what_is_wrong_has_a_sentence)
{
    mp_planning *p = mp_planning_new("wrong", 1);
    int s = mp_planning_add_storage(p, "s", "activation", 8), list[2] = {0, 0};
    assert_int_equal(s, 0);
    assert_int_equal(mp_planning_add_storage(p, "s", "tensor", 8), -1);
    assert_string_equal(mp_planning_message(p), "there is no kind of storage 'tensor'");
    assert_int_equal(mp_planning_add_node(p, "n", "", "sideways", 1, 0), -1);
    assert_string_equal(mp_planning_message(p), "there is no phase 'sideways'");
    assert_int_equal(mp_planning_add_node(p, "n", "", "forward", 1, 0), 0);
    assert_string_equal(mp_planning_message(p), "");
    assert_int_equal(mp_planning_connect(p, 1, "reads", &s, 1), MP_INVALID);
    assert_int_equal(mp_planning_connect(p, 0, "eats", &s, 1), MP_INVALID);
    assert_int_equal(mp_planning_connect(p, 0, "in_place", &s, 1), MP_INVALID);
    assert_int_equal(mp_planning_flag(p, 0, "twice"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "effort", "much"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "time_limit", "-1"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "gap", "2x"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "colour", "red"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "fuse", "forward"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "fuse", "sideways"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "effort", "quick"), MP_OK);
    assert_int_equal(mp_planning_solve(p, 100), MP_INVALID);
    assert_int_equal(mp_planning_connect(p, 0, "writes", list, 2), MP_OK); /* the same storage twice */
    assert_int_equal(mp_planning_finish(p), MP_PARSE);
    assert_int_equal(mp_planning_connect(p, 0, "writes", &s, 1), MP_OK);
    assert_int_equal(mp_planning_finish(p), MP_OK);
    assert_int_equal(mp_planning_finish(p), MP_INVALID);
    assert_int_equal(mp_planning_add_storage(p, "t", "activation", 8), -1);
    assert_int_equal(mp_planning_number(p, "colour"), -1);
    assert_int_equal(mp_planning_set(p, "solver", "nobody"), MP_OK);
    assert_int_equal(mp_planning_solve(p, 100), MP_INVALID);
    assert_string_equal(mp_planning_message(p), "there is no solver 'nobody'");
    mp_planning_free(p);
    mp_planning_free(NULL);
}

TEST(without_a_handle_every_call_fails)
{
    const int s = 0;
    int node = -1, list[1];
    assert_string_equal(mp_planning_message(NULL), "the handle is NULL");
    assert_null(mp_planning_error(NULL));
    assert_string_equal(mp_planning_hash(NULL), "");
    assert_null(mp_planning_graph(NULL));
    assert_null(mp_planning_plan(NULL));
    assert_int_equal(mp_planning_add_storage(NULL, "s", "activation", 8), -1);
    assert_int_equal(mp_planning_add_node(NULL, "n", "", "forward", 1, 0), -1);
    assert_int_equal(mp_planning_connect(NULL, 0, "reads", &s, 1), MP_INVALID);
    assert_int_equal(mp_planning_flag(NULL, 0, "once"), MP_INVALID);
    assert_int_equal(mp_planning_finish(NULL), MP_INVALID);
    assert_int_equal(mp_planning_set(NULL, "seed", "1"), MP_INVALID);
    mp_planning_on_progress(NULL, NULL, NULL);
    assert_int_equal(mp_planning_solve(NULL, 100), MP_INVALID);
    assert_int_equal(mp_planning_take(NULL, 100, NULL), MP_INVALID);
    assert_int_equal(mp_planning_number(NULL, "floor_bytes"), -1);
    assert_int_equal(mp_planning_steps(NULL, list, 1), 0);
    assert_int_equal(mp_planning_holders(NULL, &node, list, 1), 0);
}

TEST(what_is_missing_or_out_of_range_has_a_sentence)
{
    const char *const missing = "a text argument of the call is NULL";
    mp_planning *p = mp_planning_new(NULL, 1);
    assert_int_equal(mp_planning_add_storage(p, NULL, "activation", 8), -1);
    assert_string_equal(mp_planning_message(p), missing);
    assert_int_equal(mp_planning_add_storage(p, "s", NULL, 8), -1);
    assert_string_equal(mp_planning_message(p), missing);
    assert_int_equal(mp_planning_add_storage(p, "s", "activation", 8), 0);
    assert_int_equal(mp_planning_add_node(p, NULL, "", "forward", 1, 0), -1);
    assert_int_equal(mp_planning_add_node(p, "n", NULL, "forward", 1, 0), -1);
    assert_int_equal(mp_planning_add_node(p, "n", "", NULL, 1, 0), -1);
    assert_string_equal(mp_planning_message(p), missing);
    assert_int_equal(mp_planning_add_node(p, "n", "", "forward", 1, 0), 0);
    assert_int_equal(mp_planning_flag(p, 0, NULL), MP_INVALID);
    assert_int_equal(mp_planning_set(p, NULL, "1"), MP_INVALID);
    assert_int_equal(mp_planning_set(p, "seed", NULL), MP_INVALID);
    assert_string_equal(mp_planning_message(p), missing);
    const int wrong[] = {-1, 1, INT_MAX, INT_MIN};
    const char *const how[] = {"reads", "writes", "adds", "in_place"};
    for (size_t h = 0; h < 4; h++) {
        for (size_t k = 0; k < 4; k++) {
            char wanted[64];
            const int pair[] = {0, wrong[k]};
            snprintf(wanted, sizeof wanted, "storage number %d does not exist", wrong[k]);
            assert_int_equal(mp_planning_connect(p, 0, how[h], pair, 2), MP_INVALID);
            assert_string_equal(mp_planning_message(p), wanted);
        }
        assert_int_equal(mp_planning_connect(p, 0, how[h], NULL, 2), MP_INVALID);
        assert_string_equal(mp_planning_message(p), "the list of 2 storages is NULL");
        assert_int_equal(mp_planning_connect(p, 0, how[h], NULL, 0), MP_OK);
    }
    const int s = 0;
    assert_int_equal(mp_planning_connect(p, 0, NULL, &s, 1), MP_INVALID);
    assert_int_equal(mp_planning_connect(p, INT_MIN, "writes", &s, 1), MP_INVALID);
    assert_int_equal(mp_planning_connect(p, 0, "writes", &s, 1), MP_OK);
    assert_int_equal(mp_planning_take(p, 100, NULL), MP_INVALID);
    assert_string_equal(mp_planning_message(p), "the graph is not finished");
    if (mp_planning_finish(p) != MP_OK) fail_msg("%s", mp_planning_message(p));
    assert_int_equal(mp_planning_take(p, 100, NULL), MP_INVALID);
    assert_string_equal(mp_planning_message(p), "the plan is NULL");
    assert_int_equal(mp_planning_number(p, NULL), -1);
    assert_int_equal(mp_planning_solve(p, INT64_MIN), MP_INVALID);
    assert_int_equal(mp_planning_solve(p, INT64_MAX), MP_OK);
    assert_int_equal(mp_planning_steps(p, NULL, 100), 1); /* returns only the number */
    assert_int_equal(mp_planning_holders(p, NULL, NULL, 100), 1);
    mp_planning_free(p);
    for (int k = 0; k < 5; k++) { /* an invalid tick is refused when the graph is finished */
        p = mp_planning_new("tick", (const double[]){0, -1, NAN, INFINITY, -INFINITY}[k]);
        assert_int_equal(mp_planning_finish(p), MP_PARSE);
        assert_non_null(strstr(mp_planning_message(p), "a tick of"));
        mp_planning_free(p);
    }
}

TEST(an_earlier_plan_is_taken_in_place_of_a_search)
{
    int before[256], after[256];
    mp_planning *p = chain(16), *again = chain(16), *other = chain(15);
    assert_string_equal(mp_planning_hash(p), mp_planning_hash(again));
    assert_string_not_equal(mp_planning_hash(p), mp_planning_hash(other));
    assert_int_equal(mp_planning_solve(p, 1000), MP_OK);
    const mp_plan *plan = mp_planning_plan(p);
    if (mp_planning_take(again, 1000, plan) != MP_OK) fail_msg("%s", mp_planning_message(again));
    const char *const names[] = {"planned_bytes", "planned_ticks", "bound_ticks", "n_steps", "floor_bytes", "keep_all_bytes"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        assert_in_range(mp_planning_number(p, names[k]), 1, 100000);
        assert_int_equal(mp_planning_number(p, names[k]), mp_planning_number(again, names[k]));
    }
    const size_t n = mp_planning_steps(p, before, 256);
    assert_int_equal(mp_planning_steps(again, after, 256), n);
    assert_memory_equal(before, after, n * sizeof *before);
    assert_int_equal(mp_planning_number(again, "smallest_bytes"), plan->peak_bytes);
    assert_int_equal(mp_planning_take(other, 1000, plan), MP_INVALID);
    /* with a smaller budget, it becomes the smallest known plan */
    assert_int_equal(mp_planning_take(again, plan->peak_bytes - 1, plan), MP_INFEASIBLE);
    assert_int_equal(mp_planning_number(again, "smallest_bytes"), plan->peak_bytes);
    assert_int_equal(mp_planning_number(again, "planned_bytes"), -1);
    /* a plan without its last step */
    mp_plan *short_one;
    assert_int_equal(mp_plan_new(mp_planning_graph(p), "", plan->steps, plan->n_steps, &short_one, NULL), MP_OK);
    short_one->n_steps--;
    assert_int_equal(mp_planning_take(p, 1000, short_one), MP_REFUTED);
    assert_int_equal(mp_planning_steps(p, after, 256), n); /* unchanged */
    mp_plan_free(short_one);
    mp_planning_free(p);
    mp_planning_free(again);
    mp_planning_free(other);
}

/* Stops only after a plan has been found, because a slow machine may have none at the first call. */
static bool stop_with_a_plan(double elapsed_seconds, int64_t best_ticks, int64_t bound_ticks, int64_t smallest_bytes,
                             void *data)
{
    assert_true(elapsed_seconds >= 0 && best_ticks >= -1 && bound_ticks >= -1 && smallest_bytes >= -1);
    *(int *)data += best_ticks >= 0;
    return best_ticks < 0;
}

TEST(the_caller_can_stop_a_search)
{
    int calls = 0;
    mp_planning *p = chain(60);
    mp_planning_on_progress(p, stop_with_a_plan, &calls);
    assert_int_equal(mp_planning_set(p, "solver", "anneal"), MP_OK);
    assert_int_equal(mp_planning_set(p, "moves", "1000000000000"), MP_OK);
    assert_int_equal(mp_planning_set(p, "bound", "no"), MP_OK);
    assert_int_equal(mp_planning_solve(p, 3000), MP_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(mp_planning_number(p, "stopped"), 1);
    mp_planning_free(p);
}

/* A copy takes one tick each way, in parallel with computation. A plan with 100 bytes less than keep-all takes no extra tick.
 * Without copies, a layer would run again. */
TEST(a_plan_may_copy_what_it_was_told_to)
{
    enum { N = 6, MOST = 64 };
    int storages[MOST], until[MOST], nodes[MOST], n_copies = 0;
    const int a[N] = {1, 2, 3, 4, 5, 6};
    mp_planning *p = chain(N);
    const int64_t keep_all = mp_planning_number(p, "keep_all_bytes"), ticks = mp_planning_number(p, "keep_all_ticks");
    assert_int_equal(mp_planning_set(p, "solver", "anneal"), MP_OK);
    assert_int_equal(mp_planning_offload(p, a, N, "no link", 0), MP_INVALID);
    assert_string_equal(mp_planning_message(p), "there is no link 'no link' to the host's memory");
    assert_int_equal(mp_planning_offload(p, (const int[]){99}, 1, "ram", 0), MP_INVALID);
    assert_int_equal(mp_planning_offload(p, a, N, "ram", -1), MP_INVALID);
    assert_int_equal(mp_planning_offload(p, a, N, NULL, 0), MP_INVALID);
    assert_int_equal(mp_planning_offload(p, NULL, N, "ram", 0), MP_INVALID);
    assert_int_equal(mp_planning_solve(p, keep_all - 100), MP_OK);
    assert_true(mp_planning_number(p, "planned_ticks") > ticks);
    assert_int_equal(mp_planning_number(p, "host_bytes"), 0);
    const size_t n_without = mp_planning_copies(p, storages, until, MOST);
    for (size_t t = 0; t < n_without; t++) assert_true(storages[t] == -1 && until[t] == (int)t + 1);
    if (mp_planning_offload(p, a, 2, "NVIDIA H100 80GB HBM3", 1e12) != MP_OK) fail_msg("%s", mp_planning_message(p));
    assert_int_equal(mp_planning_offload(p, a, 2, "ram", 0), MP_INVALID);
    assert_int_equal(mp_planning_number(p, "keep_all_bytes"), keep_all);
    assert_int_equal(mp_planning_set(p, "host_bytes", "100"), MP_OK);
    assert_int_equal(mp_planning_solve(p, keep_all - 100), MP_OK);
    assert_int_equal(mp_planning_number(p, "planned_ticks"), ticks);
    assert_int_equal(mp_planning_number(p, "host_bytes"), 100);
    const size_t n = mp_planning_copies(p, storages, until, MOST);
    assert_int_equal(mp_planning_steps(p, nodes, MOST), n);
    for (size_t t = 0; t < n; t++) {
        assert_in_range(until[t], t + 1, n);
        if (storages[t] < 0) continue;
        assert_true(storages[t] == a[0] || storages[t] == a[1]);
        assert_true(nodes[t] == (n_copies++ ? storages[t] - 1 : 2 * N + storages[t])); /* first out, then back */
    }
    assert_int_equal(n_copies, 2);
    assert_int_equal(mp_planning_set(p, "host_bytes", "99"), MP_OK);
    mp_plan *copied;
    assert_int_equal(mp_plan_new(mp_planning_graph(p), "", mp_planning_plan(p)->steps, n, &copied, NULL), MP_OK);
    assert_int_equal(mp_planning_take(p, keep_all, copied), MP_INVALID);
    assert_string_equal(mp_planning_message(p), "the plan needs 100 bytes on the host, which is over the limit");
    mp_plan_free(copied);
    mp_planning_free(p);
}

/* Two updates with a state of 100 bytes each, one of which is moved: it is copied in before its update, and out after it. */
TEST(optimizer_state_that_is_listed_lives_on_the_host)
{
    enum { W1, W2, S1, S2, G1, G2, UPDATE2 = 3 };
    int storages[16], until[16], nodes[16], b, n_copies = 0, at_update = -1;
    mp_planning *p = mp_planning_new("two states", 1);
    for (int k = 0; k < 2; k++) mp_planning_add_storage(p, "w", "parameter", 10);
    for (int k = 0; k < 2; k++) mp_planning_add_storage(p, "s", "optimizer_state", 100);
    for (int k = 0; k < 2; k++) {
        mp_planning_add_storage(p, "g", "gradient", 10);
        b = mp_planning_add_node(p, "b", "Layer", "backward", 1, 0);
        pass_list(p, b, "reads", &(int){W1 + k}, 1);
        pass_list(p, b, "writes", &(int){G1 + k}, 1);
    }
    for (int k = 0; k < 2; k++) {
        b = mp_planning_add_node(p, "u", "Adam", "update", 1, 0);
        pass_list(p, b, "reads", (const int[]){W1 + k, S1 + k, G1 + k}, 3);
        pass_list(p, b, "writes", (const int[]){W1 + k, S1 + k}, 2);
    }
    if (mp_planning_finish(p) != MP_OK) fail_msg("%s", mp_planning_message(p));
    assert_int_equal(mp_planning_number(p, "static_bytes"), 220);
    if (mp_planning_offload(p, &(int){S2}, 1, "ram", 0) != MP_OK) fail_msg("%s", mp_planning_message(p));
    assert_true(mp_planning_number(p, "static_bytes") == 120 && mp_planning_number(p, "keep_all_bytes") == 240);
    assert_int_equal(mp_planning_set(p, "host_bytes", "99"), MP_OK);
    assert_int_equal(mp_planning_solve(p, 240), MP_INVALID);
    assert_non_null(strstr(mp_planning_message(p), "state needs 100 bytes of the tier 'host', which has 99"));
    assert_int_equal(mp_planning_set(p, "host_bytes", "100"), MP_OK);
    assert_int_equal(mp_planning_solve_smallest(p), MP_OK);
    assert_true(mp_planning_number(p, "planned_bytes") == 230 && mp_planning_number(p, "host_bytes") == 100);
    assert_int_equal(mp_planning_holders(p, NULL, nodes, 16), 2); /* the copied state, and a gradient */
    assert_true(nodes[0] == S2 && nodes[1] == G2);
    assert_true(mp_planning_copies(p, storages, until, 16) == 6 && mp_planning_steps(p, nodes, 16) == 6);
    for (int t = 0; t < 6; t++) {
        if (nodes[t] == UPDATE2) at_update = t;
        if (storages[t] < 0) continue;
        assert_true(storages[t] == S2 && nodes[t] >= 4 && until[t] > t && (n_copies++ ? at_update >= 0 : at_update < 0));
    }
    assert_int_equal(n_copies, 2);
    mp_planning_free(p);
}

/* The T4's row: 8.1 TFLOP/s, 65 of float16, 300 GB/s, 5 microseconds per kernel, 16 GiB with 2.25 reserved; and the A100's
 * TF32. */
TEST(devices_are_asked_by_name)
{
    size_t n = 0;
    while (mp_planning_device(n)) n++;
    assert_int_equal(n, mp_device_count());
    assert_string_equal(mp_planning_device(0), "cpu");
    assert_true(fabs(mp_planning_roofline("T4", "float32", 8.1e12, 0) - (1 + 5e-6)) < 1e-9);
    assert_true(fabs(mp_planning_roofline("t4", "float16", 65e12, 1) - (1 + 5e-6)) < 1e-9);
    assert_true(fabs(mp_planning_roofline("t4", "float16", 65e12, INT64_C(600000000000)) - (2 + 5e-6)) < 1e-9);
    assert_true(fabs(mp_planning_roofline("a100", "tfloat32", 156e12, 0) - (1 + 5e-6)) < 1e-9);
    assert_true(fabs(mp_planning_roofline("a100", "bfloat16", 312e12, 0) - (1 + 5e-6)) < 1e-9);
    assert_int_equal(mp_planning_capacity("t4"), (INT64_C(55) << 30) / 4);
    assert_true(mp_planning_roofline("t5", "float32", 1, 1) == -1 && mp_planning_capacity("t5") == -1);
    assert_true(mp_planning_roofline(NULL, "float32", 1, 1) == -1 && mp_planning_capacity(NULL) == -1);
    assert_true(mp_planning_roofline("t4", NULL, 1, 1) == -1);
}

/* Fails the k-th allocation of the handle, for every k until all allocations succeed. */
TEST(memory_may_run_out_anywhere)
{
    const long live = mp_alloc_live;
    bool done = false;
    for (long k = 0; !done; k++) {
        mp_alloc_budget = k;
        mp_planning *p = mp_planning_new("short", 1);
        int s = p ? mp_planning_add_storage(p, "s", "activation", 8) : -1;
        int n = s == 0 ? mp_planning_add_node(p, "n", "", "forward", 1, 0) : -1;
        mp_status st = n == 0 ? mp_planning_connect(p, n, "writes", &s, 1) : MP_NOMEM;
        if (st == MP_OK) st = mp_planning_finish(p);
        if (st == MP_OK) st = mp_planning_solve(p, 100);
        if (st == MP_OK) st = mp_planning_take(p, 100, mp_planning_plan(p));
        done = st == MP_OK;
        if (!done) assert_int_equal(st, MP_NOMEM);
        if (!done && p) assert_true(strlen(mp_planning_message(p)) > 0);
        mp_alloc_budget = -1;
        mp_planning_free(p);
        assert_int_equal(mp_alloc_live, live);
    }
}
