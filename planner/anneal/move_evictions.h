/* move_evictions.h - the moves that change what is recomputed: evict (recompute later), restore (keep again), swap. All return
 * false if what was drawn cannot be done. The ejection chain of a swap is Glover's (1996).
 */
#pragma once

#include "planner/anneal/mover.h"

/* Recomputes, with some chance each and recursively, the inputs of a run that are not live there. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);

/* Evicts at one position, and recomputes before the next read: one storage or a few; the results of neighbouring nodes,
 * together; up to MP_MOVE_EVICT_CHEAP storages that are cheap to recompute. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Removes a recomputation, and at times its neighbours, and the recomputations that only they needed. */
bool mp_move_restore(mp_mover *mover);
/* Restores; if the budget is then exceeded, evicts other storages: any, or, for an expensive recomputation, only cheaper ones.
 */
bool mp_move_swap(mp_mover *mover);
bool mp_move_swap_for_cheap(mp_mover *mover);
