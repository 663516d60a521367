/* channels.c - issues the copies of a plan, and waits for them. */
#include "executor/run/channels.h"

#include "estimator/base/clock.h"

static const mp_alternative *alternative_of(const mp_addresses *a, int t)
{
    const mp_step *step = &a->plan->steps[t];
    return &a->program->graph->nodes[step->node].alternatives[step->alternative];
}

mp_status mp_channels_open(const mp_addresses *a, const mp_execution_options *options, mp_pool *pool, mp_channels *out,
                           mp_error *err)
{
    const mp_storage *storages = a->program->graph->storages;
    *out = (mp_channels){.at = a, .tickets = mp_pool_alloc(pool, a->plan->n_steps, sizeof *out->tickets)};
    MP_ENSURE(out->tickets, err, MP_NOMEM, "out of memory");
    for (int t = 0; t < (int)a->plan->n_steps; t++) {
        const mp_alternative *f = alternative_of(a, t);
        mp_copy_queue **queue = &out->queues[f->channel];
        const mp_copy_queue_options wanted = {.bytes_per_second = options->bytes_per_second[f->channel],
                                              .plain = options->plain_files};
        if (!a->steps[t].is_copy) continue;
        if (!*queue) MP_CHECK(mp_copy_queue_new(&wanted, queue, err));
        mp_copied *sum = &out->planned[a->steps[t].is_of_state];
        int64_t *planned = a->steps[t].n_copies && a->steps[t].copies->is_out ? &sum->out_bytes : &sum->in_bytes;
        for (size_t i = 0; i < f->n_reads; i++) {
            const int64_t from_bytes = storages[f->reads[i]].bytes, to_bytes = storages[f->writes[i]].bytes;
            *planned += from_bytes < to_bytes ? from_bytes : to_bytes;
        }
    }
    return MP_OK;
}

void mp_channels_close(mp_channels *c)
{
    for (int k = 0; k < MP_MAX_CHANNELS; k++) mp_copy_queue_free(c->queues[k]);
    *c = (mp_channels){0};
}

mp_status mp_channels_issue(mp_channels *c, int t, bool updates, mp_error *err)
{
    const mp_ready_step *r = &c->at->steps[t];
    c->tickets[t] = -1;
    for (size_t i = 0; i < r->n_copies && (updates || !r->is_of_state); i++)
        MP_CHECK(mp_copy_queue_issue(c->queues[alternative_of(c->at, t)->channel], &r->copies[i], &c->tickets[t], err));
    return MP_OK;
}

mp_status mp_channels_wait(mp_channels *c, int t, mp_error *err)
{
    const double from = mp_clock_now();
    const mp_status st = mp_copy_queue_wait(c->queues[alternative_of(c->at, t)->channel], c->tickets[t], err);
    c->wait_seconds += mp_clock_now() - from;
    return st;
}

mp_copied mp_channels_copied(const mp_channels *c)
{
    mp_copied sum = {0};
    for (int k = 0; k < MP_MAX_CHANNELS; k++) {
        const mp_copied one = c->queues[k] ? mp_copy_queue_copied(c->queues[k]) : (mp_copied){0};
        sum.out_bytes += one.out_bytes;
        sum.in_bytes += one.in_bytes;
    }
    return sum;
}

mp_status mp_channels_end_pass(mp_channels *c, bool runs_rest, bool updates, mp_error *err)
{
    const mp_copied copied = mp_channels_copied(c);
    const bool runs[2] = {runs_rest, updates};
    for (int k = 0; k < 2; k++) {
        c->expected.out_bytes += runs[k] ? c->planned[k].out_bytes : 0;
        c->expected.in_bytes += runs[k] ? c->planned[k].in_bytes : 0;
    }
    MP_ENSURE(copied.out_bytes == c->expected.out_bytes && copied.in_bytes == c->expected.in_bytes, err, MP_REFUTED,
              "%lld bytes were copied out and %lld back; by the plan it is %lld and %lld", (long long)copied.out_bytes,
              (long long)copied.in_bytes, (long long)c->expected.out_bytes, (long long)c->expected.in_bytes);
    return MP_OK;
}
