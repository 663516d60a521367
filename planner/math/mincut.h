/* mincut.h - finds a minimum s-t cut by push-relabel, in a network whose arcs are fixed and whose capacities change between
 * calls. Source and sink are not vertices. The `supply` of a vertex is the capacity of its arc from the source. The `drain` of
 * a vertex is the capacity of its arc to the sink. All values are integers. igraph's minimum cut is used in tests for
 * comparison only, because it uses doubles and rebuilds the network for each call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"

typedef struct mp_mincut {
    mp_pool *pool; /* owns this struct and all arrays */
    int n;         /* number of vertices */
    size_t n_arcs;
    int64_t *capacity; /* per arc, in the order of mp_mincut_new: its capacity >= 0; set by the caller */
    /* per vertex. supply: capacity of the arc from the source. drain: capacity of the arc to the sink. Both are set by the
     * caller and >= 0 */
    int64_t *supply, *drain;
    bool *source_side; /* per vertex: it is on the source's side of the minimum cut; set by mp_mincut_run */
    struct mp_mincut_work *work;
} mp_mincut;

/* Creates a network of n vertices and the arcs from[k] -> to[k], with capacities 0. Release with mp_mincut_free (NULL is
 * allowed). MP_NOMEM. O(n + arcs). */
mp_status mp_mincut_new(int n, const int *from, const int *to, size_t n_arcs, mp_mincut **out, mp_error *err);
void mp_mincut_free(mp_mincut *cut);
MP_OWNER(mp_mincut_free, mp_mincut)

/* Returns the value of a minimum cut and sets source_side. Of several minimum cuts, it is the one with the most vertices on the
 * source's side. The capacity of an arc plus all supplies must be at most INT64_MAX. Push-relabel (Goldberg and Tarjan 1988),
 * first in first out, with occasional global relabelling and the gap heuristic (Cherkassky and Goldberg 1997). O(n^3). */
int64_t mp_mincut_run(mp_mincut *cut);
