/* oracle_simulator.h - a slow, literal implementation of timeline.h's rules, as a reference for the timeline. */
#pragma once

#include "memplan/timeline.h"

typedef struct simulation {
    size_t n_spans;
    mp_span *spans;                  /* by (begin, storage) */
    mp_tier_use tiers[MP_MAX_TIERS]; /* only tiers of the graph */
    int64_t ticks;
} simulation;

/* Simulates steps that obey all rules. O(steps^2 * storages). */
simulation simulate(const mp_graph *graph, const mp_step *steps, size_t n);
void simulation_free(simulation *s);

/* Returns whether steps obey the timeline's rules: operands exist, contributions are added in order, issued steps are awaited,
 * and overlapping steps do not conflict. Their nodes and alternatives must exist. O(steps^2 * storages). */
bool steps_obey(const mp_graph *graph, const mp_step *steps, size_t n);
