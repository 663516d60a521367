/* makespan.c - simulates the steps in order with one clock per channel. Computes the time of copies and of recomputation. */
#include "memplan/makespan.h"

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"

/* As mp_makespan. The steps for which is_free is true take no time; NULL: all steps take their ticks. */
static mp_status simulate(const mp_graph *graph, const mp_step *steps, size_t n, const bool *is_free, int64_t *ends,
                          int64_t *makespan, mp_error *err)
{
    int64_t free_at[MP_MAX_CHANNELS] = {0}, waited = 0, last = 0;
    bool alone = true; /* true: all steps are on compute or the second stream, whose steps use the clock of compute */
    MP_OWNED int64_t *awaited =
        NULL; /* per step, and for the end of the plan: the time at which all steps that it waits for have ended */
    for (size_t t = 0; t < n; t++)
        alone &= graph->nodes[steps[t].node].alternatives[steps[t].alternative].channel <= MP_CHANNEL_SECOND_STREAM;
    if (!alone) MP_ENSURE(awaited = mp_alloc(n + 1, sizeof *awaited), err, MP_NOMEM, "no memory for the time of %zu steps", n);
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        const int channel = alternative->channel == MP_CHANNEL_SECOND_STREAM ? MP_CHANNEL_COMPUTE : alternative->channel;
        if (awaited) waited = mp_larger(waited, awaited[t]);
        const int64_t begin = mp_larger(waited, mp_larger(free_at[channel], free_at[MP_CHANNEL_COMPUTE]));
        int64_t *end = &free_at[channel];
        MP_ENSURE(!__builtin_add_overflow(begin, is_free && is_free[t] ? 0 : alternative->ticks, end), err, MP_INVALID,
                  "step %zu: the steps take more ticks than can be counted", t);
        if (awaited) awaited[mp_step_end(steps, (int)t)] = mp_larger(awaited[mp_step_end(steps, (int)t)], *end);
        if (ends) ends[t] = *end;
        last = mp_larger(last, *end);
    }
    *makespan = last;
    return MP_OK;
}

mp_status mp_makespan(const mp_graph *graph, const mp_step *steps, size_t n, int64_t *ends, int64_t *makespan, mp_error *err)
{
    return simulate(graph, steps, n, NULL, ends, makespan, err);
}

/* The steps of the compute channel in order. `sums` measures compute time without the waits of compute. */
typedef struct busy {
    size_t n;
    int64_t *ends,
        *sums; /* per step of the compute channel: its end in ticks, and the sum of the ticks of compute up to this end */
} busy;

/* Returns the ticks that compute steps have run until `time`. */
static int64_t ran_by(const busy *b, int64_t time)
{
    size_t low = 0, high = b->n; /* binary search for the first step that ends after `time` */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (b->ends[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    const int64_t before = low ? b->sums[low - 1] : 0;
    if (low == b->n) return before;
    return mp_larger(before, b->sums[low] - (b->ends[low] - time)); /* step b[low] is running at `time`, or has not begun */
}

static void note_wait(mp_copying *out, int64_t ticks, size_t t)
{
    out->wait_ticks += ticks;
    if (ticks <= out->longest_wait_ticks) return;
    out->longest_wait_ticks = ticks;
    out->longest_wait = (int)t;
}

mp_status mp_makespan_copying(const mp_graph *graph, const mp_step *steps, size_t n, mp_copying *out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    busy b = {.ends = mp_pool_alloc(pool, n, sizeof *b.ends), .sums = mp_pool_alloc(pool, n, sizeof *b.sums)};
    int64_t *ends = mp_pool_alloc(pool, n, sizeof *ends), makespan, free_at = 0;
    mp_copying found = {.longest_wait = -1};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for the time of %zu steps", n);
    MP_CHECK(mp_makespan(graph, steps, n, ends, &makespan, err));
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        if (alternative->channel > MP_CHANNEL_SECOND_STREAM) continue;
        note_wait(&found, ends[t] - alternative->ticks - free_at, t);
        b.sums[b.n] = (b.n ? b.sums[b.n - 1] : 0) + alternative->ticks;
        b.ends[b.n++] = free_at = ends[t];
    }
    note_wait(&found, makespan - free_at, n);
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        const mp_copy_way way = mp_copy_way_of(graph, steps[t].node, steps[t].alternative);
        if (way == MP_COPY_NONE) continue;
        int64_t *bytes = way == MP_COPY_OUT ? &found.out_bytes : &found.in_bytes;
        bool is_counted = mp_add(found.copy_ticks, alternative->ticks, &found.copy_ticks);
        for (size_t i = 0; i < alternative->n_writes; i++)
            is_counted &= mp_add(*bytes, graph->storages[alternative->writes[i]].bytes, bytes);
        MP_ENSURE(is_counted, err, MP_INVALID, "step %zu: the steps copy more than can be counted", t);
        if (alternative->channel > MP_CHANNEL_SECOND_STREAM)
            found.hidden_ticks += ran_by(&b, ends[t]) - ran_by(&b, ends[t] - alternative->ticks);
    }
    *out = found;
    return MP_OK;
}

mp_status mp_makespan_recomputation(const mp_graph *graph, const mp_step *steps, size_t n, mp_recomputation *out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    bool *has_run = mp_pool_alloc(pool, graph->n_nodes, sizeof *has_run), *is_again = mp_pool_alloc(pool, n, sizeof *is_again);
    mp_recomputation found = {0};
    int64_t makespan, without;
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for the time of %zu steps", n);
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const mp_alternative *alternative = &node->alternatives[steps[t].alternative];
        is_again[t] = has_run[steps[t].node] && node->phase == MP_PHASE_FORWARD && !alternative->returns &&
                      alternative->channel <= MP_CHANNEL_SECOND_STREAM;
        has_run[steps[t].node] = true;
        if (!is_again[t]) continue;
        found.n_runs++;
        MP_ENSURE(mp_add(found.ticks, alternative->ticks, &found.ticks), err, MP_INVALID,
                  "step %zu: the steps take more ticks than can be counted", t);
    }
    MP_CHECK(simulate(graph, steps, n, NULL, NULL, &makespan, err));
    MP_CHECK(simulate(graph, steps, n, is_again, NULL, &without, err));
    found.hidden_ticks = found.ticks - (makespan - without);
    *out = found;
    return MP_OK;
}
