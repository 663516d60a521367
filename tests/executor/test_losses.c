/* test_losses.c - each appendable loss compared with PyTorch's value and gradient (tests/executor/losses.def), run as a program
 * with keep-all and with the smallest plan. The arena is never used beyond the planned bytes. */
#include "estimator/training/loss_chunks.h"
#include "memplan/summary.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

#define WITH(...) __VA_ARGS__
#define LOSS(name, loss, options, shape, prediction, target, value, gradient) \
    static const double name##_prediction[] = {prediction}, name##_target[] = {target}, name##_gradient[] = {gradient};
#include "tests/executor/losses.def"
#undef LOSS

typedef struct known_loss {
    const char *name;
    mp_loss loss;
    mp_loss_options options;
    const char *shape;
    const double *prediction, *target;
    double value;
    const double *gradient;
    size_t n;
} known_loss;

#define LOSS(name, loss, options, shape, prediction, target, value, gradient) \
    {#name, MP_LOSS_##loss,    {options},                                     \
     shape, name##_prediction, name##_target,                                 \
     value, name##_gradient,   sizeof name##_gradient / sizeof *name##_gradient},
static const known_loss known[] = {
#include "tests/executor/losses.def"
};
#undef LOSS
enum { N_KNOWN = sizeof known / sizeof *known };

typedef struct step_data {
    const known_loss *k;
    training_case *t;
} step_data;

static void put(training_case *t, mp_execution *e, const char *name, const double *values)
{
    const mp_tensor *x = &t->model->tensors[mp_model_find(t->model, name)];
    mp_error err = {0};
    mp_array there, host = mp_array_plain(x->dtype, x->rank, x->dims);
    host.data = malloc((size_t)mp_array_bytes(&host));
    for (int64_t k = 0; k < mp_array_elements(&host); k++) {
        if (x->dtype == MP_DTYPE_INT64)
            ((int64_t *)host.data)[k] = (int64_t)values[k];
        else
            ((float *)host.data)[k] = values ? (float)values[k] : 0;
    }
    assert_int_equal(mp_execution_tensor(e, mp_model_find(t->model, name), &there, &err), MP_OK);
    assert_int_equal(t->program->backend->upload(t->program->backend, &host, &there, &err), MP_OK);
    free(host.data);
}

static void put_unit(training_case *t, mp_execution *e)
{
    const int64_t n = t->model->tensors[mp_model_find(t->model, "unit")].dims[0];
    double *unit = calloc((size_t)(n * n), sizeof *unit);
    for (int64_t k = 0; k < n; k++) unit[k * n + k] = 1;
    put(t, e, "unit", unit);
    free(unit);
}

static mp_status fill(void *data, int64_t micro_batch, mp_execution *e, mp_error *err)
{
    const step_data *s = data;
    (void)micro_batch, (void)err;
    put(s->t, e, "p", s->k->prediction);
    put(s->t, e, "zero", NULL);
    put(s->t, e, "target", s->k->target);
    if (mp_model_find(s->t->model, "unit") >= 0) put_unit(s->t, e);
    return MP_OK;
}

static mp_model *output_of(const char *shape)
{
    char text[256];
    snprintf(text, sizeof text, "param p %s; data zero %s; Add p zero -> y; out y", shape, shape);
    return model_text(text);
}

/* Returns p times the unit matrix, so that the loss has a product before it. Adding 0 makes the rows of p an activation. */
static mp_model *product_of(const known_loss *k)
{
    char text[256];
    const char *classes = strrchr(k->shape, ' ') + 1;
    snprintf(text, sizeof text, "param p %s; data zero %s; data unit %s %s; Add p zero -> x; MatMul x unit -> y; out y",
             k->shape, k->shape, classes, classes);
    return model_text(text);
}

/* Without chunks, the output is p + 0, so its gradient equals p's. */
static training_case begin(const known_loss *k, int n_chunks)
{
    training_case t = {.model = n_chunks ? product_of(k) : output_of(k->shape)};
    mp_loss_chunks chunks;
    const mp_training_options options = {
        .loss = k->loss, .loss_options = k->options, .optimizer = MP_OPTIMIZER_NONE, .dtype = MP_DTYPE_FLOAT};
    mp_error err = {0};
    int loss;
    if (mp_model_add_loss(t.model, &options, &loss, &err) != MP_OK) fail_msg("%s: %s", k->name, err.message);
    assert_true(t.model->tensors[mp_model_find(t.model, "target")].is_target);
    if (n_chunks) {
        assert_int_equal(mp_model_chunk_loss(t.model, loss, n_chunks, &chunks, &err), MP_OK);
        assert_int_equal(chunks.n, n_chunks < chunks.n_rows ? n_chunks : chunks.n_rows);
    }
    if (mp_program_build(backend_of_tests(), t.model, &options, loss, &t.program, &err) != MP_OK)
        fail_msg("%s: %s", k->name, err.message);
    return t;
}

/* Compares |ours - theirs| relative to the largest element of theirs. */
static void check_gradient(const known_loss *k, training_case *t, mp_execution *e)
{
    double largest = 0;
    mp_error err = {0};
    mp_array there, host;
    assert_int_equal(mp_execution_gradient(e, mp_model_find(t->model, "p"), &there, &err), MP_OK);
    host = mp_array_plain(MP_DTYPE_FLOAT, there.rank, there.dims);
    assert_int_equal(mp_array_elements(&host), (int64_t)k->n);
    host.data = malloc((size_t)mp_array_bytes(&host));
    assert_int_equal(t->program->backend->download(t->program->backend, &there, &host, &err), MP_OK);
    for (size_t i = 0; i < k->n; i++) largest = fmax(largest, fabs(k->gradient[i]));
    for (size_t i = 0; i < k->n; i++) {
        const double ours = (double)((float *)host.data)[i];
        if (!(fabs(ours - k->gradient[i]) <= 1e-6 * largest))
            fail_msg("%s: gradient %zu is %.9g, and PyTorch's %.9g", k->name, i, ours, k->gradient[i]);
    }
    free(host.data);
}

static void check(const known_loss *k, int n_chunks)
{
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    training_case t = begin(k, n_chunks);
    step_data all = {k, &t};
    for (int part = 0; part < 2; part++) {
        mp_plan *plan = part ? training_plan(&t, 0) : training_keep_all(&t);
        const mp_execution_options options = {.hyper = hyper, .poison = true};
        mp_execution *e;
        mp_error err = {0};
        double loss;
        if (mp_execution_new(t.program, plan, &options, &e, &err) != MP_OK) fail_msg("%s: %s", k->name, err.message);
        if (mp_execution_step(e, 0, fill, &all, &loss, &err) != MP_OK) fail_msg("%s: %s", k->name, err.message);
        if (!(fabs(loss - k->value) <= 1e-6 * fabs(k->value)))
            fail_msg("%s: the loss is %.9g, and PyTorch's %.9g", k->name, loss, k->value);
        check_gradient(k, &t, e);
        assert_true(mp_execution_touched_bytes(e) <= mp_execution_arena_bytes(e));
        mp_execution_free(e);
        mp_plan_free(plan);
    }
    training_end(&t);
}

TEST(losses_are_those_of_pytorch)
{
    bool seen[MP_N_LOSSES] = {false};
    for (int c = 0; c < N_KNOWN; c++) {
        seen[known[c].loss] = true;
        check(&known[c], 0);
    }
    for (int l = 0; l < MP_N_LOSSES; l++) assert_true(seen[l] || l == MP_LOSS_AUTO || l == MP_LOSS_NONE);
}

/* Ignored labels, class weights and label smoothing: each chunk divides by the weights of all labels. More chunks than rows
 * give one row per chunk. */
TEST(cross_entropy_in_chunks_of_rows_is_pytorchs)
{
    int n_checked = 0;
    for (int c = 0; c < N_KNOWN; c++) {
        const bool has_rows = strlen(known[c].shape) < strlen("2 3 4 5"); /* classes are the last dimension */
        if (known[c].loss != MP_LOSS_CROSS_ENTROPY || !has_rows) continue;
        for (int n_chunks = 2; n_chunks < 8; n_chunks++) check(&known[c], n_chunks);
        n_checked++;
    }
    assert_true(n_checked >= 6);
}

/* Rows that depend on each other, or on a value of their own, stay whole. Functions of single rows do not hinder chunks. */
TEST(only_heads_whose_rows_are_independent_are_cut)
{
    static const struct {
        const char *text;
        bool is_cut;
    } heads[] = {{"MatMul x w -> h; Tanh h -> y", true},
                 {"MatMul x w -> h; Add h bias -> y", true},
                 {"MatMul x w -> h; BatchNormalization h scale bias mean variance -> y", false},
                 {"MatMul x w -> h; Softmax h -> y axis=0", false},
                 {"MatMul x w -> h; Mul h temperature -> y", false},
                 {"MatMul x w -> h; Dropout h -> y", false},
                 {"MatMul x w -> h; Tanh h -> y; Relu h -> other", false},
                 {"MatMul sequences w -> h; Slice h start end axis -> y", true},
                 {"MatMul x w -> h; Reshape h shape -> r; Slice r start end axis -> y", false},
                 {"Tanh logits -> y", false}};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        char text[512];
        mp_loss_chunks chunks;
        mp_error err = {0};
        int loss;
        snprintf(
            text, sizeof text,
            "data x 6 4; param w 4 8; param logits 6 8; param scale 8; param bias 8; param mean 8; param variance 8;"
            "data temperature 6 1; data sequences 2 3 4; ints shape 2 3 8; ints start 0; ints end 2; ints axis 1; %s; out y",
            heads[k].text);
        mp_model *m = model_text(text);
        const mp_training_options options = {.loss = MP_LOSS_CROSS_ENTROPY, .dtype = MP_DTYPE_FLOAT};
        assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_OK);
        if (mp_model_chunk_loss(m, loss, 2, &chunks, &err) != MP_OK) fail_msg("%s: %s", heads[k].text, err.message);
        if ((chunks.n == 2) != heads[k].is_cut || !chunks.reason != heads[k].is_cut) fail_msg("%s", heads[k].text);
        mp_model_free(m);
    }
}

/* 64 rows of 32 numbers under PyTorch's rules, compared with make_losses.py --saved, which prints autograd's saved bytes. The
 * loss computes cross-entropy's log-probabilities itself, so they are not saved at the end of forward. */
TEST(backward_keeps_what_pytorch_keeps)
{
    static const struct {
        mp_loss loss;
        int64_t bytes;
    } of[] = {
        {MP_LOSS_MSE, 16384}, {MP_LOSS_L1, 8192},     {MP_LOSS_SMOOTH_L1, 16384},    {MP_LOSS_HUBER, 16384},
        {MP_LOSS_BCE, 16384}, {MP_LOSS_KL_DIV, 8192}, {MP_LOSS_COSINE, 17536 - 384}, /* PyTorch keeps 384 bytes for dissimilar
                                                                                        pairs: a number and two choices per row
                                                                                      */
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        mp_model *m = output_of("64 32");
        const mp_training_options options = {.loss = of[k].loss, .dtype = MP_DTYPE_FLOAT, .rules = MP_RULES_PYTORCH};
        const mp_target target = mp_roofline(mp_device_find("a100"));
        mp_error err = {0};
        mp_graph *g;
        mp_summary summary;
        int loss;
        assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_OK);
        assert_int_equal(mp_training_graph(m, &options, loss, &target, &g, &err), MP_OK);
        assert_int_equal(mp_summarize(g, MP_RULES_PYTORCH, &summary, &err), MP_OK);
        if (summary.saved_activation_bytes != of[k].bytes)
            fail_msg("%s: %lld bytes are kept, not %lld", mp_loss_name(of[k].loss), (long long)summary.saved_activation_bytes,
                     (long long)of[k].bytes);
        mp_summary_free(&summary);
        mp_graph_free(g);
        mp_model_free(m);
    }
}

/* Checks a refusal on two rows of four numbers. */
static void refused(mp_training_options options, const char *why)
{
    mp_model *m = output_of("2 4");
    mp_error err = {0};
    int loss;
    assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_INVALID);
    if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    mp_model_free(m);
}

TEST(options_of_other_losses_are_refused)
{
    const double weights[] = {1, 2, 3};
    refused((mp_training_options){.loss = MP_LOSS_MSE, .loss_options.label_smoothing = 0.1}, "cross-entropy, not to mse");
    refused((mp_training_options){.loss = MP_LOSS_L1, .loss_options.ignore_index = (const int64_t[]){0}}, "not to l1");
    refused((mp_training_options){.loss_options = {.pos_weight = weights, .n_pos_weight = 1}}, "bce, not to cross-entropy");
    refused((mp_training_options){.loss = MP_LOSS_BCE, .loss_options.beta = 1}, "huber, not to bce");
    refused((mp_training_options){.loss = MP_LOSS_NONE, .loss_options.beta = 1}, "not to none");
    refused((mp_training_options){.loss_options.label_smoothing = 1.5}, "1.5, but it must be between 0 and 1");
    refused((mp_training_options){.loss_options = {.class_weights = weights, .n_class_weights = 3}},
            "3 class weights are given, but 'y' has 4 classes");
    refused((mp_training_options){.loss = MP_LOSS_BCE, .loss_options = {.pos_weight = weights, .n_pos_weight = 3}},
            "3 weights of positives are given, but 'y' needs one, or 4");
    refused((mp_training_options){.loss = MP_LOSS_HUBER, .loss_options.beta = -1}, "beta is -1");
}
