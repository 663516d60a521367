/* test_cuda_products.c - cublasLt's arguments for a matrix product, as far as testable without a GPU. Linked with the
 * libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "executor/cpu/cpu.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/vendor/blas_matmul.h"
#include "executor/operators/aligned_rows.h"
#include "executor/program/program.h"
#include "memplan/simplify.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"
#include "tests/cuda/module_case.h"

static int make_with_limit(void **unused)
{
    if (make_backend(unused)) return -1;
    gpu->settle(gpu, &(mp_backend_settings){.workspace_limit = INT64_C(256) << 20});
    return 0;
}

/* dW = X^T dY with the sums over dY's rows. cublasLt sums over its operand A or B; W's layout determines which of them is dY.
 */
TEST(the_gradient_of_a_bias_is_summed_over_the_gradient_of_the_result)
{
    enum { ROWS = 40, IN = 16, OUT = 24 };
    const mp_array x = mp_array_plain(MP_DTYPE_BFLOAT16, 2, (const int64_t[]){ROWS, IN});
    const mp_array dy = mp_array_plain(MP_DTYPE_BFLOAT16, 2, (const int64_t[]){ROWS, OUT});
    for (int outputs_first = 0; outputs_first < 2; outputs_first++) {
        const mp_array w = mp_array_plain(MP_DTYPE_BFLOAT16, 2, outputs_first ? (int64_t[]){OUT, IN} : (int64_t[]){IN, OUT});
        const mp_stack a = mp_stack_of(&x, 0, true, false), b = mp_stack_of(&dy, 1, false, false),
                       c = mp_stack_of(&w, 1, outputs_first, false);
        mp_blas_matmul m;
        mp_error err = {0};
        uint32_t epilogue = 0;
        uint64_t outer = 0;
        size_t size;
        assert_int_equal(mp_blas_matmul_prepare(&a, &b, &c, 1, 0, MP_BLAS_BIAS_GRADIENT, &m, &err), MP_OK);
        assert_int_equal(
            cublasLtMatmulDescGetAttribute(m.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, &size), 0);
        const cublasLtMatrixLayout_t summed = epilogue == CUBLASLT_EPILOGUE_BGRADA ? m.left : m.right;
        assert_true(epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB);
        assert_int_equal(cublasLtMatrixLayoutGetAttribute(summed, CUBLASLT_MATRIX_LAYOUT_ROWS, &outer, sizeof outer, &size), 0);
        assert_int_equal(outer, OUT); /* dY's size, columns first; X would give IN */
        mp_blas_matmul_release(&m);
    }
}

/* cublasLt's arguments for the row-major y = a b: y^T = b^T a^T without copies. */
TEST(strided_batches_and_loops)
{
    mp_array a = mp_array_plain(MP_DTYPE_FLOAT, 4, (const int64_t[]){7, 1, 4, 5});
    mp_array b = mp_array_plain(MP_DTYPE_FLOAT, 4, (const int64_t[]){1, 3, 5, 6});
    mp_array y = mp_array_plain(MP_DTYPE_FLOAT, 4, (const int64_t[]){7, 3, 4, 6});
    mp_stack s[] = {mp_stack_of(&a, 0, false, false), mp_stack_of(&b, 1, false, false)};
    mp_stack to = mp_stack_result(&y, &s[0], &s[1], false, false);
    mp_blas_matmul m;
    mp_error err = {0};
    int32_t count;
    int64_t step, leading;
    size_t size;
    assert_int_equal(mp_blas_matmul_prepare(&s[0], &s[1], &to, 1, 0, MP_BLAS_NO_BIAS, &m, &err), MP_OK);
    assert_int_equal(m.n_loops, 1); /* over b's 3; a's 7 are a strided batch */
    assert_int_equal(m.loops[0], 3);
    assert_int_equal(m.strides[0][0], 0);
    assert_int_equal(m.strides[1][0], 5 * 6 * 4);
    assert_int_equal(m.strides[2][0], 4 * 6 * 4);
    assert_int_equal(cublasLtMatrixLayoutGetAttribute(m.right, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count, &size),
                     0);
    assert_int_equal(count, 7);
    assert_int_equal(
        cublasLtMatrixLayoutGetAttribute(m.result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step, &size), 0);
    assert_int_equal(step, 3 * 4 * 6);
    assert_int_equal(
        cublasLtMatrixLayoutGetAttribute(m.left, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step, &size), 0);
    assert_int_equal(step, 0);
    assert_int_equal(cublasLtMatrixLayoutGetAttribute(m.left, CUBLASLT_MATRIX_LAYOUT_LD, &leading, sizeof leading, &size), 0);
    assert_int_equal(leading, 6);
    mp_blas_matmul_release(&m);
}

static int n_long,
    n_unaligned; /* matrices in bf16 described to cublasLt: with long rows, and those of them without alignment */

/* Replaces the library's function: counts matrices, then calls the library. */
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matrix, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t leading)
{
    cublasStatus_t (*create)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "cublasLtMatrixLayoutCreate");
    memcpy(&create, &symbol, sizeof create);
    if (type == CUDA_R_16BF && rows >= MP_ALIGNED_ROWS_MIN && columns > 1) {
        n_long++;
        n_unaligned += leading * 2 % 16 != 0;
    }
    return create(matrix, type, rows, columns, leading);
}

/* Heads of GPT-2 and BERT with their vocabularies, and a classifier of 21,843 classes. In all three products the logits, or
 * their gradient, have rows that begin at multiples of 16 bytes. */
TEST(rows_of_logits_are_aligned)
{
    static const struct {
        const char *text;
        int64_t rows, columns;
    } heads[] = {
        {"input i float 2,8,64; weight a.weight 64,64; MatMul i a.weight -> x; weight wte.weight 50257,64; Transpose "
         "wte.weight -> t perm=[1,0];"
         "MatMul x t -> y; out y",
         16, 50257},
        {"input i float 2,8,64; weight a.weight 64,64; MatMul i a.weight -> x; weight tok.weight 30522,64; weight head.bias "
         "30522;"
         "Transpose tok.weight -> t perm=[1,0]; MatMul x t -> l; Add l head.bias -> y; out y",
         16, 30522},
        {"input i float 16,64; weight a.weight 64,64; MatMul i a.weight -> x; weight fc.weight 21843,64; weight fc.bias 21843;"
         "Gemm x fc.weight fc.bias -> y transB=1; out y",
         16, 21843}};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_BFLOAT16};
        mp_error err = {0};
        mp_program *program;
        int loss, n_storages = 0;
        mp_model *model = onnx_text_model(17, heads[k].text);
        n_long = n_unaligned = 0;
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_add_loss(model, &options, &loss, &err), MP_OK);
        if (mp_program_build(gpu, model, &options, loss, &program, &err) != MP_OK) fail_msg("%s", err.message);
        assert_true(n_long >= 3);
        assert_int_equal(n_unaligned, 0);
        /* the plan counts the padding: logits and their gradient */
        for (size_t s = 0; s < program->graph->n_storages; s++)
            n_storages += program->graph->storages[s].payload_bytes == heads[k].rows * (heads[k].columns / 8 + 1) * 8 * 2;
        assert_int_equal(n_storages, 2);
        mp_program_free(program);
        mp_model_free(model);
    }
}

int main(void)
{
    return test_run(make_with_limit, close_backend);
}
