/* precedence.h - the precedence relation of a graph: the order of first runs that every plan has, and the reads that every plan
 * has. For the floor and the bound.
 *
 * u precedes v if the first run of u is before the first run of v in every plan (with list_order: in every plan that keeps the
 * list order). Only facts that hold for all alternatives of a node count. "Always" below means "in every alternative".
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_precedence {
    mp_pool *pool; /* owns all arrays except the pairs */
    const mp_graph *graph;
    int n;         /* number of vertices: one per node, and one for the end of backward */
    size_t words;  /* number of 64-bit words of a bit set of vertices */
    int *sequence; /* all vertices in a topological order of the relation */
    /* per vertex: the bit sets that mp_precedence_ancestors and mp_precedence_descendants return */
    uint64_t *ancestors, *descendants;
    size_t n_pairs;           /* number of pairs that the rules order directly; the relation is their transitive closure */
    int *pair_from, *pair_to; /* pair_from[k] precedes pair_to[k]; a pair may occur more than once */
    int only_vertex;          /* in a large graph, the only vertex with ancestor and descendant sets; otherwise -1 */
    int *reads_start, *reads; /* per node: the non-static storages that it always reads */
    int *source, *derived; /* per node: two recomputable storages, `derived` produced from `source`; every alternative reads at
                              least one of them; -1: none */
    int64_t *ticks;        /* per node: the ticks of its fastest alternative */
    bool *repeatable;      /* per node: it may be recomputed */
    bool *recomputable;    /* per storage: it is not static, and a repeatable node produces it */
    /* per entry of the graph's lists of readers and of adders: the entry holds in all alternatives */
    /* per storage: its producer writes it in every alternative; the result of mp_adds_in_turn */
    bool *reads_always, *adds_always;
    bool *written_always, *in_turn;
    int *lives_start, *lives; /* per storage: the makers and users of its mp_certain_life */
    int *n_makers;            /* per storage: number of makers, which are the first entries */
} mp_precedence;

/* Computes the relation. With list_order, first runs of forward nodes are in list order, and so are loss and backward nodes.
 * On MP_OK release *out with mp_precedence_free (NULL is allowed).
 *
 * A graph is large if it has more than mp_precedence_most_nodes vertices or exceeds MP_PRECEDENCE_WORK. In a large graph only
 * one vertex has its ancestors and descendants: the loss or backward node between the longest chains. If the graph has no such
 * nodes, it is a node from the turn-around on (turn_around.h). MP_NOMEM. O(nodes * edges / 64) time, O(nodes^2 / 4) bytes; for
 * a large graph O(graph * log). */
mp_status mp_precedence_new(const mp_graph *graph, bool list_order, mp_precedence **out, mp_error *err);
void mp_precedence_free(mp_precedence *order);
MP_OWNER(mp_precedence_free, mp_precedence)

/* Restricts the relation to plans with `from` before `to`. Preconditions: neither precedes the other, and all vertices have
 * their sets. n_pairs does not change. MP_NOMEM. O(nodes^2 / 64). */
mp_status mp_precedence_add(mp_precedence *order, int from, int to, mp_error *err);

/* Most vertices of a graph for which all ancestors and descendants are computed: 32,768; tests set a smaller number. */
extern _Thread_local int mp_precedence_most_nodes;

/* Return the bit set of all vertices that precede v, and of all that follow v. Precondition: v has these sets (only_vertex). */
const uint64_t *mp_precedence_ancestors(const mp_precedence *order, int v);
const uint64_t *mp_precedence_descendants(const mp_precedence *order, int v);
/* True if u precedes v. Precondition: u or v has ancestor and descendant sets. */
bool mp_precedes(const mp_precedence *order, int u, int v);

/* ---- the reads, writes and additions of a node that hold in every alternative ---- */

/* True if the node writes s in every alternative, or reads s in every alternative. mp_always_reads is for non-static storages
 * only. */
bool mp_always_writes(const mp_precedence *order, int node, int s);
bool mp_always_reads(const mp_precedence *order, int node, int s);
/* True if the node reads s in every alternative. s may be static. */
bool mp_always_reads_any(const mp_precedence *order, int node, int s);
/* True if all contributions to s are in a fixed order in every plan, so that the first and the last represent all. */
bool mp_adds_in_turn(const mp_precedence *order, int s);

/* The facts about the life of a storage that cannot be recomputed. They hold in every plan. A maker is a node that produces
 * the storage or adds to it. A user adds to it or reads it. The storage is live while some maker has run and some user has
 * not. Makers and users are in node order, adders before readers. */
typedef struct mp_certain_life {
    /* parts of one list. A node that adds is a maker and a user, so the users may begin among the makers */
    const int *makers, *users;
    int n_makers, n_users;
    bool stays; /* the storage is live to the end of the step, regardless of its users */
} mp_certain_life;

/* Returns the life of storage s; the arrays belong to `order`. It has no makers or users if s is static or recomputable. O(1).
 */
mp_certain_life mp_certain_life_of(const mp_precedence *order, int s);

/* For mp_precedence_new only: computes the facts that hold in every alternative and the facts about single nodes.
 * mp_precedence_free releases them, also after an error. MP_NOMEM. O(total list length * log). */
mp_status mp_precedence_find_always(mp_precedence *order, mp_error *err);
