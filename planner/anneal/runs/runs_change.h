/* runs_change.h - changes of an order of runs, each noted so that it can be undone. A change costs O(log n) for each storage
 * that the run reads or writes, and the ranges of the memory profile that change.
 */
#pragma once

#include "planner/anneal/runs/runs.h"

/* A run of the node at an empty position before that of another run, with none between (its neighbours shift if there is no
 * gap), without effect until it is turned on. -1: out of memory, or no position is free. */
int mp_runs_reserve(mp_runs *runs, int node, int alternative, int before_run);
void mp_runs_turn_on(mp_runs *runs, int run);
/* The opposite of both. */
void mp_runs_remove(mp_runs *runs, int run);

/* Forgets the notes, so that all changes stay; or takes all changes since the last keep back. O(changes). */
void mp_runs_keep(mp_runs *runs);
void mp_runs_undo(mp_runs *runs);
