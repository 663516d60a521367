/* boundaries.h - the ends of segments in the forward list, and the bytes that cross them. For searchers that cut the list.
 *
 * Positions count the forward nodes in list order. A storage that is not always live crosses the end of a segment if it is
 * produced at or before the end and read by a forward node after it. A framework that checkpoints by segments keeps all of
 * these: the named checkpoints, and whatever else a later segment reads from an earlier one.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_boundaries {
    mp_pool *pool; /* owns this and all arrays */
    const mp_graph *graph;
    int n;                   /* number of forward nodes */
    int *node;               /* position -> node */
    int *birth, *last;       /* per storage: positions of producer and last forward reader; birth -1: does not count */
    int64_t *crossing_bytes; /* per position: the bytes that cross the end of a segment there */
} mp_boundaries;

/* On MP_OK *out is released with mp_boundaries_free (NULL is fine). MP_NOT_APPLICABLE: no forward or no backward nodes.
 * MP_NOMEM. O(list lengths). */
mp_status mp_boundaries_new(const mp_graph *graph, mp_boundaries **out, mp_error *err);
void mp_boundaries_free(mp_boundaries *boundaries);
MP_OWNER(mp_boundaries_free, mp_boundaries)

/* Gives the schedule of the segments that end at ends[0..n). Storages that cross an end, small ones, and those in `keep`
 * (NULL: none) are kept. Errors and cost as mp_segment_schedule. */
mp_status mp_boundaries_schedule(const mp_boundaries *boundaries, const bool *ends, const bool *keep, mp_step **steps,
                                 size_t *n, mp_error *err);

/* Writes at most `limit` (>= 1) positions at which few bytes cross, ascending: the best of each of equal stretches of the
 * list. Leaves out the last position. Returns their number. O(n). */
int mp_boundaries_candidates(const mp_boundaries *boundaries, int limit, int *positions);
