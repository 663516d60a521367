/* liveness.c - in-place pairs: which pairs an alternative inherits from the base alternative, and an upper bound on the
 * memory that pairs save. */
#include "estimator/graph/liveness.h"

#include <string.h>

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

mp_status mp_in_place_copy(mp_graph *graph, const mp_alternative *from, const int *number, mp_alternative *to, mp_error *err)
{
    to->n_in_place = 0;
    MP_ENSURE(to->in_place = mp_pool_alloc(graph->pool, from->n_in_place, sizeof *to->in_place), err, MP_NOMEM,
              "no memory for a part of '%s'", graph->name);
    for (size_t k = 0; k < from->n_in_place; k++) {
        const mp_in_place pair = {number[from->in_place[k].from], number[from->in_place[k].to]};
        if (pair.from >= 0 && pair.to >= 0) to->in_place[to->n_in_place++] = pair;
    }
    return MP_OK;
}

mp_status mp_graph_like(const mp_graph *of, mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    int number;
    MP_CHECK(mp_graph_new(of->name, &graph, err));
    graph->alignment = of->alignment;
    graph->tick_seconds = of->tick_seconds;
    graph->fuse = of->fuse;
    graph->options = mp_pool_text(graph->pool, of->options, strlen(of->options));
    graph->target = mp_pool_text(graph->pool, of->target, strlen(of->target));
    if (!graph->options || !graph->target) return MP_NO_MEMORY(err);
    for (size_t c = MP_CHANNEL_SECOND_STREAM + 1; c < of->n_channels; c++)
        MP_CHECK(mp_graph_channel(graph, of->channels[c], &number, err));
    *out = graph;
    graph = NULL;
    return MP_OK;
}

mp_status mp_graph_channel_named(mp_graph *graph, const char *name, int *number, mp_error *err)
{
    for (size_t c = 0; c < graph->n_channels; c++) {
        if (strcmp(graph->channels[c], name)) continue;
        *number = (int)c;
        return MP_OK;
    }
    return mp_graph_channel(graph, name, number, err);
}
