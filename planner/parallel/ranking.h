/* ranking.h - chooses and sorts the best meshes of a search. Private to planner/parallel. */
#pragma once

#include "memplan/ranks/meshes.h"

/* True if two meshes have the same number of devices in every direction. */
bool mp_mesh_is_same(const mp_mesh *a, const mp_mesh *b);

/* Moves up to n_best choices to the front of found->choices and marks them as best. On entry the simulated choices come first,
 * ascending in seconds. `alike` is a share of a step's seconds. If it is above 0, each mesh is ranked once, by its fastest
 * choice, before any mesh is ranked twice. Meshes slower than the fastest by at most `alike` are ranked by simplicity.
 * O(choices^2). */
void mp_meshes_rank(mp_meshes *found, size_t n_best, double alike);
