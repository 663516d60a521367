/* test_proof.c - the bound computed in parallel with a search equals the bound that the same call computes alone, and the plan
 * of a search does not depend on when the bound arrives. */
#include <pthread.h>
#include <stdatomic.h>

#include "estimator/base/memory.h"
#include "memplan/solver.h"
#include "planner/bound/proof.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { N_FORWARD = 24, EFFORT = 2, SEEDS = 8 };

static mp_graph *middle_graph(uint64_t seed)
{
    return random_graph(seed, N_FORWARD, (mp_fuse)(seed % MP_N_FUSES), false);
}

static int64_t tight_budget(const mp_graph *graph)
{
    return tiny_budget(graph, 2);
}

TEST(it_is_the_bound_of_the_same_call)
{
    long live = mp_alloc_live;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = middle_graph(seed);
        const mp_bound_options options = {.any_order = seed % 2, .effort = EFFORT};
        const mp_bound alone = bound_of(graph, tight_budget(graph), seed % 2, EFFORT);
        mp_proof *proof;
        mp_bound bound;
        mp_problem *problem;
        assert_int_equal(mp_problem_new(graph, &problem, NULL), MP_OK);
        assert_int_equal(mp_proof_start(problem, tight_budget(graph), &options, &proof, NULL), MP_OK);
        while (!mp_proof_wait(proof, 1.25)) continue;
        assert_int_equal(mp_proof_end(proof, &bound, NULL), MP_OK);
        assert_int_equal(bound.ticks, alone.ticks);
        assert_int_equal(bound.infeasible, alone.infeasible);
        assert_int_equal(bound.orders, alone.orders);
        assert_int_equal(bound.stage, alone.stage);
        assert_int_equal(bound.from, alone.from);
        mp_problem_free(problem);
        mp_graph_free(graph);
    }
    assert_int_equal(mp_alloc_live, live);
}

static bool waits(void *data)
{
    atomic_int *calls = data;
    atomic_fetch_add(calls, 1);
    return false;
}

/* A bound that is stopped at once is lower, but must hold. */
TEST(it_can_be_ended)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = middle_graph(seed);
        atomic_int calls = 0;
        const mp_bound_options options = {.any_order = true, .effort = EFFORT, .stop = waits, .data = &calls};
        const mp_bound alone = bound_of(graph, tight_budget(graph), true, EFFORT);
        mp_proof *proof;
        mp_bound bound;
        mp_problem *problem;
        assert_int_equal(mp_problem_new(graph, &problem, NULL), MP_OK);
        assert_int_equal(mp_proof_start(problem, tight_budget(graph), &options, &proof, NULL), MP_OK);
        assert_int_equal(mp_proof_end(proof, &bound, NULL), MP_OK);
        assert_in_range(bound.ticks, 1, alone.ticks);
        mp_problem_free(problem);
        mp_graph_free(graph);
    }
    mp_bound untouched = {.ticks = 7};
    assert_int_equal(mp_proof_end(NULL, &untouched, NULL), MP_OK);
    assert_int_equal(untouched.ticks, 7);
}

static void *turn(void *data)
{
    atomic_bool *ends = data;
    while (!atomic_load(ends)) continue;
    return NULL;
}

static void assert_same(const mp_answer *a, const mp_answer *b)
{
    assert_int_equal(!a->plan, !b->plan);
    assert_int_equal(a->bound.ticks, b->bound.ticks);
    assert_int_equal(a->bound.orders, b->bound.orders);
    const mp_plan *plans[][2] = {{a->plan, b->plan}, {a->smallest, b->smallest}};
    for (int k = !a->plan; k < 2; k++) {
        assert_int_equal(plans[k][0]->n_steps, plans[k][1]->n_steps);
        assert_string_equal(plans[k][0]->solver, plans[k][1]->solver);
        for (size_t t = 0; t < plans[k][0]->n_steps; t++) {
            assert_int_equal(plans[k][0]->steps[t].node, plans[k][1]->steps[t].node);
            assert_int_equal(plans[k][0]->steps[t].alternative, plans[k][1]->steps[t].alternative);
        }
    }
}

/* The second search shares the machine with busy threads, so the bound and the search's steps complete at other times. */
TEST(when_it_comes_changes_no_plan)
{
    enum { BUSY = 6 };
    int n_settled = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = middle_graph(seed);
        const mp_request request = {
            .graph = graph, .budget_bytes = tiny_budget(graph, 3 + (int)(seed % 2)), .moves = 600, .wants_bound = true};
        mp_answer quiet, busy;
        pthread_t threads[BUSY];
        atomic_bool ends = false;
        assert_int_equal(mp_solve(&request, &quiet, NULL), MP_OK);
        for (int k = 0; k < BUSY; k++) assert_int_equal(pthread_create(&threads[k], NULL, turn, &ends), 0);
        assert_int_equal(mp_solve(&request, &busy, NULL), MP_OK);
        atomic_store(&ends, true);
        for (int k = 0; k < BUSY; k++) pthread_join(threads[k], NULL);
        assert_same(&quiet, &busy);
        n_settled += quiet.plan && quiet.plan->ticks == quiet.bound.ticks;
        mp_answer_free(&quiet);
        mp_answer_free(&busy);
        mp_graph_free(graph);
    }
    assert_in_range(n_settled, 1, SEEDS - 1); /* searches with and without a proved optimum both occur */
}
