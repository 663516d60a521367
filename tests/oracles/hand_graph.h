/* hand_graph.h - small graphs that a test builds node by node. */
#pragma once

#include "memplan/graph.h"

/* Adds a storage whose payload is as large as the storage. Returns its index. Fails the test if memory is missing. */
int hand_storage(mp_graph *graph, mp_kind kind, int64_t bytes);

/* Adds a node that reads n storages and writes one. Returns its only alternative, which the test may change until it finishes
 * the graph. Fails the test if memory is missing. */
mp_alternative *hand_node(mp_graph *graph, mp_phase phase, int64_t ticks, const int *reads, size_t n, int writes);
