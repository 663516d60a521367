/* test_inference_form.c - operators in inference mode, and batch normalization as arithmetic with fixed statistics.
 * tests/executor/test_gradients.c compares the gradients of such a network with PyTorch's. */
#include "estimator/simplify/inference_form.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

#define NORM "data x 2 3 4 4; param s 3; param b 3; data m 3; data v 3; "

static void expect(const char *text, int norms, int dropouts)
{
    mp_model *model = model_text(text);
    mp_inference_form form = mp_model_inference_form(model);
    if (form.norms != norms || form.dropouts != dropouts)
        fail_msg("%s: %d normalizations and %d dropouts", text, form.norms, form.dropouts);
    mp_model_free(model);
}

TEST(every_version_says_it_in_its_own_way)
{
    expect(NORM "BatchNormalization@15 x s b m v -> y; out y", 1, 0);
    expect(NORM "BatchNormalization@15 x s b m v -> y training_mode=0; out y", 1, 0);
    expect(NORM "BatchNormalization@15 x s b m v -> y training_mode=1; out y", 0, 0);
    expect(NORM "BatchNormalization@9 x s b m v -> y; out y", 1, 0);
    expect(NORM "BatchNormalization@9 x s b m v -> y n w; out y", 0, 0);
    expect(NORM "BatchNormalization@6 x s b m v -> y; out y", 0, 0);
    expect(NORM "BatchNormalization@6 x s b m v -> y is_test=1; out y", 1, 0);
    expect("data x 2 3; const off 0.0; const on 1.0; const p 0.5; Dropout@13 x -> a; Dropout@13 a p -> c; "
           "Dropout@13 c p off -> d; Dropout@13 d p on -> e; Dropout@13 e off -> y; out y",
           0, 3);
    expect("data x 2 3; Dropout@10 x -> a; Dropout@6 a -> c is_test=1; Dropout@6 c -> y; out y", 0, 1);
}

/* A softmax over the rows of a matrix is a classifier's; one over channels belongs to no attention. */
TEST(dropout_of_probabilities_is_told_from_others)
{
    static const struct {
        const char *text;
        bool has_softmax, drops_rows;
    } rows[] = {{"Softmax@13 x -> p; Dropout@13 p r on -> y", true, true},
                {"Softmax@13 x -> p axis=3; Dropout@10 p -> y", true, true},
                {"Softmax@11 x -> p axis=3; Identity p -> q; Dropout@13 q r on -> y", true, true},
                {"Softmax@13 x -> p; IsNaN p -> n; Where n r p -> q; Dropout@13 q r on -> y", true, true},
                {"Softmax@13 x -> p; Dropout@13 p -> y", true, false},
                {"Softmax@13 x -> p; Relu p -> q; Dropout@13 q r on -> y", true, false},
                {"Dropout@13 x r on -> d; Softmax@13 d -> y", true, false},
                {"Softmax@13 x -> p axis=1; Dropout@13 p r on -> y", false, false},
                {"Softmax@11 x -> p; Dropout@13 p r on -> y", false, false},
                {"Flatten x -> f; Softmax@13 f -> p; Dropout@13 p r on -> y", false, false}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[256];
        snprintf(text, sizeof text, "data x 2 3 4 4; const r 0.1; const on 1.0; %s; out y", rows[k].text);
        mp_model *model = model_text(text);
        const mp_inference_form form = mp_model_inference_form(model);
        if (form.has_softmax != rows[k].has_softmax || form.drops_rows != rows[k].drops_rows)
            fail_msg("%s: %d, %d", rows[k].text, form.has_softmax, form.drops_rows);
        mp_model_free(model);
    }
}

TEST(a_normalization_becomes_arithmetic)
{
    mp_error err = {0};
    mp_model *model = model_text(NORM "BatchNormalization@15 x s b m v -> y; Relu y -> z; out z");
    assert_int_equal(mp_model_keep_inference_norms(model, &err), MP_OK);
    assert_string_equal(model_kinds(model), "Add Sqrt Div Reshape Mul Mul Sub Reshape Add Relu");
    assert_int_equal(mp_model_inference_form(model).norms, 0);
    const mp_tensor *y = &model->tensors[mp_model_find(model, "y")];
    assert_int_equal(y->rank, 4);
    assert_int_equal(y->dims[1], 3);
    assert_true(y->producer >= 0);
    mp_model_free(model);
    model = model_text("data x 2 3; param s 3; param b 3; data m 3; data v 3; BatchNormalization@15 x s b m v -> y; out y");
    assert_int_equal(mp_model_keep_inference_norms(model, &err), MP_OK);
    assert_string_equal(model_kinds(model), "Add Sqrt Div Mul Sub Mul Add");
    mp_model_free(model);
}

TEST(what_trains_is_left_alone)
{
    mp_error err = {0};
    mp_model *model = model_text(NORM "BatchNormalization@15 x s b m v -> y training_mode=1; out y");
    assert_int_equal(mp_model_keep_inference_norms(model, &err), MP_OK);
    assert_string_equal(model_kinds(model), "BatchNormalization");
    mp_model_free(model);
}

TEST(rewriting_survives_every_allocation_failure)
{
    mp_status st = MP_NOMEM;
    long k = 0;
    for (; st != MP_OK; k++) {
        mp_error err = {0};
        const long live = mp_alloc_live;
        mp_model *model = model_text(NORM "BatchNormalization@15 x s b m v -> y; out y");
        mp_alloc_budget = k;
        st = mp_model_keep_inference_norms(model, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 3);
}
