/* calls.c - joins updates that follow each other, and finds the marks that a call waits for. */
#include "executor/run/calls.h"

static bool is_update(const mp_program *program, const mp_plan *plan, size_t t)
{
    return program->bindings->nodes[plan->steps[t].node].task == MP_TASK_UPDATE;
}

/* Lists the calls, but for waits. `waited[t]`: step t waits for something. */
static void list(const mp_program *program, const mp_plan *plan, bool one_by_one, bool two_streams, const bool *waited,
                 mp_steps_calls *out)
{
    for (size_t t = 0; t < plan->n_steps; t++) {
        const bool update = is_update(program, plan, t), side = two_streams && plan->steps[t].until;
        mp_steps_call *last = out->n ? &out->calls[out->n - 1] : NULL;
        if (last && update && last->is_update && !one_by_one && !waited[t] &&
            (!two_streams || plan->steps[t].until == plan->steps[last->step].until))
            last->n_steps++;
        else
            out->calls[out->n++] = (mp_steps_call){t, 1, update, side, -1};
    }
}

mp_status mp_steps_calls_of(const mp_program *program, const mp_plan *plan, bool one_by_one, bool two_streams, mp_pool *pool,
                            mp_steps_calls *out, mp_error *err)
{
    const size_t n = plan->n_steps;
    MP_OWNED int *mark = mp_alloc(n + 1, sizeof *mark);
    int n_marks = 0; /* per step, and the end: 1 + the last mark it waits for */
    MP_OWNED bool *waited = mp_alloc(n + 1, sizeof *waited);
    *out = (mp_steps_calls){.calls = mp_pool_alloc(pool, n, sizeof *out->calls)};
    MP_ENSURE(mark && waited && out->calls, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n && two_streams; t++)
        if (plan->steps[t].until) waited[plan->steps[t].until] = true;
    list(program, plan, one_by_one, two_streams, waited, out);
    for (size_t k = 0; k < out->n; k++)
        if (out->calls[k].is_side) mark[plan->steps[out->calls[k].step].until] = ++n_marks;
    for (size_t k = 0; k < out->n; k++) out->calls[k].wait = mark[out->calls[k].step + out->calls[k].n_steps] - 1;
    return MP_OK;
}
