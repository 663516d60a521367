/* test_cuda_packed_attention.c - compares attention that reads Q, K and V in one tensor with attention on separate operands. An
 * interpreter compares values; training on the GPU's twin must give the same bits. */
#include <math.h>

#include "estimator/base/memory.h"
#include "estimator/rules/operands/attention.h"
#include "executor/operators/aligned_rows.h"
#include "executor/operators/attention/packed_operands.h"
#include "executor/operators/fusions.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 3 };

#define SPLIT "Split x sizes -> a b c axis=2; Reshape a heads -> d; Reshape b heads -> e; Reshape c heads -> f; "
#define PERMS "permQ=[0,2,1,3] permK=[0,2,1,3] permV=[0,2,1,3]"
#define ATTEND "memplan:ScaledDotProductAttention@1 "

TEST(parts_of_one_tensor_are_read_in_place)
{
    static const struct {
        const char *text, *kinds;
    } cases[] = {
        {SPLIT ATTEND "d e f -> y scale=0.5 " PERMS "; out y", "ScaledDotProductAttention"},
        {SPLIT ATTEND "f d e -> y scale=0.5 causal=1 permY=[0,2,1,3] " PERMS "; out y", "ScaledDotProductAttention"},
        {SPLIT ATTEND "d e f - m -> y fill=-1e9 " PERMS "; out y", "ScaledDotProductAttention"},
        {SPLIT "Transpose d -> g perm=[0,2,1,3]; Transpose e -> h perm=[0,2,1,3]; Transpose f -> i perm=[0,2,1,3]; " ATTEND
               "g h i -> y; out y",
         "ScaledDotProductAttention"},
        {SPLIT "Transpose d -> g perm=[0,2,1,3]; Transpose e -> h perm=[0,2,3,1]; Transpose f -> i perm=[0,2,1,3]; " ATTEND
               "g h i -> y transK=1; out y",
         "ScaledDotProductAttention"},
        {"Reshape x five -> r; Transpose r -> t perm=[2,0,3,1,4]; Gather t zero -> a axis=0; Gather t one -> b axis=0; "
         "Gather t two -> c axis=0; " ATTEND "a b c -> y; out y",
         "ScaledDotProductAttention"},
        {"Reshape x five -> r; Transpose r -> t perm=[2,0,3,1,4]; Split t ones -> a b c axis=0; Squeeze a front -> d; "
         "Squeeze b front -> e; Squeeze c front -> f; " ATTEND "d e f -> y; out y",
         "ScaledDotProductAttention"},
        /* another operator reads a part; a part is an output; two operands are the same part */
        {SPLIT ATTEND "d e f -> y " PERMS "; Abs a -> u; out y u", NULL},
        {SPLIT ATTEND "d e f -> y " PERMS "; out y a", NULL},
        {SPLIT ATTEND "d e e -> y " PERMS "; out y", NULL},
        {"Reshape x five -> r; Transpose r -> t perm=[2,0,3,1,4]; Gather t zero -> a axis=0; Gather t zero -> b axis=0; "
         "Gather t two -> c axis=0; " ATTEND "a b c -> y; out y",
         NULL},
        /* parts of two tensors; parts that begin between multiples of 16 bytes; strides that no view can express */
        {"Split x sizes -> a b g axis=2; Split z halves -> c d axis=2; Reshape a heads -> e; Reshape b heads -> f; Reshape c "
         "heads "
         "-> h; Abs d -> i; Abs g -> j; " ATTEND "e f h -> y " PERMS "; out y i j",
         NULL},
        {"Split n small -> a b c axis=2; Reshape a thin -> d; Reshape b thin -> e; Reshape c thin -> f; " ATTEND
         "d e f -> y " PERMS "; out y",
         NULL},
        {"Transpose x -> t perm=[0,2,1]; Split t sizes -> a b c axis=1; Reshape a heads -> d; Reshape b heads -> e; Reshape c "
         "heads "
         "-> f; " ATTEND "d e f -> y " PERMS "; out y",
         NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1200], before[200];
        mp_error err = {0};
        snprintf(
            text, sizeof text,
            "data x 2 5 48; data z 2 5 32; data n 2 5 12; data:9 m 5 5; ints sizes 16 16 16; ints halves 16 16; ints small 4 4 "
            "4; ints heads 2 5 2 8; ints thin 2 5 1 4; ints five 2 5 3 2 8; ints ones 1 1 1; ints front 0; int zero 0; int one "
            "1; int two -1; %s",
            cases[k].text);
        mp_model *model = model_text(text);
        const int y = mp_model_find(model, "y");
        double *expected = interpret(model, y), *found;
        snprintf(before, sizeof before, "%s", model_kinds(model));
        if (mp_pack_attention(model, &err) != MP_OK) fail_msg("%s: %s", cases[k].text, err.message);
        const char *wanted = cases[k].kinds ? cases[k].kinds : before;
        if (strcmp(model_kinds(model), wanted) != 0)
            fail_msg("%s\ngives: %s\nnot:   %s", cases[k].text, model_kinds(model), wanted);
        found = interpret(model, mp_model_find(model, "y"));
        for (int64_t e = 0; e < mp_tensor_elements(&model->tensors[y]); e++)
            if (!(fabs(expected[e] - found[e]) < 1e-12))
                fail_msg("%s: element %d is %g, not %g", cases[k].text, (int)e, found[e], expected[e]);
        free(expected);
        free(found);
        mp_model_free(model);
    }
}

static mp_backend *twin;

/* Adapts a model like the twin, but without packing the operands of attention. */
static mp_status adapt_apart(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err)
{
    const mp_backend *host = backend_named("cpu", err);
    (void)self;
    MP_CHECK(host->adapt(host, model, dtype, err));
    MP_CHECK(mp_align_rows(model, err));
    return mp_fuse_batch_normalizations(model, err);
}

static size_t count_packed(const training_case *t)
{
    mp_attention_view view;
    size_t n = 0;
    for (size_t k = 0; k < t->model->n_operators; k++) n += mp_attention_view_read(&t->model->operators[k], 0, &view);
    return n;
}

/* Trains with keep-all (out[0]) and with a plan that recomputes (out[1]). Returns the number of packed attentions. */
static size_t train(const mp_backend *backend, const char *path, const mp_training_options *options, training_outcome out[2])
{
    const mp_execution_options how = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .seed = 3, .poison = true, .guards = true};
    training_case t = training_begin_fused_on(backend, path, 0, options);
    const size_t n = count_packed(&t);
    for (int k = 0; k < 2; k++) {
        mp_plan *plan = k ? training_plan(&t, 0.3) : training_keep_all(&t);
        out[k] = training_outcome_of(&t, plan, &how, STEPS);
        mp_plan_free(plan);
    }
    training_end(&t);
    return n;
}

TEST(training_has_the_bits_of_separate_operands)
{
    static const char *const networks[] = {"tests/gradients/gpt.onnx", "tests/gradients/bert.onnx"};
    mp_error err = {0};
    if (!(twin = backend_twin(&err))) fail_msg("%s", err.message);
    mp_backend apart = *twin;
    apart.adapt = adapt_apart;
    for (int k = 0; k < 8; k++) {
        const mp_training_options options = {
            .optimizer = MP_OPTIMIZER_ADAMW, .dtype = k & 2 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, .accumulate = k & 4 ? 2 : 1};
        training_outcome packed[2], separate[2];
        assert_true(train(twin, networks[k & 1], &options, packed) > 0);
        assert_int_equal(train(&apart, networks[k & 1], &options, separate), 0);
        for (int p = 0; p < 2; p++)
            if (!training_outcomes_are_same(&packed[p], &separate[p]))
                fail_msg("%s, %s, accumulate %d, plan %d: losses %.9g and %.9g", networks[k & 1], mp_dtype_name(options.dtype),
                         options.accumulate, p, packed[p].losses[0], separate[p].losses[0]);
    }
    twin->close(twin);
}

int main(void)
{
    return test_run(NULL, NULL);
}
