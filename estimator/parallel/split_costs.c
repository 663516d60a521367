/* split_costs.c - records the collectives of the operators of a split model, and computes their time. */
#include "estimator/parallel/split.h"

#include <string.h>

#include "estimator/graph/collective.h"
#include "estimator/parallel/statistics.h"
#include "estimator/training/target.h"

/* Returns the bytes of the whole tensor of an exchange: its operand or its result, whichever is not sharded. */
static int64_t whole_bytes(const mp_work *work)
{
    const mp_tensor *x = mp_operator_in(work->model, work->op, 0), *y = mp_operator_out(work->model, work->op, 0);
    const int64_t n = mp_tensor_elements(x), of_y = mp_tensor_elements(y);
    return (n > of_y ? n : of_y) * mp_dtype_bits(work->bindings->dtype[work->op->out[0]]) / 8;
}

int64_t mp_class_loss_ranks(const mp_model *model, const mp_operator *op)
{
    const mp_tensor_part *part = op->op->traits & MP_TRAIT_CLASSES ? model->tensors[op->in[0]].part : NULL;
    return part && part->dim == 1 ? part->ranks : 1;
}

int64_t mp_class_loss_sharers(const mp_model *model, const mp_operator *op)
{
    const mp_tensor_part *part = op->op->traits & MP_TRAIT_CLASSES ? model->tensors[op->in[0]].part : NULL;
    return part && part->dim != 1 && !model->tensors[op->out[0]].rank ? part->ranks : 1;
}

bool mp_class_loss_is_counted(const mp_operator *op)
{
    const bool is_mean = !strcmp(mp_operator_text(op, "reduction", "mean"), "mean");
    return is_mean && (mp_operator_attribute(op, "ignore_index") || (op->n_in > 2 && op->in[2] >= 0));
}

/* Adds the collectives of a loss over classes. memplan's executor gathers the largest score, the sum of exponentials and the
 * score of the target in one collective. PyTorch reduces each of them as a float. */
static void add_class_loss(const mp_ranks *ranks, const mp_work *work, mp_collective_record *r)
{
    const bool is_executor = ranks->rules == MP_RULES_EXECUTOR;
    const mp_rank_group tp = mp_mesh_group(&ranks->mesh, MP_DIM_TP);
    const int64_t sharers = mp_class_loss_sharers(work->model, work->op);
    const mp_tensor *scores = mp_operator_in(work->model, work->op, 0);
    const int64_t lines = mp_tensor_elements(scores) / (scores->rank > 1 && scores->dims[1] ? scores->dims[1] : 1);
    if (sharers > 1 && is_executor && mp_class_loss_is_counted(work->op)) {
        r->element_bytes = sizeof(double);
        mp_collective_add(r, &ranks->network, ranks->algorithm, MP_ALL_GATHER, MP_DIM_TP, tp, sharers * r->element_bytes);
    }
    if (mp_class_loss_ranks(work->model, work->op) == 1 || work->phase == MP_PHASE_BACKWARD) return;
    r->element_bytes = is_executor ? MP_CLASS_PART_BYTES : (int64_t)sizeof(float);
    if (is_executor) {
        mp_collective_add(r, &ranks->network, ranks->algorithm, MP_ALL_GATHER, MP_DIM_TP, tp,
                          tp.n * lines * MP_CLASS_PART_BYTES);
        return;
    }
    for (int k = 0; k < 3; k++)
        mp_collective_add(r, &ranks->network, ranks->algorithm, MP_ALL_REDUCE, MP_DIM_TP, tp, lines * r->element_bytes);
}

void mp_split_cost(const mp_ranks *ranks, const mp_work *work, mp_cost *cost)
{
    static const mp_collective kinds[] = {[MP_OPERATOR_ALL_REDUCE] = MP_ALL_REDUCE,
                                          [MP_OPERATOR_ALL_GATHER] = MP_ALL_GATHER,
                                          [MP_OPERATOR_REDUCE_SCATTER] = MP_REDUCE_SCATTER,
                                          [MP_OPERATOR_ALL_TO_ALL] = MP_ALL_TO_ALL};
    mp_collective_record *r = &cost->collective;
    *r = (mp_collective_record){.member = -1};
    if (!work->op) return;
    const mp_operator_collective collective = work->op->op->collectives[work->phase == MP_PHASE_BACKWARD];
    if (collective != MP_OPERATOR_NOTHING) {
        const mp_dim dim = collective == MP_OPERATOR_ALL_TO_ALL ? MP_DIM_EP : MP_DIM_TP;
        r->element_bytes = mp_dtype_bits(work->bindings->dtype[work->op->out[0]]) / 8;
        mp_collective_add(r, &ranks->network, ranks->algorithm, kinds[collective], dim, mp_mesh_group(&ranks->mesh, dim),
                          whole_bytes(work));
        cost->seconds = r->legs[0].seconds;
        return;
    }
    const int64_t statistics = mp_statistics_bytes(work->model, work->op);
    if (statistics) {
        const mp_rank_group sharers = mp_statistics_group(&ranks->mesh);
        r->element_bytes = statistics / sharers.n;
        mp_collective_add(r, &ranks->network, ranks->algorithm, MP_ALL_GATHER, MP_DIM_DP, sharers, statistics);
    }
    if (work->op->op->traits & MP_TRAIT_CLASSES) add_class_loss(ranks, work, r);
    cost->seconds += mp_collective_record_seconds(r);
}

static mp_status cost_of_split(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err)
{
    mp_split_target *x = target->details;
    MP_CHECK(x->own->cost(x->own, work, cost, err));
    mp_split_cost(x->ranks, work, cost);
    return MP_OK;
}

mp_target mp_target_of_split(mp_split_target *space)
{
    mp_target target = *space->own;
    target.cost = cost_of_split;
    target.details = space;
    return target;
}
