/* floor.h - the floor from the precedence relation of plans in any order, and the minimum cuts that raise it. */
#pragma once

#include "memplan/floor.h"
#include "memplan/memory.h"
#include "planner/order/precedence.h"

/* Like mp_floor_explained, for the graph of this precedence relation. */
mp_status mp_floor_of(const mp_precedence *order, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* ---- the least bytes of storages produced once at a moment of which only some runs are known ----
 *
 * A moment is the set X of the nodes that have run for the first time; it is closed under precedence (precedence.h). A storage
 * whose producers run once cannot be recomputed, so it is live if one producer is in X and one certain user is not. If some
 * nodes are known to be in X, some not to be, and the others are open, the least that can be live is a minimum cut (Picard
 * 1976, closures of a graph): each storage is an arc from its producer, with arcs of unbounded capacity on to its users, and
 * from each node to those that precede it.
 *
 * Example: from a data gradient d, an open node w produces the gradient p of a parameter. If w has not run, d is live; if it
 * has, p is: so at least the smaller of the two is live.
 */

typedef struct mp_floor_cut {
    mp_pool *pool; /* owns all arrays except those that grow */
    const mp_precedence *order;
    int *position;        /* per vertex: its position in the order's sequence */
    int64_t *level_bytes; /* per position: the bytes of listed storages live just before it in that sequence; as this is one
                           * possible moment, the minimum over moments is at most this */
    size_t n_lives;       /* number of storages produced once that have bytes, certain producers and certain users */
    struct mp_floor_life *lives;
    int64_t work; /* the work of all cuts so far: vertices, arcs and storages looked at */
    char *side;   /* work of one call */
    int *vertex;  /* per vertex of the order: its vertex in the network, -1: none */
    int *touched; /* per storage: 1 + the last running node that names it */
    size_t n_arcs, from_capacity, to_capacity, bytes_capacity, n_vertices, supply_capacity, drain_capacity;
    int *from, *to;
    int64_t *bytes, *supply, *drain;
} mp_floor_cut;

/* On MP_OK *out is released with mp_floor_cut_free (NULL is fine). The order must have all its sets and outlive the cut.
 * MP_NOMEM. O(list lengths + nodes + storages). */
mp_status mp_floor_cut_new(const mp_precedence *order, mp_floor_cut **out, mp_error *err);
void mp_floor_cut_free(mp_floor_cut *cut);
MP_OWNER(mp_floor_cut_free, mp_floor_cut)

/* *bytes: the least bytes of storages produced once (except those that node `running` names in any alternative) that are
 * live at any moment when all of `done` have run and `next` has not. `done` holds all that precedes its members, and not
 * `next`. MP_NOMEM. O(pairs + list lengths) and a minimum cut over the open nodes. */
mp_status mp_floor_cut_least(mp_floor_cut *cut, const uint64_t *done, int next, int running, int64_t *bytes, mp_error *err);
