/* floor.h - the floor (minimum memory) of plans in any order, computed from the precedence relation, and minimum cuts that
 * raise it. */
#pragma once

#include "memplan/floor.h"
#include "memplan/memory.h"
#include "planner/order/precedence.h"

/* Like mp_floor_explained, for the graph of this precedence relation. */
mp_status mp_floor_of(const mp_precedence *order, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* ---- the least live bytes of storages produced once, at a moment for which only some runs are known ----
 *
 * A moment is the set X of the nodes that have run for the first time. X is closed under precedence (precedence.h). A storage
 * cannot be recomputed if its producers run once. Such a storage is live if one of its producers is in X and one of its
 * certain users is not. Some nodes are known to be in X, some are known not to be, and the others are open. The least bytes
 * that can be live are then a minimum cut (closures of a graph, Picard 1976). In its network each storage is an arc from its
 * producer. Arcs of unbounded capacity lead on to its users, and from each node to its predecessors.
 *
 * Example: from a data gradient d, an open node w produces the gradient p of a parameter. If w has not run, d is live. If it
 * has run, p is live. At least the smaller of the two is therefore live. */

typedef struct mp_floor_cut {
    mp_pool *pool; /* owns all arrays except those with a capacity field */
    const mp_precedence *order;
    int *position;        /* per vertex: its position in the order's sequence */
    int64_t *level_bytes; /* per position: bytes of the storages in `lives` that are live just before it in the sequence. The
                             sequence is one possible order, so the least bytes of any moment are at most this */
    size_t n_lives;       /* number of storages in `lives`: produced once, with bytes, certain producers and certain users */
    struct mp_floor_life *lives;
    int64_t work; /* work of all cuts so far: vertices, arcs and storages visited */
    char *side;   /* scratch of one call, this field and all below: */
    int *vertex;  /* per vertex of the order: its vertex in the network; -1: none */
    int *touched; /* per storage: 1 + the last `running` node that uses it */
    size_t n_arcs, from_capacity, to_capacity, bytes_capacity, n_vertices, supply_capacity, drain_capacity;
    int *from, *to;
    int64_t *bytes, *supply, *drain;
} mp_floor_cut;

/* On MP_OK release *out with mp_floor_cut_free (NULL is allowed). The order must have all its sets and outlive the cut.
 * MP_NOMEM. O(list lengths + nodes + storages). */
mp_status mp_floor_cut_new(const mp_precedence *order, mp_floor_cut **out, mp_error *err);
void mp_floor_cut_free(mp_floor_cut *cut);
MP_OWNER(mp_floor_cut_free, mp_floor_cut)

/* Returns in *bytes the least live bytes of storages produced once, at any moment when all of `done` have run and `next` has
 * not. Storages that node `running` uses in any alternative are excluded. `done` must contain all predecessors of its members,
 * and must not contain `next`. MP_NOMEM. O(pairs + list lengths) and a minimum cut over the open nodes. */
mp_status mp_floor_cut_least(mp_floor_cut *cut, const uint64_t *done, int next, int running, int64_t *bytes, mp_error *err);
