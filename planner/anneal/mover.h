/* mover.h - what the moves share: chance, what there is to choose from, and runs that nothing needs; and the moves themselves.
 * For planner/anneal/moves.c.
 */
#ifndef PLANNER_MOVER_H
#define PLANNER_MOVER_H

#include "planner/anneal/moves.h"

/* A number in [0, n). */
int mp_mover_below(mp_mover *mover, int n);

/* A run at random, or one of those that are not their node's first; -1: none was met. */
int mp_mover_any_run(mp_mover *mover);
int mp_mover_any_extra(mp_mover *mover);
/* A slot, mostly one that is over the budget, if any is; -1: none was met. */
int mp_mover_any_slot(mp_mover *mover);
/* A storage that lives in a slot and is read later, a large one more likely, and who reads it next; -1: none was met. */
int mp_mover_any_living(mp_mover *mover, int slot, int *reader);

/* Whether it is not its node's first. */
bool mp_run_is_extra(const mp_runs *runs, int run);
/* The run before (step -1) or after (1) a slot; -1: none. */
int mp_run_neighbour(const mp_runs *runs, int slot, int step);
/* Whether nothing that it makes is read from it. */
bool mp_run_is_dead(const mp_runs *runs, int run);
/* The last run before a slot that makes storage s; -1: none. */
int mp_run_latest_maker(const mp_runs *runs, int s, int slot);
/* Whether a list has it. */
bool mp_run_is_among(const int *list, int n, int run);
/* Puts a run elsewhere, before another one. The run there then; -1: it cannot be. */
int mp_mover_relocate(mp_mover *mover, int run, int before);
/* Takes a run away, and what was run again for it alone. */
void mp_run_drop(mp_runs *runs, int run);

/* ---- moves: false, what was drawn cannot be done ---- */

/* With some chance, runs again what a run reads and is not there. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);
/* What lives in a slot is given up there, and made again before it is read: one storage or a few; the results of neighbouring
 * nodes, together; all that takes little to make again. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Runs again no more what is, and others beside it. */
bool mp_move_delete(mp_mover *mover);
/* Deletes, and makes room for it where it is lacking then: with anything, or, for a run that is dear, with what takes less. */
bool mp_move_exchange(mp_mover *mover);
bool mp_move_exchange_for_cheap(mp_mover *mover);
/* Puts elsewhere a run that is not its node's first; several that stand side by side; a first run. */
bool mp_move_shift_extra(mp_mover *mover);
bool mp_move_shift_window(mp_mover *mover);
bool mp_move_shift_first(mp_mover *mover);
/* What lives in a slot, over the budget if any is, is made only after it, or read for the last time before it; with all runs
 * that have to go there too. */
bool mp_move_clear(mp_mover *mover);

#endif
