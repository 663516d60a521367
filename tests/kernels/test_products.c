/* test_products.c - matrix products: values by hand, gradients compared with finite differences, rows of any alignment. */
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

TEST(values_are_those_computed_by_hand)
{
    const kernel_case plain = {"MatMul", 13, "float32[2,3]={1,2,3,4,5,6} float32[3,2]={1,2,3,4,5,6}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&plain, MP_MODE_TRAIN, 0, (double[]){22, 28, 49, 64}, 4, 1e-6);
    const kernel_case vector = {"MatMul", 13, "float32[3]={1,2,3} float32[3]={4,5,6}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&vector, MP_MODE_TRAIN, 0, (double[]){32}, 1, 1e-6);
    const kernel_case gemm = {"Gemm",
                              13,
                              "float32[2,2]={1,2,3,4} float32[2,2]={1,0,0,1} float32[2,1]={10,20}",
                              "alpha=2.0 beta=0.5 transA=1",
                              1,
                              0,
                              0,
                              0,
                              0,
                              0};
    kernel_check_values(&gemm, MP_MODE_TRAIN, 0, (double[]){7, 11, 14, 18}, 4, 1e-6);
    const kernel_case trace = {"Einsum", 12, "float32[2,2]={1,2,3,4}", "equation=ii->i", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&trace, MP_MODE_TRAIN, 0, (double[]){1, 4}, 2, 1e-6);
}

TEST(gradients_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"MatMul", 13, "float32[3,4] float32[4,5]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[2,3,4] float32[4,5]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[2,3,4] float32[2,4,5]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[2,1,3,4] float32[3,4,2]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[3,4] float32[2,4,2]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[1,5,3,4] float32[5,4,6]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[4] float32[2,4,3]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[2,3,4] float32[4]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[4] float32[4]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[1,3,4] float32[1,4,1]", "", 1, 0, 0, 0, 0, 0},
        {"com.microsoft:FusedMatMul", 1, "float32[2,4,3] float32[2,5,4]", "transA=1 transB=1 alpha=0.5", 1, 0, 0, 0, 0, 0},
        {"com.microsoft:FusedMatMul", 1, "float32[2,3,4] float32[5,4]", "transB=1", 1, 0, 0, 0, 0, 0},
        {"memplan:FusedMatMul", 1, "float32[2,3,4] float32[5,4] float32[5]", "transB=1", 1, 0, 0, 0, 0, 0},
        {"memplan:FusedMatMul", 1, "float32[2,3,4] float32[4,5] float32[5]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:FusedMatMul", 1, "float32[2,4,3] float32[4,5] float32[5]", "transA=1 alpha=0.5", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[3,4] float32[4,5]", "", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[3,4] float32[5,4] float32[5]", "transB=1", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[4,3] float32[4,5] float32[1,5]", "transA=1 alpha=0.5 beta=2.0", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[3,4] float32[4,5] float32[3,1]", "", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[3,4] float32[4,5] float32[]", "", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[3,4] float32[4,5] float32[3,5]", "", 1, 0, 0, 0, 0, 0},
        {"Einsum", 12, "float32[2,3,4] float32[4,5]", "equation=bij,jk->bik", 1, 0, 0, 0, 0, 0},
        {"Einsum", 12, "float32[2,3,2,4] float32[2,5,2,4]", "equation=bqhd,bkhd->bhqk", 1, 0, 0, 0, 0, 0},
        {"Einsum", 12, "float32[3,3]", "equation=ii->i", 1, 0, 0, 0, 0, 0},
        {"Einsum", 12, "float32[3,4] float32[3,4]", "equation=ij,ij->", 1, 0, 0, 0, 0, 0},
        {"Einsum", 12, "float32[3,4]", "equation=ij->ji", 1, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* Runs a case forward and backward; copies the output and all gradients to *out and returns their number. */
static int64_t results(const kernel_case *c, unsigned flags, double *out)
{
    kernel_run *r = kernel_begin(c, MP_MODE_TRAIN, flags | KERNEL_BACKWARD);
    int64_t n = 0;
    for (int i = 0; i < r->backward.n_in; i++)
        for (int64_t k = 0; k < mp_array_elements(&r->backward.d_in[i]); k++) kernel_set(&r->backward.d_in[i], k, 0.5);
    kernel_forward(r);
    kernel_backward(r);
    for (int64_t k = 0; k < mp_array_elements(&r->forward.out[0]); k++) out[n++] = kernel_get(&r->forward.out[0], k);
    for (int i = 0; i < r->backward.n_in; i++)
        for (int64_t k = 0; k < mp_array_elements(&r->backward.d_in[i]); k++) out[n++] = kernel_get(&r->backward.d_in[i], k);
    kernel_end(r);
    return n;
}

TEST(aligned_rows_change_no_result)
{
    const kernel_case cases[] = {
        {"MatMul", 13, "float32[6,16] float32[16,13]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[2,3,16] float32[16,13]", "", 1, 0, 0, 0, 0, 0},
        {"MatMul", 13, "float32[2,3,5] float32[2,5,13]", "", 1, 0, 0, 0, 0, 0},
        {"com.microsoft:FusedMatMul", 1, "float32[2,3,16] float32[13,16]", "transB=1", 1, 0, 0, 0, 0, 0},
        {"memplan:FusedMatMul", 1, "float32[2,3,16] float32[13,16] float32[13]", "transB=1", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[6,13] float32[21,13] float32[21]", "transB=1", 1, 0, 0, 0, 0, 0},
        {"Gemm", 13, "float32[6,16] float32[16,13] float32[6,13]", "alpha=0.5 beta=2.0", 1, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (unsigned flags = 0; flags < 4; flags++) {
            static double plain[1000], aligned[1000];
            const unsigned all = (flags & 1 ? KERNEL_BFLOAT16 : 0) | (flags & 2 ? KERNEL_ADDS : 0);
            const int64_t n = results(&cases[k], all, plain);
            assert_int_equal(results(&cases[k], all | KERNEL_ALIGNED_ROWS, aligned), n);
            for (int64_t e = 0; e < n; e++)
                if (!(fabs(aligned[e] - plain[e]) <= (flags & 1 ? 1.0 / 32 : 1e-5)))
                    fail_msg("%s(%s), flags %u: value %lld is %g, not %g", cases[k].kind, cases[k].inputs, all, (long long)e,
                             aligned[e], plain[e]);
        }
}
