/* random_dag.h - small random forward graphs, equal for a seed on every machine. */
#pragma once

#include "memplan/graph.h"

/* Makes 1 to max_nodes forward nodes, each with one activation of 1 to 12 bytes and 1 to 9 ticks. Each reads some earlier
 * activations. Results range from chains to graphs without edges. */
mp_status random_dag(uint64_t seed, int max_nodes, mp_graph **out, mp_error *err);
