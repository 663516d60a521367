/* oracle_simulator.h - a slow, plain reading of the rules in timeline.h, to compare the timeline with. */
#pragma once

#include "memplan/timeline.h"

typedef struct simulation {
    size_t n_spans;
    mp_span *spans; /* by (begin, storage) */
    int64_t *live_bytes;
    int64_t static_bytes, peak_bytes; /* of the device, as live_bytes */
    int64_t ticks;                    /* the makespan */
} simulation;

/* Simulates steps that obey all rules. O(steps^2 * storages). */
simulation simulate(const mp_graph *graph, const mp_step *steps, size_t n);
/* Bytes that are live in a tier at step t, without workspaces. */
int64_t simulated_bytes(const mp_graph *graph, const simulation *sim, int t, int tier);
/* Whether every read comes after a production, and no step conflicts with one that runs beside it; of graphs without sums. */
bool obeys_channels(const mp_graph *graph, const mp_step *steps, size_t n);
void simulation_free(simulation *s);
