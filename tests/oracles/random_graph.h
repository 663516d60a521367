/* random_graph.h - small random graphs, schedules and address maps, the same for a seed on every machine. */
#pragma once

#include "memplan/plan.h"

/* A generator of numbers (splitmix64). */
typedef struct random_source {
    uint64_t state;
} random_source;
uint64_t random_next(random_source *source);
int random_below(random_source *source, int n); /* 0..n-1 */
bool random_chance(random_source *source, int percent);

/* A finished graph of n_forward forward nodes: with views, several outputs, masks, workspaces, in-place pairs, alternatives,
 * `once` nodes and odd ids; unless `plain` also with a loss, backward nodes, sums in both orders, persistent and
 * (forward-fused) carried gradients, tied parameters and updates. Fails the test if it can't be built. */
mp_graph *random_graph(uint64_t seed, int n_forward, mp_fuse fuse, bool plain);

/* The same with the first n draws as these bytes say, so that a byte changes one thing. For one thread. */
mp_graph *random_graph_of(const uint8_t *bytes, size_t n, int n_forward, mp_fuse fuse, bool plain);

/* The only node but updates that writes an always-live storage, unless it reads it too (then, or if there are several, -1). By
 * the definition, without graph->writer. */
int lone_writer(const mp_graph *graph, int storage);

/* An order of steps that obeys all rules, with recomputations and alternatives at random; at most `most_extra` of them beyond
 * one per node. Released with mp_free. */
mp_step *random_schedule(const mp_graph *graph, uint64_t seed, int most_extra, size_t *n);

/* Gives every instance and workspace of the plan an offset (first fit in the order of their first steps) and claims the arena.
 */
void place_first_fit(const mp_graph *graph, mp_plan *plan);
