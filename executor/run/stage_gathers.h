/* stage_gathers.h - repeats gathers of sharded parameters (zero=3) in a pipeline stage, if another micro-batch has overwritten
 * the gathered parameters.
 *
 * Gathered parameters are the same for all micro-batches. They are therefore not copied into the stash like activations
 * (stage_turns.h). A later gather restores them at the same address. A backward overwrites this memory. If the next turn is a
 * forward, its own steps gather the parameters again. If the next turn is another backward, the gathers are repeated before
 * that turn. The number of repetitions in a training step equals the number of slots in the stash. */
#pragma once

#include "executor/run/rank_channel.h"

/* True if the backward reads a storage that step `step` of the forward writes. The backward begins with step `turn_around`.
 * O(places). */
bool mp_stage_keeps(const mp_plan *plan, size_t turn_around, size_t step, int storage);
/* Lists the repeated gathers in channel->again, in the order of the plan's steps. The list is allocated in the pool. MP_NOMEM.
 * O(gathers x places). */
mp_status mp_stage_gathers_of(mp_rank_channel *channel, size_t turn_around, mp_pool *pool, mp_error *err);
/* Runs the repeated gathers and waits for them. Errors: as mp_collectives_run. */
mp_status mp_stage_gathers_run(mp_rank_channel *channel, mp_error *err);
