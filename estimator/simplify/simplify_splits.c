/* simplify_splits.c - a reshape that splits dimensions of what a transposition gives stands before the transposition.
 *
 *     x [17, 8, 16] -> Transpose [1, 0, 2] -> [8, 17, 16] -> Reshape [2, 4, 17, 16]
 *     x [17, 8, 16] -> Reshape [17, 2, 4, 16] -> Transpose [1, 2, 0, 3] -> [2, 4, 17, 16]
 *
 * Exporters write stacks of matrices as three dimensions, of which batch and heads are one. With the reshape in front, one that
 * had made them one goes away with it, and patterns find the transposition beside the product that reads it.
 */
#include <string.h>

#include "estimator/simplify/rewrite.h"

/* How often each dimension of `from` is split into dimensions of `to`, side by side: into[d] >= 1. False: it is otherwise, or
 * there are only dimensions of 1 in addition. */
static bool splits(const mp_tensor *from, const mp_tensor *to, int into[MP_RANK_MAX])
{
    bool any = false;
    int t = 0;
    for (int d = 0; d < from->rank; d++) {
        int64_t product = 1;
        into[d] = 0;
        while (t < to->rank && (into[d] == 0 || (product < from->dims[d] && to->dims[t] > 1))) {
            product *= to->dims[t++];
            into[d]++;
        }
        if (product != from->dims[d]) return false;
        for (int k = t - into[d]; k < t; k++) any |= to->dims[k] > 1 && to->dims[k] < from->dims[d];
    }
    return any && t == to->rank;
}

static mp_status move_split(mp_rewriter *r, int index)
{
    mp_model *model = r->model;
    const mp_operator *reshape = &model->operators[index];
    if (!reshape->op || reshape->op->gradient != MP_GRADIENT_VIEW || mp_is_kind(reshape, "Identity")) return MP_OK;
    const int between = reshape->in[0], before = mp_producer(r, between);
    const mp_tensor *middle = &model->tensors[between], *y = mp_operator_out(model, reshape, 0);
    int into[MP_RANK_MAX], begin[MP_RANK_MAX], place[MP_RANK_MAX], n = 0;
    int64_t shape[MP_RANK_MAX], perm[MP_RANK_MAX];
    if (before < 0 || !mp_is_kind(&model->operators[before], "Transpose") || r->n_readers[between] != 1) return MP_OK;
    if (!y || y->rank <= middle->rank || !mp_tensor_elements(y) || !splits(middle, y, into)) return MP_OK;
    const mp_operator *transpose = &model->operators[before];
    const int from = transpose->in[0], rank = middle->rank;
    size_t n_perm;
    const int64_t *order = mp_operator_ints(transpose, "perm", &n_perm);
    for (int d = 0; d < rank; d++) place[order ? order[d] : rank - 1 - d] = d;
    for (int d = 0, at = 0; d < rank; at += into[d], d++) begin[d] = at;
    for (int s = 0; s < rank; s++)
        for (int k = 0; k < into[place[s]]; k++, n++) {
            shape[n] = y->dims[begin[place[s]] + k];
            perm[begin[place[s]] + k] = n;
        }
    mp_attribute sizes = {.name = "shape", .kind = MP_ATTRIBUTE_INTS, .n = (size_t)n, .ints = shape},
                 turned = {.name = "perm", .kind = MP_ATTRIBUTE_INTS, .n = (size_t)n, .ints = perm};
    const mp_operator_draft split = {
        .kind = "Reshape", .domain = "memplan", .version = 1, .in = &from, .n_in = 1, .attributes = &sizes, .n_attributes = 1};
    const mp_operator_draft turn = {
        .kind = "Transpose", .domain = "", .version = 1, .in = &between, .n_in = 1, .attributes = &turned, .n_attributes = 1};
    MP_CHECK(mp_rewriter_become(r, before, &split));
    MP_CHECK(mp_rewriter_become(r, index, &turn));
    r->changes++;
    return MP_OK;
}

mp_status mp_rewrite_splits(mp_rewriter *r)
{
    return mp_rewriter_each(r, move_split);
}
