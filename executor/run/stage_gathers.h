/* stage_gathers.h - parameters that are gathered again (zero=3), because another micro-batch has used their place.
 *
 * What a forward gathers, and its backward uses, is the same for all micro-batches, so it is not copied into a slot, as what a
 * micro-batch keeps is (stage_turns.h): a later forward gathers it once more, into the same place. A backward overwrites it. So
 * the next turn either gathers it, a forward, or it is gathered before it, once more: a backward behind a backward, of which
 * there are as many as slots. */
#pragma once

#include "executor/run/rank_channel.h"

/* True if what a step makes of a storage lives on behind the turn-around. O(places). */
bool mp_stage_keeps(const mp_plan *plan, size_t turn_around, size_t step, int storage);
/* Lists in channel->again what is gathered again, in the order of the plan's steps. The list lies in the pool. MP_NOMEM.
 * O(gathers x places). */
mp_status mp_stage_gathers_of(mp_rank_channel *channel, size_t turn_around, mp_pool *pool, mp_error *err);
/* Gathers it, and waits for it. Fails as mp_collectives_run. */
mp_status mp_stage_gathers_run(mp_rank_channel *channel, mp_error *err);
/* Finds the bytes that a rank sends for it in a step; 0 for a program of a whole network. MP_NOMEM. O(gathers x places). */
mp_status mp_stage_gathers_sent(const mp_program *program, const mp_plan *plan, const mp_rank_place *place, int64_t *bytes,
                                mp_error *err);
