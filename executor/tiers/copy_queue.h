/* copy_queue.h - the copies of one channel: a thread moves them one after the other, in the order in which they were issued. */
#pragma once

#include "executor/tiers/transfer.h"

typedef struct mp_copy_queue mp_copy_queue;

typedef struct mp_copy_queue_options {
    double bytes_per_second;    /* as slow a link as this: no copy ends sooner than it would there; 0: as fast as it goes */
    bool plain;                 /* without io_uring */
    double (*now)(void *clock); /* the clock of the link, in seconds; NULL: the system's */
    void (*sleep_until)(void *clock, double seconds);
    void *clock;
} mp_copy_queue_options;

typedef struct mp_copied {
    int64_t out_bytes, in_bytes;
} mp_copied;

/* Starts the thread. The caller releases *out with mp_copy_queue_free. MP_NOMEM: there is no memory, or no thread. */
mp_status mp_copy_queue_new(const mp_copy_queue_options *options, mp_copy_queue **out, mp_error *err);
/* Ends the thread, at the next piece of the copy that it is at; what was issued and not waited for may be undone. NULL is
 * allowed. */
void mp_copy_queue_free(mp_copy_queue *queue);
MP_OWNER(mp_copy_queue_free, mp_copy_queue)

/* Appends a copy and returns its ticket. Until it has been waited for, its memory is not to be changed, and if it copies back
 * not to be read. Blocks while more copies are under way than the queue has room for. Allocates nothing. MP_INVALID: it is not
 * within the tier, or not at a multiple of its alignment. */
mp_status mp_copy_queue_issue(mp_copy_queue *queue, const mp_copy *copy, int64_t *ticket, mp_error *err);
/* Waits until the copy of this ticket, and all before it, have ended. MP_IO: one of them has failed, and nothing behind it was
 * copied. */
mp_status mp_copy_queue_wait(mp_copy_queue *queue, int64_t ticket, mp_error *err);
/* Returns the bytes of all copies that have ended. */
mp_copied mp_copy_queue_copied(mp_copy_queue *queue);
