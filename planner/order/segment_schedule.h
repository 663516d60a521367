/* segment_schedule.h - builds the schedule of segment checkpointing: an order of steps for given segments and kept storages.
 *
 * The forward nodes are divided into segments 0..k-1. No node may read from a later segment, so the segments form a sequence of
 * lower sets. The forward pass runs all nodes, segment by segment. Kept storages remain live for backward. Backward processes
 * the segments from last to first. Before the backward nodes of a segment run, their missing inputs are recomputed recursively,
 * each node at most once per segment. The last segment is still live from the forward pass and needs no recomputation. Every
 * storage is freed at its last read.
 */
#pragma once

#include "memplan/timeline.h"

/* Builds the schedule. `segment[node]`: the segment of a forward node; other entries are ignored. A backward node belongs to
 * the segment of its forward node (forward_of). If the graph does not name it, the backward node belongs to the latest segment
 * from which it reads a storage that is not kept. If it reads no such storage, it belongs to the earliest segment of the nodes
 * that produce its inputs.
 *
 * `keep[storage]`: the storage is live from its first production to its last read. Updates are placed as by mp_updates_place.
 * On MP_OK *steps holds *n steps; release it with mp_free. MP_NOT_APPLICABLE: the graph has no backward phase. MP_INVALID: a
 * node reads from a later segment. MP_NOMEM. O(list lengths * recomputations). */
mp_status mp_segment_schedule(const mp_graph *graph, const int *segment, int n_segments, const bool *keep, mp_step **steps,
                              size_t *n, mp_error *err);

/* Marks small `saved` storages in `keep`, such as the statistics of a normalization. A storage is small if it has at most 1/64
 * of the bytes of its node's other outputs. Recomputing a node only to save such a storage is not worthwhile. */
void mp_segment_keep_small(const mp_graph *graph, bool *keep);
