/* plan_bound.c - explains the bound of a plan: one line per stage of the proof, and the recomputation that the deciding
 * interval of steps requires. */
#include "cli/reports/plan.h"

#include <stdio.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/reports/report.h"
#include "formats/json/json.h"

static bool is_off(const outcome *out, int stage)
{
    const mp_bound_options options = {.off = out->stages_off};
    return !mp_bound_is_on(&options, (mp_bound_stage)stage);
}

static double share(const outcome *out, int64_t ticks)
{
    return out->keep_all_ticks > 0 ? 100.0 * (double)ticks / (double)out->keep_all_ticks : 0;
}

static void print_part(bool *any, int64_t count, const char *what)
{
    if (count <= 0) return;
    print("%s%s %s", *any ? ", " : "", count_text(count), what);
    *any = true;
}

static void print_work(const mp_bound_work *work)
{
    bool any = false;
    print_part(&any, work->n_cuts, "cuts");
    print_part(&any, work->n_pivots, "rows x iterations");
    print_part(&any, work->n_states, "states");
    if (!any) putchar('-');
}

static void print_stage(const outcome *out, int stage)
{
    const mp_bound_result *r = &out->answer.report->stages[stage];
    const char *least = "-", *gap = "-";
    if (r->is_infeasible)
        least = "none fits";
    else if (stage == MP_BOUND_FLOOR && r->ticks >= 0)
        least = "may fit";
    else if (r->ticks >= 0) {
        const int64_t ticks = out->answer.report->least_ticks + r->ticks;
        least = mp_text("%+.2f %%", share(out, ticks - out->keep_all_ticks));
        if (out->answer.plan) gap = mp_text("%.2f %%", share(out, out->answer.plan->ticks - ticks));
    }
    print("  %-10s  %11s  %11s  ", mp_bound_stage_name((mp_bound_stage)stage), least, gap);
    if (is_off(out, stage))
        print("off");
    else
        print_work(&r->work);
    putchar('\n');
}

static void print_evictions(const outcome *out)
{
    enum { MOST = 10 };
    const mp_bound_report *report = out->answer.report;
    const mp_graph *graph = out->workload->graph;
    int64_t rest = 0;
    mp_label label;
    for (size_t k = 0; k < report->n; k++) {
        const mp_bound_eviction *e = &report->evictions[k];
        if (k >= MOST) {
            rest += e->bytes;
            continue;
        }
        print("  %12s  %9s  %s%s\n", mp_bytes_text(e->bytes), seconds_text((double)e->ticks * graph->tick_seconds),
              mp_storage_title(graph, e->storage, &label), e->is_partly ? " (in part)" : "");
    }
    if (report->n > MOST) print("  %12s  %9s  in %zu more\n", mp_bytes_text(rest), "", report->n - MOST);
}

static void print_interval(const outcome *out)
{
    const mp_bound *bound = &out->answer.bound;
    const mp_bound_report *report = out->answer.report;
    const mp_graph *graph = out->workload->graph;
    const double mib = 1 << 20, unit = (double)report->live_in_bytes < mib ? 1 : mib;
    screen_text(0, "Memory is short for the most time from the first run of %s to %s%s.", node_text(graph, bound->from),
                bound->to >= 0 ? "that of " : "the end of the step", bound->to >= 0 ? node_text(graph, bound->to) : "");
    print("  %12s  produced earlier is read there; %s is free for it\n", mp_bytes_text(report->live_in_bytes),
          mp_bytes_text(report->free_bytes));
    print("  %12s  of recomputation by this interval alone", seconds_text((double)report->ticks * graph->tick_seconds));
    print(", at a multiplier of %s per %s\n", seconds_text(bound->multiplier * unit * graph->tick_seconds),
          unit > 1 ? "MiB" : "byte");
    if (!report->n) return;
    print("At this multiplier it is cheapest to recompute (bytes, one run of the producer):\n");
    print_evictions(out);
}

static const char *whose(const outcome *out)
{
    return out->answer.bound.orders == MP_BOUND_THIS_ORDER ? "in this order" : "in any order";
}

void print_bound_explanation(const outcome *out)
{
    const mp_bound *bound = &out->answer.bound;
    if (!out->answer.report) {
        print("\nThe bound: nothing is proved, because there is no budget.\n");
        return;
    }
    print("\nThe bound, by stages, for plans %s:\n  %-10s  %11s  %11s  %s\n", whose(out), "", "at least", "gap to plan",
          "work");
    for (int k = 0; k < MP_BOUND_SEARCH; k++) print_stage(out, k);
    if (bound->stage == MP_BOUND_SEARCH)
        print("Proved by a searcher that looked at every plan: %s.\n", bound->infeasible ? "none fits" : "none takes less");
    else if (bound->infeasible)
        print("That no plan fits is proved by stage %s%s", mp_bound_stage_name(bound->stage),
              bound->from < 0 ? ".\n" : ", at ");
    else if (bound->stage == MP_BOUND_NODES)
        print("No recomputation is proved to be necessary.\n");
    else
        print("The bound is that of stage %s.\n", mp_bound_stage_name(bound->stage));
    if (bound->from < 0 || bound->stage == MP_BOUND_NODES) return;
    if (bound->infeasible)
        screen_text(0, "%s.", node_text(out->workload->graph, bound->from));
    else
        print_interval(out);
}

/* ---- JSON ---- */

static json_t *stage_json(const outcome *out, int stage)
{
    const mp_bound_result *r = &out->answer.report->stages[stage];
    const double base = (double)out->keep_all_ticks;
    const int64_t ticks = out->answer.report->least_ticks + r->ticks;
    json_t *overhead = r->ticks >= 0 && stage != MP_BOUND_FLOOR && base > 0 ? json_real((double)ticks / base - 1) : json_null();
    return json_pack("{s:s, s:b, s:b, s:o, s:I, s:I, s:I}", "stage", mp_bound_stage_name((mp_bound_stage)stage), "off",
                     is_off(out, stage), "infeasible", r->is_infeasible, "overhead", overhead, "cuts",
                     (json_int_t)r->work.n_cuts, "pivots", (json_int_t)r->work.n_pivots, "states",
                     (json_int_t)r->work.n_states);
}

static json_t *stages_json(const outcome *out)
{
    json_t *list = json_array();
    for (int k = 0; k < MP_BOUND_SEARCH; k++) mp_json_append(&list, stage_json(out, k));
    return list;
}

static json_t *evictions_json(const outcome *out)
{
    const mp_bound_report *report = out->answer.report;
    const mp_graph *graph = out->workload->graph;
    json_t *list = json_array();
    mp_label label;
    for (size_t k = 0; k < report->n; k++) {
        const mp_bound_eviction *e = &report->evictions[k];
        mp_json_append(&list,
                       json_pack("{s:o, s:I, s:f, s:b}", "tensor", mp_json_text(mp_storage_title(graph, e->storage, &label)),
                                 "bytes", (json_int_t)e->bytes, "seconds", (double)e->ticks * graph->tick_seconds, "in_part",
                                 e->is_partly));
    }
    return list;
}

static json_t *node_json(const mp_graph *graph, int node)
{
    return node < 0 ? json_null() : json_integer(graph->nodes[node].id);
}

/* Returns the interval of steps that decides the bound as JSON; JSON null if the bound was not proved from an interval. */
static json_t *interval_json(const outcome *out)
{
    const mp_bound *bound = &out->answer.bound;
    const mp_bound_report *report = out->answer.report;
    const double tick = out->workload->graph->tick_seconds;
    if (bound->from < 0 || bound->infeasible || bound->stage == MP_BOUND_NODES) return json_null();
    return json_pack("{s:o, s:o, s:I, s:I, s:f, s:f, s:o}", "from_node", node_json(out->workload->graph, bound->from),
                     "to_node", node_json(out->workload->graph, bound->to), "live_in_bytes", (json_int_t)report->live_in_bytes,
                     "free_bytes", (json_int_t)report->free_bytes, "seconds", (double)report->ticks * tick,
                     "multiplier_seconds_per_byte", bound->multiplier * tick, "recomputed", evictions_json(out));
}

json_t *bound_json(const outcome *out)
{
    const mp_bound *bound = &out->answer.bound;
    const mp_graph *graph = out->workload->graph;
    if (!out->answer.report) return json_null();
    return json_pack("{s:b, s:f, s:s, s:s, s:o, s:o, s:o}", "infeasible", bound->infeasible, "seconds",
                     (double)bound->ticks * graph->tick_seconds, "covers", mp_bound_orders_text(bound->orders), "stage",
                     mp_bound_stage_name(bound->stage), "infeasible_at_node",
                     bound->infeasible ? node_json(graph, bound->from) : json_null(), "interval", interval_json(out), "stages",
                     stages_json(out));
}
