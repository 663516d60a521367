/* graph_check_algorithms.h - checks the algorithms of a node. */
#pragma once

#include "memplan/graph.h"

/* Checks that either all alternatives of node i that return no storage name an algorithm, or none does, and that these
 * algorithms differ in name, seconds and workspace only. MP_PARSE. O(alternatives^2). */
mp_status mp_graph_check_algorithms(const mp_graph *graph, int i, mp_error *err);
