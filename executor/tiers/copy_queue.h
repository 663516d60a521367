/* copy_queue.h - the queue of one copy channel: copies of storages between the device and another memory tier. A thread runs
 * the copies one after the other in the order of issue. */
#pragma once

#include "executor/tiers/transfer.h"

typedef struct mp_copy_queue mp_copy_queue;

typedef struct mp_copy_queue_options {
    double bytes_per_second;    /* rate of a slower link to simulate: no copy ends earlier than on a link of this rate; 0: full
                                   speed */
    bool plain;                 /* true: the copying thread does not use io_uring */
    double (*now)(void *clock); /* a clock in seconds for the simulated link; NULL: the system's clock */
    void (*sleep_until)(void *clock, double seconds);
    void *clock;
} mp_copy_queue_options;

typedef struct mp_copied {
    int64_t out_bytes, in_bytes;
} mp_copied;

/* Starts the thread. The caller releases *out with mp_copy_queue_free. MP_NOMEM: no memory or no thread is available. */
mp_status mp_copy_queue_new(const mp_copy_queue_options *options, mp_copy_queue **out, mp_error *err);
/* Ends the thread after the part of a copy that is in progress. Copies that were issued but not waited for may be incomplete.
 * NULL is allowed. */
void mp_copy_queue_free(mp_copy_queue *queue);
MP_OWNER(mp_copy_queue_free, mp_copy_queue)

/* Appends a copy and returns its ticket. Until the copy has been waited for, its memory must not be changed, and the target of
 * a copy back must not be read. Blocks while the queue is full. Allocates nothing. MP_INVALID: the copy is outside of the tier,
 * or its offset is not aligned. */
mp_status mp_copy_queue_issue(mp_copy_queue *queue, const mp_copy *copy, int64_t *ticket, mp_error *err);
/* Waits until the copy with this ticket and all earlier ones have ended. MP_IO: one of them failed, and later ones were
 * skipped. */
mp_status mp_copy_queue_wait(mp_copy_queue *queue, int64_t ticket, mp_error *err);
/* Returns the bytes of all completed copies. */
mp_copied mp_copy_queue_copied(mp_copy_queue *queue);
