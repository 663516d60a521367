/* sharing_run.c - trains the jobs of a split, each alone and then all by turns. */
#include "memplan/workloads/sharing_run.h"

/* The inputs for the trainings of all jobs: sources of parameters, data feeds and requests. */
typedef struct sources {
    size_t n;
    mp_parameter_source **parameters;
    mp_feed **feeds;
    mp_train_request *requests;
} sources;

static void sources_free(sources *x)
{
    for (size_t i = 0; x->parameters && i < x->n; i++) mp_parameter_source_free(x->parameters[i]);
    for (size_t i = 0; x->feeds && i < x->n; i++) mp_feed_free(x->feeds[i]);
    mp_free(x->parameters);
    mp_free(x->feeds);
    mp_free(x->requests);
}

static mp_status open_sources(const mp_sharing *s, const mp_workload_options *o, uint64_t seed, sources *x, mp_error *err)
{
    const mp_hyper hyper = mp_hyper_default((mp_optimizer)mp_optimizer_find(o->optimizer));
    x->parameters = mp_alloc(x->n, sizeof(mp_parameter_source *));
    x->feeds = mp_alloc(x->n, sizeof(mp_feed *));
    x->requests = mp_alloc(x->n, sizeof *x->requests);
    MP_ENSURE(x->parameters && x->feeds && x->requests, err, MP_NOMEM, "out of memory for %zu jobs", x->n);
    for (size_t i = 0; i < x->n; i++) {
        const mp_sharing_job *job = mp_sharing_job_of(s, i);
        MP_ABOUT(err, job->workload.path);
        MP_CHECK(mp_parameter_source_open(job->workload.program, job->workload.path, seed, false, &x->parameters[i], err));
        MP_CHECK(mp_inputs_open_feed(job->workload.program, NULL, 0, seed, &x->feeds[i], err));
        x->requests[i] = (mp_train_request){.program = job->workload.program,
                                            .plan = job->plans.plans[s->ways[MP_SHARE_TURNS].split.chosen[i]],
                                            .execution = {.hyper = hyper, .seed = seed},
                                            .feed = x->feeds[i],
                                            .parameters = x->parameters[i],
                                            .n_steps = job->n_steps};
    }
    return MP_OK;
}

mp_status mp_sharing_run_all(const mp_sharing *s, const mp_workload_options *o, uint64_t seed, mp_sharing_run *out,
                             mp_error *err)
{
    MP_CLEARED_BY(sources_free) sources x = {.n = s->n_jobs};
    *out = (mp_sharing_run){.n = s->n_jobs};
    MP_ENSURE(out->alone = mp_alloc(out->n, sizeof *out->alone), err, MP_NOMEM, "out of memory for %zu jobs", out->n);
    MP_CHECK(open_sources(s, o, seed, &x, err));
    for (size_t i = 0; i < x.n; i++) {
        MP_ABOUT(err, mp_sharing_job_of(s, i)->workload.path);
        MP_CHECK(mp_train(&x.requests[i], &out->alone[i], err));
    }
    return mp_train_turns(x.requests, x.n, &out->turns, err);
}

void mp_sharing_run_free(mp_sharing_run *r)
{
    for (size_t i = 0; r->alone && i < r->n; i++) mp_report_free(&r->alone[i]);
    mp_free(r->alone);
    mp_turns_free(&r->turns);
}

bool mp_sharing_run_is_same(const mp_sharing_run *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (!mp_reports_are_same(&r->alone[i], &r->turns.reports[i])) return false;
    return true;
}

bool mp_sharing_run_is_as_planned(const mp_sharing_run *r)
{
    return r->turns.measured_arena_bytes == r->turns.arena_bytes;
}
