/* test_execution.c - planned training steps give exactly the same losses and weights, for every recomputation and update
 * position. The arena is used up to its top and not beyond. A resumed training equals an uninterrupted one. */
#include <unistd.h>

#include "executor/operators/aligned_rows.h"
#include "executor/train/accuracy.h"
#include "executor/train/state.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 5, PARAMETERS = 64 };

/* Losses of a training, and at its end hashes of all values and of each parameter, which are in the order of the model. */
typedef struct outcome {
    double losses[STEPS];
    char hash[33];
    uint64_t parameters[PARAMETERS];
} outcome;

/* Downloads a parameter and hashes its bytes (FNV-1a). */
static uint64_t hash_parameter(const training_case *t, mp_execution *e, int tensor)
{
    mp_error err = {0};
    mp_array there, host;
    assert_int_equal(mp_execution_tensor(e, tensor, &there, &err), MP_OK);
    host = mp_array_plain(there.dtype, there.rank, there.dims);
    const size_t bytes = (size_t)mp_array_bytes(&host);
    host.data = mp_alloc(bytes, 1);
    assert_int_equal(t->program->backend->download(t->program->backend, &there, &host, &err), MP_OK);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t k = 0; k < bytes; k++) hash = (hash ^ ((const uint8_t *)host.data)[k]) * UINT64_C(0x100000001b3);
    mp_free(host.data);
    return hash;
}

static void record(const training_case *t, mp_execution *e, outcome *o)
{
    int n = 0;
    mp_execution_hash(e, o->hash);
    for (size_t k = 0; k < t->model->n_tensors; k++)
        if (t->model->tensors[k].role == MP_ROLE_PARAMETER && n < PARAMETERS) o->parameters[n++] = hash_parameter(t, e, (int)k);
}

static outcome run(training_case *t, mp_plan *plan, const mp_hyper *hyper, int64_t n)
{
    outcome o = {.hash = ""};
    mp_execution *e = training_execution(t, plan, hyper);
    training_run(t, e, 0, n, o.losses);
    assert_true(mp_execution_touched_bytes(e) <= plan->arena_bytes);
    assert_true(mp_execution_touched_bytes(e) > plan->arena_bytes - plan->arena_bytes / 8 - 4096);
    record(t, e, &o);
    mp_execution_free(e);
    mp_plan_free(plan);
    return o;
}

/* Returns the name of parameter `index` of a model, counted as in an outcome. */
static const char *parameter_name(const mp_model *model, int index)
{
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_PARAMETER && index-- == 0) return model->tensors[k].name;
    return "none";
}

/* Fails if two trainings of the same network differ in a bit. The message names the first step with another loss, and all
 * parameters with other values, so that one run on a GPU shows where the difference begins. */
static void assert_same(const training_case *t, const outcome *a, const outcome *b, const char *what)
{
    char names[600] = "";
    int step = 0;
    if (memcmp(a->losses, b->losses, sizeof a->losses) == 0 && strcmp(a->hash, b->hash) == 0) return;
    while (step < STEPS && memcmp(&a->losses[step], &b->losses[step], sizeof(double)) == 0) step++;
    for (int k = 0; k < PARAMETERS; k++)
        if (a->parameters[k] != b->parameters[k])
            snprintf(names + strlen(names), sizeof names - strlen(names), " %s", parameter_name(t->model, k));
    if (step < STEPS)
        fail_msg("%s: loss of step %d is %.9g instead of %.9g; parameters that differ at the end:%s", what, step,
                 b->losses[step], a->losses[step], names);
    fail_msg("%s: all losses are equal; parameters that differ at the end:%s", what, names);
}

/* A training with updates at one place and accumulated gradients. */
/* A network, and the function that makes its program. */
typedef struct network {
    const char *path;
    training_case (*begin)(const char *path, int64_t batch, const mp_training_options *options);
} network;

typedef struct setting {
    network network;
    mp_optimizer optimizer;
    int fuse, accumulate;
} setting;

static training_case begin(const setting *s)
{
    mp_training_options options = {.optimizer = s->optimizer,
                                   .fuse = (mp_fuse)s->fuse,
                                   .dtype = MP_DTYPE_FLOAT,
                                   .accumulate = s->accumulate,
                                   .options_json = "{}"};
    return s->network.begin(s->network.path, 0, &options);
}

static const char *describe(const setting *s, const char *change)
{
    static char text[200];
    snprintf(text, sizeof text, "%s%s, %s, --fuse %s, --accumulate %d, %s", s->network.path,
             s->network.begin == training_begin           ? ""
             : s->network.begin == training_begin_chunked ? " with its head in chunks"
                                                          : " with its regions in chunks",
             mp_optimizer_name(s->optimizer), mp_fuse_name((mp_fuse)s->fuse), s->accumulate, change);
    return text;
}

static const network networks[] = {
    {"tests/gradients/mlp.onnx", training_begin},           {"tests/gradients/cnn.onnx", training_begin},
    {"tests/gradients/unet.onnx", training_begin},          {"tests/gradients/bert.onnx", training_begin},
    {"tests/gradients/gpt.onnx", training_begin},           {"tests/gradients/gpt.onnx", training_begin_chunked},
    {"tests/gradients/gpt.onnx", training_begin_in_regions}};

/* Keep-all and plans with updates at all places give the same bits, also with gradients that are accumulated over two or three
 * micro-batches. */
TEST(nothing_depends_on_the_plan_or_on_where_updates_run)
{
    static const double parts[] = {-1, 0.3, 0.8, 0.2};
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++)
        for (int accumulate = 1; accumulate <= (k ? 2 : 3); accumulate++) {
            static outcome first;
            for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
                const setting s = {networks[k], MP_OPTIMIZER_ADAMW, fuse, accumulate};
                mp_hyper hyper = mp_hyper_default(s.optimizer);
                training_case t = begin(&s);
                for (int part = 0; part < (accumulate > 1 ? 2 : 4); part++) {
                    char change[32];
                    mp_plan *plan = part ? training_plan(&t, parts[part]) : training_keep_all(&t);
                    static outcome o;
                    o = run(&t, plan, &hyper, accumulate > 1 ? 3 : STEPS);
                    if (!fuse && !part) first = o;
                    snprintf(change, sizeof change, "plan at %g", parts[part]);
                    assert_same(&t, &first, &o, describe(&s, part ? change : "keep-all"));
                }
                training_end(&t);
            }
            assert_true(isfinite(first.losses[2]) && first.losses[0] != first.losses[2]);
        }
}

/* Runs two steps of a plan with gaps between all storages, and checks the gaps. */
static outcome run_guarded(training_case *t, const mp_plan *plan, const mp_hyper *hyper)
{
    mp_execution_options apart = {.hyper = *hyper, .seed = 3, .guards = true, .poison = true};
    mp_error err = {0};
    mp_execution *e;
    outcome o = {.hash = ""};
    if (mp_execution_new(t->program, plan, &apart, &e, &err) != MP_OK) fail_msg("%s", err.message);
    assert_true(mp_execution_arena_bytes(e) > plan->arena_bytes);
    assert_int_equal(mp_parameters_load(t->source, t->program, e, &err), MP_OK);
    training_run(t, e, 0, 2, o.losses);
    record(t, e, &o);
    mp_execution_free(e);
    return o;
}

/* With gaps between all storages the results are the same, and the bytes in the gaps stay unchanged. */
TEST(nothing_is_written_beside_its_place)
{
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++)
        for (int accumulate = 1; accumulate <= 2; accumulate++)
            for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
                const setting s = {networks[k], MP_OPTIMIZER_ADAMW, fuse, accumulate};
                mp_hyper hyper = mp_hyper_default(s.optimizer);
                training_case t = begin(&s);
                mp_plan *plan = training_plan(&t, 0.5);
                static outcome guarded, planned;
                guarded = run_guarded(&t, plan, &hyper);
                planned = run(&t, plan, &hyper, 2);
                assert_same(&t, &planned, &guarded, describe(&s, "gaps between storages"));
                training_end(&t);
            }
}

/* Measures the accuracy on one synthetic batch, with the initial weights. */
static mp_accuracy accuracy_of(training_case *t)
{
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    mp_plan *plan = training_keep_all(t);
    mp_execution *e = training_execution(t, plan, &hyper);
    mp_accuracy found;
    mp_error err = {0};
    if (mp_accuracy_measure(e, t->program, t->feed, 0, &found, &err) != MP_OK) fail_msg("%s", err.message);
    mp_execution_free(e);
    mp_plan_free(plan);
    return found;
}

/* Trains a network with 515 logits. A GPU aligns their rows. Losses are those of the CPU, which does not, and neither plan,
 * gaps between storages nor accumulation changes a bit. */
static void check_aligned_rows(const char *text)
{
    onnx_builder file;
    onnx_text_start(&file, 17, text);
    const char *path = onnx_save(&file);
    for (int half = 0; half < 2; half++)
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW,
                                           .dtype = half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT,
                                           .accumulate = accumulate,
                                           .options_json = "{}"};
            const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
            training_case t = training_begin(path, 0, &options),
                          u = training_begin_on(mp_backend_find("cpu"), path, 0, &options);
            const char *backend = t.program->backend->name;
            const bool aligns = !strcmp(backend, "cuda-twin") || (!strcmp(backend, "cuda") && half);
            assert_int_equal(mp_aligned_rows_of(t.model).elements, aligns ? 24 * 5 : 0);
            static outcome all, planned, apart, expected;
            all = run(&t, training_keep_all(&t), &hyper, STEPS);
            planned = run(&t, training_plan(&t, 0.3), &hyper, STEPS);
            expected = run(&u, training_keep_all(&u), &hyper, STEPS);
            assert_same(&t, &all, &planned, "a plan with aligned rows");
            all = run(&t, training_keep_all(&t), &hyper, 2);
            mp_plan *plan = training_plan(&t, 0.5);
            apart = run_guarded(&t, plan, &hyper);
            mp_plan_free(plan);
            assert_same(&t, &all, &apart, "aligned rows with gaps between storages");
            for (int k = 0; k < STEPS; k++)
                if (!(fabs(planned.losses[k] - expected.losses[k]) <= (half ? 5e-3 : 1e-5)))
                    fail_msg("%s, step %d: the loss is %.9g, not %.9g", half ? "bf16" : "fp32", k, planned.losses[k],
                             expected.losses[k]);
            const mp_accuracy here = accuracy_of(&t), there = accuracy_of(&u);
            assert_true(fabs(here.loss - there.loss) <= (half ? 5e-3 : 1e-5));
            assert_true(half || here.accuracy == there.accuracy);
            training_end(&u);
            training_end(&t);
        }
    onnx_end(&file);
}

TEST(aligned_rows_change_no_value)
{
    check_aligned_rows("input x float 4,6,16; weight a.weight 16,24; weight b.weight 515,24; weight b.bias 515;"
                       "MatMul x a.weight -> h; Relu h -> r; Transpose b.weight -> t perm=[1,0]; MatMul r t -> l;"
                       "Add l b.bias -> y; out y");
    /* a weight of 24 rows is stored column by column */
    check_aligned_rows("input x float 4,6,16; weight a.weight 16,24; weight b.weight 24,515; weight b.bias 515;"
                       "MatMul x a.weight -> h; Relu h -> r; MatMul r b.weight -> l; Add l b.bias -> y; out y");
}

/* Two micro-batches equal one batch of twice the size, except for rounding. */
TEST(accumulated_gradients_are_those_of_the_whole_batch)
{
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        static outcome first;
        mp_training_options options = {
            .optimizer = MP_OPTIMIZER_MOMENTUM, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT, .accumulate = 2};
        mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM);
        training_case t = training_begin(networks[0].path, 0, &options);
        outcome a = run(&t, training_keep_all(&t), &hyper, 3), b = run(&t, training_plan(&t, 0.3), &hyper, 3);
        assert_same(&t, &a, &b, "a plan with momentum and accumulation");
        if (!fuse) first = a;
        assert_same(&t, &first, &a, "updates at another place, with momentum and accumulation");
        /* the mean of the losses of micro-batches 0 and 1 before the first update */
        mp_training_options single = options;
        single.accumulate = 0;
        training_case s = training_begin(networks[0].path, 0, &single);
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
    training_case t = training_begin(networks[0].path, 0, &options);
    gradient_of(&t, 0, "layers.0.weight", both, N);
    training_end(&t);
    options.accumulate = 1;
    t = training_begin(networks[0].path, 0, &options);
    gradient_of(&t, 0, "layers.0.weight", first, N);
    gradient_of(&t, 1, "layers.0.weight", second, N);
    training_end(&t);
    for (int k = 0; k < N; k++) assert_true(fabs(both[k] - (first[k] + second[k]) / 2) < 1e-7);
    assert_true(memcmp(first, second, sizeof first) != 0);
}

TEST(clipping_is_exact_wherever_updates_run)
{
    outcome first = {.hash = ""}, free_run = {.hash = ""};
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        mp_training_options options = {
            .optimizer = MP_OPTIMIZER_SGD, .fuse = (mp_fuse)fuse, .dtype = MP_DTYPE_FLOAT, .clip_norm = 0.05};
        if (fuse == MP_FUSE_BACKWARD) options.clip_norm = 0; /* refused; see test_training */
        mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
        training_case t = training_begin(networks[1].path, 0, &options);
        outcome o = run(&t, training_plan(&t, 0.5), &hyper, STEPS);
        if (fuse == MP_FUSE_NONE) first = o;
        if (fuse == MP_FUSE_BACKWARD) free_run = o;
        if (fuse == MP_FUSE_FORWARD) assert_same(&t, &first, &o, "clipping before the next step");
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
    training_case t = training_begin(networks[0].path, 0, &plain);
    mp_error err = {0};
    mp_program *program;
    assert_int_equal(mp_program_build(mp_backend_find("cpu"), t.model, &options, t.program->bindings->loss, &program, &err),
                     MP_INVALID);
    assert_non_null(strstr(err.message, "--fuse forward"));
    training_end(&t);
}

static mp_device own;

static const mp_device *own_device(const mp_backend *self)
{
    (void)self;
    return &own;
}

TEST(a_program_has_the_seconds_of_its_device_at_both_rates)
{
    for (int k = 0; k < MP_N_RATES_KINDS; k++) {
        const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
        mp_backend backend = *mp_backend_find("cpu");
        mp_error err = {0};
        mp_graph *expected = NULL;
        double seconds = 0, spent = 0;
        own = *mp_device_find("h100");
        own.rates = (mp_rates)k;
        backend.device = own_device;
        training_case t = training_begin_on(&backend, networks[0].path, 0, &options);
        mp_target target = mp_roofline(&own);
        target.alternatives = true;
        assert_int_equal(mp_training_graph(t.model, &options, t.program->bindings->loss, &target, &expected, &err), MP_OK);
        const mp_graph *graph = t.program->graph;
        assert_int_equal(graph->n_nodes, expected->n_nodes);
        for (size_t i = 0; i < graph->n_nodes; i++) {
            assert_int_equal(graph->nodes[i].alternatives[0].ticks, expected->nodes[i].alternatives[0].ticks);
            seconds += (double)graph->nodes[i].alternatives[0].ticks * graph->tick_seconds;
        }
        for (int f = 0; f < MP_N_TIMED; f++) spent += t.program->spending.seconds[f];
        if (k == MP_RATES_ACHIEVED)
            assert_true(spent > 0.99 * seconds);
        else
            assert_true(spent == 0);
        mp_graph_free(expected);
        training_end(&t);
    }
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
            training_case t = training_begin(networks[1].path, 0, &options);
            outcome whole = run(&t, training_plan(&t, 0.5), &hyper, 4), parts = {.hash = ""};
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
    training_case t = training_begin(networks[3].path, 0, &options);
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
