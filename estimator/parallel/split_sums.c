/* split_sums.c - replicated parameters of whose gradient each rank computes a partial sum. These gradients are summed during
 * backward in buckets, together with the gradients of other parameters (exchange.h). This replaces one operator per
 * parameter. */
#include "estimator/model/ops.h"
#include "estimator/model/order.h"
#include "estimator/parallel/split.h"

typedef struct sums {
    mp_model *model;
    mp_consumers readers;
} sums;

static bool is_replicate(const mp_operator *op)
{
    return op->op->traits & MP_TRAIT_REPLICATES;
}

/* True if each rank computes only a partial sum of the tensor's gradient. This must hold for all readers, also behind
 * permutations and casts. */
static bool is_only_replicated(const sums *x, int tensor)
{
    const int first = x->readers.start[tensor], end = x->readers.start[tensor + 1];
    for (int r = first; r < end; r++) {
        const mp_operator *op = &x->model->operators[x->readers.list[r]];
        const bool turns = op->n_in == 1 && op->op->traits & (MP_TRAIT_PERMUTES | MP_TRAIT_CASTS);
        if (!is_replicate(op) && !(turns && is_only_replicated(x, op->out[0]))) return false;
    }
    return end > first && !x->model->tensors[tensor].is_output;
}

/* Removes the Replicate operators that read a tensor. The tensor's is_summed flag replaces them. */
static void drop_replicates(const sums *x, int tensor)
{
    for (int r = x->readers.start[tensor]; r < x->readers.start[tensor + 1]; r++) {
        mp_operator *op = &x->model->operators[x->readers.list[r]];
        const int replica = op->out[0];
        if (!is_replicate(op)) {
            drop_replicates(x, replica);
            continue;
        }
        for (int k = x->readers.start[replica]; k < x->readers.start[replica + 1]; k++) {
            mp_operator *reader = &x->model->operators[x->readers.list[k]];
            for (int i = 0; i < reader->n_in; i++)
                if (reader->in[i] == replica) reader->in[i] = tensor;
        }
        x->model->tensors[replica].replaced_by = tensor;
        op->removed = true;
    }
}

mp_status mp_split_mark_sums(mp_model *model, mp_error *err)
{
    sums x = {.model = model};
    MP_CHECK(mp_model_consumers(model, &x.readers, err));
    for (int t = 0; t < (int)model->n_tensors; t++) {
        mp_tensor *tensor = &model->tensors[t];
        if (tensor->role != MP_ROLE_PARAMETER || !is_only_replicated(&x, t)) continue;
        tensor->is_summed = true;
        drop_replicates(&x, t);
    }
    mp_consumers_free(&x.readers);
    return MP_OK;
}
