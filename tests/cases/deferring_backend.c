/* deferring_backend.c - keeps the calls on side streams until they are awaited. */
#include "tests/cases/deferring_backend.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Unchanged functions are the inner backend's and use its context. The deferrer finds itself by its own address. */
static deferrer *deferrer_of(const mp_backend *self)
{
    return (deferrer *)self;
}

static void use(const mp_backend *self)
{
    const mp_backend *inner = deferrer_of(self)->inner;
    if (inner->use) inner->use(inner);
}

static void fault(deferrer *d, bool is)
{
    d->counted.n_faults += is;
}

/* Returns the call being written to the stream of a channel. */
static struct deferred_call *call_of(deferrer *d)
{
    return &d->calls[d->n_calls - 1];
}

/* Adds a part to the call. NULL: no space, which is a fault. */
static struct deferred_part *put(deferrer *d, int what)
{
    fault(d, d->n_parts == DEFERRED_PARTS);
    if (d->n_parts == DEFERRED_PARTS) return NULL;
    struct deferred_part *p = &d->parts[d->n_parts++];
    *p = (struct deferred_part){.what = what};
    call_of(d)->n++;
    return p;
}

static void run(deferrer *d, const struct deferred_part *p)
{
    const mp_backend *b = d->inner;
    switch (p->what) {
    case DEFERRED_UPDATE:
        b->update(b, p->updates, (size_t)p->n, &p->factors);
        break;
    case DEFERRED_COPY:
        memcpy(p->to, p->from, (size_t)p->n);
        break;
    case DEFERRED_ADD:
        b->add(b, p->dtype, p->n, p->from, p->to);
        break;
    case DEFERRED_MESSAGE:
        p->run(p->to);
        break;
    }
}

static mp_status side_begin(const mp_backend *self, int channel, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    fault(d, d->channel || channel <= MP_CHANNEL_COMPUTE || channel >= MP_MAX_CHANNELS);
    MP_ENSURE(d->n_calls < DEFERRED_CALLS, err, MP_NOMEM, "too many calls on side streams");
    d->channel = channel;
    d->n_calls++;
    *call_of(d) = (struct deferred_call){.channel = channel, .mark = -1, .first = d->n_parts};
    d->stream.channel = channel;
    return MP_OK;
}

static mp_status side_end(const mp_backend *self, int channel, int mark, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    bool rises = true;
    (void)err;
    for (int k = 0; k + 1 < d->n_calls; k++)
        rises &= d->calls[k].channel != channel || d->calls[k].has_run || d->calls[k].mark < mark;
    fault(d, d->channel != channel || !rises);
    call_of(d)->mark = mark;
    d->channel = d->stream.channel = 0;
    d->counted.n_issued++;
    return MP_OK;
}

static mp_status side_wait(const mp_backend *self, int channel, int mark, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    bool is_issued = false;
    (void)err;
    if (d->skips_waits && ++d->n_waits % d->skips_waits == 0) return MP_OK;
    for (int k = 0; k < d->n_calls; k++) {
        struct deferred_call *c = &d->calls[k];
        if (c->channel != channel || c->mark > mark) continue;
        is_issued |= c->mark == mark;
        if (c->has_run) continue;
        c->has_run = true;
        for (int i = 0; i < c->n; i++) run(d, &d->parts[c->first + i]);
    }
    fault(d, d->channel || !is_issued);
    return MP_OK;
}

static bool all_have_run(const deferrer *d)
{
    bool all = true;
    for (int k = 0; k < d->n_calls; k++) all &= d->calls[k].has_run;
    return all;
}

static void begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    deferrer *d = deferrer_of(self);
    fault(d, !all_have_run(d)); /* the previous pass ended without waiting */
    d->n_calls = d->n_parts = d->n_updates = 0;
    d->inner->begin(d->inner, seed, step, factors);
}

static void update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors)
{
    deferrer *d = deferrer_of(self);
    if (!d->channel) {
        d->inner->update(d->inner, updates, n, factors);
        return;
    }
    const bool fits = n <= (size_t)(DEFERRED_UPDATES - d->n_updates);
    struct deferred_part *p = fits ? put(d, DEFERRED_UPDATE) : NULL;
    fault(d, !fits || call_of(d)->n > 1 || d->channel != MP_CHANNEL_SECOND_STREAM);
    if (!p) return;
    p->updates = d->updates + d->n_updates;
    p->n = (int64_t)n;
    p->factors = *factors;
    memcpy(p->updates, updates, n * sizeof *updates);
    d->n_updates += (int)n;
    d->counted.n_updates += (int)n;
}

static void copy(const mp_backend *self, void *to, const void *from, int64_t bytes)
{
    deferrer *d = deferrer_of(self);
    struct deferred_part *p = d->channel ? put(d, DEFERRED_COPY) : NULL;
    fault(d, d->channel == MP_CHANNEL_SECOND_STREAM);
    if (!d->channel) d->inner->copy(d->inner, to, from, bytes);
    if (!p) return;
    p->to = to;
    p->from = from;
    p->n = bytes;
    d->counted.n_copies++;
}

static void add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    deferrer *d = deferrer_of(self);
    struct deferred_part *p = d->channel ? put(d, DEFERRED_ADD) : NULL;
    if (!d->channel) d->inner->add(d->inner, dtype, n, from, to);
    if (!p) return;
    p->dtype = dtype;
    p->n = n;
    p->from = from;
    p->to = to;
}

static void enqueue(host_stream *stream, void (*message)(void *), void *what)
{
    deferrer *d = (deferrer *)((char *)stream - offsetof(deferrer, stream));
    struct deferred_part *p = d->channel ? put(d, DEFERRED_MESSAGE) : NULL;
    fault(d, !d->channel); /* messages need a channel other than the main one */
    if (!p) return;
    p->run = message;
    p->to = what;
}

static void *stream_of(const mp_backend *self)
{
    return &deferrer_of(self)->stream;
}

static mp_status download(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    fault(d, d->channel || !all_have_run(d));
    return d->inner->download(d->inner, there, host, err);
}

static void *pin(const mp_backend *self, int64_t bytes)
{
    deferrer *d = deferrer_of(self);
    void *memory = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (memory) memset(memory, 0x5a, bytes > 0 ? (size_t)bytes : 1);
    d->counted.n_pinned += memory != NULL;
    return memory;
}

static void unpin(const mp_backend *self, void *memory)
{
    deferrer_of(self)->counted.n_pinned -= memory != NULL;
    free(memory);
}

void deferring_backend_is_away(deferrer *d)
{
    d->backend.is_host = false;
    d->backend.pin = pin;
    d->backend.unpin = unpin;
}

const mp_backend *deferring_backend(deferrer *d, const mp_backend *of)
{
    memset(d, 0, sizeof *d);
    d->backend = *of;
    d->inner = of;
    d->backend.use = use;
    d->backend.close = NULL;
    d->backend.side_begin = side_begin;
    d->backend.side_end = side_end;
    d->backend.side_wait = side_wait;
    d->backend.begin = begin;
    d->backend.update = update;
    d->backend.copy = copy;
    d->backend.add = add;
    d->backend.stream = stream_of;
    d->stream.enqueue = enqueue;
    d->backend.download = download;
    return &d->backend;
}
