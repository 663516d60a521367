/* frontier.h - the Pareto frontier of schedules in peak bytes and ticks: the schedules for which no other schedule has fewer
 * bytes and not more ticks. */
#pragma once

#include "memplan/timeline.h"

typedef struct mp_frontier_point {
    int64_t peak_bytes, ticks;
    mp_step *steps;
    size_t n_steps;
} mp_frontier_point;

typedef struct mp_frontier {   /* a zeroed frontier has no points; release with mp_frontier_free */
    mp_frontier_point *points; /* sorted by ascending peak and descending ticks */
    size_t n, capacity;
} mp_frontier;

/* Copies a schedule into the frontier, unless a point dominates it. Then removes the points that the schedule dominates.
 * MP_NOMEM. O(points + n_steps). */
mp_status mp_frontier_add(mp_frontier *frontier, const mp_step *steps, size_t n_steps, int64_t peak_bytes, int64_t ticks,
                          mp_error *err);

/* Returns the fastest schedule whose peak is within a budget; NULL: there is none. O(log points). */
const mp_frontier_point *mp_frontier_within(const mp_frontier *frontier, int64_t budget_bytes);

void mp_frontier_free(mp_frontier *frontier);
