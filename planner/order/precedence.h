/* precedence.h - the precedence relation of a graph: which first runs precede others in every plan, and which reads occur in
 * every plan. Used by the floor and the bound.
 *
 * u precedes v if the first run of u is before the first run of v in every plan (with list_order: in every plan that keeps the
 * list order). A read or a precedence counts only if it holds in all alternatives of a node. "Always" below means "in every
 * alternative". */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_precedence {
    mp_pool *pool; /* owns all arrays except pair_from and pair_to */
    const mp_graph *graph;
    int n;         /* number of vertices: one per node, and a last one for the end of backward */
    size_t words;  /* number of 64-bit words of a set of vertices */
    int *sequence; /* all vertices in a topological order of the relation */
    /* per vertex: the bit sets that mp_precedence_ancestors and mp_precedence_descendants return */
    uint64_t *ancestors, *descendants;
    /* number of pairs that a dependency orders directly; the relation is the transitive closure of these pairs */
    size_t n_pairs;
    int *pair_from, *pair_to; /* pair_from[k] precedes pair_to[k]; a pair may occur more than once */
    int only_vertex;          /* in a large graph: the only vertex whose ancestors and descendants are stored; otherwise -1 */
    int *reads_start, *reads; /* per node: the non-static storages that it reads in every alternative */
    /* per node: two recomputable storages, of which every alternative reads at least one; `derived` is produced from `source`;
     * -1: none */
    int *source, *derived;
    int64_t *ticks;     /* per node: the ticks of its fastest alternative */
    bool *repeatable;   /* per node: it may be recomputed */
    bool *recomputable; /* per storage: it is not static, and a repeatable node produces it */
    /* per entry of the graph's lists of readers and of adders: the node reads, or adds to, the storage in every alternative */
    /* written_always, per storage: its producer writes it in every alternative. in_turn, per storage: the result of
     * mp_adds_in_turn */
    bool *reads_always, *adds_always;
    bool *written_always, *in_turn;
    int *lives_start, *lives; /* per storage: the makers and users of mp_certain_life, in one list */
    /* per storage: number of its makers, which are the first elements of its list of makers and users */
    int *n_makers;
} mp_precedence;

/* Computes the relation. With list_order, it is the relation of plans in list order: first runs of forward nodes are in list
 * order, and so are loss and backward nodes. On MP_OK release *out with mp_precedence_free (NULL is allowed).
 *
 * A graph is large if it has more than mp_precedence_most_nodes vertices or exceeds MP_PRECEDENCE_WORK. For a large graph,
 * ancestors and descendants are stored for one vertex only: the loss or backward node between the longest chains of nodes. If
 * the graph has no such nodes, it is a node from the turn-around on (turn_around.h). MP_NOMEM. O(nodes * edges / 64) time,
 * O(nodes^2 / 4) bytes; for a large graph O(n log n), where n is the number of nodes and list entries. */
mp_status mp_precedence_new(const mp_graph *graph, bool list_order, mp_precedence **out, mp_error *err);
void mp_precedence_free(mp_precedence *order);
MP_OWNER(mp_precedence_free, mp_precedence)

/* Restricts the relation to plans in which `from` precedes `to`. Preconditions: neither node precedes the other, and the sets
 * of all vertices are stored. n_pairs does not change. MP_NOMEM. O(nodes^2 / 64). */
mp_status mp_precedence_add(mp_precedence *order, int from, int to, mp_error *err);

/* Largest number of vertices for which all ancestors and descendants are stored: 32,768; tests set a smaller number. */
extern _Thread_local int mp_precedence_most_nodes;

/* mp_precedence_ancestors returns the bit set of all vertices that precede v. mp_precedence_descendants returns the bit set of
 * all vertices that follow v. Precondition: the sets of v are stored (only_vertex). */
const uint64_t *mp_precedence_ancestors(const mp_precedence *order, int v);
const uint64_t *mp_precedence_descendants(const mp_precedence *order, int v);
/* True if u precedes v. Precondition: the sets of u or of v are stored. */
bool mp_precedes(const mp_precedence *order, int u, int v);

/* ---- reads, writes and additions that a node makes in each of its alternatives ---- */

/* mp_always_writes: true if the node writes s in every alternative. mp_always_reads: true if the node reads the non-static
 * storage s in every alternative. */
bool mp_always_writes(const mp_precedence *order, int node, int s);
bool mp_always_reads(const mp_precedence *order, int node, int s);
/* True if the node reads s in every alternative. s may be static. */
bool mp_always_reads_any(const mp_precedence *order, int node, int s);
/* True if the contributions to s are in the same order in every plan. Then the first and the last contribution represent all of
 * them. */
bool mp_adds_in_turn(const mp_precedence *order, int s);

/* The makers and users of a storage that cannot be recomputed. They are the same in every plan. A maker is a node that produces
 * the storage or adds to it. A user adds to it or reads it. The storage is live while some maker has run and some user has not.
 * Makers and users are in node order, adders before readers. */
typedef struct mp_certain_life {
    /* both pointers point into one list. A node that adds to a sum is a maker and a user, so the users may begin before the
     * makers end */
    const int *makers, *users;
    int n_makers, n_users;
    bool stays; /* true: the storage is live to the end of the step, whether or not it has users */
} mp_certain_life;

/* Returns the makers and users of storage s. The arrays belong to `order`. A static or recomputable storage has no makers and
 * no users. O(1). */
mp_certain_life mp_certain_life_of(const mp_precedence *order, int s);

/* Part of mp_precedence_new: finds the storages that each node uses in every alternative, and the fields that describe single
 * nodes and storages. mp_precedence_free releases them, also after an error. MP_NOMEM. O(n log n) for lists of n entries in
 * total. */
mp_status mp_precedence_find_always(mp_precedence *order, mp_error *err);
