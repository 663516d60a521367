/* traffic.h - bytes between memory and the processor, of a step of training that follows the same order every time.
 *
 * The model: one cache of `cache_bytes` that holds whole storages and evicts the one whose last use is furthest back (LRU;
 * stack distances after Mattson et al. 1970). A read of what is not in it costs its bytes, and so does giving up what was
 * written and will still be read. What dies in the cache is never written back. A storage larger than the cache costs its bytes
 * with every read and write. Workspace is left out, views move nothing.
 */
#pragma once

#include "memplan/timeline.h"

/* *out: payload bytes per step of training, once the same step has run before. As mp_timeline_build.
 * O(list lengths + spans log spans). */
mp_status mp_traffic(const mp_graph *graph, const mp_step *steps, size_t n, int64_t cache_bytes, int64_t *out, mp_error *err);
