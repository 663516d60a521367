/* test_streams.c - updates on a second stream give exactly the losses and weights of in-order runs, recorded or not. The second
 * stream runs nothing before it is awaited, and dead memory is overwritten. */
#include <omp.h>

#include "memplan/arena.h"
#include "memplan/check.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/deferring_backend.h"
#include "tests/cases/recording_backend.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"
#include "tests/oracles/random_beside.h"
#include "tests/oracles/random_graph.h"

enum { STEPS = 3 };

static deferrer deferred_by;
static recorder recorded_by;

static training_outcome run(training_case *t, const mp_plan *plan, const mp_execution_options *options)
{
    return training_outcome_of(t, plan, options, STEPS);
}

static void assert_same(const training_outcome *a, const training_outcome *b, const char *what)
{
    if (!training_outcomes_are_same(a, b)) fail_msg("%s changes the result", what);
}

/* Returns the plan's steps with random waits and new offsets, checked. */
static mp_plan *with_waits(const mp_graph *graph, const mp_plan *plan, uint64_t seed, int *n_beside)
{
    mp_error err = {0};
    mp_plan *beside = NULL;
    mp_step *steps = mp_alloc(plan->n_steps, sizeof *steps);
    memcpy(steps, plan->steps, plan->n_steps * sizeof *steps);
    *n_beside = random_beside(graph, seed, 50, steps, plan->n_steps);
    if (mp_plan_new(graph, "test", steps, plan->n_steps, &beside, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_arena_layout(graph, beside, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_plan_check(graph, beside, &err) != MP_OK) fail_msg("%s", err.message);
    mp_free(steps);
    return beside;
}

static const char *const networks[] = {"tests/gradients/mlp.onnx", "tests/gradients/cnn.onnx", "tests/gradients/gpt.onnx"};

TEST(what_runs_beside_changes_nothing)
{
    for (size_t k = 0; k < 2; k++) {
        for (int fuse = MP_FUSE_BACKWARD; fuse <= MP_FUSE_FORWARD; fuse++) {
            mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW,
                                           .fuse = (mp_fuse)fuse,
                                           .dtype = k == 1 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT,
                                           .accumulate = k == 0 ? 2 : 1};
            training_case t = training_begin_on(deferring_backend(&deferred_by, backend_of_tests()), networks[k], 0, &options);
            mp_execution_options poisoned = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .seed = 3, .poison = true};
            mp_execution_options guarded = poisoned, single = poisoned;
            guarded.guards = true;
            single.one_by_one = true;
            mp_plan *plan = training_plan(&t, 0.5);
            const training_outcome in_order = run(&t, plan, &poisoned);
            assert_int_equal(deferred_by.counted.n_issued, 0);
            for (uint64_t seed = 1; seed <= 3; seed++) {
                int n_beside;
                mp_plan *beside = with_waits(t.program->graph, plan, seed, &n_beside);
                deferred_by.counted = (deferring_counts){0};
                const training_outcome o = run(&t, beside, seed == 2 ? &guarded : seed == 3 ? &single : &poisoned);
                assert_same(&in_order, &o, networks[k]);
                /* forward-fused: the flush runs the last step's updates */
                const int passes = fuse == MP_FUSE_FORWARD ? STEPS - 1 : STEPS;
                assert_true(deferred_by.counted.n_issued > 0 && deferred_by.counted.n_updates >= passes * n_beside);
                assert_int_equal(deferred_by.counted.n_faults, 0);
                mp_plan_free(beside);
            }
            mp_plan_free(plan);
            training_end(&t);
        }
    }
}

TEST(recorded_passes_keep_both_streams)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_MOMENTUM, .fuse = MP_FUSE_BACKWARD, .dtype = MP_DTYPE_FLOAT};
    training_case t = training_begin_on(recording_backend(&recorded_by, deferring_backend(&deferred_by, backend_of_tests())),
                                        networks[1], 0, &options);
    mp_execution_options recorded = {.hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM), .seed = 3}, by_call = recorded;
    int n_beside;
    by_call.by_call = true;
    mp_plan *plan = training_keep_all(&t), *beside = with_waits(t.program->graph, plan, 5, &n_beside);
    const training_outcome in_order = run(&t, plan, &by_call), o = run(&t, beside, &recorded);
    assert_same(&in_order, &o, "a recording with two streams");
    assert_true(n_beside > 0 && recorded_by.counted.n_replayed == STEPS - 1);
    assert_true(deferred_by.counted.n_updates >= STEPS * n_beside);
    assert_int_equal(deferred_by.counted.n_faults + recorded_by.counted.n_faults, 0);
    mp_plan_free(beside);
    mp_plan_free(plan);
    training_end(&t);
}

/* With profiling, or on a backend with one stream, the same plan runs in order. */
TEST(without_a_second_stream_it_runs_in_order)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .fuse = MP_FUSE_BACKWARD, .dtype = MP_DTYPE_FLOAT};
    mp_execution_options plain = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .seed = 3, .poison = true}, profiled = plain;
    profiled.profile = true;
    training_case t = training_begin(networks[0], 0, &options);
    int n_beside;
    mp_plan *plan = training_keep_all(&t), *beside = with_waits(t.program->graph, plan, 1, &n_beside);
    const training_outcome in_order = run(&t, plan, &plain), o = run(&t, beside, &plain);
    assert_same(&in_order, &o, "a plan with waits on one stream");
    training_end(&t);
    t = training_begin_on(deferring_backend(&deferred_by, backend_of_tests()), networks[0], 0, &options);
    const training_outcome p = run(&t, beside, &profiled);
    assert_same(&in_order, &p, "a profile");
    assert_int_equal(deferred_by.counted.n_issued, 0);
    mp_plan_free(beside);
    mp_plan_free(plan);
    training_end(&t);
}
