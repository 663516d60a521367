/* exact.h - a graph of at most 64 nodes and 64 storages in sets of one word, with the rules of timeline.h and check.h
 * about which node runs before which.
 *
 * Storages are those that are not always live.
 */
#pragma once

#include "memplan/timeline.h"
#include "planner/math/bits.h"

typedef uint64_t mp_exact_set; /* of nodes or of storages; elements are taken out of it with mp_bits_take */

enum { MP_EXACT_BITS = 64 };

static inline mp_exact_set mp_exact_one(int i)
{
    return UINT64_C(1) << i;
}

typedef struct mp_exact_alternative { /* of a node */
    int node, number;
    mp_exact_set reads, writes, adds; /* storages */
    mp_exact_set after, before;       /* nodes that must have run, and that must not have, whenever this runs */
    mp_exact_set from;                /* inputs whose memory an output can take over */
    mp_in_place *pairs;               /* those that can fit, by bit */
    size_t n_pairs;
    int64_t workspace_bytes, ticks;
} mp_exact_alternative;

typedef struct mp_exact_node {
    const mp_exact_alternative *alternatives;
    size_t n_alternatives;
    mp_exact_set first_after;  /* nodes that must have run before its first run */
    mp_exact_set always_read;  /* storages that every alternative reads */
    mp_exact_set writes;       /* storages that some alternative writes */
    mp_exact_set used_later;   /* storages that some node that has to come later certainly uses */
    mp_exact_set must_be_live; /* those of them that only nodes that run once produce, one of which has run before it */
    int64_t least_ticks;
} mp_exact_node;

typedef struct mp_exact_graph {
    const mp_graph *graph;
    int n_nodes, n_storages;
    mp_exact_set all, repeatable; /* nodes */
    mp_exact_set carried;         /* storages */
    mp_exact_node nodes[MP_EXACT_BITS];
    mp_exact_set producers[MP_EXACT_BITS], adders[MP_EXACT_BITS]; /* per storage; an adder is a producer */
    int64_t bytes[MP_EXACT_BITS];
    int64_t recompute_ticks[MP_EXACT_BITS]; /* per storage: of the fastest alternative that produces it */
    int64_t memory_bytes;                   /* the budget less what is always live */
    int64_t least_ticks;                    /* every node once, in its fastest alternative */
    mp_exact_alternative *alternatives;
    mp_in_place *pairs;
} mp_exact_graph;

/* With keep_order, first runs of forward nodes, and loss and backward nodes, come in the order of the list. Zeroed *out is
 * released with mp_exact_graph_free, also after a failure. MP_NOT_APPLICABLE: too many nodes or storages, or alternatives that
 * differ in what they add to, carry on or update. MP_NOMEM. */
mp_status mp_exact_graph_read(const mp_graph *graph, int64_t budget_bytes, bool keep_order, mp_exact_graph *out, mp_error *err);
void mp_exact_graph_free(mp_exact_graph *x);
int64_t mp_exact_bytes(const mp_exact_graph *x, mp_exact_set storages);

/* ---- a step leads from a state to the states after it ----
 *
 * A stage is the set of nodes that have run, with all that follows from it, whatever is live. */

typedef struct mp_exact_stage {
    mp_exact_set ran, active;  /* nodes; active: those that have not run, or may run again for something useful */
    mp_exact_set useful;       /* storages that some node may still use, if they are live */
    mp_exact_set must_be_live; /* those that nothing can recompute and that will be used: without them there is no plan */
    mp_exact_set produced, recomputable; /* storages that some node has produced; that some node may recompute */
    mp_exact_set complete;     /* carried gradients with all contributions: live to the end of the step, and read from there */
    mp_exact_set demanded;     /* storages that nodes that have not run certainly read */
    int64_t fixed_bytes;       /* carried gradients with some contribution: live to the end of the step */
    bool dead_end;             /* some node that has not run does not fit beside what has to be live then: no plan leads on */
    size_t first, n, capacity; /* its states that are not dominated: entries[first .. first + n), in a block of `capacity` */
} mp_exact_stage;

/* O(nodes^2). */
void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out);

/* At least this many ticks go into recomputation from here on; -1: there is no plan from here. Every demanded storage that has
 * been produced and is not live is recomputed, from what is live or recomputed as well. O(nodes). */
int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live);

/* True if the alternative can run now. A rerun has to produce something useful that is not live. */
bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative);

/* Gets what is live after a step; false ends the enumeration. */
typedef bool (*mp_exact_visit)(void *data, mp_exact_set live);

/* All that can be live after a step that can run, `next` being the stage after it: everything if that fits, else every largest
 * set that fits with the step. False: the visitor ended it. O(2^storages live) in the worst case, few in practice. */
bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                   const mp_exact_alternative *alternative, mp_exact_visit visit, void *data);

/* True if some best plan from here, if there is one, begins with the first run of the node in this alternative, and evicts
 * nothing for it; then *live_after. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after);
