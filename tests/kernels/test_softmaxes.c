/* test_softmaxes.c - softmax and losses: values by hand and from PyTorch, gradients compared with finite differences. */
#include "executor/cpu/base/families.h"
#include "executor/cpu/cpu.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

TEST(values_are_those_computed_by_hand)
{
    const double e = exp(1.0), total = 1 + e + e * e;
    kernel_case c = {"Softmax", 13, "float32[1,3]={0,1,2}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){1 / total, e / total, e * e / total}, 3, 1e-6);
    kernel_case far = {"Softmax", 13, "float32[1,3]={-1000,1000,1000}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&far, MP_MODE_TRAIN, 0, (double[]){0, 0.5, 0.5}, 3, 1e-6);
    kernel_case l = {"LogSoftmax", 13, "float32[1,3]={0,1,2}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&l, MP_MODE_TRAIN, 0, (double[]){-log(total), 1 - log(total), 2 - log(total)}, 3, 1e-6);
    kernel_case h = {"Hardmax", 13, "float32[2,3]={0,5,5,3,2,1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&h, MP_MODE_TRAIN, 0, (double[]){0, 1, 0, 1, 0, 0}, 6, 0);
    kernel_case closed = {"memplan:SafeSoftmax", 1, "float32[2,3]={-inf,-inf,-inf,-inf,5,-inf}", "axis=-1", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&closed, MP_MODE_TRAIN, 0, (double[]){0, 0, 0, 0, 1, 0}, 6, 0);
    closed.attributes = "axis=0";
    closed.inputs = "float32[2,3]={-inf,0,-inf,-inf,0,7}";
    kernel_check_values(&closed, MP_MODE_TRAIN, 0, (double[]){0, 0.5, 0, 0, 0.5, 1}, 6, 0);
    /* before operator set 13 the dimensions from the axis on form one line */
    kernel_case old = {"Softmax", 11, "float32[1,2,2]={0,0,0,0}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&old, MP_MODE_TRAIN, 0, (double[]){0.25, 0.25, 0.25, 0.25}, 4, 1e-6);
}

/* Values of torch.nn.functional.cross_entropy for the same numbers. */
TEST(losses_are_those_of_pytorch)
{
    const char *plain = "float32[3,3]={1,2,3,0,0.5,-1,2,2,2} int64[3]={2,0,1}";
    const char *weighted = "float32[3,3]={1,2,3,0,0.5,-1,2,2,2} int64[3]={2,0,1} float32[3]={1,2,0.5}";
    kernel_case c = {"SoftmaxCrossEntropyLoss", 13, plain, "", 1, 0, 0, 0, 0, 0};
    const double a = 0.40760596, b = 1.10413, d = 1.0986123;
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){(a + b + d) / 3}, 1, 1e-5);
    c.attributes = "reduction=sum";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){a + b + d}, 1, 1e-5);
    c.attributes = "reduction=none";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){a, b, d}, 3, 1e-5);
    c.attributes = "ignore_index=0";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){(a + d) / 2}, 1, 1e-5);
    kernel_case w = {"SoftmaxCrossEntropyLoss", 13, weighted, "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&w, MP_MODE_TRAIN, 0, (double[]){(0.5 * a + b + 2 * d) / 3.5}, 1, 1e-5);
    kernel_case n = {"NegativeLogLikelihoodLoss", 13, "float32[2,2]={-0.5,-1,-2,-3} int64[2]={1,0}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&n, MP_MODE_TRAIN, 0, (double[]){1.5}, 1, 1e-6);
    kernel_case m = {"memplan:MeanSquaredError", 1, "float32[2,2]={1,2,3,4} float32[2,2]={1,1,1,1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&m, MP_MODE_TRAIN, 0, (double[]){3.5}, 1, 1e-6);
}

TEST(gradients_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"Softmax", 13, "float32[2,3,4]", "axis=1", 1, -2, 2, 0, 0, 0},
        {"Softmax", 13, "float32[3,40]", "", 1, -2, 2, 0, 0, 0},
        {"Softmax", 11, "float32[2,3,4]", "axis=1", 1, -2, 2, 0, 0, 0},
        {"memplan:SafeSoftmax", 1, "float32[2,3,4]", "axis=1", 1, -2, 2, 0, 0, 0},
        {"memplan:SafeSoftmax", 1, "float32[3,40]", "axis=-1", 1, -2, 2, 0, 0, 0},
        {"LogSoftmax", 13, "float32[2,3,4]", "axis=-1", 1, -2, 2, 0, 0, 0},
        {"LogSoftmax", 13, "float32[2,5,3]", "axis=1", 1, -2, 2, 0, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1} float32[3]={1,2,0.5}", "", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[2,3,2,2] int64[2,2,2]={2,0,1,1,0,0,2,1}", "ignore_index=1", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "reduction=none", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "reduction=sum", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[1,3] int64[1]={2} float32[3]={1,2,0.5}", "reduction=sum", 1, -2, 2, 1, 0, 0},
        /* also with gradients of the log-probabilities */
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "", 2, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[2,3,2,2] int64[2,2,2]={2,0,1,1,0,0,2,1}", "ignore_index=1", 2, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1} float32[3]={1,2,0}", "reduction=none", 2, -2, 2, 1, 0,
         0},
        {"NegativeLogLikelihoodLoss", 13, "float32[4,3] int64[4]={2,0,1,1} float32[3]={1,2,0.5}", "", 1, -2, 2, 1, 0, 0},
        /* smoothed labels, class weights, ignored labels, a class with weight 0, gradients of the log-probabilities */
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "label_smoothing=0.2", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[2,3,2,2] int64[2,2,2]={2,0,1,1,0,0,2,1} float32[3]={1,0,0.5}",
         "ignore_index=2 label_smoothing=0.3", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1} float32[3]={1,2,3}",
         "label_smoothing=0.3 reduction=none", 2, -2, 2, 1, 0, 0},
        {"memplan:MeanSquaredError", 1, "float32[3,2,4] float32[3,2,4]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:HuberLoss", 1, "float32[3,2,4] float32[3,2,4]", "delta=0.7", 1, 0, 0, 0, 0, 0},
        {"memplan:HuberLoss", 1, "float32[3,2,4] float32[3,2,4]", "delta=0.7 smooth=1", 1, 0, 0, 0, 0, 0},
        {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[3,2,4] float32[3,2,4]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[3,2,4] float32[3,2,4] float32[4]={1,3,0.5,2}", "", 1, 0, 0, 3, 0,
         0},
        {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[5] float32[5] float32[1]={3}", "", 1, 0, 0, 3, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* Fully masked rows give zeros in both directions, for any output gradient. The row between them equals Softmax's. */
TEST(a_closed_row_has_no_gradient)
{
    static const char *const inputs[] = {"float32[3,2]={-inf,-inf,0.5,-1,-inf,-inf}", "float32[1,2]={0.5,-1}"};
    const kernel_case safe = {"memplan:SafeSoftmax", 1, inputs[0], "axis=-1", 1, 0, 0, 1, 0, 0},
                      plain = {"Softmax", 13, inputs[1], "", 1, 0, 0, 1, 0, 0};
    kernel_run *r = kernel_begin(&safe, MP_MODE_TRAIN, KERNEL_BACKWARD),
               *s = kernel_begin(&plain, MP_MODE_TRAIN, KERNEL_BACKWARD);
    for (int k = 0; k < 6; k++) kernel_set(&r->backward.d_out[0], k, k - 2.5);
    for (int k = 0; k < 2; k++) kernel_set(&s->backward.d_out[0], k, k - 0.5);
    kernel_forward(r);
    kernel_backward(r);
    kernel_forward(s);
    kernel_backward(s);
    for (int k = 0; k < 6; k++)
        assert_true(kernel_get(&r->backward.d_in[0], k) == (k / 2 == 1 ? kernel_get(&s->backward.d_in[0], k - 2) : 0));
    assert_true(kernel_get(&s->backward.d_in[0], 0) != 0);
    kernel_end(r);
    kernel_end(s);
}

/* If the host does not wait for the device, the loss becomes NaN instead. */
TEST(a_target_that_is_no_class_is_refused)
{
    const kernel_case c = {"SoftmaxCrossEntropyLoss", 13, "float32[2,3] int64[2]={2,3}", "", 1, 0, 0, 1, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
    mp_error err = {0};
    if (backend_of_tests() == &mp_cpu) {
        assert_int_equal(mp_call_run(&mp_cpu, &r->forward_call, &r->forward, &err), MP_INVALID);
        assert_non_null(strstr(err.message, "target 3 is not one of 3 classes"));
    } else {
        kernel_forward(r);
        assert_true(isnan(kernel_get(&r->forward.out[0], 0)));
    }
    kernel_end(r);
}

/* The gradient is in place of the scores: lines in several blocks, and a single line. */
TEST(nothing_changes_in_place)
{
    static const char *const inputs[] = {"float32[70,130] int64[70]", "float32[3,9000] int64[3]", "float32[1,700] int64[1]",
                                         "float32[2,30,5,7] int64[2,5,7]"};
    for (size_t c = 0; c < sizeof inputs / sizeof *inputs; c++) {
        const kernel_case loss = {"SoftmaxCrossEntropyLoss", 13, inputs[c], "", 1, -2, 2, 1, 0, 0};
        kernel_run *a = kernel_begin(&loss, MP_MODE_TRAIN, KERNEL_BACKWARD),
                   *b = kernel_begin(&loss, MP_MODE_TRAIN, KERNEL_BACKWARD);
        void *d = b->backward.d_in[0].data;
        kernel_forward(a);
        kernel_forward(b);
        kernel_backward(a);
        b->backward.d_in[0].data = b->backward.in[0].data;
        kernel_backward(b);
        assert_memory_equal(a->backward.d_in[0].data, b->backward.in[0].data, (size_t)mp_array_bytes(&a->backward.in[0]));
        b->backward.d_in[0].data = d;
        kernel_end(a);
        kernel_end(b);
    }
}

/* Compares log(sum(e^x)) of every line in double, where e^x itself overflows, and where the first scores are -infinity. */
TEST(forward_leaves_the_logarithm_of_the_sum_of_exponentials)
{
    enum { LINES = 3, CLASSES = 9000 };
    const kernel_case c = {"SoftmaxCrossEntropyLoss", 13, "float32[3,9000] int64[3]={8999,5000,4200}", "", 2, -5, 5, 1, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    const mp_array *x = &r->forward.in[0];
    const double offset[LINES] = {0, 2000, -3000};
    double loss = 0;
    for (int64_t k = 0; k < LINES * CLASSES; k++) {
        double at = kernel_get(x, k) + offset[k / CLASSES] + (k % CLASSES == 7000 ? 8 : 0);
        kernel_set(x, k, k % CLASSES < 4100 && k / CLASSES ? -INFINITY : at);
    }
    kernel_forward(r);
    assert_int_equal(r->forward.extra[0].dims[0], LINES);
    for (int64_t line = 0; line < LINES; line++) {
        const int64_t target = (int64_t)kernel_get(&r->forward.in[1], line);
        double sum = 0;
        for (int64_t k = 0; k < CLASSES; k++) sum += exp(kernel_get(x, line * CLASSES + k) - offset[line]);
        const double lse = offset[line] + log(sum), tolerance = 1e-6 * fabs(lse) + 1e-5;
        assert_true(fabs(kernel_get(&r->forward.extra[0], line) - lse) < tolerance);
        for (int64_t k = 5000; k < CLASSES; k++)
            assert_true(fabs(kernel_get(&r->forward.out[1], line * CLASSES + k) - (kernel_get(x, line * CLASSES + k) - lse)) <
                        tolerance);
        loss += lse - kernel_get(x, line * CLASSES + target);
    }
    assert_true(fabs(kernel_get(&r->forward.out[0], 0) - loss / LINES) < 1e-3);
    kernel_end(r);
}

TEST(a_position_without_weight_has_no_gradient)
{
    const kernel_case c = {
        "SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={1,1,1,1}", "ignore_index=1", 1, -2, 2, 1, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    kernel_forward(r);
    kernel_backward(r);
    for (int64_t k = 0; k < 12; k++) assert_true(kernel_get(&r->backward.d_in[0], k) == 0);
    kernel_end(r);
}
