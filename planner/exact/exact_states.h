/* exact_states.h - the states that a search has reached, by stage, and the queue of those that are to be expanded. */
#pragma once

#include "planner/exact/exact_stage.h"
#include "planner/math/heap.h"

typedef struct mp_exact_state {
    mp_exact_set first_live, live; /* right after its step, and after the safe steps that follow it */
    int64_t extra_ticks;
    int stage, parent; /* parent: a state; -1: this is the first */
    const mp_exact_alternative *alternative;
    bool dominated;
} mp_exact_state;

typedef struct mp_exact_entry { /* of a stage */
    mp_exact_set live;
    int64_t extra_ticks;
    int state;
} mp_exact_entry;

typedef struct mp_exact_states {
    mp_exact_state *states;
    mp_exact_stage *stages;
    mp_exact_entry *entries;
    int *slots;     /* a hash table of 1 + stage, at most half full */
    mp_heap open;   /* by the lower bound on their ticks, then by nodes that have not run */
    int64_t n_work; /* sets of live storages after a step, and entries looked at */
    size_t n, capacity, n_stages, stages_capacity, n_slots, n_entries, entries_capacity, open_capacity;
} mp_exact_states;

void mp_exact_states_free(mp_exact_states *t); /* zeroed is fine */

/* The number of the stage, which is added at need; pointers to stages end with that. MP_NOMEM. O(1), or one mp_exact_stage_of.
 */
mp_status mp_exact_find_stage(mp_exact_states *t, const mp_exact_graph *x, mp_exact_set ran, int *out, mp_error *err);

/* Puts a state into the queue, unless another of its stage dominates it. MP_NOMEM. O(states of the stage). */
mp_status mp_exact_reach(mp_exact_states *t, const mp_exact_graph *x, const mp_exact_state *state, int64_t least_extra,
                         mp_error *err);
/* The state of the least lower bound, -1: none is left. O(log states). */
int mp_exact_pop(mp_exact_states *t);
