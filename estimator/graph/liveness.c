/* liveness.c - the most that in-place pairs can save, whatever the order of steps. */
#include "estimator/graph/liveness.h"

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
