/* prefetch.h - makes batches ahead of the passes that take them, in a thread of its own that draws, converts and on a device
 * uploads them, so that the training does not wait.
 *
 * Two batches at most are ready in buffers (on a device: in pinned memory of the host). From there the next one is uploaded
 * to landing memory on the device while a pass runs, and copied to the inputs between two passes; on the host it is copied
 * from its buffer. The content of a batch does not depend on which thread makes it, or when. */
#pragma once

#include "executor/data/feed.h"
#include "executor/kernel/backend.h"
#include "memplan/memory.h"

typedef struct mp_prefetch mp_prefetch;

/* Creates a prefetch for the n inputs of a feed, in its order: `plain` are the arrays as the feed makes them, `stored` as
 * they lie in the backend's memory, both without data. *out is NULL if no core is free for the thread, since the backend
 * computes on all of them, or no memory is left on the device; then the caller makes the batches itself. The backend must be
 * open; it and the feed must outlive *out, which is released with mp_prefetch_free. MP_NOMEM. */
mp_status mp_prefetch_new(const mp_backend *backend, const mp_feed *feed, const mp_array *plain, const mp_array *stored,
                          size_t n, mp_prefetch **out, mp_error *err);
/* Ends the thread after its current work; does nothing for NULL. */
void mp_prefetch_free(mp_prefetch *prefetch);
MP_OWNER(mp_prefetch_free, mp_prefetch)

/* Copies a batch to there[0..n), once the previous pass has run, and lets the thread make the next ones. Consecutive batches
 * are ready already, any other one is made now. Allocates nothing. MP_IO: the device has failed; a failure of the thread is
 * returned for the batch that it was making. */
mp_status mp_prefetch_take(mp_prefetch *prefetch, int64_t batch, const mp_array *there, mp_error *err);

/* Returns the bytes of device memory that it takes, beside the plan's. */
int64_t mp_prefetch_device_bytes(const mp_prefetch *prefetch);
