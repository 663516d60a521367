/* test_patterns_safe.c - softmax and attention in PyTorch 2.15's exported form (Softmax, IsNaN, Where; batch and heads joined
 * in one dimension). They are recognised and compute the same values, also for fully masked rows. */
#include "estimator/rules/operands/attention.h"
#include "memplan/simplify.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

#define SAFE "Softmax s -> p; IsNaN p -> n; Where n zero p -> w"

/* Returns the simplified model, which must compute the same values. The caller releases it. */
static mp_model *simplified(const char *text, bool fuses)
{
    mp_error err = {0};
    mp_model *model = model_text(text);
    double *before = interpret(model, model->outputs[0]);
    if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK ||
        (fuses && mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, NULL, &err) != MP_OK))
        fail_msg("%s: %s", text, err.message);
    assert_computes(model, before, text);
    return model;
}

static void check(const char *text, bool fuses, const char *kinds)
{
    mp_model *model = simplified(text, fuses);
    if (strcmp(model_kinds(model), kinds) != 0) fail_msg("%s\ngives: %s\nnot:   %s", text, model_kinds(model), kinds);
    mp_model_free(model);
}

/* The second row is fully masked. */
TEST(the_safe_softmax_is_one_operator)
{
#define ROWS "const zero 0; data x 2 3 4; const m 0 -inf 0 0 -inf -inf -inf -inf 0 0 0 -inf; ints d 3 4; Reshape m d -> mask;"
    check(ROWS "Add x mask -> s;" SAFE "; Tanh w -> z; out z", false, "Add SafeSoftmax Tanh");
    check(ROWS "Add x mask -> s; Softmax@11 s -> p axis=2; IsNaN p -> n; Where n zero p -> w; Tanh w -> z; out z", false,
          "Add SafeSoftmax Tanh");
}

TEST(what_is_not_quite_the_safe_softmax_stays)
{
    static const char *const texts[][2] = {
        {"const zero 0; data s 2 3;" SAFE "; Tanh w -> z; out z; Exp p -> e; out e", "Softmax Exp IsNaN Where Tanh"},
        {"const zero 0.5; data s 2 3;" SAFE "; Tanh w -> z; out z", "Softmax IsNaN Where Tanh"},
        {"const zero 0; data s 2 3; Softmax s -> p; IsNaN p -> n; Where n p zero -> w; Tanh w -> z; out z",
         "Softmax IsNaN Where Tanh"},
        {"const zero 0; data s 2 3; Softmax s -> p; IsNaN s -> n; Where n zero p -> w; Tanh w -> z; out z",
         "IsNaN Softmax Where Tanh"},
        {"const zero 0; data s 2 3; Softmax s -> p; IsNaN p -> n; Where n zero s -> w; Tanh w -> z; out z",
         "Softmax IsNaN Where Tanh"},
        {"const zero 0; data s 2 3 1; Softmax@11 s -> p axis=1; IsNaN p -> n; Where n zero p -> w; Tanh w -> z; out z",
         "Softmax IsNaN Where Tanh"},
    };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        mp_error err = {0};
        mp_model *model = model_text(texts[k][0]);
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        if (strstr(model_kinds(model), "SafeSoftmax")) fail_msg("%s\ngives: %s", texts[k][0], model_kinds(model));
        assert_true(strlen(model_kinds(model)) == strlen(texts[k][1]));
        mp_model_free(model);
    }
}

/* Two samples, 3 queries and 5 keys, 2 heads of depth 4. Both operands have the root of the scale. A boolean mask with one
 * fully masked row is converted to an added one. */
TEST(attention_is_recognised_through_it)
{
#define HEADS "data x 2 3 2 4; data y 2 5 2 4; data v0 2 5 2 6; const root 0.7; const zero 0; const low -inf;"
#define MASK "ints:9 b 1 0 1 1 0  0 0 0 0 0  1 1 1 1 1; ints d 3 5; Reshape b d -> b2; Where b2 zero low -> mask;"
#define SPLIT "Transpose x -> q perm=[0,2,1,3]; Transpose v0 -> v perm=[0,2,1,3]; Mul q root -> qs;"
#define TURNED "Transpose y -> k perm=[0,2,3,1]; Mul k root -> ks; MatMul qs ks -> s0;"
/* batch and heads joined in one dimension, transposed, and separated again */
#define STACKED                                                                                                \
    "Transpose y -> k perm=[0,2,1,3]; ints one -1 5 4; Reshape k one -> k3; Transpose k3 -> k3t perm=[0,2,1];" \
    "ints four 2 2 4 5; Reshape k3t four -> kt; Mul kt root -> ks; MatMul qs ks -> s0;"
#define BACK SAFE "; MatMul w v -> c; Transpose c -> o perm=[0,2,1,3]; Tanh o -> z; out z"
    static const struct {
        const char *text, *kinds;
        int n_in;
    } cases[] = {
        {HEADS MASK SPLIT TURNED "Add s0 mask -> s;" BACK, "ScaledDotProductAttention Tanh", 4},
        {HEADS MASK SPLIT STACKED "Add s0 mask -> s;" BACK, "ScaledDotProductAttention Tanh", 4},
        {HEADS SPLIT TURNED "Identity s0 -> s;" BACK, "ScaledDotProductAttention Tanh", 3},
        {HEADS MASK SPLIT TURNED "Where b2 s0 low -> s;" BACK, "ScaledDotProductAttention Tanh", 5},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_model *model = simplified(cases[k].text, true);
        const char *kinds = model_kinds(model);
        if (strlen(kinds) < strlen(cases[k].kinds) || strcmp(kinds + strlen(kinds) - strlen(cases[k].kinds), cases[k].kinds) ||
            strstr(kinds, "Transpose") || strstr(kinds, "Softmax"))
            fail_msg("%s\ngives: %s", cases[k].text, kinds);
        for (size_t i = 0; i < model->n_operators; i++) {
            const mp_operator *op = &model->operators[i];
            if (strcmp(op->kind, "ScaledDotProductAttention") != 0) continue;
            assert_int_equal(op->n_in, cases[k].n_in);
            assert_int_equal(mp_operator_int(op, "safe", 0), 1);
            assert_true(fabs(mp_operator_float(op, "scale", 1) - 0.49) < 1e-6);
        }
        mp_model_free(model);
    }
}

/* PyTorch's rules fuse only forms exported from PyTorch's own attention that also run there as one operator. */
TEST(pytorchs_rules_know_its_own_attention)
{
#define PLAIN "data x 2 2 3 4; data k 2 2 5 4; data v 2 2 5 6; const root 0.7; const zero 0; const c 0.49; const ratio 0.25;"
#define ROOTS "Transpose k -> kt perm=[0,1,3,2]; Mul x root -> q; Mul kt root -> kr; MatMul q kr -> s;"
#define END "MatMul w v -> o; Tanh o -> z; out z"
    static const struct {
        const char *text;
        bool is_one, may_have_mask; /* only a boolean mask, which may hide nothing, gives a safe softmax */
    } cases[] = {
        {PLAIN ROOTS SAFE ";" END, true, true},
        {PLAIN ROOTS "Softmax s -> w;" END, true, false},
        {PLAIN "Transpose k -> kt perm=[0,1,3,2]; MatMul x kt -> s;" SAFE ";" END, true, true},
        {PLAIN "Transpose k -> kt perm=[0,1,3,2]; MatMul x kt -> t; Mul t c -> s; Softmax s -> w;" END, false, false},
        {PLAIN "Transpose k -> kt perm=[0,1,3,2]; Mul x c -> q; MatMul q kt -> s; Softmax s -> w;" END, false, false},
        {PLAIN ROOTS "Softmax s -> p; IsNaN p -> n; Where n zero p -> w0; Dropout w0 ratio -> w;" END, false, false},
        {"data x 2 1 3 4; data k 2 1 5 4; data v 2 1 5 6; const root 0.7; ints flat 2 5 4; ints apart 2 1 4 5;" /* one head */
         "Reshape k flat -> f; Transpose f -> t perm=[0,2,1]; Reshape t apart -> kt; Mul x root -> q; Mul kt root -> kr;"
         "MatMul q kr -> s; Softmax s -> w;" END,
         true, false},
        {PLAIN "param b 2 3 5;" ROOTS "Add s b -> s2; Softmax s2 -> w;" END, false, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        mp_attention_report report = {0};
        mp_model *model = model_text(cases[k].text);
        assert_int_equal(mp_model_simplify(model, MP_RULES_PYTORCH, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, MP_RULES_PYTORCH, false, &report, &err), MP_OK);
        if (report.n != cases[k].is_one || report.n_unmasked != cases[k].may_have_mask)
            fail_msg("%s\ngives: %s", cases[k].text, model_kinds(model));
        mp_model_free(model);
    }
}

/* One K and V for both heads, without repetition. */
TEST(pytorchs_rules_let_all_heads_share)
{
    static const char text[] =
        "data x 2 2 3 4; data k 2 1 5 4; data v 2 1 5 6; const zero 0;"
        "Transpose k -> kt perm=[0,1,3,2]; MatMul x kt -> s;" SAFE "; MatMul w v -> o; Tanh o -> z; out z";
    for (int rules = 0; rules < 2; rules++) {
        mp_error err = {0};
        mp_attention_report report;
        mp_model *model = model_text(text);
        assert_int_equal(mp_model_simplify(model, (mp_rules)rules, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, (mp_rules)rules, false, &report, &err), MP_OK);
        assert_int_equal(report.n, rules == MP_RULES_PYTORCH);
        if (report.n) assert_int_equal(mp_operator_int(&model->operators[0], "groups", 1), 2);
        mp_model_free(model);
    }
}

/* PyTorch's attention writes its result in the layout of its query. If the query is newly built, the heads stay in front, and
 * the next projection needs a copy. */
TEST(pytorchs_result_lies_as_its_query)
{
    static const struct {
        const char *query;
        bool is_taken_in;
    } cases[] = {
        {"Transpose x -> q perm=[0,2,1,3];", true},
        {"Transpose x -> t perm=[0,2,1,3]; Mul t t -> q;", true},
        {"Transpose x -> t perm=[0,2,1,3]; Concat t t -> c axis=3; Slice c start end last -> q;", false},
        {"data r 2 2 3 4; Mul r r -> q;", false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        char text[1024];
        snprintf(text, sizeof text,
                 "data x 2 3 2 4; data k 2 2 5 4; data v 2 2 5 6; const zero 0; ints start 2; ints end 6; ints last 3; ints "
                 "flat 2 3 12; %s"
                 "Transpose k -> kt perm=[0,1,3,2]; MatMul q kt -> s;" SAFE
                 "; MatMul w v -> o; Transpose o -> b perm=[0,2,1,3]; Reshape b flat -> z; out z",
                 cases[k].query);
        for (int rules = 0; rules < 2; rules++) {
            mp_model *model = model_text(text);
            assert_int_equal(mp_model_simplify(model, (mp_rules)rules, true, NULL, &err), MP_OK);
            assert_int_equal(mp_model_fuse_attention(model, (mp_rules)rules, false, NULL, &err), MP_OK);
            const char *kinds = model_kinds(model), *behind = strstr(kinds, "ScaledDotProductAttention");
            assert_non_null(behind);
            const bool is_taken_in = !strstr(behind, "Transpose");
            if (is_taken_in != (rules == MP_RULES_EXECUTOR || cases[k].is_taken_in)) fail_msg("%s\ngives: %s", text, kinds);
            mp_model_free(model);
        }
    }
}

/* PyTorch's single operator is always exported as products, with the half applied last. A power or another order is a network's
 * own code, where each operator saves its own operands. */
TEST(pytorchs_rules_leave_a_gelu_that_is_written_out)
{
    static const char frame[] = "data x 2 3; const three 3; const cube 0.044715; const pi 0.79788456; const one 1; const half "
                                "0.5; %s; Mul p cube -> q; Add x q -> s; Mul s pi -> v; Tanh v -> t; Add t one -> a;"
                                "%s; Tanh y -> z; out z";
    static const char power[] = "Pow x three -> p", products[] = "Mul x x -> x2; Mul x2 x -> p";
    static const char half_first[] = "Mul x half -> h; Mul h a -> y", half_last[] = "Mul x a -> g; Mul g half -> y";
    const struct {
        const char *cube, *end;
        bool is_exported;
    } cases[] = {
        {power, half_first, false}, {power, half_last, false}, {products, half_first, false}, {products, half_last, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int rules = 0; rules < MP_N_RULES; rules++) {
            char text[512];
            mp_error err = {0};
            snprintf(text, sizeof text, frame, cases[k].cube, cases[k].end);
            mp_model *model = model_text(text);
            assert_int_equal(mp_model_simplify(model, (mp_rules)rules, true, NULL, &err), MP_OK);
            const bool is_one = strstr(model_kinds(model), "Gelu") != NULL;
            assert_int_equal(is_one, cases[k].is_exported || rules == MP_RULES_EXECUTOR);
            mp_model_free(model);
        }
}

/* 4 query heads share 2 key-value heads, which the model repeats before the product. */
TEST(pytorchs_rules_read_shared_heads_once)
{
#define SHARED                                                                                                             \
    "data q 2 4 3 4; data k 2 2 5 4; data v 2 2 5 6; const zero 0; ints e1 2 2 1 5 4; ints e2 2 2 2 5 4; ints e3 2 4 5 4;" \
    "ints f1 2 2 1 5 6; ints f2 2 2 2 5 6; ints f3 2 4 5 6; Reshape k e1 -> k1; Expand k1 e2 -> k2; Reshape k2 e3 -> k3;"  \
    "Transpose k3 -> kt perm=[0,1,3,2]; MatMul q kt -> s; " SAFE "; Reshape v f1 -> v1; Expand v1 f2 -> v2;"               \
    "Reshape v2 f3 -> v3; MatMul w v3 -> o; Tanh o -> z; out z"
    static const char *const kinds[] = {"Reshape Expand Reshape Reshape Expand Reshape ScaledDotProductAttention Tanh",
                                        "ScaledDotProductAttention Tanh"};
    for (int rules = 0; rules < MP_N_RULES; rules++) {
        mp_error err = {0};
        mp_model *model = model_text(SHARED);
        assert_int_equal(mp_model_simplify(model, (mp_rules)rules, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, (mp_rules)rules, false, NULL, &err), MP_OK);
        assert_int_equal(strlen(model_kinds(model)), strlen(kinds[rules]));
        for (size_t k = 0; k < model->n_operators; k++)
            if (!model->operators[k].removed && !strcmp(model->operators[k].kind, "ScaledDotProductAttention")) {
                assert_int_equal(mp_operator_int(&model->operators[k], "groups", 1), rules == MP_RULES_PYTORCH ? 2 : 1);
                assert_int_equal(mp_operator_out(model, &model->operators[k], 0)->dims[1], 4);
            }
        mp_model_free(model);
    }
}

TEST(a_split_behind_a_transposition_stands_before_it)
{
    check("data x 17 8 3; Transpose x -> t perm=[1,0,2]; ints d 2 4 17 3; Reshape t d -> y; Tanh y -> z; out z", false,
          "Reshape Transpose Tanh");
    check("data x 2 4 5 3; ints one 8 5 3; Reshape x one -> a; Transpose a -> t perm=[0,2,1]; ints d 2 4 3 5; Reshape t d -> y;"
          "Tanh y -> z; out z",
          false, "Transpose Tanh");
    check("data x 2 6; Transpose x -> t; ints d 3 2 1 2; Reshape t d -> y; Tanh y -> z; out z", false,
          "Reshape Transpose Tanh");
    /* it stays if it only adds dimensions of 1, joins or cuts dimensions, or has other readers */
    check("data x 2 4 6; Transpose x -> t perm=[1,0,2]; ints d 4 1 2 6; Reshape t d -> y; Tanh y -> z; out z", false,
          "Transpose Reshape Tanh");
    check("data x 2 4 6; Transpose x -> t perm=[1,0,2]; ints d 8 6; Reshape t d -> y; Tanh y -> z; out z", false,
          "Transpose Reshape Tanh");
    check("data x 2 4 6; Transpose x -> t perm=[1,0,2]; ints d 2 2 3 4; Reshape t d -> y; Tanh y -> z; out z", false,
          "Transpose Reshape Tanh");
    check(
        "data x 17 8 3; Transpose x -> t perm=[1,0,2]; ints d 2 4 17 3; Reshape t d -> y; Tanh y -> z; out z; Exp t -> e; out "
        "e",
        false, "Transpose Reshape Tanh Exp");
}
