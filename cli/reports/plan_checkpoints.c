/* plan_checkpoints.c - prints the checkpoints that a user must set in order to follow a plan. */
#include "cli/reports/plan.h"

#include <stdio.h>

#include "cli/messages/screen.h"
#include "cli/reports/tensor_rows.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"

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
    MP_CLEARED_BY(mp_checkpoints_free) mp_checkpoints_to_set set = {0};
    MP_OWNED const char **names = NULL;
    MP_CHECK(mp_checkpoints_find(graph, plan, &set, err));
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
    MP_CLEARED_BY(mp_checkpoints_free) mp_checkpoints_to_set set = {0};
    MP_CHECK(mp_checkpoints_find(graph, plan, &set, err));
    json_t *list = json_array();
    for (size_t k = 0; k < set.n; k++)
        mp_json_append(&list, mp_json_text(mp_plan_checkpoint_name(&graph->storages[set.storages[k]])));
    mp_json_set(json, "checkpoints_to_set", list);
    return MP_OK;
}
