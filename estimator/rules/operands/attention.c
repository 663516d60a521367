/* attention.c - computes the sizes of the operator ScaledDotProductAttention from the shapes of its operands. */
#include "estimator/rules/operands/attention.h"

const char *mp_attention_perm_name(int k)
{
    static const char *const names[] = {"permQ", "permK", "permV", "permY"};
    return names[k];
}

const int64_t *mp_attention_perm(const mp_operator *op, int k)
{
    size_t n;
    return mp_operator_ints(op, mp_attention_perm_name(k), &n);
}

void mp_attention_dims(const mp_model *model, const mp_operator *op, int k, int64_t dims[MP_RANK_MAX])
{
    const mp_tensor *t = mp_operator_in(model, op, k);
    const int64_t *perm = mp_attention_perm(op, k);
    for (int d = 0; d < t->rank; d++) dims[d] = t->dims[perm ? perm[d] : d];
}

mp_attention mp_attention_read(const mp_model *model, const mp_operator *op)
{
    const int r = mp_operator_in(model, op, 0)->rank;
    const bool turned = mp_operator_int(op, "transK", 0) != 0;
    int64_t q[MP_RANK_MAX], k[MP_RANK_MAX], v[MP_RANK_MAX];
    mp_attention_dims(model, op, 0, q);
    mp_attention_dims(model, op, 1, k);
    mp_attention_dims(model, op, 2, v);
    return (mp_attention){.n_batch = mp_product(q, 0, r - 2),
                          .rows = q[r - 2],
                          .columns = k[turned ? r - 1 : r - 2],
                          .depth = q[r - 1],
                          .value_depth = v[r - 1]};
}
