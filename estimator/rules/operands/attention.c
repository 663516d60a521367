/* attention.c - computes the sizes of the operator ScaledDotProductAttention from the shapes of its operands. */
#include "estimator/rules/operands/attention.h"

#include <string.h>

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

const char *mp_attention_view_name(int k)
{
    static const char *const names[] = {"viewQ", "viewK", "viewV"};
    return names[k];
}

bool mp_attention_view_read(const mp_operator *op, int k, mp_attention_view *out)
{
    size_t n = 0;
    const int64_t *list = k < MP_ATTENTION_Y ? mp_operator_ints(op, mp_attention_view_name(k), &n) : NULL;
    if (!list || n % 2 == 0) return false;
    const int rank = (int)(n / 2);
    *out = (mp_attention_view){rank, list[0], list + 1, list + 1 + rank};
    return true;
}

int mp_attention_rank(const mp_model *model, const mp_operator *op)
{
    mp_attention_view view;
    return mp_attention_view_read(op, 0, &view) ? view.rank : mp_operator_in(model, op, 0)->rank;
}

void mp_attention_dims(const mp_model *model, const mp_operator *op, int k, int64_t dims[MP_RANK_MAX])
{
    mp_attention_view view;
    if (mp_attention_view_read(op, k, &view)) {
        memcpy(dims, view.dims, (size_t)view.rank * sizeof *dims);
        return;
    }
    const mp_tensor *t = mp_operator_in(model, op, k);
    const int64_t *perm = mp_attention_perm(op, k);
    for (int d = 0; d < t->rank; d++) dims[d] = t->dims[perm ? perm[d] : d];
}

mp_attention mp_attention_read(const mp_model *model, const mp_operator *op)
{
    const int r = mp_attention_rank(model, op);
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
