/* matmul.c - operands of matrix products as stacks of matrices. */
#include "estimator/rules/operands/matmul.h"

#include <string.h>

mp_matrix mp_matmul_operand(const mp_model *model, const mp_operator *op, int k)
{
    const mp_tensor *t = mp_operator_in(model, op, k);
    mp_matrix m = {0};
    if (t->rank == 1) {
        m.is_vector = true;
        m.rows = k == 0 ? 1 : t->dims[0];
        m.columns = k == 0 ? t->dims[0] : 1;
        return m;
    }
    bool transposed = mp_operator_int(op, k == 0 ? "transA" : "transB", 0) != 0;
    bool batch_behind = mp_operator_int(op, k == 0 ? "transBatchA" : "transBatchB", 0) != 0;
    m.n_batch = t->rank - 2;
    memcpy(m.batch, t->dims + batch_behind, (size_t)m.n_batch * sizeof *m.batch);
    m.rows = t->dims[batch_behind ? 0 : t->rank - 2];
    m.columns = t->dims[t->rank - 1];
    if (transposed) {
        int64_t rows = m.rows;
        m.rows = m.columns;
        m.columns = rows;
    }
    return m;
}
