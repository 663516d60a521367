/* plan_report.c - prints a plan, as text (at most 24 lines without -v and --list) and as JSON. */
#include "cli/reports/plan.h"

#include <stdio.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/recomputation.h"
#include "cli/reports/report.h"
#include "executor/workload/chunk_numbers.h"
#include "formats/base/text.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/framework_code.h"

/* number of lines of the answer that are reserved for the checkpoints and for the peak under the other rules (PyTorch's or
 * memplan's) */
enum { LINES = 4 };

/* Computes the peak and time that result if a framework recomputes whole segments between the plan's checkpoints. *applies is
 * false for graphs without a backward phase. */
static mp_status on_segments(const mp_graph *graph, const mp_plan *plan, bool *applies, int64_t *peak, int64_t *ticks,
                             mp_error *err)
{
    mp_error refusal = {0};
    mp_status st = mp_segments_on(graph, plan->checkpoints, plan->n_checkpoints, peak, ticks, &refusal);
    *applies = st == MP_OK;
    if (st == MP_OK || st == MP_NOT_APPLICABLE) return MP_OK;
    if (err) *err = refusal;
    return st;
}

/* Prints the number of modules that no plan can wrap, and the first of their names. */
static mp_status print_left_out(const outcome *out, mp_error *err)
{
    char names[72];
    int n, n_named;
    MP_CHECK(mp_framework_unwrapped(out->workload->graph, names, sizeof names, &n, &n_named, err));
    if (n)
        screen_text(2, "Cannot be wrapped, because other operators run between theirs: %d module%s%s%s%s", n, n == 1 ? "" : "s",
                    n_named ? ": " : "", names, n_named && n > n_named ? ", ..." : "");
    return MP_OK;
}

/* For a plan that wraps modules: prints the modules, with the names that they have in the plan's file. */
static mp_status print_modules(const outcome *out, const mp_plan *plan, mp_error *err)
{
    enum { NAMES = 3800 };
    char names[NAMES] = "";
    MP_OWNED_BY(json_decref) json_t *header = mp_plan_header_json(plan, out->workload->graph);
    json_t *list = json_object_get(header, "modules");
    const size_t n = json_array_size(list);
    MP_ENSURE(header && list, err, MP_NOMEM, "the modules of a plan");
    for (size_t k = 0, used = 0; k < n && used < sizeof names; k++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", k ? ", " : "",
                                 json_string_value(json_array_get(list, k)));
    putchar('\n');
    if (!n) puts("No module has to be wrapped: everything is kept.");
    if (n) print("Modules to wrap in torch.utils.checkpoint: %zu\n", n);
    if (n) screen_text(2, "  %s", names);
    return print_left_out(out, err);
}

/* Prints the number of nodes that have several algorithms and do not use the fastest. */
static void print_algorithms(const mp_graph *graph, const mp_plan *plan)
{
    size_t n = 0, n_slower = 0;
    for (size_t k = 0; k < graph->n_nodes; k++) n += mp_node_has_algorithms(&graph->nodes[k]);
    for (size_t t = 0; t < plan->n_steps; t++)
        n_slower +=
            !plan->recompute[t] && plan->steps[t].alternative && mp_node_has_algorithms(&graph->nodes[plan->steps[t].node]);
    if (n) print("  algorithms: %zu of %zu nodes use a slower one with a smaller workspace\n", n_slower, n);
}

/* Prints by how much the time of the plan exceeds the bound. */
static void print_bound(const outcome *out)
{
    const mp_answer *a = &out->answer;
    if (a->bound.ticks < 0) return;
    const double ticks = (double)a->plan->ticks, bound = (double)a->bound.ticks, base = (double)out->keep_all_ticks;
    const char *which = a->bound.orders == MP_BOUND_THIS_ORDER ? "in this order and budget no plan" : "no plan in this budget";
    const char *extra = mp_extra_text(bound, base);
    if (bound < base) /* the time of keep-all includes waits for network and copies, so the bound may be lower */
        extra = mp_text("%s (%s)", seconds_text(bound * out->workload->graph->tick_seconds), extra);
    if (a->plan->ticks <= a->bound.ticks)
        screen_text(4, "  proved: %s takes less than %s: this one is optimal", which, extra);
    else
        screen_text(4, "  proved: %s takes less than %s; gap %s%s", which, extra, mp_extra_text(ticks + base - bound, base),
                    a->effort == MP_EFFORT_THOROUGH || !out->asked->talk.verbose ? "" : " (--effort thorough goes on)");
}

/* Prints the verdict again as the last line, because the first line may no longer be visible on the terminal. */
static void print_verdict(const outcome *out)
{
    const mp_plan *plan = out->answer.plan;
    const char *title = plan_title(out), *color = out->asked->talk.color;
    const int64_t base = out->keep_all_ticks;
    const char *extra = plan->ticks == base ? "no extra" : mp_extra_text((double)plan->ticks, (double)base);
    if (out->budget_bytes == MP_NO_LIMIT)
        screen_verdict(color, SCREEN_PLAIN, "%s: no budget was given; this plan needs %s, %s time.", title,
                       mp_bytes_text(mp_plan_need(plan)), extra);
    else if (plan->n_steps == mp_graph_n_required(out->workload->graph) && plan->ticks <= base)
        screen_verdict(color, SCREEN_GOOD, "%s: fits %s without recomputation.", title, plan_budget_text(out));
    else
        screen_verdict(color, SCREEN_GOOD, "%s: fits %s, %s time.", title, plan_budget_text(out), extra);
}

/* Prints the number of chunks of rows of each kind of region. */
static void print_row_chunks(const outcome *out)
{
    const mp_loss_chunks *head = &out->workload->details->loss_chunks;
    if (head->n)
        screen_text(2, "  logits in %d chunks of %lld rows: forward and backward of %s run chunk by chunk", head->n,
                    (long long)((head->n_rows + head->n - 1) / head->n), head->product);
    for (int k = MP_CHUNK_HEAD + 1; k < MP_N_CHUNK_KINDS; k++) {
        const mp_chunked_kind *kind = &out->workload->details->row_regions.kinds[k];
        if (kind->n)
            screen_text(2, "  %s in %d chunks of %lld rows: %d region%s, the first from %s on",
                        mp_chunk_kind_name((mp_chunk_kind)k), kind->n, (long long)((kind->n_rows + kind->n - 1) / kind->n),
                        kind->n_regions, kind->n_regions == 1 ? "" : "s", kind->first);
    }
    if (out->row_chunks.n == 1) screen_row("  no chunks of rows: memplan found no faster plan with chunks");
}

/* Returns a JSON object with the number of chunks per kind of region; NULL: all regions are whole. */
static json_t *chunks_json(const int n[MP_N_CHUNK_KINDS])
{
    json_t *json = NULL;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        if (n[k] > 1 && !json) json = json_object();
        if (n[k] > 1) mp_json_set(&json, mp_chunk_kind_name((mp_chunk_kind)k), json_integer(n[k]));
    }
    return json;
}

json_t *chunk_setting_json(const char *setting)
{
    int n[MP_N_CHUNK_KINDS];
    return setting && mp_chunk_numbers_read(setting, n, NULL) == MP_OK ? chunks_json(n) : NULL;
}

static json_t *row_chunks_json(const mp_workload *w)
{
    int n[MP_N_CHUNK_KINDS];
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) n[k] = mp_chunk_numbers_of(w, (mp_chunk_kind)k);
    return chunks_json(n);
}

static mp_status print_fitting(const outcome *out, mp_error *err)
{
    const mp_graph *graph = out->workload->graph;
    const mp_plan *plan = out->answer.plan;
    int64_t segments_peak, segments_ticks;
    bool segments;
    mp_rank_traffic sent;
    print_verdict(out);
    if (out->asked->talk.quiet) return MP_OK;
    MP_CHECK(on_segments(graph, plan, &segments, &segments_peak, &segments_ticks, err));
    putchar('\n');
    print_plan_heading(out);
    print_plan_line(out, "keep all", out->keep_all_bytes, out->keep_all_ticks, "");
    print_plan_other(out);
    print_plan_line(out, "this plan", plan->peak_bytes, plan->ticks, "");
    const bool over = segments_peak > out->budget_bytes;
    const bool by_modules = plan_is_by_modules(plan);
    if (segments && !by_modules)
        print_plan_line(out, "segments", segments_peak, segments_ticks,
                        over ? "  over: --solver segments" : "  on the same checkpoints");
    print_plan_line(out, "floor", out->floor_bytes, -1, "  no schedule fits below");
    if (out->fills_device && out->room.reserve_bytes && !out->room.visible_bytes)
        screen_row("  %-10s %11s  for context, libraries and allocator (--reserve)", "reserve",
                   mp_bytes_text(out->room.reserve_bytes));
    print_row_chunks(out);
    MP_CHECK(print_recomputation(out->workload, plan, "  ", err));
    print_bound(out);
    report_accuracy(mp_workload_accuracy(out->workload));
    if (out->budget_bytes < MP_NO_LIMIT && !out->fills_device) report_above_room(&out->room, out->budget_bytes);
    MP_CHECK(print_plan_arena(out, plan, err));
    print_algorithms(graph, plan);
    MP_CHECK(print_plan_offload(out, plan, err));
    MP_CHECK(mp_workload_traffic(out->workload, plan->steps, plan->n_steps, &sent, err));
    print_rank_traffic(out->workload, &sent, 0);
    report_attention(out->workload->program);
    report_aligned_rows(out->workload->program);
    screen_row("  found by %s in %s%s%s", plan->solver, seconds_text(out->planning_seconds),
               out->written ? ", written to " : "", out->written ? out->written : "");
    report_needs(&out->needs, "Needs");
    const int said = out->other.is_known + (*mp_workload_accuracy(out->workload) != 0) + needs_lines(&out->needs);
    MP_CHECK(by_modules ? print_modules(out, plan, err)
                        : report_checkpoints(out, plan, said < LINES ? (size_t)(LINES - said) : 1, err));
    putchar('\n');
    MP_CHECK(print_plan_peak(out, plan, err));
    if (out->asked->search.explain_bound) print_bound_explanation(out);
    print_verdict(out);
    return MP_OK;
}

mp_status print_plan(const outcome *out, mp_error *err)
{
    if (out->answer.plan) return print_fitting(out, err);
    if (!out->has_refusal) print_refusal(out);
    if (out->asked->talk.quiet) return MP_OK;
    MP_CHECK(print_smallest(out, err));
    if (out->asked->search.explain_bound) print_bound_explanation(out);
    print_refusal_verdict(out);
    return MP_OK;
}

/* Prints the answer as JSON. If no plan fits the budget, the header contains the values of the smallest plan that was found. */
mp_status print_plan_json(const outcome *out, mp_error *err)
{
    const mp_graph *graph = out->workload->graph;
    const mp_plan *plan = out->answer.plan ? out->answer.plan : out->answer.smallest;
    double base = (double)out->keep_all_ticks;
    int64_t peak, ticks;
    bool segments;
    mp_rank_traffic sent;
    MP_OWNED_BY(json_decref) json_t *json = NULL;
    MP_CHECK(on_segments(graph, plan, &segments, &peak, &ticks, err));
    json = mp_plan_header_json(plan, graph);
    mp_json_set(&json, "budget_bytes", mp_json_integer_if(out->budget_bytes < MP_NO_LIMIT, out->budget_bytes));
    mp_json_set(&json, "reserve_bytes", mp_json_integer_if(out->fills_device, out->room.reserve_bytes));
    mp_json_set(&json, "needs", needs_json(&out->needs));
    mp_json_set(&json, "floor_bytes", json_integer(out->floor_bytes));
    /* the lower bound in the plan file holds only for the graph with the chosen chunks */
    if (out->row_chunks.n && json_object_get(json, "lower_bound_seconds") && out->answer.bound.ticks >= 0)
        mp_json_set(&json, "lower_bound_seconds", json_real((double)out->answer.bound.ticks * graph->tick_seconds));
    mp_json_set(&json, "other_rules", other_rules_json(&out->other));
    mp_json_set(&json, "feasible", out->answer.plan || is_refused(out) ? json_boolean(out->answer.plan) : json_null());
    mp_json_set(&json, "overhead", json_real(base > 0 ? (double)plan->ticks / base - 1 : 0));
    mp_json_set(&json, "smallest_feasible_bytes", json_integer(mp_plan_need(out->answer.smallest)));
    accuracy_json(mp_workload_accuracy(out->workload), &json);
    mp_json_set(&json, "effort", json_string(mp_effort_name(out->answer.effort)));
    mp_json_set(&json, "planning_seconds", json_real(out->planning_seconds));
    mp_json_set(&json, "segments_peak_bytes", mp_json_integer_if(segments, peak));
    mp_json_set(&json, "segments_seconds", mp_json_real_if(segments, (double)ticks * graph->tick_seconds));
    json_t *chunks = row_chunks_json(out->workload);
    if (chunks) mp_json_set(&json, "row_chunks", chunks);
    MP_CHECK(recomputation_json(out->workload, plan, &json, err));
    MP_CHECK(offload_json(out, plan, &json, err));
    MP_CHECK(mp_workload_traffic(out->workload, plan->steps, plan->n_steps, &sent, err));
    if (mp_mesh_devices(&out->asked->model.mesh)) mp_json_set(&json, "ranks", rank_traffic_json(out->workload, &sent, 0));
    attention_json(out->workload->program, &json);
    aligned_rows_json(out->workload->program, &json);
    if (out->answer.plan) MP_CHECK(checkpoints_to_set_json(graph, plan, &json, err));
    mp_json_set(&json, "interrupted", json_boolean(out->interrupted));
    if (out->asked->search.explain_bound) mp_json_set(&json, "bound", bound_json(out));
    return answer_in_json("plan", json_incref(json), err);
}
