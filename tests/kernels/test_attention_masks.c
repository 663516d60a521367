/* test_attention_masks.c - attention with fully masked rows: zeros, compared with PyTorch. Also the gradient of the tensor
 * added to the scores, compared with finite differences and with its definition. */
#include "tests/cases/backend_case.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

#define KIND "memplan:ScaledDotProductAttention"

/* Values and gradients of torch.nn.functional.scaled_dot_product_attention for the same numbers in double; the first row is
 * fully masked. */
TEST(a_closed_row_is_zeros_as_pytorch_has_it)
{
    static const char *const masks[] = {"float32[3,3]={-inf,-inf,-inf,-inf,0,0,0,0,-inf}", "- bool[3,3]={0,0,0,0,1,1,1,1,0}"};
    static const double y[] = {0, 0, 18.2119562, -0.642391234, 16.2245933, -0.244918662}, w[] = {1, 2, -1, 0.5, 2, -3},
                        d[3][6] = {{0, 0, 0.86619708, -3.46478832, -6.11009652, 9.16514478},
                                   {-3.05504826, -3.05504826, 3.05504826, 2.18885118, 0, 0.86619708},
                                   {0.755081338, -1.13262201, 0.364121584, -1.42697945, -0.119202922, 0.059601461}};
    for (int k = 0; k < 2; k++) {
        char text[256];
        snprintf(text, sizeof text, "float32[3,2]={1,0,0,1,1,1} float32[3,2]={2,0,0,3,1,-1} float32[3,2]={10,1,20,-1,5,2} %s",
                 masks[k]);
        kernel_case c = {KIND, 1, text, "scale=0.5 safe=1", 1, 0, 0, 7, 0, 0};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        for (int e = 0; e < 6; e++) kernel_set(&r->backward.d_out[0], e, w[e]);
        kernel_forward(r);
        kernel_backward(r);
        for (int e = 0; e < 6; e++) {
            assert_true(fabs(kernel_get(&r->forward.out[0], e) - y[e]) <= 2e-6 * 20);
            for (int i = 0; i < 3; i++) assert_true(fabs(kernel_get(&r->backward.d_in[i], e) - d[i][e]) <= 2e-6 * 10);
        }
        kernel_end(r);
    }
}

enum { OF_ADDED = 1 << 3, OF_ALL = 15 };

/* A trained bias, shared by samples, heads, rows or columns, or not shared. */
TEST(what_is_added_has_the_gradient_of_differences)
{
#define QKV "float32[2,2,3,4] float32[2,2,5,4] float32[2,2,5,3] "
    static const kernel_case cases[] = {
        {KIND, 1, QKV "float32[2,2,3,5]", "", 1, 0, 0, OF_ALL, 0, 0},
        {KIND, 1, QKV "float32[1,2,3,5]", "scale=0.7", 1, 0, 0, OF_ALL, 0, 0},
        {KIND, 1, QKV "float32[2,1,3,5]", "causal=1", 1, 0, 0, OF_ALL, 0, 0},
        {KIND, 1, QKV "float32[3,5]", "ratio=0.4", 1, 0, 0, OF_ALL, 0, 0},
        {KIND, 1, QKV "float32[2,2,1,5]", "safe=1", 1, 0, 0, OF_ALL, 0, 0},
        {KIND, 1, QKV "float32[5]", "", 1, 0, 0, OF_ADDED, 0, 0},
        {KIND, 1, QKV "float32[3,5] bool[5]={1,0,1,1,0}", "fill=-2.0", 1, 0, 0, OF_ALL, 0,
         0}, /* the mask replaces scores before the addition */
        {KIND, 1, "float32[2,3,2,4] float32[2,5,2,4] float32[2,5,2,3] float32[1,2,3,5]",
         "permQ=[0,2,1,3] permK=[0,2,1,3] permV=[0,2,1,3] permY=[0,2,1,3]", 1, 0, 0, OF_ALL, 0, 0},
    };
    if (!backend_of_tests()->gives_mask_gradients) skip();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* dA[h, i, j] = sum over samples of P (dP - sum of P dP along the row), computed in double for several tiles. */
static void expected_of(const kernel_run *r, double *d)
{
    enum { B = 3, H = 2, ROWS = 70, COLUMNS = 150, DEPTH = 8 };
    const mp_operands *f = &r->forward;
    double p[COLUMNS], dp[COLUMNS];
    for (int64_t k = 0; k < H * ROWS * COLUMNS; k++) d[k] = 0;
    for (int64_t m = 0; m < B * H; m++)
        for (int64_t i = 0; i < ROWS; i++) {
            double *to = d + (m % H * ROWS + i) * COLUMNS, total = 0, sum = 0;
            const int64_t row = (m * ROWS + i) * DEPTH;
            for (int64_t c = 0; c < COLUMNS; c++) {
                const int64_t column = (m * COLUMNS + c) * DEPTH;
                p[c] = kernel_get(&f->in[3], (m % H * ROWS + i) * COLUMNS + c);
                dp[c] = 0;
                for (int64_t e = 0; e < DEPTH; e++) {
                    p[c] += kernel_get(&f->in[0], row + e) * kernel_get(&f->in[1], column + e);
                    dp[c] += kernel_get(&r->backward.d_out[0], row + e) * kernel_get(&f->in[2], column + e);
                }
                total += p[c] = exp(p[c]);
            }
            for (int64_t c = 0; c < COLUMNS; c++) sum += (p[c] /= total) * dp[c];
            for (int64_t c = 0; c < COLUMNS; c++) to[c] += p[c] * (dp[c] - sum);
        }
}

TEST(what_is_added_has_the_gradient_of_its_definition)
{
    static const unsigned flags[] = {0, KERNEL_ADDS, KERNEL_BFLOAT16};
    if (!backend_of_tests()->gives_mask_gradients) skip();
    const int64_t n = 2 * 70 * 150;
    const kernel_case c = {
        KIND, 1, "float32[3,2,70,8] float32[3,2,150,8] float32[3,2,150,8] float32[1,2,70,150]", "", 1, 0, 0, OF_ALL, 0, 0};
    double *expected = malloc((size_t)n * sizeof *expected);
    assert_non_null(expected);
    for (int k = 0; k < 3; k++) {
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | flags[k]);
        const bool adds = flags[k] & KERNEL_ADDS;
        const double tolerance = flags[k] & KERNEL_BFLOAT16 ? 2e-2 : 2e-6;
        assert_int_equal(r->backward_call.adds & OF_ADDED, adds ? OF_ADDED : 0);
        for (int64_t e = 0; adds && e < n; e++) kernel_set(&r->backward.d_in[3], e, 0.5);
        kernel_forward(r);
        kernel_backward(r);
        expected_of(r, expected);
        for (int64_t e = 0; e < n; e++) {
            const double found = kernel_get(&r->backward.d_in[3], e) - (adds ? 0.5 : 0);
            if (!(fabs(found - expected[e]) <= tolerance))
                fail_msg("%u: element %d: %g, not %g", flags[k], (int)e, found, expected[e]);
        }
        kernel_end(r);
    }
    free(expected);
}
