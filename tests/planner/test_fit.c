/* test_fit.c - the largest batch, against planning every batch, and against the memory of a chain computed by hand. */
#include "estimator/base/memory.h"
#include "memplan/problem.h"
#include "memplan/studies/fit.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"

enum { LAYERS = 24, BYTES = 100, STATIC = 5000 };

/* Builds a chain whose activations grow with the batch; counts the calls, and fails from `bad_batch` on if it is set. */
typedef struct builder {
    int built;
    int64_t bad_batch;
} builder;

static mp_status graph_at(void *data, int64_t batch, mp_graph **out, mp_error *err)
{
    builder *b = data;
    b->built++;
    if (b->bad_batch && batch >= b->bad_batch) return MP_FAIL(err, MP_UNSUPPORTED, "no batch of %lld", (long long)batch);
    return chain_graph(LAYERS, batch * BYTES, STATIC, true, out, err);
}

static mp_fit fit(int64_t memory_bytes, double overhead, const char *solver)
{
    builder b = {0};
    const mp_fit_request request = {
        .graph_at = graph_at, .graph_data = &b, .memory_bytes = memory_bytes, .overhead = overhead, .solver = solver};
    mp_fit found = {0};
    mp_error err = {0};
    if (mp_fit_batch(&request, &found, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(found.n_tried <= (size_t)b.built, 1);
    return found;
}

/* Plans every batch from 1 on; returns the last one that fits before the first one that does not. */
static int64_t by_trying(int64_t memory_bytes, double overhead, const char *solver)
{
    for (int64_t batch = 1;; batch++) {
        mp_graph *graph;
        mp_answer answer;
        assert_int_equal(chain_graph(LAYERS, batch * BYTES, STATIC, true, &graph, NULL), MP_OK);
        const mp_request request = {.graph = graph, .budget_bytes = memory_bytes, .solver = solver};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        const mp_plan *plan = answer.plan;
        const bool fits = plan && (double)(plan->ticks - plan->baseline_ticks) <= overhead * (double)plan->baseline_ticks;
        mp_answer_free(&answer);
        mp_graph_free(graph);
        if (!fits) return batch - 1;
    }
}

TEST(the_batch_without_recomputation_is_the_one_by_hand)
{
    for (int64_t memory = 6000; memory < 200000; memory += 7919) {
        const mp_fit found = fit(memory, 0.2, "none");
        int64_t expected = (memory - STATIC) / ((LAYERS + 1) * BYTES);
        const mp_fit_answer *a = &found.answers[MP_FIT_KEEP_ALL];
        if (memory < chain_keep_all_bytes(LAYERS, BYTES, STATIC)) expected = 0;
        assert_int_equal(a->batch, expected);
        if (expected) assert_int_equal(a->peak_bytes, chain_keep_all_bytes(LAYERS, expected * BYTES, STATIC));
        assert_int_equal(a->next_smallest_bytes, chain_keep_all_bytes(LAYERS, (expected + 1) * BYTES, STATIC));
        assert_int_equal(found.answers[MP_FIT_ANY].batch, expected); /* this searcher recomputes nothing */
    }
}

TEST(the_answers_are_those_of_trying_every_batch)
{
    static const char *const solvers[] = {"chen", "segments"};
    static const double overheads[] = {0.02, 0.15, 0.4};
    for (size_t s = 0; s < 2; s++)
        for (size_t o = 0; o < 3; o++) {
            const int64_t memory = 40000 + 9000 * (int64_t)o;
            const mp_fit found = fit(memory, overheads[o], solvers[s]);
            assert_int_equal(found.answers[MP_FIT_RECOMPUTE].batch, by_trying(memory, overheads[o], solvers[s]));
            assert_int_equal(found.answers[MP_FIT_ANY].batch, by_trying(memory, 1e9, solvers[s]));
            assert_true(found.answers[MP_FIT_ANY].peak_bytes <= memory);
            assert_true(found.answers[MP_FIT_RECOMPUTE].overhead <= overheads[o]);
            assert_true(found.answers[MP_FIT_KEEP_ALL].batch < found.answers[MP_FIT_ANY].batch);
        }
}

/* Counts the questions about other settings, which halve the activations. */
typedef struct halves {
    builder b;
    int n_floors, n_choices, n_needless;
} halves;

static mp_status half_at(void *data, int64_t batch, int64_t budget_bytes, bool only_floor, mp_fit_choice *out, mp_error *err)
{
    halves *h = data;
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    MP_CHECK(chain_graph(LAYERS, batch * BYTES / 2, STATIC, true, &graph, err));
    MP_CHECK(mp_problem_new(graph, &problem, err));
    MP_CHECK(mp_problem_floor(problem, &out->floor_bytes, NULL, err));
    *(only_floor ? &h->n_floors : &h->n_choices) += 1;
    h->n_needless += !only_floor && out->floor_bytes > budget_bytes;
    if (only_floor) return MP_OK;
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = "lagrange", .effort = MP_EFFORT_QUICK};
    MP_CHECK(mp_solve(&request, &out->trial, err));
    out->graph = graph;
    graph = NULL;
    return MP_OK;
}

/* With settings that halve the activations, the batches are those of the network with halved activations. Settings are chosen
 * only for batches that are searched. */
TEST(settings_are_chosen_where_a_plan_is_searched)
{
    static const char *const solvers[] = {"chen", "auto"};
    for (size_t s = 0; s < 2; s++) {
        halves h = {0};
        const mp_fit_request request = {.graph_at = graph_at,
                                        .best_at = half_at,
                                        .graph_data = &h,
                                        .memory_bytes = 60000,
                                        .overhead = 0.3,
                                        .solver = solvers[s]};
        mp_fit found;
        mp_error err = {0};
        if (mp_fit_batch(&request, &found, &err) != MP_OK) fail_msg("%s", err.message);
        const mp_fit whole = fit(60000, 0.3, solvers[s]);
        const mp_fit_answer *any = &found.answers[MP_FIT_ANY];
        assert_int_equal(found.answers[MP_FIT_KEEP_ALL].batch, whole.answers[MP_FIT_KEEP_ALL].batch);
        assert_in_range(any->batch, 2 * whole.answers[MP_FIT_ANY].batch, 2 * whole.answers[MP_FIT_ANY].batch + 1);
        assert_true(any->is_of_best_at && any->end != MP_FIT_UNKNOWN);
        assert_true(h.n_floors > 0 && h.n_choices > 0);
        assert_true((size_t)h.n_choices <= found.n_searches);
        assert_int_equal(h.n_needless, 0);
    }
}

TEST(searches_are_few)
{
    const mp_fit found = fit(4000000, 0.15, "chen");
    assert_true(found.answers[MP_FIT_ANY].batch > 1600);
    assert_in_range(found.n_searches, 1, 20);
}

TEST(each_answer_says_why_the_next_batch_is_none)
{
    const mp_fit found = fit(100000, 0.05, "segments");
    const mp_fit_answer *keep = &found.answers[MP_FIT_KEEP_ALL], *some = &found.answers[MP_FIT_RECOMPUTE],
                        *any = &found.answers[MP_FIT_ANY];
    assert_int_equal(keep->end, MP_FIT_OVER);
    assert_true(keep->next_smallest_bytes > 100000 && keep->next_floor_bytes <= 100000);
    assert_int_equal(some->end, MP_FIT_TOO_SLOW);
    assert_true(some->next_overhead > 0.05);
    assert_int_equal(any->end, MP_FIT_NOT_FOUND);
    assert_true(any->next_smallest_bytes > 100000);
    assert_string_equal(any->solver, "segments");
}

/* The floor of the chain at a batch: three tensors at once (in backward), and the parameters. */
TEST(a_memory_below_the_floor_of_one_is_refused_by_proof)
{
    const mp_fit found = fit(STATIC + 2 * BYTES, 0.2, "chen");
    for (int k = 0; k < MP_N_FIT_MEANS; k++) {
        assert_int_equal(found.answers[k].batch, 0);
        assert_int_equal(found.answers[k].end, MP_FIT_PROVED);
        assert_true(found.answers[k].next_floor_bytes > STATIC + 2 * BYTES);
    }
    assert_int_equal(found.n_searches, 0);
}

TEST(no_batch_beyond_the_limit_is_tried)
{
    builder b = {.bad_batch = 101};
    const mp_fit_request request = {.graph_at = graph_at,
                                    .graph_data = &b,
                                    .memory_bytes = INT64_C(1) << 40,
                                    .overhead = 0.2,
                                    .most = 100,
                                    .solver = "chen"};
    mp_fit found;
    assert_int_equal(mp_fit_batch(&request, &found, NULL), MP_OK);
    for (int k = 0; k < MP_N_FIT_MEANS; k++) {
        assert_int_equal(found.answers[k].batch, 100);
        assert_int_equal(found.answers[k].end, MP_FIT_MOST_MET);
    }
}

static mp_fit fit_up_to(int64_t most, int64_t memory_bytes, double overhead)
{
    builder b = {.bad_batch = most + 1};
    const mp_fit_request request = {
        .graph_at = graph_at, .graph_data = &b, .memory_bytes = memory_bytes, .overhead = overhead, .most = most, .moves = 20};
    mp_fit found = {0};
    mp_error err = {0};
    if (mp_fit_batch(&request, &found, &err) != MP_OK) fail_msg("%s", err.message);
    return found;
}

/* The overhead is slightly below the overhead of the first plan for the largest batch, so this batch is searched a second time.
 * No larger batch is tried after the second search, with or without success. */
TEST(a_second_search_for_the_largest_batch_ends_the_study)
{
    int n_faster = 0;
    for (int64_t most = 20; most <= 60; most += 8) {
        const int64_t memory = STATIC + most * BYTES * LAYERS / 3;
        const double overhead = fit_up_to(most, memory, 0).answers[MP_FIT_ANY].overhead * 0.999;
        const mp_fit found = fit_up_to(most, memory, overhead);
        const mp_fit_answer *some = &found.answers[MP_FIT_RECOMPUTE];
        n_faster += some->batch == most;
    }
    assert_true(n_faster > 0);
}

TEST(a_failure_to_build_is_passed_on)
{
    builder b = {.bad_batch = 4};
    const mp_fit_request request = {.graph_at = graph_at, .graph_data = &b, .memory_bytes = 100000, .solver = "chen"};
    mp_fit found;
    mp_error err = {0};
    assert_int_equal(mp_fit_batch(&request, &found, &err), MP_UNSUPPORTED);
    assert_memory_equal(err.message, "no batch of ", strlen("no batch of "));
}

static bool stop_soon(int64_t batch, const mp_progress *search, void *data)
{
    int *left = data;
    (void)batch, (void)search;
    return --*left > 0;
}

/* Claims after a stop must be true, though weaker. */
TEST(a_stop_leaves_what_is_known)
{
    const mp_fit whole = fit(100000, 0.05, "chen");
    for (int calls = 1; calls < 12; calls++) {
        builder b = {0};
        int left = calls;
        const mp_fit_request request = {.graph_at = graph_at,
                                        .graph_data = &b,
                                        .memory_bytes = 100000,
                                        .overhead = 0.05,
                                        .solver = "chen",
                                        .progress = stop_soon,
                                        .progress_data = &left};
        mp_fit found;
        assert_int_equal(mp_fit_batch(&request, &found, NULL), MP_OK);
        assert_true(found.stopped);
        for (int k = 0; k < MP_N_FIT_MEANS; k++) {
            assert_true(found.answers[k].batch <= whole.answers[k].batch);
            if (found.answers[k].batch < whole.answers[k].batch) assert_int_equal(found.answers[k].end, MP_FIT_UNKNOWN);
        }
    }
}

TEST(fit_survives_every_allocation_failure)
{
    const long before = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k += 37) {
        builder b = {0};
        mp_fit found;
        const mp_fit_request request = {.graph_at = graph_at, .graph_data = &b, .memory_bytes = 9000, .solver = "none"};
        mp_alloc_budget = k;
        st = mp_fit_batch(&request, &found, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        assert_int_equal(mp_alloc_live, before);
    }
}
