/* prefetch.h - batches made ahead of the passes that take them: drawn, converted, and on a device uploaded, by a thread of
 * their own, so that the training does not wait for them.
 *
 * Two batches at most are ready in buffers (on a device: in pinned memory of the host). From there the next one is uploaded to
 * room of its own on the device while a pass runs, and copied to its place between two passes; on the host it is copied from
 * its buffer. What a batch holds does not depend on who makes it, or when.
 */
#pragma once

#include "executor/data/feed.h"
#include "executor/kernel/backend.h"
#include "memplan/memory.h"

typedef struct mp_prefetch mp_prefetch;

/* For the n inputs of a feed, in its order: `plain` says how it makes them, `stored` how they lie in the backend's memory, both
 * without data. *out NULL: there is no core free for the thread, since the backend computes on all of them, or no memory left
 * on the device; then whoever trains makes the batches. The backend is open; it and the feed must outlive *out, which is
 * released with mp_prefetch_free. MP_NOMEM. */
mp_status mp_prefetch_new(const mp_backend *backend, const mp_feed *feed, const mp_array *plain, const mp_array *stored,
                          size_t n, mp_prefetch **out, mp_error *err);
/* Ends the thread, after what it is at; NULL is fine. */
void mp_prefetch_free(mp_prefetch *prefetch);
MP_OWNER(mp_prefetch_free, mp_prefetch)

/* Puts a batch where there[0..n) say, when the pass before has run, and lets the thread make the next ones. Batches that follow
 * each other are there already, any other one is made now. Allocates nothing. MP_IO: the device has failed; what fails in the
 * thread is returned for the batch that it was at. */
mp_status mp_prefetch_take(mp_prefetch *prefetch, int64_t batch, const mp_array *there, mp_error *err);

/* What it takes of a device's memory, beside the plan. */
int64_t mp_prefetch_device_bytes(const mp_prefetch *prefetch);
