/* move_shifts.h - the moves that shift runs along the order: insertion neighbourhoods of one run or a block of runs. All return
 * false if what was drawn cannot be done.
 */
#pragma once

#include "planner/anneal/mover.h"

/* Shifts a recomputation: to just before its next reader, or past a few runs. */
bool mp_move_shift_extra(mp_mover *mover);
/* Shifts several recomputations that stand side by side. */
bool mp_move_shift_window(mp_mover *mover);
/* Shifts a first run: between its producers and its reader, past a few runs, or, at times, far away, with its inputs recomputed
 * there. */
bool mp_move_shift_first(mp_mover *mover);
/* Shifts any run, and those on the way that depend on it, or on which it depends. */
bool mp_move_shift_related(mp_mover *mover);
