/* split_costs.c - what exchanges between the ranks of a split model cost. */
#include "estimator/parallel/split.h"
#include "estimator/training/target.h"

/* Returns the bytes of an exchange's whole tensor: of its operand, or of its result. */
static int64_t whole_bytes(const mp_work *work)
{
    const mp_tensor *x = mp_operator_in(work->model, work->op, 0), *y = mp_operator_out(work->model, work->op, 0);
    const int64_t n = mp_tensor_elements(x), of_y = mp_tensor_elements(y);
    return (n > of_y ? n : of_y) * mp_dtype_bits(work->bindings->dtype[work->op->out[0]]) / 8;
}

static mp_status cost_of_split(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err)
{
    mp_split_target *x = target->details;
    const mp_crossing crossing = work->op ? work->op->op->crosses[work->phase == MP_PHASE_BACKWARD] : MP_CROSSES_NOTHING;
    MP_CHECK(x->own->cost(x->own, work, cost, err));
    if (crossing != MP_CROSSES_NOTHING) {
        static const mp_collective collectives[] = {[MP_CROSSES_ALL_REDUCE] = MP_ALL_REDUCE,
                                                    [MP_CROSSES_ALL_GATHER] = MP_ALL_GATHER,
                                                    [MP_CROSSES_REDUCE_SCATTER] = MP_REDUCE_SCATTER,
                                                    [MP_CROSSES_ALL_TO_ALL] = MP_ALL_TO_ALL};
        const bool is_of_experts = crossing == MP_CROSSES_ALL_TO_ALL;
        const mp_rank_group group = is_of_experts ? mp_mesh_group(&x->ranks->mesh, MP_DIM_EP) : x->split->group;
        const int64_t bytes = whole_bytes(work);
        cost->seconds = mp_collective_seconds(&x->ranks->network, collectives[crossing], x->ranks->algorithm, group, bytes);
        x->traffic.n_collectives++;
        x->traffic.seconds += cost->seconds;
        x->traffic.sent_bytes += mp_collective_sent_bytes(collectives[crossing], group.n, bytes);
        return MP_OK;
    }
    const int scores = work->op && work->op->op->traits & MP_TRAIT_CLASSES ? work->op->in[0] : -1;
    if (scores >= 0 && x->split->placements && x->split->placements[scores].dim == 1 && work->phase == MP_PHASE_LOSS) {
        const mp_tensor *t = &work->model->tensors[scores]; /* the largest score, the sum and the target's score of each line */
        const int64_t lines = mp_tensor_elements(t) / (t->dims[1] ? t->dims[1] : 1);
        cost->seconds += 3 * mp_collective_seconds(&x->ranks->network, MP_ALL_REDUCE, x->ranks->algorithm, x->split->group,
                                                   lines * (int64_t)sizeof(float));
    }
    return MP_OK;
}

mp_target mp_target_of_split(mp_split_target *space)
{
    mp_target target = *space->own;
    target.cost = cost_of_split;
    target.details = space;
    return target;
}
