/* calls.c - lists the calls of a pass, and the waits between them. */
#include "executor/run/calls.h"

#include "estimator/graph/liveness.h"

/* Fills `awaited` of every call: the calls that run beside others and whose end the pass awaits after this call. If the pass
 * awaits several calls of one channel at the same position, the wait for the last one is enough. On entry, start[t + 1] is the
 * number of calls to await before step t. `start` has n_steps + 2 elements. */
static mp_status list_awaited(size_t n_steps, int *start, mp_pool *pool, mp_calls *out, mp_error *err)
{
    /* for each channel: the last call that is awaited at the current position; index 1: among calls of updates, index 0:
     * among all other calls */
    int last[MP_MAX_CHANNELS][2];
    int *awaited = mp_pool_alloc(pool, out->n, sizeof *awaited);
    MP_ENSURE(awaited, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t <= n_steps; t++) start[t + 1] += start[t];
    for (size_t k = out->n; k-- > 0;)
        if (out->list[k].channel != MP_CHANNEL_COMPUTE) awaited[--start[out->list[k].end]] = (int)k;
    for (size_t k = 0; k < out->n; k++) {
        mp_pass_call *call = &out->list[k];
        const size_t end = call->step + call->n_steps;
        int *of_call = awaited + start[end];
        const int n = start[end + 1] - start[end];
        for (int i = 0; i < n; i++) last[out->list[of_call[i]].channel][out->list[of_call[i]].is_of_update] = of_call[i];
        for (int i = 0; i < n; i++)
            if (last[out->list[of_call[i]].channel][out->list[of_call[i]].is_of_update] == of_call[i])
                of_call[call->n_awaited++] = of_call[i];
        call->awaited = of_call;
    }
    return MP_OK;
}

/* Finds the chain that begins with step t, if the pass awaits nothing before its last step. */
static mp_status find_chain(const mp_addresses *a, size_t t, const int *n_awaited, mp_pool *pool, mp_pass_call *call,
                            mp_error *err)
{
    size_t most = 1;
    while (most < MP_CHAIN_LINKS && t + most < a->plan->n_steps && !n_awaited[t + most]) most++;
    const mp_call_chain_launch found = mp_call_chain_at(a, t, most);
    if (!found.run) return MP_OK;
    mp_call_chain_launch *chain = mp_pool_alloc(pool, 1, sizeof *chain);
    MP_ENSURE(chain, err, MP_NOMEM, "out of memory");
    *chain = found;
    call->chain = chain;
    call->n_steps = chain->chain.n;
    return MP_OK;
}

mp_status mp_calls_of(const mp_addresses *a, bool one_by_one, bool two_streams, bool in_order, bool chains, mp_pool *pool,
                      mp_calls *out, mp_error *err)
{
    const mp_step *steps = a->plan->steps;
    const size_t n = a->plan->n_steps;
    int n_marks[MP_MAX_CHANNELS] = {0};
    MP_OWNED int *n_awaited = mp_alloc(
        /* n_awaited[t + 1]: number of calls to await before step t; for t = n: at the end of the pass */
        n + 2, sizeof *n_awaited);
    *out = (mp_calls){.list = mp_pool_alloc(pool, n, sizeof *out->list)};
    MP_ENSURE(n_awaited && out->list, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++) {
        const bool update = mp_ready_step_does(&a->steps[t], a->program, MP_TASK_UPDATE),
                   transfer = a->steps[t].is_copy || a->steps[t].is_collective;
        const bool is_sum = a->steps[t].is_collective && a->program->graph->nodes[steps[t].node].collective->once;
        const bool issued = transfer || (two_streams && mp_step_is_issued(steps[t]));
        const int channel = issued ? mp_addresses_alternative(a, (int)t)->channel : MP_CHANNEL_COMPUTE;
        const int end = transfer && in_order ? (int)t + 1 : mp_step_end(steps, (int)t);
        mp_pass_call *last = out->n ? &out->list[out->n - 1] : NULL;
        /* the previous update and this one stay separate calls: an update that writes a separate array may overwrite memory
         * that the previous update reads */
        const bool makes_part = a->steps[t].old_target;
        if (last && update && last->is_update && !one_by_one && !makes_part && channel == last->channel && !n_awaited[t] &&
            (!issued || end == last->end)) {
            last->n_steps++;
            continue;
        }
        out->list[out->n++] = (mp_pass_call){.step = t,
                                             .n_steps = 1,
                                             .is_update = update,
                                             .is_transfer = transfer,
                                             .is_of_update = update || a->steps[t].is_of_state || is_sum,
                                             .channel = channel,
                                             .end = end,
                                             .mark = n_marks[channel]++};
        if (issued) n_awaited[end]++;
        if (chains && !issued) MP_CHECK(find_chain(a, t, n_awaited, pool, &out->list[out->n - 1], err));
        t += out->list[out->n - 1].n_steps - 1;
    }
    return list_awaited(n, n_awaited, pool, out, err);
}
