/* makespan.c - runs the steps in order, and keeps when each channel is free. */
#include "memplan/makespan.h"

#include "estimator/base/memory.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

mp_status mp_makespan(const mp_graph *graph, const mp_step *steps, size_t n, int64_t *ends, int64_t *makespan, mp_error *err)
{
    int64_t free_at[MP_MAX_CHANNELS] = {0}, waited = 0, last = 0;
    bool alone = true;                /* all steps are on the clock of compute */
    MP_OWNED int64_t *awaited = NULL; /* per step, and for the end: when all that it waits for has ended */
    for (size_t t = 0; t < n; t++)
        alone &= graph->nodes[steps[t].node].alternatives[steps[t].alternative].channel <= MP_CHANNEL_SECOND_STREAM;
    if (!alone) MP_ENSURE(awaited = mp_alloc(n + 1, sizeof *awaited), err, MP_NOMEM, "no memory for the time of %zu steps", n);
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        const int channel = alternative->channel == MP_CHANNEL_SECOND_STREAM ? MP_CHANNEL_COMPUTE : alternative->channel;
        if (awaited) waited = later(waited, awaited[t]);
        const int64_t begin = later(waited, later(free_at[channel], free_at[MP_CHANNEL_COMPUTE]));
        int64_t *end = &free_at[channel];
        MP_ENSURE(!__builtin_add_overflow(begin, alternative->ticks, end), err, MP_INVALID,
                  "step %zu: the steps take more ticks than can be counted", t);
        if (awaited) awaited[mp_step_end(steps, (int)t)] = later(awaited[mp_step_end(steps, (int)t)], *end);
        if (ends) ends[t] = *end;
        last = later(last, *end);
    }
    *makespan = last;
    return MP_OK;
}
