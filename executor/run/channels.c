/* channels.c - issues the copies and collectives of a plan, and waits for them. */
#include "executor/run/channels.h"

#include "estimator/base/clock.h"

static bool has_streams(const mp_channels *c)
{
    return c->at->program->backend->side_begin;
}

/* True if a call is enqueued on a stream of the backend: a copy, or a collective between device memories. */
static bool is_on_stream(const mp_channels *c, const mp_pass_call *call)
{
    return c->at->steps[call->step].is_collective ? c->ranks.collectives.world->is_on_stream : has_streams(c);
}

static void count(mp_copied *sum, bool is_out, int64_t bytes)
{
    *(is_out ? &sum->out_bytes : &sum->in_bytes) += bytes;
}

mp_status mp_channels_open(const mp_addresses *a, const mp_execution_options *options, mp_pool *pool, mp_channels *out,
                           mp_error *err)
{
    const mp_storage *storages = a->program->graph->storages;
    *out =
        (mp_channels){.at = a, .tickets = mp_pool_alloc(pool, a->plan->n_steps, sizeof *out->tickets), .times = options->times};
    MP_ENSURE(out->tickets, err, MP_NOMEM, "out of memory");
    for (int t = 0; t < (int)a->plan->n_steps; t++) {
        const mp_alternative *f = mp_addresses_alternative(a, t);
        mp_copy_queue **queue = &out->queues[f->channel];
        const mp_copy_queue_options wanted = {.bytes_per_second = options->bytes_per_second[f->channel],
                                              .plain = options->plain_files};
        if (!a->steps[t].is_copy) continue;
        if (!*queue && !has_streams(out)) MP_CHECK(mp_copy_queue_new(&wanted, queue, err));
        for (size_t i = 0; i < f->n_reads; i++) {
            const int64_t from_bytes = storages[f->reads[i]].bytes, to_bytes = storages[f->writes[i]].bytes;
            count(&out->planned[a->steps[t].is_of_state], a->steps[t].n_copies && a->steps[t].copies->is_out,
                  from_bytes < to_bytes ? from_bytes : to_bytes);
        }
    }
    return mp_rank_channel_open(a, options, pool, &out->ranks, err);
}

void mp_channels_close(mp_channels *c)
{
    for (int k = 0; k < MP_MAX_CHANNELS; k++) mp_copy_queue_free(c->queues[k]);
    *c = (mp_channels){0};
}

static mp_status issue_on_stream(mp_channels *c, const mp_pass_call *call, mp_error *err)
{
    const mp_ready_step *r = &c->at->steps[call->step];
    const mp_backend *b = c->at->program->backend;
    mp_status st = b->side_begin(b, call->channel, err), ended;
    if (st != MP_OK) return st;
    if (r->is_collective) st = mp_rank_channel_issue(&c->ranks, call->step, err);
    for (size_t i = 0; i < r->n_copies; i++) {
        const mp_copy *copy = &r->copies[i];
        char *there = copy->tier->memory + copy->offset;
        b->copy(b, copy->is_out ? there : copy->memory, copy->is_out ? copy->memory : there, copy->bytes);
        count(&c->issued, copy->is_out, copy->bytes);
    }
    ended = b->side_end(b, call->channel, call->mark,
                        /* side_end is called even after a failure of the copy, because every section between side_begin and
                         * side_end must end */
                        st == MP_OK ? err : NULL);
    return st == MP_OK ? ended : st;
}

mp_status mp_channels_issue(mp_channels *c, const mp_pass_call *call, mp_error *err)
{
    const mp_ready_step *r = &c->at->steps[call->step];
    if (c->times) c->times[call->step] = (mp_step_time){.begin = mp_clock_now()};
    if (is_on_stream(c, call)) return issue_on_stream(c, call, err);
    if (r->is_collective) return mp_rank_channel_issue(&c->ranks, call->step, err);
    c->tickets[call->step] = -1;
    for (size_t i = 0; i < r->n_copies; i++)
        MP_CHECK(mp_copy_queue_issue(c->queues[call->channel], &r->copies[i], &c->tickets[call->step], err));
    return MP_OK;
}

mp_status mp_channels_wait(mp_channels *c, const mp_pass_call *call, mp_error *err)
{
    const mp_backend *b = c->at->program->backend;
    const bool is_collective = c->at->steps[call->step].is_collective;
    if (is_on_stream(c, call)) return b->side_wait(b, call->channel, call->mark, err);
    const double from = mp_clock_now();
    const mp_status st = is_collective ? mp_rank_channel_wait(&c->ranks, call->step, err)
                                       : mp_copy_queue_wait(c->queues[call->channel], c->tickets[call->step], err);
    const double to = mp_clock_now();
    c->wait_seconds += to - from;
    if (c->times) {
        mp_step_time *time = &c->times[call->step];
        *time = (mp_step_time){time->begin, is_collective ? c->ranks.works[call->step].ended_at : to, from, to};
    }
    return st;
}

void mp_channels_note(mp_channels *c, const mp_pass_call *call, bool ends)
{
    if (!c->times || call->is_transfer) return;
    *(ends ? &c->times[call->step].end : &c->times[call->step].begin) = mp_clock_now();
}

mp_status mp_channels_advance(mp_channels *c, mp_error *err)
{
    return mp_rank_channel_advance(&c->ranks, err);
}

mp_copied mp_channels_copied(const mp_channels *c)
{
    mp_copied sum = c->issued;
    for (int k = 0; k < MP_MAX_CHANNELS; k++) {
        const mp_copied one = c->queues[k] ? mp_copy_queue_copied(c->queues[k]) : (mp_copied){0};
        sum.out_bytes += one.out_bytes;
        sum.in_bytes += one.in_bytes;
    }
    return sum;
}

static mp_copied planned_of(const mp_channels *c, bool runs_rest, bool updates)
{
    const mp_copied *rest = &c->planned[false], *state = &c->planned[true];
    return (mp_copied){(runs_rest ? rest->out_bytes : 0) + (updates ? state->out_bytes : 0),
                       (runs_rest ? rest->in_bytes : 0) + (updates ? state->in_bytes : 0)};
}

mp_status mp_channels_end_pass(mp_channels *c, bool runs_rest, bool updates, mp_error *err)
{
    const mp_copied copied = mp_channels_copied(c), planned = planned_of(c, runs_rest, updates);
    const int64_t out_bytes = copied.out_bytes - c->before.out_bytes, in_bytes = copied.in_bytes - c->before.in_bytes;
    c->before = copied;
    for (size_t t = 0; c->times && t < c->at->plan->n_steps;
         t++) /* sets the end time of a collective whose end was noticed while this rank waited for a later collective */
        if (c->at->steps[t].is_collective && c->times[t].begin > c->times[t].end) c->times[t].end = c->ranks.works[t].ended_at;
    MP_ENSURE(out_bytes == planned.out_bytes && in_bytes == planned.in_bytes, err, MP_REFUTED,
              "%lld bytes were copied out and %lld back, but the plan has %lld and %lld", (long long)out_bytes,
              (long long)in_bytes, (long long)planned.out_bytes, (long long)planned.in_bytes);
    return MP_OK;
}

void mp_channels_replay(mp_channels *c, bool updates)
{
    const mp_copied planned = planned_of(c, true, updates);
    count(&c->issued, true, planned.out_bytes);
    count(&c->issued, false, planned.in_bytes);
    c->before = c->issued;
    for (size_t t = 0; t < c->at->plan->n_steps; t++) {
        const mp_ready_step *r = &c->at->steps[t];
        if (r->is_collective && (updates || !c->at->program->graph->nodes[r->node].collective->once))
            mp_collectives_repeat(&c->ranks.collectives, &c->ranks.works[t]);
    }
}
