/* pofo.h - what POFO chooses to keep, to recompute and to copy in a chain of cells: the dynamic programme of Beaumont,
 * Eyraud-Dubois and Shilova, "Efficient Combination of Rematerialization and Offloading for Training DNNs", NeurIPS 2021.
 *
 * The chain is passed from the outside in. A state of the programme is the next cell, the bytes that the cells before it keep
 * in memory, those that are still to be copied out as it begins (they lie in memory until then), and those that must be brought
 * back before the backward pass has come back to it (they lie there as it does). A cell either keeps all for its backward pass,
 * or, with some cells after it, keeps only the state before it; then these cells are run again on the way back, as the dynamic
 * programme for chains without copies (Rotor) finds best. Either way the state before it stays, or is copied.
 *
 * The model is a fluid: bytes leave and come in continuously, each way at the link's rate, and memory is free byte by byte as
 * they leave. Copies have no latency. While cells are run again, copies back need no room in memory here, so that the time is
 * at most that of any version which counts it. Read in hpcaitech/ColossalAI, ckpt_solver_pofo.py, which was made from the
 * paper's supplement and estimates that part; written anew. */
#pragma once

#include "memplan/plan.h"
#include "tests/oracles/chain_oracle.h"

enum { POFO_CELLS = 16, POFO_BYTES = 64, POFO_NEVER = 1 << 28 };

typedef struct pofo pofo;
/* Fills the tables for a chain whose cells all read both states, at most `bytes` of memory, what is always live aside, and a
 * link that copies a byte in a tick each way. Released with pofo_free. Time and bytes O(cells * bytes^3). */
pofo *pofo_solve(const cells *c, int bytes, bool copies);
void pofo_free(pofo *p);
int pofo_ticks(const pofo *p); /* in its model; -1: nothing fits */

/* The same choices as a checked plan for the graph of these cells (cells_graph) with copies to a host of the same link: a copy
 * out is issued as soon as a value is there and waited for as late as memory permits, a copy back the other way round. Released
 * with mp_plan_free. */
mp_plan *pofo_plan(pofo *p, const mp_graph *graph);
