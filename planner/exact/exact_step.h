/* exact_step.h - a step leads from a state to the states after it. A stage is the set of nodes that have run, with all that
 * follows from it, whatever is live. */
#pragma once

#include "planner/exact/exact_graph.h"

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
