/* exact.h - internal to the searcher `exact`: a graph of at most 64 nodes and 64 storages, with each set of nodes or storages
 * stored in one 64-bit word. The rules of a valid order are those of timeline.h and check.h.
 *
 * "Storages" here are the non-static storages. For a graph with copies, all steps run in order and nothing is issued. Facts
 * that depend on precedence (used_later, safe steps) are then not computed. */
#pragma once

#include "memplan/timeline.h"
#include "planner/math/bits.h"

typedef uint64_t mp_exact_set; /* a set of nodes or of storages; mp_bits_take removes elements */

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
        /* nodes that must have run before each run of this alternative (after); nodes that must not have run before (before) */
        before;
    mp_exact_set from;  /* inputs whose memory an output can take over */
    mp_in_place *pairs; /* in-place pairs whose sizes fit, sorted by storage number */
    size_t n_pairs;
    int64_t workspace_bytes, ticks;
} mp_exact_alternative;

typedef struct mp_exact_node {
    const mp_exact_alternative *alternatives;
    size_t n_alternatives;
    mp_exact_set first_after; /* nodes that must have run before its first run */
    mp_exact_set always_read; /* storages that every alternative reads */
    mp_exact_set writes;      /* storages that some alternative writes */
    /* storages that are used after this node: some required later node uses them in every alternative */
    mp_exact_set used_later;
    mp_exact_set must_be_live; /* storages in used_later that cannot be recomputed, and with a producer before this node */
    int64_t least_ticks;
} mp_exact_node;

typedef struct mp_exact_graph {
    const mp_graph *graph;
    int n_nodes, n_storages;
    mp_exact_set all, optional; /* nodes that must run; nodes that may run, at most once (copies) */
    mp_exact_set repeatable,
        /* nodes that may run again; nodes that may run again in an alternative that is not a copy back */
        computes_again;
    mp_exact_set lasting; /* storages that are live beyond the end of the step: carried gradients */
    mp_exact_node nodes[MP_EXACT_BITS];
    mp_exact_set producers[MP_EXACT_BITS], adders[MP_EXACT_BITS]; /* per storage: its producers, adders included; its adders */
    int64_t bytes[MP_EXACT_BITS];                                 /* per storage: its bytes on the device */
    int64_t recompute_ticks[MP_EXACT_BITS]; /* per storage: ticks of the fastest alternative that produces it */
    int64_t memory_bytes;                   /* budget minus static bytes */
    int n_tiers;                            /* number of tiers with a budget, other than the device */
    int64_t there[MP_EXACT_BITS];           /* per storage: its bytes, in whichever tier it is */
    mp_exact_set in_tier[MP_MAX_TIERS];     /* per tier with a budget: the storages in it */
    int64_t tier_bytes[MP_MAX_TIERS];       /* per tier with a budget: budget minus static bytes */
    int64_t least_ticks;                    /* ticks of running every node once, in its fastest alternative */
    mp_exact_alternative *alternatives;
    mp_in_place *pairs;
} mp_exact_graph;

/* Reads a graph. tier_bytes as in mp_request. With keep_order, first runs of forward nodes are in list order, and so are loss
 * and backward nodes. *out must be zeroed; release it with mp_exact_graph_free, also after an error. MP_NOT_APPLICABLE: too
 * many nodes or storages. Also if the alternatives of a node change different sums, carried gradients or parameters. MP_NOMEM.
 */
mp_status mp_exact_graph_read(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, bool keep_order,
                              mp_exact_graph *out, mp_error *err);
void mp_exact_graph_free(mp_exact_graph *x);
int64_t mp_exact_bytes(const mp_exact_graph *x, mp_exact_set storages);

/* ---- a step leads from a state to its successor states ----
 *
 * A state is the set of nodes that have run, and the set of live storages. A stage contains all states with the same set of
 * nodes that have run, and the facts that hold for all of them. */

typedef struct mp_exact_stage {
    mp_exact_set ran, active;  /* nodes that have run; nodes that have not run, or whose recomputation may be useful */
    mp_exact_set useful;       /* storages that a later run may use if they are live */
    mp_exact_set must_be_live; /* useful storages that no node can recompute; a state in which one of them is not live leads to
                                  no plan */
    mp_exact_set produced, recomputable; /* storages that have been produced; storages that can be recomputed */
    /* carried gradients with all contributions; they are live to the end of the step, where they are read */
    mp_exact_set complete;
    mp_exact_set demanded; /* storages that every alternative of some node that has not run reads */
    int64_t fixed_bytes;   /* bytes of carried gradients with at least one contribution; they are live to the end of the step */
    bool dead_end; /* some node that must still run does not fit in memory together with the storages that must be live when it
                      runs */
    /* the non-dominated states of this stage: entries[first .. first + n), in a block of `capacity` entries */
    size_t first, n, capacity;
} mp_exact_stage;

/* Computes the stage in which exactly the nodes of `ran` have run. O(nodes^2). */
void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out);

/* Returns a lower bound on the ticks of recomputation after a state; -1: the state leads to no plan. A demanded storage that
 * was produced and is not live must be recomputed. Its inputs must be live or be recomputed as well. O(nodes). */
int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live);

/* True if the alternative can run in this state. A recomputation must produce a useful storage that is not live. */
bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative);

/* Called with each set of storages that may be live after a step. Returns false to end the enumeration. */
typedef bool (*mp_exact_visit)(void *data, mp_exact_set live);

/* Enumerates the sets of storages that may be live after a step that can run. `next` is the stage after the step. If all
 * storages fit, there is one set. Otherwise there is one for each maximal set that fits. Returns false if `visit` ended the
 * enumeration. O(2^storages live) in the worst case, few in practice. */
bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                   const mp_exact_alternative *alternative, mp_exact_visit visit, void *data);

/* True if the step is safe: if there is a plan from this state, then an optimal plan begins with the first run of the node in
 * this alternative, and evicts nothing for it. If true, sets *live_after to the live storages after the step. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after);
