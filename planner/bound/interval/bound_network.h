/* bound_network.h - the network whose minimum cuts solve an interval (bound_interval.h). For bound_interval.c. */
#pragma once

#include "planner/bound/interval/bound_interval.h"

/* Vertices, arcs and producers, the same for all intervals of x, instead of those it has; `undecided`: also of nodes that run
 * once, and may do so on either side of a start. MP_NOMEM. O(graph). */
mp_status mp_bound_network_build(mp_bound_interval *x, bool undecided, mp_error *err);
/* Whether one of those who make s certainly runs before `node` does, or is it (-1: the end). Of those who add to a sum only
 * these run in the interval for certain, where it is not begun before: the others' arcs are closed. */
bool mp_bound_network_allow(mp_bound_interval *x, int s, int node);
