/* plan_report.c - what a search has found, as text and as JSON. */
#include "cli/reports/plan_report.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/reports/attention_report.h"
#include "cli/reports/bound_report.h"
#include "cli/reports/report.h"
#include "formats/base/bytes_text.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"

/* Peak and time of segments between the plan's checkpoints, as frameworks recompute them. Graphs without a backward phase have
 * no such answer: *applies is false then. */
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

/* One line of the comparison; ticks -1: no order stands behind it, only a bound. */
static void print_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note)
{
    char bytes[QUANTITY_MAX], exact[QUANTITY_MAX], time[QUANTITY_MAX] = "", extra[QUANTITY_MAX] = "";
    int64_t base = out->keep_all->peak_bytes;
    if (ticks >= 0) {
        seconds_text((double)ticks * out->subject.graph->tick_seconds, time);
        extra_text((double)ticks, (double)out->keep_all->ticks, extra);
    }
    printf("  %-10s %11s  %18s bytes  %5.1f %%  %9s  %9s%s\n", what, bytes_short(peak, bytes), count_text(peak, exact),
           base > 0 ? 100.0 * (double)peak / (double)base : 100.0, time, extra, note);
}

/* The names of the plan's checkpoints as the file has them: one source for people and programs. */
static mp_status print_checkpoints(const outcome *out, const mp_plan *plan, mp_error *err)
{
    mp_status st = MP_OK;
    json_t *header = mp_plan_header_json(plan, out->subject.graph),
           *list = header ? json_object_get(header, "checkpoints") : NULL;
    size_t n = list ? json_array_size(list) : 0;
    const char **names = mp_alloc(n, sizeof *names);
    MP_REQUIRE(header && names, err, MP_NOMEM, "%zu checkpoints", plan->n_checkpoints);
    for (size_t k = 0; k < n; k++) names[k] = json_string_value(json_array_get(list, k));
    if (!n)
        printf("\nNo checkpoints: nothing is kept from forward to backward.\n");
    else
        printf("\nCheckpoints to set (kept from forward to backward, the rest is recomputed): %zu\n", n);
    report_tensors(names, n, "--json, or -o FILE");
done:
    mp_free(names);
    if (header) json_decref(header);
    return st;
}

static bool is_by_modules(const mp_plan *plan)
{
    return !strcmp(plan->solver, "modules");
}

/* The modules to wrap: what a plan by modules is, in the words of its file. */
static mp_status print_modules(const outcome *out, const mp_plan *plan, mp_error *err)
{
    mp_status st = MP_OK;
    json_t *header = mp_plan_header_json(plan, out->subject.graph), *list = json_object_get(header, "modules");
    const size_t n = json_array_size(list);
    MP_REQUIRE(header && list, err, MP_NOMEM, "the modules of a plan");
    if (n)
        printf("\nModules to wrap in torch.utils.checkpoint: %zu\n", n);
    else
        printf("\nNo module has to be wrapped: everything is kept.\n");
    for (size_t k = 0; k < n; k++) printf("  %s\n", json_string_value(json_array_get(list, k)));
done:
    json_decref(header);
    return st;
}

static mp_status print_where(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    mp_status st = MP_OK;
    mp_timeline *timeline = NULL;
    MP_TRY(mp_timeline_build(graph, plan->steps, plan->n_steps, &timeline, err));
    putchar('\n');
    if (timeline->peak_step >= 0) report_peak(graph, timeline, plan->steps[timeline->peak_step].node);
done:
    mp_timeline_free(timeline);
    return st;
}

/* The arena, and what fragmentation costs. */
static mp_status print_arena(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    mp_status st = MP_OK;
    char bytes[QUANTITY_MAX], exact[QUANTITY_MAX], waste[QUANTITY_MAX], whole[QUANTITY_MAX];
    const int64_t live = mp_plan_live_bytes(plan);
    int64_t least = live;
    if (plan->arena_bytes < 0) return MP_OK;
    if (plan->arena_bytes > live) MP_TRY(mp_arena_bound(graph, plan, &least, err));
    printf("  arena %s (%s bytes), %s", bytes_short(plan->arena_bytes, bytes), count_text(plan->arena_bytes, exact),
           mp_arena_text(plan->arena_bytes, live, waste));
    if (plan->arena_bytes > live) printf("; %s bytes in all", count_text(mp_plan_need(plan), whole));
    putchar('\n');
    if (least > live)
        printf("  proved: no layout of these steps has an arena of less than %s bytes%s\n", count_text(least, exact),
               plan->arena_bytes == least ? ": this is the lowest" : "");
done:
    return st;
}

/* How many of the nodes that have algorithms do without their fastest one. */
static void print_algorithms(const mp_graph *graph, const mp_plan *plan)
{
    size_t n = 0, n_slower = 0;
    for (size_t k = 0; k < graph->n_nodes; k++) n += mp_node_has_algorithms(&graph->nodes[k]);
    for (size_t t = 0; t < plan->n_steps; t++)
        n_slower +=
            !plan->recompute[t] && plan->steps[t].alternative && mp_node_has_algorithms(&graph->nodes[plan->steps[t].node]);
    if (n) printf("  algorithms: %zu of %zu nodes take a slower one for its smaller workspace\n", n_slower, n);
}

/* How close the plan is to the best there can be. */
static void print_bound(const outcome *out)
{
    const mp_answer *a = &out->answer;
    char extra[QUANTITY_MAX], gap[QUANTITY_MAX];
    if (a->bound.ticks < 0) return;
    const double ticks = (double)a->plan->ticks, bound = (double)a->bound.ticks;
    extra_text(bound, (double)out->keep_all->ticks, extra);
    printf("  proved: within this budget no plan%s takes less than %s",
           a->bound.orders == MP_BOUND_THIS_ORDER ? " in this order" : "", extra);
    if (a->plan->ticks <= a->bound.ticks)
        printf(": this one is optimal\n");
    else
        printf("; the gap is %s of a step%s\n",
               extra_text(ticks + (double)out->keep_all->ticks - bound, (double)out->keep_all->ticks, gap),
               a->effort == MP_EFFORT_THOROUGH ? "" : " (--effort thorough goes on)");
}

static mp_status print_fitting(const outcome *out, const char *title, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = out->subject.graph;
    const mp_plan *plan = out->answer.plan;
    char bytes[QUANTITY_MAX], exact[QUANTITY_MAX];
    int64_t segments_peak, segments_ticks;
    bool segments;
    MP_TRY(on_segments(graph, plan, &segments, &segments_peak, &segments_ticks, err));
    if (out->budget_bytes < 0)
        printf("%s: no budget was given.\n\n", title);
    else
        printf("%s: fits the budget of %s (%s bytes).\n\n", title, bytes_short(out->budget_bytes, bytes),
               count_text(out->budget_bytes, exact));
    printf("  %-10s %11s  %24s  %7s  %9s  %9s\n", "", "peak", "", "", "time", "extra");
    print_line(out, "keep all", out->keep_all->peak_bytes, out->keep_all->ticks, "");
    print_line(out, "this plan", plan->peak_bytes, plan->ticks, "");
    const bool by_modules = is_by_modules(plan), over = out->budget_bytes >= 0 && segments_peak > out->budget_bytes;
    if (segments && !by_modules)
        print_line(out, "segments", segments_peak, segments_ticks,
                   over ? "  on the same checkpoints: over the budget, --solver segments finds its own"
                        : "  on the same checkpoints");
    print_line(out, "floor", out->floor_bytes, -1, "  no schedule fits below");
    print_bound(out);
    MP_TRY(print_arena(graph, plan, err));
    print_algorithms(graph, plan);
    report_attention(out->subject.program);
    if (out->has_second_stream) report_second_stream(&out->second_stream, graph->tick_seconds);
    printf("  found by %s in %s\n", plan->solver, seconds_text(out->planning_seconds, bytes));
    MP_TRY(by_modules ? print_modules(out, plan, err) : print_checkpoints(out, plan, err));
    MP_TRY(print_where(graph, plan, err));
done:
    return st;
}

/* Whether `s` is smaller than `than`, or as large with a higher index; anything comes after -1. */
static bool comes_after(const mp_graph *graph, int s, int than)
{
    if (than < 0) return true;
    int64_t a = graph->storages[s].bytes, b = graph->storages[than].bytes;
    return a < b || (a == b && s > than);
}

/* The floor at the end of backward: the gradients that the updates behind it read. */
static void print_floor_at_end(const outcome *out)
{
    const mp_graph *graph = out->subject.graph;
    char text[QUANTITY_MAX];
    printf("The floor is held by the end of backward, when the gradients of all parameters are there at once:\n");
    printf("  %12s  gradients (updates fused into backward free each at once: --fuse backward)\n",
           bytes_short(out->floor_bytes - mp_graph_static_bytes(graph), text));
    printf("  and ");
    report_static(graph);
}

/* The floor where a tensor either stays live until the node that reads it, or is recomputed on the way. */
static void print_floor_held(const outcome *out)
{
    const mp_graph *graph = out->subject.graph;
    const mp_floor_reason *why = &out->floor_reason;
    char text[QUANTITY_MAX];
    mp_label label;
    printf("The floor is held by ");
    report_node(graph, why->node);
    printf(", which reads %s. In any order one of these is needed at once:\n", mp_storage_title(graph, why->storage, &label));
    printf("  %12s  to hold it, or what it is made from", bytes_short(why->beside_bytes, text));
    printf(" (%s), while ", bytes_short(why->live_bytes, text));
    report_node(graph, why->beside);
    printf(" runs\n  %12s  to make it again behind that, from ", bytes_short(why->again_bytes, text));
    report_node(graph, why->producer);
    printf(" on\n  and ");
    report_static(graph);
}

/* The node that the floor is at, the largest storages it uses, and what else is live then in every order. */
static void print_floor(const outcome *out)
{
    enum { HOLDERS = 5 };
    const mp_graph *graph = out->subject.graph;
    if (out->floor_reason.node < 0) {
        print_floor_at_end(out);
        return;
    }
    if (out->floor_reason.storage >= 0) {
        print_floor_held(out);
        return;
    }
    const mp_node *node = &graph->nodes[out->floor_reason.node];
    const mp_alternative *alternative = &node->alternatives[0];
    const int *const lists[] = {alternative->reads, alternative->writes, alternative->adds};
    const size_t lengths[] = {alternative->n_reads, alternative->n_writes, alternative->n_adds};
    int64_t rest = out->floor_bytes - mp_graph_static_bytes(graph) - alternative->workspace_bytes;
    int last = -1; /* the storage shown last; the next one is the largest that comes after it by (bytes, index) */
    char text[QUANTITY_MAX];
    mp_label label;
    printf("The floor is held by ");
    report_node(graph, out->floor_reason.node);
    printf(", which needs at once:\n");
    for (int line = 0;; line++) {
        int best = -1;
        for (int l = 0; l < 3; l++)
            for (size_t k = 0; k < lengths[l]; k++) {
                int s = lists[l][k];
                if (!mp_storage_is_static(&graph->storages[s]) && comes_after(graph, s, last) &&
                    (best < 0 || comes_after(graph, best, s)))
                    best = s;
            }
        if (best < 0) break;
        last = best;
        rest -= graph->storages[best].bytes;
        if (line < HOLDERS)
            printf("  %12s  %s  %s\n", bytes_short(graph->storages[best].bytes, text), mp_kind_name(graph->storages[best].kind),
                   mp_storage_title(graph, best, &label));
    }
    if (alternative->workspace_bytes) printf("  %12s  workspace\n", bytes_short(alternative->workspace_bytes, text));
    if (rest > 0) printf("  %12s  others that must be there then in any order\n", bytes_short(rest, text));
    if (rest < 0) printf("  %12s  less, because one may take the room of another\n", bytes_short(-rest, text));
    printf("  and ");
    report_static(graph);
}

static mp_status print_unmeetable(const outcome *out, const char *title, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_plan *smallest = out->answer.smallest;
    char bytes[QUANTITY_MAX], exact[QUANTITY_MAX];
    printf("%s: does not fit the budget of %s (%s bytes).\n", title, bytes_short(out->budget_bytes, bytes),
           count_text(out->budget_bytes, exact));
    if (out->budget_bytes < out->floor_bytes)
        printf("No schedule at all fits below the floor of %s (%s bytes).\n\n", bytes_short(out->floor_bytes, bytes),
               count_text(out->floor_bytes, exact));
    else if (out->answer.bound.infeasible)
        printf("It is proved that no schedule%s fits; the floor is %s.\n\n",
               out->answer.bound.orders == MP_BOUND_THIS_ORDER ? " in this order" : "", bytes_short(out->floor_bytes, bytes));
    else if (smallest->peak_bytes <= out->budget_bytes)
        printf(
            "The smallest plan's peak fits, and with its arena it needs %s bytes too many; the floor is %s, so that one might "
            "still exist.\n\n",
            count_text(mp_plan_need(smallest) - out->budget_bytes, exact), bytes_short(out->floor_bytes, bytes));
    else
        printf("No %s was found; the floor is %s (%s bytes), so that one might still exist.\n\n",
               is_by_modules(smallest) ? "set of modules" : "schedule", bytes_short(out->floor_bytes, bytes),
               count_text(out->floor_bytes, exact));
    print_line(out, "keep all", out->keep_all->peak_bytes, out->keep_all->ticks, "");
    print_line(out, "smallest", smallest->peak_bytes, smallest->ticks, "");
    print_line(out, "floor", out->floor_bytes, -1, "  no schedule fits below");
    MP_TRY(print_arena(out->subject.graph, smallest, err));
    printf("  the smallest budget found that can be met: --budget %lld\n\n", (long long)mp_plan_need(smallest));
    print_floor(out);
    if (smallest->peak_bytes > out->floor_bytes) {
        printf("\nThe smallest plan that was found:");
        MP_TRY(print_where(out->subject.graph, smallest, err));
    }
done:
    return st;
}

mp_status print_plan(const outcome *out, mp_error *err)
{
    char title[256];
    subject_title(&out->subject, title, sizeof title);
    const mp_status st = out->answer.plan ? print_fitting(out, title, err) : print_unmeetable(out, title, err);
    if (st == MP_OK && out->explains_bound) print_bound_explanation(out);
    return st;
}

/* Without a plan in the budget the header describes the smallest plan that was found. */
mp_status print_plan_json(const outcome *out, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = out->subject.graph;
    const mp_plan *plan = out->answer.plan ? out->answer.plan : out->answer.smallest;
    double base = (double)out->keep_all->ticks;
    int64_t peak, ticks;
    bool segments;
    json_t *json = NULL;
    MP_TRY(on_segments(graph, plan, &segments, &peak, &ticks, err));
    json = mp_plan_header_json(plan, graph);
    mp_json_set(&json, "budget_bytes", mp_json_integer_if(out->budget_bytes >= 0, out->budget_bytes));
    mp_json_set(&json, "floor_bytes", json_integer(out->floor_bytes));
    mp_json_set(&json, "feasible", json_boolean(out->answer.plan));
    mp_json_set(&json, "overhead", json_real(base > 0 ? (double)plan->ticks / base - 1 : 0));
    mp_json_set(&json, "smallest_feasible_bytes", json_integer(mp_plan_need(out->answer.smallest)));
    mp_json_set(&json, "effort", json_string(mp_effort_name(out->answer.effort)));
    mp_json_set(&json, "planning_seconds", json_real(out->planning_seconds));
    mp_json_set(&json, "segments_peak_bytes", mp_json_integer_if(segments, peak));
    mp_json_set(&json, "segments_seconds", mp_json_real_if(segments, (double)ticks * graph->tick_seconds));
    if (out->has_second_stream)
        mp_json_set(&json, "second_stream", second_stream_json(&out->second_stream, graph->tick_seconds));
    attention_json(out->subject.program, &json);
    if (out->explains_bound) mp_json_set(&json, "bound", bound_json(out));
    MP_REQUIRE(json, err, MP_NOMEM, "the answer");
    print_json(json_incref(json));
done:
    if (json) json_decref(json);
    return st;
}
