/* test_patterns.c - normalizations and activations are recognised in exported forms, and compute the same values afterwards. */
#include "estimator/training/training.h"
#include "memplan/simplify.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

/* Fails unless two results are equal except for rounding (or both are NaN or infinite). */
static void compare(const char *text, const double *before, const double *after, int64_t n)
{
    assert_true(before && after);
    for (int64_t k = 0; k < n; k++) {
        double scale = fmax(1, fabs(before[k]));
        if (isfinite(before[k]) ? !(fabs(before[k] - after[k]) <= 1e-3 * scale) : isfinite(after[k]))
            fail_msg("%s\nelement %d was %g, is %g", text, (int)k, before[k], after[k]);
    }
}

/* Simplifies, and checks that the declared outputs still exist, keep their names and have the same values. */
static mp_model *simplified(const char *text)
{
    mp_error err = {0};
    double *before[8];
    mp_model *model = model_text(text);
    assert_true(model->n_outputs <= 8);
    for (size_t k = 0; k < model->n_outputs; k++) before[k] = interpret(model, model->outputs[k]);
    if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK) fail_msg("%s: %s", text, err.message);
    for (size_t k = 0; k < model->n_outputs; k++) {
        const mp_tensor *y = &model->tensors[model->outputs[k]];
        double *after = interpret(model, model->outputs[k]);
        assert_int_equal(y->replaced_by, -1);
        compare(text, before[k], after, mp_tensor_elements(y));
        free(before[k]);
        free(after);
    }
    return model;
}

static void check(const char *text, const char *kinds)
{
    mp_model *model = simplified(text);
    if (strcmp(model_kinds(model), kinds) != 0) fail_msg("%s\ngives: %s\nnot:   %s", text, model_kinds(model), kinds);
    mp_model_free(model);
}

static void check_untouched(const char *text)
{
    mp_model *model = model_text(text);
    char kinds[1024];
    snprintf(kinds, sizeof kinds, "%s", model_kinds(model));
    mp_model_free(model);
    check(text, kinds);
}

/* Replaces each %s of a frame with the same text. */
static const char *framed(const char *frame, const char *middle)
{
    static char text[2048];
    snprintf(text, sizeof text, frame, middle);
    return text;
}

static const char activation_frame[] =
    "data in 2 3; Abs in -> x; const half 0.5; const root 1.4142135; const inverse 0.70710678; const one 1; const two 2; const "
    "three 3;"
    "const six 6; const zero 0; const sixth 0.16666667; const pi 0.7978845608; const cube 0.044715; %s; Tanh y -> z; out z";

TEST(gelu_is_recognised_in_every_order)
{
    static const char *const alternatives[] = {
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y",
        "Mul x inverse -> u; Erf u -> e; Add one e -> a; Mul a x -> b; Mul half b -> y",
        "Mul x half -> h; Div x root -> u; Erf u -> e; Add e one -> a; Mul h a -> y",
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul half a -> b; Mul x b -> y",
        "Div x root -> u; Erf u -> e; Add e one -> a; Div a two -> b; Mul b x -> y",
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Div b two -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++)
        check(framed(activation_frame, alternatives[k]), "Abs Gelu Tanh");
    mp_model *model = simplified(framed(activation_frame, alternatives[0]));
    const mp_operator *gelu = &model->operators[1];
    assert_string_equal(gelu->name, "y/op");
    assert_string_equal(model->tensors[gelu->out[0]].name, "y");
    assert_string_equal(model->tensors[gelu->in[0]].name, "x");
    assert_string_equal(mp_operator_text(gelu, "approximate", "none"), "none");
    assert_true(gelu->op && gelu->op->since <= gelu->version);
    for (const char *inner = "ueab"; *inner; inner++) {
        int t = mp_model_find(model, (char[]){*inner, 0});
        assert_int_equal(mp_model_resolve(model, t), gelu->out[0]);
    }
    mp_model_free(model);
}

TEST(nearly_gelu_is_left_alone)
{
    static const char *const alternatives[] = {
        "const c 1.5; Div x c -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y",
        "Div x root -> u; Erf u -> e; Add e two -> a; Mul x a -> b; Mul b half -> y",
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b two -> y",
        "Div x root -> u; Erf u -> e; Sub one e -> a; Mul x a -> b; Mul b half -> y",
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul in a -> b; Mul b half -> y",
        "Div x root -> u; Tanh u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y",
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y; out e",
        "Div x root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y; Exp a -> k; out k",
        "Div x root -> u; Exp u -> k; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y; out k",
        "param p; Div x p -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y",
        "ReduceMean x -> m axes=[0]; Div m root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++)
        check_untouched(framed(activation_frame, alternatives[k]));
    /* a constant that broadcasts makes the result larger than x */
    check_untouched("data x 2 1; const half 0.5 0.5 0.5; const root 1.4142135; const one 1; Div x root -> u; Erf u -> e;"
                    "Add e one -> a; Mul x a -> b; Mul b half -> y; out y");
}

TEST(gelu_by_tanh_is_recognised)
{
    static const char *const alternatives[] = {
        "Pow x three -> p; Mul p cube -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul x half -> h; Mul h a "
        "-> y",
        "Mul x half -> h; Pow x three -> p; Mul cube p -> q; Add q x -> s; Mul pi s -> v; Tanh v -> t; Add one t -> a; Mul a h "
        "-> y",
        "Mul x x -> x2; Mul x2 x -> p; Mul p cube -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul x a -> b;"
        "Mul b half -> y",
        "Mul x cube -> c; Mul c x -> d; Mul d x -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul a half -> "
        "b;"
        "Mul x b -> y",
        "Mul x x -> x2; Mul x2 cube -> q; Add one q -> s; Mul x pi -> g; Mul g s -> v; Tanh v -> t; Add t one -> a;"
        "Mul x half -> h; Mul h a -> y",
        "Pow x two -> x2; Mul x2 cube -> q; Add q one -> s; Mul x s -> g; Mul g pi -> v; Tanh v -> t; Add t one -> a;"
        "Mul x half -> h; Mul h a -> y",
        "const k 0.0356774; Pow x three -> p; Mul p k -> q; Mul x pi -> l; Add l q -> v; Tanh v -> t; Add t one -> a;"
        "Mul x half -> h; Mul h a -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++) {
        check(framed(activation_frame, alternatives[k]), "Abs Gelu Tanh");
        mp_model *model = simplified(framed(activation_frame, alternatives[k]));
        assert_string_equal(mp_operator_text(&model->operators[1], "approximate", "none"), "tanh");
        mp_model_free(model);
    }
    static const char *const near[] = {
        "Pow x two -> p; Mul p cube -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul x half -> h; Mul h a "
        "-> y",
        "Pow x three -> p; Mul p half -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul x half -> h; Mul h a "
        "-> y",
        "Pow x three -> p; Mul p cube -> q; Add x q -> s; Mul s two -> v; Tanh v -> t; Add t one -> a; Mul x half -> h; Mul h "
        "a -> y",
        "Pow x three -> p; Mul p cube -> q; Sub x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul x half -> h; Mul h a "
        "-> y",
        "Pow x three -> p; Mul p cube -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a; Mul x half -> h; Mul h a "
        "-> y;"
        "out p",
    };
    for (size_t k = 0; k < sizeof near / sizeof *near; k++) check_untouched(framed(activation_frame, near[k]));
}

TEST(swish_is_recognised)
{
    check(framed(activation_frame, "Sigmoid x -> s; Mul x s -> y"), "Abs Swish Tanh");
    check(framed(activation_frame, "Sigmoid x -> s; Mul s x -> y"), "Abs Swish Tanh");
    mp_model *model = simplified(framed(activation_frame, "const k 1.702; Mul x k -> u; Sigmoid u -> s; Mul s x -> y"));
    assert_string_equal(model_kinds(model), "Abs Swish Tanh");
    assert_true(mp_operator_float(&model->operators[1], "alpha", 1) == 1.702);
    mp_model_free(model);
    check_untouched(framed(activation_frame, "Sigmoid in -> s; Mul x s -> y"));
    check_untouched(framed(activation_frame, "Sigmoid x -> s; Mul x s -> y; out s"));
    check_untouched(framed(activation_frame, "Sigmoid x -> s; Add x s -> y"));
    check_untouched(framed(activation_frame, "Sigmoid x -> s; Mul x s -> m; Mul m s -> y"));
    check_untouched(framed(activation_frame, "ReduceMean x -> m axes=[1]; Sigmoid m -> s; Mul x s -> y"));
    /* two activations in a row, and one that is scaled afterwards */
    check(framed(activation_frame, "Sigmoid x -> s; Mul x s -> m; Sigmoid m -> s2; Mul s2 m -> y"), "Abs Swish Swish Tanh");
    check(framed(activation_frame, "Sigmoid x -> s; Mul x s -> m; Mul m half -> y"), "Abs Swish Mul Tanh");
}

TEST(hard_swish_is_recognised)
{
    static const char *const alternatives[] = {
        "HardSigmoid x -> s alpha=0.16666667 beta=0.5; Mul x s -> y",
        "Add x three -> a; Clip a zero six -> c; Mul x c -> m; Div m six -> y",
        "Add x three -> a; Clip a zero six -> c; Div c six -> m; Mul m x -> y",
        "Add three x -> a; Clip a zero six -> c; Mul c sixth -> m; Mul x m -> y",
        "Add three x -> a; Clip a zero six -> c; Mul c x -> m; Mul sixth m -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++)
        check(framed(activation_frame, alternatives[k]), "Abs HardSwish Tanh");
    check_untouched(framed(activation_frame, "HardSigmoid x -> s; Mul x s -> y"));
    check_untouched(framed(activation_frame, "HardSigmoid x -> s alpha=0.16666667 beta=0.25; Mul x s -> y"));
    check_untouched(framed(activation_frame, "Add x two -> a; Clip a zero six -> c; Mul x c -> m; Div m six -> y"));
    check_untouched(framed(activation_frame, "Add x three -> a; Clip a one six -> c; Mul x c -> m; Div m six -> y"));
    check_untouched(framed(activation_frame, "Add x three -> a; Clip a zero two -> c; Mul x c -> m; Div m six -> y"));
    check_untouched(framed(activation_frame, "Add x three -> a; Clip a zero six -> c; Mul x c -> m; Div m two -> y"));
}

static const char norm_frame[] =
    "data in 2 3 4; Abs in -> x; param g 4; param b 4; param g3 1 1 4; param gm 3 4; const two 2; const one 1; const eps "
    "0.00001;"
    "const half 0.5; const minus -0.5; const three 3; const big 2; ints last -1; %s; Tanh y -> z; out z";
#define CENTRE "ReduceMean x -> mu axes=[-1]; Sub x mu -> d;"
#define SQUARE "Pow d two -> q;"
#define VARIANCE "ReduceMean q -> v axes=[-1]; Add v eps -> w;"
#define NORMAL CENTRE SQUARE VARIANCE "Sqrt w -> r; Div d r -> n;"

TEST(layer_normalization_is_recognised)
{
    static const char *const alternatives[] = {
        NORMAL "Mul n g -> s; Add s b -> y",
        NORMAL "Mul g n -> s; Add b s -> y",
        CENTRE "Mul d d -> q;" VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> s; Add s b -> y",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Reciprocal r -> i; Mul d i -> n; Mul n g -> s; Add s b -> y",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Div one r -> i; Mul i d -> n; Mul n g -> s; Add s b -> y",
        CENTRE SQUARE VARIANCE "Pow w half -> r; Div d r -> n; Mul n g -> s; Add s b -> y",
        CENTRE SQUARE VARIANCE "Pow w minus -> i; Mul d i -> n; Mul n g -> s; Add s b -> y",
        "ReduceMean x -> mu axes=[2]; Sub x mu -> d; Sub x mu -> d2; Mul d2 d2 -> q; ReduceMean q -> v axes=[-1]; Add eps v -> "
        "w;"
        "Sqrt w -> r; Div d r -> n; Mul n g -> s; Add s b -> y",
        "ReduceMean@18 x last -> mu; Sub x mu -> d;" SQUARE
        "ReduceMean@18 q last -> v; Add v eps -> w; Sqrt w -> r; Div d r -> n;"
        "Mul n g3 -> s; Add s b -> y",
        "LayerNormalization x g -> s axis=2; Add s b -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++)
        check(framed(norm_frame, alternatives[k]), "Abs LayerNormalization Tanh");
    mp_model *model = simplified(framed(norm_frame, alternatives[0]));
    const mp_operator *op = &model->operators[1];
    assert_string_equal(op->name, "y/op");
    assert_string_equal(op->domain, "");
    assert_int_equal(op->n_in, 3);
    assert_string_equal(model->tensors[op->in[1]].name, "g");
    assert_string_equal(model->tensors[op->in[2]].name, "b");
    assert_int_equal(mp_operator_int(op, "axis", 0), -1);
    assert_true(mp_operator_float(op, "epsilon", 0) == 0.00001);
    static const char *const inner[] = {"mu", "d", "q", "v", "w", "r", "n", "s"};
    for (size_t k = 0; k < sizeof inner / sizeof *inner; k++)
        assert_int_equal(mp_model_resolve(model, mp_model_find(model, inner[k])), op->out[0]);
    mp_model_free(model);
}

TEST(layer_normalization_takes_any_trailing_axes_and_needs_no_scale)
{
    static const char two_axes[] = "ReduceMean x -> mu axes=[-1,1]; Sub x mu -> d;" SQUARE
                                   "ReduceMean q -> v axes=[1,2]; Add v eps -> w; Sqrt w -> r; Div d r -> n; Mul n gm -> y";
    mp_model *model = simplified(framed(norm_frame, two_axes));
    assert_string_equal(model_kinds(model), "Abs LayerNormalization Tanh");
    assert_int_equal(mp_operator_int(&model->operators[1], "axis", 0), -2);
    assert_int_equal(model->operators[1].n_in, 2);
    mp_model_free(model);
    model = simplified(framed(norm_frame, NORMAL "Exp n -> y"));
    assert_string_equal(model_kinds(model), "Abs LayerNormalization Exp Tanh");
    assert_string_equal(model->operators[1].domain, "memplan");
    assert_int_equal(model->operators[1].n_in, 1);
    assert_non_null(model->operators[1].op);
    mp_model_free(model);
    /* the fused operator with a constant scale of ones gives the same */
    model = simplified(
        framed(norm_frame, "const ones 1 1 1 1; const zeros 0 0 0 0; LayerNormalization x ones zeros -> n mean; Exp n -> y"));
    assert_string_equal(model_kinds(model), "Abs LayerNormalization Exp Tanh");
    assert_string_equal(model->operators[1].domain, "memplan");
    mp_model_free(model);
    model = simplified(framed(norm_frame, "const twos 2 2 2 2; LayerNormalization x twos -> n mean; Exp n -> y"));
    assert_string_equal(model->operators[1].domain, "");
    mp_model_free(model);
    /* not a scale or bias: computed per row, of the wrong shape, or a residual */
    check(framed(norm_frame, NORMAL "ReduceMean in -> c axes=[1]; Mul n c -> y"), "Abs LayerNormalization ReduceMean Mul Tanh");
    check(framed(norm_frame, NORMAL "ReduceMean in -> c axes=[0,1]; Mul n c -> y"),
          "Abs LayerNormalization ReduceMean Mul Tanh");
    check("data x 4; param g 4; data c 4; LayerNormalization x g -> n; Add n c -> y; out y", "LayerNormalization Add");
    check(framed(norm_frame, NORMAL "Mul n gm -> y"), "Abs LayerNormalization Mul Tanh");
    check(framed(norm_frame, NORMAL "Mul n g -> s; Add s in -> y"), "Abs LayerNormalization Add Tanh");
    check(framed(norm_frame, NORMAL "Mul n g -> s; Add s b -> y; out s"), "Abs LayerNormalization Add Tanh");
    check(framed(norm_frame, NORMAL "Mul n g -> y; out n"), "Abs LayerNormalization Mul Tanh");
}

TEST(nearly_layer_normalization_is_left_alone)
{
    static const char *const alternatives[] = {
        CENTRE "Pow d three -> q;" VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y",
        CENTRE "Mul d x -> q;" VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y",
        CENTRE SQUARE "ReduceMean q -> v axes=[1]; Add v eps -> w; Sqrt w -> r; Div d r -> n; Mul n g -> y",
        CENTRE SQUARE "ReduceMean q -> v axes=[-1]; Add v big -> w; Sqrt w -> r; Div d r -> n; Mul n g -> y",
        "ReduceMean x -> mu axes=[1]; Sub x mu -> d;" SQUARE
        "ReduceMean q -> v axes=[1]; Add v eps -> w; Sqrt w -> r; Div d r -> n; Mul n g -> y",
        "ReduceMean x -> mu axes=[1]; Sub x mu -> d;" SQUARE VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y",
        "ReduceMean in -> mu axes=[-1]; Sub x mu -> d;" SQUARE VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Div r d -> n; Mul n g -> y",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Mul d r -> n; Mul n g -> y",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Div x r -> n; Mul n g -> y",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y; out d",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y; Exp v -> e; out e",
        CENTRE SQUARE VARIANCE "Sqrt w -> r; Div d r -> n; Mul n g -> y; Exp mu -> e; out e",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++)
        check_untouched(framed(norm_frame, alternatives[k]));
}

TEST(rms_normalization_is_recognised)
{
#define MEAN_SQUARE "ReduceMean q -> v axes=[-1]; Add v eps -> w;"
    static const char *const alternatives[] = {
        "Pow x two -> q;" MEAN_SQUARE "Sqrt w -> r; Div x r -> n; Mul n g -> y",
        "Mul x x -> q;" MEAN_SQUARE "Sqrt w -> r; Reciprocal r -> i; Mul x i -> n; Mul g n -> y",
        "Pow x two -> q;" MEAN_SQUARE "Sqrt w -> r; Div one r -> i; Mul i x -> n; Mul g3 n -> y",
        "Pow x two -> q;" MEAN_SQUARE "Pow w minus -> i; Mul x i -> n; Mul g n -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++)
        check(framed(norm_frame, alternatives[k]), "Abs RMSNormalization Tanh");
    check(framed(norm_frame, "Pow x two -> q;" MEAN_SQUARE "Sqrt w -> r; Div x r -> y"), "Abs RMSNormalization Tanh");
    check(framed(norm_frame, "Pow x two -> q;" MEAN_SQUARE "Sqrt w -> r; Div x r -> n; Mul n g -> s; Add s b -> y"),
          "Abs RMSNormalization Add Tanh");
    check_untouched(framed(norm_frame, "Pow x two -> q;" MEAN_SQUARE "Sqrt w -> r; Div in r -> n; Mul n g -> y"));
    check_untouched(framed(norm_frame, "Pow x three -> q;" MEAN_SQUARE "Sqrt w -> r; Div x r -> n; Mul n g -> y"));
    check_untouched(
        framed(norm_frame, "Pow x two -> q; ReduceMean q -> v axes=[0]; Add v eps -> w; Sqrt w -> r; Div x r -> y"));
    check_untouched(framed(norm_frame, "Pow x two -> q;" MEAN_SQUARE "Sqrt w -> r; Div x r -> n; Mul n g -> y; out w"));
}

TEST(half_precision_exports_convert_inside)
{
    /* all in float32; only the squares in float32; only the operators after the sum of squares in float32 */
    check("data:10 x 2 3 4; param:10 g 4; const two 2; const eps 0.00001; Cast x -> c to=1; Pow c two -> q;" MEAN_SQUARE
          "Sqrt w -> r; Div c r -> n; Cast n -> h to=10; Mul g h -> y; out y",
          "RMSNormalization");
    check("data:10 x 2 3 4; param:10 g 4; param:10 b 4; const two 2; const eps 0.00001; ReduceMean x -> mu axes=[-1]; Sub x mu "
          "-> d;"
          "Cast d -> c to=1; Pow c two -> q; ReduceMean q -> v axes=[-1]; Add v eps -> w; Sqrt w -> r; Div c r -> n; Cast n -> "
          "h to=10;"
          "Mul g h -> s; Add s b -> y; out y",
          "LayerNormalization");
    check("data:10 x 2 3 4; param:10 g 4; param:10 b 4; const two 2; const:10 eps 0.00001; ReduceMean x -> mu axes=[-1];"
          "Sub x mu -> d; Cast d -> c to=1; Pow c two -> q; ReduceMean q -> v axes=[-1]; Cast v -> vh to=10; Add vh eps -> w;"
          "Sqrt w -> r; Div d r -> n; Mul n g -> s; Add s b -> y; out y",
          "LayerNormalization");
    check("data:10 x 2 3 4; param g 4; const two 2; const eps 0.00001; Cast x -> c to=1; Pow c two -> q;" MEAN_SQUARE
          "Sqrt w -> r; Div c r -> n; Mul g n -> y; out y",
          "Cast RMSNormalization");
}

static mp_graph *training_graph(const char *text)
{
    mp_error err = {0};
    mp_model *model = simplified(text);
    mp_graph *graph = NULL;
    int loss;
    const mp_target target = mp_roofline(mp_device_find("a100"));
    const mp_training_options options = {.loss = MP_LOSS_MSE, .dtype = MP_DTYPE_FLOAT, .rules = MP_RULES_PYTORCH};
    if (mp_model_add_loss(model, &options, &loss, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK) fail_msg("%s", err.message);
    mp_model_free(model);
    return graph;
}

/* A decomposed export and a fused one give nodes of the same kinds, in the same order, with equal bytes read and written. */
TEST(a_decomposed_export_and_a_fused_one_give_the_same_training_graph)
{
    mp_graph *pieces = training_graph(
        "data in 2 3 4; param w 5 4; param b 4; param g 4; param h 5; const two 2; const eps 0.00001; const root 1.4142135;"
        "const one 1; const half 0.5; Identity in -> x; ReduceMean x -> mu axes=[-1]; Sub x mu -> d; Pow d two -> q;"
        "ReduceMean q -> v axes=[-1]; Add v eps -> ve; Sqrt ve -> r; Div d r -> n; Mul n g -> s; Add s b -> l;"
        "Transpose w -> t; MatMul l t -> m; Add m h -> u; Div u root -> ur; Erf ur -> e; Add e one -> e1; Mul u e1 -> ue;"
        "Mul ue half -> y; Sigmoid y -> sy; Mul y sy -> z; out z");
    mp_graph *whole =
        training_graph("data in 2 3 4; param w 5 4; param b 4; param g 4; param h 5; LayerNormalization in g b -> l;"
                       "Transpose w -> t; MatMul l t -> m; Add m h -> u; Gelu@20 u -> y; Swish@24 y -> z; out z");
    assert_int_equal(pieces->n_nodes, whole->n_nodes);
    for (size_t k = 0; k < whole->n_nodes; k++) {
        const mp_alternative *a = &pieces->nodes[k].alternatives[0], *b = &whole->nodes[k].alternatives[0];
        assert_string_equal(pieces->nodes[k].op, whole->nodes[k].op);
        assert_int_equal(a->n_reads, b->n_reads);
        assert_int_equal(a->n_writes, b->n_writes);
        for (size_t j = 0; j < b->n_reads; j++)
            assert_int_equal(pieces->storages[a->reads[j]].bytes, whole->storages[b->reads[j]].bytes);
        for (size_t j = 0; j < b->n_writes; j++)
            assert_int_equal(pieces->storages[a->writes[j]].bytes, whole->storages[b->writes[j]].bytes);
    }
    assert_int_equal(mp_graph_static_bytes(pieces), mp_graph_static_bytes(whole));
    mp_graph_free(pieces);
    mp_graph_free(whole);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Appends a statement that writes t<n> from earlier tensors. The list has parts of every pattern, and near misses. */
static void random_statement(uint64_t *s, int n, char *text, size_t room)
{
    static const char *const alternatives[] = {
        "Identity %s -> t%d", "Tanh %s -> t%d",        "Sigmoid %s -> t%d",  "Erf %s -> t%d",
        "Mul %s half -> t%d", "Mul %s inverse -> t%d", "Add %s one -> t%d",  "Add zero %s -> t%d",
        "Div %s root -> t%d", "Pow %s two -> t%d",     "Sub %s zero -> t%d", "ReduceMean %s -> t%d axes=[1]",
        "Mul %s one -> t%d",  "Cast %s -> t%d to=1",   "Add %s eps -> t%d",
    };
    static const char layer_norm[] =
        "ReduceMean %s -> m%d axes=[-1]; Sub %s m%d -> d%d; Pow d%d two -> q%d; ReduceMean q%d -> v%d axes=[-1];"
        "Add v%d eps -> w%d; Sqrt w%d -> r%d; Div d%d r%d -> t%d";
    static const char *const pairs[] = {"Mul %s %s -> t%d", "Add %s %s -> t%d", "Sub %s %s -> t%d", "Mul %s %s -> t%d"};
    static const char *const whole[] = {
        "Sigmoid %s -> s%d; Mul %s s%d -> t%d",
        "Div %s root -> s%d; Erf s%d -> e%d; Add e%d one -> a%d; Mul %s a%d -> b%d; Mul b%d half -> t%d",
    };
    char a[16], b[16];
    size_t used = strlen(text);
    uint64_t choice = next_random(s) % 9;
    int first = n < 4 ? n : 4; /* prefers the latest tensors, which makes chains likely */
    snprintf(a, sizeof a, "t%d", n - 1 - (int)(next_random(s) % (uint64_t)first));
    snprintf(b, sizeof b, "t%d", n - 1 - (int)(next_random(s) % (uint64_t)first));
    if (choice == 0)
        snprintf(text + used, room - used, whole[0], a, n, a, n, n);
    else if (choice == 1)
        snprintf(text + used, room - used, whole[1], a, n, n, n, n, n, a, n, n, n, n);
    else if (choice == 8)
        snprintf(text + used, room - used, layer_norm, a, n, a, n, n, n, n, n, n, n, n, n, n, n, n, n);
    else if (choice < 5)
        snprintf(text + used, room - used, alternatives[next_random(s) % (sizeof alternatives / sizeof *alternatives)], a, n);
    else
        snprintf(text + used, room - used, pairs[next_random(s) % 4], a, b, n);
    snprintf(text + strlen(text), room - strlen(text), ";");
}

TEST(random_models_compute_the_same_afterwards)
{
    int n_changed = 0, n_normalized = 0;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        char text[8192] =
            "const half 0.5; const root 1.41421356; const inverse 0.70710678; const one 1; const two 2; const zero 0;"
            "const eps 0.001; data t0 2 3;";
        uint64_t s = seed;
        int n = 4 + (int)(next_random(&s) % 24);
        for (int k = 1; k <= n; k++) random_statement(&s, k, text, sizeof text);
        snprintf(text + strlen(text), sizeof text - strlen(text), "out t%d", n);
        for (int k = 1; k < n; k++)
            if (next_random(&s) % 8 == 0 && k % 4 == 0) snprintf(text + strlen(text), sizeof text - strlen(text), " t%d", k);
        mp_model *first = simplified(text), *second = simplified(text);
        n_normalized += strstr(model_kinds(first), "Normalization") != NULL;
        n_changed += strstr(model_kinds(first), "Swish") || strstr(model_kinds(first), "Gelu");
        char kinds[4096];
        snprintf(kinds, sizeof kinds, "%s", model_kinds(first));
        assert_string_equal(model_kinds(second), kinds);
        mp_model_free(first);
        mp_model_free(second);
    }
    assert_true(n_changed > 500 && n_normalized > 500);
}
