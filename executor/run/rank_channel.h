/* rank_channel.h - the network channel: runs the collectives of a plan and tracks their progress, and runs the exchanges inside
 * operators. */
#pragma once

#include "executor/ranks/collectives.h"
#include "executor/run/addresses.h"

typedef struct mp_rank_channel mp_rank_channel;

/* A group of ranks over which an operator is split, and that exchange data while the operator runs. */
typedef struct mp_kernel_ranks {
    mp_process_group ranks;
    /* the group passed to kernels, which keep its address, so the channel must not move. n = 0: no group */
    mp_kernel_group group;
    mp_rank_channel *channel;
} mp_kernel_ranks;
static inline const mp_kernel_group *mp_kernel_ranks_group(const mp_kernel_ranks *of)
{
    return of->group.n ? &of->group : NULL;
}

struct mp_rank_channel {
    const mp_addresses *at;
    mp_collectives collectives;
    const mp_communicator *processes; /* communicator between the processes of the ranks; `collectives` may use a communicator
                                         between their devices */
    /* in a pipeline stage: messages with activations that the next stage has not received yet; no step waits for these
     * messages */
    mp_collectives ahead;
    mp_collective_work *works; /* for each step of the plan: its prepared collective; NULL: the plan has no collectives */
    int64_t *tickets;          /* for each step of the plan: the ticket of the step's last collective */
    size_t n_again;
    mp_collective_work
        *again; /* in a pipeline stage: gathers of parameters that are repeated before a backward (stage_gathers.h) */
    mp_kernel_ranks of_parts,
        of_samples;              /* of_parts: the ranks of tp; of_samples: the ranks that share the statistics of a batch */
    mp_collective_work crossing; /* the exchange of the operator that is running at the moment */
    double wait_seconds;         /* seconds that this rank has spent in exchanges inside operators */
    bool adds; /* true in all passes of a step except the first: new gradient sums are added to this rank's parts */
    /* ticket (number) of the last issued gradient sum over pipeline stages; 0: none has been issued in this training */
    int64_t summed;
};

/* Prepares the collectives of all steps. The lists are allocated in the pool. MP_INVALID: the ranks' devices are not joined;
 * MP_NOMEM. O(steps). */
mp_status mp_rank_channel_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool,
                               mp_rank_channel *out, mp_error *err);
mp_status mp_rank_channel_issue(mp_rank_channel *channel, size_t step, mp_error *err);
mp_status mp_rank_channel_wait(mp_rank_channel *channel, size_t step, mp_error *err);
/* For collectives on a stream: waits until all enqueued work has run. Fails if a rank has ended, or has been silent for too
 * long; the device can be released after this failure. MP_IO: a rank, the device or a message failed. */
mp_status mp_rank_channel_settle(const mp_rank_channel *channel, mp_error *err);
/* Continues the messages in progress as far as possible without waiting. */
mp_status mp_rank_channel_advance(mp_rank_channel *channel, mp_error *err);
/* Waits for all issued collectives at the end of a turn of a pipeline stage. With `all`, also waits until the next stage has
 * received all activations. */
mp_status mp_rank_channel_end_turn(mp_rank_channel *channel, bool all, mp_error *err);
/* Return the bytes sent so far, and the seconds in which this rank only waited for messages. */
int64_t mp_rank_channel_sent_bytes(const mp_rank_channel *channel);
double mp_rank_channel_wait_seconds(const mp_rank_channel *channel);
