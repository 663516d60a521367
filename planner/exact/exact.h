/* exact.h - a graph of at most 64 nodes and 64 storages as bit sets of one word. The order of nodes follows the rules of
 * timeline.h and check.h.
 *
 * "Storages" here are the non-static ones. For a graph with copies, all steps run in order and nothing is issued. Facts that
 * depend on precedence (used_later, safe steps) are then omitted.
 */
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
    mp_exact_set reads, writes, adds; /* storages */
    mp_exact_set after,
        /* nodes that must have run, and nodes that must not have run, before each run of this alternative */
        before;
    mp_exact_set from;  /* inputs with memory that an output can take over */
    mp_in_place *pairs; /* in-place pairs with sizes that fit, by storage number */
    size_t n_pairs;
    int64_t workspace_bytes, ticks;
} mp_exact_alternative;

typedef struct mp_exact_node {
    const mp_exact_alternative *alternatives;
    size_t n_alternatives;
    mp_exact_set first_after;  /* nodes that must have run before its first run */
    mp_exact_set always_read;  /* storages that every alternative reads */
    mp_exact_set writes;       /* storages that some alternative writes */
    mp_exact_set used_later;   /* storages that every alternative of some later required node uses */
    mp_exact_set must_be_live; /* storages in used_later whose producers run only once, one of them before this node */
    int64_t least_ticks;
} mp_exact_node;

typedef struct mp_exact_graph {
    const mp_graph *graph;
    int n_nodes, n_storages;
    mp_exact_set all, optional; /* nodes that must run; nodes that may run once */
    mp_exact_set repeatable,
        /* nodes that may run again; nodes that may compute again (in an alternative other than a copy back) */
        computes_again;
    mp_exact_set lasting; /* storages that outlive the step: carried gradients */
    mp_exact_node nodes[MP_EXACT_BITS];
    mp_exact_set producers[MP_EXACT_BITS], adders[MP_EXACT_BITS]; /* per storage; an adder is a producer */
    int64_t bytes[MP_EXACT_BITS];                                 /* on the device */
    int64_t recompute_ticks[MP_EXACT_BITS]; /* per storage: ticks of the fastest alternative that produces it */
    int64_t memory_bytes;                   /* budget minus static bytes */
    int n_tiers;                            /* number of tiers with a budget, other than the device */
    int64_t there[MP_EXACT_BITS];           /* per storage: its bytes, in any tier */
    mp_exact_set in_tier[MP_MAX_TIERS];     /* per tier with a budget: its storages */
    int64_t tier_bytes[MP_MAX_TIERS];       /* per tier with a budget: budget minus static bytes */
    int64_t least_ticks;                    /* ticks of running every node once, in its fastest alternative */
    mp_exact_alternative *alternatives;
    mp_in_place *pairs;
} mp_exact_graph;

/* Reads a graph. tier_bytes as in mp_request. With keep_order, first runs of forward nodes are in list order, and so are loss
 * and backward nodes. *out must be zeroed; release it with mp_exact_graph_free, also after an error. MP_NOT_APPLICABLE: too
 * many nodes or storages, or alternatives that differ in the sums, carried gradients or parameters that they change.
 * MP_NOMEM. */
mp_status mp_exact_graph_read(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, bool keep_order,
                              mp_exact_graph *out, mp_error *err);
void mp_exact_graph_free(mp_exact_graph *x);
int64_t mp_exact_bytes(const mp_exact_graph *x, mp_exact_set storages);

/* ---- a step leads from a state to its successor states ----
 *
 * A stage is the set of nodes that have run, together with all facts that follow from it for any set of live storages.
 */

typedef struct mp_exact_stage {
    mp_exact_set ran, active;            /* nodes that have run; nodes that have not run, or may usefully run again */
    mp_exact_set useful;                 /* storages that some later run may use if they are live */
    mp_exact_set must_be_live;           /* useful storages that no node can recompute; a state without them leads to no plan */
    mp_exact_set produced, recomputable; /* storages that have been produced; storages that can be recomputed */
    mp_exact_set complete; /* carried gradients with all contributions: live to the end of the step, where they are read */
    mp_exact_set demanded; /* storages that every alternative of some node that has not run reads */
    int64_t fixed_bytes;   /* bytes of carried gradients with at least one contribution: live to the end of the step */
    bool dead_end;         /* some node that must still run does not fit together with the storages that must be live then */
    size_t first, n, capacity; /* its non-dominated states: entries[first .. first + n), in a block of `capacity` */
} mp_exact_stage;

/* Computes the stage in which exactly the nodes of `ran` have run. O(nodes^2). */
void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out);

/* Returns a lower bound on the recomputation from this state on; -1: the state leads to no plan. Every demanded storage that
 * was produced and is not live must be recomputed from inputs that are live or recomputed as well. O(nodes). */
int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live);

/* True if the alternative can run now. A recomputation must produce something useful that is not live. */
bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative);

/* Called with a live set after a step. Returns false to end the enumeration. */
typedef bool (*mp_exact_visit)(void *data, mp_exact_set live);

/* Enumerates the live sets after a step that can run (`next` is the stage after it): the full set if it fits, otherwise every
 * maximal set that fits. Returns false if the visitor ended the enumeration. O(2^storages live) in the worst case, few in
 * practice. */
bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                   const mp_exact_alternative *alternative, mp_exact_visit visit, void *data);

/* True if the step is safe: if any plan continues from here, some optimal one begins with the first run of the node in this
 * alternative and evicts nothing for it. Sets *live_after if true. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after);
