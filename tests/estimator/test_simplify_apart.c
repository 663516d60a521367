/* test_simplify_apart.c - operators whose gradients read more than other operators of their kind get separate kinds. */
#include "memplan/simplify.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

/* The gradients of these reductions read the data and the updates. Other reductions' gradients read only the indices. */
TEST(scatters_with_other_reductions_are_named_apart)
{
    mp_error err = {0};
    static const char *const words[] = {"max", "min", "mul", "add", "none"};
    for (int k = 0; k < 10; k++) {
        char text[256];
        const char *kind = k % 2 ? "ScatterND" : "ScatterElements";
        snprintf(text, sizeof text, "data x 4; data:7 i 3%s; data u 3; %s@18 x i u -> y reduction=%s; out y", k % 2 ? " 1" : "",
                 kind, words[k / 2]);
        mp_model *model = model_text(text);
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, k % 3, NULL, &err), MP_OK);
        const mp_operator *op = &model->operators[model->tensors[mp_model_find(model, "y")].producer];
        assert_string_equal(op->kind, kind);
        assert_string_equal(op->domain, k < 6 ? "memplan" : "");
        assert_string_equal(mp_operator_text(op, "reduction", "?"), words[k / 2]);
        mp_model_free(model);
    }
}

TEST(activations_with_a_negative_factor_and_clips_between_computed_bounds_are_named_apart)
{
    static const struct {
        const char *text, *domain;
    } cases[] = {
        {"data x 4; LeakyRelu x -> y alpha=0.5; out y", ""},
        {"data x 4; LeakyRelu x -> y alpha=-0.5; out y", "memplan"},
        {"data x 4; Elu x -> y alpha=-0.5; out y", "memplan"},
        {"data x 4; Elu x -> y; out y", ""},
        {"data x 4; Selu x -> y gamma=-1.5; out y", "memplan"},
        {"data x 4; Celu x -> y alpha=-0.5; out y", ""},
        {"data x 4; data l 1; Clip@13 x l -> y; out y", "memplan"},
        {"data x 4; const l 0; const h 6; Clip@13 x l h -> y; out y", ""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        mp_model *model = model_text(cases[k].text);
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, k % 2, NULL, &err), MP_OK);
        const mp_operator *op = &model->operators[model->tensors[mp_model_find(model, "y")].producer];
        if (strcmp(op->domain, cases[k].domain)) fail_msg("%s: its domain is '%s'", cases[k].text, op->domain);
        mp_model_free(model);
    }
}
