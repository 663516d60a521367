/* runs_change.h - changes of an order of runs, each noted so that it can be undone. A change costs O(log n) for each storage
 * that the run reads or writes, and the ranges of the memory profile that change.
 */
#pragma once

#include "planner/anneal/runs/runs.h"

/* Puts a new run of the node right before another run (whose neighbours shift if there is no gap) and returns it, -1 if memory
 * is short or no position is free. The run has no effect until it is turned on. */
int mp_runs_reserve(mp_runs *runs, int node, int alternative, int before_run);
void mp_runs_turn_on(mp_runs *runs, int run);
/* Undoes both: turns the run off and gives its position back. */
void mp_runs_remove(mp_runs *runs, int run);

/* mp_runs_keep makes all changes final; mp_runs_undo takes back all since the last keep. O(changes). */
void mp_runs_keep(mp_runs *runs);
void mp_runs_undo(mp_runs *runs);
