/* test_samplings.c - Resize, GridSample and regions of interest on the CPU, compared with values of PyTorch and finite
 * differences. test_conformance_run runs ONNX's own vectors. */
#include "tests/cases/test.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#include "tests/cases/kernel_case.h"

typedef struct expectation {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    int n;
    double values[48];
} expectation;

/* values of torch.nn.functional.interpolate and grid_sample */
static const expectation expectations[] = {
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,6,8}",
     "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor",
     48,
     {3,  3,  -1, -1, 4, 4, 1,  1,  3, 3, -1, -1, 4,  4,  1, 1, -5, -5, 9, 9, 2,  2,  -6, -6,
      -5, -5, 9,  9,  2, 2, -6, -6, 5, 5, 3,  3,  -5, -5, 8, 8, 5,  5,  3, 3, -5, -5, 8,  8}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,5,3}",
     "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor",
     15,
     {3, -1, 4, 3, -1, 4, -5, 9, 2, -5, 9, 2, 5, 3, -5}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,5,7}",
     "mode=linear coordinate_transformation_mode=pytorch_half_pixel",
     35,
     {3,          1.57143,  -0.714286, 1.5,         3.78571, 2.07143, 1,       -0.2,     0.942857, 2.77143, 3.1,     2.84286,
      -0.0142869, -1.8,     -5,        7.15256e-07, 8,       5.5,     1.42857, -3.14286, -6,       1,       2.57143, 5.08571,
      1.6,        -1.87143, 0.757144,  2.4,         5,       4.28571, 3.14286, -1,       -4.07143, 3.35715, 8}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - float32[4]={1,1,2.0,1.5} -",
     "mode=linear",
     36,
     {3,   1,    -0.166666, 3.16667,  2.5,    1,     1,    1.25, 1.83333, 3.16667,  1.375,  -0.75,
      -3,  1.75, 5.83333,   3.16667,  -0.875, -4.25, -2.5, 2.5,  6.29167, 1.45833,  -1.125, -2.5,
      2.5, 3.5,  3.20833,   -1.95833, 0.625,  4.5,   5,    4,    1.66667, -3.66667, 1.5,    8}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,2,3}",
     "mode=linear coordinate_transformation_mode=align_corners",
     6,
     {3, 1.5, 1, 5, -1, 8}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,4,5}",
     "mode=cubic coordinate_transformation_mode=half_pixel cubic_coeff_a=-0.75",
     20,
     {3.89571,  -0.887519, 0.964371, 4.0529,   1.34199,  -3.77906, 3.75181, 6.43929,  0.833857, -5.53233,
      -2.89577, 6.04423,   4.64659,  -1.97297, -1.78377, 5.90904,  4.33766, -3.12178, -2.34481, 9.8862}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,5,4}",
     "mode=cubic coordinate_transformation_mode=align_corners",
     20,
     {3, -1, 4, 1, -1.9375, 4.5625, 3.65625, -3.8125, -5, 9, 2, -6, -0.75, 6.9375, -1.6875, 0.34375, 5, 3, -5, 8}},
    {"Resize",
     18,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} - - int64[4]={1,1,2,2}",
     "mode=linear antialias=1 exclude_outside=1",
     4,
     {1.64286, 1.08929, 2.44643, 0.910714}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=linear padding_mode=zeros align_corners=0",
     6,
     {0.195, 0.465, -1.08, 0, 0.170001, 0}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=linear padding_mode=zeros align_corners=1",
     6,
     {1.54, 1.655, -2.75, 2.08, 2.135, 0}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=linear padding_mode=border align_corners=0",
     6,
     {3, 0.465, -1.8, 8, 3.4, 1.9}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=linear padding_mode=border align_corners=1",
     6,
     {2.2, 1.655, -2.75, 5.2, 3.05, 2.8}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=linear padding_mode=reflection align_corners=0",
     6,
     {3, 0.465, -1.8, 4.1, 3.4, -0.135001}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=linear padding_mode=reflection align_corners=1",
     6,
     {1.54, 1.655, -2.75, -0.0800014, 4.73, -0.78}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=nearest padding_mode=zeros align_corners=0",
     6,
     {0, 2, 1, 0, 0, 0}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=nearest padding_mode=zeros align_corners=1",
     6,
     {3, 2, -6, 0, 3, 0}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=nearest padding_mode=border align_corners=0",
     6,
     {3, 2, 1, 8, 3, 1}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=nearest padding_mode=border align_corners=1",
     6,
     {3, 2, -6, 8, 3, 4}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=nearest padding_mode=reflection align_corners=0",
     6,
     {3, 2, 1, 8, 3, -6}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=nearest padding_mode=reflection align_corners=1",
     6,
     {3, 2, -6, -5, 3, 2}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=cubic padding_mode=zeros align_corners=0",
     6,
     {0.268337, -0.112981, -2.3328, -0.874944, 0.161611, 0}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=cubic padding_mode=zeros align_corners=1",
     6,
     {2.06591, 1.82425, -4.44384, 3.13187, 1.67002, -0.380141}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=cubic padding_mode=border align_corners=0",
     6,
     {3.92772, -0.0180826, -3.42082, 9.344, 4.1145, 2.07325}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=cubic padding_mode=border align_corners=1",
     6,
     {2.54286, 1.85887, -4.3029, 6.02925, 2.55538, 3.376}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=cubic padding_mode=reflection align_corners=0",
     6,
     {4.84231, -0.0180826, -3.88536, 4.96625, 4.00999, -1.13677}},
    {"GridSample",
     20,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,2,3,2]={-1.2,-0.9,0.3,0.1,0.95,-0.4,1.4,0.8,-0.35,1.3,0.6,-2.3}",
     "mode=cubic padding_mode=reflection align_corners=1",
     6,
     {1.94575, 1.8069, -4.20071, -0.222468, 4.6042, -2.22037}},
    /* Upsample repeats elements; each version has its own attributes */
    {"Upsample", 1, "float32[1,1,1,2]={1,2}", "height_scale=2.0 width_scale=2.0", 8, {1, 1, 2, 2, 1, 1, 2, 2}},
    {"Upsample", 7, "float32[1,1,1,2]={1,2}", "scales=[1.0,1.0,2.0,1.0]", 4, {1, 2, 1, 2}},
    {"Upsample", 9, "float32[1,1,1,2]={1,2} float32[4]={1,1,2,1}", "", 4, {1, 2, 1, 2}},
    {"Resize", 10, "float32[1,1,1,2]={1,2} float32[4]={1,1,1,2}", "mode=nearest", 4, {1, 1, 2, 2}},
    /* exactly between two elements: at 0.5 and 2.5 */
    {"Resize", 13, "float32[1,1,4]={1,2,3,4} - - int64[3]={1,1,2}", "mode=nearest", 2, {1, 3}},
    {"Resize", 13, "float32[1,1,4]={1,2,3,4} - - int64[3]={1,1,2}", "mode=nearest nearest_mode=round_prefer_ceil", 2, {2, 4}},
    /* resized to one element: the first one */
    {"Resize",
     13,
     "float32[1,1,4]={1,2,3,4} - - int64[3]={1,1,1}",
     "mode=linear coordinate_transformation_mode=align_corners",
     1,
     {1}},
    /* before operator set 16 a small region is widened to 1: its point is at (1.5, 1.5), then at (1.05, 1.1) - 0.5 */
    {"RoiAlign",
     10,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,4]={1,1,1.2,1.1} int64[1]={0}",
     "sampling_ratio=1",
     1,
     {2.25}},
    {"RoiAlign",
     16,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[1,4]={1,1,1.2,1.1} int64[1]={0}",
     "sampling_ratio=1",
     1,
     {0.45 * (0.4 * 3 - 0.6) + 0.55 * (0.4 * -5 + 0.6 * 9)}},
    /* the rounded bins of a region, including its edges */
    {"MaxRoiPool",
     1,
     "float32[1,1,3,4]={3,-1,4,1,-5,9,2,-6,5,3,-5,8} float32[2,5]={0,0,0,3,2,0,1,1,2,1}",
     "pooled_shape=[1,2]",
     4,
     {9, 8, 9, 2}},
};

TEST(values_are_those_of_pytorch)
{
    for (size_t k = 0; k < sizeof expectations / sizeof *expectations; k++) {
        const expectation *e = &expectations[k];
        for (unsigned flags = 0; flags < 2; flags++) {
            kernel_case c = {e->kind, e->version, e->inputs, e->attributes, 1, 0, 0, 0, 0, 0};
            kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, flags ? KERNEL_CHANNELS_LAST : 0);
            kernel_forward(r);
            assert_int_equal(mp_array_elements(&r->forward.out[0]), e->n);
            for (int i = 0; i < e->n; i++)
                if (!(fabs(kernel_get(&r->forward.out[0], i) - e->values[i]) <= 2e-5))
                    fail_msg("%s(%s)(%s): element %d is %g, not %g", e->kind, e->inputs, e->attributes, i,
                             kernel_get(&r->forward.out[0], i), e->values[i]);
            kernel_end(r);
        }
    }
}

TEST(layouts_agree_in_any_number_of_dimensions)
{
    static const char *const inputs[][2] = {{"float32[2,3,7] - - int64[3]={2,3,12}", "mode=linear"},
                                            {"float32[2,5,4,6] - - int64[4]={2,5,9,5}", "mode=linear"},
                                            {"float32[2,5,4,6] - - int64[4]={2,5,9,11}", "mode=cubic"},
                                            {"float32[1,2,3,4,3] - - int64[5]={1,2,5,6,7}", "mode=linear"},
                                            {"float32[2,3,4,5] - - int64[4]={3,5,4,5}", "mode=linear"},
                                            {"float32[2,2,2,9000] - - int64[4]={2,2,3,4700}", "mode=linear"},
                                            {"float32[2,2,2,4700] - - int64[4]={2,2,3,9000}", "mode=cubic"}};
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) {
        kernel_case c = {"Resize", 19, inputs[k][0], inputs[k][1], 1, 0, 0, 0, 0, 0};
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, 0), *b = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_CHANNELS_LAST);
        kernel_forward(a);
        kernel_forward(b);
        for (int64_t i = 0; i < mp_array_elements(&a->forward.out[0]); i++)
            if (!(fabs(kernel_get(&a->forward.out[0], i) - kernel_get(&b->forward.out[0], i)) <= 2e-6))
                fail_msg("%s: element %d is %g and %g", inputs[k][0], (int)i, kernel_get(&a->forward.out[0], i),
                         kernel_get(&b->forward.out[0], i));
        kernel_end(a);
        kernel_end(b);
    }
}

/* A constant stays constant under every resizing. */
TEST(weights_add_up_to_one)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const more[] = {"", " antialias=1", " exclude_outside=1",
                                       " coordinate_transformation_mode=align_corners",
                                       " coordinate_transformation_mode=half_pixel_symmetric"};
    static const char *const sizes[] = {"float32[1,1,5,5] - - int64[4]={1,1,2,13}",
                                        "float32[1,1,5,5] - float32[4]={1,1,0.7,2.6} -"};
    for (int m = 0; m < 3; m++)
        for (int k = 0; k < 5; k++)
            for (int s = 0; s < 2; s++) {
                char attributes[128];
                snprintf(attributes, sizeof attributes, "mode=%s%s", modes[m], more[k]);
                kernel_case c = {"Resize", 19, sizes[s], attributes, 1, 2, 2.0000001, 0, 0, 0};
                kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
                kernel_forward(r);
                for (int64_t i = 0; i < mp_array_elements(&r->forward.out[0]); i++)
                    assert_true(fabs(kernel_get(&r->forward.out[0], i) - 2) < 1e-5);
                kernel_end(r);
            }
}

TEST(gradients_of_resize_are_those_of_differences)
{
    static const char *const sizes[] = {"float32[1,2,3,4] - - int64[4]={1,2,6,8}", "float32[1,2,5,6] - - int64[4]={1,2,2,4}",
                                        "float32[2,3,1,1] - - int64[4]={2,3,3,4}",
                                        "float32[1,2,4,5] - float32[4]={1,1,1.3,0.6} -", "float32[1,2,3] - - int64[3]={1,2,7}"};
    static const char *const modes[] = {"mode=nearest",
                                        "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor",
                                        "mode=linear",
                                        "mode=linear coordinate_transformation_mode=align_corners",
                                        "mode=linear antialias=1",
                                        "mode=cubic"};
    for (int s = 0; s < 5; s++)
        for (int m = 0; m < 6; m++) {
            kernel_case c = {"Resize", 19, sizes[s], modes[m], 1, 0, 0, 1, 0, 0};
            kernel_check_gradient(&c);
        }
    kernel_case old = {"Upsample", 9, "float32[1,2,2,3] float32[4]={1,1,2,2}", "", 1, 0, 0, 1, 0, 0};
    kernel_check_gradient(&old);
    kernel_case crop = {"Resize",
                        13,
                        "float32[1,1,4,5] float32[8]={0,0,0.2,-0.3,1,1,0.9,1.2} - int64[4]={1,1,3,7}",
                        "mode=linear coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=10.0",
                        1,
                        0,
                        0,
                        1,
                        0,
                        0};
    kernel_check_gradient(&crop);
}

TEST(gradients_of_grid_sample_are_those_of_differences)
{
    static const char *const grids[] = {
        "float32[1,2,3,4] float32[1,1,3,2]={-0.93,-0.71,0.32,0.11,0.83,-0.44}", /* inside the image */
        "float32[1,2,3,4] float32[1,1,4,2]={-1.12,-0.71,1.15,0.13,0.83,-1.44,1.52,2.63}",
    };
    static const char *const modes[] = {"linear", "nearest", "cubic"}, *const paddings[] = {"zeros", "border", "reflection"};
    for (int g = 0; g < 2; g++)
        for (int m = 0; m < 3; m++)
            for (int p = 0; p < 3; p++)
                for (int corners = 0; corners < 2; corners++) {
                    char attributes[96];
                    snprintf(attributes, sizeof attributes, "mode=%s padding_mode=%s align_corners=%d", modes[m], paddings[p],
                             corners);
                    kernel_case c = {"GridSample", 20, grids[g], attributes, 1, 0, 0, m == 1 ? 1 : 3, 1e-3, 3e-2};
                    if (m == 1) c.step = 1e-2;
                    kernel_check_gradient(&c);
                }
    kernel_case space = {
        "GridSample", 20, "float32[2,2,3,2,4] float32[2,1,2,2,3]", "mode=linear align_corners=1", 1, -.9, .9, 1, 0, 0};
    kernel_check_gradient(&space);
}

/* Every element of the columns is added at the position of its tap, window by window. */
TEST(columns_add_up_to_images)
{
    enum { N = 2, C = 3, HEIGHT = 7, WIDTH = 6 };
    static const struct {
        int kernel[2], stride[2], dilation[2], pads[4], stops[2];
    } windows[] = {
        {{3, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {5, 5}}, {{3, 2}, {2, 3}, {1, 1}, {1, 0, 2, 1}, {4, 2}},
        {{2, 3}, {3, 1}, {4, 2}, {0, 2, 1, 3}, {2, 7}}, {{1, 1}, {2, 4}, {1, 1}, {0, 0, 0, 0}, {4, 2}},
        {{2, 2}, {5, 5}, {1, 1}, {4, 4, 4, 4}, {3, 3}}, /* a window in the padding */
    };
    for (size_t k = 0; k < sizeof windows / sizeof *windows; k++) {
        const int *a = windows[k].kernel, *s = windows[k].stride, *d = windows[k].dilation, *p = windows[k].pads;
        int taps = a[0] * a[1], n = windows[k].stops[0] * windows[k].stops[1];
        char inputs[128], attributes[128];
        double image[N][C][HEIGHT][WIDTH] = {{{{0}}}};
        snprintf(inputs, sizeof inputs, "float32[%d,%d,%d] int64[2]={%d,%d} int64[2]={%d,%d}", N, C * taps, n, HEIGHT, WIDTH,
                 a[0], a[1]);
        snprintf(attributes, sizeof attributes, "strides=[%d,%d] dilations=[%d,%d] pads=[%d,%d,%d,%d]", s[0], s[1], d[0], d[1],
                 p[0], p[1], p[2], p[3]);
        kernel_case c = {"Col2Im", 18, inputs, attributes, 1, 0, 0, 0, 0, 0};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
        kernel_forward(r);
        for (int e = 0; e < N * C * taps * n; e++) {
            int stop = e % n, tap = e / n % taps;
            int row = stop / windows[k].stops[1] * s[0] + tap / a[1] * d[0] - p[0];
            int column = stop % windows[k].stops[1] * s[1] + tap % a[1] * d[1] - p[1];
            if (row < 0 || row >= HEIGHT || column < 0 || column >= WIDTH) continue;
            image[e / n / taps / C][e / n / taps % C][row][column] += kernel_get(&r->forward.in[0], e);
        }
        for (int e = 0; e < N * C * HEIGHT * WIDTH; e++)
            if (fabs(kernel_get(&r->forward.out[0], e) - ((double *)image)[e]) > 1e-5)
                fail_msg("window %d: element %d is %g, not %g", (int)k, e, kernel_get(&r->forward.out[0], e),
                         ((double *)image)[e]);
        kernel_end(r);
        kernel_check_gradient(&c);
    }
    kernel_case line = {"Col2Im", 18, "float32[2,6,4] int64[1]={9} int64[1]={3}", "strides=[2]", 1, 0, 0, 0, 0, 0};
    kernel_check_gradient(&line);
    kernel_case space = {"Col2Im", 18, "float32[1,8,6] int64[3]={2,3,4} int64[3]={2,2,2}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_gradient(&space);
}

TEST(gradients_of_regions_are_those_of_differences)
{
    static const char *const inputs =
        "float32[2,3,6,5] float32[3,4]={0.3,0.4,7.9,8.1,2.2,3.1,4.3,9.7,-1.5,0,3,2} int64[3]={1,0,1}";
    static const char *const attributes[] = {"output_height=2 output_width=3 sampling_ratio=2 spatial_scale=0.5",
                                             "output_height=2 output_width=2",
                                             "output_height=2 output_width=2 coordinate_transformation_mode=output_half_pixel"};
    for (int k = 0; k < 3; k++) {
        kernel_case c = {"RoiAlign", 16, inputs, attributes[k], 1, 0, 0, 1, 0, 0};
        kernel_check_gradient(&c);
    }
}

/* Backward of upsampling adds several gradients to one element. */
TEST(gradients_are_the_same_for_any_number_of_threads)
{
#ifdef _OPENMP
    static const kernel_case cases[] = {
        {"Resize", 19, "float32[4,16,24,24] - - int64[4]={4,16,60,60}", "mode=linear", 1, 0, 0, 1, 0, 0},
        {"GridSample", 20, "float32[2,8,24,24] float32[2,40,40,2]", "mode=linear", 1, 0, 0, 3, 0, 0}};
    int threads = omp_get_max_threads();
    for (int k = 0; k < 2; k++) {
        float first[4 * 16 * 24 * 24];
        kernel_run *r = kernel_begin(&cases[k], MP_MODE_TRAIN, KERNEL_BACKWARD);
        for (int t = 1; t < 4; t++) {
            omp_set_num_threads(t);
            kernel_backward(r);
            size_t bytes = (size_t)mp_array_bytes(&r->backward.d_in[0]);
            assert_true(bytes <= sizeof first);
            if (t == 1) memcpy(first, r->backward.d_in[0].data, bytes);
            assert_memory_equal(first, r->backward.d_in[0].data, bytes);
        }
        omp_set_num_threads(threads);
        kernel_end(r);
    }
#endif
}
