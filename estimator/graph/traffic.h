/* traffic.h - bytes that a training step moves between memory and the processor, if all steps follow the same order.
 *
 * The model: one cache of `cache_bytes` that holds whole storages and evicts the one whose last use is furthest back
 * (LRU; stack distances after Mattson et al. 1970). A read of what is not in it costs its bytes, and so does giving up
 * what was written and will still be read. What dies in the cache is never written back. A storage larger than the
 * cache costs its bytes with every read and write. Workspace is left out, views move nothing.
 */
#pragma once

#include "memplan/timeline.h"

/* Computes the payload bytes moved in a training step that follows an equal one. Errors as mp_timeline_build. O(list
 * lengths + spans log spans). */
mp_status mp_traffic(const mp_graph *graph, const mp_step *steps, size_t n, int64_t cache_bytes, int64_t *out, mp_error *err);
