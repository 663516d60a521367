/* boundaries.h - positions in the forward list where a segment may end, and the bytes that cross each position. For searchers
 * that cut the list into segments.
 *
 * Positions count the forward nodes in list order. A non-static storage crosses a segment's end if it is produced at or before
 * the end and read by a forward node after it. A framework that checkpoints by segments keeps all crossing storages. These are
 * the named checkpoints, and every other storage that a later segment reads from an earlier one. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_boundaries {
    mp_pool *pool; /* owns this and all arrays */
    const mp_graph *graph;
    int n;             /* number of forward nodes, and of positions */
    int *node;         /* position -> node */
    int *birth, *last; /* per storage: positions of its producer and of its last forward reader; `birth` is -1 for storages that
                          are not counted */
    int64_t *crossing_bytes; /* per position: the bytes that cross a segment's end there */
} mp_boundaries;

/* Finds the positions and crossing bytes of a graph. On MP_OK release *out with mp_boundaries_free (NULL is allowed).
 * MP_NOT_APPLICABLE: no forward or no backward nodes. MP_NOMEM. O(list lengths). */
mp_status mp_boundaries_new(const mp_graph *graph, mp_boundaries **out, mp_error *err);
void mp_boundaries_free(mp_boundaries *boundaries);
MP_OWNER(mp_boundaries_free, mp_boundaries)

/* Returns the schedule of the segments that end at the positions ends[0..n). Three kinds of storages are kept: storages that
 * cross an end, small `saved` storages (mp_segment_keep_small), and storages in `keep` (NULL: none). Errors and cost as
 * mp_segment_schedule. */
mp_status mp_boundaries_schedule(const mp_boundaries *boundaries, const bool *ends, const bool *keep, mp_step **steps,
                                 size_t *n, mp_error *err);

/* Divides the list into at most `limit` (>= 1) equal ranges. Writes from each range the position with the fewest crossing
 * bytes, ascending. The last position of the list is excluded. Returns the number of positions. O(n). */
int mp_boundaries_candidates(const mp_boundaries *boundaries, int limit, int *positions);
