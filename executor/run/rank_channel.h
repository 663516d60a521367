/* rank_channel.h - the channel on which a plan's collectives run: what each of them sends from where, and how far they are. And
 * what operators exchange with other ranks while they run. */
#pragma once

#include "executor/ranks/collectives.h"
#include "executor/run/addresses.h"

typedef struct mp_rank_channel mp_rank_channel;

/* The ranks with which operators exchange something while they run. */
typedef struct mp_crossing_ranks {
    mp_team ranks;
    mp_kernel_team team; /* as kernels see them, who keep its address: the channel may not move. n 0: there are none */
    mp_rank_channel *channel;
} mp_crossing_ranks;
static inline const mp_kernel_team *mp_crossing_team(const mp_crossing_ranks *of)
{
    return of->team.n ? &of->team : NULL;
}

struct mp_rank_channel {
    const mp_addresses *at;
    mp_collectives collectives;
    const mp_communicator *processes; /* of the ranks: collectives may be between their devices */
    mp_collectives ahead;             /* of a pipeline: what the next stage has yet to take, for which no step waits */
    mp_collective_work *works;        /* per step of the plan; NULL: it has no collectives */
    int64_t *tickets;                 /* per step: of its last collective */
    size_t n_again;
    mp_collective_work *again;              /* of a stage: what is gathered again (stage_gathers.h) */
    mp_crossing_ranks of_parts, of_samples; /* those of tp; those that share a batch's statistics */
    mp_collective_work crossing;            /* what one operator exchanges with them */
    double wait_seconds;                    /* spent in such exchanges */
    bool adds;                              /* a later pass of a step: sums of which this rank keeps parts are added up */
    int64_t summed;                         /* the ticket of the last sum over stages; 0: none yet */
};

/* Lists the collectives of all steps. The lists lie in the pool. MP_INVALID: the ranks' devices are not joined; MP_NOMEM.
 * O(steps). */
mp_status mp_rank_channel_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool,
                               mp_rank_channel *out, mp_error *err);
mp_status mp_rank_channel_issue(mp_rank_channel *channel, size_t step, mp_error *err);
mp_status mp_rank_channel_wait(mp_rank_channel *channel, size_t step, mp_error *err);
/* Where collectives are on a stream: waits until all that was enqueued has run, or a rank is gone or silent for too long, after
 * which the device can be left. MP_IO: that, or the device or one of its messages failed. */
mp_status mp_rank_channel_settle(const mp_rank_channel *channel, mp_error *err);
/* Moves on what has been issued, as far as it goes without waiting. */
mp_status mp_rank_channel_advance(mp_rank_channel *channel, mp_error *err);
/* Waits for all that has been issued, with `all` for what is sent ahead too. */
mp_status mp_rank_channel_end_turn(mp_rank_channel *channel, bool all, mp_error *err);
/* Return what has been sent so far, and the seconds in which nothing else was done. */
int64_t mp_rank_channel_sent_bytes(const mp_rank_channel *channel);
double mp_rank_channel_wait_seconds(const mp_rank_channel *channel);
