/* rank_report.c - sums a rank's collectives by kind, and exchanges the measurements of all ranks. */
#include "executor/train/rank_report.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "executor/ranks/exchanges.h"

static void add(mp_sent *sum, const mp_collective_work *w)
{
    sum->n += w->n_runs;
    sum->bytes += w->sent_bytes;
    sum->seconds += w->seconds;
}

static mp_rank_report own_report(const mp_train_request *r, const mp_execution *e, const mp_report *report)
{
    const mp_rank_channel *channel = mp_execution_ranks(e);
    const double steps = report->n_losses ? (double)report->n_losses : 1;
    mp_rank_report own;
    memset(&own, 0, sizeof own); /* zeroes the padding too, because the struct is sent to other ranks as bytes */
    own.process = getpid();
    if (gethostname(own.machine, sizeof own.machine - 1)) own.machine[0] = 0;
    own.planned_peak_bytes = report->static_bytes + r->plan->arena_bytes;
    own.measured_peak_bytes = report->static_bytes + report->measured_arena_bytes;
    own.process_bytes = report->process_bytes;
    own.sent_bytes = report->sent_bytes;
    own.planned_sent_bytes = report->planned_sent_bytes;
    own.set_aside_bytes = mp_execution_set_aside_bytes(e);
    mp_execution_hash(e, own.weights_hash);
    own.step_seconds = report->step_seconds;
    own.network_seconds = (channel->collectives.busy_seconds + channel->ahead.busy_seconds) / steps;
    own.wait_seconds = mp_rank_channel_wait_seconds(channel) / steps;
    for (size_t t = 0; t < r->plan->n_steps; t++)
        if (channel->works[t].n_legs) add(&own.sent[channel->works[t].kind], &channel->works[t]);
    for (size_t k = 0; k < channel->n_again; k++) add(&own.sent[channel->again[k].kind], &channel->again[k]);
    add(&own.sent_by_operators, &channel->crossing);
    return own;
}

/* can_be is true if a reported number of bytes is plausible (below 2^48; -1: unknown), can_pass if a number of seconds is. Sums
 * over all ranks then cannot overflow. */
static bool can_be(int64_t bytes)
{
    return bytes >= -1 && bytes < INT64_C(1) << 48;
}

static bool can_pass(double seconds)
{
    return seconds >= 0 && seconds < 1e12;
}

mp_status mp_rank_reports_check(const mp_rank_report *reports, int n, mp_error *err)
{
    for (int k = 0; k < n; k++) {
        const mp_rank_report *r = &reports[k];
        bool is_sound = memchr(r->machine, 0, sizeof r->machine) && memchr(r->weights_hash, 0, sizeof r->weights_hash) &&
                        can_be(r->planned_peak_bytes) && can_be(r->measured_peak_bytes) && can_be(r->process_bytes) &&
                        can_be(r->sent_bytes) && can_be(r->planned_sent_bytes) && can_be(r->set_aside_bytes) &&
                        can_pass(r->step_seconds) && can_pass(r->network_seconds) && can_pass(r->wait_seconds);
        for (int kind = 0; kind <= MP_N_COLLECTIVES; kind++) {
            const mp_sent *sent = kind < MP_N_COLLECTIVES ? &r->sent[kind] : &r->sent_by_operators;
            is_sound = is_sound && sent->n >= 0 && can_be(sent->n) && sent->bytes >= 0 && can_be(sent->bytes) &&
                       can_pass(sent->seconds);
        }
        MP_ENSURE(is_sound, err, MP_IO, "rank %d of %d has not sent its measurements", k, n);
    }
    return MP_OK;
}

mp_status mp_rank_reports_exchange(const mp_train_request *r, const mp_execution *e, mp_report *report, mp_error *err)
{
    const mp_rank_report own = own_report(r, e, report);
    mp_communicator *world = r->execution.world;
    MP_ENSURE(report->ranks = mp_alloc((size_t)world->n, sizeof own), err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_communicator_exchange(world, &own, sizeof own, report->ranks, mp_execution_ranks(e)->collectives.timeout,
                                      "the exchange of measurements", err));
    return mp_rank_reports_check(report->ranks, world->n, err);
}

mp_rank_report mp_rank_reports_sum(const mp_rank_report *reports, int n)
{
    mp_rank_report sum = {0};
    for (const mp_rank_report *of = reports; of && of < reports + n; of++) {
        sum.planned_peak_bytes += of->planned_peak_bytes;
        sum.measured_peak_bytes += of->measured_peak_bytes;
        sum.process_bytes = sum.process_bytes < 0 || of->process_bytes < 0 ? -1 : sum.process_bytes + of->process_bytes;
        sum.sent_bytes += of->sent_bytes;
        sum.planned_sent_bytes += of->planned_sent_bytes;
        sum.network_seconds += of->network_seconds / n;
        sum.wait_seconds += of->wait_seconds / n;
    }
    return sum;
}

double mp_rank_report_hidden(const mp_rank_report *report)
{
    return report->network_seconds > 0 ? fmax(0, 1 - report->wait_seconds / report->network_seconds) : -1;
}
