/* moves.h - one random change of an order of runs, as a local search tries it: the neighbourhoods and how often each is drawn.
 */
#pragma once

#include "planner/anneal/mover.h"

/* Draws a position, over the budget if any is, and a storage that is live there: it is produced only after the position, or
 * read for the last time before it, and all runs that have to move with that do. False: what was drawn cannot be done. */
bool mp_move_clear(mp_mover *mover);

/* Makes one move, not yet kept. False: what was drawn cannot be done, or its recomputations take the order above ticks_limit,
 * which is known before most of the work is done (nothing has changed, or what has can be undone). */
bool mp_move(mp_mover *mover, int64_t ticks_limit);
