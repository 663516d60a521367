/* random_copies.h - random graphs with channels, tiers and copies, and orders of their steps. */
#pragma once

#include "memplan/timeline.h"

/* Returns a small finished graph: a random_graph with a host tier and up to three more channels (one may have a node of the
 * graph). It has optional copies out, and alternatives that return one or several outputs. */
mp_graph *random_copies(uint64_t seed);

/* Returns order number `order` of the steps of random_copies(seed), with recomputations, copies out and back, and issued steps.
 * Most orders obey the rules. In the others, two steps are swapped or a wait is misplaced. Release with mp_free. */
mp_step *random_copies_schedule(const mp_graph *graph, uint64_t seed, uint64_t order, size_t *n);
