/* channels.h - the channels on which a plan copies: a stream of the backend for each, or else a queue; that on which it sums
 * over ranks; and how far they are. */
#pragma once

#include "executor/run/calls.h"
#include "executor/run/rank_channel.h"
#include "executor/tiers/copy_queue.h"
#include "formats/pages/run_trace.h"

typedef struct mp_channels {
    const mp_addresses *at;
    mp_copy_queue *queues[MP_MAX_CHANNELS]; /* NULL: the plan copies nothing there, or a stream of the backend does */
    int64_t *tickets;                       /* per step: of its last copy */
    mp_copied planned[2];                   /* bytes of one pass, besides state and of state */
    mp_copied issued, before;               /* on streams in all; and of all passes before this one */
    double wait_seconds;                    /* in mp_channels_wait, on queues and for other ranks */
    mp_rank_channel ranks;
    mp_step_time *times; /* per step, of the pass that runs; NULL: nobody asks */
} mp_channels;

/* Opens a queue for every channel on which the plan's steps copy, unless the backend has streams for them. The list lies in
 * the pool; the caller releases the queues with mp_channels_close, even after a failure, and before the memory that they copy.
 * MP_NOMEM. O(steps). */
mp_status mp_channels_open(const mp_addresses *addresses, const mp_execution_options *options, mp_pool *pool, mp_channels *out,
                           mp_error *err);
void mp_channels_close(mp_channels *channels); /* does nothing for a zeroed one */

/* Issues the copies or the collective of a call, which is one, and waits for it. Copies, and collectives on
 * a stream, are allowed while the backend records.
 * MP_IO: a copy failed, of this call or of one before it on the channel, or another rank did. */
mp_status mp_channels_issue(mp_channels *channels, const mp_pass_call *call, mp_error *err);
mp_status mp_channels_wait(mp_channels *channels, const mp_pass_call *call, mp_error *err);
/* Notes the time at which a call of compute begins or ends, if somebody asks. */
void mp_channels_note(mp_channels *channels, const mp_pass_call *call, bool ends);
/* Moves on what has been issued to other ranks; called between two calls. */
mp_status mp_channels_advance(mp_channels *channels, mp_error *err);
/* Checks, when all copies of a pass have been waited for, that as many bytes have been copied, or enqueued on streams, as the
 * plan says: of a whole pass with or without updates, or of updates alone. MP_REFUTED. */
mp_status mp_channels_end_pass(mp_channels *channels, bool runs_rest, bool updates, mp_error *err);
/* Counts the copies, and what was sent, of a whole pass that was recorded before. */
void mp_channels_replay(mp_channels *channels, bool updates);
/* Returns the bytes that have been copied. */
mp_copied mp_channels_copied(const mp_channels *channels);
