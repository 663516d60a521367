/* deferring_backend.c - updates of the second stream are kept until they are waited for. */
#include "tests/cases/deferring_backend.h"

#include <string.h>

/* Functions that it leaves alone are those of the one below, whose context it has: it finds itself by its address. */
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

static mp_status side_begin(const mp_backend *self, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    (void)err;
    fault(d, d->on_second);
    d->on_second = true;
    return MP_OK;
}

static mp_status side_end(const mp_backend *self, int mark, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    (void)err;
    fault(d, !d->on_second || !d->n_calls || d->calls[d->n_calls - 1].mark >= 0 || mark != d->n_calls - 1);
    d->calls[d->n_calls - 1].mark = mark;
    d->on_second = false;
    d->counted.n_issued++;
    return MP_OK;
}

static mp_status side_wait(const mp_backend *self, int mark, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    (void)err;
    fault(d, d->on_second || mark >= d->n_calls);
    for (; d->n_run < d->n_calls && d->calls[d->n_run].mark <= mark; d->n_run++) {
        struct deferred_call *c = &d->calls[d->n_run];
        d->inner->update(d->inner, c->updates, c->n, &c->factors);
    }
    return MP_OK;
}

static void begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    deferrer *d = deferrer_of(self);
    fault(d, d->n_run != d->n_calls); /* the pass before has ended without waiting */
    d->n_run = d->n_calls = 0;
    d->inner->begin(d->inner, seed, step, factors);
}

static void update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors)
{
    deferrer *d = deferrer_of(self);
    if (!d->on_second) {
        d->inner->update(d->inner, updates, n, factors);
        return;
    }
    fault(d, n > DEFERRED_UPDATES || d->n_calls == DEFERRED_CALLS);
    if (n > DEFERRED_UPDATES || d->n_calls == DEFERRED_CALLS) return;
    struct deferred_call *c = &d->calls[d->n_calls++];
    *c = (struct deferred_call){.mark = -1, .n = n, .factors = *factors};
    memcpy(c->updates, updates, n * sizeof *updates);
    d->counted.n_updates += (int)n;
}

static mp_status download(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err)
{
    deferrer *d = deferrer_of(self);
    fault(d, d->on_second || d->n_run != d->n_calls);
    return d->inner->download(d->inner, there, host, err);
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
    d->backend.download = download;
    return &d->backend;
}
