/* precedence.h - the precedence relation of a graph: which first runs come before which in every plan, and what each node reads
 * in every plan. For the floor and the bound.
 *
 * u precedes v if in every plan (of the orders that are meant) the first run of u comes before the first run of v. Only what
 * holds for all alternatives of a node counts: "always" below means "whatever alternative it takes".
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_precedence {
    mp_pool *pool; /* of all arrays but the pairs */
    const mp_graph *graph;
    int n;                             /* vertices: the nodes, then the end of backward */
    size_t words;                      /* of a bit set of vertices */
    int *sequence;                     /* all vertices in a topological order of the relation */
    uint64_t *ancestors, *descendants; /* sets of vertices: mp_precedence_ancestors, mp_precedence_descendants */
    size_t n_pairs;                    /* all pairs that the rules give directly; the relation is their transitive closure */
    int *pair_from, *pair_to;          /* pair_from[k] precedes pair_to[k]; a pair may be listed more than once */
    int only_vertex;                   /* with too many nodes for all sets, the one vertex that has them (end of forward); -1 */
    int *reads_start, *reads;          /* per node: what it always reads, always-live storages left out */
    int *source, *derived;             /* per node: two recomputable storages of which every alternative reads one, `derived`
                                          produced from `source`; -1: none */
    int64_t *ticks;                    /* per node: of its fastest alternative */
    bool *repeatable;                  /* per node: it may be recomputed */
    bool *recomputable;                /* per storage: not always live, and produced by a repeatable node */
    bool *reads_always, *adds_always;  /* per entry of the graph's readers and adders: in all of the node's alternatives */
    bool *written_always, *in_turn;    /* per storage: by its producer, unless always live; mp_adds_in_turn */
} mp_precedence;

/* With list_order, the first runs of forward nodes are in list order, and so are those of loss and backward nodes. On MP_OK
 * *out is released with mp_precedence_free (NULL is fine). Beyond mp_precedence_most_nodes vertices, or MP_PRECEDENCE_WORK,
 * only one vertex has its sets: the loss or backward node between the longest chains, or, where none is marked, such a node
 * from the turn-around on. MP_NOMEM. O(nodes * edges / 64) time, O(nodes^2 / 4) bytes; beyond, O(graph * log). */
mp_status mp_precedence_new(const mp_graph *graph, bool list_order, mp_precedence **out, mp_error *err);
void mp_precedence_free(mp_precedence *order);
MP_OWNER(mp_precedence_free, mp_precedence)

/* From now on the order is about those plans only in which `from` comes before `to`; no node of both may precede the other, and
 * all vertices have their sets. n_pairs stays as it is. MP_NOMEM. O(nodes^2 / 64). */
mp_status mp_precedence_add(mp_precedence *order, int from, int to, mp_error *err);

/* Beyond how many vertices only one has its sets; 32,768, tests set less. */
extern _Thread_local int mp_precedence_most_nodes;

/* All that precede v, and all that v precedes, as bit sets; v has to have its sets. */
const uint64_t *mp_precedence_ancestors(const mp_precedence *order, int v);
const uint64_t *mp_precedence_descendants(const mp_precedence *order, int v);
/* One of the two has to have its sets. */
bool mp_precedes(const mp_precedence *order, int u, int v);

/* ---- what a node reads, writes and adds to whatever alternative it takes ---- */

/* True if the node always adds to s, writes it, or reads it; the last is for storages that are not always live. */
bool mp_always_adds(const mp_precedence *order, int node, int s);
bool mp_always_writes(const mp_precedence *order, int node, int s);
bool mp_always_reads(const mp_precedence *order, int node, int s);
/* The same of reads of storages that are always live too. */
bool mp_always_reads_any(const mp_precedence *order, int node, int s);
/* True if the contributions to s always come one after the other, so that the first and the last stand for all. */
bool mp_adds_in_turn(const mp_precedence *order, int s);

/* For mp_precedence_new: allocates and fills all that precedence.h calls "always", and what holds of each node alone;
 * mp_precedence_free releases it, after a failure too. MP_NOMEM. O(total list length * log). */
mp_status mp_precedence_find_always(mp_precedence *order, mp_error *err);
