/* collective.c - builds the records of collectives, and computes the bytes that a rank sends in a training step. */
#include "estimator/graph/collective.h"

#include "memplan/timeline.h"

void mp_collective_add(mp_collective_record *record, const mp_interconnect *network, mp_algorithm algorithm, mp_collective kind,
                       mp_dim dim, mp_rank_group group, int64_t bytes)
{
    record->legs[record->n_legs++] =
        (mp_collective_leg){.kind = kind,
                            .dim = dim,
                            .n_ranks = group.n,
                            .bytes = bytes,
                            .seconds = mp_collective_seconds(network, kind, algorithm, group, bytes)};
}

void mp_collective_add_send(mp_collective_record *record, const mp_interconnect *network, mp_algorithm algorithm,
                            const mp_mesh *mesh, mp_rank_group stages, int64_t bytes)
{
    const mp_rank_group tp = mp_mesh_group(mesh, MP_DIM_TP);
    const bool scatters = mp_mesh_scatters(mesh);
    mp_collective_add(record, network, algorithm, MP_SEND, MP_DIM_PP, stages, scatters ? (bytes + tp.n - 1) / tp.n : bytes);
    if (scatters) mp_collective_add(record, network, algorithm, MP_ALL_GATHER, MP_DIM_TP, tp, bytes);
}

double mp_collective_record_seconds(const mp_collective_record *record)
{
    double seconds = 0;
    for (size_t k = 0; k < record->n_legs; k++) seconds += record->legs[k].seconds;
    return seconds;
}

const mp_collective_leg *mp_collective_leg_over(const mp_collective_record *record, mp_dim dim)
{
    for (size_t k = 0; record && k < record->n_legs; k++)
        if (record->legs[k].dim == dim) return &record->legs[k];
    return NULL;
}

/* Returns the bytes that a rank sends on average in one run of a record. */
static int64_t mean_sent(const mp_collective_record *r)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < r->n_legs; k++) {
        const mp_collective_leg *leg = &r->legs[k];
        bytes += mp_collective_sent_bytes(leg->kind, leg->n_ranks, leg->bytes);
    }
    return bytes;
}

/* Returns the elements that member `index` of a leg sends for a tensor of n elements. */
static int64_t elements_sent(const mp_collective_leg *leg, int64_t n, int64_t index)
{
    const int64_t own = mp_range_of(n, leg->n_ranks, index).n, others = leg->n_ranks - 1;
    if (!others) return 0;
    switch (leg->kind) {
    case MP_ALL_REDUCE:
        return n - own + others * own;
    case MP_REDUCE_SCATTER:
    case MP_ALL_TO_ALL:
        return n - own;
    case MP_ALL_GATHER:
        return others * own;
    default:
        return n;
    }
}

/* If leg k sends this rank's part of a tensor, returns the leg that gathers the tensor. Otherwise returns NULL. */
static const mp_collective_leg *gather_after(const mp_collective_record *r, size_t k)
{
    return r->legs[k].kind == MP_SEND && k + 1 < r->n_legs ? &r->legs[k + 1] : NULL;
}

/* Returns the bytes that a rank sends in one run of a record, for one tensor of n elements. */
static int64_t tensor_sent(const mp_collective_record *r, int64_t n, int64_t element_bytes, const mp_traffic_rank *rank)
{
    int64_t elements = 0;
    for (size_t k = 0; k < r->n_legs; k++) {
        const mp_collective_leg *leg = &r->legs[k];
        const int64_t index = r->member < 0 ? rank->index[leg->dim] : r->member;
        const mp_collective_leg *gather = gather_after(r, k);
        elements += gather ? mp_range_of(n, gather->n_ranks, rank->index[gather->dim]).n : elements_sent(leg, n, index);
        if (leg->kind == MP_REDUCE_SCATTER) n = mp_range_of(n, leg->n_ranks, index).n;
    }
    return elements * element_bytes;
}

int64_t mp_collective_record_sent(const mp_graph *graph, const mp_collective_record *r, const mp_traffic_rank *rank)
{
    if (r->receives) return 0;
    if (!rank) return mean_sent(r);
    const int64_t element = r->element_bytes ? r->element_bytes : rank->element_bytes;
    int64_t bytes = 0;
    const mp_collective_leg *gather = gather_after(r, 0);
    if (!r->wholes) return tensor_sent(r, (gather ? gather : r->legs)->bytes / element, element, rank);
    for (size_t k = 0; k < r->n_moved; k++)
        bytes += tensor_sent(r, graph->storages[r->wholes[k]].payload_bytes / element, element, rank);
    return bytes;
}

void mp_traffic_of(const mp_graph *graph, const mp_step *steps, size_t n, int64_t n_passes, const mp_traffic_rank *rank,
                   mp_rank_traffic *out)
{
    *out = (mp_rank_traffic){0};
    for (size_t t = 0; t < n; t++) {
        const mp_collective_record *r = graph->nodes[steps[t].node].collective;
        if (!r || r->receives || mp_copy_way_of(graph, steps[t].node, steps[t].alternative) != MP_COPY_NONE) continue;
        const int64_t times = r->once ? 1 : n_passes;
        out->n_collectives += (size_t)times;
        out->sent_bytes += times * mp_collective_record_sent(graph, r, rank);
        out->seconds += (double)times * mp_collective_record_seconds(r);
    }
}

bool mp_exchanges_gradient(const mp_node *node)
{
    return node->phase == MP_PHASE_BACKWARD && mp_collective_leg_over(node->collective, MP_DIM_TP) && !node->collective->wholes;
}
