/* test_execution.c - planned training steps give exactly the same losses and weights, for every recomputation and update
 * position. The arena is used up to its top and not beyond. A resumed training equals an uninterrupted one. */
#include <unistd.h>

#include "executor/train/state.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 5 };

typedef struct outcome {
    double losses[STEPS];
    char hash[33];
} outcome;

static outcome run(training_case *t, mp_plan *plan, const mp_hyper *hyper, int64_t n)
{
    outcome o = {{0}, ""};
    mp_execution *e = training_execution(t, plan, hyper);
    training_run(t, e, 0, n, o.losses);
    assert_true(mp_execution_touched_bytes(e) <= plan->arena_bytes);
    assert_true(mp_execution_touched_bytes(e) > plan->arena_bytes - plan->arena_bytes / 8 - 4096);
    mp_execution_hash(e, o.hash);
    mp_execution_free(e);
    mp_plan_free(plan);
    return o;
}

static void assert_same(const outcome *a, const outcome *b, const char *what)
{
    if (memcmp(a->losses, b->losses, sizeof a->losses) != 0 || strcmp(a->hash, b->hash) != 0)
        fail_msg("%s changes the result: losses %.9g %.9g and %.9g %.9g, weights %.8s and %.8s", what, a->losses[0],
                 a->losses[1], b->losses[0], b->losses[1], a->hash, b->hash);
}

static const char *const networks[] = {"tests/gradients/mlp.onnx", "tests/gradients/cnn.onnx", "tests/gradients/unet.onnx",
                                       "tests/gradients/bert.onnx", "tests/gradients/gpt.onnx"};

TEST(nothing_depends_on_the_plan_or_on_where_updates_run)
{
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        outcome first = {{0}, ""};
        for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
            mp_training_options options = {
                .optimizer = MP_OPTIMIZER_ADAMW, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT, .options_json = "{}"};
            mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
            training_case t = training_begin(networks[k], 0, &options);
            for (int part = 0; part < 4; part++) {
                static const double parts[] = {-1, 0.8, 0.5, 0.2};
                mp_plan *plan = part ? training_plan(&t, parts[part]) : training_keep_all(&t);
                outcome o = run(&t, plan, &hyper, STEPS);
                if (!fuse && !part) first = o;
                assert_same(&first, &o, networks[k]);
            }
            training_end(&t);
        }
        assert_true(isfinite(first.losses[STEPS - 1]) && first.losses[0] != first.losses[STEPS - 1]);
    }
}

/* With gaps between all storages the results are the same, and the bytes in the gaps stay unchanged. */
TEST(nothing_is_written_beside_its_place)
{
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
            mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT};
            mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
            training_case t = training_begin(networks[k], 0, &options);
            mp_plan *plan = training_plan(&t, 0.5);
            mp_execution_options apart = {.hyper = hyper, .seed = 3, .guards = true, .poison = true};
            mp_error err = {0};
            mp_execution *e;
            outcome guarded = {{0}, ""};
            if (mp_execution_new(t.program, plan, &apart, &e, &err) != MP_OK) fail_msg("%s", err.message);
            assert_true(mp_execution_arena_bytes(e) > plan->arena_bytes);
            assert_int_equal(mp_parameters_load(t.source, t.program, e, &err), MP_OK);
            training_run(&t, e, 0, 2, guarded.losses);
            mp_execution_hash(e, guarded.hash);
            mp_execution_free(e);
            outcome planned = run(&t, plan, &hyper, 2);
            assert_same(&guarded, &planned, networks[k]);
            training_end(&t);
        }
    }
}

/* Two micro-batches equal one batch of twice the size, except for rounding. */
TEST(accumulated_gradients_are_those_of_the_whole_batch)
{
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        static outcome first;
        mp_training_options options = {
            .optimizer = MP_OPTIMIZER_MOMENTUM, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT, .accumulate = 2};
        mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM);
        training_case t = training_begin(networks[0], 0, &options);
        outcome a = run(&t, training_keep_all(&t), &hyper, 3), b = run(&t, training_plan(&t, 0.3), &hyper, 3);
        assert_same(&a, &b, "a plan with accumulation");
        if (!fuse) first = a;
        assert_same(&first, &a, "where updates run, with accumulation");
        /* the mean of the losses of micro-batches 0 and 1 before the first update */
        mp_training_options single = options;
        single.accumulate = 0;
        training_case s = training_begin(networks[0], 0, &single);
        hyper.learning_rate = 0;
        outcome c = run(&s, training_keep_all(&s), &hyper, 2);
        assert_true(fabs(a.losses[0] - (c.losses[0] + c.losses[1]) / 2) < 1e-6);
        training_end(&s);
        training_end(&t);
    }
}

/* Returns the gradient of one parameter after one step without updates. */
static void gradient_of(training_case *t, int64_t step, const char *name, float *out, int64_t n)
{
    mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    mp_plan *plan = training_keep_all(t);
    mp_execution *e = training_execution(t, plan, &hyper);
    mp_array there, host;
    mp_error err = {0};
    double loss;
    training_run(t, e, step, step + 1, &loss);
    assert_int_equal(mp_execution_gradient(e, mp_model_find(t->model, name), &there, &err), MP_OK);
    host = mp_array_plain(MP_DTYPE_FLOAT, there.rank, there.dims);
    host.data = out;
    assert_int_equal(mp_array_elements(&host), n);
    assert_int_equal(t->program->backend->download(t->program->backend, &there, &host, &err), MP_OK);
    mp_execution_free(e);
    mp_plan_free(plan);
}

TEST(two_micro_batches_give_the_mean_of_their_gradients)
{
    enum { N = 24 * 12 };
    float both[N], first[N], second[N];
    mp_training_options options = {.optimizer = MP_OPTIMIZER_NONE, .dtype = MP_DTYPE_FLOAT, .accumulate = 2};
    training_case t = training_begin(networks[0], 0, &options);
    gradient_of(&t, 0, "layers.0.weight", both, N);
    training_end(&t);
    options.accumulate = 1;
    t = training_begin(networks[0], 0, &options);
    gradient_of(&t, 0, "layers.0.weight", first, N);
    gradient_of(&t, 1, "layers.0.weight", second, N);
    training_end(&t);
    for (int k = 0; k < N; k++) assert_true(fabs(both[k] - (first[k] + second[k]) / 2) < 1e-7);
    assert_true(memcmp(first, second, sizeof first) != 0);
}

TEST(clipping_is_exact_wherever_updates_run)
{
    outcome first = {{0}, ""}, free_run = {{0}, ""};
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        mp_training_options options = {
            .optimizer = MP_OPTIMIZER_SGD, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT, .clip_norm = 0.05};
        if (fuse == MP_FUSE_BACKWARD) options.clip_norm = 0; /* refused; see test_training */
        mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
        training_case t = training_begin(networks[1], 0, &options);
        outcome o = run(&t, training_plan(&t, 0.5), &hyper, STEPS);
        if (fuse == MP_FUSE_NONE) first = o;
        if (fuse == MP_FUSE_BACKWARD) free_run = o;
        if (fuse == MP_FUSE_FORWARD) assert_same(&first, &o, "clipping before the next step");
        training_end(&t);
    }
    assert_true(strcmp(first.hash, free_run.hash) != 0);
}

TEST(clipping_within_backward_is_refused)
{
    mp_training_options options = {
        .optimizer = MP_OPTIMIZER_SGD, .fuse = MP_FUSE_BACKWARD, .dtype = MP_DTYPE_FLOAT, .clip_norm = 1};
    mp_training_options plain = options;
    plain.clip_norm = 0;
    training_case t = training_begin(networks[0], 0, &plain);
    mp_error err = {0};
    mp_program *program;
    assert_int_equal(mp_program_build(mp_backend_find("cpu"), t.model, &options, t.program->bindings->loss, &program, &err),
                     MP_INVALID);
    assert_non_null(strstr(err.message, "--fuse forward"));
    training_end(&t);
}

TEST(what_a_backend_cannot_run_is_counted)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    mp_error err = {0};
    mp_program *program;
    int loss;
    mp_model *model =
        onnx_text_model(17, "input x float 3,3; weight w.weight 3,3; Cast x -> k to=2; Cast x -> l to=3;"
                            "MatMulInteger k k -> a @first; MatMulInteger k l -> b; Multinomial x -> c sample_size=3;"
                            "Add a b -> d; Add d c -> e; Cast e -> f to=1; MatMul f w.weight -> y; out y");
    assert_int_equal(mp_model_add_loss(model, &options, &loss, &err), MP_OK);
    assert_int_equal(mp_program_build(mp_backend_find("cpu"), model, &options, loss, &program, &err), MP_UNSUPPORTED);
    assert_string_equal(err.message,
                        "the cpu backend cannot run MatMulInteger (2), Multinomial (1); the first one is node 'first'");
    mp_model_free(model);
}

/* k steps, a save, a resume and k steps equal 2 k steps. */
TEST(a_resumed_training_is_the_uninterrupted_one)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/memplan-test-%ld.safetensors", (long)getpid());
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++)
        for (int half = 0; half < 2; half++) {
            mp_training_options options = {
                .optimizer = MP_OPTIMIZER_ADAM, .fuse = (mp_fuse)fuse, .dtype = half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT};
            mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAM);
            mp_execution_options execution = {.hyper = hyper, .seed = 3};
            mp_error err = {0};
            int64_t step = 0;
            double losses[STEPS];
            training_case t = training_begin(networks[1], 0, &options);
            outcome whole = run(&t, training_plan(&t, 0.5), &hyper, 4), parts = {{0}, ""};
            mp_plan *plan = training_plan(&t, 0.5);
            mp_execution *e = training_execution(&t, plan, &hyper);
            training_run(&t, e, 0, 2, losses);
            assert_int_equal(mp_state_save(path, t.program, e, &execution, 2, &err), MP_OK);
            mp_execution_free(e);
            e = training_execution(&t, plan, &hyper);
            if (mp_state_resume(path, t.program, e, &execution, &step, &err) != MP_OK) fail_msg("%s", err.message);
            assert_int_equal(step, 2);
            training_run(&t, e, 2, 4, losses);
            mp_execution_hash(e, parts.hash);
            assert_string_equal(parts.hash, whole.hash);
            execution.seed = 4;
            assert_int_equal(mp_state_resume(path, t.program, e, &execution, &step, &err), MP_PARSE);
            assert_non_null(strstr(err.message, "seed"));
            mp_execution_free(e);
            mp_plan_free(plan);
            training_end(&t);
        }
    unlink(path);
}

/* A step runs the alternative that it selects: with a saved mask, or from the output. */
TEST(alternatives_run_where_a_step_asks_for_them)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT, .inexact = true};
    mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    training_case t = training_begin(networks[3], 0, &options);
    const mp_graph *g = t.program->graph;
    outcome base = run(&t, training_keep_all(&t), &hyper, STEPS);
    mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    mp_keep_all(g, steps);
    int n = 0;
    for (size_t k = 0; k < g->n_nodes; k++)
        if (g->nodes[steps[k].node].n_alternatives > 1) {
            steps[k].alternative = 1;
            n++;
        }
    assert_true(n >= 5); /* the layer normalizations */
    mp_plan *plan;
    mp_error err = {0};
    assert_int_equal(mp_plan_new(g, "test", steps, g->n_nodes, &plan, &err), MP_OK);
    mp_free(steps);
    assert_int_equal(mp_arena_layout(g, plan, &err), MP_OK);
    assert_int_equal(mp_plan_check(g, plan, &err), MP_OK);
    outcome other = run(&t, plan, &hyper, STEPS);
    for (int k = 0; k < STEPS; k++) assert_true(fabs(base.losses[k] - other.losses[k]) < 1e-4);
    training_end(&t);
}
