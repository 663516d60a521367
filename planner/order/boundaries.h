/* boundaries.h - the ends of segments in the forward list, and the bytes that cross them. For searchers that cut the list.
 *
 * Positions count the forward nodes in list order. A storage that is not always live crosses the end of a segment if it is
 * produced at or before it and a forward node after it reads it: a framework that checkpoints by segments retains all of these,
 * the named checkpoints and whatever else a later segment reads from an earlier one.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_boundaries {
    mp_pool *pool; /* of this and all arrays */
    const mp_graph *graph;
    int n;                   /* forward nodes */
    int *node;               /* position -> node */
    int *birth, *last;       /* per storage: the position of its producer and of its last reader; birth -1: not of this kind */
    int64_t *crossing_bytes; /* per position: what crosses an end there */
} mp_boundaries;

/* On MP_OK *out is released with mp_boundaries_free (NULL is fine). MP_NOT_APPLICABLE: no forward or no backward nodes.
 * MP_NOMEM. O(list lengths). */
mp_status mp_boundaries_new(const mp_graph *graph, mp_boundaries **out, mp_error *err);
void mp_boundaries_free(mp_boundaries *boundaries);
MP_OWNER(mp_boundaries_free, mp_boundaries)

/* The schedule of the segments that end at ends[0..n); what crosses an end, what is small, and what `keep` (NULL: nothing)
 * names is kept. Errors and cost as mp_segment_schedule. */
mp_status mp_boundaries_schedule(const mp_boundaries *boundaries, const bool *ends, const bool *keep, mp_step **steps,
                                 size_t *n, mp_error *err);

/* At most `limit` (>= 1) positions at which few bytes cross, spread over the list: the best one of each of equal stretches, the
 * last position excepted. Writes them ascending and returns how many. O(n). */
int mp_boundaries_candidates(const mp_boundaries *boundaries, int limit, int *positions);
