/* oracle_simulator.h - a slow, plain reading of the rules in timeline.h, to compare the timeline with. */
#pragma once

#include "memplan/timeline.h"

typedef struct simulation {
    size_t n_spans;
    mp_span *spans;                  /* by (begin, storage) */
    mp_tier_use tiers[MP_MAX_TIERS]; /* of those that the graph has */
    int64_t ticks;
} simulation;

/* Simulates steps that obey all rules. O(steps^2 * storages). */
simulation simulate(const mp_graph *graph, const mp_step *steps, size_t n);
void simulation_free(simulation *s);

/* Says whether steps, whose nodes and alternatives must exist, obey what the timeline demands: they find what they read, add in
 * turn, wait for what is issued, and no two that run beside each other are in each other's way. O(steps^2 * storages). */
bool steps_obey(const mp_graph *graph, const mp_step *steps, size_t n);
