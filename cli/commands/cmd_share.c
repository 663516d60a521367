/* cmd_share.c - the command share: divides the memory of a card among jobs. It plans each job for several budgets, and combines
 * the times of these plans. */
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/share_report.h"
#include "cli/reports/share_run.h"
#include "estimator/base/quantities.h"
#include "estimator/graph/liveness.h"
#include "executor/workload/other_rules.h"

static const double TICK = 1e-9; /* seconds of a tick: times of jobs are compared in whole nanoseconds */

enum { ROUNDS = 2 }; /* jobs are planned again for the memory that a split leaves free, at most this often */

static mp_share_way way_named(const char *name)
{
    int way = 0;
    /* the name exists, because the option table has checked it */
    while (strcmp(mp_share_way_name((mp_share_way)way), name) != 0) way++;
    return (mp_share_way)way;
}

static mp_share_goal goal_named(const char *name)
{
    return strcmp(mp_share_goal_name(MP_SHARE_LONGEST), name) ? MP_SHARE_TOTAL : MP_SHARE_LONGEST;
}

/* Reads the number of training steps of each job: one number for all jobs, or a list with one number per job. */
static int read_steps(const options *o, sharing *s)
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
static int settle_run(options *o, sharing *s)
{
    if (!o->training.runs) return EXIT_DONE;
    if (option_given(o, OPT_MODE) && s->way != MP_SHARE_TURNS)
        return usage_error("--run runs by turns, which contradicts --mode %s", o->search.mode);
    if (!option_given(o, OPT_DEVICE)) o->model.device = "cpu";
    s->way = MP_SHARE_TURNS;
    return EXIT_DONE;
}

static mp_status load_jobs(const options *o, sharing *s, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        size_t as = 0;
        while (as < i && (strcmp(o->operands[as], o->operands[i]) != 0 || s->jobs[as].n_steps != s->jobs[i].n_steps)) as++;
        s->jobs[i].as = as;
        if (as != i) continue;
        MP_CHECK(load_workload(o->operands[i], o, &s->jobs[i].workload, err));
        if (!o->talk.quiet || o->talk.json)
            MP_CHECK(mp_other_rules_of(&o->model, &s->jobs[i].workload, &s->jobs[i].other, err));
    }
    return MP_OK;
}

/* Finds the card, which is the device of all jobs. If --memory was given, it replaces the memory of the card. */
static mp_status find_card(const options *o, int64_t memory_bytes, sharing *s, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        mp_device_room room;
        mp_room_of_workload(&sharing_job_of(s, i)->workload, &o->model, &room);
        MP_ENSURE(!i || !*room.name || !*s->room.name || !strcmp(room.name, s->room.name), err, MP_INVALID,
                  "the jobs are for different devices, %s and %s, but they must share one", s->room.name, room.name);
        if (!*s->room.name) s->room = room;
    }
    if (option_given(o, OPT_RESERVE)) s->room.reserve_bytes = o->search.reserve;
    if (memory_bytes >= 0) s->room.memory_bytes = memory_bytes;
    MP_ENSURE(memory_bytes >= 0 || *s->room.name, err, MP_INVALID,
              "the device is not known, so its memory must be stated; add --memory 24GiB");
    return MP_OK;
}

/* ---- planning ---- */

typedef struct shower {
    progress shown;
    size_t job, n_jobs;
} shower;

static void shower_end(shower *x)
{
    progress_end(&x->shown);
}

static bool show(size_t k, size_t n, const mp_progress *search, void *data)
{
    shower *x = data;
    if (search) return progress_show(search, &x->shown);
    return progress_next(&x->shown, mp_text("job %zu of %zu, plan %zu of %zu", x->job + 1, x->n_jobs, k + 1, n));
}

/* Refuses jobs with carried storages, which stay live from one training step to the next. Jobs that run by turns use the same
 * arena, so only static storages may keep data between turns. */
static mp_status refuse_carried(const sharing *s, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_workload *job = &sharing_job_of(s, i)->workload;
        MP_ABOUT(err, job->path);
        for (size_t k = 0; k < job->graph->n_storages; k++) {
            const mp_storage *x = &job->graph->storages[k];
            MP_ENSURE(mp_storage_is_static(x) || !mp_storage_outlives_step(x), err, MP_INVALID,
                      "%s is carried to the next step (--fuse forward), which is not possible in turns",
                      mp_storage_label(job->graph, (int)k).text);
        }
    }
    return MP_OK;
}

static mp_share_plans_request request_of(const options *o, const sharing_job *job, shower *x)
{
    return (mp_share_plans_request){.graph = job->workload.graph,
                                    .problem = job->workload.problem,
                                    .n_steps = job->n_steps,
                                    .unit_seconds = TICK,
                                    .solver = o->search.solver,
                                    .seed = (uint64_t)o->search.seed,
                                    .moves = o->search.moves,
                                    .effort = (mp_effort)mp_effort_find(o->search.effort),
                                    .keep_order = o->search.keep_order,
                                    .progress = show,
                                    .progress_data = x};
}

/* Plans every job with everything kept. *fits: all these plans fit on the card at the same time. Then they also fit with every
 * other way of sharing, because this way needs the most memory. */
static mp_status keep_all_of_jobs(const options *o, sharing *s, shower *x, bool *fits, mp_error *err)
{
    int64_t bytes = 0;
    *fits = true;
    for (size_t i = 0; i < s->n_jobs; i++) {
        sharing_job *job = sharing_job_of(s, i);
        const mp_share_plans_request request = request_of(o, job, x);
        MP_ABOUT(err, job->workload.path);
        if (s->jobs[i].as == i) MP_CHECK(mp_share_plans_keep_all(&request, &job->plans, err));
        *fits = *fits && mp_add(bytes, job->plans.keep_all_bytes, &bytes);
    }
    *fits = *fits && bytes <= sharing_capacity(s, MP_SHARE_BESIDE, s->n_jobs);
    return MP_OK;
}

/* Searches for further plans of every job, unless all jobs fit with everything kept. */
static mp_status plan_jobs(const options *o, sharing *s, shower *x, mp_error *err)
{
    bool fits;
    MP_CHECK(keep_all_of_jobs(o, s, x, &fits, err));
    s->is_searched = !fits;
    for (x->job = 0; s->is_searched && x->job < s->n_jobs; x->job++) {
        sharing_job *job = &s->jobs[x->job];
        if (job->as != x->job) continue;
        MP_ABOUT(err, job->workload.path);
        const mp_share_plans_request request = request_of(o, job, x);
        MP_CHECK(mp_share_plans_more(&request, &job->plans, err));
        s->stopped |= job->plans.stopped;
    }
    return MP_OK;
}

/* ---- splitting ---- */

/* Finds the first job that does not fit on the card together with all jobs before it, reserves included. */
static mp_status find_refused(const sharing *s, mp_share_request request, size_t *refused, mp_error *err)
{
    const size_t n = request.n_jobs;
    for (*refused = 0; *refused < n; ++*refused) {
        MP_CLEARED_BY(mp_share_split_free) mp_share_split split = {0};
        request.n_jobs = *refused + 1;
        request.capacity_bytes = sharing_capacity(s, request.way, request.n_jobs);
        MP_CHECK(mp_share_split_of(&request, &split, err));
        if (!split.fits) break;
    }
    return MP_OK;
}

static mp_status split_card(sharing *s, mp_share_way way, mp_error *err)
{
    sharing_way *w = &s->ways[way];
    /* entries 0 .. n_jobs - 1 are the options of jobs, the other n_jobs entries are their bounds */
    MP_OWNED mp_share_job *jobs = mp_alloc(2 * s->n_jobs, sizeof *jobs);
    MP_ENSURE(jobs, err, MP_NOMEM, "out of memory for %zu jobs", s->n_jobs);
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_share_plans *p = &sharing_job_of(s, i)->plans;
        jobs[i] = (mp_share_job){.options = p->options, .n = p->n, .static_bytes = p->static_bytes};
        jobs[s->n_jobs + i] = (mp_share_job){.options = p->bounds, .n = p->n_bounds, .static_bytes = p->static_bytes};
    }
    mp_share_request request = {.jobs = jobs,
                                .n_jobs = s->n_jobs,
                                .way = way,
                                .goal = sharing_goal(s, way),
                                .capacity_bytes = sharing_capacity(s, way, s->n_jobs)};
    mp_share_split_free(&w->split);
    mp_share_split_free(&w->bound);
    MP_CHECK(mp_share_split_of(&request, &w->split, err));
    MP_CHECK(find_refused(s, request, &w->refused, err));
    request.jobs = jobs + s->n_jobs;
    return mp_share_split_of(&request, &w->bound, err);
}

/* Computes the memory profile of each plan of a job: the live bytes during its training step. */
static mp_status profiles_of(const sharing_job *job, mp_share_profile *out, mp_error *err)
{
    for (size_t k = 0; k < job->plans.n; k++)
        MP_CHECK(mp_share_profile_of(job->workload.graph, job->plans.plans[k], TICK, &out[k], err));
    return MP_OK;
}

/* The memory profiles of all plans of two jobs. */
typedef struct profile_lists {
    size_t n[2];
    mp_share_profile *lists[2];
} profile_lists;

static void profile_lists_free(profile_lists *p)
{
    for (int j = 0; j < 2; j++) {
        for (size_t k = 0; p->lists[j] && k < p->n[j]; k++) mp_share_profile_free(&p->lists[j][k]);
        mp_free(p->lists[j]);
    }
}

/* Finds the fastest pair of plans, one per job, with which the two jobs in lock-step fit in one arena. */
static mp_status place_lockstep(sharing *s, mp_error *err)
{
    const sharing_job *a = sharing_job_of(s, 0), *b = sharing_job_of(s, 1);
    const mp_graph *const graphs[] = {a->workload.graph, b->workload.graph};
    const mp_share_plans *const plans[] = {&a->plans, &b->plans};
    const int64_t capacity_bytes = sharing_capacity(s, MP_SHARE_LOCKSTEP, 2);
    return mp_share_lockstep_place(graphs, plans, TICK, capacity_bytes, &s->lockstep, &s->arena, err);
}

/* Divides the card between two jobs in lock-step, which count as one job in the split. */
static mp_status split_lockstep(sharing *s, mp_error *err)
{
    sharing_way *w = &s->ways[MP_SHARE_LOCKSTEP];
    mp_share_job jobs[2], bounds[2];
    MP_CLEARED_BY(profile_lists_free) profile_lists p = {0};
    MP_CLEARED_BY(mp_share_lockstep_free) mp_share_lockstep bound = {0};
    for (size_t j = 0; j < 2; j++) {
        const mp_share_plans *x = &sharing_job_of(s, j)->plans;
        jobs[j] = (mp_share_job){.options = x->options, .n = x->n, .static_bytes = x->static_bytes};
        bounds[j] = (mp_share_job){.options = x->bounds, .n = x->n_bounds, .static_bytes = x->static_bytes};
        MP_ENSURE(p.lists[j] = mp_alloc(x->n, sizeof *p.lists[j]), err, MP_NOMEM, "out of memory for %zu plans", x->n);
        p.n[j] = x->n;
        MP_CHECK(profiles_of(sharing_job_of(s, j), p.lists[j], err));
    }
    const mp_share_profile *const lists[] = {p.lists[0], p.lists[1]};
    MP_CHECK(mp_share_lockstep_of(jobs, lists, s->goal, &s->lockstep, err));
    MP_CHECK(mp_share_lockstep_bound(bounds, s->goal, &bound, err));
    MP_CHECK(place_lockstep(s, err));
    const mp_share_job one = {.options = s->lockstep.options, .n = s->lockstep.n},
                       least = {.options = bound.options, .n = bound.n};
    mp_share_request request = {
        .jobs = &one, .n_jobs = 1, .way = MP_SHARE_LOCKSTEP, .capacity_bytes = sharing_capacity(s, MP_SHARE_LOCKSTEP, 2)};
    MP_CHECK(mp_share_split_of(&request, &w->split, err));
    w->refused = w->split.fits ? 2 : jobs[0].options[0].bytes <= request.capacity_bytes;
    request.jobs = &least;
    return mp_share_split_of(&request, &w->bound, err);
}

/* True if there are two jobs and both have the same number of steps, so that they can run in lock-step. */
static bool is_pair(const sharing *s)
{
    return s->n_jobs == 2 && s->jobs[0].n_steps == s->jobs[1].n_steps;
}

/* For each job whose plan recomputes: searches for a plan that also uses the memory that the other jobs leave free. */
static mp_status plan_for_rest(const options *o, sharing *s, mp_share_way way, shower *x, mp_error *err)
{
    const mp_share_split *split = &s->ways[way].split;
    const int64_t rest_bytes = sharing_capacity(s, way, s->n_jobs) - split->bytes;
    int64_t turn_bytes = split->bytes + rest_bytes;
    for (size_t i = 0; i < s->n_jobs; i++) turn_bytes -= sharing_job_of(s, i)->plans.static_bytes;
    /* the options are copied, because adding a plan may move a job's options in memory */
    MP_OWNED mp_share_option *options = mp_alloc(s->n_jobs, sizeof *options);
    MP_ENSURE(options, err, MP_NOMEM, "out of memory for %zu jobs", s->n_jobs);
    for (size_t i = 0; i < s->n_jobs; i++) options[i] = sharing_job_of(s, i)->plans.options[split->chosen[i]];
    for (x->job = 0; x->job < s->n_jobs && !s->stopped; x->job++) {
        sharing_job *job = sharing_job_of(s, x->job);
        const mp_share_option option = options[x->job];
        if (option.ticks <= job->plans.bounds[job->plans.n_bounds - 1].ticks) continue;
        const mp_share_plans_request request = request_of(o, job, x);
        const int64_t budget_bytes = way == MP_SHARE_BESIDE ? option.bytes + rest_bytes : job->plans.static_bytes + turn_bytes;
        MP_CHECK(mp_share_plans_add(&request, budget_bytes, &job->plans, err));
        s->stopped |= job->plans.stopped;
    }
    return MP_OK;
}

static mp_status share(const options *o, int64_t memory_bytes, sharing *s, mp_error *err)
{
    MP_CLEARED_BY(shower_end) shower x = {.n_jobs = s->n_jobs};
    MP_CHECK(load_jobs(o, s, err));
    MP_CHECK(refuse_carried(s, err));
    if (o->training.runs) MP_CHECK(sharing_can_run(s, o, err));
    MP_CHECK(find_card(o, memory_bytes, s, err));
    progress_start(&x.shown, o, 0, INT64_MAX);
    MP_CHECK(plan_jobs(o, s, &x, err));
    for (int round = 0; round <= ROUNDS; round++)
        for (int way = 0; way < MP_SHARE_LOCKSTEP; way++) {
            MP_CHECK(split_card(s, (mp_share_way)way, err));
            if (round < ROUNDS && s->ways[way].split.fits) MP_CHECK(plan_for_rest(o, s, (mp_share_way)way, &x, err));
        }
    return is_pair(s) ? split_lockstep(s, err) : MP_OK;
}

/* Runs the jobs if --run was given. Then prints the answer. run->n is 0 if the jobs did not run. */
static mp_status answer(const options *o, const sharing *s, sharing_run *run, mp_error *err)
{
    if (o->output.out && s->ways[s->way].split.fits) MP_CHECK(sharing_write_plans(s, o->output.out, err));
    if (o->training.runs && s->ways[s->way].split.fits) MP_CHECK(sharing_run_all(s, o, run, err));
    if (o->talk.json) return print_sharing_json(s, run->n ? sharing_run_json(run) : json_null(), err);
    print_sharing(s, o);
    if (run->n && !o->talk.quiet) print_sharing_run(s, run);
    return MP_OK;
}

int cmd_share(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(sharing_free)
    sharing s = {.n_jobs = o->n_operands, .way = way_named(o->search.mode), .goal = goal_named(o->search.goal)};
    MP_CLEARED_BY(sharing_run_free) sharing_run run = {0};
    int64_t memory_bytes;
    if (!(s.jobs = mp_alloc(s.n_jobs, sizeof *s.jobs))) {
        complain("out of memory");
        return EXIT_NO;
    }
    options_take_card(o);
    int rc = memory_read(o, &memory_bytes);
    if (!rc) rc = read_steps(o, &s);
    if (!rc && s.way == MP_SHARE_LOCKSTEP && !is_pair(&s))
        rc = usage_error("--mode lockstep is for two jobs of equally many steps");
    if (!rc) rc = settle_run(o, &s);
    if (!rc && o->output.out && !strcmp(o->output.out, "-"))
        rc = usage_error("-o -: each job has a file of its own; name one, such as plan.json");
    if (rc) return rc;
    if (share(o, memory_bytes, &s, &err) != MP_OK) return input_failed(&err);
    if (s.stopped) complain("the search was cut short; this is what it had found");
    if (answer(o, &s, &run, &err) != MP_OK) return output_failed(&err);
    if (run.n) return sharing_run_is_same(&run) && sharing_run_is_as_planned(&run) ? EXIT_DONE : EXIT_NO;
    return s.ways[s.way].split.fits ? EXIT_DONE : no_plan_status(!s.ways[s.way].bound.fits);
}
