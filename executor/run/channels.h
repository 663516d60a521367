/* channels.h - the channels of a plan. Copies between tiers use a stream of the backend, or else a queue with its own thread,
 * per channel. Collectives use the network's channel. */
#pragma once

#include "executor/run/calls.h"
#include "executor/run/rank_channel.h"
#include "executor/tiers/copy_queue.h"
#include "formats/pages/run_trace.h"

typedef struct mp_channels {
    const mp_addresses *at;
    mp_copy_queue *queues[MP_MAX_CHANNELS]; /* one queue per channel. NULL: the plan has no copies on the channel, or a stream
                                               of the backend runs them */
    /* for each step of the plan: the ticket of the step's last copy in the queue of its channel */
    int64_t *tickets;
    mp_copied planned[2];     /* planned bytes of one pass: [0] copies of activations, [1] copies of optimizer state */
    mp_copied issued, before; /* issued: bytes enqueued on streams so far; before: all bytes copied before the current pass */
    double wait_seconds;      /* seconds in which mp_channels_wait has waited for queues and for other ranks */
    mp_rank_channel ranks;
    mp_step_time *times; /* for each step: its begin and end in the current pass; NULL: times are not recorded */
} mp_channels;

/* Opens the channels of a plan: a queue for every channel with copies, unless the backend has streams. The lists are allocated
 * in the pool. The caller releases the queues with mp_channels_close, even after a failure, before releasing the memory that
 * the queues copy. MP_NOMEM. O(steps). */
mp_status mp_channels_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool, mp_channels *out,
                           mp_error *err);
void mp_channels_close(mp_channels *channels); /* Releases the queues; does nothing if *channels is zeroed. */

/* mp_channels_issue starts a call that is a transfer (copies or a collective); mp_channels_wait waits for its end. A transfer
 * on a stream may be issued while the backend records a pass. MP_IO: a copy of this call, or an earlier copy on its channel,
 * failed, or another rank failed. */
mp_status mp_channels_issue(mp_channels *channels, const mp_pass_call *call, mp_error *err);
mp_status mp_channels_wait(mp_channels *channels, const mp_pass_call *call, mp_error *err);
/* Records the time at which a compute call begins or ends, if times are requested. */
void mp_channels_note(mp_channels *channels, const mp_pass_call *call, bool ends);
/* Continues the messages to other ranks that are in progress, without waiting. Must be called between two calls of a pass. */
mp_status mp_channels_advance(mp_channels *channels, mp_error *err);
/* Checks at the end of a pass that the bytes copied, or enqueued on streams, equal the planned bytes. `runs_rest`: the pass
 * ran the copies of activations; `updates`: the pass ran the copies of optimizer state. All copies of the pass must have been
 * waited for. MP_REFUTED: the numbers differ. */
mp_status mp_channels_end_pass(mp_channels *channels, bool runs_rest, bool updates, mp_error *err);
/* Adds the copied and sent bytes of a pass that the backend replayed from a recording. `updates`: the pass updated parameters.
 */
void mp_channels_replay(mp_channels *channels, bool updates);
/* Returns the bytes copied between tiers so far. */
mp_copied mp_channels_copied(const mp_channels *channels);
