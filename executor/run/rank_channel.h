/* rank_channel.h - the channel on which a plan's collectives run: what each of them sends from where, and how far they are. */
#pragma once

#include "executor/ranks/collectives.h"
#include "executor/run/addresses.h"

typedef struct mp_rank_channel {
    mp_collectives collectives;
    mp_collective_work *works; /* per step of the plan; NULL: it has no collectives */
    int64_t *tickets;          /* per step: of its last collective */
} mp_rank_channel;

/* Lists the collectives of all steps. The lists lie in the pool. MP_NOMEM. O(steps). */
mp_status mp_rank_channel_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool,
                               mp_rank_channel *out, mp_error *err);
mp_status mp_rank_channel_issue(mp_rank_channel *channel, size_t step, mp_error *err);
mp_status mp_rank_channel_wait(mp_rank_channel *channel, size_t step, mp_error *err);
