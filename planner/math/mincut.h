/* mincut.h - push-relabel finds a minimum s-t cut of a network whose capacities change and whose arcs stay.
 *
 * Source and sink are no vertices: `supply` is the capacity from the source to a vertex, `drain` from it to the sink.
 * Everything is counted in integers; igraph's minimum cut, with which tests compare, takes doubles and builds the network anew
 * every time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"

typedef struct mp_mincut {
    mp_pool *pool; /* owns this and all arrays */
    int n;         /* number of vertices */
    size_t n_arcs;
    int64_t *capacity;       /* per arc, in the given order; set by the caller, >= 0 */
    int64_t *supply, *drain; /* per vertex; set by the caller, >= 0 */
    bool *source_side;       /* per vertex: true if on the source's side; set by mp_mincut_run */
    struct mp_mincut_work *work;
} mp_mincut;

/* Makes a network of n vertices and the arcs from[k] -> to[k], with capacities 0. Released with mp_mincut_free (NULL is
 * fine). MP_NOMEM. O(n + arcs). */
mp_status mp_mincut_new(int n, const int *from, const int *to, size_t n_arcs, mp_mincut **out, mp_error *err);
void mp_mincut_free(mp_mincut *cut);
MP_OWNER(mp_mincut_free, mp_mincut)

/* Returns the value of a minimum cut and sets source_side; of several minimum cuts, it takes the one with the most vertices
 * on the source's side. The capacity of an arc and all supplies must add up to at most INT64_MAX. Push-relabel (Goldberg and
 * Tarjan 1988), first in first out, with occasional exact distances and gaps (Cherkassky and Goldberg 1997). O(n^3). */
int64_t mp_mincut_run(mp_mincut *cut);
