/* test_cuda_contexts.c - two backends of one module in one process, as for two devices: calls of one do not affect the other.
 * Uses the GPU's twin, with recorded passes. */
#include <pthread.h>

#include "tests/cases/backend_case.h"
#include "tests/cases/dropping_network.h"
#include "tests/cases/recording_backend.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 5, N = 2 };

/* One training on its own backend. The two differ in network, seed, optimizer and learning rate. */
typedef struct trainee {
    onnx_builder file;
    mp_backend *module;
    recorder recorded_by;
    training_case t;
    mp_plan *plan;
    mp_execution *e;
    mp_input_filler filler;
    double losses[STEPS];
    char hash[33];
} trainee;

static void begin(trainee *x, int which)
{
    mp_error err = {0};
    const mp_optimizer optimizer = which ? MP_OPTIMIZER_MOMENTUM : MP_OPTIMIZER_ADAMW;
    const mp_training_options options = {.loss = MP_LOSS_MSE, .optimizer = optimizer, .dtype = MP_DTYPE_FLOAT};
    mp_execution_options how = {.hyper = mp_hyper_default(optimizer), .seed = 3 + (uint64_t)which};
    *x = (trainee){.module = backend_twin(&err)};
    if (!x->module) fail_msg("%s", err.message);
    const char *path = dropping_network(&x->file, which ? 8 : 64);
    x->t = training_begin_on(recording_backend(&x->recorded_by, x->module), path, 0, &options);
    x->plan = training_keep_all(&x->t);
    how.hyper.learning_rate = which ? 0.02 : 0.001;
    if (mp_execution_new(x->t.program, x->plan, &how, &x->e, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_parameters_load(x->t.source, x->t.program, x->e, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_input_filler_new(x->t.program, x->t.feed, &x->filler, &err) != MP_OK) fail_msg("%s", err.message);
}

static mp_status step(trainee *x, int64_t k)
{
    return mp_execution_step(x->e, k, mp_inputs_fill, &x->filler, &x->losses[k], NULL);
}

static void end(trainee *x)
{
    assert_int_equal(x->recorded_by.counted.n_replayed, STEPS - 1);
    assert_int_equal(x->recorded_by.counted.n_faults, 0);
    mp_execution_hash(x->e, x->hash);
    mp_input_filler_free(&x->filler);
    mp_execution_free(x->e);
    mp_plan_free(x->plan);
    training_end(&x->t);
    x->module->close(x->module);
    onnx_end(&x->file);
}

static void assert_same(const trainee *alone, const trainee *beside)
{
    assert_memory_equal(alone->losses, beside->losses, sizeof alone->losses);
    assert_string_equal(alone->hash, beside->hash);
}

static void train_alone(trainee *x, int which)
{
    begin(x, which);
    for (int64_t k = 0; k < STEPS; k++) assert_int_equal(step(x, k), MP_OK);
    end(x);
}

TEST(steps_in_turn_are_those_alone)
{
    for (int which = 0; which < N; which++) {
        trainee alone, one, other;
        train_alone(&alone, which);
        begin(&one, which);
        begin(&other, !which);
        for (int64_t k = 0; k < STEPS; k++) {
            assert_int_equal(step(&one, k), MP_OK);
            assert_int_equal(step(&other, k), MP_OK);
        }
        end(&other);
        end(&one);
        assert_same(&alone, &one);
    }
}

static void *run_steps(void *data)
{
    mp_status st = MP_OK;
    for (int64_t k = 0; k < STEPS && st == MP_OK; k++) st = step(data, k);
    return st == MP_OK ? data : NULL;
}

TEST(steps_in_two_threads_are_those_alone)
{
    trainee alone[N], beside[N];
    pthread_t threads[N];
    for (int k = 0; k < N; k++) {
        train_alone(&alone[k], k);
        begin(&beside[k], k);
    }
    for (int k = 0; k < N; k++) assert_int_equal(pthread_create(&threads[k], NULL, run_steps, &beside[k]), 0);
    for (int k = 0; k < N; k++) {
        void *result;
        pthread_join(threads[k], &result);
        assert_ptr_equal(result, &beside[k]);
    }
    for (int k = 0; k < N; k++) {
        end(&beside[k]);
        assert_same(&alone[k], &beside[k]);
    }
}
