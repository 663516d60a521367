/* test_turns_run.c - trainings in turns in one arena: each gives exactly its results alone, within the planned memory. */
#include "estimator/base/memory.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 4 };

/* One of the examples, with the smallest plan, keep-all, or a plan in between. */
typedef struct job {
    const char *path;
    int64_t batch;
    double part;
    int64_t n_steps;
} job;

typedef struct set_up {
    training_case training;
    mp_plan *plan;
} set_up;

static const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};

static set_up begin(const job *j, mp_train_request *request)
{
    set_up s = {.training = training_begin(j->path, j->batch, &options)};
    s.plan = training_plan(&s.training, j->part);
    *request = training_request(&s.training, s.plan, j->n_steps);
    request->execution.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    return s;
}

static void end(set_up *s)
{
    mp_plan_free(s->plan);
    training_end(&s->training);
}

static void compare(const mp_report *alone, const mp_report *by_turns)
{
    assert_int_equal(by_turns->n_losses, alone->n_losses);
    assert_memory_equal(by_turns->losses, alone->losses, alone->n_losses * sizeof *alone->losses);
    assert_string_equal(by_turns->weights_hash, alone->weights_hash);
    assert_int_equal(by_turns->n_allocations, alone->n_allocations);
}

/* Trains two jobs alone and in turns. Memory: the static bytes of both, and all of the larger arena. */
static void train_pair(const job jobs[2])
{
    mp_train_request requests[2];
    set_up s[2] = {begin(&jobs[0], &requests[0]), begin(&jobs[1], &requests[1])};
    mp_report alone[2] = {0};
    mp_turns turns;
    mp_error err = {0};
    for (int i = 0; i < 2; i++)
        if (mp_train(&requests[i], &alone[i], &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_train_turns(requests, 2, &turns, &err) != MP_OK) fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++) compare(&alone[i], &turns.reports[i]);
    const int64_t a = s[0].plan->arena_bytes, b = s[1].plan->arena_bytes;
    assert_int_equal(turns.static_bytes, s[0].plan->static_bytes + s[1].plan->static_bytes);
    assert_int_equal(turns.arena_bytes, a > b ? a : b);
    assert_int_equal(turns.measured_arena_bytes, turns.arena_bytes);
    mp_turns_free(&turns);
    for (int i = 0; i < 2; i++) {
        mp_report_free(&alone[i]);
        end(&s[i]);
    }
}

TEST(three_pairs_of_examples_train_by_turns_as_alone)
{
    train_pair((job[]){{"examples/fashion_cnn.onnx", 8, 0.3, STEPS}, {"examples/mlp4.onnx", 16, 0.5, STEPS}});
    train_pair((job[]){{"examples/lstm_bytes.onnx", 0, 0.5, 2}, {"examples/fashion_cnn.onnx", 64, 1, 3}});
    train_pair((job[]){{"examples/resnet50.onnx", 1, 0.5, 2}, {"examples/mlp4.onnx", 64, 1, 5}});
}

TEST(one_program_trains_twice_by_turns)
{
    const job j = {"examples/mlp4.onnx", 16, 0.5, STEPS};
    mp_train_request requests[2];
    set_up s = begin(&j, &requests[0]);
    mp_report alone[2];
    mp_turns turns;
    mp_error err = {0};
    requests[1] = requests[0];
    requests[1].execution.seed = 7;
    requests[1].execution.hyper.learning_rate *= 3;
    for (int i = 0; i < 2; i++)
        if (mp_train(&requests[i], &alone[i], &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_train_turns(requests, 2, &turns, &err) != MP_OK) fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++) compare(&alone[i], &turns.reports[i]);
    assert_string_not_equal(alone[0].weights_hash, alone[1].weights_hash);
    mp_turns_free(&turns);
    for (int i = 0; i < 2; i++) mp_report_free(&alone[i]);
    end(&s);
}

/* A gradient kept until the next step would be overwritten during the other training's turn. */
TEST(what_is_carried_to_the_next_step_is_refused)
{
    const mp_training_options carrying = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT, .fuse = MP_FUSE_FORWARD};
    training_case t = training_begin("examples/mlp4.onnx", 16, &carrying);
    mp_plan *plan = training_keep_all(&t);
    const mp_train_request request = training_request(&t, plan, 2);
    mp_turns turns;
    mp_error err = {0};
    assert_int_equal(mp_train_turns(&request, 1, &turns, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "is carried to the next step"));
    assert_int_equal(mp_train_turns(&request, 0, &turns, NULL), MP_INVALID);
    mp_plan_free(plan);
    training_end(&t);
}
