/* bound_parts.c - the sum over parts that cover the list. */
#include "planner/bound/bound_parts.h"

#include "estimator/base/memory.h"
#include "planner/order/part.h"

mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, mp_bound_call bound_part,
                            const mp_bound_options *options, int64_t *ticks, bool *infeasible, mp_bound_work *work,
                            mp_error *err)
{
    mp_status st = MP_OK;
    mp_part part = {0};
    mp_bound_report report = {0};
    mp_bound_options own = *options;
    int *number = NULL;
    budget_bytes -= mp_graph_static_bytes(graph);
    *ticks = 0;
    *infeasible = false;
    if (!mp_graph_has_parts(graph)) return MP_OK;
    own.effort = 1;
    own.report = &report;
    own.off |= 1u << MP_BOUND_FLOOR | 1u << MP_BOUND_COUPLE | 1u << MP_BOUND_OVERLAP;
    MP_REQUIRE(number = mp_alloc(graph->n_storages, sizeof *number), err, MP_NOMEM, "no memory for a bound of %s", graph->name);
    const size_t n_parts = (graph->n_nodes + part_nodes - 1) / part_nodes;
    for (size_t k = 0; k < n_parts && !*infeasible; k++) {
        mp_bound bound;
        if (options->stop && options->stop(options->data)) break;
        mp_part_clear(&part);
        MP_TRY(
            mp_part_init(&part, graph, graph->n_nodes * k / n_parts, graph->n_nodes * (k + 1) / n_parts, false, number, err));
        mp_bound_report_init(&report);
        MP_TRY(bound_part(part.graph, budget_bytes, &own, &bound, err));
        for (int s = 0; s < MP_BOUND_N_STAGES; s++) mp_bound_work_add(work, &report.stages[s].work);
        *ticks += bound.infeasible ? 0 : bound.ticks - report.least_ticks;
        *infeasible = bound.infeasible;
        mp_bound_report_clear(&report);
    }
done:
    mp_bound_report_clear(&report);
    mp_part_clear(&part);
    mp_free(number);
    return st;
}
