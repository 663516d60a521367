/* statistics.c - finds the operators that compute batch statistics, and stores in them the number of ranks that share
 * statistics. */
#include "estimator/parallel/statistics.h"

#include "estimator/model/ops.h"

enum { DATA, BYTES_PER_CHANNEL = 2 * sizeof(double) };

mp_rank_group mp_statistics_group(const mp_mesh *mesh)
{
    const int64_t inner = mesh->data ? 1 : mesh->size[MP_DIM_TP];
    return (mp_rank_group){mesh->size[MP_DIM_TP] / inner * mesh->size[MP_DIM_SHARD] * mesh->size[MP_DIM_DP], inner};
}

static mp_status share(mp_model *model, mp_operator *op, int64_t n_ranks, mp_error *err)
{
    MP_OWNED mp_attribute *all = mp_alloc(op->n_attributes + 1, sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < op->n_attributes; k++) all[k] = op->attributes[k];
    all[op->n_attributes] = mp_attribute_int("ranks", n_ranks);
    MP_CHECK(mp_attributes_copy(model, all, op->n_attributes + 1, &op->attributes, err));
    op->n_attributes++;
    return MP_OK;
}

mp_status mp_model_share_statistics(mp_model *model, const mp_ranks *ranks, mp_error *err)
{
    const int64_t n = mp_statistics_group(&ranks->mesh).n;
    for (size_t k = 0; k < model->n_operators && ranks->shares_statistics && n > 1; k++) {
        mp_operator *op = &model->operators[k];
        if (!op->removed && op->op && op->op->traits & MP_TRAIT_STATISTICS) MP_CHECK(share(model, op, n, err));
    }
    return MP_OK;
}

int64_t mp_statistics_bytes(const mp_model *model, const mp_operator *op)
{
    if (!op->op || !(op->op->traits & MP_TRAIT_STATISTICS)) return 0;
    const int64_t n = mp_operator_int(op, "ranks", 1);
    const mp_tensor *x = &model->tensors[op->in[DATA]];
    return n > 1 ? n * (x->rank > 1 ? x->dims[1] : 1) * BYTES_PER_CHANNEL : 0;
}
