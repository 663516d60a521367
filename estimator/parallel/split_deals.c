/* split_deals.c - how the elements of a sharded tensor are distributed over the ranks, if operators split it into pieces,
 * join it from pieces, or reshape it. Example: a fused QKV product is split into queries, keys and values. Each rank needs a
 * share of all three. The columns of the product are therefore divided into three runs, and each rank receives a share of
 * every run. */
#include "estimator/model/ops_rules.h"
#include "estimator/parallel/split.h"
#include "estimator/rules/factors/factors.h"

int64_t mp_split_pieces(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int factor)
{
    const int along = f->cuts    ? mp_factor_of_input(model, op, f, 0, factor)
                      : f->joins ? mp_factor_of_output(model, op, f, 0, factor)
                                 : -1;
    if (along < 0) return 1;
    const int n = f->cuts ? op->n_out : op->n_in;
    const int64_t whole = mp_tensor_whole_dims(f->cuts ? mp_operator_in(model, op, 0) : mp_operator_out(model, op, 0))[along];
    bool is_even = true, is_along = false;
    for (int k = 0; k < n; k++) {
        const mp_tensor *piece = f->cuts ? mp_operator_out(model, op, k) : mp_operator_in(model, op, k);
        const int64_t size = mp_tensor_whole_dims(piece)[along];
        is_along |= size != whole;
        is_even &= size * n == whole;
    }
    return !is_along ? 1 : is_even ? n : 0;
}

/* Returns the number of pieces into which the readers of a tensor split its last dimension. Follows at most `hops`
 * operators. */
static int64_t pieces_behind(const mp_model *model, const mp_consumers *readers, int64_t ranks, int tensor, int hops)
{
    const mp_tensor *t = &model->tensors[tensor];
    int64_t pieces = 1;
    for (int r = readers->start[tensor]; hops && pieces == 1 && r < readers->start[tensor + 1]; r++) {
        const mp_operator *op = &model->operators[readers->list[r]];
        const mp_tensor *y = mp_operator_out(model, op, 0);
        const int last = y ? y->rank - 1 : -1;
        if (last < 0) continue;
        if (op->op->traits & MP_TRAIT_PARTS && op->n_out > 1 && y->dims[last] * op->n_out == t->dims[last] &&
            y->dims[last] % ranks == 0)
            pieces = op->n_out;
        const bool passes = op->op->gradient == MP_GRADIENT_VIEW || op->op->factors == mp_factors_broadcast;
        if (passes && y->dims[last] == t->dims[t->rank - 1])
            pieces = pieces_behind(model, readers, ranks, op->out[0], hops - 1);
    }
    return pieces;
}

int64_t mp_split_pieces_of_columns(const mp_model *model, const mp_consumers *readers, int64_t ranks, int tensor)
{
    enum { HOPS = 4 };
    return model->tensors[tensor].rank ? pieces_behind(model, readers, ranks, tensor, HOPS) : 1;
}

/* Two shapes match if they have the same number of elements (`before`) in the dimensions before the sharded one, multiplied
 * by the number of runs. */
mp_shard mp_split_reshaped(const mp_tensor *from, mp_shard at, const mp_tensor *to)
{
    const mp_shard whole = {.dim = -1, .outer = 1};
    const int64_t *dims = mp_tensor_whole_dims(from), ranks = from->part->ranks;
    int64_t before = at.outer, passed = 1;
    for (int d = 0; d < at.dim; d++) before *= dims[d];
    for (int d = 0; d < to->rank; d++) {
        if (before < passed * to->dims[d] && before % passed == 0) {
            const int64_t outer = before / passed;
            const bool is_same =
                /* true if the dimension has the same size and the same number of runs in both tensors, whether or not the ranks
                 * divide it evenly */
                to->dims[d] == dims[at.dim] && outer == at.outer;
            return is_same || to->dims[d] % (outer * ranks) == 0 ? (mp_shard){d, outer} : whole;
        }
        passed *= to->dims[d];
    }
    return whole;
}
