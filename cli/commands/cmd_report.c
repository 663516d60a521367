/* cmd_report.c - the command report: writes one HTML page about the memory of a model's training step, with a plan or with
 * everything kept. */
#include <string.h>
#include <strings.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "executor/workload/workload.h"
#include "formats/base/text.h"
#include "formats/pages/report_page.h"
#include "memplan/budget.h"
#include "memplan/studies/sweep.h"

static bool show(size_t k, size_t n, const mp_progress *search, void *p)
{
    return search ? progress_show(search, p) : progress_next(p, mp_text("curve: %zu of %zu", k, n));
}

/* Searches for a plan within the budget. If no plan is found, prints the reason and sets *no_plan to the exit status; the page
 * is then written without a plan. */
static mp_status search(const options *o, const mp_budget *b, mp_workload *s, int *no_plan, mp_error *err)
{
    MP_CLEARED_BY(outcome_free) outcome out = {.workload = s, .asked = o};
    mp_request request = outcome_request(&out);
    MP_CHECK(outcome_start(&out, err));
    MP_CHECK(outcome_find_budget(&out, b, &request, err));
    const mp_status st = outcome_search(&out, NULL, &request, err);
    if (st == MP_LIMIT) *no_plan = no_plan_status(false);
    MP_CHECK(st);
    s->plan = out.answer.plan;
    out.answer.plan = NULL;
    if (s->plan) return MP_OK;
    const bool proved = is_refused(&out);
    complain("%s %s; 'memplan plan' says what would fit", proved ? "nothing fits" : "not known whether anything fits",
             mp_bytes_text(out.budget_bytes));
    *no_plan = no_plan_status(proved);
    return MP_OK;
}

/* Computes a trade-off curve with little effort. *found is false if no searcher applies to the graph. */
static mp_status find_curve(const options *o, const mp_workload *s, int64_t floor_bytes, mp_sweep *sweep, bool *found,
                            mp_error *err)
{
    static const char *const solvers[] = {"segments", "lagrange"};
    progress shown;
    mp_sweep_request request = {.graph = s->graph,
                                .solvers = solvers,
                                .n_solvers = sizeof solvers / sizeof *solvers,
                                .seed = (uint64_t)o->search.seed,
                                .effort = MP_EFFORT_QUICK,
                                .progress = show,
                                .progress_data = &shown};
    memcpy(request.tier_bytes, s->tier_bytes, sizeof request.tier_bytes);
    progress_start(&shown, o, floor_bytes, INT64_MAX);
    interrupt_force(NULL, 0); /* a plan exists already */
    const mp_status st = mp_sweep_budgets(&request, sweep, err);
    progress_end(&shown);
    *found = st == MP_OK && sweep->n_curves > 0;
    return st == MP_NOT_APPLICABLE ? MP_OK : st;
}

int cmd_report(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_CLEARED_BY(mp_sweep_free) mp_sweep sweep = {0};
    mp_budget b;
    bool has_curve = false;
    const char *why = NULL, *ending = o->output.out ? strrchr(o->output.out, '.') : NULL;
    int no_plan = 0;
    mp_report_request request = {0};
    if (!o->output.out) return usage_error("report needs a file to write: -o report.html");
    if (strcmp(o->output.out, "-") && (!ending || strcasecmp(ending, ".html")))
        return usage_error("-o: a report's name must end in .html");
    if (o->output.plan && o->search.budget) return usage_error("--plan and --budget contradict each other; give one of them");
    if (o->search.budget && !mp_budget_parse(o->search.budget, &b, &why))
        return usage_error("--budget: '%s' %s", o->search.budget, why);
    if (load_workload_with_plan(o->operands[0], o->output.plan, o, &s, &err) != MP_OK ||
        mp_problem_floor(s.problem, &request.floor_bytes, NULL, &err) != MP_OK ||
        (o->search.budget && search(o, &b, &s, &no_plan, &err) != MP_OK)) {
        const int rc = input_failed(&err);
        return no_plan ? no_plan : rc;
    }
    if (no_plan) return no_plan;
    if (o->output.curve && !interrupt_asked() && find_curve(o, &s, request.floor_bytes, &sweep, &has_curve, &err) != MP_OK)
        return input_failed(&err);
    request.graph = s.graph;
    request.plan = s.plan;
    /* if there is no trade-off curve, the page shows only the plan */
    request.sweep = has_curve || (o->output.curve && s.plan) ? &sweep : NULL;
    request.title = s.heading;
    return mp_report_page(&request, o->output.out, &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}
