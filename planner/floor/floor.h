/* floor.h - computes the floor, the minimum memory of plans in any order, from the precedence relation. Minimum cuts raise the
 * floor. */
#pragma once

#include "memplan/floor.h"
#include "memplan/memory.h"
#include "planner/order/precedence.h"

/* Computes the floor like mp_floor_explained, for the graph of this precedence relation. */
mp_status mp_floor_of(const mp_precedence *order, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* ---- the least live bytes of storages produced once, at a moment for which only some runs are known ----
 *
 * A moment is the set X of the nodes that have run for the first time. X is closed under precedence (precedence.h). A storage
 * cannot be recomputed if its producers run once. Such a storage is live if at least one of its producers is in X, and at least
 * one node that uses it in every plan is not in X. Some nodes are known to be in X, some are known not to be in X, and the
 * others are open. The least live bytes over all choices of X are the value of a minimum cut (closures of a graph, Picard
 * 1976). In the network each storage is an arc whose capacity is its bytes. It starts at the storage's producer, and arcs of
 * unbounded capacity lead from its end to the users. From each node, arcs of unbounded capacity lead to its predecessors.
 *
 * Example: from a data gradient d, an open node w produces the gradient p of a parameter. If w has not run, d is live. If it
 * has run, p is live. At least the smaller of the two is therefore live. */

typedef struct mp_floor_cut {
    mp_pool *pool; /* owns all arrays except those with a capacity field */
    const mp_precedence *order;
    int *position; /* per vertex: its index in the sequence of the precedence relation */
    /* per position: bytes of the storages in `lives` that are live just before this position of the sequence. The sequence is
     * one possible order of first runs, so the least bytes at a moment are at most this value */
    int64_t *level_bytes;
    /* number of entries of `lives`: storages of more than 0 bytes that cannot be recomputed, and that in every plan have a
     * producer and a user */
    size_t n_lives;
    struct mp_floor_life *lives;
    int64_t work; /* work of all minimum cuts so far: visited vertices, arcs and storages */
    char *side;   /* scratch arrays of one call, from this field on */
    int *vertex;  /* per vertex of the precedence order: its vertex in the flow network of the minimum cut; -1: none */
    int *touched; /* per storage: 1 + the last value of `running` (a node) for which the storage was an operand of that node */
    size_t n_arcs, from_capacity, to_capacity, bytes_capacity, n_vertices, supply_capacity, drain_capacity;
    int *from, *to;
    int64_t *bytes, *supply, *drain;
} mp_floor_cut;

/* Prepares minimum cuts for a precedence relation, which must store the ancestors and descendants of all vertices and must
 * outlive *out. On MP_OK release *out with mp_floor_cut_free (NULL is allowed). MP_NOMEM. O(list lengths + nodes +
 * storages). */
mp_status mp_floor_cut_new(const mp_precedence *order, mp_floor_cut **out, mp_error *err);
void mp_floor_cut_free(mp_floor_cut *cut);
MP_OWNER(mp_floor_cut_free, mp_floor_cut)

/* Returns in *bytes the least live bytes of storages produced once, over all moments when all nodes in `done` have run and
 * `next` has not. Storages that node `running` uses in any alternative are not counted. `done` must contain all predecessors of
 * its members, and must not contain `next`. MP_NOMEM. O(pairs of the relation + list lengths), and a minimum cut over the open
 * nodes. */
mp_status mp_floor_cut_least(mp_floor_cut *cut, const uint64_t *done, int next, int running, int64_t *bytes, mp_error *err);

/* ---- one lower bound for many graphs ----
 *
 * A family of graphs is made from one model, by cutting regions of it in different numbers of chunks. The other nodes have the
 * same names and operands in all graphs of the family. In every plan of every graph:
 * - While such a node runs, its operands and its workspace are live, minus the most that in-place pairs can save.
 * - At the end of backward, the gradients that an update reads afterwards are live.
 * So static bytes plus the larger of these two needs is at most the floor of each graph. The operands of collectives depend on
 * the order of gradients, so collectives do not count. */

typedef struct mp_floor_shared mp_floor_shared;

/* Starts with all nodes of a graph, which must outlive *out. `order` is the precedence relation of the graph. NULL: the
 * gradients at the end of backward do not count, as in a graph with copies. Release *out with mp_floor_shared_free (NULL is
 * allowed). MP_NOMEM. O(list lengths). */
mp_status mp_floor_shared_new(const mp_graph *graph, const mp_precedence *order, mp_floor_shared **out, mp_error *err);
void mp_floor_shared_free(mp_floor_shared *shared);
MP_OWNER(mp_floor_shared_free, mp_floor_shared)
/* Omits nodes and gradients that `graph` does not contain. Lowers the bytes of the others to their bytes in `graph`, if these
 * are fewer. Errors and cost as mp_floor_shared_new. */
mp_status mp_floor_shared_meet(mp_floor_shared *shared, const mp_graph *graph, const mp_precedence *order, mp_error *err);
/* Returns a lower bound on the floor of every graph that contains the remaining nodes and gradients. O(nodes + storages). */
int64_t mp_floor_shared_bytes(const mp_floor_shared *shared);
