/* cmd_report.c - one page about a model: what its step needs, as a plan runs it or with everything kept. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/reports/budget_bytes.h"
#include "cli/reports/progress.h"
#include "cli/reports/unmeetable_report.h"
#include "cli/subject/subject.h"
#include "formats/base/text.h"
#include "formats/pages/report_page.h"
#include "memplan/arena_solve.h"
#include "memplan/floor.h"
#include "memplan/sweep.h"

static bool show(size_t k, size_t n, const mp_progress *search, void *p)
{
    return search ? progress_show(search, p) : progress_next(p, mp_text("curve: %zu of %zu", k, n));
}

/* Finds a plan for the budget; *plan stays NULL where there is none, which is said, and *no_plan is the exit status then. */
static mp_status search(const options *o, const budget *b, const subject *s, int64_t floor_bytes, mp_plan **plan, int *no_plan,
                        mp_error *err)
{
    mp_status st = MP_OK;
    mp_answer answer = {0};
    progress shown;
    device_room room;
    budget_ends ends = {0};
    mp_request request = {.graph = s->graph,
                          .solver = o->solver,
                          .seed = (uint64_t)o->seed,
                          .effort = (mp_effort)mp_effort_find(o->effort),
                          .progress = progress_show,
                          .progress_data = &shown};
    MP_TRY(budget_ends_of(b, 1, o, &request, &ends, err));
    MP_TRY(room_budget(s, o, b, &ends, &room, &request.budget_bytes, err));
    request.start = ends.smallest;
    request.time_limit = progress_time_left(o);
    progress_start(&shown, o, floor_bytes, request.budget_bytes);
    st = mp_solve_with_arena(&request, &answer, err);
    progress_end(&shown);
    if (st == MP_LIMIT) *no_plan = no_plan_status(false);
    if (st != MP_OK) goto done;
    if (answer.plan) {
        *plan = answer.plan;
        if (answer.smallest == answer.plan) answer.smallest = NULL;
        answer.plan = NULL;
    } else {
        const bool proved = is_proved_no(o, &answer, request.budget_bytes, floor_bytes);
        complain("%s %s; 'memplan plan' says what would fit", proved ? "nothing fits" : "not known whether anything fits",
                 mp_bytes_text(request.budget_bytes));
        *no_plan = no_plan_status(proved);
    }
done:
    budget_ends_free(&ends);
    mp_answer_free(&answer);
    return st;
}

/* A quick trade-off curve; none where the searchers have nothing to search. */
static mp_status find_curve(const options *o, const subject *s, int64_t floor_bytes, mp_sweep *sweep, bool *found,
                            mp_error *err)
{
    static const char *const solvers[] = {"segments", "priced"};
    progress shown;
    mp_sweep_request request = {.graph = s->graph,
                                .solvers = solvers,
                                .n_solvers = sizeof solvers / sizeof *solvers,
                                .seed = (uint64_t)o->seed,
                                .effort = MP_EFFORT_QUICK,
                                .progress = show,
                                .progress_data = &shown};
    progress_start(&shown, o, floor_bytes, INT64_MAX);
    interrupt_force(NULL, 0); /* there is a plan already */
    const mp_status st = mp_sweep_budgets(&request, sweep, err);
    progress_end(&shown);
    *found = st == MP_OK && sweep->n_curves > 0;
    return st == MP_NOT_APPLICABLE ? MP_OK : st;
}

int cmd_report(options *o)
{
    mp_error err = {0};
    subject s = {0};
    mp_plan *plan = NULL;
    mp_sweep sweep = {0};
    mp_timeline *keep_all = NULL;
    budget b;
    bool has_curve = false;
    const char *why = NULL, *ending = o->out ? strrchr(o->out, '.') : NULL;
    int unused, no_plan = 0, rc = EXIT_DONE;
    mp_report_request request = {0};
    if (!o->out) return usage_error("report needs a file to write: -o report.html");
    if (strcmp(o->out, "-") && (!ending || strcasecmp(ending, ".html")))
        return usage_error("-o: a report's name must end in .html");
    if (o->plan && o->budget) return usage_error("--plan gives a plan, --budget searches for one: give one of them");
    if (o->budget && !budget_parse(o->budget, &b, &why)) return usage_error("--budget: '%s' %s", o->budget, why);
    if (subject_load_with_plan(o->operands[0], o->plan, o, &s, &plan, &err) != MP_OK ||
        keep_all_timeline(s.graph, &keep_all, &unused, &err) != MP_OK ||
        mp_floor(s.graph, &request.floor_bytes, &unused, &err) != MP_OK ||
        (o->budget && search(o, &b, &s, request.floor_bytes, &plan, &no_plan, &err) != MP_OK)) {
        rc = err.code == MP_REFUTED ? output_failed(&err) : input_failed(&err);
        if (no_plan) rc = no_plan;
        goto done;
    }
    if (no_plan) {
        rc = no_plan;
        goto done;
    }
    if (o->curve && !interrupt_asked() && find_curve(o, &s, request.floor_bytes, &sweep, &has_curve, &err) != MP_OK) {
        rc = input_failed(&err);
        goto done;
    }
    request.graph = s.graph;
    request.plan = plan;
    request.sweep = has_curve ? &sweep : NULL;
    request.title = s.title;
    if (mp_report_page(&request, o->out, &err) != MP_OK) rc = output_failed(&err);
done:
    mp_sweep_free(&sweep);
    mp_timeline_free(keep_all);
    mp_plan_free(plan);
    subject_free(&s);
    return rc;
}
