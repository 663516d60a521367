/* rank_channel.h - the channel on which a plan's collectives run: what each of them sends from where, and how far they are. And
 * what operators exchange that are split over ranks (tp). */
#pragma once

#include "executor/ranks/collectives.h"
#include "executor/run/addresses.h"

typedef struct mp_rank_channel {
    mp_collectives collectives;
    mp_collective_work *works; /* per step of the plan; NULL: it has no collectives */
    int64_t *tickets;          /* per step: of its last collective */
    mp_team split;             /* the ranks of tp, and what one of their operators exchanges with the others */
    mp_collective_work crossing;
    mp_kernel_team team; /* as kernels see them, who keep its address: the channel may not move. n 0: operators are whole */
} mp_rank_channel;

/* Lists the collectives of all steps. The lists lie in the pool. MP_NOMEM. O(steps). */
mp_status mp_rank_channel_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool,
                               mp_rank_channel *out, mp_error *err);
mp_status mp_rank_channel_issue(mp_rank_channel *channel, size_t step, mp_error *err);
mp_status mp_rank_channel_wait(mp_rank_channel *channel, size_t step, mp_error *err);
