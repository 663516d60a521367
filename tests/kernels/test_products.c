/* test_products.c - matrix products: values by hand, gradients compared with finite differences. */
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
