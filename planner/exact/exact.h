/* exact.h - internal to the searcher `exact`: a graph of at most 64 nodes and 64 storages, with each set of nodes or storages
 * stored in one 64-bit word. The rules of a valid order are those of timeline.h and check.h.
 *
 * In this file, "storages" means non-static storages. For a graph with copies, all steps run in order, and no step is issued.
 * Then the fields that depend on precedence (used_later) and safe steps are not computed. */
#pragma once

#include "memplan/timeline.h"
#include "planner/math/bits.h"

typedef uint64_t mp_exact_set; /* a set of nodes or of storages, one bit each; mp_bits_take removes and returns an element */

enum { MP_EXACT_BITS = 64 };

static inline mp_exact_set mp_exact_one(int i)
{
    return UINT64_C(1) << i;
}

typedef struct mp_exact_alternative { /* an alternative of a node */
    int node, number;
    bool returns;
    mp_exact_set reads, writes, adds; /* sets of storages */
    mp_exact_set after,
        /* after: nodes that must have run before this alternative runs; before: nodes that must not have run before it */
        before;
    mp_exact_set from; /* inputs whose memory an output of this alternative can take over */
    /* pairs of an input and an output that takes over its memory, if the sizes fit; sorted by storage number */
    mp_in_place *pairs;
    size_t n_pairs;
    int64_t workspace_bytes, ticks;
} mp_exact_alternative;

typedef struct mp_exact_node {
    const mp_exact_alternative *alternatives;
    size_t n_alternatives;
    mp_exact_set first_after; /* nodes that must have run before the first run of this node */
    mp_exact_set always_read; /* storages that every alternative reads */
    mp_exact_set writes;      /* storages that some alternative writes */
    /* storages that a later required node uses in each of its alternatives */
    mp_exact_set used_later;
    mp_exact_set must_be_live; /* storages in used_later that cannot be recomputed, and that were produced before this node */
    int64_t least_ticks;
} mp_exact_node;

typedef struct mp_exact_graph {
    const mp_graph *graph;
    int n_nodes, n_storages;
    mp_exact_set all, optional; /* all: nodes that must run; optional: nodes that may run at most once (copies) */
    mp_exact_set repeatable,
        /* repeatable: nodes that may run more than once; computes_again: nodes that may run again in an alternative other than
         * a copy back */
        computes_again;
    mp_exact_set lasting; /* storages that are live beyond the end of the step, which are carried gradients */
    mp_exact_node nodes[MP_EXACT_BITS];
    /* per storage. producers: the nodes that produce it or add to it. adders: the nodes that add to it */
    mp_exact_set producers[MP_EXACT_BITS], adders[MP_EXACT_BITS];
    int64_t bytes[MP_EXACT_BITS];           /* per storage: its bytes on the device */
    int64_t recompute_ticks[MP_EXACT_BITS]; /* per storage: ticks of the fastest alternative of any node that produces it */
    int64_t memory_bytes;                   /* budget minus static bytes */
    int n_tiers;                            /* number of tiers with a budget, not counting the device */
    int64_t there[MP_EXACT_BITS];           /* per storage: its bytes in its own tier, device or other */
    mp_exact_set in_tier[MP_MAX_TIERS];     /* per tier with a budget: the storages in it */
    int64_t tier_bytes[MP_MAX_TIERS];       /* per tier with a budget: budget minus static bytes */
    int64_t least_ticks;                    /* sum of the ticks of all nodes, each in its fastest alternative */
    mp_exact_alternative *alternatives;
    mp_in_place *pairs;
} mp_exact_graph;

/* Reads a graph into bit sets. tier_bytes as in mp_request. With keep_order, first runs of forward nodes are in list order, and
 * so are loss and backward nodes. *out must be zeroed; release it with mp_exact_graph_free, also after an error.
 * MP_NOT_APPLICABLE: too many nodes or storages, or a node whose alternatives change different sums, carried gradients or
 * parameters. MP_NOMEM. */
mp_status mp_exact_graph_read(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, bool keep_order,
                              mp_exact_graph *out, mp_error *err);
void mp_exact_graph_free(mp_exact_graph *x);
int64_t mp_exact_bytes(const mp_exact_graph *x, mp_exact_set storages);

/* ---- a step leads from a state to its successor states ----
 *
 * A state consists of the set of nodes that have run and the set of live storages. All states with the same set of nodes that
 * have run form a stage. The struct of a stage stores the sets and bytes that all of its states have in common. */

typedef struct mp_exact_stage {
    /* ran: nodes that have run; active: nodes that have not run, or whose recomputation may be useful */
    mp_exact_set ran, active;
    mp_exact_set useful; /* storages that a node may still read, so that keeping them live may be useful */
    /* useful storages that no node can recompute; if one of them is not live in a state, the state leads to no plan */
    mp_exact_set must_be_live;
    /* produced: storages that have been produced; recomputable: storages that can be recomputed */
    mp_exact_set produced, recomputable;
    /* carried gradients to which all contributions have been added; they stay live, because they are read at the end of the
     * step */
    mp_exact_set complete;
    mp_exact_set demanded; /* storages that a node that has not run reads in each of its alternatives */
    /* bytes of carried gradients that have at least one contribution and so stay live to the end of the step */
    int64_t fixed_bytes;
    /* true: some node that must still run does not fit in memory, even if only the storages that must be live are live */
    bool dead_end;
    /* the states of this stage that no other state dominates: entries[first .. first + n), in a block of `capacity` entries */
    size_t first, n, capacity;
} mp_exact_stage;

/* Computes the fields of *out for the stage in which exactly the nodes of `ran` have run. O(nodes^2). */
void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out);

/* Returns a lower bound on the ticks of recomputation after a state; -1: the state leads to no plan. The bound counts each
 * storage that was produced, is not live, and will be read: it must be recomputed. Inputs of its producer that are not live are
 * recomputed as well. O(nodes). */
int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live);

/* True if the alternative can be the next step of this state. If the node has run before, the step must produce a useful
 * storage that is not live. */
bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative);

/* A function that is called with each set of storages that may be live after a step. If it returns false, the enumeration
 * ends. */
typedef bool (*mp_exact_visit)(void *data, mp_exact_set live);

/* Enumerates the sets of storages that may be live after a step that can run. Calls `visit` for each of these sets. `next` is
 * the stage after the step. If no storage has to be evicted, there is one set. Otherwise there is one for each maximal set that
 * fits in memory. Returns false if `visit` ended the enumeration. O(2^n) for n live storages in the worst case, few sets in
 * practice. */
bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                   const mp_exact_alternative *alternative, mp_exact_visit visit, void *data);

/* True if the step is safe. A safe step is the first run of a node. If there is a plan from this state, then some optimal plan
 * continues with the step and evicts no storage for it. If the step is safe, sets *live_after to the live storages after it. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after);
