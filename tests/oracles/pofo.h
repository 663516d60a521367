/* pofo.h - POFO's choice of values to keep, recompute and copy in a chain of cells. It is the dynamic program of Beaumont,
 * Eyraud-Dubois and Shilova, "Efficient Combination of Rematerialization and Offloading for Training DNNs", NeurIPS 2021.
 *
 * The program traverses the chain from the outside inwards. A state has the next cell and three byte counts of the cells before
 * it. The first is kept in memory. The second is still to be copied out, and uses memory until then. The third must be copied
 * back before backward returns to it, and then uses memory again. A cell may keep all values for its backward. Otherwise it and
 * some following cells keep only the state before it. These cells run again in backward, in the optimal way of the dynamic
 * program for chains without copies (Rotor). In both cases the state before the cell is kept or copied.
 *
 * The model treats bytes as a fluid: they move continuously in each direction at the link's rate, and memory is freed byte by
 * byte. Copies have no latency. While cells run again, copies back need no memory in this model. So its time is at most the
 * time of any version that counts this memory. The algorithm follows hpcaitech/ColossalAI, ckpt_solver_pofo.py, which is based
 * on the paper's supplement and estimates this memory; the code is new. */
#pragma once

#include "memplan/plan.h"
#include "tests/oracles/chain_oracle.h"

enum { POFO_CELLS = 16, POFO_BYTES = 64, POFO_NEVER = 1 << 28 };

typedef struct pofo pofo;
/* Fills the tables for a chain whose cells all read both states. Uses at most `bytes` of memory, without static bytes, and
 * a link that copies a byte per tick in each direction. Release with pofo_free. Time and bytes O(cells * bytes^3). */
pofo *pofo_solve(const cells *c, int bytes, bool copies);
void pofo_free(pofo *p);
int pofo_ticks(const pofo *p); /* ticks in POFO's model; -1: no solution fits */

/* Returns the same choices as a checked plan for these cells' graph (cells_graph), with copies to a host over the same link. A
 * copy out is issued as soon as its value exists, and awaited as late as memory permits; a copy back is the reverse. Release
 * with mp_plan_free. */
mp_plan *pofo_plan(pofo *p, const mp_graph *graph);
