/* updates.c - where the optimizer's updates stand in an order of all other nodes.
 *
 * An update that is fused into backward runs as soon as nothing reads the old values of what it writes any more, recomputations
 * included, and what it reads is complete. Updates can depend on each other (a node that clips by the global norm): they keep
 * the order of the list, and none goes before one that makes what it reads.
 */
#include "planner/schedule.h"

/* Per storage, a place in the order: the number of steps that come before. */
typedef struct places {
    int64_t *read, *written; /* after the last step that reads it, or writes or adds to it */
} places;

static void see(places *after, const mp_form *form, int64_t place)
{
    for (size_t i = 0; i < form->n_reads; i++)
        if (after->read[form->reads[i]] < place) after->read[form->reads[i]] = place;
    for (size_t i = 0; i < form->n_writes; i++)
        if (after->written[form->writes[i]] < place) after->written[form->writes[i]] = place;
    for (size_t i = 0; i < form->n_adds; i++)
        if (after->written[form->adds[i]] < place) after->written[form->adds[i]] = place;
}

/* The first place for an update fused into backward: behind all whose values it would spoil or lacks. */
static int64_t earliest(const mp_graph *graph, const places *after, const mp_form *form)
{
    int64_t place = 0;
    for (size_t i = 0; i < form->n_reads; i++) {
        const int s = form->reads[i];
        if (after->written[s] > place) place = after->written[s];
        if (graph->storages[s].kind == MP_KIND_GRADIENT && after->read[s] > place) place = after->read[s];
    }
    for (size_t i = 0; i < form->n_writes; i++) {
        const int s = form->writes[i];
        if (after->read[s] > place) place = after->read[s];
        if (after->written[s] > place) place = after->written[s];
    }
    return place;
}

mp_status mp_schedule_updates(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out,
                              mp_error *err)
{
    mp_status st = MP_OK;
    size_t n_updates = 0, at = 0;
    mp_step *all = NULL;
    int *update = NULL;
    int64_t *place = NULL;
    size_t *start = NULL;
    places after = {mp_alloc(graph->n_storages, sizeof *after.read), mp_alloc(graph->n_storages, sizeof *after.written)};
    for (size_t i = 0; i < graph->n_nodes; i++) n_updates += graph->nodes[i].phase == MP_PHASE_UPDATE;
    all = mp_alloc(n + n_updates, sizeof *all);
    update = mp_alloc(n_updates, sizeof *update);
    place = mp_alloc(n_updates, sizeof *place);
    start = mp_alloc(n + 2, sizeof *start);
    MP_REQUIRE(all && update && place && start && after.read && after.written, err, MP_NOMEM,
               "out of memory for a schedule of %zu steps", n + n_updates);

    for (size_t t = 0; t < n; t++) see(&after, &graph->nodes[steps[t].node].forms[steps[t].form], (int64_t)t + 1);
    n_updates = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].phase != MP_PHASE_UPDATE) continue;
        int64_t here = graph->fuse == MP_FUSE_NONE ? (int64_t)n : 0;
        if (graph->fuse == MP_FUSE_BACKWARD) here = earliest(graph, &after, &graph->nodes[i].forms[0]);
        see(&after, &graph->nodes[i].forms[0], here);
        update[n_updates] = (int)i;
        place[n_updates++] = here;
        start[here + 1]++;
    }
    /* Stable counting sort by place: start[p] is where the updates before step p begin among all updates. */
    for (size_t t = 0; t <= n; t++) start[t + 1] += start[t];
    for (size_t t = 0; t < n; t++) all[t + start[t + 1]] = steps[t];
    for (size_t u = 0; u < n_updates; u++) {
        at = start[place[u]]++;
        all[(size_t)place[u] + at] = (mp_step){update[u], 0};
    }
    *out = all;
    *n_out = n + n_updates;
    all = NULL;
done:
    mp_free(all);
    mp_free(update);
    mp_free(place);
    mp_free(start);
    mp_free(after.read);
    mp_free(after.written);
    return st;
}
