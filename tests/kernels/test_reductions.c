/* test_reductions.c - reductions on the CPU, compared with loops over the elements by index, finite differences, and values of
 * NumPy and PyTorch. */
#include "tests/cases/test.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#include "executor/cpu/base/families.h"
#include "tests/cases/kernel_case.h"

typedef struct reduction {
    const char *kind;
    double low, high;
} reduction;
static const reduction reductions[] = {
    {"ReduceSum", -1, 1},       {"ReduceMean", -1, 1},      {"ReduceMax", -1, 1}, {"ReduceMin", -1, 1},
    {"ReduceProd", 0.5, 1.5},   {"ReduceL1", -1, 1},        {"ReduceL2", -1, 1},  {"ReduceLogSum", .1, 1},
    {"ReduceLogSumExp", -3, 3}, {"ReduceSumSquare", -1, 1},
};
enum { N_REDUCTIONS = sizeof reductions / sizeof *reductions, RANK = 4 };

/* Computes a reduction by definition, in two passes. */
static double reduce(const char *kind, const double *x, int n)
{
    double sum = 0, squares = 0, absolutes = 0, product = 1, max = -INFINITY, min = INFINITY, exps = 0;
    for (int k = 0; k < n; k++) {
        sum += x[k];
        squares += x[k] * x[k];
        absolutes += fabs(x[k]);
        product *= x[k];
        max = fmax(max, x[k]);
        min = fmin(min, x[k]);
        exps += exp(x[k]);
    }
    const double values[N_REDUCTIONS] = {sum,       sum / n,       max,      min,       product,
                                         absolutes, sqrt(squares), log(sum), log(exps), squares};
    for (int k = 0; k < N_REDUCTIONS; k++)
        if (!strcmp(reductions[k].kind, kind)) return values[k];
    return NAN;
}

/* Compares every output element with the definition; `mask` has a bit per reduced dimension. */
static void check_forward(const reduction *r, const int64_t *dims, unsigned mask, bool keepdims, unsigned flags)
{
    char inputs[128], axes[32] = "";
    for (int d = 0; d < RANK; d++)
        if (mask & 1u << d) snprintf(axes + strlen(axes), 8, "%s%d", axes[0] ? "," : "", d % 2 ? d - RANK : d);
    snprintf(inputs, sizeof inputs, "float32[%d,%d,%d,%d] int64[%d]={%s}", (int)dims[0], (int)dims[1], (int)dims[2],
             (int)dims[3], __builtin_popcount(mask), axes);
    kernel_case c = {r->kind, 18, inputs, keepdims ? "" : "keepdims=0", 1, r->low, r->high, 0, 0, 0};
    kernel_run *run = kernel_begin(&c, MP_MODE_TRAIN, flags);
    kernel_forward(run);
    int64_t n = dims[0] * dims[1] * dims[2] * dims[3], n_out = mp_array_elements(&run->forward.out[0]);
    double *group = calloc((size_t)n, sizeof *group);
    for (int64_t o = 0; o < n_out; o++) {
        int m = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t own = 0, scale = 1, left = k;
            for (int d = RANK - 1; d >= 0; d--) {
                int64_t i = left % dims[d];
                left /= dims[d];
                if (mask & 1u << d) continue;
                own += i * scale;
                scale *= dims[d];
            }
            if (own == o) group[m++] = kernel_get(&run->forward.in[0], k);
        }
        double expected = reduce(r->kind, group, m), is = kernel_get(&run->forward.out[0], o);
        double tolerance = flags & KERNEL_BFLOAT16 ? 4e-3 : 3e-7;
        if (!(fabs(is - expected) <= tolerance * (1 + fabs(expected))))
            fail_msg("%s(%s) keepdims %d, flags %u: element %d is %.9g, not %.9g", r->kind, inputs, keepdims, flags, (int)o, is,
                     expected);
    }
    free(group);
    kernel_end(run);
}

TEST(any_axes_in_any_layout_give_what_the_definition_says)
{
    for (int k = 0; k < N_REDUCTIONS; k++)
        for (unsigned mask = 1; mask < 16; mask++) {
            check_forward(&reductions[k], (int64_t[]){2, 5, 3, 19}, mask, true, KERNEL_PLAIN);
            check_forward(&reductions[k], (int64_t[]){2, 5, 3, 19}, mask, true, KERNEL_CHANNELS_LAST);
            check_forward(&reductions[k], (int64_t[]){2, 5, 1, 3}, mask, false, KERNEL_PLAIN);
            check_forward(&reductions[k], (int64_t[]){2, 5, 1, 3}, mask, true, KERNEL_BFLOAT16);
        }
}

TEST(gradients_are_those_of_differences)
{
    static const char *const forms[][2] = {{"float32[2,3,5] int64[1]={1}", ""},
                                           {"float32[2,3,5] int64[2]={-1,0}", "keepdims=0"},
                                           {"float32[2,3,5]", "keepdims=0"}};
    for (int k = 0; k < N_REDUCTIONS; k++)
        for (int f = 0; f < 3; f++) {
            kernel_case c = {reductions[k].kind,
                             18,
                             forms[f][0],
                             forms[f][1],
                             1,
                             reductions[k].low,
                             reductions[k].high,
                             1,
                             k == 2 || k == 3 || k == 5 ? 1e-4 : 2e-3,
                             2e-2};
            if (f == 2 && k == 4) c.high = 1.2;
            kernel_check_gradient(&c);
        }
}

/* Compares the gradient of the input for output gradients of 1. */
static void check_gradient_values(const char *kind, const char *inputs, const char *attributes, const double *expected, int n)
{
    kernel_case c = {kind, 18, inputs, attributes, 1, 0, 0, 1, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    for (int64_t k = 0; k < mp_array_elements(&r->backward.d_out[0]); k++) kernel_set(&r->backward.d_out[0], k, 1);
    kernel_forward(r);
    kernel_backward(r);
    for (int k = 0; k < n; k++)
        if (!(fabs(kernel_get(&r->backward.d_in[0], k) - expected[k]) <= 1e-6))
            fail_msg("%s(%s): gradient %d is %g, not %g", kind, inputs, k, kernel_get(&r->backward.d_in[0], k), expected[k]);
    kernel_end(r);
}

/* From PyTorch: x.amax(1).sum().backward() and similar. */
TEST(ties_share_and_zeros_are_left_out_as_in_pytorch)
{
    check_gradient_values("ReduceMax", "float32[2,4]={3,1,3,3,0,0,0,1} int64[1]={1}", "",
                          (double[]){1.0 / 3, 0, 1.0 / 3, 1.0 / 3, 0, 0, 0, 1}, 8);
    check_gradient_values("ReduceMin", "float32[2,4]={3,1,1,3,0,0,0,0}", "", (double[]){0, 0, 0, 0, .25, .25, .25, .25}, 8);
    check_gradient_values("ReduceProd", "float32[3,3]={2,3,4,2,0,4,0,3,0} int64[1]={1}", "",
                          (double[]){12, 8, 6, 0, 8, 0, 0, 0, 0}, 9);
    check_gradient_values("ReduceL1", "float32[3]={-2,0,2}", "", (double[]){-1, 0, 1}, 3);
    check_gradient_values("ReduceL2", "float32[2,2]={0,0,3,4} int64[1]={1}", "", (double[]){0, 0, .6, .8}, 4);
}

TEST(axes_come_as_each_version_has_them)
{
    kernel_case old = {"ReduceSum", 11, "float32[2,2]={1,2,3,4}", "axes=[0] keepdims=0", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&old, MP_MODE_TRAIN, 0, (double[]){4, 6}, 2, 0);
    kernel_case all = {"ReduceSum", 13, "float32[2,2]={1,2,3,4}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&all, MP_MODE_TRAIN, 0, (double[]){10}, 1, 0);
    kernel_case none = {"ReduceMean", 18, "float32[2,2]={1,2,3,4} int64[0]={}", "noop_with_empty_axes=1", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&none, MP_MODE_TRAIN, 0, (double[]){1, 2, 3, 4}, 4, 0);
    kernel_case scalar = {"ReduceMax", 18, "float32[]={7}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&scalar, MP_MODE_TRAIN, 0, (double[]){7}, 1, 0);
}

TEST(reducing_nothing_gives_the_neutral_element)
{
    kernel_case sum = {"ReduceSum", 20, "float32[2,0,2] int64[1]={1}", "keepdims=0", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&sum, MP_MODE_TRAIN, 0, (double[]){0, 0, 0, 0}, 4, 0);
    kernel_case product = {"ReduceProd", 20, "float32[2,0] int64[1]={1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&product, MP_MODE_TRAIN, 0, (double[]){1, 1}, 2, 0);
}

TEST(whole_numbers_are_reduced_exactly)
{
    const char *x = "int64[2,3]={1,-2,4,7,5,-9} int64[1]={1}";
    static const struct {
        const char *kind;
        double expected[2];
    } cases[] = {{"ReduceSum", {3, 3}},      {"ReduceMean", {1, 1}}, {"ReduceMax", {4, 7}},         {"ReduceMin", {-2, -9}},
                 {"ReduceProd", {-8, -315}}, {"ReduceL1", {7, 21}},  {"ReduceSumSquare", {21, 155}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kernel_case c = {cases[k].kind, 18, x, "", 1, 0, 0, 0, 0, 0};
        kernel_check_values(&c, MP_MODE_TRAIN, 0, cases[k].expected, 2, 0);
    }
    kernel_case below = {"ReduceMax", 18, "int32[2]={-3,-5}", "keepdims=0", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&below, MP_MODE_TRAIN, 0, (double[]){-3}, 1, 0);
    kernel_case above = {"ReduceMin", 18, "int32[2]={3,5}", "keepdims=0", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&above, MP_MODE_TRAIN, 0, (double[]){3}, 1, 0);
    kernel_case truth = {"ReduceMax", 20, "bool[2,2]={0,1,0,0} int64[1]={1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&truth, MP_MODE_TRAIN, 0, (double[]){1, 0}, 2, 0);
    kernel_case small = {"ReduceMin", 20, "int8[4]={3,-128,127,0}", "keepdims=0", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&small, MP_MODE_TRAIN, 0, (double[]){-128}, 1, 0);
}

/* Adding 0.1f a million times sequentially in float has an error of 1 %. */
TEST(long_sums_are_accurate_and_the_same_for_any_number_of_threads)
{
    static const char *const shapes[] = {"float32[1000000]", "float32[16384,61] int64[1]={0}",
                                         "float32[2,3,257,257] int64[2]={2,3}"};
    for (int s = 0; s < 3; s++)
        for (unsigned flags = 0; flags < 2; flags++) {
            kernel_case c = {"ReduceSum", 13, shapes[s], "", 1, 0.0999, 0.1001, 0, 0, 0};
            kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, flags);
            float first[256];
            int64_t n = mp_array_elements(&r->forward.out[0]);
            kernel_forward(r);
            memcpy(first, r->forward.out[0].data, (size_t)n * sizeof(float));
            double total = 0, sum = 0;
            for (int64_t k = 0; k < mp_array_elements(&r->forward.in[0]); k++) total += kernel_get(&r->forward.in[0], k);
            for (int64_t k = 0; k < n; k++) sum += (double)first[k];
            assert_true(fabs(sum - total) < 1e-7 * total);
#ifdef _OPENMP
            int threads = omp_get_max_threads();
            for (int t = 1; t < 4; t++) {
                omp_set_num_threads(t);
                kernel_forward(r);
                assert_memory_equal(first, r->forward.out[0].data, (size_t)n * sizeof(float));
            }
            omp_set_num_threads(threads);
#endif
            kernel_end(r);
        }
}

TEST(log_sum_exp_neither_overflows_nor_vanishes)
{
    kernel_case c = {
        "ReduceLogSumExp", 18, "float32[3,2]={1000,1000,-1000,-1000,-inf,-inf} int64[1]={1}", "keepdims=0", 1, 0, 0, 0, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
    kernel_forward(r);
    assert_true(fabs(kernel_get(&r->forward.out[0], 0) - 1000.693147) < 1e-3);
    assert_true(fabs(kernel_get(&r->forward.out[0], 1) + 999.306853) < 1e-3);
    assert_true(kernel_get(&r->forward.out[0], 2) == -INFINITY);
    kernel_end(r);
}

TEST(a_nan_is_the_largest_and_the_smallest)
{
    static const char *const kinds[] = {"ReduceMax", "ReduceMin"};
    for (int k = 0; k < 2; k++)
        for (int axis = 0; axis < 2; axis++) {
            const char *inputs = axis ? "float32[1,4]={1,nan,3,2} int64[1]={1}" : "float32[4,1]={1,nan,3,2} int64[1]={0}";
            kernel_case c = {kinds[k], 18, inputs, "", 1, 0, 0, 0, 0, 0};
            kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
            kernel_forward(r);
            assert_true(isnan(kernel_get(&r->forward.out[0], 0)));
            kernel_end(r);
        }
}

TEST(arg_max_and_arg_min_find_the_first_or_the_last)
{
    const char *x = "float32[2,4]={3,1,3,-1,-1,5,0,-1}";
    static const struct {
        const char *kind, *attributes;
        int n;
        double expected[4];
    } cases[] = {{"ArgMax", "axis=1 keepdims=0", 2, {0, 1}},
                 {"ArgMax", "axis=-1 select_last_index=1", 2, {2, 1}},
                 {"ArgMin", "axis=1", 2, {3, 0}},
                 {"ArgMin", "axis=1 select_last_index=1", 2, {3, 3}},
                 {"ArgMax", "keepdims=0", 4, {0, 1, 0, 0}},
                 {"ArgMin", "axis=0 select_last_index=1", 4, {1, 0, 1, 1}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kernel_case c = {cases[k].kind, 13, x, cases[k].attributes, 1, 0, 0, 0, 0, 0};
        kernel_check_values(&c, MP_MODE_TRAIN, 0, cases[k].expected, cases[k].n, 0);
    }
    kernel_case nan = {"ArgMax", 13, "float32[4]={1,nan,9,nan}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&nan, MP_MODE_TRAIN, 0, (double[]){1}, 1, 0);
    kernel_case columns = {"ArgMax", 13, "float32[3,2]={1,5,nan,6,9,nan}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&columns, MP_MODE_TRAIN, 0, (double[]){1, 2}, 2, 0);
    for (int axis = 0; axis < 4; axis++) {
        char attributes[16];
        snprintf(attributes, sizeof attributes, "axis=%d", axis);
        kernel_case c = {"ArgMax", 13, "float32[2,70,3,4]", attributes, 1, 0, 0, 0, 0, 0};
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, 0), *b = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_CHANNELS_LAST);
        kernel_forward(a);
        kernel_forward(b);
        for (int64_t k = 0; k < mp_array_elements(&a->forward.out[0]); k++)
            assert_true(kernel_get(&a->forward.out[0], k) == kernel_get(&b->forward.out[0], k));
        kernel_end(a);
        kernel_end(b);
    }
}

TEST(running_sums_go_both_ways_with_and_without_their_own)
{
    static const struct {
        const char *attributes;
        double expected[6];
    } cases[] = {{"", {1, 3, 6, 4, 9, 15}},
                 {"exclusive=1", {0, 1, 3, 0, 4, 9}},
                 {"reverse=1", {6, 5, 3, 15, 11, 6}},
                 {"exclusive=1 reverse=1", {5, 3, 0, 11, 6, 0}}};
    for (int k = 0; k < 4; k++) {
        static const char *const types[] = {"float32", "float64", "int32", "int64"};
        for (int t = 0; t < 4; t++) {
            char inputs[64];
            snprintf(inputs, sizeof inputs, "%s[2,3]={1,2,3,4,5,6} int32[]={-1}", types[t]);
            kernel_case c = {"CumSum", 14, inputs, cases[k].attributes, 1, 0, 0, 0, 0, 0};
            kernel_check_values(&c, MP_MODE_TRAIN, 0, cases[k].expected, 6, 0);
        }
        for (int axis = 0; axis < 3; axis++) {
            char inputs[64];
            snprintf(inputs, sizeof inputs, "float32[2,3,4] int64[]={%d}", axis);
            kernel_case c = {"CumSum", 14, inputs, cases[k].attributes, 1, 0, 0, 0, 0, 0};
            kernel_check_gradient(&c);
        }
    }
}

/* More adjacent lines than are summed at once. Integers make the sums exact. */
TEST(running_sums_of_many_lines_are_those_of_each)
{
    static const int64_t dims[] = {3, 70, 130};
    static const char *const types[] = {"float32", "float64", "int64"};
    for (int t = 0; t < 3; t++)
        for (int axis = 0; axis < 3; axis++) {
            char inputs[64];
            snprintf(inputs, sizeof inputs, "%s[3,70,130] int64[]={%d}", types[t], axis);
            kernel_case c = {"CumSum", 14, inputs, "reverse=1", 1, -9, 9, 0, 0, 0};
            kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
            const mp_array *x = &r->forward.in[0], *y = &r->forward.out[0];
            if (t < 2)
                for (int64_t k = 0; k < mp_array_elements(x); k++) kernel_set(x, k, (double)(k * 7 % 19 - 9));
            kernel_forward(r);
            const int64_t step = axis == 0 ? 70 * 130 : axis == 1 ? 130 : 1;
            for (int64_t k = 0; k < mp_array_elements(y); k++) {
                const bool is_last = k / step % dims[axis] == dims[axis] - 1;
                assert_true(kernel_get(y, k) == kernel_get(x, k) + (is_last ? 0 : kernel_get(y, k + step)));
            }
            kernel_end(r);
        }
}

/* The gradient is in place of the output's gradient. */
TEST(running_sums_work_in_place)
{
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        kernel_case c = {"CumSum", 14, "float32[3,300,2] int64[]={1}", exclusive ? "exclusive=1" : "", 1, 0, 0, 0, 0, 0};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        kernel_backward(r);
        mp_array own = r->backward.d_in[0];
        r->backward.d_in[0].data = r->backward.d_out[0].data;
        kernel_backward(r);
        assert_memory_equal(own.data, r->backward.d_out[0].data, 1800 * sizeof(float));
        r->backward.d_in[0] = own;
        kernel_end(r);
    }
}

TEST(top_k_are_in_order_and_the_first_of_equals_comes_first)
{
    const char *x = "float32[2,5]={1,4,4,0,3,-1,-1,-2,-1,7} int64[1]={3}";
    kernel_case largest = {"TopK", 11, x, "", 2, 0, 0, 0, 0, 0};
    kernel_check_values(&largest, MP_MODE_TRAIN, 0, (double[]){4, 4, 3, 7, -1, -1}, 6, 0);
    kernel_check_values(&largest, MP_MODE_TRAIN, 1, (double[]){1, 2, 4, 4, 0, 1}, 6, 0);
    kernel_case smallest = {"TopK", 11, x, "largest=0", 2, 0, 0, 0, 0, 0};
    kernel_check_values(&smallest, MP_MODE_TRAIN, 0, (double[]){0, 1, 3, -2, -1, -1}, 6, 0);
    kernel_check_values(&smallest, MP_MODE_TRAIN, 1, (double[]){3, 0, 4, 2, 0, 1}, 6, 0);
    kernel_case whole = {"TopK", 11, "int64[4]={5,9,-3,9} int64[1]={4}", "", 2, 0, 0, 0, 0, 0};
    kernel_check_values(&whole, MP_MODE_TRAIN, 1, (double[]){1, 3, 0, 2}, 4, 0);
    kernel_case old = {"TopK", 1, "float32[2,2]={1,2,3,0}", "axis=0 k=1", 2, 0, 0, 0, 0, 0};
    kernel_check_values(&old, MP_MODE_TRAIN, 0, (double[]){3, 2}, 2, 0);
    kernel_case long_ones = {"TopK", 11, "float32[3,1000] int64[1]={700}", "", 2, 0, 0, 0, 0, 0};
    kernel_run *r = kernel_begin(&long_ones, MP_MODE_TRAIN, 0);
    kernel_forward(r);
    for (int line = 0; line < 3; line++) {
        double last = INFINITY;
        for (int k = 0; k < 700; k++) {
            double v = kernel_get(&r->forward.out[0], line * 700 + k);
            assert_true(v <= last);
            assert_true(v ==
                        kernel_get(&r->forward.in[0], line * 1000 + (int64_t)kernel_get(&r->forward.out[1], line * 700 + k)));
            last = v;
        }
        int below = 0; /* all others are not larger */
        for (int k = 0; k < 1000; k++) below += kernel_get(&r->forward.in[0], line * 1000 + k) >= last;
        assert_int_equal(below, 700);
    }
    kernel_end(r);
}

TEST(gradients_of_top_k_go_to_where_they_came_from)
{
    for (int axis = 0; axis < 3; axis++) {
        char attributes[16];
        snprintf(attributes, sizeof attributes, "axis=%d", axis);
        kernel_case c = {"TopK", 11, "float32[4,3,5] int64[1]={2}", attributes, 2, 0, 0, 1, 1e-4, 2e-2};
        kernel_check_gradient(&c);
    }
    kernel_case c = {"TopK", 11, "float32[4]={1,9,3,7} int64[1]={2}", "", 2, 0, 0, 1, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    for (int k = 0; k < 4; k++) kernel_set(&r->backward.d_in[0], k, 5); /* existing values are overwritten */
    for (int k = 0; k < 2; k++) kernel_set(&r->backward.d_out[0], k, k + 1);
    kernel_forward(r);
    kernel_backward(r);
    for (int k = 0; k < 4; k++) assert_true(kernel_get(&r->backward.d_in[0], k) == (k % 2 ? (k + 1) / 2 : 0));
    kernel_end(r);
}
