/* train.c - the training loop: loads batches, runs steps, measures losses and seconds, and saves states. */
#include "memplan/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/train/accuracy.h"
#include "executor/train/not_finite.h"
#include "executor/train/state.h"
#include "formats/base/process.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of seconds[1..n), sorting them; seconds[0] is warm-up and counts only if n is 1. */
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

/* With the option profile: keeps the nodes' seconds in the fastest step. The first step is warm-up and counts only if it is
 * the only one. */
static void keep_profile(mp_execution *e, size_t n_nodes, int64_t step, double took, mp_report *report)
{
    if (report->node_seconds && (step <= 1 || took < report->fastest_seconds)) {
        memcpy(report->node_seconds, mp_execution_seconds(e), n_nodes * sizeof *report->node_seconds);
        report->fastest_seconds = took;
    }
    mp_execution_forget_seconds(e);
}

/* Sets *saved if a state was saved; all values were finite then. *in_step: it was a step itself that failed. */
static mp_status run_steps(const mp_train_request *r, mp_execution *e, mp_input_filler *filler, mp_report *report,
                           double *seconds, double *input_seconds, bool *saved, bool *in_step, mp_error *err)
{
    long allocations;
    for (int64_t k = 0; k < r->n_steps && !report->stopped; k++) {
        int64_t step = report->first_step + k;
        double from = mp_clock_now(), loss;
        allocations = mp_alloc_count;
        *in_step = true;
        MP_CHECK(mp_execution_step(e, step, mp_inputs_fill, filler, &loss, err));
        *in_step = false;
        report->n_allocations += mp_alloc_count - allocations;
        seconds[report->n_losses] = mp_clock_now() - from;
        input_seconds[report->n_losses] = mp_execution_input_seconds(e);
        keep_profile(e, r->program->graph->n_nodes, k, seconds[k], report);
        report->losses[report->n_losses++] = loss;
        MP_ENSURE(isfinite(loss), err, MP_REFUTED, "the loss is %s at step %lld",
                  isnan(loss) ? "nan"
                  : loss > 0  ? "inf"
                              : "-inf",
                  (long long)(step + 1));
        mp_train_progress p = {k + 1, r->n_steps, loss, seconds[report->n_losses - 1]};
        if (r->progress && !r->progress(&p, r->progress_data)) report->stopped = true;
        bool last = k + 1 == r->n_steps || report->stopped;
        if (r->save && (last || (r->save_every && (step + 1) % r->save_every == 0))) {
            MP_CHECK(save(r, e, step + 1, err));
            *saved = true;
        }
    }
    MP_CHECK(mp_execution_flush(e, err));
    return mp_check_finite(e, r->program, report->first_step + (int64_t)report->n_losses, err);
}

/* Returns the bytes in use on the device now; -1: the backend has no memory of its own. */
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

/* Runs the training. *saved: a newer state than the first was saved. MP_REFUTED: a value is not finite. */
static mp_status train(const mp_train_request *r, mp_report *report, bool *saved, bool *refuted, mp_error *err)
{
    const mp_backend *b = r->program->backend;
    MP_OWNED_BY(mp_execution_free) mp_execution *e = NULL;
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler filler = {0};
    MP_OWNED double *seconds = mp_alloc((size_t)r->n_steps, sizeof *seconds);
    MP_OWNED double *input_seconds = mp_alloc((size_t)r->n_steps, sizeof *input_seconds);
    report->losses = mp_alloc((size_t)r->n_steps, sizeof *report->losses);
    MP_ENSURE(seconds && input_seconds && report->losses, err, MP_NOMEM, "no memory for %lld steps", (long long)r->n_steps);
    if (r->execution.profile) {
        report->node_seconds = mp_alloc(r->program->graph->n_nodes, sizeof *report->node_seconds);
        MP_ENSURE(report->node_seconds, err, MP_NOMEM, "out of memory");
    }
    mp_process_forget_peak();
    MP_CHECK(b->open(b, err));
    MP_CHECK(look_at_device(b, &report->idle_device_bytes, &report->device_is_shared, err));
    MP_CHECK(mp_execution_new(r->program, r->plan, &r->execution, &e, err));
    MP_CHECK(mp_parameters_load(r->parameters, r->program, e, err));
    if (r->resume) MP_CHECK(mp_state_resume(r->resume, r->program, e, &r->execution, &report->first_step, err));
    MP_CHECK(mp_input_filler_new(r->program, r->feed, &filler, err));
    bool in_step = false;
    mp_status st = run_steps(r, e, &filler, report, seconds, input_seconds, saved, &in_step, err);
    *refuted = st == MP_REFUTED && !in_step;
    if (st != MP_OK && st != MP_REFUTED) return st;
    report->arena_bytes = mp_execution_arena_bytes(e);
    report->measured_arena_bytes = mp_execution_touched_bytes(e);
    report->process_bytes = mp_process_peak_bytes();
    for (int m = 1; m < (int)r->program->graph->n_tiers; m++) report->tier_bytes[m] = mp_execution_tier_bytes(e, m);
    report->out_bytes = mp_execution_copied(e).out_bytes;
    report->in_bytes = mp_execution_copied(e).in_bytes;
    if (report->n_losses) report->wait_seconds = mp_execution_wait_seconds(e) / (double)report->n_losses;
    report->n_recordings = mp_execution_recordings(e);
    if (look_at_device(b, &report->device_bytes, &report->device_is_shared, err) != MP_OK) st = MP_IO;
    report->next_batch_bytes = filler.prefetch ? mp_prefetch_device_bytes(filler.prefetch) : 0;
    mp_input_filler_free(&filler);
    report->step_seconds = median(seconds, report->n_losses);
    report->input_seconds = median(input_seconds, report->n_losses);
    mp_execution_hash(e, report->weights_hash);
    report->has_test = r->test && st == MP_OK && !report->stopped;
    if (report->has_test) MP_CHECK(mp_accuracy_measure(e, r->program, r->test, r->execution.seed, &report->test, err));
    return st;
}

mp_status mp_train(const mp_train_request *r, mp_report *out, mp_error *err)
{
    MP_CLEARED_BY(mp_report_free)
    mp_report report = {.static_bytes = r->plan->static_bytes,
                        .planned_peak_bytes = r->plan->peak_bytes,
                        .idle_process_bytes = mp_process_bytes()};
    bool saved = false, refuted = false;
    const mp_status st = train(r, &report, &saved, &refuted, err);
    if (refuted) mp_explain_not_finite(r, saved ? r->save : r->resume, report.first_step + (int64_t)report.n_losses - 1, err);
    if (st != MP_OK && st != MP_REFUTED) return st;
    *out = report;
    report = (mp_report){0};
    return st;
}

void mp_report_free(mp_report *report)
{
    mp_free(report->losses);
    mp_free(report->node_seconds);
    *report = (mp_report){0};
}
