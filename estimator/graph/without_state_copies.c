/* without_state_copies.c - copies a graph without its copies of state and the storages that these copies produce. */
#include "estimator/graph/without_state_copies.h"

#include <string.h>

#include "estimator/graph/liveness.h"

static bool comes_from_tier(const mp_graph *graph, int s)
{
    return graph->producer[s] >= 0 && mp_node_copies_state(graph, graph->producer[s]);
}

/* Removes from the lists of an alternative all storages that copies of state produce. The lists belong to the new graph, so
 * they may be changed. */
static void leave_out(const mp_graph *graph, mp_alternative *a)
{
    size_t n_reads = 0, n_pairs = 0;
    for (size_t i = 0; i < a->n_reads; i++)
        if (!comes_from_tier(graph, a->reads[i])) a->reads[n_reads++] = a->reads[i];
    for (size_t i = 0; i < a->n_in_place; i++)
        if (!comes_from_tier(graph, a->in_place[i].from)) a->in_place[n_pairs++] = a->in_place[i];
    a->n_reads = n_reads;
    a->n_in_place = n_pairs;
}

static mp_status copy_node(const mp_graph *graph, int v, mp_graph *out, mp_error *err)
{
    mp_node *node;
    MP_CHECK(mp_graph_node(out, &node, err));
    *node = graph->nodes[v];
    node->alternatives = mp_pool_alloc(out->pool, node->n_alternatives, sizeof *node->alternatives);
    MP_ENSURE(node->alternatives, err, MP_NOMEM, "no memory for the graph '%s' without its state", graph->name);
    for (size_t k = 0; k < node->n_alternatives; k++) {
        mp_alternative *a = &node->alternatives[k];
        *a = graph->nodes[v].alternatives[k];
        if (node->phase != MP_PHASE_UPDATE) continue;
        mp_in_place *pairs = mp_pool_alloc(out->pool, a->n_in_place, sizeof *pairs);
        a->reads = mp_graph_list(out, a->reads, a->n_reads);
        MP_ENSURE(a->reads && pairs, err, MP_NOMEM, "no memory for the graph '%s' without its state", graph->name);
        if (a->n_in_place) memcpy(pairs, a->in_place, a->n_in_place * sizeof *pairs);
        a->in_place = pairs;
        leave_out(graph, a);
    }
    return MP_OK;
}

static bool copies_more(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t k = 0; k < graph->nodes[v].n_alternatives; k++)
            if (!mp_node_copies_state(graph, (int)v) && mp_copy_way_of(graph, (int)v, (int)k) != MP_COPY_NONE) return true;
    return false;
}

/* Returns the number of channels that are needed if the graph has only its first n nodes. */
static size_t channels_of(const mp_graph *graph, size_t n)
{
    size_t channels = 0;
    for (size_t v = 0; v < n; v++)
        for (size_t k = 0; k < graph->nodes[v].n_alternatives; k++) {
            const size_t channel = (size_t)graph->nodes[v].alternatives[k].channel;
            if (channel >= channels) channels = channel + 1;
        }
    return channels;
}

mp_status mp_graph_without_state_copies(const mp_graph *graph, mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    const bool has_tiers = copies_more(graph);
    const size_t n = graph->n_nodes - mp_graph_n_state_copies(graph);
    const size_t n_channels =
        has_tiers ? graph->n_channels : channels_of(graph, n); /* collectives keep their channel numbers */
    int number;
    MP_CHECK(mp_graph_new(graph->name, &without_state, err));
    without_state->options = graph->options;
    without_state->target = graph->target;
    without_state->alignment = graph->alignment;
    without_state->tick_seconds = graph->tick_seconds;
    without_state->fuse = graph->fuse;
    for (size_t k = without_state->n_channels; k < n_channels; k++)
        MP_CHECK(mp_graph_channel(without_state, graph->channels[k], &number, err));
    for (size_t k = without_state->n_tiers; has_tiers && k < graph->n_tiers; k++)
        MP_CHECK(mp_graph_tier(without_state, graph->tiers[k], &number, err));
    for (size_t s = 0; s < graph->n_storages; s++) {
        mp_storage *storage;
        MP_CHECK(mp_graph_storage(without_state, &storage, err));
        *storage = graph->storages[s];
        if (has_tiers || storage->tier == MP_TIER_DEVICE) continue;
        storage->bytes = storage->payload_bytes = 0;
        storage->tier = MP_TIER_DEVICE;
    }
    for (size_t v = 0; v < n; v++) MP_CHECK(copy_node(graph, (int)v, without_state, err));
    MP_CHECK(mp_graph_finish(without_state, err));
    *out = without_state;
    without_state = NULL;
    return MP_OK;
}

mp_status mp_keep_all_ticks(const mp_graph *graph, int64_t *ticks, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "no memory for a schedule of %zu steps", graph->n_nodes);
    if (mp_graph_n_state_copies(graph)) MP_CHECK(mp_graph_without_state_copies(graph, &without_state, err));
    const mp_graph *kept = without_state ? without_state : graph; /* keep-all of `graph` would copy all optimizer state, but the
                                                        training step as the user wrote it copies no state */
    MP_CHECK(mp_timeline_build(kept, steps, mp_keep_all(kept, steps), &timeline, err));
    *ticks = timeline->ticks;
    return MP_OK;
}

size_t mp_steps_leave_out(const mp_graph *graph, mp_step *steps, size_t n, bool (*is_out)(const mp_graph *graph, int node),
                          int *at)
{
    size_t left = 0;
    for (size_t t = 0; t < n; t++) {
        at[t] = (int)left;
        left += !is_out(graph, steps[t].node);
    }
    at[n] = (int)left;
    for (size_t t = 0; t < n; t++) {
        if (is_out(graph, steps[t].node)) continue;
        mp_step *step = &steps[at[t]];
        *step = steps[t];
        if (mp_step_is_issued(*step)) mp_steps_issue(step, 0, 1, at[step->until]);
    }
    return left;
}
