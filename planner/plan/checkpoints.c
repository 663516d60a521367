/* checkpoints.c - finds the checkpoints that a user must set in order to follow a plan, in one pass over the plan's steps. */
#include "memplan/studies/checkpoints.h"

#include "estimator/graph/liveness.h"

/* Properties of a storage, one bit each. MADE: it was produced. MADE_AGAIN: it was produced again. STARTS: a recomputation
 * starts from it. KEPT: it is kept for backward. BEHIND: it is computed from recomputed storages. */
enum { MADE = 1, MADE_AGAIN = 2, STARTS = 4, KEPT = 8, BEHIND = 16 };

/* True if storage s is produced on a channel other than compute: data of other ranks or of another tier. */
static bool is_transferred(const mp_graph *graph, int s)
{
    const int producer = graph->producer[s];
    return producer >= 0 && graph->nodes[producer].alternatives[0].channel > MP_CHANNEL_SECOND_STREAM;
}

/* True if a node does nothing but copy gathered parameters from the buffer of their gather. */
static bool copies_out(const mp_graph *graph, const mp_node *node)
{
    const mp_alternative *a = &node->alternatives[0];
    if (a->n_reads != 1 || a->ticks || !is_transferred(graph, a->reads[0])) return false;
    const mp_collective_record *record = graph->nodes[graph->producer[a->reads[0]]].collective;
    return record && record->n_legs && record->legs[0].kind == MP_ALL_GATHER;
}

/* True if storage s is an activation. Gathered parameters are not. */
static bool is_activation(const mp_graph *graph, int s)
{
    const int producer = graph->producer[s];
    const mp_kind kind = graph->storages[s].kind;
    return !mp_storage_is_static(&graph->storages[s]) && graph->storages[s].tier == MP_TIER_DEVICE && kind != MP_KIND_SAVED &&
           producer >= 0 && graph->nodes[producer].phase == MP_PHASE_FORWARD && !is_transferred(graph, s) &&
           !copies_out(graph, &graph->nodes[producer]);
}

/* Marks with BEHIND the storages that are computed from a recomputed storage, directly or through storages that are neither
 * kept nor recomputed. */
static void mark_behind(const mp_graph *graph, unsigned char *seen)
{
    for (size_t k = 0; k < graph->n_nodes; k++) {
        const mp_alternative *a = &graph->nodes[k].alternatives[0];
        bool behind = false;
        for (size_t r = 0; r < a->n_reads && !behind; r++) {
            const unsigned char read = seen[a->reads[r]];
            behind = read & MADE_AGAIN || (read & BEHIND && !(read & (KEPT | STARTS)));
        }
        for (size_t w = 0; w < a->n_writes && behind; w++) seen[a->writes[w]] |= BEHIND;
    }
}

mp_status mp_checkpoints_find(const mp_graph *graph, const mp_plan *plan, mp_checkpoints_to_set *out, mp_error *err)
{
    MP_OWNED unsigned char *seen = mp_alloc(graph->n_storages, sizeof *seen);
    MP_CLEARED_BY(mp_checkpoints_free)
    mp_checkpoints_to_set found = {.storages = mp_alloc(graph->n_storages, sizeof *found.storages)};
    MP_ENSURE(seen && found.storages, err, MP_NOMEM, "%zu storages", graph->n_storages);
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_step *step = &plan->steps[t];
        const mp_node *node = &graph->nodes[step->node];
        const mp_alternative *a = &node->alternatives[step->alternative];
        const bool again = plan->recompute && plan->recompute[t] && !a->returns;
        found.n_recomputed += again;
        for (size_t k = 0; k < a->n_reads; k++) {
            unsigned char *s = &seen[a->reads[k]];
            if (*s & MADE_AGAIN) continue;
            if (again && *s & MADE) *s |= STARTS;
            if (node->phase == MP_PHASE_BACKWARD && *s & MADE) *s |= KEPT;
        }
        for (size_t k = 0; k < a->n_writes; k++) seen[a->writes[k]] |= again ? MADE | MADE_AGAIN : MADE;
    }
    mark_behind(graph, seen);
    for (size_t k = 0; k < graph->n_nodes; k++) {
        const mp_alternative *a = &graph->nodes[k].alternatives[0];
        for (size_t w = 0; w < a->n_writes; w++) {
            const int s = a->writes[w];
            if (!is_activation(graph, s) || !(seen[s] & (STARTS | KEPT))) continue;
            if (seen[s] & (STARTS | BEHIND))
                found.storages[found.n++] = s;
            else
                found.n_beside++;
        }
    }
    *out = found;
    found = (mp_checkpoints_to_set){0};
    return MP_OK;
}

void mp_checkpoints_free(mp_checkpoints_to_set *set)
{
    mp_free(set->storages);
    *set = (mp_checkpoints_to_set){0};
}
