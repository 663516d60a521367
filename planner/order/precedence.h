/* precedence.h - the precedence relation of a graph: which first runs come before which in every plan, and what each node reads
 * in every plan. For the floor and the bound.
 *
 * u precedes v if the first run of u comes before the first run of v in every plan (with list_order: every plan that keeps the
 * list order). Only what holds for all alternatives of a node counts: "always" below means "whatever alternative it takes".
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_precedence {
    mp_pool *pool; /* owns all arrays except the pairs */
    const mp_graph *graph;
    int n;                             /* number of vertices: the nodes, then the end of backward */
    size_t words;                      /* 64-bit words of a bit set of vertices */
    int *sequence;                     /* all vertices in a topological order of the relation */
    uint64_t *ancestors, *descendants; /* per vertex: a bit set, see mp_precedence_ancestors, mp_precedence_descendants */
    size_t n_pairs;                    /* the pairs that the rules give directly; the relation is their transitive closure */
    int *pair_from, *pair_to;          /* pair_from[k] precedes pair_to[k]; a pair may be listed more than once */
    int only_vertex;                   /* in a large graph, the one vertex with ancestor and descendant sets; else -1 */
    int *reads_start, *reads;          /* per node: the storages that it always reads, except always-live ones */
    int *source, *derived;             /* per node: two recomputable storages, `derived` produced from `source`, of which
                                        * every alternative reads at least one; -1: none */
    int64_t *ticks;                    /* per node: the ticks of its fastest alternative */
    bool *repeatable;                  /* per node: true if it may be recomputed */
    bool *recomputable;                /* per storage: true if it is not always live, and a repeatable node produces it */
    bool *reads_always, *adds_always;  /* per entry of readers and adders: holds in all alternatives */
    bool *written_always, *in_turn;    /* per storage: always written by its producer; mp_adds_in_turn */
    int *lives_start, *lives;          /* per storage: makers and users of its mp_certain_life */
    int *n_makers;                     /* per storage: how many of these, from the first on, are makers */
} mp_precedence;

/* With list_order, first runs of forward nodes are in list order, and so are loss and backward nodes. On MP_OK *out is
 * released with mp_precedence_free (NULL is fine). With more than mp_precedence_most_nodes vertices, or MP_PRECEDENCE_WORK,
 * only one vertex has its sets: the loss or backward node between the longest chains, or, if none is marked, such a node
 * from the turn-around on. MP_NOMEM. O(nodes * edges / 64) time, O(nodes^2 / 4) bytes; with one vertex O(graph * log). */
mp_status mp_precedence_new(const mp_graph *graph, bool list_order, mp_precedence **out, mp_error *err);
void mp_precedence_free(mp_precedence *order);
MP_OWNER(mp_precedence_free, mp_precedence)

/* Restricts the order to plans in which `from` comes before `to`. Precondition: neither precedes the other, and all vertices
 * have their sets. n_pairs does not change. MP_NOMEM. O(nodes^2 / 64). */
mp_status mp_precedence_add(mp_precedence *order, int from, int to, mp_error *err);

/* In a graph with more vertices, only one has ancestor and descendant sets; 32,768, and less in tests. */
extern _Thread_local int mp_precedence_most_nodes;

/* Return the bit set of all vertices that precede v, or that v precedes. Precondition: v has these sets. */
const uint64_t *mp_precedence_ancestors(const mp_precedence *order, int v);
const uint64_t *mp_precedence_descendants(const mp_precedence *order, int v);
/* True if u precedes v. Precondition: u or v has ancestor and descendant sets. */
bool mp_precedes(const mp_precedence *order, int u, int v);

/* ---- what a node reads, writes and adds to whatever alternative it takes ---- */

/* True if the node always writes s, or reads s. The last holds only for storages that are not always live. */
bool mp_always_writes(const mp_precedence *order, int node, int s);
bool mp_always_reads(const mp_precedence *order, int node, int s);
/* True if the node always reads s, where s may be always live. */
bool mp_always_reads_any(const mp_precedence *order, int node, int s);
/* True if all contributions to s come in a fixed order in every plan, so that the first and the last stand for all. */
bool mp_adds_in_turn(const mp_precedence *order, int s);

/* What every plan does with a storage that cannot be recomputed: a maker produces it, or adds to it; a user adds to it or reads
 * it. Where a maker has run and a user has not, it is live. Makers and users are in node order, adders before readers. */
typedef struct mp_certain_life {
    const int *makers, *users; /* parts of one list, since adders are both: users may begin among the makers */
    int n_makers, n_users;
    bool stays; /* it is live to the end of the step, whoever uses it */
} mp_certain_life;

/* Returns the life of s, owned by the order; without makers or users for one that is always live or can be recomputed. O(1). */
mp_certain_life mp_certain_life_of(const mp_precedence *order, int s);

/* For mp_precedence_new: allocates and fills everything that this header calls "always", and what concerns one node alone.
 * mp_precedence_free releases it, also after an error. MP_NOMEM. O(total list length * log). */
mp_status mp_precedence_find_always(mp_precedence *order, mp_error *err);
