/* plan_outcome.c - prints the parts of a plan's report: budget, table rows, arena and peak. */
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/plan.h"
#include "memplan/budget.h"

#include <string.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "estimator/base/clock.h"
#include "estimator/graph/without_state_copies.h"
#include "formats/base/text.h"
#include "memplan/arena.h"
#include "memplan/workloads/card_plan.h"

mp_status outcome_start(outcome *out, mp_error *err)
{
    const mp_step *steps;
    const mp_timeline *keep_all;
    out->budget_bytes = MP_NO_LIMIT;
    MP_CHECK(mp_problem_keep_all(out->workload->problem, &steps, &keep_all, err));
    out->keep_all_bytes = keep_all->peak_bytes;
    MP_CHECK(mp_keep_all_ticks(out->workload->graph, &out->keep_all_ticks, err));
    MP_CHECK(mp_problem_floor(out->workload->problem, &out->graph_floor_bytes, &out->floor_reason, err));
    out->floor_bytes = out->graph_floor_bytes;
    return MP_OK;
}

mp_request search_request(const options *o)
{
    return (mp_request){.solver = o->search.solver,
                        .seed = (uint64_t)o->search.seed,
                        .moves = o->search.moves,
                        .effort = (mp_effort)mp_effort_find(o->search.effort),
                        .gap = o->search.gap,
                        .keep_order = o->search.keep_order};
}

mp_request outcome_request(const outcome *out)
{
    mp_request request = search_request(out->asked);
    request.graph = out->workload->graph;
    request.problem = out->workload->problem;
    memcpy(request.tier_bytes, out->workload->tier_bytes, sizeof request.tier_bytes);
    return request;
}

/* Sets the device's reserve to the memory that keep-all's process requires besides tensors, unless --reserve states it. */
static mp_status find_room(outcome *out, mp_error *err)
{
    const mp_step *steps;
    const mp_timeline *timeline;
    mp_needs needs;
    if (!*out->room.name) return MP_OK;
    MP_CHECK(mp_problem_keep_all(out->workload->problem, &steps, &timeline, err));
    MP_CHECK(mp_workload_needs(out->workload, &out->asked->model, steps, timeline, -1, &needs, err));
    mp_capacity_take_needs(out->workload, &out->asked->model, &needs, timeline->peak_bytes, &out->room);
    if (!out->fills_device || !out->room.visible_bytes) return MP_OK;
    out->budget_bytes = mp_capacity_bytes(&out->room);
    MP_ENSURE(out->budget_bytes, err, MP_INFEASIBLE, "%s leaves nothing for a step; set --reserve",
              mp_capacity_text(&out->room));
    return MP_OK;
}

mp_status outcome_find_budget(outcome *out, const mp_budget *b, const mp_request *request, mp_error *err)
{
    MP_CHECK(find_budget_ends(b, 1, out->asked, request, &out->ends, err));
    MP_CHECK(mp_capacity_budget(out->workload, &out->asked->model, b, &out->ends, &out->room, &out->budget_bytes, err));
    out->fills_device = mp_budget_is_of_device(b);
    return find_room(out, err);
}

/* Returns the role of the card: whether the process must fit it, and whether the answer prints the memory of the process. */
static mp_card_use use_of(const outcome *out)
{
    if (out->fills_device && out->room.visible_bytes) return MP_CARD_FILLED;
    return option_given(out->asked, OPT_DEVICE) || out->fills_device ? MP_CARD_MEASURED : MP_CARD_UNUSED;
}

mp_status outcome_search(outcome *out, mp_workload *whole, mp_request *request, mp_error *err)
{
    mp_card_plan found = {0};
    progress shown;
    const options *o = out->asked;
    const double start = mp_clock_now();
    request->budget_bytes = out->budget_bytes;
    request->start = out->ends.smallest;
    request->time_limit = progress_time_left(&o->search);
    request->progress = progress_show;
    request->progress_data = &shown;
    progress_start(&shown, o, out->floor_bytes, out->budget_bytes);
    const mp_card_search how = {.options = &o->model, .with_offsets = o->search.offsets, .use = use_of(out)};
    const mp_status st = out->row_chunks.n
                             ? mp_row_chunks_search(out->workload, whole, &how, request, &out->row_chunks, &found, err)
                             : mp_workload_solve(out->workload, &how, request, &found, err);
    progress_end(&shown);
    out->interrupted = interrupt_asked();
    out->planning_seconds += mp_clock_now() - start;
    request->graph = out->workload->graph;
    request->problem = out->workload->problem;
    out->answer = found.answer;
    out->needs = found.needs;
    if (how.use == MP_CARD_FILLED && st == MP_OK) { /* the rest of the card's memory becomes the reserve */
        out->budget_bytes = found.budget_bytes;
        out->room.reserve_bytes = out->room.memory_bytes - found.budget_bytes;
    }
    return st;
}

void outcome_free(outcome *out)
{
    mp_answer_free(&out->answer);
    mp_row_chunks_choice_free(&out->row_chunks);
    mp_budget_ends_free(&out->ends);
}

const char *plan_budget_text(const outcome *out)
{
    const char *counted = out->asked->talk.verbose ? mp_text(" (%s bytes)", count_text(out->budget_bytes)) : "";
    if (out->fills_device) return mp_text("%s%s", mp_capacity_text(&out->room), counted);
    return mp_text("the budget of %s%s", mp_bytes_text(out->budget_bytes), counted);
}

const char *plan_title(const outcome *out)
{
    const bool names_program = out->fills_device || mp_workload_rules(out->workload) == MP_RULES_PYTORCH;
    return mp_text("%s%s", out->workload->title, names_program ? workload_program(out->workload) : "");
}

void print_plan_heading(const outcome *out)
{
    screen_row("  %-10s %11s  %s%7s  %9s  %9s", "", "peak", out->asked->talk.verbose ? "                          " : "", "",
               "time", "extra");
}

void print_plan_line(const outcome *out, const char *what, int64_t peak, int64_t ticks, const char *note)
{
    const int64_t base = out->keep_all_bytes;
    screen_row("  %-10s %11s  %s%5.1f %%  %9s  %9s%s", what, mp_bytes_text(peak),
               out->asked->talk.verbose ? mp_text("%18s bytes  ", count_text(peak)) : "",
               base > 0 ? 100.0 * (double)peak / (double)base : 100.0,
               ticks >= 0 ? seconds_text((double)ticks * out->workload->graph->tick_seconds) : "",
               ticks >= 0 ? mp_extra_text((double)ticks, (double)out->keep_all_ticks) : "", note);
}

void print_plan_other(const outcome *out)
{
    if (out->other.is_known)
        print_plan_line(out, other_rules_name(&out->other), out->other.peak_bytes, -1,
                        mp_text("  (%s)", other_rules_option(&out->other)));
}

bool plan_is_by_modules(const mp_plan *plan)
{
    return !strcmp(plan->solver, "modules");
}

mp_status print_plan_peak(const outcome *out, const mp_plan *plan, mp_error *err)
{
    const mp_graph *graph = out->workload->graph;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_CHECK(mp_timeline_build(graph, plan->steps, plan->n_steps, &timeline, err));
    if (timeline->peak_step >= 0)
        report_peak(graph, timeline, plan->steps[timeline->peak_step].node, !out->asked->talk.verbose);
    return MP_OK;
}

/* Prints the bytes of the arena, and the bytes lost to fragmentation. */
mp_status print_plan_arena(const outcome *out, const mp_plan *plan, mp_error *err)
{
    const int64_t live = mp_plan_live_bytes(plan);
    int64_t least = live;
    if (plan->arena_bytes < 0) return MP_OK;
    if (plan->arena_bytes > live) MP_CHECK(mp_arena_bound(out->workload->graph, plan, &least, err));
    const char *bytes = mp_bytes_text(plan->arena_bytes), *whole = mp_bytes_text(mp_plan_need(plan));
    if (out->asked->talk.verbose)
        screen_text(4, "  arena %s (%s bytes), %s; %s in all", bytes, count_text(plan->arena_bytes),
                    mp_arena_text(plan->arena_bytes, live), whole);
    else if (plan->arena_bytes > live)
        screen_row("  arena %s, %.2f %% of it fragmentation; %s in all", bytes,
                   100.0 * (double)(plan->arena_bytes - live) / (double)plan->arena_bytes, whole);
    else
        screen_row("  arena %s, no fragmentation", bytes);
    if (least > live)
        screen_text(4, "  proved: no layout of these steps has an arena of less than %s bytes%s", count_text(least),
                    plan->arena_bytes == least ? ": this is the lowest" : "");
    return MP_OK;
}
