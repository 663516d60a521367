/* test_patterns_attention.c - attention is recognised in all its exported forms, computes the same values afterwards, and is
 * left unfused where a rule forbids it. */
#include "estimator/rules/operands/attention.h"
#include "memplan/simplify.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

/* Queries of 3 rows and depth 4, 5 keys and values of depth 6, two samples. %s computes y from q, k and v. */
static const char frame[] = "data q 2 3 4; data k 2 5 4; data v 2 5 6; const c 0.5; const root 0.7; const eight 8; const low "
                            "-1000000000.0; %s; Tanh y -> z; out z";
#define K_TURNED "Transpose k -> kt perm=[0,2,1];"

static const char *framed(const char *middle)
{
    static char text[2048];
    snprintf(text, sizeof text, frame, middle);
    return text;
}

static mp_model *fused(const char *text, int expected)
{
    mp_error err = {0};
    mp_model *model = model_text(text);
    mp_attention_report report = {0};
    double *before = interpret(model, model->outputs[0]);
    if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK ||
        mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err) != MP_OK)
        fail_msg("%s: %s", text, err.message);
    if (report.n != expected) fail_msg("%s\ngives: %s", text, model_kinds(model));
    assert_computes(model, before, text);
    return model;
}

static const mp_operator *attention_of(const mp_model *model)
{
    for (size_t k = 0; k < model->n_operators; k++)
        if (!strcmp(model->operators[k].kind, "ScaledDotProductAttention")) return &model->operators[k];
    fail_msg("there is no attention in %s", model_kinds(model));
    return NULL;
}

static const char *name_of(const mp_model *model, const mp_operator *op, int k)
{
    const mp_tensor *t = mp_operator_in(model, op, k);
    return t ? t->name : "";
}

TEST(scales_are_taken_from_where_they_stand)
{
    static const struct {
        const char *text;
        double scale;
        bool strided;
    } alternatives[] = {
        {K_TURNED "MatMul q kt -> s; Softmax s -> p; MatMul p v -> y", 1, false},
        {K_TURNED "MatMul q kt -> s; Mul s c -> t; Softmax t -> p axis=2; MatMul p v -> y", 0.5, false},
        {K_TURNED "MatMul q kt -> s; Mul c s -> t; Softmax@11 t -> p axis=2; MatMul p v -> y", 0.5, false},
        {K_TURNED "MatMul q kt -> s; Div s eight -> t; Softmax t -> p; MatMul p v -> y", 0.125, false},
        {K_TURNED "Mul q c -> h; MatMul h kt -> s; Softmax s -> p; MatMul p v -> y", 0.5, false},
        {K_TURNED "Mul q root -> h; Mul kt root -> g; MatMul h g -> s; Softmax s -> p; MatMul p v -> y", 0.49, false},
        {"Mul k root -> g; Transpose g -> kt perm=[0,2,1]; Mul q root -> h; MatMul h kt -> s; Softmax s -> p; MatMul p v -> y",
         0.49, false},
        {"data t 5 2 4; Transpose t -> kt perm=[1,2,0]; MatMul q kt -> s; Mul s c -> t2; Softmax t2 -> p; MatMul p v -> y", 0.5,
         true},
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++) {
        mp_model *model = fused(framed(alternatives[k].text), 1);
        const mp_operator *op = attention_of(model);
        assert_string_equal(name_of(model, op, 0), "q");
        assert_string_equal(name_of(model, op, 1), alternatives[k].strided ? "t" : "k");
        assert_string_equal(name_of(model, op, 2), "v");
        assert_int_equal(mp_operator_int(op, "transK", 0), 0);
        assert_true(!mp_attention_perm(op, 1) == !alternatives[k].strided);
        assert_true(fabs(mp_operator_float(op, "scale", 1) - alternatives[k].scale) < 1e-6);
        assert_int_equal(op->n_in, 3);
        assert_string_equal(model->tensors[op->out[0]].name, "y");
        assert_string_equal(model_kinds(model), "ScaledDotProductAttention Tanh");
        mp_model_free(model);
    }
}

TEST(masks_are_taken_along)
{
    static const struct {
        const char *text, *added, *positions;
    } alternatives[] = {
        {K_TURNED "data m 2 1 5; MatMul q kt -> s; Mul s c -> t; Add t m -> u; Softmax u -> p; MatMul p v -> y", "m", ""},
        {K_TURNED "data m 3 5; MatMul q kt -> s; Add m s -> u; Softmax u -> p; MatMul p v -> y", "m", ""},
        {K_TURNED "ints:9 b 1 0 1 1 0; MatMul q kt -> s; Where b low s -> u; Softmax u -> p; MatMul p v -> y", "", "b"},
        {K_TURNED "ints:9 b 1 0 1 1 0; MatMul q kt -> s; Div s eight -> t; Where b t low -> u; Softmax u -> p; MatMul p v -> y",
         "", "b"},
        {K_TURNED "ints:9 b 1 0 1 1 0; data m 5; MatMul q kt -> s; Where b low s -> u; Add u m -> w; Softmax w -> p;"
                  "MatMul p v -> y",
         "m", "b"},
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++) {
        mp_model *model = fused(framed(alternatives[k].text), 1);
        const mp_operator *op = attention_of(model);
        assert_string_equal(name_of(model, op, 3), alternatives[k].added);
        assert_string_equal(name_of(model, op, 4), alternatives[k].positions);
        assert_int_equal(mp_operator_int(op, "causal", 0), 0);
        mp_model_free(model);
    }
}

TEST(a_known_mask_of_what_follows_is_an_attribute)
{
    static const char added[] =
        K_TURNED "ints dims 3 5; const m 0 %s -2e9 -1e9 -1e9 0 0 -1e9 -1e9 -1e9 0 0 0 -1e9 %s;"
                 "Reshape m dims -> mask; MatMul q kt -> s; Add s mask -> u; Softmax u -> p; MatMul p v -> y";
    static const char chosen[] = K_TURNED "ints dims 3 5; ints:9 m 1 0 0 0 0 1 1 0 0 0 1 1 1 0 0; Reshape m dims -> mask;"
                                          "MatMul q kt -> s; %s -> u; Softmax u -> p; MatMul p v -> y";
    static const struct {
        const char *a, *b;
        bool causal;
    } ends[] = {{"-1e9", "-1e9", true}, {"-1e9", "0", false}, {"-4.0", "-1e9", false}, {"0", "-1e9", false}};
    char middle[1024];
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        snprintf(middle, sizeof middle, added, ends[k].a, ends[k].b);
        mp_model *model = fused(framed(middle), 1);
        assert_int_equal(mp_operator_int(attention_of(model), "causal", 0), ends[k].causal);
        assert_int_equal(attention_of(model)->n_in, ends[k].causal ? 3 : 4);
        mp_model_free(model);
    }
    static const struct {
        const char *where;
        bool causal;
    } choices[] = {{"Where mask s low", true}, {"Where mask low s", false}, {"Where mask s c", false}};
    for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) {
        snprintf(middle, sizeof middle, chosen, choices[k].where);
        mp_model *model = fused(framed(middle), 1);
        assert_int_equal(mp_operator_int(attention_of(model), "causal", 0), choices[k].causal);
        assert_int_equal(attention_of(model)->n_in, choices[k].causal ? 3 : 5);
        mp_model_free(model);
    }
}

/* Boolean masks without values; the reader has declared their form. */
TEST(a_mask_of_the_past_is_an_attribute_without_its_values)
{
    static const struct {
        const char *mask, *where;
        mp_mask known;
        bool causal;
    } cases[] = {
        {"data:9 m 3 5;", "Where m s low", MP_MASK_PAST, true},
        {"data:9 m 1 3 5;", "Where m s low", MP_MASK_PAST, true},
        {"data:9 m 3 5;", "Where m low s", MP_MASK_FUTURE, true},
        {"data:9 m 3 5;", "Where m low s", MP_MASK_PAST, false},
        {"data:9 m 3 5;", "Where m s low", MP_MASK_FUTURE, false},
        {"data:9 m 3 5;", "Where m s low", MP_MASK_UNKNOWN, false},
        {"data:9 m 3 5;", "Where m s c", MP_MASK_PAST, false},
        {"data:9 m 1 5;", "Where m s low", MP_MASK_PAST, false},
        {"data:9 m 9 9; ints f 0 0; ints e 3 5; ints a 0 1; Slice m f e a -> n;", "Where n s low", MP_MASK_PAST, true},
        {"data:9 m 9 9; ints f 1 0; ints e 4 5; ints a 0 1; Slice m f e a -> n;", "Where n s low", MP_MASK_PAST, false},
        {"data:2 m 3 5; Cast m -> n to=9;", "Where n s low", MP_MASK_PAST, true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char middle[512];
        mp_error err = {0};
        mp_attention_report report = {0};
        snprintf(middle, sizeof middle, K_TURNED "%s MatMul q kt -> s; %s -> u; Softmax u -> p; MatMul p v -> y", cases[k].mask,
                 cases[k].where);
        mp_model *model = model_text(framed(middle));
        model->tensors[mp_model_find(model, "m")].mask = cases[k].known;
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err), MP_OK);
        if (mp_operator_int(attention_of(model), "causal", 0) != cases[k].causal) fail_msg("%s", middle);
        assert_int_equal(attention_of(model)->n_in, cases[k].causal ? 3 : 5);
        mp_model_free(model);
    }
}

/* Comparisons of positions whose result is too large to be folded. The test removes the folded value. */
TEST(a_comparison_of_positions_is_a_mask)
{
    static const struct {
        const char *compared, *where;
        bool causal;
    } cases[] = {
        {"GreaterOrEqual rows columns", "Where m s low", true},  {"GreaterOrEqual rows flat", "Where m s low", true},
        {"LessOrEqual columns rows", "Where m s low", true},     {"Less rows columns", "Where m low s", true},
        {"Greater columns rows", "Where m low s", true},         {"Greater rows columns", "Where m s low", false},
        {"GreaterOrEqual columns rows", "Where m s low", false}, {"GreaterOrEqual rows columns", "Where m low s", false},
        {"Less rows columns", "Where m s low", false},           {"GreaterOrEqual rows later", "Where m s low", false},
        {"GreaterOrEqual after columns", "Where m s low", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char middle[512];
        mp_error err = {0};
        mp_attention_report report = {0};
        snprintf(middle, sizeof middle,
                 "ints down 3 1; ints across 1 5; ints r 0 1 2; ints a 1 2 3; ints flat 0 1 2 3 4; ints l 0 1 2 3 5;"
                 "Reshape r down -> rows; Reshape a down -> after; Reshape flat across -> columns; Reshape l across -> later;"
                 "%s -> m;" K_TURNED "MatMul q kt -> s; %s -> u; Softmax u -> p; MatMul p v -> y",
                 cases[k].compared, cases[k].where);
        mp_model *model = model_text(framed(middle));
        mp_tensor *m = &model->tensors[mp_model_find(model, "m")];
        assert_non_null(m->value);
        m->value = NULL;
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err), MP_OK);
        if (mp_operator_int(attention_of(model), "causal", 0) != cases[k].causal) fail_msg("%s", middle);
        assert_int_equal(attention_of(model)->n_in, cases[k].causal ? 3 : 5);
        mp_model_free(model);
    }
}

/* Heads side by side, as projections write them, transposed to the front and back: two samples, 3 rows, 5 keys, 2 heads of
 * depth 4. `fused` compares the values with each operator's definition. */
TEST(transpositions_that_bring_heads_to_the_front_are_taken_in)
{
#define HEADS "data x 2 3 2 4; data w 2 5 2 4; data u 2 5 2 6; "
#define SPLIT HEADS "Transpose x -> qh perm=[0,2,1,3]; Transpose u -> vh perm=[0,2,1,3]; "
#define BACK "Softmax s -> p; MatMul p vh -> c2; Transpose c2 -> o perm=[0,2,1,3]; Tanh o -> y"
    static const struct {
        const char *text, *kinds;
    } cases[] = {
        {SPLIT "Transpose w -> kh perm=[0,2,3,1]; MatMul qh kh -> s;" BACK, "ScaledDotProductAttention Tanh Tanh"},
        {SPLIT "Transpose w -> wh perm=[0,2,1,3]; Transpose wh -> kh perm=[0,1,3,2]; MatMul qh kh -> s;" BACK,
         "ScaledDotProductAttention Tanh Tanh"},
        {SPLIT "Transpose w -> kh perm=[0,2,3,1]; data m 2 1 1 5; MatMul qh kh -> s0; Add s0 m -> s;" BACK,
         "ScaledDotProductAttention Tanh Tanh"},
        /* it stays if the depth is not innermost, or others read the tensors in between */
        {"data x 2 2 4 3; data w 2 5 2 4; data u 2 5 2 6; Transpose x -> qh perm=[0,1,3,2]; Transpose u -> vh perm=[0,2,1,3];"
         "Transpose w -> kh perm=[0,2,3,1]; MatMul qh kh -> s;" BACK,
         "Transpose ScaledDotProductAttention Tanh Tanh"},
        {SPLIT "Transpose w -> kh perm=[0,2,3,1]; MatMul qh kh -> s; Exp qh -> e; out e;" BACK,
         "Transpose Exp ScaledDotProductAttention Tanh Tanh"},
        {SPLIT "Transpose w -> kh perm=[0,2,3,1]; MatMul qh kh -> s;" BACK "; Exp c2 -> e; out e",
         "ScaledDotProductAttention Transpose Tanh Exp Tanh"},
        {SPLIT "Transpose w -> kh perm=[0,2,3,1]; MatMul qh kh -> s; Softmax s -> p; MatMul p vh -> c2;"
               "Transpose c2 -> o perm=[0,3,2,1]; Tanh o -> y",
         "ScaledDotProductAttention Transpose Tanh Tanh"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_model *model = fused(framed(cases[k].text), 1);
        if (strcmp(model_kinds(model), cases[k].kinds) != 0) fail_msg("%s\ngives: %s", cases[k].text, model_kinds(model));
        mp_model_free(model);
    }
}

TEST(what_is_no_attention_or_is_read_elsewhere_is_left_alone)
{
    static const char *const alternatives[] = {
        K_TURNED "MatMul q kt -> s; Softmax s -> p axis=1; MatMul p v -> y",
        K_TURNED "MatMul q kt -> s; Softmax s -> p; MatMul p v -> y; out p",
        K_TURNED "MatMul q kt -> s; Softmax s -> p; MatMul p v -> y; Exp s -> e; out e",
        K_TURNED "MatMul q kt -> s; Add s c -> t; Mul t c -> u; Softmax u -> p; MatMul p v -> y",
        K_TURNED "MatMul q kt -> s; Exp s -> t; Softmax t -> p; MatMul p v -> y",
        K_TURNED "MatMul q kt -> s; Softmax s -> p; Tanh p -> t; MatMul t v -> y",
        K_TURNED "param m 3 5; MatMul q kt -> s; Add s m -> t; Softmax t -> p; MatMul p v -> y",
        K_TURNED "param m 5; Exp m -> e; MatMul q kt -> s; Add s e -> t; Softmax t -> p; MatMul p v -> y",
        K_TURNED "data w 5 6; MatMul q kt -> s; Softmax s -> p; MatMul p w -> y",
        K_TURNED "data x 3 4; MatMul x kt -> s; Softmax s -> p; MatMul p v -> y",
    };
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++) mp_model_free(fused(framed(alternatives[k]), 0));
    /* a scaled operand with other readers is used as the operand */
    mp_model *model =
        fused(framed(K_TURNED "Mul q c -> h; MatMul h kt -> s; Softmax s -> p; MatMul p v -> y; Exp h -> e; out e"), 1);
    assert_string_equal(name_of(model, attention_of(model), 0), "h");
    mp_model_free(model);
}

TEST(dropout_is_taken_along_where_its_ratio_is_known)
{
    mp_error err = {0};
    mp_attention_report report = {0};
    static const char known[] = K_TURNED "const ratio 0.25; ints:9 yes 1; MatMul q kt -> s; Softmax s -> p;"
                                         "Dropout p ratio yes -> d; MatMul d v -> y";
    static const char unknown[] = K_TURNED "data ratio 1; ints:9 yes 1; MatMul q kt -> s; Softmax s -> p;"
                                           "Dropout p ratio yes -> d; MatMul d v -> y";
    for (int k = 0; k < 2; k++) {
        mp_model *model = model_text(framed(k ? unknown : known));
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err), MP_OK);
        assert_int_equal(report.n, 1 - k);
        if (!k) assert_true(mp_operator_float(attention_of(model), "ratio", 0) == 0.25);
        mp_model_free(model);
    }
}

/* For the first unfused attention: its product with V, the operator that prevents fusing, and the reason. */
TEST(what_stands_in_the_way_is_named)
{
    static const struct {
        const char *text, *at, *kind, *why;
    } cases[] = {
        {K_TURNED "MatMul q kt -> s; Tanh s -> t; Softmax t -> p; MatMul p v -> y", "Tanh", "Tanh",
         "is between the product and the softmax, where it is not supported"},
        {"data s 2 3 5; Softmax s -> p; MatMul p v -> y", "s", "", "is not a product of queries and keys"},
        {K_TURNED "param b 3 5; MatMul q kt -> s; Add s b -> u; Softmax u -> p; MatMul p v -> y", "b", "",
         "is added to the scores and has a gradient"},
        {K_TURNED "param b 2 3 5; MatMul q kt -> s; Add b s -> u; Softmax u -> p; MatMul p v -> y", "b", "",
         "is added to the scores and has a gradient"},
        {K_TURNED "MatMul q kt -> s; Softmax s -> p; MatMul p v -> y; out p", "MatMul", "MatMul",
         "is not the only reader of the probabilities or scores"},
        {"data one 1 5 4; Transpose one -> kt perm=[0,2,1]; MatMul q kt -> s; Softmax s -> p; MatMul p v -> y", "MatMul",
         "MatMul", "has queries, keys and values of different batches or types"},
        {K_TURNED "Softmax q -> p; MatMul p kt -> s; Softmax s -> r; MatMul r v -> y", "q", "",
         "is not a product of queries and keys"},
        {K_TURNED "MatMul q kt -> s; Sigmoid s -> p; MatMul p v -> y", NULL, NULL, NULL},
        {K_TURNED "MatMul q kt -> s; Softmax s -> p; MatMul p v -> y", NULL, NULL, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        mp_attention_report report;
        mp_model *model = model_text(framed(cases[k].text));
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err), MP_OK);
        if (report.n_missed != (cases[k].why != NULL)) fail_msg("%s: %d missed", cases[k].text, report.n_missed);
        if (cases[k].why && (strcmp(report.kind, cases[k].kind) || strcmp(report.why, cases[k].why)))
            fail_msg("%s: %s (%s) %s", cases[k].text, report.breaks, report.kind, report.why);
        if (cases[k].why && !*cases[k].kind) assert_string_equal(report.breaks, cases[k].at);
        mp_model_free(model);
    }
}
