/* test_exact.c - the exact searcher and its proofs, against an independent search over all schedules. This search is compared
 * with the timeline and the checker. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/plan.h"
#include "memplan/solver.h"
#include "memplan/timeline.h"
#include "planner/exact/exact.h"
#include "planner/order/order.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 300, EACH = 6, BUDGETS = 5, MOST_JUDGED = 6 };

typedef struct range {
    int64_t floor_bytes, keep_all_bytes;
} range;

static range range_of(const mp_graph *graph)
{
    range r;
    int node;
    mp_answer all;
    const mp_request none = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "none"};
    assert_int_equal(mp_solve(&none, &all, NULL), MP_OK);
    assert_int_equal(mp_floor(graph, &r.floor_bytes, &node, NULL), MP_OK);
    r.keep_all_bytes = all.smallest->peak_bytes;
    mp_answer_free(&all);
    return r;
}

static int64_t budget_of(const range *r, int k)
{
    return r->floor_bytes + (r->keep_all_bytes - 1 - r->floor_bytes) * k / (BUDGETS - 1);
}

/* Returns the ticks of the searcher's answer, which must be proved optimal. */
static int64_t proved_ticks(const mp_graph *graph, int64_t budget_bytes, bool keep_order, const char *solver)
{
    mp_answer answer;
    mp_error err = {0};
    const mp_request request = {
        .graph = graph, .budget_bytes = budget_bytes, .solver = solver, .wants_bound = true, .keep_order = keep_order};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = answer.plan ? answer.plan->ticks : -1;
    assert_true(answer.bound.infeasible == !answer.plan);
    assert_true(keep_order || !strcmp(mp_bound_orders_text(answer.bound.orders), "any-order"));
    if (answer.plan) {
        bool is_kept;
        assert_int_equal(answer.bound.ticks, ticks);
        assert_true(answer.plan->peak_bytes <= budget_bytes);
        assert_int_equal(mp_plan_check(graph, answer.plan, NULL), MP_OK);
        assert_string_equal(answer.plan->bound_covers, mp_bound_orders_text(answer.bound.orders));
        assert_int_equal(mp_order_is_kept(graph, answer.plan->steps, answer.plan->n_steps, &is_kept, NULL), MP_OK);
        assert_true(is_kept || !keep_order);
    }
    mp_answer_free(&answer);
    return ticks;
}

static void compare(bool keep_order)
{
    long n = 0, n_dearer = 0, n_infeasible = 0;
    for (uint64_t seed = EACH; seed <= SEEDS; seed += EACH) {
        const int n_forward = 2 + (int)(seed % 7);
        if (n_forward > MOST_JUDGED && seed % 5) continue; /* the independent search is slow */
        mp_graph *graph = random_graph(seed, n_forward, (mp_fuse)(seed % 3), false);
        const range r = range_of(graph);
        for (int k = 0; k < BUDGETS; k++) {
            int64_t best;
            const int64_t budget = budget_of(&r, k), ticks = proved_ticks(graph, budget, keep_order, "exact");
            if (!oracle_exact(graph, budget, !keep_order, &best)) continue; /* too many states for the independent search */
            if (ticks != best)
                fail_msg("seed %llu, budget %lld: %lld ticks, and the least is %lld", (unsigned long long)seed,
                         (long long)budget, (long long)ticks, (long long)best);
            n++;
            n_infeasible += best < 0;
            n_dearer += best > proved_ticks(graph, INT64_MAX - 1, keep_order, "none");
        }
        mp_graph_free(graph);
    }
    print_message("%ld cases: %ld infeasible, %ld that take longer than keeping all\n", n, n_infeasible, n_dearer);
    assert_true(n > 100 && n_infeasible > 10 && n_dearer > 10);
}

TEST(it_equals_all_schedules)
{
    compare(false);
}
TEST(it_equals_all_schedules_in_the_given_order)
{
    compare(true);
}

/* Every seed is tested in all fuse modes. */
TEST(updates_in_every_mode)
{
    for (uint64_t seed = 1; seed <= 30; seed++)
        for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
            mp_graph *graph = random_graph(seed, 2 + (int)(seed % 4), (mp_fuse)fuse, false);
            const range r = range_of(graph);
            for (int k = 0; k < BUDGETS; k++) {
                int64_t best;
                const int64_t budget = budget_of(&r, k);
                if (!oracle_exact(graph, budget, true, &best)) continue;
                assert_int_equal(proved_ticks(graph, budget, false, "exact"), best);
            }
            mp_graph_free(graph);
        }
}

static int add_storage(mp_graph *graph, mp_kind kind, int64_t bytes, bool carried)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    s->carried = carried;
    return (int)graph->n_storages - 1;
}

static void add_node(mp_graph *graph, mp_phase phase, int read, int write, int64_t workspace_bytes)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->phase = phase;
    node->alternatives[0].n_reads = read >= 0;
    node->alternatives[0].reads = mp_graph_list(graph, &read, read >= 0);
    node->alternatives[0].n_writes = 1;
    node->alternatives[0].writes = mp_graph_list(graph, &write, 1);
    node->alternatives[0].workspace_bytes = workspace_bytes;
}

/* A carried gradient without readers is still live in the first step, in addition to 10 + 100 bytes. */
TEST(a_carried_gradient_is_there_in_the_first_step)
{
    mp_graph *graph = NULL;
    assert_int_equal(mp_graph_new("carried", &graph, NULL), MP_OK);
    graph->fuse = MP_FUSE_FORWARD;
    const int a = add_storage(graph, MP_KIND_ACTIVATION, 10, false), g = add_storage(graph, MP_KIND_GRADIENT, 100, true);
    add_node(graph, MP_PHASE_FORWARD, -1, a, 100);
    add_node(graph, MP_PHASE_BACKWARD, a, g, 0);
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(proved_ticks(graph, 210, false, "exact"), 0);
    assert_int_equal(proved_ticks(graph, 209, false, "exact"), -1);
    mp_graph_free(graph);
}

/* A gradient that is accumulated over micro-batches is static. The update waits for both nodes that add to it. */
TEST(an_update_waits_for_all_nodes_that_add_to_a_static_gradient)
{
    mp_graph *graph = NULL;
    mp_exact_graph x = {0};
    const int64_t tier_bytes[MP_MAX_TIERS] = {0};
    assert_int_equal(mp_graph_new("accumulated", &graph, NULL), MP_OK);
    graph->fuse = MP_FUSE_BACKWARD;
    const int w = add_storage(graph, MP_KIND_PARAMETER, 10, false), a = add_storage(graph, MP_KIND_ACTIVATION, 10, false),
              g = add_storage(graph, MP_KIND_GRADIENT, 10, false);
    graph->storages[g].persistent = true;
    add_node(graph, MP_PHASE_FORWARD, w, a, 0);
    for (int k = 0; k < 2; k++) {
        add_node(graph, MP_PHASE_BACKWARD, a, g, 0);
        mp_alternative *adder = graph->nodes[graph->n_nodes - 1].alternatives;
        adder->adds = adder->writes;
        adder->n_adds = 1;
        adder->n_writes = 0;
    }
    add_node(graph, MP_PHASE_UPDATE, g, w, 0);
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_exact_graph_read(graph, MP_NO_LIMIT, tier_bytes, false, &x, NULL), MP_OK);
    assert_int_equal(x.nodes[3].alternatives[0].after, mp_exact_one(1) | mp_exact_one(2));
    mp_exact_graph_free(&x);
    mp_graph_free(graph);
}

/* Chains are larger: a larger budget must not give a slower plan, and no other searcher finds a faster one. */
TEST(chains)
{
    long n_cheaper = 0;
    for (int64_t bytes = 1; bytes <= 7; bytes += 3) {
        mp_graph *graph = NULL;
        int64_t before = INT64_MAX;
        assert_int_equal(chain_graph(8, bytes, 40, true, &graph, NULL), MP_OK);
        const range r = range_of(graph);
        for (int k = 0; k < BUDGETS; k++) {
            const int64_t budget = budget_of(&r, k), ticks = proved_ticks(graph, budget, false, "exact");
            assert_true(ticks < 0 || ticks <= before);
            if (ticks < 0) assert_int_equal(before, INT64_MAX);
            if (ticks >= 0) before = ticks;
            for (size_t i = 1; i < mp_solver_count(); i++) {
                mp_answer answer;
                const mp_request request = {
                    .graph = graph, .budget_bytes = budget, .solver = mp_solver_row(i)->name, .moves = 300};
                if (mp_solver_row(i)->wants_copies) continue;
                assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
                assert_true(!answer.plan || (ticks >= 0 && ticks <= answer.plan->ticks));
                n_cheaper += ticks >= 0 && (!answer.plan || ticks < answer.plan->ticks);
                mp_answer_free(&answer);
            }
        }
        mp_graph_free(graph);
    }
    assert_true(n_cheaper > 0);
}

/* In a portfolio, its proof ends the search, and the answer is marked as proved. */
TEST(auto_takes_its_proof)
{
    long n_found = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mp_graph *graph = random_graph(seed, 4, (mp_fuse)(seed % 3), false);
        const range r = range_of(graph);
        for (int k = 0; k < BUDGETS; k++) {
            const int64_t budget = budget_of(&r, k);
            mp_answer answer;
            const mp_request request = {.graph = graph, .budget_bytes = budget, .moves = 1000};
            assert_true(graph->n_nodes <= 32);
            const int64_t ticks = proved_ticks(graph, budget, false, "exact");
            assert_int_equal(proved_ticks(graph, budget, false, NULL), ticks);
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            assert_int_equal(answer.bound.ticks, -1); /* no bound was requested */
            assert_false(answer.bound.infeasible);
            if (answer.plan) assert_true(!strcmp(answer.plan->solver, "exact") || !strcmp(answer.plan->solver, "none"));
            n_found += answer.plan && !strcmp(answer.plan->solver, "exact");
            mp_answer_free(&answer);
        }
        mp_graph_free(graph);
    }
    assert_true(n_found > 20);
}

/* A search with too few moves must not claim a proof. */
TEST(a_search_cut_short_proves_nothing)
{
    mp_graph *graph = random_graph(1, 14, MP_FUSE_BACKWARD, false);
    const range r = range_of(graph);
    mp_answer answer;
    mp_request request = {.graph = graph, .budget_bytes = budget_of(&r, 1), .solver = "exact", .moves = 2};
    request.wants_bound = true;
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_null(answer.plan);
    assert_false(answer.bound.infeasible);
    mp_answer_free(&answer);
    request.moves = 0;
    request.time_limit = 1e-9;
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_true(answer.stopped);
    assert_false(answer.bound.infeasible);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

TEST(what_is_too_large_is_refused)
{
    mp_graph *large = NULL;
    mp_answer answer = {0};
    mp_error err = {0};
    assert_int_equal(chain_graph(400, 8, 0, true, &large, NULL), MP_OK);
    const long live = mp_alloc_live;
    const mp_request request = {.graph = large, .budget_bytes = 100, .solver = "exact"};
    assert_int_equal(mp_solve(&request, &answer, &err), MP_NOT_APPLICABLE);
    assert_non_null(strstr(err.message, "too large"));
    assert_int_equal(mp_alloc_live, live);
    mp_graph_free(large);
}

TEST(running_out_of_memory_is_reported)
{
    mp_graph *graph = random_graph(11, 6, MP_FUSE_FORWARD, false);
    const range r = range_of(graph);
    const mp_request request = {.graph = graph, .budget_bytes = budget_of(&r, 3), .solver = "exact"};
    const long live = mp_alloc_live;
    long n_failed = 0;
    for (long budget = 0;; budget++) {
        mp_answer answer = {0};
        mp_alloc_budget = budget;
        const mp_status st = mp_solve(&request, &answer, NULL);
        mp_alloc_budget = -1;
        mp_answer_free(&answer);
        assert_int_equal(mp_alloc_live, live);
        if (st == MP_OK) break;
        assert_int_equal(st, MP_NOMEM);
        n_failed++;
    }
    assert_true(n_failed > 10);
    mp_graph_free(graph);
}

/* The oracle's plans pass the checker and fit. With exactly their peak as the budget, their ticks are equal. Fewer permitted
 * orders or a smaller budget never reduce the ticks. No random schedule with the same peak has fewer ticks. */
TEST(oracle_agrees_with_the_timeline)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = tiny_graph(seed);
        mp_timeline *tl;
        for (int k = 0; k < 5; k++) {
            int64_t budget = tiny_budget(graph, k), peak_bytes, before = 0;
            for (int any = 1; any >= 0; any--) {
                int64_t ticks, again;
                mp_step *steps;
                mp_plan *plan;
                size_t n;
                assert_true(oracle_exact_plan(graph, budget, any, &ticks, &steps, &n, &peak_bytes));
                if (ticks < 0) break;
                assert_true(ticks >= before);
                before = ticks;
                assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
                assert_true(tl->peak_bytes <= peak_bytes && peak_bytes <= budget);
                assert_int_equal(tl->ticks, ticks);
                assert_true(oracle_exact(graph, tl->peak_bytes, any, &again));
                assert_int_equal(again, ticks);
                assert_int_equal(mp_plan_new(graph, "oracle", steps, n, &plan, NULL), MP_OK);
                assert_int_equal(mp_plan_check(graph, plan, NULL), MP_OK);
                mp_plan_free(plan);
                mp_timeline_free(tl);
                free(steps);
            }
        }
        for (uint64_t k = 0; k < 10; k++) {
            size_t n;
            int64_t ticks;
            mp_step *steps = random_schedule(graph, seed + 1000 * k, (int)k, &n);
            assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
            assert_true(oracle_exact(graph, tl->peak_bytes, true, &ticks));
            if (ticks < 0 || ticks > tl->ticks)
                fail_msg("seed %llu, schedule %llu", (unsigned long long)seed, (unsigned long long)k);
            mp_timeline_free(tl);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
}
