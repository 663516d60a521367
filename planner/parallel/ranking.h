/* ranking.h - chooses and sorts the best meshes of a search. Private to planner/parallel. */
#pragma once

#include "memplan/ranks/meshes.h"

/* Moves up to n_best choices to the front of found->choices and marks them as best. On entry the simulated choices precede all
 * others and ascend in seconds. Only the first n_candidates choices are considered. If `alike` is above 0, the fastest choices
 * of all meshes precede the second choice of any mesh. Meshes that are slower than the fastest mesh by at most the fraction
 * `alike` are ranked by simplicity. O(choices^2). */
void mp_meshes_rank(mp_meshes *found, size_t n_candidates, size_t n_best, double alike);
