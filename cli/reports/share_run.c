/* share_run.c - trains the jobs of a split, each alone and then all by turns. Compares losses, parameters and memory of
 * both. */
#include "cli/reports/share_run.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "formats/json/json.h"

/* ---- running ---- */

mp_status sharing_can_run(const sharing *s, const options *o, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_workload *job = &sharing_job_of(s, i)->workload;
        MP_ABOUT(err, job->path);
        MP_ENSURE(job->model, err, MP_INVALID, "--run needs models; a training graph has no operators to run");
        MP_ENSURE(strcmp(o->model.rules, "pytorch") != 0, err, MP_INVALID,
                  "--run keeps the tensors that memplan's own kernels read, so it cannot run --rules pytorch");
        MP_ENSURE(job->program, err, MP_UNSUPPORTED, "the device '%s' is a profile for planning; --run runs on cpu and cuda",
                  o->model.device);
        MP_ENSURE(job->program->bindings->loss >= 0, err, MP_INVALID, "training needs a loss, so --loss none is not for --run");
    }
    return MP_OK;
}

/* The data for the trainings of all jobs: sources of parameters, data feeds and requests. */
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

static mp_status open_sources(const sharing *s, const options *o, sources *x, mp_error *err)
{
    const uint64_t seed = (uint64_t)o->search.seed;
    const mp_hyper hyper = mp_hyper_default((mp_optimizer)mp_optimizer_find(o->model.optimizer));
    x->parameters = mp_alloc(x->n, sizeof(mp_parameter_source *));
    x->feeds = mp_alloc(x->n, sizeof(mp_feed *));
    x->requests = mp_alloc(x->n, sizeof *x->requests);
    MP_ENSURE(x->parameters && x->feeds && x->requests, err, MP_NOMEM, "out of memory for %zu jobs", x->n);
    for (size_t i = 0; i < x->n; i++) {
        const sharing_job *job = sharing_job_of(s, i);
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

mp_status sharing_run_all(const sharing *s, const options *o, sharing_run *out, mp_error *err)
{
    MP_CLEARED_BY(sources_free) sources x = {.n = s->n_jobs};
    *out = (sharing_run){.n = s->n_jobs};
    MP_ENSURE(out->alone = mp_alloc(out->n, sizeof *out->alone), err, MP_NOMEM, "out of memory for %zu jobs", out->n);
    MP_CHECK(open_sources(s, o, &x, err));
    for (size_t i = 0; i < x.n; i++) {
        MP_ABOUT(err, sharing_job_of(s, i)->workload.path);
        MP_CHECK(mp_train(&x.requests[i], &out->alone[i], err));
    }
    return mp_train_turns(x.requests, x.n, &out->turns, err);
}

void sharing_run_free(sharing_run *r)
{
    for (size_t i = 0; r->alone && i < r->n; i++) mp_report_free(&r->alone[i]);
    mp_free(r->alone);
    mp_turns_free(&r->turns);
}

/* ---- results ---- */

static bool is_same(const mp_report *a, const mp_report *b)
{
    return a->n_losses == b->n_losses && !memcmp(a->losses, b->losses, a->n_losses * sizeof *a->losses) &&
           !strcmp(a->weights_hash, b->weights_hash);
}

bool sharing_run_is_same(const sharing_run *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (!is_same(&r->alone[i], &r->turns.reports[i])) return false;
    return true;
}

bool sharing_run_is_as_planned(const sharing_run *r)
{
    return r->turns.measured_arena_bytes == r->turns.arena_bytes;
}

void print_sharing_run(const sharing *s, const sharing_run *r)
{
    const mp_turns *t = &r->turns;
    puts("\nRun by turns, a step of each, in one arena:");
    screen_row("  %2s  %6s  %9s  %12s  %9s  %9s", "", "steps", "a step", "last loss", "losses", "weights");
    for (size_t i = 0; i < r->n; i++) {
        const mp_report *alone = &r->alone[i], *now = &t->reports[i];
        const bool losses = !memcmp(alone->losses, now->losses, now->n_losses * sizeof *now->losses);
        screen_row("  %2zu  %6zu  %9s  %12.6g  %9s  %9s  %s", i + 1, now->n_losses, seconds_text(now->step_seconds),
                   now->losses[now->n_losses - 1], losses ? "as alone" : "differ",
                   strcmp(alone->weights_hash, now->weights_hash) ? "differ" : "as alone",
                   sharing_job_of(s, i)->workload.title);
    }
    screen_text(2, "  always live %s, arena %s; of the arena %s bytes were used, %s", mp_bytes_text(t->static_bytes),
                mp_bytes_text(t->arena_bytes), count_text(t->measured_arena_bytes),
                sharing_run_is_as_planned(r) ? "as planned" : mp_text("where %s are planned", count_text(t->arena_bytes)));
}

json_t *sharing_run_json(const sharing_run *r)
{
    json_t *jobs = json_array();
    for (size_t i = 0; i < r->n; i++) {
        const mp_report *now = &r->turns.reports[i];
        json_t *losses = json_array();
        for (size_t k = 0; k < now->n_losses; k++) mp_json_append(&losses, json_real(now->losses[k]));
        mp_json_append(&jobs, json_pack("{s:o, s:s, s:f, s:b}", "losses", losses, "weights_hash", now->weights_hash,
                                        "step_seconds", now->step_seconds, "identical", (int)is_same(&r->alone[i], now)));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "static_bytes", (json_int_t)r->turns.static_bytes, "arena_bytes",
                     (json_int_t)r->turns.arena_bytes, "measured_arena_bytes", (json_int_t)r->turns.measured_arena_bytes,
                     "jobs", jobs);
}
