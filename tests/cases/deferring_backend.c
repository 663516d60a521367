/* deferring_backend.c - updates of the second stream are kept until they are waited for. */
#include "tests/cases/deferring_backend.h"

#include <string.h>

enum { MOST_CALLS = 256, MOST_UPDATES = 256 };

typedef struct kept_call {
    int mark;
    mp_update updates[MOST_UPDATES];
    size_t n;
    mp_update_factors factors;
} kept_call;

deferring_counts deferring_counted;
static const mp_backend *inner;
static mp_backend ours;
static kept_call calls[MOST_CALLS];
static int n_calls, n_run; /* calls[n_run .. n_calls) wait */
static bool on_second;

static void fault(bool is)
{
    deferring_counted.n_faults += is;
}

static mp_status side_begin(mp_error *err)
{
    (void)err;
    fault(on_second);
    on_second = true;
    return MP_OK;
}

static mp_status side_end(int mark, mp_error *err)
{
    (void)err;
    fault(!on_second || !n_calls || calls[n_calls - 1].mark >= 0 || mark != n_calls - 1);
    calls[n_calls - 1].mark = mark;
    on_second = false;
    deferring_counted.n_issued++;
    return MP_OK;
}

static mp_status side_wait(int mark, mp_error *err)
{
    (void)err;
    fault(on_second || mark >= n_calls);
    for (; n_run < n_calls && calls[n_run].mark <= mark; n_run++)
        inner->update(calls[n_run].updates, calls[n_run].n, &calls[n_run].factors);
    return MP_OK;
}

static void begin(uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    fault(n_run != n_calls); /* the pass before has ended without waiting */
    n_run = n_calls = 0;
    inner->begin(seed, step, factors);
}

static void update(mp_update *updates, size_t n, const mp_update_factors *factors)
{
    if (!on_second) {
        inner->update(updates, n, factors);
        return;
    }
    fault(n > MOST_UPDATES || n_calls == MOST_CALLS);
    if (n > MOST_UPDATES || n_calls == MOST_CALLS) return;
    kept_call *c = &calls[n_calls++];
    *c = (kept_call){.mark = -1, .n = n, .factors = *factors};
    memcpy(c->updates, updates, n * sizeof *updates);
    deferring_counted.n_updates += (int)n;
}

static mp_status download(const mp_array *there, const mp_array *host, mp_error *err)
{
    fault(on_second || n_run != n_calls);
    return inner->download(there, host, err);
}

const mp_backend *deferring_backend(const mp_backend *of)
{
    inner = of;
    ours = *of;
    ours.side_begin = side_begin;
    ours.side_end = side_end;
    ours.side_wait = side_wait;
    ours.begin = begin;
    ours.update = update;
    ours.download = download;
    deferring_counted = (deferring_counts){0};
    n_calls = n_run = 0;
    on_second = false;
    return &ours;
}
