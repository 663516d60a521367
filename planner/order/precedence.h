/* precedence.h - what every plan of a graph has in common: which first runs come before which, what each node certainly reads.
 * For the planner's own use.
 *
 * "u before v": in every plan (of the orders that are meant) the first run of u comes before the first run of v. Only what
 * holds whatever form a node takes counts as certain.
 */
#ifndef PLANNER_PRECEDENCE_H
#define PLANNER_PRECEDENCE_H

#include "estimator/graph/graph.h"

typedef struct mp_bound_order {
    const mp_graph *graph;
    int n;                     /* vertices: the nodes, then the end of backward */
    size_t words;              /* of a bit set of vertices */
    int *sequence;             /* all vertices in an order that obeys "before" */
    uint64_t *earlier, *later; /* sets of vertices: mp_bound_earlier, mp_bound_later */
    size_t n_pairs;            /* all pairs that the rules give directly, from which the rest follows */
    int *pair_from, *pair_to;  /* pair_from[k] before pair_to[k]; a pair may be there more than once */
    int only;                  /* with too many nodes for all sets, the node that has them: the turn-around; else -1 */
    int *reads_start, *reads;  /* per node: what is not always live and every form reads */
    int *either, *made_of_it;  /* per node: two storages of which every form reads one, the second made from the first by a node
                                  that may run again, as the first is; -1: none */
    int64_t *ticks;            /* per node: of its fastest form */
    bool *repeatable;          /* per node: may run again */
    bool *remade;              /* per storage: not always live, and made by a repeatable node */
} mp_bound_order;

/* With list_order, forward nodes first run in list order, and so do loss and backward nodes. On MP_OK *out is released with
 * mp_bound_order_free (NULL is fine). Beyond 32767 nodes only what is before and after the first loss or backward node is
 * known. MP_NOMEM. O(nodes * edges / 64) time, O(nodes^2 / 4) bytes; beyond, O(graph). */
mp_status mp_bound_order_new(const mp_graph *graph, bool list_order, mp_bound_order **out, mp_error *err);
void mp_bound_order_free(mp_bound_order *order);

/* For tests: beyond how many nodes, the end of backward among them, the sets are only one node's; 32768. */
extern _Thread_local int mp_bound_most_nodes;

/* All before v, and all that v is before, as bit sets; v has to have them. */
const uint64_t *mp_bound_earlier(const mp_bound_order *order, int v);
const uint64_t *mp_bound_later(const mp_bound_order *order, int v);
/* One of the two has to have its sets. */
bool mp_bound_before(const mp_bound_order *order, int u, int v);
/* Whether the list names s. */
bool mp_bound_listed(const int *list, size_t n, int s);
/* Whether the node adds to s, or writes it, whatever its form. */
bool mp_bound_adds(const mp_bound_order *order, int node, int s);
bool mp_bound_writes(const mp_bound_order *order, int node, int s);
/* Whether the contributions to s certainly come one after the other, so that the first and the last stand for all. */
bool mp_bound_adds_in_turn(const mp_bound_order *order, int s);
/* Whether the node reads s, which is not always live, whatever its form. */
bool mp_bound_reads(const mp_bound_order *order, int node, int s);

#endif
