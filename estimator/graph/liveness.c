/* liveness.c - in-place pairs: which an alternative takes from its base, and the most that they save in any order of steps. */
#include "estimator/graph/liveness.h"

bool mp_pair_is_inherited(const mp_alternative *alternative, mp_in_place pair)
{
    bool reads = false, makes = false;
    for (size_t i = 0; i < alternative->n_reads; i++) reads |= alternative->reads[i] == pair.from;
    for (size_t i = 0; i < alternative->n_writes; i++) makes |= alternative->writes[i] == pair.to;
    for (size_t i = 0; i < alternative->n_adds; i++) makes |= alternative->adds[i] == pair.to;
    return reads && makes;
}

mp_pairs_most mp_pairs_save_at_most(const mp_graph *graph, const mp_alternative *alternative,
                                    bool (*may_apply)(const void *data, mp_in_place pair), const void *data, int64_t *best)
{
    mp_pairs_most most = {0};
    mp_in_place p;
    for (size_t at = 0; mp_pair_next(graph, alternative, &at, &p);) {
        const int64_t bytes = graph->storages[p.to].bytes;
        if (!may_apply(data, p)) continue;
        if (!best[p.to]) most.outputs_bytes += best[p.to] = bytes;
        if (bytes > best[p.from]) {
            most.inputs_bytes += bytes - best[p.from];
            best[p.from] = bytes;
        }
    }
    for (size_t at = 0; mp_pair_next(graph, alternative, &at, &p);) best[p.from] = best[p.to] = 0;
    return most;
}
