/* ranking.h - the order of the best meshes. Private to planner/parallel. */
#pragma once

#include "memplan/ranks/meshes.h"

/* True if two choices are of one mesh. */
bool mp_mesh_is_same(const mp_mesh *a, const mp_mesh *b);

/* Moves up to n_best choices to the front and marks them as best. On entry the simulated choices come first in found->choices,
 * ascending in seconds. With alike > 0 each mesh is ranked once, by its fastest choice, before any mesh is ranked twice. Meshes
 * slower than the fastest by at most this share are ranked by simplicity. O(choices^2). */
void mp_meshes_rank(mp_meshes *found, size_t n_best, double alike);
