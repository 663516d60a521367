/* plan_checkpoints.c - finds the checkpoints that a user must set in order to follow a plan, in one pass over the plan's
 * steps. */
#include "cli/reports/plan.h"

#include <stdio.h>

#include "cli/messages/screen.h"
#include "cli/reports/tensor_rows.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"

/* Facts about a storage, one bit each. MADE: it was produced. MADE_AGAIN: it was produced again. STARTS: a recomputation starts
 * from it. KEPT: it is kept for backward. BEHIND: it is computed from recomputed storages. */
enum { MADE = 1, MADE_AGAIN = 2, STARTS = 4, KEPT = 8, BEHIND = 16 };

/* True if storage s is an activation. A storage that is produced on a channel other than compute is a gathered parameter and no
 * activation. */
static bool is_activation(const mp_graph *graph, int s)
{
    const int producer = graph->producer[s];
    const mp_kind kind = graph->storages[s].kind;
    return !mp_storage_is_static(&graph->storages[s]) && graph->storages[s].tier == MP_TIER_DEVICE && kind != MP_KIND_SAVED &&
           producer >= 0 && graph->nodes[producer].phase == MP_PHASE_FORWARD &&
           graph->nodes[producer].alternatives[0].channel <= MP_CHANNEL_SECOND_STREAM;
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

mp_status checkpoints_find(const mp_graph *graph, const mp_plan *plan, checkpoints_to_set *out, mp_error *err)
{
    MP_OWNED unsigned char *seen = mp_alloc(graph->n_storages, sizeof *seen);
    MP_CLEARED_BY(checkpoints_free)
    checkpoints_to_set found = {.storages = mp_alloc(graph->n_storages, sizeof *found.storages)};
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
    found = (checkpoints_to_set){0};
    return MP_OK;
}

void checkpoints_free(checkpoints_to_set *set)
{
    mp_free(set->storages);
    *set = (checkpoints_to_set){0};
}

/* With --list: prints the names of the recomputed operators, in the order of their first recomputation. */
static mp_status list_recomputed(const mp_graph *graph, const mp_plan *plan, size_t n_runs, mp_error *err)
{
    size_t n = 0;
    MP_OWNED bool *seen = mp_alloc(graph->n_nodes, sizeof *seen);
    MP_OWNED mp_label *labels = mp_alloc(graph->n_nodes, sizeof *labels);
    MP_OWNED const char **names = mp_alloc(graph->n_nodes, sizeof *names);
    MP_ENSURE(seen && labels && names, err, MP_NOMEM, "%zu names", graph->n_nodes);
    for (size_t t = 0; t < plan->n_steps; t++) {
        const int node = plan->steps[t].node;
        if (!plan->recompute[t] || graph->nodes[node].alternatives[plan->steps[t].alternative].returns || seen[node]) continue;
        seen[node] = true;
        labels[n] = mp_node_label(graph, node);
        names[n] = graph->nodes[node].name ? graph->nodes[node].name : labels[n].text;
        n++;
    }
    putchar('\n');
    screen_text(2, "Recomputed: %zu operator%s, in %zu run%s", n, n == 1 ? "" : "s", n_runs, n_runs == 1 ? "" : "s");
    return report_tensors(names, n, n, true, err);
}

mp_status report_checkpoints(const outcome *out, const mp_plan *plan, size_t rows, mp_error *err)
{
    const mp_graph *graph = out->workload->graph;
    MP_CLEARED_BY(checkpoints_free) checkpoints_to_set set = {0};
    MP_OWNED const char **names = NULL;
    MP_CHECK(checkpoints_find(graph, plan, &set, err));
    MP_ENSURE(names = mp_alloc(set.n, sizeof *names), err, MP_NOMEM, "%zu names", set.n);
    for (size_t k = 0; k < set.n; k++) names[k] = mp_plan_checkpoint_name(&graph->storages[set.storages[k]]);
    if (!set.n_recomputed) {
        puts("\nNo checkpoints to set: nothing is recomputed.");
        return MP_OK;
    }
    putchar('\n');
    screen_text(2, "Checkpoints to set, with all between them recomputed: %zu%s", set.n,
                out->asked->talk.list ? "" : " (names: --list)");
    MP_CHECK(report_tensors(names, set.n, rows, out->asked->talk.list, err));
    if (set.n_beside) screen_text(2, "Kept as ever, because nothing around them is recomputed: %zu tensors", set.n_beside);
    if (out->asked->talk.list) MP_CHECK(list_recomputed(graph, plan, set.n_recomputed, err));
    return MP_OK;
}

mp_status checkpoints_to_set_json(const mp_graph *graph, const mp_plan *plan, json_t **json, mp_error *err)
{
    MP_CLEARED_BY(checkpoints_free) checkpoints_to_set set = {0};
    MP_CHECK(checkpoints_find(graph, plan, &set, err));
    json_t *list = json_array();
    for (size_t k = 0; k < set.n; k++)
        mp_json_append(&list, mp_json_text(mp_plan_checkpoint_name(&graph->storages[set.storages[k]])));
    mp_json_set(json, "checkpoints_to_set", list);
    return MP_OK;
}
