/* move_clear.h - the move that clears a storage from a position by order alone, without recomputation. */
#pragma once

#include "planner/anneal/mover.h"

/* Draws a position, over the budget if any is, and a storage that is live there: it is produced only after the position, or
 * read for the last time before it, and all runs that have to move with that do. False: what was drawn cannot be done. */
bool mp_move_clear(mp_mover *mover);
