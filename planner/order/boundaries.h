/* boundaries.h - positions in the forward list where a segment may end, and the bytes that cross each position. Used by
 * searchers that cut the list into segments. A position is the index of a forward node in list order. A segment that ends at a
 * position contains this node. A non-static storage crosses a position if it is produced at or before the position and read by
 * a forward node after it. A framework that checkpoints by segments keeps all storages that cross the end of a segment: the
 * checkpoints that the user named, and every other storage that a later segment reads. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

typedef struct mp_boundaries {
    mp_pool *pool; /* owns this and all arrays */
    const mp_graph *graph;
    int n;     /* number of forward nodes, which is also the number of positions */
    int *node; /* position -> node */
    /* per storage. birth: the position of its producer; -1 for static storages and for storages without a forward producer.
     * last: the position of its last forward reader */
    int *birth, *last;
    int64_t *crossing_bytes; /* per position: the bytes of the storages that cross it */
} mp_boundaries;

/* Finds the positions of a graph and the bytes that cross them. On MP_OK release *out with mp_boundaries_free (NULL is
 * allowed). MP_NOT_APPLICABLE: no forward or no backward nodes. MP_NOMEM. O(list lengths). */
mp_status mp_boundaries_new(const mp_graph *graph, mp_boundaries **out, mp_error *err);
void mp_boundaries_free(mp_boundaries *boundaries);
MP_OWNER(mp_boundaries_free, mp_boundaries)

/* Returns the schedule of segments that end at the positions marked in ends[0..n). Three kinds of storages are kept for
 * backward: storages that cross the end of a segment, small `saved` storages (mp_segment_keep_small), and storages in `keep`
 * (NULL: none). Errors and cost as mp_segment_schedule. */
mp_status mp_boundaries_schedule(const mp_boundaries *boundaries, const bool *ends, const bool *keep, mp_step **steps,
                                 size_t *n, mp_error *err);

/* Divides the positions into at most `limit` (>= 1) equal ranges. From each range, writes the position that the fewest bytes
 * cross; the positions are ascending. The last position of the list is excluded. Returns the number of positions written.
 * O(n). */
int mp_boundaries_candidates(const mp_boundaries *boundaries, int limit, int *positions);
