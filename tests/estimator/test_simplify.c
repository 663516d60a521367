/* test_simplify.c - each simplification makes its documented change, keeps all names, and leaves other operators unchanged. */
#include "memplan/onnx.h"
#include "memplan/simplify.h"
#include "tests/cases/data_file.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

/* Simplifies a model given as text; the caller releases it. */
static mp_model *simplified(const char *text, mp_rules rules, bool all, mp_simplify_report *report)
{
    mp_error err = {0};
    mp_model *model = model_text(text);
    if (mp_model_simplify(model, rules, all, report, &err) != MP_OK) fail_msg("%s: %s", text, err.message);
    return model;
}

/* Compares the operator kinds of the simplified model with the expected list. */
static void check(const char *text, const char *kinds)
{
    mp_model *model = simplified(text, MP_RULES_EXECUTOR, true, NULL);
    if (strcmp(model_kinds(model), kinds) != 0) fail_msg("%s\ngives: %s\nnot:   %s", text, model_kinds(model), kinds);
    mp_model_free(model);
}

static const char *resolved(const mp_model *model, const char *name)
{
    int t = mp_model_find(model, name);
    assert_true(t >= 0);
    return model->tensors[mp_model_resolve(model, t)].name;
}

TEST(known_values_are_folded_and_become_constants)
{
    mp_simplify_report report;
    mp_model *model = simplified("data x 2 3; Shape x -> s; ints zero 0; Gather s zero -> n; ints rest -1;"
                                 "Concat n rest -> shape axis=0; Reshape x shape -> y; Relu y -> z; out z",
                                 MP_RULES_EXECUTOR, false, &report);
    assert_string_equal(model_kinds(model), "Reshape Relu");
    assert_int_equal(report.folded, 3);
    const mp_tensor *shape = &model->tensors[mp_model_find(model, "shape")];
    assert_int_equal(shape->role, MP_ROLE_CONSTANT);
    assert_int_equal(shape->producer, -1);
    assert_int_equal(shape->value->i[0], 2);
    mp_model_free(model);
}

TEST(a_known_output_of_the_model_stays)
{
    mp_model *model = simplified("data x 2 3; Shape x -> s; Relu x -> y; out y s", MP_RULES_EXECUTOR, true, NULL);
    assert_string_equal(model_kinds(model), "Relu");
    assert_string_equal(resolved(model, "s"), "s");
    assert_true(model->tensors[mp_model_find(model, "s")].is_output);
    mp_model_free(model);
}

TEST(dead_operators_and_unread_outputs_go)
{
    mp_simplify_report report;
    mp_model *model = simplified("data x 2 3; Relu x -> a; Tanh a -> b; Exp b -> c; Dropout@7 x -> y mask; out y",
                                 MP_RULES_EXECUTOR, false, &report);
    assert_string_equal(model_kinds(model), "Dropout");
    assert_int_equal(report.dead, 3);
    assert_int_equal(model->operators[0].out[1], -1);
    assert_string_equal(resolved(model, "c"), "c");
    mp_model_free(model);
}

TEST(outputs_that_a_gradient_reads_are_kept_though_unread)
{
    mp_model *model = simplified("data x 5 2 3; param w 1 16 3; param r 1 16 4; LSTM x w r -> y h c hidden_size=4; out h",
                                 MP_RULES_EXECUTOR, true, NULL);
    assert_int_equal(model->operators[0].out[0], mp_model_find(model, "y"));
    assert_int_equal(model->operators[0].out[2], -1);
    mp_model_free(model);
}

TEST(identities_are_passed_through)
{
    static const char *const identities[] = {
        "Identity x -> y",
        "Cast x -> y to=1",
        "CastLike x x -> y",
        "Dropout@13 x -> y",
        "Dropout@13 x -> y mask",
        "ints:9 no 0; const r 0.3; Squeeze no -> off; Dropout@13 x r off -> y",
        "ints:9 yes 1; const r 0; Squeeze yes -> on; Dropout@13 x r on -> y",
        "Dropout@7 x -> y ratio=0.0",
        "Dropout@6 x -> y is_test=1",
        "const c 0; Add x c -> y",
        "const c 0; Add c x -> y",
        "const c 0 0 0; Add c x -> y",
        "const c 0; Sub x c -> y",
        "const c 1; Mul c x -> y",
        "const c 1; Div x c -> y",
        "const c 1; Pow x c -> y",
        "ints s 2 3; Reshape x s -> y",
        "ints s 2 -1; Reshape x s -> y",
        "ints s 2 3; Expand x s -> y",
        "ints s 1 1; Tile x s -> y",
        "Transpose x -> y perm=[0,1]",
        "Flatten x -> y axis=1",
        "ints a 0; ints b 9; Slice x a b -> y",
        "ints p 0 0 0 0; Pad x p -> y",
        "Concat x -> y axis=0",
        "Sum x -> y",
        "Max x -> y",
        "Min x -> y",
        "Split x -> y axis=1",
        "ints s 3 2; ints t 2 3; Reshape x s -> w; Reshape w t -> y",
    };
    for (size_t k = 0; k < sizeof identities / sizeof *identities; k++) {
        char text[512];
        snprintf(text, sizeof text, "data in 2 3; Relu in -> x; %s; Tanh y -> z; out z", identities[k]);
        mp_model *model = simplified(text, MP_RULES_EXECUTOR, true, NULL);
        if (strcmp(model_kinds(model), "Relu Tanh") != 0) fail_msg("%s: %s", text, model_kinds(model));
        if (strcmp(resolved(model, "y"), "x") != 0) fail_msg("%s: y is %s", text, resolved(model, "y"));
        mp_model_free(model);
    }
}

TEST(what_changes_something_is_no_identity)
{
    static const char *const changes[] = {
        "Cast x -> y to=10",
        "Dropout@7 x -> y",
        "Dropout@7 x -> y ratio=0.5 is_test=1",
        "ints:9 yes 1; const r 0.3; Squeeze yes -> on; Dropout@13 x r on -> y",
        "const c 0.001; Add x c -> y",
        "const c 0 0 1; Add c x -> y",
        "const c 0; Sub c x -> y",
        "const c 1; Div c x -> y",
        "const c 1; Pow c x -> y",
        "param c 1; Mul c x -> y",
        "ints s 1 2 3; Reshape x s -> y",
        "ints s 4 2 3; Expand x s -> y",
        "Transpose x -> y",
        "Flatten x -> y axis=0",
        "ints a -1; ints b -9; ints axis 0; ints step -1; Slice x a b axis step -> y",
        "ints p 1 0 -1 0; Pad x p -> y",
        "Concat x x -> y axis=0",
        "Max x in -> y",
    };
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
        char text[512];
        snprintf(text, sizeof text, "data in 2 3; Relu in -> x; %s; Tanh y -> z; out z", changes[k]);
        mp_model *model = simplified(text, MP_RULES_EXECUTOR, true, NULL);
        if (model->n_operators != 3) fail_msg("%s: %s", text, model_kinds(model));
        assert_string_equal(resolved(model, "y"), "y");
        mp_model_free(model);
    }
    check("data x 2 1 3; Transpose x -> y perm=[2,1,0]; Tanh y -> z; out z", "Transpose Tanh");
    check("data x 2 1 3; Transpose x -> y perm=[1,0,2]; Tanh y -> z; out z", "Transpose Tanh");
    check("data x 1 1 3; Transpose x -> y perm=[1,0,2]; Tanh y -> z; out z", "Tanh");
    check("data x 2 2; Transpose x -> y; Tanh y -> z; out z", "Transpose Tanh");
}

TEST(outputs_keep_their_names_when_identities_give_them)
{
    mp_model *model = simplified("data x 2 3; Relu x -> a; Identity a -> y; Tanh a -> z; Exp y -> e; out y z e",
                                 MP_RULES_EXECUTOR, true, NULL);
    assert_string_equal(model_kinds(model), "Relu Tanh Exp");
    int y = mp_model_find(model, "y");
    assert_int_equal(model->operators[0].out[0], y);
    assert_int_equal(model->operators[1].in[0], y);
    assert_int_equal(model->operators[2].in[0], y);
    assert_string_equal(resolved(model, "a"), "y");
    assert_string_equal(resolved(model, "y"), "y");
    mp_model_free(model);
    /* no operator writes an input or a parameter, and an output cannot be an alias of another tensor */
    check("data x 2 3; Identity x -> y; out y", "Identity");
    check("param w 2 3; Identity w -> y; out y", "Identity");
    check("data x 2 3; Relu x -> a; Identity a -> y; out a y", "Relu Identity");
}

TEST(reshapes_of_reshapes_are_merged)
{
    mp_model *model = simplified("data x 2 6; Relu x -> r; ints a 3 4; Reshape r a -> u; ints b 2 -1 2; Reshape u b -> y;"
                                 "Tanh y -> z; out z",
                                 MP_RULES_EXECUTOR, true, NULL);
    assert_string_equal(model_kinds(model), "Relu Reshape Tanh");
    assert_int_equal(model->operators[1].in[0], mp_model_find(model, "r"));
    assert_string_equal(resolved(model, "u"), "y");
    mp_model_free(model);
    /* a shape that copies dimensions changes its meaning on another input; an inner reshape with other readers stays */
    check("data x 2 6; ints a 3 4; Reshape x a -> u; ints b 0 2 2; Reshape u b -> y; out y", "Reshape Reshape");
    check("data x 2 6; ints a 3 4; Reshape x a -> u; ints b 2 3 2; Reshape u b -> y; out y u", "Reshape Reshape");
}

TEST(equal_operators_are_merged)
{
    check("data x 2 3; data w 2 3; Sub x w -> a; Sub x w -> b; Mul a b -> y; out y", "Sub Mul");
    check("data x 2 3; data w 2 3; Add x w -> a; Add w x -> b; Sub a b -> y; out y", "Add Sub");
    check("data x 2 3; data w 2 3; Sub x w -> a; Sub w x -> b; Mul a b -> y; out y", "Sub Sub Mul");
    check("data x 2 3; const c 2.5; const d 2.5; Pow x c -> a; Pow x d -> b; Sub a b -> y; out y", "Pow Sub");
    check("data x 2 3; const c 2.5; const d 2.25; Pow x c -> a; Pow x d -> b; Sub a b -> y; out y", "Pow Pow Sub");
    check("data x 2 3; const c 2.5; const d 2.5 2.5 2.5; Pow x c -> a; Pow x d -> b; Sub a b -> y; out y", "Pow Pow Sub");
    check("data x 2 3; param c; param d; Pow x c -> a; Pow x d -> b; Sub a b -> y; out y", "Pow Pow Sub");
    check("data x 2 3; Elu x -> a alpha=0.5; Elu x -> b alpha=0.25; Sub a b -> y; out y", "Elu Elu Sub");
    check("data x 2 3; HardSigmoid x -> a alpha=0.5 beta=0.1; HardSigmoid x -> b beta=0.1 alpha=0.5; Sub a b -> y; out y",
          "HardSigmoid Sub");
    /* whole chains are merged in one round */
    check("data x 2 3; Exp x -> a; Exp x -> b; Tanh a -> c; Tanh b -> d; Abs c -> e; Abs d -> f; Sub e f -> y; out y",
          "Exp Tanh Abs Sub");
}

TEST(merged_outputs_keep_their_names)
{
    mp_model *model =
        simplified("data x 2 3; Exp x -> a; Tanh a -> t; Exp x -> b; Abs b -> u; out t u b", MP_RULES_EXECUTOR, true, NULL);
    assert_string_equal(model_kinds(model), "Exp Tanh Abs");
    assert_int_equal(model->operators[0].out[0], mp_model_find(model, "b"));
    assert_string_equal(resolved(model, "a"), "b");
    mp_model_free(model);
    check("data x 2 3; Exp x -> a; Exp x -> b; out a b", "Exp Exp");
}

TEST(random_operators_and_statistics_are_never_merged)
{
    check("data x 2 3; Dropout@7 x -> a; Dropout@7 x -> b; Add a b -> y; out y", "Dropout Dropout Add");
    check("data x 2 3; Bernoulli x -> a; Bernoulli x -> b; Add a b -> y; out y", "Bernoulli Bernoulli Add");
    check("RandomNormal -> a shape=[2,3]; RandomNormal -> b shape=[2,3]; Add a b -> y; out y", "RandomNormal RandomNormal Add");
    check("data x 2 3 4; param s 3; param b 3; param m 3; param v 3; BatchNormalization x s b m v -> p;"
          "BatchNormalization x s b m v -> q; Add p q -> y; out y",
          "BatchNormalization BatchNormalization Add");
}

TEST(common_factors_are_taken_out)
{
    static const char text[] = "data x 2 3; param b 3; param c 3; Mul x b -> u; Mul c x -> v; Add u v -> y; Tanh y -> z; out z";
    mp_simplify_report report;
    mp_model *model = simplified(text, MP_RULES_EXECUTOR, true, &report);
    assert_string_equal(model_kinds(model), "Add Mul Tanh");
    assert_int_equal(report.factored, 1);
    assert_int_equal(model->operators[0].in[0], mp_model_find(model, "b"));
    assert_int_equal(model->operators[0].in[1], mp_model_find(model, "c"));
    assert_int_equal(model->operators[1].in[0], mp_model_find(model, "x"));
    assert_int_equal(model->tensors[model->operators[0].out[0]].rank, 1);
    assert_string_equal(resolved(model, "u"), "y");
    assert_string_equal(resolved(model, "v"), "v"); /* v has the sum */
    mp_model_free(model);
    model = simplified(text, MP_RULES_PYTORCH, true, &report);
    assert_string_equal(model_kinds(model), "Mul Mul Add Tanh");
    mp_model_free(model);
    check("data x 2 3; param b 3; param c 1; Mul x b -> u; Mul c x -> v; Add u v -> y; out y", "Mul Mul Add");
    check("data x 2 3; param b 3; param c 3; Mul x b -> u; Mul c x -> v; Add u v -> y; out y u", "Mul Mul Add");
    check("data x 2 3; param b 3; param c 3; Mul x b -> u; Mul c x -> v; Sub u v -> y; out y", "Mul Mul Sub");
    check("data x 2 3; data w 2 3; param b 3; param c 3; Mul x b -> u; Mul c w -> v; Add u v -> y; out y", "Mul Mul Add");
    check("data:7 x 2 3; param:7 b 3; param:7 c 3; Mul x b -> u; Mul c x -> v; Add u v -> y; out y", "Mul Mul Add");
}

TEST(transposed_parameters_are_read_as_they_lie)
{
    mp_simplify_report report;
    mp_model *model = simplified("data x 2 5 3; param w 4 3; Transpose w -> t perm=[1,0]; MatMul x t -> y; Abs y -> z; out z",
                                 MP_RULES_PYTORCH, false, &report);
    const mp_operator *op = &model->operators[0];
    assert_string_equal(model_kinds(model), "FusedMatMul Abs");
    assert_int_equal(report.transpositions, 1);
    assert_string_equal(op->domain, "com.microsoft");
    assert_string_equal(op->name, "y/op");
    assert_int_equal(op->in[1], mp_model_find(model, "w"));
    assert_int_equal(mp_operator_int(op, "transA", 0), 0);
    assert_int_equal(mp_operator_int(op, "transB", 0), 1);
    assert_non_null(op->op);
    mp_model_free(model);
    model = simplified("data x 4 5; param w 4 3; Transpose w -> t; Gemm x t -> y transA=1 transB=1 alpha=0.5; Gemm t w -> v;"
                       "out y v",
                       MP_RULES_EXECUTOR, false, &report);
    assert_string_equal(model_kinds(model), "Gemm Gemm");
    op = &model->operators[0];
    assert_int_equal(mp_operator_int(op, "transA", 0), 1);
    assert_int_equal(mp_operator_int(op, "transB", 0), 0);
    assert_true(mp_operator_float(op, "alpha", 1) == 0.5);
    assert_int_equal(mp_operator_int(&model->operators[1], "transA", 0), 1);
    mp_model_free(model);
    check("data x 2 3; param w 4 3; Identity w -> v; Transpose v -> t; MatMul x t -> y; out y", "FusedMatMul");
    check("data x 2 3; param w 12; ints s 4 3; Reshape w s -> v; Transpose v -> t; MatMul x t -> y; out y",
          "Reshape FusedMatMul");
    check("data x 2 5 3; param w 2 4 3; Transpose w -> t perm=[0,2,1]; MatMul x t -> y; out y", "FusedMatMul");
    check(
        "data x 3 5; param w 4 3; Transpose w -> t; MatMul t w -> u; Transpose t -> v; MatMul v x -> y; Exp t -> e; out y u e",
        "Transpose FusedMatMul Transpose MatMul Exp");
}

TEST(biases_are_added_by_the_product)
{
    mp_simplify_report report;
    mp_model *model =
        simplified("data x 2 5 3; param w 4 3; param b 4; Transpose w -> t perm=[1,0]; MatMul x t -> y; Add b y -> z;"
                   "Abs z -> a; out a",
                   MP_RULES_EXECUTOR, true, &report);
    const mp_operator *op = &model->operators[0];
    assert_string_equal(model_kinds(model), "FusedMatMul Abs");
    assert_int_equal(report.biases, 1);
    assert_string_equal(op->domain, "memplan");
    assert_string_equal(op->name, "z/op");
    assert_int_equal(op->n_in, 3);
    assert_int_equal(op->in[2], mp_model_find(model, "b"));
    assert_int_equal(mp_operator_int(op, "transB", 0), 1);
    assert_string_equal(resolved(model, "y"), "z");
    assert_non_null(op->op);
    mp_model_free(model);
    check("data x 2 3; param w 3 4; param b 4; MatMul x w -> y; Add y b -> z; out z", "FusedMatMul");
    /* only the first of two vectors is fused */
    check("data x 2 3; param w 3 4; param b 4; param c 4; MatMul x w -> y; Add y b -> z; Add z c -> v; out v",
          "FusedMatMul Add");
}

TEST(other_additions_stay)
{
    check("data x 2 3; param w 3 4; param b 4; MatMul x w -> y; Add y b -> z; out z y", "MatMul Add");
    check("data x 2 3; param w 3 4; data b 4; MatMul x w -> y; Add y b -> z; out z", "MatMul Add");
    check("data x 2 3; param w 3 4; param b 1; MatMul x w -> y; Add y b -> z; out z", "MatMul Add");
    check("data x 2 3; param w 3 4; param b 1 4; MatMul x w -> y; Add y b -> z; out z", "MatMul Add");
    check("data x 2 3; param w 3 4; param b 4; MatMul x w -> y; Sub y b -> z; out z", "MatMul Sub");
    check("data x 2 3; data w 3 4; param b 4; MatMul x w -> y; Add y b -> z; out z", "MatMul Add");
    check("data x 2 5 3; param w 2 3 4; param b 4; MatMul x w -> y; Add y b -> z; out z", "MatMul Add");
    check("data x 2 3; param w 3 4; MatMul x w -> y; Add y y -> z; out z", "MatMul Add");
}

TEST(other_transpositions_stay)
{
    check("data x 2 3; data w 4 3; Transpose w -> t; MatMul x t -> y; out y", "Transpose MatMul");
    check("data x 2 3; param w 4 3; Abs w -> a; Transpose a -> t; MatMul x t -> y; out y", "Abs Transpose MatMul");
    check("data x 2 5 3; param w 4 2 3; Transpose w -> t perm=[1,2,0]; MatMul x t -> y; out y", "Transpose MatMul");
    check("data x 2 3; param w 4 3; Transpose w -> t; MatMul x t -> y; out y t", "Transpose FusedMatMul");
}

TEST(without_simplification_only_what_must_be_is_done)
{
    mp_model *model =
        simplified("data x 2 3; Shape x -> s; Identity x -> i; Reshape i s -> a; Exp a -> b; Exp a -> c; Abs b -> d;"
                   "Sigmoid b -> e; Mul b e -> f; Mul c f -> y; param w 3 3; Transpose w -> t; MatMul y t -> z; out z",
                   MP_RULES_EXECUTOR, false, NULL);
    assert_string_equal(model_kinds(model), "Identity Reshape Exp Exp Sigmoid Mul Mul FusedMatMul");
    mp_model_free(model);
    model = simplified("data x 2 3; param w 3 3; Transpose w -> t perm=[0,1]; MatMul x t -> y; out y", MP_RULES_EXECUTOR, false,
                       NULL);
    assert_string_equal(model_kinds(model), "Transpose MatMul");
    mp_model_free(model);
}

TEST(simplifying_again_changes_nothing)
{
    mp_simplify_report report;
    mp_model *model =
        simplified("data x 2 3; Exp x -> a; Exp x -> b; Identity a -> c; Sigmoid c -> d; Mul c d -> e; Add e b -> y;"
                   "Identity y -> z; out z",
                   MP_RULES_EXECUTOR, true, &report);
    assert_string_equal(model_kinds(model), "Exp Swish Add");
    assert_int_equal(report.merged, 1);
    assert_int_equal(report.identities, 2);
    assert_int_equal(report.patterns, 1);
    assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, &report, NULL), MP_OK);
    assert_int_equal(report.merged + report.identities + report.patterns + report.folded + report.dead, 0);
    assert_string_equal(model_kinds(model), "Exp Swish Add");
    mp_model_free(model);
}

static const char everything[] =
    "data x 2 4; param w 4 4; param g 4; param b 4; Shape x -> s; Reshape x s -> r; Transpose w -> t; MatMul r t -> m;"
    "ReduceMean m -> mu axes=[-1]; Sub m mu -> d; const two 2; Pow d two -> q; ReduceMean q -> var axes=[-1]; const eps "
    "0.00001;"
    "Add var eps -> ve; Sqrt ve -> sd; Div d sd -> n; Mul n g -> ng; Add ng b -> ln; Sigmoid ln -> si; Mul si ln -> sw;"
    "Mul sw g -> p1; Mul sw b -> p2; Add p1 p2 -> f; Exp f -> e1; Exp f -> e2; Sub e1 e2 -> y; out y";

TEST(simplification_survives_every_allocation_failure)
{
    mp_status st = MP_NOMEM;
    long k = 0;
    for (; st != MP_OK; k++) {
        mp_error err = {0};
        long live = mp_alloc_live;
        mp_model *model = model_text(everything);
        mp_alloc_budget = k;
        st = mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(err.code, MP_NOMEM);
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        if (st == MP_OK) assert_string_equal(model_kinds(model), "FusedMatMul LayerNormalization Swish Add Mul Exp Sub");
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 10);
}

static int count_kind(const mp_model *model, const char *kind)
{
    int n = 0;
    for (size_t k = 0; k < model->n_operators; k++) n += !strcmp(model->operators[k].kind, kind);
    return n;
}

/* Counted from the architectures. BERT-base has two normalizations in each of 12 layers, one after the embedding and one in its
 * head. It has a Gelu in each layer and in the head. */
TEST(real_models_have_as_many_normalizations_and_activations_as_their_papers_say)
{
    static const struct expected {
        const char *model, *kind;
        int n;
    } rows[] = {
        {"bert_base", "LayerNormalization", 26},
        {"bert_base", "Gelu", 13},
        {"bert_large", "LayerNormalization", 50},
        {"gpt2_small", "LayerNormalization", 25},
        {"gpt2_small", "Gelu", 12},
        {"vit_b_16", "LayerNormalization", 25},
        {"vit_b_16", "Gelu", 12},
        {"convnext_tiny", "LayerNormalization", 23},
        {"convnext_tiny", "Gelu", 18},
        {"efficientnet_b0", "Swish", 49},
        {"mobilenet_v3_large", "HardSwish", 21},
        {"bert_base", "Erf", 0},
        {"bert_base", "Sqrt", 0},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        mp_error err = {0};
        mp_model *model;
        const char *path = data_file("models/%s.onnx", rows[k].model);
        if (!path) skip();
        if (mp_onnx_read(path, &(mp_onnx_options){.batch = 2}, &model, &err) != MP_OK ||
            mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK)
            fail_msg("%s", err.message);
        if (count_kind(model, rows[k].kind) != rows[k].n)
            fail_msg("%s has %d %s, not %d", rows[k].model, count_kind(model, rows[k].kind), rows[k].kind, rows[k].n);
        for (size_t j = 0; j < model->n_operators; j++) {
            const mp_operator *op = &model->operators[j];
            if (!strcmp(op->kind, "Transpose")) assert_int_not_equal(mp_operator_in(model, op, 0)->role, MP_ROLE_PARAMETER);
        }
        mp_model_free(model);
    }
}
