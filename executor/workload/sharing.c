/* sharing.c - loads jobs that share a card, searches for their plans, and divides the card's memory among them. */
#include "memplan/workloads/sharing.h"

#include <string.h>

#include "estimator/graph/liveness.h"
#include "executor/workload/workload.h"

enum { ROUNDS = 2 }; /* maximum number of times that jobs are planned again for the memory that a split leaves free */

void mp_sharing_free(mp_sharing *s)
{
    for (size_t i = 0; s->jobs && i < s->n_jobs; i++) {
        mp_share_plans_free(&s->jobs[i].plans);
        mp_workload_free(&s->jobs[i].workload);
    }
    mp_free(s->jobs);
    for (int w = 0; w < MP_N_SHARE_WAYS; w++) {
        mp_share_split_free(&s->ways[w].split);
        mp_share_split_free(&s->ways[w].bound);
    }
}

mp_sharing_job *mp_sharing_job_of(const mp_sharing *s, size_t i)
{
    return &s->jobs[s->jobs[i].as];
}

int64_t mp_sharing_processes(mp_share_way way, size_t n_jobs)
{
    return way == MP_SHARE_BESIDE ? (int64_t)n_jobs : 1;
}

int64_t mp_sharing_capacity(const mp_sharing *s, mp_share_way way, size_t n_jobs)
{
    const int64_t left = s->room.memory_bytes - mp_sharing_processes(way, n_jobs) * s->room.reserve_bytes;
    return left > 0 ? left : 0;
}

mp_share_goal mp_sharing_goal(const mp_sharing *s, mp_share_way way)
{
    return way == MP_SHARE_TURNS ? MP_SHARE_TOTAL : s->goal;
}

/* ---- loading ---- */

static mp_status load_jobs(mp_sharing *s, const char *const *paths, const mp_sharing_request *r, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        size_t as = 0;
        while (as < i && (strcmp(paths[as], paths[i]) != 0 || s->jobs[as].n_steps != s->jobs[i].n_steps)) as++;
        s->jobs[i].as = as;
        if (as != i) continue;
        MP_CHECK(mp_workload_load(paths[i], r->options, &s->jobs[i].workload, err));
        if (r->wants_other_rules) MP_CHECK(mp_other_rules_of(r->options, &s->jobs[i].workload, &s->jobs[i].other, err));
    }
    return MP_OK;
}

/* Finds the card, which is the device of all jobs. If --memory was given, it replaces the memory of the card. */
static mp_status find_card(mp_sharing *s, const mp_sharing_request *r, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        mp_device_capacity room;
        mp_capacity_of_workload(&mp_sharing_job_of(s, i)->workload, r->options, &room);
        MP_ENSURE(!i || !*room.name || !*s->room.name || !strcmp(room.name, s->room.name), err, MP_INVALID,
                  "the jobs are for different devices, %s and %s, but they must share one", s->room.name, room.name);
        if (!*s->room.name) s->room = room;
    }
    if (r->options->has_reserve) s->room.reserve_bytes = r->options->reserve_bytes;
    if (r->memory_bytes >= 0) s->room.memory_bytes = r->memory_bytes;
    MP_ENSURE(r->memory_bytes >= 0 || *s->room.name, err, MP_INVALID,
              "the device is not known, so its memory must be stated; add --memory 24GiB");
    return MP_OK;
}

/* Refuses jobs with carried storages, which stay live from one training step to the next. Jobs that run by turns use the same
 * arena, so only static storages may keep data between turns. */
static mp_status refuse_carried(const mp_sharing *s, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_workload *job = &mp_sharing_job_of(s, i)->workload;
        MP_ABOUT(err, job->path);
        for (size_t k = 0; k < job->graph->n_storages; k++) {
            const mp_storage *x = &job->graph->storages[k];
            MP_ENSURE(mp_storage_is_static(x) || !mp_storage_outlives_step(x), err, MP_INVALID,
                      "%s is carried to the next step (--fuse forward), but jobs in turns share one arena; use --fuse none",
                      mp_storage_label(job->graph, (int)k).text);
        }
    }
    return MP_OK;
}

static mp_status check_runs(const mp_sharing *s, const mp_workload_options *o, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_workload *job = &mp_sharing_job_of(s, i)->workload;
        MP_ABOUT(err, job->path);
        MP_ENSURE(job->model, err, MP_INVALID, "--run needs models; a training graph has no operators to run");
        MP_ENSURE(strcmp(o->rules, "pytorch") != 0, err, MP_INVALID,
                  "--run keeps the tensors that memplan's own kernels read, so it cannot run --rules pytorch");
        MP_ENSURE(job->program, err, MP_UNSUPPORTED, "the device '%s' is a profile for planning; --run runs on cpu and cuda",
                  o->device);
        MP_ENSURE(job->program->bindings->loss >= 0, err, MP_INVALID, "training needs a loss, so --loss none is not for --run");
    }
    return MP_OK;
}

mp_status mp_sharing_load(mp_sharing *s, const char *const *paths, const mp_sharing_request *r, mp_error *err)
{
    MP_CHECK(load_jobs(s, paths, r, err));
    MP_CHECK(refuse_carried(s, err));
    if (r->runs) MP_CHECK(check_runs(s, r->options, err));
    return find_card(s, r, err);
}

/* ---- plans ---- */

/* A search for plans of one job. */
typedef struct searching {
    const mp_sharing_request *request;
    size_t job;
} searching;

static bool pass_on(size_t k, size_t n, const mp_progress *search, void *data)
{
    const searching *x = data;
    return !x->request->progress || x->request->progress(x->job, k, n, search, x->request->data);
}

static mp_share_plans_request request_of(const mp_sharing_job *job, searching *x)
{
    const mp_request *search = x->request->search;
    return (mp_share_plans_request){.graph = job->workload.graph,
                                    .problem = job->workload.problem,
                                    .n_steps = job->n_steps,
                                    .unit_seconds = MP_SHARING_TICK,
                                    .solver = search->solver,
                                    .seed = search->seed,
                                    .moves = search->moves,
                                    .effort = search->effort,
                                    .keep_order = search->keep_order,
                                    .progress = pass_on,
                                    .progress_data = x};
}

/* Plans every job with everything kept. *fits: all these plans fit on the card at the same time. Then they also fit with every
 * other way of sharing, because running all jobs at once needs the most memory. */
static mp_status keep_all_of_jobs(mp_sharing *s, searching *x, bool *fits, mp_error *err)
{
    int64_t bytes = 0;
    *fits = true;
    for (size_t i = 0; i < s->n_jobs; i++) {
        mp_sharing_job *job = mp_sharing_job_of(s, i);
        const mp_share_plans_request request = request_of(job, x);
        MP_ABOUT(err, job->workload.path);
        if (s->jobs[i].as == i) MP_CHECK(mp_share_plans_keep_all(&request, &job->plans, err));
        *fits = *fits && mp_add(bytes, job->plans.keep_all_bytes, &bytes);
    }
    *fits = *fits && bytes <= mp_sharing_capacity(s, MP_SHARE_BESIDE, s->n_jobs);
    return MP_OK;
}

/* Searches for further plans of every job, unless all jobs fit with everything kept. */
static mp_status plan_jobs(mp_sharing *s, searching *x, mp_error *err)
{
    bool fits;
    MP_CHECK(keep_all_of_jobs(s, x, &fits, err));
    s->is_searched = !fits;
    for (x->job = 0; s->is_searched && x->job < s->n_jobs; x->job++) {
        mp_sharing_job *job = &s->jobs[x->job];
        if (job->as != x->job) continue;
        MP_ABOUT(err, job->workload.path);
        const mp_share_plans_request request = request_of(job, x);
        MP_CHECK(mp_share_plans_more(&request, &job->plans, err));
        s->stopped |= job->plans.stopped;
    }
    return MP_OK;
}

/* ---- splitting ---- */

/* Finds the first job that does not fit on the card together with all jobs before it, reserves included. */
static mp_status find_refused(const mp_sharing *s, mp_share_request request, size_t *refused, mp_error *err)
{
    const size_t n = request.n_jobs;
    for (*refused = 0; *refused < n; ++*refused) {
        MP_CLEARED_BY(mp_share_split_free) mp_share_split split = {0};
        request.n_jobs = *refused + 1;
        request.capacity_bytes = mp_sharing_capacity(s, request.way, request.n_jobs);
        MP_CHECK(mp_share_split_of(&request, &split, err));
        if (!split.fits) break;
    }
    return MP_OK;
}

static mp_status split_card(mp_sharing *s, mp_share_way way, mp_error *err)
{
    mp_sharing_way *w = &s->ways[way];
    /* entries 0 .. n_jobs - 1 are the options of jobs, the other n_jobs entries are their bounds */
    MP_OWNED mp_share_job *jobs = mp_alloc(2 * s->n_jobs, sizeof *jobs);
    MP_ENSURE(jobs, err, MP_NOMEM, "out of memory for %zu jobs", s->n_jobs);
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_share_plans *p = &mp_sharing_job_of(s, i)->plans;
        jobs[i] = (mp_share_job){.options = p->options, .n = p->n, .static_bytes = p->static_bytes};
        jobs[s->n_jobs + i] = (mp_share_job){.options = p->bounds, .n = p->n_bounds, .static_bytes = p->static_bytes};
    }
    mp_share_request request = {.jobs = jobs,
                                .n_jobs = s->n_jobs,
                                .way = way,
                                .goal = mp_sharing_goal(s, way),
                                .capacity_bytes = mp_sharing_capacity(s, way, s->n_jobs)};
    mp_share_split_free(&w->split);
    mp_share_split_free(&w->bound);
    MP_CHECK(mp_share_split_of(&request, &w->split, err));
    MP_CHECK(find_refused(s, request, &w->refused, err));
    request.jobs = jobs + s->n_jobs;
    return mp_share_split_of(&request, &w->bound, err);
}

/* For each job whose plan recomputes: searches for a plan that also uses the memory that the other jobs leave free. */
static mp_status plan_for_rest(mp_sharing *s, mp_share_way way, searching *x, mp_error *err)
{
    const mp_share_split *split = &s->ways[way].split;
    const int64_t rest_bytes = mp_sharing_capacity(s, way, s->n_jobs) - split->bytes;
    int64_t turn_bytes = split->bytes + rest_bytes;
    for (size_t i = 0; i < s->n_jobs; i++) turn_bytes -= mp_sharing_job_of(s, i)->plans.static_bytes;
    /* the options are copied, because adding a plan may move a job's options in memory */
    MP_OWNED mp_share_option *options = mp_alloc(s->n_jobs, sizeof *options);
    MP_ENSURE(options, err, MP_NOMEM, "out of memory for %zu jobs", s->n_jobs);
    for (size_t i = 0; i < s->n_jobs; i++) options[i] = mp_sharing_job_of(s, i)->plans.options[split->chosen[i]];
    for (x->job = 0; x->job < s->n_jobs && !s->stopped; x->job++) {
        mp_sharing_job *job = mp_sharing_job_of(s, x->job);
        const mp_share_option option = options[x->job];
        if (option.ticks <= job->plans.bounds[job->plans.n_bounds - 1].ticks) continue;
        const mp_share_plans_request request = request_of(job, x);
        const int64_t budget_bytes = way == MP_SHARE_BESIDE ? option.bytes + rest_bytes : job->plans.static_bytes + turn_bytes;
        MP_CHECK(mp_share_plans_add(&request, budget_bytes, &job->plans, err));
        s->stopped |= job->plans.stopped;
    }
    return MP_OK;
}

mp_status mp_sharing_search(mp_sharing *s, const mp_sharing_request *r, mp_error *err)
{
    searching x = {.request = r};
    MP_CHECK(plan_jobs(s, &x, err));
    for (int round = 0; round <= ROUNDS; round++)
        for (int way = 0; way < MP_N_SHARE_WAYS; way++) {
            MP_CHECK(split_card(s, (mp_share_way)way, err));
            if (round < ROUNDS && s->ways[way].split.fits) MP_CHECK(plan_for_rest(s, (mp_share_way)way, &x, err));
        }
    return MP_OK;
}
