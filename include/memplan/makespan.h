/* makespan.h - the time of an order of steps, with one clock per channel.
 *
 * A step begins when three conditions hold. Its channel is free. Every issued step whose wait is at this position or earlier
 * has ended. On a channel other than compute, the earlier steps of compute have ended. Its end is its beginning plus its ticks.
 * Steps of the second stream use the clock of compute. The makespan is the latest end. With compute alone it is the sum of all
 * ticks.
 *
 *     // given: const mp_graph *graph; const mp_step *steps; size_t n; mp_error *err
 *     MP_OWNED int64_t *ends = mp_alloc(n, sizeof *ends);
 *     int64_t ticks;
 *     MP_CHECK(mp_makespan(graph, steps, n, ends, &ticks, err));
 *     printf("step 0 ends after %lld of %lld ticks\n", (long long)ends[0], (long long)ticks);
 */
#pragma once

#include "memplan/timeline.h"

/* Computes the makespan of steps[0..n) in ticks. Their nodes, alternatives and waits must exist. Unless NULL, `ends`
 * receives the end of each step. MP_INVALID: the ticks overflow; the message names the step. MP_NOMEM. O(n). */
mp_status mp_makespan(const mp_graph *graph, const mp_step *steps, size_t n, int64_t *ends, int64_t *makespan, mp_error *err);

/* The bytes and ticks of all copies between tiers in an order of steps. */
typedef struct mp_copying {
    int64_t out_bytes, in_bytes; /* by direction (mp_copy_way_of) */
    int64_t copy_ticks;          /* ticks of all copies ... */
    int64_t hidden_ticks;        /* part of the copies' ticks that overlaps with compute */
    int64_t wait_ticks;          /* ticks in which compute is idle: the makespan minus the ticks of all compute steps */
    int64_t longest_wait_ticks;  /* the longest idle period of compute, in ticks */
    int longest_wait; /* the compute step that follows the longest idle period; n: the idle period is at the end; -1: compute is
                         never idle */
} mp_copying;

/* Computes *out from the steps and their ends (mp_makespan). Errors as mp_makespan. O(n log n). */
mp_status mp_makespan_copying(const mp_graph *graph, const mp_step *steps, size_t n, mp_copying *out, mp_error *err);

/* The recomputation in an order of steps: the runs of a forward node after its first run, on the compute channel, without
 * copies back. */
typedef struct mp_recomputation {
    int64_t n_runs;
    int64_t ticks; /* ticks of all these runs ... */
    /* the part of `ticks` that costs no time, because compute would otherwise wait for another channel. It is `ticks` minus the
     * decrease of the makespan if all these runs took no time */
    int64_t hidden_ticks;
} mp_recomputation;

/* Computes *out from the steps. Errors as mp_makespan. O(n). */
mp_status mp_makespan_recomputation(const mp_graph *graph, const mp_step *steps, size_t n, mp_recomputation *out,
                                    mp_error *err);
