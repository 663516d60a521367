/* random_copies.h - random graphs with channels, tiers and copies, and orders of their steps. */
#pragma once

#include "memplan/timeline.h"

/* A finished graph of a few nodes: a random_graph with a host tier, up to three more channels (one of them may have a node of
 * the graph), optional copies out, and alternatives that return one output or several. */
mp_graph *random_copies(uint64_t seed);

/* Order number `order` of the steps of random_copies(seed), with recomputations, copies out and back, and issued steps. Most
 * obey the rules; where not, two steps have changed places or a wait comes anywhere. Released with mp_free. */
mp_step *random_copies_schedule(const mp_graph *graph, uint64_t seed, uint64_t order, size_t *n);
