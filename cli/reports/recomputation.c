/* recomputation.c - reports the time of a plan's recomputation, and the part that communication and copies hide. */
#include "cli/reports/recomputation.h"

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "estimator/graph/collective.h"
#include "formats/base/text.h"
#include "formats/json/json.h"
#include "memplan/makespan.h"

/* True if operators of the graph exchange data over tp and wait for the end of each exchange. */
static bool blocks(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        if (mp_collective_leg_over(node->collective, MP_DIM_TP) && node->alternatives->channel == MP_CHANNEL_COMPUTE)
            return true;
    }
    return false;
}

static bool is_reported(const mp_graph *graph)
{
    return graph->n_channels > MP_CHANNEL_SECOND_STREAM + 1 || blocks(graph);
}

/* Returns the kinds of waits that hide recomputation in the graph. */
static const char *hiding(const mp_workload *w)
{
    if (w->graph->n_tiers < 2) return "communication";
    return mp_mesh_devices(&w->ranks.mesh) > 1 ? "communication and copies" : "copies";
}

mp_status print_recomputation(const mp_workload *w, const mp_plan *plan, const char *lead, mp_error *err)
{
    const mp_graph *graph = w->graph;
    mp_recomputation again;
    if (!is_reported(graph)) return MP_OK;
    MP_CHECK(mp_makespan_recomputation(graph, plan->steps, plan->n_steps, &again, err));
    if (!again.n_runs) return MP_OK;
    const char *waits = "";
    if (!again.hidden_ticks && mp_workload_rules(w) == MP_RULES_EXECUTOR && blocks(graph))
        waits =
            ": memplan's executor waits for the end of each exchange of tp (--rules pytorch overlaps exchanges of gradients)";
    screen_text(4, "%srecomputation %s, %s hidden by %s%s", lead, seconds_text((double)again.ticks * graph->tick_seconds),
                again.hidden_ticks ? seconds_text((double)again.hidden_ticks * graph->tick_seconds) : "none", hiding(w), waits);
    return MP_OK;
}

mp_status recomputation_json(const mp_workload *w, const mp_plan *plan, json_t **json, mp_error *err)
{
    const mp_graph *graph = w->graph;
    mp_recomputation again;
    if (!is_reported(graph)) return MP_OK;
    MP_CHECK(mp_makespan_recomputation(graph, plan->steps, plan->n_steps, &again, err));
    mp_json_set(json, "recomputation",
                json_pack("{s:I, s:f, s:f}", "runs", (json_int_t)again.n_runs, "seconds",
                          (double)again.ticks * graph->tick_seconds, "hidden_seconds",
                          (double)again.hidden_ticks * graph->tick_seconds));
    return MP_OK;
}
