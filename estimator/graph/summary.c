/* summary.c - computes totals of a graph in one pass over storages and nodes. */
#include "memplan/summary.h"

#include "estimator/base/list.h"
#include "memplan/timeline.h"

/* True if some backward node reads the storage in its base alternative. */
static bool read_by_backward(const mp_graph *graph, int storage)
{
    for (int k = graph->readers_start[storage]; k < graph->readers_start[storage + 1]; k++) {
        const mp_node *node = &graph->nodes[graph->readers[k]];
        const mp_alternative *base = &node->alternatives[0];
        if (node->phase == MP_PHASE_BACKWARD && mp_list_has(base->reads, base->n_reads, storage)) return true;
    }
    return false;
}

static void summarize_storages(const mp_graph *graph, mp_rules rules, mp_summary *sum)
{
    for (size_t s = 0; s < graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        int producer = graph->producer[s];
        bool made = producer >= 0 && graph->nodes[producer].phase == MP_PHASE_FORWARD && !mp_storage_is_static(storage);
        /* true for a data input or target of the model. An input storage without tensors of the model is a gradient from
         * outside of the graph, and does not count */
        bool given = storage->kind == MP_KIND_INPUT && storage->n_tensors > 0 && rules == MP_RULES_PYTORCH;
        sum->kind_bytes[storage->kind] += storage->payload_bytes;
        if ((made || given) && read_by_backward(graph, (int)s)) sum->saved_activation_bytes += storage->payload_bytes;
    }
}

static void summarize_writes(const mp_graph *graph, const mp_alternative *alternative, mp_operator_summary *row)
{
    for (size_t k = 0; k < alternative->n_writes; k++) {
        const mp_storage *storage = &graph->storages[alternative->writes[k]];
        if (mp_storage_is_static(storage)) continue;
        row->output_bytes += storage->payload_bytes;
        if (read_by_backward(graph, alternative->writes[k])) row->saved_bytes += storage->payload_bytes;
    }
}

/* Finds, per operator, the live bytes of keep-all before and after its forward node, and before and after its backward nodes.
 * row_of[node] is 1 + the row of the node's operator in the summary. */
static mp_status summarize_live(const mp_graph *graph, const int *row_of, mp_summary *sum, mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_OWNED int64_t *between = mp_alloc(graph->n_nodes + 1, sizeof *between);
    MP_ENSURE(steps && between, err, MP_NOMEM, "a summary of %zu nodes", graph->n_nodes);
    MP_CHECK(mp_timeline_build(graph, steps, mp_keep_all(graph, steps), &timeline, err));
    mp_timeline_between(graph, timeline, between);
    for (size_t t = 0; t < timeline->n_steps; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const bool is_own = row_of[steps[t].node] > 0, is_backward = node->phase == MP_PHASE_BACKWARD && node->forward_of >= 0;
        const int index = is_own ? row_of[steps[t].node] : is_backward ? row_of[node->forward_of] : 0;
        if (!index) continue;
        mp_operator_summary *row = &sum->operators[index - 1];
        if (is_own) {
            row->live_before_bytes = between[t];
            row->live_after_bytes = between[t + 1];
            continue;
        }
        if (row->backward_live_before_bytes < 0) row->backward_live_before_bytes = between[t];
        row->backward_live_after_bytes = between[t + 1];
    }
    return MP_OK;
}

/* Adds the bytes of each parameter to the first operator that reads it. */
static void summarize_parameters(const mp_graph *graph, const int *row_of, mp_summary *sum)
{
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (graph->storages[s].kind != MP_KIND_PARAMETER) continue;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
            const int row = row_of[graph->readers[r]];
            if (!row) continue;
            sum->operators[row - 1].parameter_bytes += graph->storages[s].bytes;
            break;
        }
    }
}

mp_status mp_summarize(const mp_graph *graph, mp_rules rules, mp_summary *out, mp_error *err)
{
    MP_CLEARED_BY(mp_summary_free) mp_summary sum = {0};
    MP_OWNED int *row_of = mp_alloc(graph->n_nodes, sizeof *row_of); /* per node: 1 + the row of its operator in the summary */
    sum.operators = mp_alloc(graph->n_nodes, sizeof *sum.operators);
    MP_ENSURE(row_of && sum.operators, err, MP_NOMEM, "a summary of %zu nodes", graph->n_nodes);
    summarize_storages(graph, rules, &sum);
    for (size_t n = 0; n < graph->n_nodes; n++) {
        const mp_node *node = &graph->nodes[n];
        const mp_alternative *alternative = &node->alternatives[0];
        mp_operator_summary *row = NULL;
        if (alternative->workspace_bytes > sum.workspace_bytes) sum.workspace_bytes = alternative->workspace_bytes;
        if (node->phase == MP_PHASE_FORWARD || node->phase == MP_PHASE_LOSS) {
            row = &sum.operators[sum.n_operators++];
            row_of[n] = (int)sum.n_operators;
            *row = (mp_operator_summary){.node = (int)n,
                                         .flops = node->flops,
                                         .forward_ticks = alternative->ticks,
                                         .backward_live_before_bytes = -1,
                                         .backward_live_after_bytes = -1};
            summarize_writes(graph, alternative, row);
            sum.forward_flops += node->flops;
            sum.forward_ticks += alternative->ticks;
        } else if (node->phase == MP_PHASE_BACKWARD) {
            sum.backward_ticks += alternative->ticks;
            int owner = node->forward_of >= 0 ? row_of[node->forward_of] : 0;
            if (owner) row = &sum.operators[owner - 1];
            if (row) row->backward_ticks += alternative->ticks;
        } else {
            sum.update_ticks += alternative->ticks;
        }
        if (row && alternative->workspace_bytes > row->workspace_bytes) row->workspace_bytes = alternative->workspace_bytes;
    }
    summarize_parameters(graph, row_of, &sum);
    MP_CHECK(summarize_live(graph, row_of, &sum, err));
    *out = sum;
    sum.operators = NULL;
    return MP_OK;
}

void mp_summary_free(mp_summary *summary)
{
    mp_free(summary->operators);
    summary->operators = NULL;
}
