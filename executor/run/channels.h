/* channels.h - the channels of a plan. Copies between tiers use a stream of the backend, or else a queue with its own thread,
 * per channel. Collectives use the network's channel. */
#pragma once

#include "executor/run/calls.h"
#include "executor/run/rank_channel.h"
#include "executor/tiers/copy_queue.h"
#include "formats/pages/run_trace.h"

typedef struct mp_channels {
    const mp_addresses *at;
    mp_copy_queue
        *queues[MP_MAX_CHANNELS]; /* NULL: the plan has no copies on this channel, or a stream of the backend runs them */
    int64_t *tickets;             /* per step: ticket of its last copy in the queue */
    mp_copied planned[2];         /* planned bytes of one pass: [0] copies of activations, [1] copies of optimizer state */
    mp_copied issued, before;     /* bytes enqueued on streams so far; all bytes copied before the current pass */
    double wait_seconds;          /* time spent in mp_channels_wait on queues and on other ranks */
    mp_rank_channel ranks;
    mp_step_time *times; /* per step: times in the current pass; NULL: not recorded */
} mp_channels;

/* Opens a queue for every channel with copies, unless the backend has streams. The lists are allocated in the pool. The caller
 * releases the queues with mp_channels_close, even after a failure, before releasing the memory that the queues copy. MP_NOMEM.
 * O(steps). */
mp_status mp_channels_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool, mp_channels *out,
                           mp_error *err);
void mp_channels_close(mp_channels *channels); /* does nothing for a zeroed one */

/* Issue a call that is a transfer (copies or a collective), and wait for it. Issuing on a stream is allowed while the backend
 * records. MP_IO: a copy of this call, or an earlier copy on its channel, failed, or another rank failed. */
mp_status mp_channels_issue(mp_channels *channels, const mp_pass_call *call, mp_error *err);
mp_status mp_channels_wait(mp_channels *channels, const mp_pass_call *call, mp_error *err);
/* Records the time at which a compute call begins or ends, if times are requested. */
void mp_channels_note(mp_channels *channels, const mp_pass_call *call, bool ends);
/* Advances the issued messages to other ranks; called between two calls. */
mp_status mp_channels_advance(mp_channels *channels, mp_error *err);
/* Checks at the end of a pass that the bytes copied, or enqueued on streams, equal the planned bytes. `runs_rest` includes the
 * copies of activations in the planned bytes, `updates` the copies of optimizer state. All copies of the pass must have been
 * waited for. MP_REFUTED: the numbers differ. */
mp_status mp_channels_end_pass(mp_channels *channels, bool runs_rest, bool updates, mp_error *err);
/* Counts the copies and the sent bytes of a whole pass that the backend replays from a recording. */
void mp_channels_replay(mp_channels *channels, bool updates);
/* Returns the bytes copied so far. */
mp_copied mp_channels_copied(const mp_channels *channels);
