/* plan_refusal.c - prints why a search found no plan: the proof, the storages that cause the floor, and a budget that
 * suffices. */
#include "cli/options/options.h"
#include "cli/reports/plan.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/reports/report.h"

static void print_static(const mp_graph *graph)
{
    screen_text(6, "  and %s", static_text(graph));
}

/* Prints the reason for a floor at the end of backward: the gradients that updates read after backward. */
static void print_floor_at_end(const outcome *out)
{
    const mp_graph *graph = out->workload->graph;
    screen_text(0, "The floor is set by the end of backward, which holds the gradients of all parameters at once:");
    screen_text(16, "  %12s  gradients (updates fused into backward free each at once: --fuse backward)",
                mp_bytes_text(out->graph_floor_bytes - mp_graph_static_bytes(graph)));
    print_static(graph);
}

/* Prints the reason for a floor that a recomputable tensor causes: until a node reads it, the tensor must stay live or be
 * recomputed. */
static void print_floor_held(const outcome *out)
{
    const mp_graph *graph = out->workload->graph;
    const mp_floor_reason *why = &out->floor_reason;
    mp_label label;
    screen_text(0, "The floor is set by %s, which reads %s. In any order one of these is needed at once:",
                node_text(graph, why->node), mp_storage_title(graph, why->storage, &label));
    screen_text(16, "  %12s  to hold it, or what it is made from (%s), while %s runs", mp_bytes_text(why->beside_bytes),
                mp_bytes_text(why->live_bytes), node_text(graph, why->beside));
    screen_text(16, "  %12s  to recompute it afterwards, from %s on", mp_bytes_text(why->again_bytes),
                node_text(graph, why->producer));
    print_static(graph);
}

/* Prints the node at which the floor occurs and the largest storages that this node uses. Then prints the other storages that
 * are live at this node in every order. */
static void print_floor(const outcome *out)
{
    enum { HOLDERS = 5 };
    const mp_graph *graph = out->workload->graph;
    if (out->graph_floor_bytes > out->floor_bytes)
        screen_text(0, "With %s the floor is %s.", out->row_chunks.n > 1 ? "the chosen chunks" : "whole regions",
                    mp_bytes_text(out->graph_floor_bytes));
    if (out->floor_reason.node < 0) {
        print_floor_at_end(out);
        return;
    }
    if (out->floor_reason.storage >= 0) {
        print_floor_held(out);
        return;
    }
    const int64_t workspace_bytes = graph->nodes[out->floor_reason.node].alternatives[0].workspace_bytes;
    int storages[HOLDERS];
    int64_t bytes;
    mp_label label;
    const size_t n = mp_floor_storages(graph, out->floor_reason.node, storages, HOLDERS, &bytes);
    const int64_t rest = out->graph_floor_bytes - mp_graph_static_bytes(graph) - workspace_bytes - bytes;
    screen_text(0, "The floor is set by %s, which needs at once:", node_text(graph, out->floor_reason.node));
    for (size_t k = 0; k < n && k < HOLDERS; k++) {
        const mp_storage *s = &graph->storages[storages[k]];
        screen_row("  %12s  %s  %s", mp_bytes_text(s->bytes), mp_kind_name(s->kind),
                   mp_storage_title(graph, storages[k], &label));
    }
    if (workspace_bytes) print("  %12s  workspace\n", mp_bytes_text(workspace_bytes));
    if (rest > 0) print("  %12s  other tensors that are live then in any order\n", mp_bytes_text(rest));
    if (rest < 0) print("  %12s  less, because one tensor can overwrite another\n", mp_bytes_text(-rest));
    print_static(graph);
}

bool is_below_floor(const outcome *out)
{
    return out->budget_bytes < out->floor_bytes;
}

/* True if the options allow only one plan, such as a given list of checkpoints, and the search has judged this plan. */
static bool is_one_plan(const search_options *o)
{
    return o->checkpoints || !strcmp(o->solver, "none");
}

bool is_refused(const outcome *out)
{
    const options *o = out->asked;
    const mp_answer *answer = &out->answer;
    if (is_below_floor(out) || tier_too_small(out)) return true;
    if (answer->bound.infeasible && (answer->bound.orders == MP_BOUND_ANY_ORDER || o->search.keep_order)) return true;
    if (out->row_chunks.n && out->row_chunks.other_ticks < INT64_MAX) return false;
    return is_one_plan(&o->search) && answer->smallest && answer->smallest->peak_bytes > out->budget_bytes;
}

int no_plan_status(bool is_proved)
{
    return is_proved ? EXIT_NO : interrupt_asked() ? interrupt_status() : EXIT_UNKNOWN;
}

/* Prints the verdict, which is both the first and the last line of the answer. */
static void print_no(const outcome *out, const char *more)
{
    const char *title = plan_title(out), *budget = plan_budget_text(out);
    if (is_refused(out))
        screen_verdict(out->asked->talk.color, SCREEN_BAD, "%s: does not fit %s%s.", title, budget, more);
    else
        screen_verdict(out->asked->talk.color, SCREEN_OPEN, "%s: not known whether it fits %s: no plan was found%s%s.", title,
                       budget,
                       out->interrupted      ? " until it was stopped"
                       : out->answer.stopped ? " in the time that it had"
                                             : "",
                       more);
}

void print_refusal(const outcome *out)
{
    const mp_answer *a = &out->answer;
    const char *floor = mp_bytes_text(out->floor_bytes);
    print_no(out, "");
    if (out->asked->talk.quiet) return;
    if (is_below_floor(out))
        screen_text(0, "No schedule %s fits below the floor of %s.",
                    out->row_chunks.n ? "with any number of chunks of rows" : "at all", floor);
    else if (print_tier_refusal(out))
        ;
    else if (is_refused(out) && is_one_plan(&out->asked->search))
        screen_text(0, "%s needs more memory, and the options permit no other plan; the floor is %s.",
                    out->asked->search.checkpoints ? "Keeping these tensors" : "Keeping everything", floor);
    else if (a->bound.infeasible)
        screen_text(0, "It is proved that no schedule%s fits; the floor is %s.",
                    a->bound.orders == MP_BOUND_THIS_ORDER ? " in this order" : "", floor);
    else if (a->smallest->peak_bytes <= out->budget_bytes)
        screen_text(0, "The smallest plan's peak fits, but with its arena it needs %s too much; the floor is %s.",
                    mp_bytes_text(mp_plan_need(a->smallest) - out->budget_bytes), floor);
    else
        screen_text(0, "No schedule fits below the floor of %s; above it, one might exist.", floor);
    putchar('\n');
    print_floor(out);
}

mp_status print_smallest(const outcome *out, mp_error *err)
{
    const mp_plan *smallest = out->answer.smallest;
    putchar('\n');
    print_plan_heading(out);
    print_plan_line(out, "keep all", out->keep_all_bytes, out->keep_all_ticks, "");
    print_plan_other(out);
    print_plan_line(out, "smallest", smallest->peak_bytes, smallest->ticks, "  of what was found");
    print_plan_line(out, "floor", out->floor_bytes, -1, "  no schedule fits below");
    if (!out->other.is_known || mp_plan_need(smallest) > smallest->peak_bytes) MP_CHECK(print_plan_arena(out, smallest, err));
    screen_text(4, "  the smallest budget %sthat can be met: --budget %lld",
                out->interrupted ? "found until Ctrl-C " : "found ", (long long)mp_plan_need(smallest));
    print_tier_enough(out);
    if (out->asked->talk.verbose && smallest->peak_bytes > out->floor_bytes) {
        print("\nThe smallest plan that was found:\n");
        MP_CHECK(print_plan_peak(out, smallest, err));
    }
    return MP_OK;
}

void print_refusal_verdict(const outcome *out)
{
    print_no(out, mp_text("; %lld bytes would do", (long long)mp_plan_need(out->answer.smallest)));
}
