/* makespan.h - the time of an order of steps: one clock per channel.
 *
 * A step begins when its channel is free, when every step that is waited for at its position or before has ended, and, on a
 * channel other than compute, when the steps of compute before it have ended. It ends its ticks later. Steps of the second
 * stream count on the clock of compute. The makespan is the latest end: with compute alone the sum of all ticks.
 *
 *     int64_t *ends = mp_alloc(n, sizeof *ends), ticks;
 *     if (mp_makespan(graph, steps, n, ends, &ticks, &err) == MP_OK)
 *         printf("step 0 ends after %lld of %lld ticks\n", (long long)ends[0], (long long)ticks);
 */
#pragma once

#include "memplan/timeline.h"

/* Computes the makespan of steps[0..n), whose nodes, alternatives and waits must exist, and unless `ends` is NULL when each
 * step ends. MP_INVALID: more ticks than can be counted; names the step. MP_NOMEM. O(n). */
mp_status mp_makespan(const mp_graph *graph, const mp_step *steps, size_t n, int64_t *ends, int64_t *makespan, mp_error *err);

/* What the copies of an order of steps move, and what they cost it. */
typedef struct mp_copying {
    int64_t out_bytes, in_bytes; /* by the ways of mp_copy_way_of */
    int64_t copy_ticks;          /* of all copies ... */
    int64_t hidden_ticks;        /* ... and the part of them during which compute ran */
    int64_t wait_ticks;          /* during which compute did not run: the makespan less compute's ticks */
    int64_t longest_wait_ticks;  /* the longest of these waits ... */
    int longest_wait;            /* ... is before this step of compute; n: at the end; -1: there is none */
} mp_copying;

/* Derives *out from the ends of the steps. As mp_makespan. O(n log n). */
mp_status mp_makespan_copying(const mp_graph *graph, const mp_step *steps, size_t n, mp_copying *out, mp_error *err);
