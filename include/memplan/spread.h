/* spread.h - how many checkpoints? Evenly spread ones, from none to one after every node: with too few, long segments are
 * recomputed at once; with too many, they fill the memory themselves.
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_spread_point {
    size_t n_checkpoints; /* activations kept from one segment to a later one */
    int64_t peak_bytes, ticks;
} mp_spread_point;

/* Tries segment checkpointing with more and more segment ends, spread over the forward list at places where few bytes
 * are live. Points come in ascending order of n_checkpoints, each number once, at most `most` of them (>= 2); the first
 * is keep-all. On MP_OK *points is released with mp_free. As many schedules are made and judged as points come out, and
 * some more. MP_NOT_APPLICABLE: no forward or no backward phase, or a graph with copies. MP_NOMEM. */
mp_status mp_spread(const mp_graph *graph, size_t most, mp_spread_point **points, size_t *n, mp_error *err);
