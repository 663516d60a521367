/* prefetch.h - prepares batches in advance, so that the training does not wait. A separate thread reads the samples, converts
 * them, and uploads them if the backend is a device.
 *
 * At most two batches are ready in buffers; for a device the buffers are pinned host memory. While a pass runs, the next batch
 * is uploaded to landing memory on the device. Between two passes the batch is copied from landing memory to the inputs. On
 * the CPU backend, the batch is copied directly from its buffer to the inputs. The content of a batch does not depend on the
 * thread or on timing. */
#pragma once

#include "executor/data/feed.h"
#include "executor/kernel/backend.h"
#include "memplan/memory.h"

typedef struct mp_prefetch mp_prefetch;

/* Creates a prefetch for the n inputs of a feed, in the order of the feed. `plain` describes the row-major arrays of the feed,
 * `stored` the layouts in the backend's memory, both without data. *out is NULL if the backend uses all cores, or if the
 * device has no memory left; the caller then prepares the batches itself. The backend must be open. Backend and feed must
 * outlive *out. The caller releases *out with mp_prefetch_free. MP_NOMEM. */
mp_status mp_prefetch_new(const mp_backend *backend, const mp_feed *feed, const mp_array *plain, const mp_array *stored,
                          size_t n, mp_prefetch **out, mp_error *err);
/* Ends the prefetch thread after the batch that it is processing, and releases the prefetch; does nothing for NULL. */
void mp_prefetch_free(mp_prefetch *prefetch);
MP_OWNER(mp_prefetch_free, mp_prefetch)

/* Copies a batch to there[0..n) after the previous pass has run, and lets the thread prepare the next batches. If `batch`
 * follows the previous batch, it is already prepared; any other batch is prepared during the call. Allocates nothing. MP_IO:
 * the device has failed. If the thread failed, the call for the batch that it was preparing returns the failure. */
mp_status mp_prefetch_take(mp_prefetch *prefetch, int64_t batch, const mp_array *there, mp_error *err);

/* Returns the bytes of device memory that the prefetch uses in addition to the plan. */
int64_t mp_prefetch_device_bytes(const mp_prefetch *prefetch);
