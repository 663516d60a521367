/* test_patterns_pytorch.c - operators treated as one PyTorch operator: by the exporter's metadata, or by their form without
 * metadata. Also group normalization, which both exporters write as five operators. */
#include "estimator/simplify/inference_form.h"
#include "memplan/simplify.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

static const char frame[] =
    "data in 2 3; Abs in -> x; const half 0.5; const root 1.4142135; const one 1; const six 6; const zero 0;"
    "const three 3; const pi 0.7978845608; const cube 0.044715; const quick 1.702; %s; Neg y -> z; out z";

/* The formulas: PyTorch's exported form, and an equivalent form. */
static const struct {
    const char *kind, *exported, *by_hand;
} formulas[] = {
    {"Gelu", "Div x root -> u; Erf u -> e; Add e one -> a; Mul x a -> b; Mul b half -> y",
     "Mul x half -> h; Div x root -> u; Erf u -> e; Add e one -> a; Mul h a -> y"},
    {"Gelu",
     "Mul x x -> s; Mul x s -> c; Mul cube c -> d; Add x d -> u; Mul pi u -> v; Tanh v -> t; Add one t -> a; Mul x a -> b;"
     "Mul half b -> y",
     "Mul x half -> h; Mul x cube -> s; Mul s x -> c; Mul c x -> d; Add x d -> u; Mul u pi -> v; Tanh v -> t; Add t one -> a;"
     "Mul h a -> y"},
    {"Swish", "Sigmoid x -> s; Mul x s -> y", "Mul x quick -> q; Sigmoid q -> s; Mul x s -> y"},
    {"Mish", "Softplus x -> s; Tanh s -> t; Mul x t -> y", NULL},
    {"HardSwish", NULL, "Add x three -> u; Clip u zero six -> c; Mul x c -> b; Div b six -> y"},
};

enum { N_FORMULAS = sizeof formulas / sizeof *formulas };

static mp_model *framed(const char *formula)
{
    char text[2048];
    snprintf(text, sizeof text, frame, formula);
    return model_text(text);
}

/* Sets the call names of the operators between Abs and Neg: one common name, or one each. */
static void note_calls(mp_model *model, bool one)
{
    for (size_t k = 1; k + 1 < model->n_operators; k++)
        model->operators[k].call = one ? "gelu" : mp_pool_format(model->pool, "mul_%zu", k);
}

static void assert_made(mp_model *model, const char *formula, const char *kind, int guessed)
{
    char wanted[256];
    if (kind)
        snprintf(wanted, sizeof wanted, "Abs %s Neg", kind);
    else
        snprintf(wanted, sizeof wanted, "%s", model_kinds(model));
    assert_int_equal(mp_model_simplify(model, MP_RULES_PYTORCH, true, NULL, NULL), MP_OK);
    const char *kinds = model_kinds(model);
    if (strcmp(kinds, wanted) != 0) fail_msg("%s gives %s, not %s", formula, kinds, wanted);
    assert_int_equal(mp_model_guesses(model).formulas, guessed);
    mp_model_free(model);
}

TEST(without_notes_only_the_exporters_form_is_one_operator_and_a_guess)
{
    for (int k = 0; k < N_FORMULAS; k++) {
        if (formulas[k].exported) assert_made(framed(formulas[k].exported), formulas[k].exported, formulas[k].kind, 1);
        if (formulas[k].by_hand) assert_made(framed(formulas[k].by_hand), formulas[k].by_hand, NULL, 0);
    }
}

/* Below operator set 20 the newer exporter writes Gelu in a form that is a user's in other files. */
TEST(the_newer_exporters_gelu_is_one_operator_without_notes)
{
    static const char *const forms[] = {"Div x root -> u; Erf u -> e; Add e one -> a; Mul half a -> b; Mul x b -> y",
                                        "Pow x three -> c; Mul cube c -> d; Add x d -> u; Mul pi u -> v; Tanh v -> t; Add t "
                                        "one -> a; Mul half a -> b; Mul x b -> y"};
    for (int k = 0; k < 2; k++)
        for (int newer = 0; newer < 2; newer++) {
            mp_model *model = framed(forms[k]);
            model->is_of_newer_exporter = newer;
            assert_made(model, forms[k], newer ? "Gelu" : NULL, newer);
        }
}

TEST(a_softplus_with_a_threshold_beyond_precision_is_a_softplus)
{
    static const struct {
        const char *form, *kind;
    } rows[] = {{"const top 20; Softplus x -> s; Greater x top -> g; Where g x s -> y", "Softplus"},
                {"const top 10; Softplus x -> s; Greater x top -> g; Where g x s -> y", NULL},
                {"const top 20; Softplus x -> s; Greater x top -> g; Where g s x -> y", NULL},
                {"const top 20; Softplus x -> s; Greater s top -> g; Where g x s -> y", NULL}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) assert_made(framed(rows[k].form), rows[k].form, rows[k].kind, 0);
    mp_model *model = framed(rows[0].form);
    note_calls(model, false);
    assert_made(model, rows[0].form, NULL, 0);
}

TEST(notes_decide_whatever_the_form)
{
    for (int k = 0; k < N_FORMULAS; k++)
        for (int form = 0; form < 2; form++) {
            const char *formula = form ? formulas[k].by_hand : formulas[k].exported;
            if (!formula) continue;
            for (int one = 0; one < 2; one++) {
                mp_model *model = framed(formula);
                note_calls(model, one);
                assert_made(model, formula, one ? formulas[k].kind : NULL, 0);
            }
        }
}

/* Scale and bias in the older exporter's form (behind an Unsqueeze) and in the newer one's (as stored). */
static const char groups_frame[] = "data x 2 6 2 2; ints there 2 3 -1; ints back 2 6 2 2; const ones 1 1 1; const zeros 0 0 0; "
                                   "const twos 2 1 1; param s 6; param t 6;"
                                   "param u 6 1 1; param v 6 1 1; ints axes 1 2; Unsqueeze s axes -> us; Unsqueeze t axes -> "
                                   "ut; Reshape x there -> g; %s; Neg y -> z; out z";

static const mp_operator *group_normalization(const char *middle, mp_rules rules, mp_model **model)
{
    char text[2048];
    snprintf(text, sizeof text, groups_frame, middle);
    *model = model_text(text);
    assert_int_equal(mp_model_simplify(*model, rules, true, NULL, NULL), MP_OK);
    for (size_t k = 0; k < (*model)->n_operators; k++)
        if (!(*model)->operators[k].removed && !strcmp((*model)->operators[k].kind, "GroupNormalization"))
            return &(*model)->operators[k];
    return NULL;
}

TEST(group_normalization_is_recognised)
{
    static const char *const middles[] = {
        "InstanceNormalization g ones zeros -> n epsilon=0.25; Reshape n back -> m; Mul m us -> p; Add p ut -> y",
        "InstanceNormalization g ones zeros -> n epsilon=0.25; Reshape n back -> m; Mul u m -> p; Add v p -> y"};
    for (int k = 0; k < 2; k++)
        for (int rules = 0; rules < 2; rules++) {
            mp_model *model;
            const mp_operator *op = group_normalization(middles[k], rules ? MP_RULES_PYTORCH : MP_RULES_EXECUTOR, &model);
            assert_non_null(op);
            assert_string_equal(model_kinds(model), "GroupNormalization Neg");
            assert_int_equal(mp_operator_int(op, "num_groups", 0), 3);
            assert_true(mp_operator_float(op, "epsilon", 0) == 0.25);
            assert_int_equal(op->in[0], mp_model_find(model, "x"));
            assert_int_equal(op->in[1], mp_model_find(model, k ? "u" : "s"));
            assert_int_equal(op->in[2], mp_model_find(model, k ? "v" : "t"));
            mp_model_free(model);
        }
}

/* PyTorch's newer exporter stores equal scales once. */
TEST(group_normalizations_may_share_their_scale)
{
    for (int rules = 0; rules < 2; rules++) {
        mp_model *model;
        const mp_operator *op = group_normalization(
            "InstanceNormalization g ones zeros -> n; Reshape n back -> m; Mul m u -> p; Add p v -> q; Reshape q there -> h; "
            "InstanceNormalization h ones zeros -> i; Reshape i back -> k; Mul k u -> o; Add o v -> w; Add w u -> y",
            rules ? MP_RULES_PYTORCH : MP_RULES_EXECUTOR, &model);
        assert_non_null(op);
        assert_string_equal(model_kinds(model), "GroupNormalization GroupNormalization Add Neg");
        mp_model_free(model);
    }
}

TEST(nearly_group_normalization_is_left_alone)
{
    static const char *const middles[] = {
        "InstanceNormalization g twos zeros -> n; Reshape n back -> m; Mul m us -> p; Add p ut -> y",
        "InstanceNormalization g ones ones -> n; Reshape n back -> m; Mul m us -> p; Add p ut -> y",
        "InstanceNormalization g ones zeros -> n; Reshape n back -> m; Mul m us -> p; Add p m -> y",
        "ints flat 2 24; param w 24; InstanceNormalization g ones zeros -> n; Reshape n flat -> m; Mul m w -> p; Add p w -> y"};
    for (size_t k = 0; k < sizeof middles / sizeof *middles; k++) {
        mp_model *model;
        if (group_normalization(middles[k], MP_RULES_EXECUTOR, &model)) fail_msg("%s", middles[k]);
        mp_model_free(model);
    }
}
