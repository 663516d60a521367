/* test_recording.c - passes recorded by the backend and replayed give exactly the losses and weights of call-by-call passes,
 * with all values that change between passes. While recording, only calls run. Device faults are detected, and saved files stay
 * intact. */
#include <unistd.h>

#include "executor/train/state.h"
#include "memplan/train.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/dropping_network.h"
#include "tests/cases/recording_backend.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 6, FLUSHED = 4 };

typedef struct outcome {
    double losses[STEPS];
    char hash[33];
    int n_recordings;
} outcome;

static const mp_backend *tested;
static recorder recorded_by;

static int load(void **state)
{
    (void)state;
    tested = backend_of_tests();
    return 0;
}

/* Runs with a learning rate that changes in each step, and a flush before step FLUSHED. */
static outcome run(training_case *t, const mp_plan *plan, mp_optimizer optimizer, double clip_norm, bool by_call)
{
    outcome o = {{0}, "", 0};
    mp_error err = {0};
    mp_execution *e;
    mp_execution_options options = {
        .hyper = mp_hyper_default(optimizer), .clip_norm = clip_norm, .seed = 3, .by_call = by_call};
    options.hyper.schedule = MP_RATE_COSINE;
    options.hyper.warmup_steps = 2;
    options.hyper.n_steps = STEPS;
    if (mp_execution_new(t->program, plan, &options, &e, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_parameters_load(t->source, t->program, e, &err) != MP_OK) fail_msg("%s", err.message);
    training_run(t, e, 0, FLUSHED, o.losses);
    training_run(t, e, FLUSHED, STEPS, o.losses + FLUSHED);
    o.n_recordings = mp_execution_recordings(e);
    mp_execution_hash(e, o.hash);
    mp_execution_free(e);
    return o;
}

static void compare_on(training_case *t, const char *network, const mp_training_options *options, int n_plans)
{
    int passes = STEPS * (options->accumulate > 1 ? options->accumulate : 1);
    for (int part = 0; part < n_plans; part++) {
        mp_plan *plan = part ? training_plan(t, 0.4) : training_keep_all(t);
        outcome calls = run(t, plan, options->optimizer, options->clip_norm, true);
        assert_int_equal(recorded_by.counted.n_recorded, 0);
        assert_int_equal(calls.n_recordings, 0);
        outcome recorded = run(t, plan, options->optimizer, options->clip_norm, false);
        if (memcmp(calls.losses, recorded.losses, sizeof calls.losses) != 0 || strcmp(calls.hash, recorded.hash) != 0)
            fail_msg("%s, --fuse %s: a recorded pass is another one", network, mp_fuse_name(options->fuse));
        assert_true(recorded.n_recordings > 0);
        assert_int_equal(recorded_by.counted.n_recorded, recorded.n_recordings);
        assert_true(recorded_by.counted.n_replayed >= passes - 4 && recorded_by.counted.n_replayed < passes);
        assert_int_equal(recorded_by.counted.n_alive, 0);
        assert_int_equal(recorded_by.counted.n_faults, 0);
        recorded_by.counted = (recording_counts){0};
        mp_plan_free(plan);
    }
}

static void compare(const char *network, const mp_training_options *options, int n_plans)
{
    training_case t = training_begin_on(recording_backend(&recorded_by, tested), network, 0, options);
    compare_on(&t, network, options, n_plans);
    training_end(&t);
}

TEST(recorded_passes_are_those_called_one_by_one)
{
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT};
        compare("tests/gradients/cnn.onnx", &options, 2);
        compare("tests/gradients/bert.onnx", &options, 1);
        options.accumulate = 3;
        compare("tests/gradients/cnn.onnx", &options, 2);
        options.dtype = MP_DTYPE_BFLOAT16;
        compare("tests/gradients/mlp.onnx", &options, 2);
        if (fuse == MP_FUSE_BACKWARD) continue; /* clipping within backward is refused */
        options.optimizer = MP_OPTIMIZER_MOMENTUM;
        options.clip_norm = 0.05;
        compare("tests/gradients/mlp.onnx", &options, 2);
    }
}

/* Each replayed pass draws its own random numbers. Recomputed nodes draw the same numbers as in forward. */
TEST(recorded_passes_draw_their_own_numbers)
{
    static const int64_t depths[] = {8, 64};
    for (int k = 0; k < 8; k++) {
        const bool fused = k & 1, half = k & 2;
        const mp_training_options options = {.loss = MP_LOSS_MSE,
                                             .optimizer = MP_OPTIMIZER_ADAMW,
                                             .dtype = half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT,
                                             .accumulate = half ? 2 : 1};
        onnx_builder file;
        const char *path = dropping_network(&file, depths[k >> 2]);
        const mp_backend *b = recording_backend(&recorded_by, tested);
        training_case t = fused ? training_begin_fused_on(b, path, 0, &options) : training_begin_on(b, path, 0, &options);
        compare_on(&t, "dropping", &options, 2);
        training_end(&t);
        onnx_end(&file);
    }
}

TEST(what_looks_at_every_step_is_called_one_by_one)
{
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    const mp_execution_options watching[] = {{.hyper = hyper, .profile = true},
                                             {.hyper = hyper, .poison = true},
                                             {.hyper = hyper, .guards = true},
                                             {.hyper = hyper, .by_call = true}};
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    training_case t = training_begin_on(recording_backend(&recorded_by, tested), "tests/gradients/mlp.onnx", 0, &options);
    mp_plan *plan = training_keep_all(&t);
    for (size_t k = 0; k < sizeof watching / sizeof *watching; k++) {
        mp_error err = {0};
        mp_execution *e;
        double losses[3];
        assert_int_equal(mp_execution_new(t.program, plan, &watching[k], &e, &err), MP_OK);
        training_run(&t, e, 0, 3, losses);
        mp_execution_free(e);
        assert_int_equal(recorded_by.counted.n_recorded + recorded_by.counted.n_replayed, 0);
    }
    mp_plan_free(plan);
    training_end(&t);
}

TEST(a_failure_while_recording_is_reported)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    const mp_execution_options how = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD)};
    mp_error err = {0};
    mp_execution *e;
    mp_input_filler filler;
    double loss;
    training_case t = training_begin_on(recording_backend(&recorded_by, tested), "tests/gradients/mlp.onnx", 0, &options);
    mp_plan *plan = training_keep_all(&t);
    assert_int_equal(mp_execution_new(t.program, plan, &how, &e, &err), MP_OK);
    assert_int_equal(mp_input_filler_new(t.program, t.feed, &filler, &err), MP_OK);
    assert_int_equal(mp_execution_step(e, 0, mp_inputs_fill, &filler, &loss, &err), MP_OK);
    recorded_by.fails_after = 3;
    assert_int_equal(mp_execution_step(e, 1, mp_inputs_fill, &filler, &loss, &err), MP_IO);
    assert_string_equal(err.message, "the library has failed");
    assert_int_equal(recorded_by.counted.n_recorded, 1);
    assert_int_equal(recorded_by.counted.n_replayed, 0);
    mp_input_filler_free(&filler);
    mp_execution_free(e);
    assert_int_equal(recorded_by.counted.n_alive, 0);
    mp_plan_free(plan);
    training_end(&t);
}

static bool lose_the_device_after_three(const mp_train_progress *now, void *data)
{
    (void)data;
    recorded_by.is_lost = now->step == 3;
    return true;
}

TEST(a_lost_device_ends_the_training_and_keeps_what_was_saved)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    char path[64];
    mp_error err = {0};
    mp_execution *e;
    mp_report report;
    int64_t step = -1;
    snprintf(path, sizeof path, "/tmp/memplan-recording-%ld.safetensors", (long)getpid());
    training_case t = training_begin_on(recording_backend(&recorded_by, tested), "tests/gradients/mlp.onnx", 0, &options);
    mp_plan *plan = training_keep_all(&t);
    mp_train_request request = training_request(&t, plan, 8);
    request.save = path;
    request.save_every = 2;
    request.progress = lose_the_device_after_three;
    assert_int_equal(mp_train(&request, &report, &err), MP_IO);
    assert_string_equal(err.message, "the device is lost");
    recorded_by.is_lost = false;
    assert_int_equal(mp_execution_new(t.program, plan, &request.execution, &e, &err), MP_OK);
    assert_int_equal(mp_state_resume(path, t.program, e, &request.execution, &step, &err), MP_OK);
    assert_int_equal(step, 2);
    mp_execution_free(e);
    mp_plan_free(plan);
    training_end(&t);
    unlink(path);
}

TEST(the_report_says_what_the_device_holds)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    mp_error err = {0};
    mp_report report;
    training_case t = training_begin_on(recording_backend(&recorded_by, tested), "tests/gradients/mlp.onnx", 0, &options);
    mp_plan *plan = training_keep_all(&t);
    const mp_train_request request = training_request(&t, plan, 3);
    assert_int_equal(mp_train(&request, &report, &err), MP_OK);
    assert_int_equal(report.idle_device_bytes, RECORDING_IDLE_BYTES);
    assert_true(report.device_is_shared);
    int64_t blocks = report.device_bytes - report.idle_device_bytes;
    assert_true(blocks >= report.static_bytes + report.arena_bytes && blocks < report.static_bytes + report.arena_bytes + 4096);
    assert_int_equal(report.n_recordings, 1);
    mp_report_free(&report);
    recorded_by.limit = plan->static_bytes + 4096;
    assert_int_equal(mp_train(&request, &report, &err), MP_NOMEM);
    assert_non_null(strstr(err.message, "there is no memory for an arena of "));
    assert_non_null(strstr(err.message, " of the device's 1099511627776 are free"));
    mp_plan_free(plan);
    training_end(&t);
}

int main(void)
{
    return test_run(load, NULL);
}
