/* updates.c - inserts updates into an order of the other nodes, by a counting sort over the earliest place of each update.
 *
 * An update fused into backward runs as soon as its inputs are complete. It also waits until no later step, not even a
 * recomputation, reads the old values that it overwrites. Updates may depend on each other; for example, a node that clips by
 * the global norm reads all gradients. Updates are in list order, and each runs after the producers of its inputs. */
#include "planner/order/updates.h"

#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"

/* Per storage, places in an order of steps after which an update may run. Place 2 k is directly after the first k steps. Place
 * 2 k + 1 is after all updates of place 2 k. It is used for postponed updates. */
typedef struct places {
    /* read: the place after the last step that reads the storage; written: the place after the last step that writes it or adds
     * to it */
    int64_t *read, *written;
} places;

static void see(places *after, const mp_alternative *alternative, int64_t place)
{
    for (size_t i = 0; i < alternative->n_reads; i++)
        if (after->read[alternative->reads[i]] < place) after->read[alternative->reads[i]] = place;
    for (size_t i = 0; i < alternative->n_writes; i++)
        if (after->written[alternative->writes[i]] < place) after->written[alternative->writes[i]] = place;
    for (size_t i = 0; i < alternative->n_adds; i++)
        if (after->written[alternative->adds[i]] < place) after->written[alternative->adds[i]] = place;
}

/* Returns the earliest place of an update that is fused into backward: after all readers of the storages that it overwrites,
 * and after all producers of its inputs. */
static int64_t earliest(const mp_graph *graph, const places *after, const mp_alternative *alternative)
{
    int64_t place = 0;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        const int s = alternative->reads[i];
        if (after->written[s] > place) place = after->written[s];
        if (graph->storages[s].kind == MP_KIND_GRADIENT && after->read[s] > place) place = after->read[s];
    }
    for (size_t i = 0; i < alternative->n_writes; i++) {
        const int s = alternative->writes[i];
        if (after->read[s] > place) place = after->read[s];
        if (after->written[s] > place) place = after->written[s];
    }
    return place;
}

/* Returns the place of an update: the earliest place that the graph's `fuse` allows, or for a postponed update the last
 * place. */
static int64_t find_place(const mp_graph *graph, const places *after, const mp_alternative *alternative, size_t n, bool put_off)
{
    const mp_update_order order = mp_update_order_of(graph);
    const int64_t end = 2 * (int64_t)n, first = order.after_backward ? end : 0, place = earliest(graph, after, alternative);
    if (put_off) return order.after_readers ? end + 1 : 1;
    return place > first ? place : first;
}

/* Inserts the updates into an order of the other steps. put_off[node]: the update is postponed; put_off NULL: no update is. */
static mp_status place_updates(const mp_graph *graph, const mp_step *steps, size_t n, const bool *put_off, mp_step **out,
                               size_t *n_out, mp_error *err)
{
    size_t n_updates = 0;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    places after = {mp_pool_alloc(pool, graph->n_storages, sizeof *after.read),
                    mp_pool_alloc(pool, graph->n_storages, sizeof *after.written)};
    for (size_t i = 0; i < graph->n_nodes; i++) n_updates += graph->nodes[i].phase == MP_PHASE_UPDATE;
    MP_OWNED mp_step *all = mp_alloc(n + n_updates, sizeof *all);
    int *update = mp_pool_alloc(pool, n_updates, sizeof *update);
    int64_t *place = mp_pool_alloc(pool, n_updates, sizeof *place);
    size_t *start = mp_pool_alloc(pool, 2 * n + 3, sizeof *start);
    MP_ENSURE(all && !mp_pool_failed(pool), err, MP_NOMEM, "out of memory for a schedule of %zu steps", n + n_updates);

    for (size_t t = 0; t < n && mp_update_order_of(graph).after_readers; t++)
        see(&after, &graph->nodes[steps[t].node].alternatives[steps[t].alternative], 2 * (int64_t)mp_step_end(steps, (int)t));
    n_updates = 0;
    /* the first half of the loop visits copies that bring state to the device, because updates wait for them, although they are
     * last in the node list */
    for (size_t k = 0; k < 2 * graph->n_nodes; k++) {
        const size_t i = k % graph->n_nodes;
        const bool brings_state = mp_copy_way_of(graph, (int)i, 0) == MP_COPY_IN;
        if (graph->nodes[i].phase != MP_PHASE_UPDATE || brings_state != (k < graph->n_nodes)) continue;
        const mp_alternative *alternative = &graph->nodes[i].alternatives[0];
        const int64_t here = find_place(graph, &after, alternative, n, put_off && put_off[i]);
        see(&after, alternative, here);
        update[n_updates] = (int)i;
        place[n_updates++] = here;
        start[here + 1]++;
    }
    /* counting sort by place, which keeps the order of updates with equal places: start[p] is the index of the first update
     * with place p */
    for (size_t p = 0; p <= 2 * n + 1; p++) start[p + 1] += start[p];
    for (size_t t = 0; t < n; t++) {
        mp_step *step = &all[t + start[2 * t + 2]];
        const int end = mp_step_end(steps, (int)t);
        *step = steps[t];
        /* the step that waits for an issued step is placed before the updates with the same place */
        if (mp_step_is_issued(*step)) mp_steps_issue(step, 0, 1, end + (int)start[2 * end]);
    }
    for (size_t u = 0; u < n_updates; u++) {
        const size_t at = start[place[u]]++;
        all[(size_t)place[u] / 2 + at] = (mp_step){.node = update[u]};
    }
    *out = all;
    *n_out = n + n_updates;
    all = NULL;
    return MP_OK;
}

mp_status mp_updates_place(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err)
{
    return place_updates(graph, steps, n, NULL, out, n_out, err);
}

/* Marks as postponed every update at whose step the live bytes exceed the budget. Returns false if all these updates were
 * marked before. */
static bool put_off_more(const mp_graph *graph, const mp_step *steps, const mp_timeline *timeline, int64_t budget_bytes,
                         bool *put_off)
{
    bool any = false;
    const int64_t room = budget_bytes - timeline->static_bytes;
    for (size_t t = 0; t < timeline->n_steps; t++) {
        const int node = steps[t].node;
        if (graph->nodes[node].phase != MP_PHASE_UPDATE || put_off[node] || timeline->live_bytes[t] <= room) continue;
        any = put_off[node] = true;
    }
    return any;
}

mp_status mp_updates_place_within(const mp_graph *graph, const mp_step *steps, size_t n, int64_t budget_bytes, mp_step **out,
                                  size_t *n_out, mp_error *err)
{
    MP_OWNED bool *put_off = mp_alloc(graph->n_nodes, sizeof *put_off);
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED mp_step *all = NULL;
    MP_ENSURE(put_off, err, MP_NOMEM, "out of memory for %zu nodes", graph->n_nodes);
    MP_CHECK(place_updates(graph, steps, n, NULL, &all, n_out, err));
    for (int round = 0; round < 4; round++) {
        mp_timeline_free(timeline);
        timeline = NULL;
        MP_CHECK(mp_timeline_build(graph, all, *n_out, &timeline, err));
        if (timeline->peak_bytes <= budget_bytes || !put_off_more(graph, all, timeline, budget_bytes, put_off)) break;
        mp_free(all);
        all = NULL;
        MP_CHECK(place_updates(graph, steps, n, put_off, &all, n_out, err));
    }
    *out = all;
    all = NULL;
    return MP_OK;
}

mp_status mp_updates_place_early(const mp_graph *graph, mp_step **out, size_t *n_out, mp_error *err)
{
    MP_OWNED mp_step *others = mp_alloc(graph->n_nodes, sizeof *others);
    size_t n_others = 0;
    MP_ENSURE(others, err, MP_NOMEM, "%zu steps", graph->n_nodes);
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (graph->nodes[k].phase != MP_PHASE_UPDATE) others[n_others++] = (mp_step){.node = (int)k};
    return mp_updates_place(graph, others, n_others, out, n_out, err);
}
