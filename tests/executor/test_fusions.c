/* test_fusions.c - operators fused into batch normalization, operators that must stay separate, and matrices whose rows are
 * aligned. */
#include "estimator/base/memory.h"
#include "executor/kernel/array.h"
#include "executor/operators/aligned_rows.h"
#include "executor/operators/fusions.h"
#include "executor/operators/layouts.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

static mp_model *fused(const char *text)
{
    char all[600];
    mp_error err = {0};
    snprintf(all, sizeof all, "data x 2 3 4 5; data z 2 3 4 5; data w 2 3 1 1; param s 3; param b 3; param m 3; param v 3; %s",
             text);
    mp_model *model = model_text(all);
    if (mp_layouts_choose(model, &err) != MP_OK || mp_fuse_batch_normalizations(model, &err) != MP_OK)
        fail_msg("%s: %s", text, err.message);
    return model;
}

/* Compares the operator kinds of the fused model with the expected list. */
static void check(const char *text, const char *kinds)
{
    mp_model *model = fused(text);
    if (strcmp(model_kinds(model), kinds) != 0) fail_msg("%s\ngives: %s\nnot:   %s", text, model_kinds(model), kinds);
    mp_model_free(model);
}

TEST(what_follows_is_taken_in)
{
    check("BatchNormalization x s b m v -> n; Relu n -> y; out y", "BatchNormalizationRelu");
    check("BatchNormalization x s b m v -> n; Add n z -> a; Relu a -> y; out y", "BatchNormalizationAddRelu");
    check("BatchNormalization x s b m v -> n; Add z n -> a; Relu a -> y; out y", "BatchNormalizationAddRelu");
    check("BatchNormalization x s b m v -> n; Add n x -> a; Relu a -> y; out y", "BatchNormalizationAddRelu");
    /* of two normalizations the later one is fused, and the first one's output is its operand */
    check("BatchNormalization x s b m v -> n; BatchNormalization z s b m v -> o; Add n o -> a; Relu a -> y; out y",
          "BatchNormalization BatchNormalizationAddRelu");
}

TEST(what_somebody_else_reads_stays)
{
    check("BatchNormalization x s b m v -> n; Relu n -> y; out y n", "BatchNormalization Relu");
    check("BatchNormalization x s b m v -> n; Relu n -> y; Sigmoid n -> t; out y t", "BatchNormalization Relu Sigmoid");
    check("BatchNormalization x s b m v -> n; Add n z -> a; Relu a -> y; out y a", "BatchNormalization Add Relu");
    check("BatchNormalization x s b m v -> n; Add n n -> a; Relu a -> y; out y", "BatchNormalization Add Relu");
    check("BatchNormalization x s b m v -> n; Add n w -> a; Relu a -> y; out y", "BatchNormalization Add Relu");
    check("BatchNormalization x s b m v -> n; Add n z -> a; out a", "BatchNormalization Add");
    check("Add x z -> a; Relu a -> y; out y", "Add Relu");
    check("BatchNormalization x s b m v -> n; Sigmoid n -> t; Relu t -> y; out y", "BatchNormalization Sigmoid Relu");
}

/* The fused operator has the name of its last operator and the attributes of the normalization. */
TEST(operands_and_attributes_go_along)
{
    mp_model *model = fused("BatchNormalization x s b m v -> n epsilon=0.25 momentum=0.5; Add z n -> a; Relu a -> y; out y");
    const mp_operator *op = &model->operators[0];
    const char *const names[] = {"x", "s", "b", "m", "v", "z"};
    assert_int_equal(model->n_operators, 1);
    assert_string_equal(op->name, "y/op");
    assert_int_equal(op->n_in, 6);
    for (int k = 0; k < 6; k++) assert_string_equal(model->tensors[op->in[k]].name, names[k]);
    assert_true(mp_operator_float(op, "epsilon", 0) == 0.25 && mp_operator_float(op, "momentum", 0) == 0.5);
    const mp_tensor *y = &model->tensors[mp_model_find(model, "y")];
    assert_int_equal(y->producer, 0);
    assert_int_equal(y->stored.layout, MP_LAYOUT_CHANNELS_LAST);
    mp_model_free(model);
}

/* A row of 515 elements is stored in 520: 2 x 3 rows of 4 bytes each. The expected bytes are computed by hand. */
TEST(only_rows_that_all_readers_accept_are_aligned)
{
    static const struct {
        const char *text;
        int64_t bytes; /* of tensor y */
    } cases[] = {
        {"MatMul x w -> y; out y", 6 * 520 * 4},
        {"MatMul x w -> y; Reshape y shape -> r; out r", 6 * 520 * 4},
        {"MatMul x w -> y; Reshape y shape -> r; SoftmaxCrossEntropyLoss r t -> l; out l", 6 * 520 * 4},
        {"MatMul x w -> y; MatMul y v -> z; out z", 6 * 520 * 4},
        {"MatMul x even -> y; out y", 6 * 520 * 4},                    /* is aligned as it is */
        {"MatMul x few -> y; out y", 6 * 15 * 4},                      /* padding would add 7 % */
        {"MatMul x w -> y; Relu y -> r; out r", 6 * 515 * 4},          /* reads elements side by side */
        {"MatMul x w -> y; Reshape y other -> r; out r", 6 * 515 * 4}, /* rows of another length */
        {"MatMul x w -> y; Reshape y shape -> r; Relu r -> s; out s", 6 * 515 * 4},
        {"MatMul x w -> y; Reshape y shape -> r; SoftmaxCrossEntropyLoss r t -> l p; out l p", 6 * 515 * 4},
        {"Add big big -> y; MatMul y v -> z; out z", 6 * 515 * 4}, /* no product computes it */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char all[600];
        mp_error err = {0};
        mp_array a;
        snprintf(all, sizeof all,
                 "data x 2 3 16; param w 16 515; param even 16 520; param few 16 15; param v 515 8; data big 2 3 515; "
                 "data:7 t 6; ints shape 6 515; ints other 515 6; %s",
                 cases[k].text);
        mp_model *model = model_text(all);
        assert_int_equal(mp_align_rows(model, &err), MP_OK);
        const mp_tensor *y = &model->tensors[mp_model_find(model, "y")];
        if (mp_tensor_bytes(y) != cases[k].bytes)
            fail_msg("%s: y has %lld bytes, not %lld", cases[k].text, (long long)mp_tensor_bytes(y), (long long)cases[k].bytes);
        const mp_aligned_rows rows = mp_aligned_rows_of(model);
        assert_int_equal(rows.elements, (mp_tensor_bytes(y) - mp_tensor_elements(y) * 4) / 4);
        assert_int_equal(rows.n_tensors, rows.elements > 0);
        assert_int_equal(mp_array_of(y, MP_DTYPE_FLOAT, &a, &err), MP_OK);
        assert_int_equal(mp_array_bytes(&a), cases[k].bytes);
        mp_model_free(model);
    }
}

/* Products read the columns of a weight side by side if its rows are odd and its columns are not. */
TEST(weights_with_odd_rows_are_stored_by_columns)
{
    static const struct {
        const char *text;
        bool turned;
    } cases[] = {{"param w 16 515; MatMul x w -> y; out y", true},
                 {"param w 16 520; MatMul x w -> y; out y", false},
                 {"param w 515 16; Transpose w -> t perm=[1,0]; MatMul x t -> y; out y", false},
                 {"param w 16 515; MatMul x w -> y; Relu w -> z; out y z", false},
                 {"param w 16 515; MatMul x w -> y; out y w", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char all[300];
        mp_error err = {0};
        mp_array a;
        snprintf(all, sizeof all, "data x 2 3 16; %s", cases[k].text);
        mp_model *model = model_text(all);
        assert_int_equal(mp_align_rows(model, &err), MP_OK);
        const mp_tensor *w = &model->tensors[mp_model_find(model, "w")];
        assert_int_equal(mp_array_of(w, MP_DTYPE_FLOAT, &a, &err), MP_OK);
        assert_int_equal(mp_array_bytes(&a), mp_tensor_elements(w) * 4);
        if ((a.strides[0] == 1) != cases[k].turned || a.strides[cases[k].turned] != w->dims[!cases[k].turned])
            fail_msg("%s: strides %lld, %lld", cases[k].text, (long long)a.strides[0], (long long)a.strides[1]);
        mp_model_free(model);
    }
}

TEST(a_failed_allocation_is_said)
{
    mp_model *model = model_text("data x 2 3 4 5; param s 3; BatchNormalization x s s s s -> n; Relu n -> y; out y");
    mp_status st = MP_NOMEM;
    mp_error err;
    for (int64_t k = 0; st != MP_OK; k++) {
        err = (mp_error){0};
        mp_alloc_budget = k;
        st = mp_fuse_batch_normalizations(model, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        if (st != MP_OK && k > 100) fail_msg("it never ends");
    }
    mp_model_free(model);
}
