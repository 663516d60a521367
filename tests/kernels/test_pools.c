/* test_pools.c - pooling: values by hand, gradients compared with finite differences. */
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

TEST(values_are_those_computed_by_hand)
{
    const char *x = "float32[1,1,3,3]={1,5,3,4,2,6,9,8,7}";
    kernel_case c = {"MaxPool", 12, x, "kernel_shape=[2,2]", 2, 0, 0, 0, 0, 0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){5, 6, 9, 8}, 4, 0);
    kernel_check_values(&c, MP_MODE_TRAIN, 1, (double[]){1, 5, 6, 7}, 4, 0);
    c.attributes = "kernel_shape=[2,2] storage_order=1";
    kernel_check_values(&c, MP_MODE_TRAIN, 1, (double[]){3, 7, 2, 5}, 4, 0);
    kernel_case a = {"AveragePool", 19, x, "kernel_shape=[2,2] pads=[1,1,0,0] strides=[2,2] ceil_mode=1", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&a, MP_MODE_TRAIN, 0, (double[]){1, 4, 6.5, 5.75}, 4, 1e-6);
    a.attributes = "kernel_shape=[2,2] pads=[1,1,0,0] strides=[2,2] ceil_mode=1 count_include_pad=1";
    kernel_check_values(&a, MP_MODE_TRAIN, 0, (double[]){0.25, 2, 3.25, 5.75}, 4, 1e-6);
    kernel_case g = {"GlobalAveragePool", 1, x, "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&g, MP_MODE_TRAIN, 0, (double[]){5}, 1, 1e-6);
    kernel_case m = {"GlobalMaxPool", 1, x, "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&m, MP_MODE_TRAIN, 0, (double[]){9}, 1, 0);
    kernel_case l = {"GlobalLpPool", 2, "float32[1,1,1,2]={3,-4}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&l, MP_MODE_TRAIN, 0, (double[]){5}, 1, 1e-6);
    /* the last window extends beyond the pads and does not count that part; NaN is the maximum (both as in PyTorch) */
    kernel_case e = {"AveragePool", 19, "float32[1,1,4]={1,2,3,4}", "", 1, 0, 0, 0, 0, 0};
    e.attributes = "kernel_shape=[3] strides=[2] pads=[1,1] ceil_mode=1 count_include_pad=1";
    kernel_check_values(&e, MP_MODE_TRAIN, 0, (double[]){1, 3, 2}, 3, 1e-6);
    kernel_case nan = {"MaxPool", 12, "float32[1,1,4]={1,nan,3,4}", "kernel_shape=[2]", 2, 0, 0, 0, 0, 0};
    kernel_check_values(&nan, MP_MODE_TRAIN, 1, (double[]){1, 1, 3}, 3, 0);
}

TEST(gradients_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"MaxPool", 12, "float32[2,3,5,6]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", 1, 0, 0, 0, 1e-4, 5e-2},
        {"MaxPool", 12, "float32[1,2,7,7]", "kernel_shape=[2,2] dilations=[2,2] ceil_mode=1 strides=[2,2]", 1, 0, 0, 0, 1e-4,
         5e-2},
        {"MaxPool", 12, "float32[1,2,18,18]", "kernel_shape=[17,17]", 1, 0, 0, 0, 1e-4, 5e-2},
        {"MaxPool", 12, "float32[1,70,4]", "kernel_shape=[2] auto_pad=SAME_UPPER", 1, 0, 0, 0, 1e-4, 5e-2},
        {"MaxPool", 12, "float32[1,2,3,3,3]", "kernel_shape=[2,2,2]", 1, 0, 0, 0, 1e-4, 5e-2},
        {"AveragePool", 19, "float32[2,3,5,6]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", 1, 0, 0, 0, 0, 0},
        {"AveragePool", 19, "float32[2,3,5,6]",
         "kernel_shape=[3,2] pads=[1,0,1,1] count_include_pad=1 ceil_mode=1 strides=[2,2]", 1, 0, 0, 0, 0, 0},
        {"AveragePool", 11, "float32[1,2,4]", "kernel_shape=[2] auto_pad=SAME_LOWER", 1, 0, 0, 0, 0, 0},
        {"LpPool", 18, "float32[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]", 1, 0.3, 1, 0, 1e-3, 0},
        {"LpPool", 18, "float32[1,2,4,4]", "kernel_shape=[3,3] p=3", 1, 0.3, 1, 0, 1e-3, 0},
        {"GlobalAveragePool", 1, "float32[2,3,3,4]", "", 1, 0, 0, 0, 0, 0},
        {"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,2]={5,7,13,15}", "kernel_shape=[2,2] strides=[2,2]", 1, 0, 0, 1, 0, 0},
        {"GlobalMaxPool", 1, "float32[2,3,3,4]", "", 1, 0, 0, 0, 1e-4, 5e-2},
        {"GlobalLpPool", 2, "float32[2,3,3,4]", "", 1, 0.3, 1, 0, 1e-3, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}
