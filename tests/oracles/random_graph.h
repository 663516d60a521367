/* random_graph.h - small random graphs, schedules and address maps, equal for a seed on every machine. */
#pragma once

#include "memplan/plan.h"

/* A random number generator (splitmix64). */
typedef struct random_source {
    uint64_t state;
} random_source;
uint64_t random_next(random_source *source);
int random_below(random_source *source, int n); /* returns 0..n-1 */
bool random_chance(random_source *source, int percent);

/* Returns a finished graph of n_forward forward nodes. It has views, several outputs, masks, workspaces, in-place pairs,
 * alternatives, `once` nodes and unusual ids. Unless `plain`, it also has a loss, backward nodes, sums in both orders,
 * persistent and (forward-fused) carried gradients, tied parameters and updates. Fails the test if it cannot be built. */
mp_graph *random_graph(uint64_t seed, int n_forward, mp_fuse fuse, bool plain);

/* The same, but these bytes replace the first n draws, so that one byte changes one property. Not thread-safe. */
mp_graph *random_graph_of(const uint8_t *bytes, size_t n, int n_forward, mp_fuse fuse, bool plain);

/* Returns the only node, except updates, that writes a static storage. Returns -1 if there are several, or if it also
 * reads the storage. Computed from the definition, without graph->writer. */
int lone_writer(const mp_graph *graph, int storage);

/* Returns an order of steps that obeys all rules, with random recomputations and alternatives. It has at most `most_extra`
 * steps in addition to one per node. Release with mp_free. */
mp_step *random_schedule(const mp_graph *graph, uint64_t seed, int most_extra, size_t *n);

/* Sets an offset for each instance and workspace of the plan (first fit in the order of their first steps) and the arena claim.
 */
void place_first_fit(const mp_graph *graph, mp_plan *plan);
