/* test_binaries.c - operators with several operands: values by hand, gradients compared with finite differences, for all
 * patterns of broadcasting. */
#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

TEST(gradients_of_every_broadcast_are_those_of_differences)
{
    static const char *const shapes[] = {"float32[2,3,4] float32[2,3,4]",     "float32[2,3,4] float32[4]",
                                         "float32[2,3,4] float32[3,1]",       "float32[3,1] float32[2,3,4]",
                                         "float32[2,3,4] float32[]",          "float32[2,1,4] float32[1,3,1]",
                                         "float32[2,3,2,2] float32[1,3,1,1]", "float32[5] float32[5]"};
    static const char *const kinds[] = {"Add", "Sub", "Mul", "Div", "Sum", "Mean"};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            kernel_case c = {kinds[k], 14, shapes[s], "", 1, 0.5, 2, 0, 1e-3, 1e-2};
            kernel_check_gradient(&c);
        }
}

TEST(other_gradients_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"Pow", 15, "float32[2,3,4] float32[2,3,4]", "", 1, 0.5, 2, 0, 1e-3, 1e-2},
        {"Pow", 15, "float32[2,3,4] float32[]", "", 1, 0.5, 2, 0, 1e-3, 1e-2},
        {"PRelu", 16, "float32[2,3,4,2] float32[3,1,1]", "", 1, -1, 1, 0, 1e-4, 5e-2},
        {"Max", 13, "float32[2,3,4] float32[2,3,4]", "", 1, -1, 1, 0, 1e-4, 5e-2},
        {"Min", 13, "float32[2,3,4] float32[4] float32[3,1]", "", 1, -1, 1, 0, 1e-4, 5e-2},
        {"Sum", 13, "float32[2,3,4] float32[4] float32[3,1] float32[2,3,4]", "", 1, -1, 1, 0, 1e-3, 1e-2},
        {"Where", 16, "bool[2,3,1]={1,0,1,0,0,1} float32[2,3,4] float32[4]", "", 1, -1, 1, 6, 1e-3, 1e-2},
        {"Where", 16, "bool[3,1] float32[2,3,4] float32[]", "", 1, -1, 1, 6, 1e-3, 1e-2},
        {"com.microsoft:FastGelu", 1, "float32[2,3,4] float32[4]", "", 1, -2, 2, 0, 1e-3, 1e-2},
        {"com.microsoft:FastGelu", 1, "float32[2,3,4]", "", 1, -2, 2, 0, 1e-3, 1e-2},
        {"com.microsoft:BiasGelu", 1, "float32[2,3,4] float32[4]", "", 1, -2, 2, 0, 1e-3, 1e-2},
        {"com.microsoft:BiasGelu", 1, "float32[5] float32[5]", "", 1, -2, 2, 0, 1e-3, 1e-2},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* Applies the normal distribution function, or its tanh form, to x + bias. */
TEST(gelu_is_of_the_sum_with_the_bias)
{
    static const char *const kinds[] = {"com.microsoft:BiasGelu", "com.microsoft:FastGelu"};
    const double sums[] = {-2.25, 0.25, 1.5, -0.75, 1.75, 3};
    for (int k = 0; k < 2; k++) {
        kernel_case c = {kinds[k], 1, "float32[2,3]={-2,-0.25,0.5,-0.5,1.25,2} float32[3]={-0.25,0.5,1}", "", 1, 0, 0, 0, 0, 0};
        double expected[6];
        for (int e = 0; e < 6; e++) {
            double z = sums[e];
            expected[e] =
                k == 0 ? z / 2 * (1 + erf(z / sqrt(2))) : z / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z)));
        }
        kernel_check_values(&c, MP_MODE_TRAIN, 0, expected, 6, 1e-6);
    }
}

static void whole(const char *kind, const char *attributes, const char *inputs, const double *expected, int64_t n)
{
    kernel_case c = {kind, 18, inputs, attributes, 1, 0, 0, 0, 0, 0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, expected, n, 0);
}

TEST(whole_numbers_follow_the_rules_of_onnx)
{
    whole("Div", "", "int64[4]={7,-7,7,-7} int64[4]={2,2,-2,-2}", (double[]){3, -3, -3, 3}, 4);
    whole("Mod", "", "int64[4]={7,-7,7,-7} int64[4]={3,3,-3,-3}", (double[]){1, 2, -2, -1}, 4);
    whole("Mod", "fmod=1", "int64[4]={7,-7,7,-7} int64[4]={3,3,-3,-3}", (double[]){1, -1, 1, -1}, 4);
    whole("Pow", "", "int64[4]={2,-3,5,1} int64[4]={10,3,0,9}", (double[]){1024, -27, 1, 1}, 4);
    whole("BitShift", "direction=RIGHT", "uint8[3]={16,4,255} uint8[3]={1,2,3}", (double[]){8, 1, 31}, 3);
    whole("BitShift", "direction=LEFT", "uint8[3]={16,4,1} uint8[3]={1,2,3}", (double[]){32, 16, 8}, 3);
    whole("BitShift", "direction=LEFT", "int64[2]={1,1} int64[2]={-1,64}", (double[]){0, 0}, 2);
    whole("Div", "", "int64[2]={-9223372036854775808,5} int64[2]={-1,-1}", (double[]){-0x1p63, -5}, 2);
    whole("Mod", "", "int64[2]={-9223372036854775808,5} int64[2]={-1,-1}", (double[]){0, 0}, 2);
    whole("Equal", "", "int64[3]={1,2,3} int64[1]={2}", (double[]){0, 1, 0}, 3);
    whole("GreaterOrEqual", "", "int64[3]={1,2,3} int64[]={2}", (double[]){0, 1, 1}, 3);
    whole("Greater", "", "int64[3]={1,2,3} int64[]={2}", (double[]){0, 0, 1}, 3);
    whole("LessOrEqual", "", "int64[3]={1,2,3} int64[]={2}", (double[]){1, 1, 0}, 3);
    whole("Less", "", "int64[3]={1,2,3} int64[]={2}", (double[]){1, 0, 0}, 3);
    whole("Xor", "", "bool[2,2]={1,0,1,0} bool[2]={1,0}", (double[]){0, 0, 0, 0}, 4);
    whole("Where", "", "bool[2]={1,0} int64[2]={5,6} int64[]={7}", (double[]){5, 7}, 2);
    whole("Max", "", "int64[2]={5,6} int64[2]={7,1} int64[2]={6,9}", (double[]){7, 9}, 2);
}

TEST(an_axis_of_an_old_operator_set_is_honoured)
{
    kernel_case c = {"Add", 6, "float32[2,3,2]={0,0,0,0,0,0,0,0,0,0,0,0} float32[3]={1,2,3}", "axis=1 broadcast=1", 1, 0, 0, 0,
                     0,     0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3}, 12, 0);
}

TEST(third_operand_may_lie_where_the_result_goes)
{
    kernel_case c = {"Sum", 13, "float32[2,5000] float32[2,5000] float32[2,5000]", "", 1, 0, 0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, 0), *b = kernel_begin(&c, MP_MODE_TRAIN, 0);
        mp_array out = b->forward.out[0];
        kernel_forward(a);
        b->forward.out[0].data = b->forward.in[k].data;
        kernel_forward(b);
        assert_memory_equal(a->forward.out[0].data, b->forward.out[0].data, 10000 * sizeof(float));
        b->forward.out[0] = out;
        kernel_end(a);
        kernel_end(b);
    }
}

/* Each of a product's two gradients may be in place of dy or of an operand. */
TEST(gradients_may_lie_where_their_terms_do)
{
    static const char *const kinds[] = {"Mul", "Div", "Pow", "Max"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < 2; i++)
            for (int where = 0; where < 4; where++) {
                kernel_case c = {kinds[k], 13, "float32[2,5000] float32[2,5000]", "", 1, 0.5, 2, 0, 0, 0};
                kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
                kernel_run *b = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
                kernel_forward(a);
                kernel_forward(b);
                kernel_backward(a);
                mp_array d = b->backward.d_in[i];
                const mp_array *from = where == 0   ? &b->backward.d_out[0]
                                       : where == 3 ? &b->backward.out[0]
                                                    : &b->backward.in[where - 1];
                if (from->data) {
                    b->backward.d_in[i].data = from->data;
                    kernel_backward(b);
                    for (int j = 0; j < 2; j++)
                        assert_memory_equal(a->backward.d_in[j].data, b->backward.d_in[j].data, 10000 * sizeof(float));
                }
                b->backward.d_in[i] = d;
                kernel_end(a);
                kernel_end(b);
            }
}

/* The first and the third operand are one tensor; its gradient is in place. */
TEST(an_operand_may_be_there_twice)
{
    static const char *const kinds[] = {"Max", "Min", "Sum", "Mean"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        kernel_case c = {kinds[k], 13, "float32[2,1]={1,2} float32[2,3]={1,0,3,2,2,1} float32[2,1]={1,2}", "", 1, 0, 0, 7,
                         0,        0};
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        kernel_run *b = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | KERNEL_ADDS);
        kernel_forward(a);
        kernel_forward(b);
        kernel_backward(a);
        mp_array first = b->backward.d_in[0], third = b->backward.d_in[2];
        const mp_array *own = b->backward.in[0].data ? &b->backward.in[0] : &first;
        b->backward.adds = 4;
        b->backward.d_in[0].data = b->backward.d_in[2].data = own->data;
        kernel_backward(b);
        for (int64_t e = 0; e < 2; e++) {
            const double parts = kernel_get(&a->backward.d_in[0], e) + kernel_get(&a->backward.d_in[2], e);
            if (!(fabs(kernel_get(&b->backward.d_in[0], e) - parts) <= 1e-6 * (1 + fabs(parts))))
                fail_msg("%s: the gradient is %g, and its parts are %g", kinds[k], kernel_get(&b->backward.d_in[0], e), parts);
        }
        b->backward.d_in[0] = first;
        b->backward.d_in[2] = third;
        kernel_end(a);
        kernel_end(b);
    }
}

/* Sums over broadcast dimensions, with sizes that leave remainders in blocks, stretches and lanes. */
TEST(sums_over_broadcast_dimensions_are_exact)
{
    enum { A = 37, B = 131, C = 67 };
    float *x = malloc(A * B * C * sizeof *x), old = 0.5f;
    for (int k = 0; k < A * B * C; k++) x[k] = (float)((int64_t)k * 7919 % 1000) / 8;
    for (int kept = 0; kept < 8; kept++) {
        mp_array from = mp_array_plain(MP_DTYPE_FLOAT, 3, (int64_t[]){A, B, C});
        int64_t dims[3] = {kept & 4 ? A : 1, kept & 2 ? B : 1, kept & 1 ? C : 1};
        mp_array to = mp_array_plain(MP_DTYPE_FLOAT, 3, dims);
        float *out = malloc((size_t)(dims[0] * dims[1] * dims[2]) * sizeof *out);
        for (int64_t k = 0; k < dims[0] * dims[1] * dims[2]; k++) out[k] = old;
        from.data = x;
        to.data = out;
        mp_cpu_sum_to(&from, &to, 2, true);
        for (int64_t a = 0; a < dims[0]; a++)
            for (int64_t b = 0; b < dims[1]; b++)
                for (int64_t c = 0; c < dims[2]; c++) {
                    double sum = 0;
                    for (int64_t i = dims[0] == 1 ? 0 : a; i <= (dims[0] == 1 ? A - 1 : a); i++)
                        for (int64_t j = dims[1] == 1 ? 0 : b; j <= (dims[1] == 1 ? B - 1 : b); j++)
                            for (int64_t k = dims[2] == 1 ? 0 : c; k <= (dims[2] == 1 ? C - 1 : c); k++)
                                sum += (double)x[(i * B + j) * C + k];
                    double got = (double)out[(a * dims[1] + b) * dims[2] + c];
                    assert_true(fabs(got - (2 * sum + (double)old)) <= 1e-6 * sum + 1e-6);
                }
        free(out);
    }
    free(x);
}
