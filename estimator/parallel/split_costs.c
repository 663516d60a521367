/* split_costs.c - computes the time of the exchanges between the ranks of a split model. */
#include "estimator/parallel/split.h"
#include "estimator/parallel/statistics.h"
#include "estimator/training/target.h"

/* Returns the bytes of the whole tensor of an exchange: its operand or its result, whichever is not sharded. */
static int64_t whole_bytes(const mp_work *work)
{
    const mp_tensor *x = mp_operator_in(work->model, work->op, 0), *y = mp_operator_out(work->model, work->op, 0);
    const int64_t n = mp_tensor_elements(x), of_y = mp_tensor_elements(y);
    return (n > of_y ? n : of_y) * mp_dtype_bits(work->bindings->dtype[work->op->out[0]]) / 8;
}

void mp_split_cost(const mp_ranks *ranks, const mp_work *work, mp_cost *cost, mp_rank_traffic *traffic)
{
    const mp_crossing crossing = work->op ? work->op->op->crosses[work->phase == MP_PHASE_BACKWARD] : MP_CROSSES_NOTHING;
    const mp_rank_group of_tp = mp_mesh_group(&ranks->mesh, MP_DIM_TP);
    if (crossing != MP_CROSSES_NOTHING) {
        static const mp_collective collectives[] = {[MP_CROSSES_ALL_REDUCE] = MP_ALL_REDUCE,
                                                    [MP_CROSSES_ALL_GATHER] = MP_ALL_GATHER,
                                                    [MP_CROSSES_REDUCE_SCATTER] = MP_REDUCE_SCATTER,
                                                    [MP_CROSSES_ALL_TO_ALL] = MP_ALL_TO_ALL};
        const bool is_of_experts = crossing == MP_CROSSES_ALL_TO_ALL;
        const mp_rank_group group = is_of_experts ? mp_mesh_group(&ranks->mesh, MP_DIM_EP) : of_tp;
        const int64_t bytes = whole_bytes(work);
        cost->seconds = mp_collective_seconds(&ranks->network, collectives[crossing], ranks->algorithm, group, bytes);
        traffic->n_collectives++;
        traffic->seconds += cost->seconds;
        traffic->sent_bytes += mp_collective_sent_bytes(collectives[crossing], group.n, bytes);
        return;
    }
    const int64_t statistics = work->op ? mp_statistics_bytes(work->model, work->op) : 0;
    if (statistics) {
        const mp_rank_group sharers = mp_statistics_group(&ranks->mesh);
        const double seconds = mp_collective_seconds(&ranks->network, MP_ALL_GATHER, ranks->algorithm, sharers, statistics);
        cost->seconds += seconds;
        traffic->n_collectives++;
        traffic->seconds += seconds;
        traffic->sent_bytes += mp_collective_sent_bytes(MP_ALL_GATHER, sharers.n, statistics);
    }
    const mp_tensor *scores =
        work->op && work->op->op->traits & MP_TRAIT_CLASSES ? mp_operator_in(work->model, work->op, 0) : NULL;
    if (scores && scores->part && scores->part->dim == 1 && work->phase == MP_PHASE_LOSS) {
        /* values that ranks exchange per label: the largest score, the sum of exponentials, and the score of the target */
        const int64_t lines = mp_tensor_elements(scores) / (scores->dims[1] ? scores->dims[1] : 1);
        cost->seconds +=
            3 * mp_collective_seconds(&ranks->network, MP_ALL_REDUCE, ranks->algorithm, of_tp, lines * (int64_t)sizeof(float));
    }
}

static mp_status cost_of_split(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err)
{
    mp_split_target *x = target->details;
    MP_CHECK(x->own->cost(x->own, work, cost, err));
    mp_split_cost(x->ranks, work, cost, &x->traffic);
    return MP_OK;
}

mp_target mp_target_of_split(mp_split_target *space)
{
    mp_target target = *space->own;
    target.cost = cost_of_split;
    target.details = space;
    return target;
}
