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

size_t mp_state_copies_of(const mp_graph *graph, int update, bool is_in, mp_step *steps)
{
    const mp_alternative *a = &graph->nodes[update].alternatives[0];
    size_t n = 0;
    for (size_t i = 0; is_in && i < a->n_reads; i++) {
        const int maker = graph->producer[a->reads[i]];
        if (maker >= 0 && mp_node_copies_state(graph, maker)) steps[n++] = (mp_step){.node = maker};
    }
    for (size_t i = 0; !is_in && i < a->n_writes; i++)
        for (int r = graph->readers_start[a->writes[i]]; r < graph->readers_start[a->writes[i] + 1]; r++)
            if (mp_node_copies_state(graph, graph->readers[r])) steps[n++] = (mp_step){.node = graph->readers[r]};
    return n;
}

int mp_state_updated(const mp_graph *graph, int s)
{
    const int maker = graph->producer[s];
    if (maker < 0 || !mp_node_copies_state(graph, maker)) return s;
    const mp_in_place *pair = graph->nodes[graph->readers[graph->readers_start[s]]].alternatives[0].in_place;
    while (pair->from != s) pair++;
    return pair->to;
}

int mp_state_home(const mp_graph *graph, int s)
{
    const int producer = graph->producer[s];
    if (mp_storage_is_static(&graph->storages[s])) return s;
    if (producer >= 0 && mp_node_copies_state(graph, producer)) return graph->nodes[producer].alternatives[0].reads[0];
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
        if (mp_node_copies_state(graph, graph->readers[r])) return graph->nodes[graph->readers[r]].alternatives[0].writes[0];
    return s;
}
