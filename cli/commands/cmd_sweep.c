/* cmd_sweep.c - the command sweep: computes the trade-off curve of memory and time, by running each searcher with several
 * budgets. */
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/picture_file.h"
#include "cli/reports/budget_bytes.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "cli/reports/sweep_report.h"
#include "executor/workload/workload.h"
#include "formats/canvas/canvas.h"
#include "formats/json/json.h"
#include "memplan/budget.h"
#include "memplan/pictures/curve_picture.h"
#include "memplan/studies/sweep.h"
#include "memplan/workloads/workload_budget.h"

/* ---- options ---- */

typedef struct wanted {
    picture_file picture;
    mp_pool *pool; /* owns all arrays of this struct */
    size_t n_solvers, n_budgets;
    const char **solvers, **budget_texts;
    mp_budget *budgets; /* the budgets of --budgets, parsed */
    int64_t *bytes;
} wanted;

/* Splits the value of an option at its commas, into a list of texts. */
static int split(const char *option, const char *text, mp_pool *pool, const char ***parts, size_t *n)
{
    size_t length = strlen(text), most = 1;
    for (size_t k = 0; k < length; k++) most += text[k] == ',';
    char *at = mp_pool_text(pool, text, length);
    *parts = mp_pool_alloc(pool, most, sizeof **parts);
    for (char *next; at && *parts; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = 0;
        if (!*at) return usage_error("--%s has an empty part in its list", option);
        (*parts)[(*n)++] = at;
    }
    return EXIT_DONE;
}

static int read_solvers(const search_options *o, wanted *w)
{
    int rc = o->solvers ? split("solvers", o->solvers, w->pool, &w->solvers, &w->n_solvers) : EXIT_DONE;
    for (size_t k = 0; !rc && k < w->n_solvers; k++) {
        const char *name = solver_present_name(w->solvers[k]), *known = NULL;
        for (size_t i = 0; i < mp_solver_count(); i++)
            if (!strcmp(mp_solver_row(i)->name, name)) known = mp_solver_row(i)->name;
        if (!known) return usage_error("--solvers: there is no '%s'; 'memplan solvers' lists them", name);
        for (size_t i = 0; i < k; i++)
            if (w->solvers[i] == known) return usage_error("--solvers: %s is given twice", name);
        w->solvers[k] = known;
    }
    return rc;
}

static int read_budgets(const search_options *o, wanted *w)
{
    int rc = o->budgets ? split("budgets", o->budgets, w->pool, &w->budget_texts, &w->n_budgets) : EXIT_DONE;
    w->budgets = mp_pool_alloc(w->pool, w->n_budgets, sizeof *w->budgets);
    w->bytes = mp_pool_alloc(w->pool, w->n_budgets, sizeof *w->bytes);
    for (size_t k = 0; !rc && w->budgets && k < w->n_budgets; k++) {
        const char *why = "works in plan and train only; give sweep numbers, like 8GiB or 60%";
        if (!mp_budget_parse(w->budget_texts[k], &w->budgets[k], &why) || mp_budget_is_of_device(&w->budgets[k]))
            return usage_error("--budgets: '%s' %s", w->budget_texts[k], why);
    }
    return rc;
}

static int read_sweep_options(const options *o, wanted *w)
{
    mp_error err = {0};
    int rc = refuse_open_chunks(o);
    if (!rc) rc = read_solvers(&o->search, w);
    if (!rc) rc = read_budgets(&o->search, w);
    if (mp_pool_failed(w->pool)) {
        complain("out of memory");
        return EXIT_NO;
    }
    if (!rc) rc = picture_file_settle_beside(o, "svg, png, pdf", &w->picture);
    if (!rc && o->output.out && mp_canvas_check_path(w->picture.path, &err) != MP_OK) rc = input_failed(&err);
    return rc;
}

/* ---- searching ---- */

static bool show(size_t k, size_t n, const mp_progress *search, void *data)
{
    return search ? progress_show(search, data) : progress_next(data, mp_text("%zu of %zu", k + 1, n));
}

static mp_status sweep(const options *o, const wanted *w, const mp_workload *s, mp_sweep *found, mp_error *err)
{
    mp_status st = MP_OK;
    progress shown;
    int64_t floor_bytes;
    MP_CLEARED_BY(mp_budget_ends_free) mp_budget_ends ends = {0};
    mp_request smallest = {.graph = s->graph, .problem = s->problem, .keep_order = o->search.keep_order};
    mp_sweep_request request = {.graph = s->graph,
                                .problem = s->problem,
                                .budgets = w->n_budgets ? w->bytes : NULL,
                                .n_budgets = w->n_budgets,
                                .solvers = w->solvers,
                                .n_solvers = w->n_solvers,
                                .seed = (uint64_t)o->search.seed,
                                .moves = o->search.moves,
                                .effort = (mp_effort)mp_effort_find(o->search.effort),
                                .keep_order = o->search.keep_order,
                                .progress = show,
                                .progress_data = &shown};
    memcpy(smallest.tier_bytes, s->tier_bytes, sizeof smallest.tier_bytes);
    memcpy(request.tier_bytes, s->tier_bytes, sizeof request.tier_bytes);
    MP_CHECK(find_budget_ends(w->budgets, request.n_budgets, o, &smallest, &ends, err));
    MP_CHECK(mp_problem_floor(s->problem, &floor_bytes, NULL, err));
    for (size_t k = 0; k < request.n_budgets; k++) {
        const char *why = mp_budget_lacks_unit(&w->budgets[k], ends.peak_bytes);
        MP_ENSURE(!why, err, MP_INVALID, "--budgets: %s", why);
        w->bytes[k] = mp_budget_resolve(&w->budgets[k], ends.peak_bytes, ends.smallest_bytes);
    }
    progress_start(&shown, o, floor_bytes, INT64_MAX);
    st = mp_sweep_budgets(&request, found, err);
    progress_end(&shown);
    return st;
}

/* ---- the answer ---- */

static double overhead_of(const mp_sweep *found, int64_t ticks)
{
    return found->keep_all_ticks > 0 ? (double)ticks / (double)found->keep_all_ticks - 1 : 0;
}

static json_t *spread_json(const mp_sweep *found)
{
    json_t *list = json_array();
    for (size_t k = 0; k < found->n_spread; k++) {
        const mp_spread_point *p = &found->spread[k];
        mp_json_append(&list, json_pack("{s:I, s:I, s:f, s:f}", "n_checkpoints", (json_int_t)p->n_checkpoints, "peak_bytes",
                                        (json_int_t)p->peak_bytes, "seconds", (double)p->ticks * found->tick_seconds,
                                        "overhead", overhead_of(found, p->ticks)));
    }
    return list;
}

static json_t *point_json(const mp_sweep *found, const mp_sweep_point *p)
{
    const bool is = p->feasible;
    return json_pack(
        "{s:I, s:b, s:o, s:o, s:o, s:o, s:o}", "budget_bytes", (json_int_t)p->budget_bytes, "feasible", (int)is, "peak_bytes",
        mp_json_integer_if(is, p->peak_bytes), "seconds", mp_json_real_if(is, (double)p->ticks * found->tick_seconds),
        "overhead", mp_json_real_if(is, overhead_of(found, p->ticks)), "n_checkpoints",
        mp_json_integer_if(is, (int64_t)p->n_checkpoints), "n_recomputed", mp_json_integer_if(is, (int64_t)p->n_recomputed));
}

static json_t *curves_json(const mp_sweep *found)
{
    json_t *list = json_array();
    for (size_t k = 0; k < found->n_curves; k++) {
        const mp_sweep_curve *c = &found->curves[k];
        json_t *points = json_array();
        for (size_t i = 0; i < c->n; i++) mp_json_append(&points, point_json(found, &c->points[i]));
        mp_json_append(&list, json_pack("{s:s, s:I, s:o}", "solver", c->solver, "smallest_feasible_bytes",
                                        (json_int_t)c->smallest_bytes, "points", points));
    }
    return list;
}

static json_t *bounds_json(const mp_sweep *found)
{
    json_t *list = json_array();
    for (size_t k = 0; k < found->n_bounds; k++) {
        const mp_sweep_bound *b = &found->bounds[k];
        mp_json_append(&list, json_pack("{s:I, s:b, s:o}", "budget_bytes", (json_int_t)b->budget_bytes, "infeasible",
                                        (int)b->infeasible, "overhead",
                                        mp_json_real_if(!b->infeasible, overhead_of(found, b->ticks))));
    }
    return list;
}

static json_t *sweep_json(const mp_workload *s, const mp_sweep *found)
{
    const int64_t batch = mp_workload_batch(s);
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:f, s:b, s:o, s:s?, s:o, s:o}", "model",
                     mp_json_text(s->graph->name ? s->graph->name : ""), "batch", mp_json_integer_if(batch > 0, batch),
                     "static_bytes", (json_int_t)found->static_bytes, "floor_bytes", (json_int_t)found->floor_bytes,
                     "baseline_peak_bytes", (json_int_t)found->keep_all_bytes, "baseline_seconds",
                     (double)found->keep_all_ticks * found->tick_seconds, "complete", !found->stopped, "curves",
                     curves_json(found), "bound_covers", found->bound_orders ? mp_bound_orders_text(found->bound_orders) : NULL,
                     "bounds", bounds_json(found), "evenly_spread", spread_json(found));
}

int cmd_sweep(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_CLEARED_BY(mp_sweep_free) mp_sweep found = {0};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    wanted w = {.pool = pool};
    int rc = read_sweep_options(o, &w);
    if (rc) return rc;
    if (load_workload(o->operands[0], o, &s, &err) != MP_OK) return input_failed(&err);
    if (sweep(o, &w, &s, &found, &err) != MP_OK) return input_failed(&err);
    rc = mp_sweep_least(&found) ? EXIT_DONE : no_plan_status(mp_sweep_is_refuted(&found));
    if (found.stopped) complain("the sweep was cut short; this is what it had found");
    if (o->talk.json) {
        const int printed = print_json("sweep", sweep_json(&s, &found));
        if (printed) rc = printed;
    } else if (!picture_takes_output(&o->output)) {
        print_sweep(&o->talk, &s, &found);
    }
    if (o->output.out) {
        mp_status st = picture_file_open(&w.picture, &err);
        if (st == MP_OK) st = mp_curve_picture(&found, s.heading, w.picture.path, &err);
        if (picture_file_close(&w.picture, &o->output, st, &err) != MP_OK) rc = output_failed(&err);
    }
    return rc;
}
