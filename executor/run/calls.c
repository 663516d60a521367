/* calls.c - lists the calls of a pass, and the waits between them. */
#include "executor/run/calls.h"

#include "estimator/graph/liveness.h"

/* Returns the step before which a copy is waited for. */
static int copy_end(const mp_addresses *a, size_t t, bool in_order)
{
    return in_order ? (int)t + 1 : mp_step_end(a->plan->steps, (int)t);
}

/* Gives every copy to the call after which it is waited for. start[t] is how many are waited for before step t, of n + 2. */
static mp_status list_awaited(const mp_addresses *a, bool in_order, int *start, mp_pool *pool, mp_calls *out, mp_error *err)
{
    const size_t n = a->plan->n_steps;
    int *awaited = mp_pool_alloc(pool, n, sizeof *awaited);
    MP_ENSURE(awaited, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t <= n; t++) start[t + 1] += start[t];
    for (size_t t = 0; t < n; t++)
        if (a->steps[t].is_copy) awaited[--start[copy_end(a, t, in_order)]] = (int)t;
    for (size_t k = 0; k < out->n; k++) {
        const size_t end = out->list[k].step + out->list[k].n_steps;
        out->list[k].awaited = awaited + start[end];
        out->list[k].n_awaited = (size_t)(start[end + 1] - start[end]);
    }
    return MP_OK;
}

mp_status mp_calls_of(const mp_addresses *a, bool one_by_one, bool two_streams, bool in_order, mp_pool *pool, mp_calls *out,
                      mp_error *err)
{
    const mp_step *steps = a->plan->steps;
    const size_t n = a->plan->n_steps;
    MP_OWNED int *mark = mp_alloc(n + 1, sizeof *mark);         /* per step, and for the end: 1 + the last mark waited for */
    MP_OWNED int *n_copies = mp_alloc(n + 2, sizeof *n_copies); /* likewise: the number of copies waited for */
    int n_marks = 0;                                            /* number of calls on the side stream so far */
    *out = (mp_calls){.list = mp_pool_alloc(pool, n, sizeof *out->list)};
    MP_ENSURE(mark && n_copies && out->list, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++) {
        const bool update = mp_ready_step_does(&a->steps[t], a->program, MP_TASK_UPDATE), copy = a->steps[t].is_copy;
        const bool side = two_streams && !copy && mp_step_is_issued(steps[t]);
        const int end = mp_step_end(steps, (int)t);
        mp_pass_call *last = out->n ? &out->list[out->n - 1] : NULL;
        const bool joins =
            last && update && last->is_update && !one_by_one && side == last->is_side && !mark[t] && !n_copies[t];
        if (joins && (!side || mark[end] == n_marks)) { /* what joins a call on the side stream is waited for with it */
            last->n_steps++;
            continue;
        }
        out->list[out->n++] =
            (mp_pass_call){.step = t, .n_steps = 1, .is_update = update, .is_side = side, .is_copy = copy, .wait = -1};
        if (side) mark[end] = ++n_marks;
        if (copy) n_copies[copy_end(a, t, in_order)]++;
    }
    for (size_t k = 0; k < out->n; k++) out->list[k].wait = mark[out->list[k].step + out->list[k].n_steps] - 1;
    return list_awaited(a, in_order, n_copies, pool, out, err);
}
