/* cache_traffic.h - bytes moved between memory and the processor in a training step. All training steps run their nodes in the
 * same order.
 *
 * The model is one cache of `cache_bytes` that holds whole storages and evicts the least recently used one (LRU; stack
 * distances after Mattson et al. 1970). Reading a storage that is not in the cache costs its bytes. Evicting a written
 * storage that will still be read also costs its bytes. If a storage stays in the cache until its last read, it is never
 * written back. A storage larger than the cache costs its bytes with every read and write. Workspace is ignored; views move
 * no bytes. */
#pragma once

#include "memplan/timeline.h"

/* Computes the payload bytes that one training step moves if an identical step precedes it. Errors as mp_timeline_build.
 * O(list lengths + spans log spans). */
mp_status mp_cache_traffic(const mp_graph *graph, const mp_step *steps, size_t n, int64_t cache_bytes, int64_t *out,
                           mp_error *err);
