/* floor.h - the floor where the precedence of plans in any order is there already, and the minimum cuts that raise it. */
#pragma once

#include "memplan/floor.h"
#include "memplan/memory.h"
#include "planner/order/precedence.h"

/* Like mp_floor_explained, for the order's graph. */
mp_status mp_floor_of(const mp_precedence *order, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* ---- the least that storages produced once take at a moment of which only some of what has run is known ----
 *
 * A moment is the set X of the nodes that have run for the first time. X holds, with a node, all that is before it
 * (precedence.h). A storage whose producers run once is live if one of them is in X and one that certainly reads or adds to it
 * is not, for it cannot be recomputed. Where it is known of some nodes that they are in X, of some that they are not, and of
 * the others nothing, the least that can be live is a minimum cut (Picard 1976, closures of a graph): each storage an arc from
 * its producer, arcs of unbounded capacity on to its users, and arcs of unbounded capacity from each node to those before it.
 *
 * Example: a data gradient d, from which a node w, of which nothing is known, produces the gradient p of a parameter. Either w
 * has not run, then d lives, or it has, then p does: at least the smaller of the two. */

typedef struct mp_floor_cut {
    mp_pool *pool; /* of all arrays but those that grow */
    const mp_precedence *order;
    int *position;        /* per vertex: its place in the order's sequence */
    int64_t *level_bytes; /* per place: the listed storages that are live just before it in that sequence: one of the moments
                             that there may be, so that the least of several is never more */
    size_t n_lives;       /* storages produced once, with bytes, certain producers and certain users */
    struct mp_floor_life *lives;
    int *nodes;   /* their producers and users */
    int64_t work; /* what cuts have cost so far, in vertices, arcs and storages looked at */
    char *side;   /* the rest is for the time of a call only */
    int *vertex;  /* per vertex of the order; -1: not in the network */
    int *touched; /* per storage: the last running node that names it, plus one */
    size_t n_arcs, from_capacity, to_capacity, bytes_capacity, n_vertices, supply_capacity, drain_capacity;
    int *from, *to;
    int64_t *bytes, *supply, *drain;
} mp_floor_cut;

/* On MP_OK *out is released with mp_floor_cut_free (NULL is fine); the order, which must have all its sets, has to outlive it.
 * MP_NOMEM. O(list lengths + nodes + storages). */
mp_status mp_floor_cut_new(const mp_precedence *order, mp_floor_cut **out, mp_error *err);
void mp_floor_cut_free(mp_floor_cut *cut);
MP_OWNER(mp_floor_cut_free, mp_floor_cut)

/* *bytes: the least that is live of storages produced once that node `running` names in no alternative, at a moment when all of
 * `done` have run (a set that holds all that is before any of its members), and `next`, which is not in it, has not. MP_NOMEM.
 * O(pairs + list lengths) and a minimum cut over the nodes of which nothing is known. */
mp_status mp_floor_cut_least(mp_floor_cut *cut, const uint64_t *done, int next, int running, int64_t *bytes, mp_error *err);
