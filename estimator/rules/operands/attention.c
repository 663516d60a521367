/* attention.c - the sizes of ScaledDotProductAttention, read off its operands. */
#include "estimator/rules/operands/attention.h"

mp_attention mp_attention_read(const mp_model *model, const mp_operator *op)
{
    const mp_tensor *q = mp_operator_in(model, op, 0), *k = mp_operator_in(model, op, 1), *v = mp_operator_in(model, op, 2);
    const int r = q->rank;
    const bool turned = mp_operator_int(op, "transK", 0) != 0;
    return (mp_attention){.n_batch = mp_product(q->dims, 0, r - 2),
                          .rows = q->dims[r - 2],
                          .columns = k->dims[turned ? r - 1 : r - 2],
                          .depth = q->dims[r - 1],
                          .value_depth = v->dims[r - 1]};
}
