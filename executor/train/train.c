/* train.c - the training loop: loads batches, runs steps, measures losses and seconds, and saves states. */
#include "memplan/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/ranks/exchanges.h"
#include "executor/train/accuracy.h"
#include "executor/train/not_finite.h"
#include "executor/train/rank_report.h"
#include "executor/train/state.h"
#include "formats/base/process.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of seconds[1..n), and sorts them. seconds[0] is warm-up and counts only if n is 1. */
static double median(double *seconds, size_t n)
{
    if (!n) return 0;
    if (n > 1) seconds++, n--;
    qsort(seconds, n, sizeof *seconds, by_value);
    return n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
}

static mp_status save(const mp_train_request *r, mp_execution *e, int64_t step, mp_error *err)
{
    if (r->saving) r->saving(true, r->progress_data);
    mp_status st = mp_execution_flush(e, err);
    if (st == MP_OK) st = mp_check_finite(e, r->program, step, err);
    if (st == MP_OK) st = mp_state_save(r->save, r->program, e, &r->execution, step, err);
    if (r->saving) r->saving(false, r->progress_data);
    return st;
}

/* With the option profile: the report contains the seconds of each node in the fastest training step. The first step is
 * warm-up and counts only if it is the only one. */
static void keep_profile(mp_execution *e, size_t n_nodes, int64_t step, double took, mp_report *report)
{
    if (report->node_seconds && (step <= 1 || took < report->fastest_seconds)) {
        memcpy(report->node_seconds, mp_execution_seconds(e), n_nodes * sizeof *report->node_seconds);
        report->fastest_seconds = took;
    }
    mp_execution_forget_seconds(e);
}

/* Returns in *bytes the device memory that is in use now; -1: the backend uses host memory. */
static mp_status look_at_device(const mp_backend *b, int64_t *bytes, bool *is_shared, mp_error *err)
{
    mp_backend_memory now;
    *bytes = -1;
    if (!b->memory) return MP_OK;
    MP_CHECK(b->memory(b, &now, err));
    *is_shared |= now.process_bytes < 0;
    *bytes = *is_shared ? now.total_bytes - now.free_bytes : now.process_bytes;
    return MP_OK;
}

/* A training in progress. */
typedef struct training {
    const mp_train_request *request;
    mp_report report;
    mp_execution *execution;
    mp_input_filler filler;
    double *seconds, *input_seconds; /* for each training step: its seconds, and the seconds spent on input data */
    bool *stops;                     /* for each rank: true if the rank has been asked to stop */
    bool has_saved;                  /* true: a state was saved during this training */
    bool in_step;                    /* true: the failure occurred while a training step ran */
} training;

static void training_clear(training *t)
{
    mp_input_filler_free(&t->filler);
    mp_execution_free(t->execution);
    mp_free(t->seconds);
    mp_free(t->input_seconds);
    mp_free(t->stops);
    mp_report_free(&t->report);
}

static mp_status start(training *t, const mp_train_request *r, mp_error *err)
{
    const mp_backend *b = r->program->backend;
    mp_report *report = &t->report;
    t->request = r;
    *report = (mp_report){.static_bytes = r->plan->static_bytes,
                          .planned_peak_bytes = r->plan->peak_bytes,
                          .idle_process_bytes = mp_process_bytes()};
    t->seconds = mp_alloc((size_t)r->n_steps, sizeof *t->seconds);
    t->input_seconds = mp_alloc((size_t)r->n_steps, sizeof *t->input_seconds);
    report->losses = mp_alloc((size_t)r->n_steps, sizeof *report->losses);
    t->stops = mp_alloc(r->execution.world ? (size_t)mp_communicator_size(r->execution.world) : 1, sizeof *t->stops);
    MP_ENSURE(t->seconds && t->input_seconds && t->stops && report->losses, err, MP_NOMEM, "no memory for %lld steps",
              (long long)r->n_steps);
    if (r->execution.profile) {
        report->node_seconds = mp_alloc(r->program->graph->n_nodes, sizeof *report->node_seconds);
        MP_ENSURE(report->node_seconds, err, MP_NOMEM, "out of memory");
    }
    mp_process_forget_peak();
    MP_CHECK(b->open(b, err));
    MP_CHECK(look_at_device(b, &report->idle_device_bytes, &report->device_is_shared, err));
    MP_CHECK(mp_execution_new(r->program, r->plan, &r->execution, &t->execution, err));
    MP_CHECK(mp_parameters_load(r->parameters, r->program, t->execution, err));
    if (r->resume) MP_CHECK(mp_state_resume(r->resume, r->program, t->execution, &r->execution, &report->first_step, err));
    const mp_rank_position *place = mp_execution_position(t->execution);
    mp_feed_share(r->feed, place->data_index, place->n_data);
    return mp_input_filler_new(r->program, r->feed, &t->filler, err);
}

static bool is_over(const training *t)
{
    return t->report.stopped || (int64_t)t->report.n_losses >= t->request->n_steps;
}

/* If the loss is not finite because of a value in the data, adds the position of that value (file and row) to the message. */
static void explain_by_data(const training *t, mp_error *err)
{
    mp_explain_data(t->request, t->report.first_step + (int64_t)t->report.n_losses - 1, err);
}

/* Makes all ranks stop after the same training step if at least one of them has been asked to stop. */
static mp_status agree_to_stop(training *t, bool own, mp_error *err)
{
    const mp_company company = mp_execution_company(t->execution);
    t->report.stopped = own;
    if (!t->request->execution.world) return MP_OK;
    MP_CHECK(mp_communicator_exchange(company.world, &own, sizeof own, t->stops, company.timeout, "the end of a step", err));
    for (int k = 0; k < mp_communicator_size(company.world); k++) t->report.stopped |= t->stops[k];
    return MP_OK;
}

/* Runs the next training step. Before a state is saved, all parameters are checked to be finite. */
static mp_status run_step(training *t, mp_error *err)
{
    const mp_train_request *r = t->request;
    mp_report *report = &t->report;
    const int64_t k = (int64_t)report->n_losses, step = report->first_step + k;
    const double from = mp_clock_now();
    const long allocations = mp_alloc_count;
    double loss;
    t->in_step = true;
    MP_CHECK(mp_execution_step(t->execution, step, mp_inputs_fill, &t->filler, &loss, err));
    t->in_step = false;
    report->n_allocations += mp_alloc_count - allocations;
    t->seconds[k] = mp_clock_now() - from;
    t->input_seconds[k] = mp_execution_input_seconds(t->execution);
    keep_profile(t->execution, r->program->graph->n_nodes, k, t->seconds[k], report);
    report->losses[report->n_losses++] = loss;
    MP_ENSURE(isfinite(loss), err, MP_REFUTED, "the loss is %s at step %lld",
              isnan(loss) ? "nan"
              : loss > 0  ? "inf"
                          : "-inf",
              (long long)(step + 1));
    const mp_train_progress p = {k + 1, r->n_steps, loss, t->seconds[k]};
    MP_CHECK(agree_to_stop(t, r->progress && !r->progress(&p, r->progress_data), err));
    if (r->save && (is_over(t) || (r->save_every && (step + 1) % r->save_every == 0))) {
        MP_CHECK(save(r, t->execution, step + 1, err));
        t->has_saved = true;
    }
    return MP_OK;
}

/* After the last step: runs pending updates, and checks and compares all parameters. */
static mp_status end_steps(training *t, mp_error *err)
{
    MP_CHECK(mp_execution_flush(t->execution, err));
    MP_CHECK(mp_check_finite(t->execution, t->request->program, t->report.first_step + (int64_t)t->report.n_losses, err));
    return mp_execution_compare_ranks(t->execution, err);
}

/* Completes the report of a training whose steps ended with status `st`. Returns `st`, unless another failure occurs. */
static mp_status finish(training *t, mp_status st, mp_error *err)
{
    const mp_train_request *r = t->request;
    mp_execution *e = t->execution;
    mp_report *report = &t->report;
    if (st != MP_OK && st != MP_REFUTED) return st;
    report->arena_bytes = mp_execution_arena_bytes(e);
    report->measured_arena_bytes = mp_execution_touched_bytes(e);
    report->process_bytes = mp_process_peak_bytes();
    for (int m = 1; m < (int)r->program->graph->n_tiers; m++) report->tier_bytes[m] = mp_execution_tier_bytes(e, m);
    report->out_bytes = mp_execution_copied(e).out_bytes;
    report->in_bytes = mp_execution_copied(e).in_bytes;
    if (report->n_losses) report->wait_seconds = mp_execution_wait_seconds(e) / (double)report->n_losses;
    report->n_recordings = mp_execution_recordings(e);
    if (r->execution.world) {
        snprintf(report->network, sizeof report->network, "%s", mp_communicator_name(r->execution.world));
        report->n_ranks = mp_communicator_size(r->execution.world);
        report->sent_bytes = mp_rank_channel_sent_bytes(mp_execution_ranks(e));
        const mp_rank_position *place = mp_execution_position(e);
        int64_t sent;
        MP_CHECK(mp_program_sent_bytes(r->program, r->plan, place, &sent, err));
        report->planned_sent_bytes = (int64_t)report->n_losses * sent;
    }
    if (look_at_device(r->program->backend, &report->device_bytes, &report->device_is_shared, err) != MP_OK) st = MP_IO;
    report->next_batch_bytes = t->filler.prefetch ? mp_prefetch_device_bytes(t->filler.prefetch) : 0;
    mp_input_filler_free(&t->filler);
    report->step_seconds = median(t->seconds, report->n_losses);
    report->input_seconds = median(t->input_seconds, report->n_losses);
    mp_execution_hash(e, report->weights_hash);
    if (r->execution.world && st == MP_OK) MP_CHECK(mp_rank_reports_exchange(r, e, report, err));
    report->has_test = r->test && st == MP_OK && !report->stopped;
    if (report->has_test) MP_CHECK(mp_accuracy_measure(e, r->program, r->test, r->execution.seed, &report->test, err));
    return st;
}

/* Moves the report to *out, and releases everything else. If a value was not finite and its origin is not known yet, the
 * training is repeated in new memory to find the origin. */
static void hand_out(training *t, mp_status st, mp_report *out, mp_error *err)
{
    mp_train_request again = *t->request;
    const char *state = t->has_saved ? again.save : again.resume;
    const bool is_explained = st == MP_REFUTED && !t->in_step &&
                              /* the training is not repeated if it has several ranks, because the other ranks would not repeat
                               * it */
                              !again.execution.world;
    if (st == MP_REFUTED && !is_explained) explain_by_data(t, err);
    *out = t->report;
    t->report = (mp_report){0};
    training_clear(t);
    *t = (training){0};
    again.execution.arena = NULL;
    if (is_explained) mp_explain_not_finite(&again, state, out->first_step + (int64_t)out->n_losses - 1, err);
}

mp_status mp_train(const mp_train_request *r, mp_report *out, mp_error *err)
{
    MP_CLEARED_BY(training_clear) training t = {0};
    mp_status st = MP_OK;
    MP_CHECK(start(&t, r, err));
    while (st == MP_OK && !is_over(&t)) st = run_step(&t, err);
    if (st == MP_OK) st = end_steps(&t, err);
    st = finish(&t, st, err);
    if (st == MP_OK || st == MP_REFUTED) hand_out(&t, st, out, err);
    return st;
}

bool mp_reports_are_same(const mp_report *a, const mp_report *b)
{
    for (int k = 0; a->ranks && b->ranks && k < a->n_ranks; k++)
        if (strcmp(a->ranks[k].weights_hash, b->ranks[k].weights_hash) != 0) return false;
    return a->n_losses == b->n_losses && !strcmp(a->weights_hash, b->weights_hash) &&
           !memcmp(a->losses, b->losses, a->n_losses * sizeof *a->losses);
}

void mp_report_free(mp_report *report)
{
    mp_free(report->losses);
    mp_free(report->node_seconds);
    mp_free(report->ranks);
    *report = (mp_report){0};
}

/* ---- several trainings by turns: each runs one step, then the next training runs one ---- */

typedef struct turns {
    size_t n;
    training *trainings;
    const mp_backend *backend;
    char *arena;
    mp_turns report;
    mp_train_request *requests; /* copies of the trainings' requests, in which all trainings use one arena */
} turns;

static void turns_clear(turns *t)
{
    for (size_t i = 0; t->trainings && i < t->n; i++) training_clear(&t->trainings[i]);
    mp_free(t->trainings);
    mp_free(t->requests);
    if (t->arena) t->backend->release(t->backend, t->arena, t->report.arena_bytes);
    mp_turns_free(&t->report);
}

/* Allocates an arena that is large enough for each training, and starts all trainings in it. */
static mp_status start_turns(turns *t, const mp_train_request *requests, mp_error *err)
{
    mp_turns *report = &t->report;
    t->backend = requests[0].program->backend;
    t->trainings = mp_alloc(t->n, sizeof *t->trainings);
    t->requests = mp_alloc(t->n, sizeof *t->requests);
    report->reports = mp_alloc(t->n, sizeof *report->reports);
    MP_ENSURE(t->trainings && t->requests && report->reports, err, MP_NOMEM, "no memory for %zu trainings", t->n);
    for (size_t i = 0; i < t->n; i++) {
        const mp_plan *plan = requests[i].plan;
        MP_ENSURE(requests[i].program->backend == t->backend, err, MP_INVALID, "the trainings are for different devices");
        report->static_bytes += plan->static_bytes;
        if (plan->arena_bytes > report->arena_bytes) report->arena_bytes = plan->arena_bytes;
    }
    MP_CHECK(t->backend->open(t->backend, err));
    t->arena = t->backend->allocate(t->backend, report->arena_bytes);
    MP_ENSURE(t->arena, err, MP_NOMEM, "there is no memory for an arena of %lld bytes", (long long)report->arena_bytes);
    t->backend->fill(t->backend, t->arena, MP_UNUSED_BYTE, report->arena_bytes);
    for (size_t i = 0; i < t->n; i++) {
        t->requests[i] = requests[i];
        t->requests[i].execution.arena = t->arena;
        t->requests[i].execution.arena_bytes = report->arena_bytes;
        MP_CHECK(start(&t->trainings[i], &t->requests[i], err));
    }
    return MP_OK;
}

/* Runs a step of each unfinished training in turn, until all have finished. */
static mp_status run_turns(turns *t, mp_error *err)
{
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < t->n; i++) {
            if (is_over(&t->trainings[i])) continue;
            const mp_status st = run_step(&t->trainings[i], err);
            if (st == MP_REFUTED) explain_by_data(&t->trainings[i], err);
            MP_CHECK(st);
            if (is_over(&t->trainings[i])) MP_CHECK(end_steps(&t->trainings[i], err));
            any = true;
        }
    }
    return MP_OK;
}

mp_status mp_train_turns(const mp_train_request *requests, size_t n, mp_turns *out, mp_error *err)
{
    MP_CLEARED_BY(turns_clear) turns t = {.n = n};
    int64_t touched;
    MP_ENSURE(n, err, MP_INVALID, "there are no trainings to alternate");
    MP_CHECK(start_turns(&t, requests, err));
    MP_CHECK(run_turns(&t, err));
    touched = t.backend->touched(t.backend, t.arena, MP_UNUSED_BYTE, t.report.arena_bytes);
    t.report.measured_arena_bytes = mp_round_up(touched, t.backend->alignment, &touched) ? touched : t.report.arena_bytes;
    for (size_t i = 0; i < n; i++) {
        MP_CHECK(finish(&t.trainings[i], MP_OK, err));
        hand_out(&t.trainings[i], MP_OK, &t.report.reports[t.report.n++], err);
        /* unknown: the trainings share one arena, so the bytes that one training has used in it cannot be measured */
        t.report.reports[i].measured_arena_bytes = -1;
    }
    *out = t.report;
    t.report = (mp_turns){.arena_bytes = out->arena_bytes};
    return MP_OK;
}

void mp_turns_free(mp_turns *turns)
{
    for (size_t i = 0; i < turns->n; i++) mp_report_free(&turns->reports[i]);
    mp_free(turns->reports);
    *turns = (mp_turns){0};
}
