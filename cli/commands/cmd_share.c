/* cmd_share.c - the command share: divides the memory of a card among jobs. */
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/share.h"
#include "estimator/base/quantities.h"
#include "memplan/workloads/other_rules.h"

static mp_share_way way_named(const char *name)
{
    int way = 0;
    /* the table has a way of sharing with this name, because the option parser has checked the name */
    while (strcmp(mp_share_way_name((mp_share_way)way), name) != 0) way++;
    return (mp_share_way)way;
}

static mp_share_goal goal_named(const char *name)
{
    return strcmp(mp_share_goal_name(MP_SHARE_LONGEST), name) ? MP_SHARE_TOTAL : MP_SHARE_LONGEST;
}

/* Reads the number of training steps of each job: one number for all jobs, or a list with one number per job. */
static int read_steps(const options *o, mp_sharing *s)
{
    const char *text = o->training.steps_each ? o->training.steps_each : o->training.runs ? "10" : "1";
    size_t n = 0;
    for (const char *at = text; at; n++) {
        const char *comma = strchr(at, ',');
        const size_t length = comma ? (size_t)(comma - at) : strlen(at);
        int64_t steps;
        if (length >= MP_TEXT_MAX || !mp_count_parse(mp_text("%.*s", (int)length, at), &steps) || steps < 1)
            return usage_error("--steps: '%.*s' is not a whole number of at least 1", (int)length, at);
        if (n < s->n_jobs) s->jobs[n].n_steps = steps;
        at = comma ? comma + 1 : NULL;
    }
    for (size_t i = 1; n == 1 && i < s->n_jobs; i++) s->jobs[i].n_steps = s->jobs[0].n_steps;
    if (n != 1 && n != s->n_jobs)
        return usage_error("--steps: %zu numbers for %zu jobs; give one for each, or one for all", n, s->n_jobs);
    return EXIT_DONE;
}

/* Checks that --run is possible. It requires jobs that run by turns, and a device that can execute them. */
static int settle_run(options *o, mp_sharing *s)
{
    if (!o->training.runs) return EXIT_DONE;
    if (option_given(o, OPT_MODE) && s->way != MP_SHARE_TURNS)
        return usage_error("--run runs by turns, which contradicts --mode %s", o->search.mode);
    if (!option_given(o, OPT_DEVICE)) o->model.device = "cpu";
    s->way = MP_SHARE_TURNS;
    return EXIT_DONE;
}

/* ---- progress ---- */

typedef struct job_progress {
    progress shown;
    size_t n_jobs;
} job_progress;

static bool show(size_t job, size_t k, size_t n, const mp_progress *search, void *data)
{
    job_progress *x = data;
    if (search) return progress_show(search, &x->shown);
    return progress_next(&x->shown, mp_text("job %zu of %zu, plan %zu of %zu", job + 1, x->n_jobs, k + 1, n));
}

static mp_status share(const options *o, int64_t memory_bytes, mp_sharing *s, mp_error *err)
{
    job_progress x = {.n_jobs = s->n_jobs};
    const mp_request search = search_request(o);
    const mp_sharing_request request = {.options = &o->model,
                                        .search = &search,
                                        .memory_bytes = memory_bytes,
                                        .wants_other_rules = !o->talk.quiet || o->talk.json,
                                        .runs = o->training.runs,
                                        .progress = show,
                                        .data = &x};
    for (size_t i = 0; i < s->n_jobs; i++) MP_CHECK(refuse_model_options(o->operands[i], o, err));
    const mp_status st = mp_sharing_load(s, o->operands, &request, err);
    for (size_t i = 0; i < s->n_jobs; i++) print_notes(&s->jobs[i].workload, 0);
    MP_CHECK(st);
    progress_start(&x.shown, o, 0, INT64_MAX);
    const mp_status searched = mp_sharing_search(s, &request, err);
    progress_end(&x.shown);
    return searched;
}

/* Runs the jobs if --run was given. Then prints the answer. run->n is 0 if the jobs did not run. */
static mp_status answer(const options *o, const mp_sharing *s, mp_sharing_run *run, mp_error *err)
{
    if (o->output.out && s->ways[s->way].split.fits) MP_CHECK(sharing_write_plans(s, o->output.out, err));
    if (o->training.runs && s->ways[s->way].split.fits)
        MP_CHECK(mp_sharing_run_all(s, &o->model, (uint64_t)o->search.seed, run, err));
    if (o->talk.json) return print_sharing_json(s, run->n ? sharing_run_json(run) : json_null(), err);
    MP_CHECK(print_sharing(s, o, err));
    if (run->n && !o->talk.quiet) print_sharing_run(s, run);
    return MP_OK;
}

int cmd_share(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_sharing_free)
    mp_sharing s = {.n_jobs = o->n_operands, .way = way_named(o->search.mode), .goal = goal_named(o->search.goal)};
    MP_CLEARED_BY(mp_sharing_run_free) mp_sharing_run run = {0};
    int64_t memory_bytes;
    if (!(s.jobs = mp_alloc(s.n_jobs, sizeof *s.jobs))) {
        complain("out of memory");
        return EXIT_NO;
    }
    options_take_card(o);
    int rc = refuse_open_chunks(o);
    if (!rc) rc = memory_read(o, &memory_bytes);
    if (!rc) rc = read_steps(o, &s);
    if (!rc) rc = settle_run(o, &s);
    if (!rc && o->output.out && !strcmp(o->output.out, "-"))
        rc = usage_error("-o -: each job has a file of its own; name one, such as plan.json");
    if (rc) return rc;
    if (share(o, memory_bytes, &s, &err) != MP_OK) return input_failed(&err);
    if (s.stopped) complain("the search was cut short; this is what it had found");
    if (answer(o, &s, &run, &err) != MP_OK) return output_failed(&err);
    if (run.n) return mp_sharing_run_is_same(&run) && mp_sharing_run_is_as_planned(&run) ? EXIT_DONE : EXIT_NO;
    return s.ways[s.way].split.fits ? EXIT_DONE : no_plan_status(!s.ways[s.way].bound.fits);
}
