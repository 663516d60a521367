/* test_normalizations.c - normalizations: gradients compared with finite differences in both layouts, statistics, running
 * statistics, evaluation. */
#include "executor/cpu/base/families.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

/* Returns whether the backend fuses batch normalization with the next operators. The CPU does not. */
static bool fuses(void)
{
    return strcmp(backend_of_tests()->name, "cpu") != 0;
}

TEST(gradients_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"BatchNormalization", 15, "float32[3,4,2,5] float32[4] float32[4] float32[4] float32[4]", "training_mode=1", 1, 0, 0,
         7, 0, 0},
        {"BatchNormalization", 15, "float32[6,4] float32[4] float32[4] float32[4] float32[4]", "training_mode=1", 1, 0, 0, 7, 0,
         0},
        {"BatchNormalization", 9, "float32[3,4,7] float32[4] float32[4] float32[4] float32[4]", "", 1, 0, 0, 7, 0, 0},
        {"LayerNormalization", 17, "float32[3,2,6] float32[6] float32[6]", "", 1, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[3,2,6] float32[2,6]", "axis=1", 1, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[2,3,2,4] float32[3,2,4] float32[3,2,4]", "axis=1", 1, 0, 0, 0, 0, 0},
        {"memplan:LayerNormalization", 1, "float32[3,2,6]", "axis=-1", 1, 0, 0, 0, 0, 0},
        {"RMSNormalization", 23, "float32[3,2,6] float32[6]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:RMSNormalization", 1, "float32[3,2,6]", "axis=-1", 1, 0, 0, 0, 0, 0},
        {"SimplifiedLayerNormalization", 1, "float32[3,2,6] float32[6]", "axis=-1", 1, 0, 0, 0, 0, 0},
        {"com.microsoft:SimplifiedLayerNormalization", 1, "float32[3,2,6] float32[6]", "axis=-1", 1, 0, 0, 0, 0, 0},
        {"GroupNormalization", 21, "float32[2,6,2,3] float32[6] float32[6]", "num_groups=3", 1, 0, 0, 0, 0, 0},
        {"GroupNormalization", 18, "float32[2,6,2,3] float32[3] float32[3]", "num_groups=3", 1, 0, 0, 0, 0, 0},
        {"InstanceNormalization", 6, "float32[2,3,4,2] float32[3] float32[3]", "", 1, 0, 0, 0, 0, 0},
        {"MeanVarianceNormalization", 13, "float32[2,3,2,4]", "", 1, 0, 0, 0, 0, 0},
        {"LpNormalization", 1, "float32[2,3,4]", "axis=1", 1, 0, 0, 0, 0, 0},
        {"LpNormalization", 1, "float32[2,3,4]", "p=1", 1, 0.2, 1, 0, 0, 0},
        {"LRN", 13, "float32[2,7,2,3]", "size=3 alpha=0.5", 1, 0, 0, 0, 0, 0},
        {"LRN", 13, "float32[1,5,2,1]", "size=4 alpha=2.0 beta=0.6 bias=2.0", 1, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

TEST(gradients_of_what_is_taken_in_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"memplan:BatchNormalizationRelu", 1, "float32[3,4,2,5] float32[4] float32[4] float32[4] float32[4]", "training_mode=1",
         1, 0, 0, 7, 1e-3, 5e-2},
        {"memplan:BatchNormalizationAddRelu", 1,
         "float32[4,4,2,3] float32[4] float32[4] float32[4] float32[4] float32[4,4,2,3]", "training_mode=1", 1, 0, 0, 39, 1e-3,
         5e-2},
    };
    if (!fuses()) skip();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* 5 channels of 3 * 700 elements, more than a stretch and with a remainder, compared with two passes in double. */
TEST(batch_statistics_are_accurate)
{
    enum { N = 3, C = 5, L = 700 };
    const kernel_case c = {"BatchNormalization",
                           15,
                           "float32[3,5,700] float32[5] float32[5] float32[5] float32[5]",
                           "training_mode=1 momentum=0.75 epsilon=0.001",
                           1,
                           99,
                           101,
                           7,
                           0,
                           0};
    for (unsigned flags = 0; flags < 2; flags++) {
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | (flags ? KERNEL_CHANNELS_LAST : 0));
        double old[2][C];
        for (int k = 0; k < C; k++)
            for (int w = 0; w < 2; w++) old[w][k] = kernel_get(&r->forward.in[3 + w], k);
        kernel_forward(r);
        r->run.first_run = false;
        kernel_forward(r); /* a recomputation does not update running statistics */
        for (int k = 0; k < C; k++) {
            double mean = 0, variance = 0;
            for (int n = 0; n < N; n++)
                for (int l = 0; l < L; l++) mean += kernel_get(&r->forward.in[0], (n * C + k) * L + l) / (N * L);
            for (int n = 0; n < N; n++)
                for (int l = 0; l < L; l++)
                    variance += pow(kernel_get(&r->forward.in[0], (n * C + k) * L + l) - mean, 2) / (N * L);
            double x = kernel_get(&r->forward.in[0], k * L), scale = kernel_get(&r->forward.in[1], k);
            double y = (x - mean) / sqrt(variance + 0.001) * scale + kernel_get(&r->forward.in[2], k);
            assert_true(fabs(kernel_get(&r->forward.extra[0], k) - mean) < 1e-5);
            assert_true(fabs(kernel_get(&r->forward.extra[1], k) * sqrt(variance + 0.001) - 1) < 1e-5);
            assert_true(fabs(kernel_get(&r->forward.out[0], k * L) - y) < 2e-3 * scale);
            assert_true(fabs(kernel_get(&r->forward.in[3], k) - (0.75 * old[0][k] + 0.25 * mean)) < 1e-4);
            assert_true(fabs(kernel_get(&r->forward.in[4], k) - (0.75 * old[1][k] + 0.25 * variance)) < 1e-4);
        }
        kernel_end(r);
    }
}

TEST(evaluation_takes_the_running_statistics)
{
    const kernel_case c = {"BatchNormalization",
                           15,
                           "float32[1,2,1,2]={1,2,3,4} float32[2]={2,3} float32[2]={1,0} float32[2]={1,2} float32[2]={4,1}",
                           "training_mode=1 epsilon=0.0",
                           1,
                           0,
                           0,
                           0,
                           0,
                           0};
    kernel_check_values(&c, MP_MODE_EVALUATE, 0, (double[]){1, 2, 3, 6}, 4, 1e-6);
    /* without the mask of positive elements */
    const kernel_case added = {"memplan:BatchNormalizationAddRelu",
                               1,
                               "float32[1,2,1,2]={1,2,3,4} float32[2]={2,3} float32[2]={1,0} float32[2]={1,2} float32[2]={4,1} "
                               "float32[1,2,1,2]={-2,1,-5,0.5}",
                               "epsilon=0.0",
                               1,
                               0,
                               0,
                               0,
                               0,
                               0};
    if (fuses()) kernel_check_values(&added, MP_MODE_EVALUATE, 0, (double[]){0, 3, 0, 6.5}, 4, 1e-6);
    const kernel_case learns = {"BatchNormalization",
                                15,
                                "float32[1,1,1,2]={1,3} float32[1]={2} float32[1]={1} float32[1]={1} float32[1]={4}",
                                "training_mode=1 epsilon=0.0 momentum=0.5",
                                3,
                                0,
                                0,
                                0,
                                0,
                                0};
    kernel_check_values(&learns, MP_MODE_AS_WRITTEN, 0, (double[]){-1, 3}, 2, 1e-6);
    kernel_check_values(&learns, MP_MODE_AS_WRITTEN, 1, (double[]){1.5}, 1, 1e-6);
    kernel_check_values(&learns, MP_MODE_AS_WRITTEN, 2, (double[]){2.5}, 1, 1e-6);
}

TEST(other_types_beside_the_data_are_refused)
{
    const char *const kinds[] = {"BatchNormalization", "memplan:BatchNormalizationRelu"};
    for (int k = 0; k < (fuses() ? 2 : 1); k++) {
        const kernel_case c = {kinds[k], 1, "float32[2,3,4] float16[3] float16[3] float32[3] float32[3]", "", 1, 0, 0, 0, 0, 0};
        kernel_check_refused(&c, "operands of these types");
    }
}

/* Backward from the output gives the same gradients as backward from the input. */
TEST(backward_may_start_from_the_output)
{
    const kernel_case cases[] = {
        {"BatchNormalization", 15, "float32[3,4,2,5] float32[4] float32[4] float32[4] float32[4]", "training_mode=1", 1, 0.5, 2,
         7, 0, 0},
        {"LayerNormalization", 17, "float32[3,2,6] float32[6] float32[6]", "", 1, 0.5, 2, 0, 0, 0},
    };
    for (size_t k = 0; k < 2; k++)
        for (unsigned flags = 0; flags < 2; flags++) {
            kernel_run *r = kernel_begin(&cases[k], MP_MODE_TRAIN, KERNEL_BACKWARD | (flags ? KERNEL_CHANNELS_LAST : 0));
            kernel_forward(r);
            kernel_backward(r);
            int64_t n = mp_array_elements(&r->backward.d_in[0]);
            double *dx = malloc((size_t)n * sizeof *dx), d_scale = kernel_get(&r->backward.d_in[1], 1);
            for (int64_t e = 0; e < n; e++) dx[e] = kernel_get(&r->backward.d_in[0], e);
            r->backward.alternative = 1;
            void *x = r->backward.in[0].data;
            r->backward.in[0].data = NULL;
            r->backward.in[2].data = r->forward.in[2].data;
            r->backward.out[0].data = r->forward.out[0].data;
            kernel_backward(r);
            r->backward.in[0].data = x;
            for (int64_t e = 0; e < n; e++) assert_true(fabs(kernel_get(&r->backward.d_in[0], e) - dx[e]) < 1e-4);
            assert_true(fabs(kernel_get(&r->backward.d_in[1], 1) - d_scale) < 1e-4);
            free(dx);
            kernel_end(r);
        }
}

TEST(a_gradient_may_lie_where_that_of_the_output_does)
{
    const kernel_case cases[] = {
        {"BatchNormalization", 15, "float32[3,4,20,5] float32[4] float32[4] float32[4] float32[4]", "training_mode=1", 1, 0, 0,
         7, 0, 0},
        {"LayerNormalization", 17, "float32[30,2,60] float32[60] float32[60]", "", 1, 0, 0, 0, 0, 0},
        {"GroupNormalization", 21, "float32[2,6,20,3] float32[6] float32[6]", "num_groups=3", 1, 0, 0, 0, 0, 0},
        {"LpNormalization", 1, "float32[2,30,4]", "axis=1", 1, 0, 0, 0, 0, 0},
        {"LRN", 13, "float32[2,7,4,3]", "size=3", 1, 0, 0, 0, 0, 0},
        {"memplan:BatchNormalizationAddRelu", 1,
         "float32[3,8,20,5] float32[8] float32[8] float32[8] float32[8] float32[3,8,20,5]", "training_mode=1", 1, 0, 0, 39, 0,
         0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases - !fuses(); k++)
        for (unsigned flags = 0; flags < 2; flags++) {
            unsigned all = KERNEL_BACKWARD | (flags ? KERNEL_CHANNELS_LAST : 0);
            kernel_run *a = kernel_begin(&cases[k], MP_MODE_TRAIN, all), *b = kernel_begin(&cases[k], MP_MODE_TRAIN, all);
            kernel_forward(a);
            kernel_forward(b);
            kernel_backward(a);
            mp_array d = b->backward.d_in[0];
            b->backward.d_in[0].data = b->backward.d_out[0].data;
            kernel_backward(b);
            assert_memory_equal(a->backward.d_in[0].data, b->backward.d_in[0].data, (size_t)mp_array_bytes(&d));
            b->backward.d_in[0] = d;
            kernel_end(a);
            kernel_end(b);
        }
}

/* Both gradients of activations may be in place of operands: of the output's gradient and of the input, in either order. */
TEST(gradients_may_lie_where_data_does)
{
    static const char *const inputs[] = {"float32[3,8,20,5] float32[8] float32[8] float32[8] float32[8] float32[3,8,20,5]",
                                         "float32[3,5,20,5] float32[5] float32[5] float32[5] float32[5] float32[3,5,20,5]"};
    if (!fuses()) skip();
    for (int k = 0; k < 8; k++) {
        const kernel_case c = {"memplan:BatchNormalizationAddRelu", 1, inputs[k % 2], "training_mode=1", 1, 0, 0, 39, 0, 0};
        unsigned all = KERNEL_BACKWARD | (k & 2 ? KERNEL_CHANNELS_LAST : 0);
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, all), *b = kernel_begin(&c, MP_MODE_TRAIN, all);
        void *places[] = {b->backward.d_out[0].data, b->backward.in[0].data};
        const int first = k / 4, second = 1 - first;
        kernel_forward(a);
        kernel_forward(b);
        kernel_backward(a);
        mp_array d[] = {b->backward.d_in[0], b->backward.d_in[5]};
        b->backward.d_in[0].data = places[first];
        b->backward.d_in[5].data = places[second];
        kernel_backward(b);
        assert_memory_equal(a->backward.d_in[0].data, places[first], (size_t)mp_array_bytes(&d[0]));
        assert_memory_equal(a->backward.d_in[5].data, places[second], (size_t)mp_array_bytes(&d[1]));
        b->backward.d_in[0] = d[0];
        b->backward.d_in[5] = d[1];
        kernel_end(a);
        kernel_end(b);
    }
}

TEST(response_normalization_is_that_of_the_paper)
{
    const kernel_case value = {"LRN", 13, "float32[1,3,1,1]={1,2,3}", "size=3 alpha=3.0 beta=1.0 bias=1.0", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&value, MP_MODE_TRAIN, 0, (double[]){1.0 / 6, 2.0 / 15, 3.0 / 14}, 3, 1e-6);
}
