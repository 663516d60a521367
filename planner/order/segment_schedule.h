/* segment_schedule.h - the schedule of segment checkpointing: from segments and kept storages to an order of steps.
 *
 * The forward nodes are divided into segments 0..k-1 such that no node reads from a later one (a sequence of lower sets). The
 * forward pass runs all nodes, segment by segment; the kept storages stay live for backward. Backward goes through the segments
 * from last to first. Before the backward nodes of a segment, the storages they read that are not live are recomputed, with
 * their own missing inputs, each node at most once per segment. The last segment is still live from the forward pass and needs
 * no recomputation. Every storage is freed at its last read.
 */
#pragma once

#include "memplan/timeline.h"

/* `segment[node]`: for every forward node (other entries are ignored). A backward node belongs to the segment of its forward
 * node; without forward_of, to that of the latest storage it reads that is not kept; else to that of the nodes whose results
 * it reads. `keep[storage]`: live from its first production to its last read. Updates as mp_updates_place puts them. On
 * MP_OK *steps has *n steps, released with mp_free. MP_NOT_APPLICABLE: the graph has no backward phase. MP_INVALID: a node
 * reads from a later segment. MP_NOMEM. O(list lengths * recomputations). */
mp_status mp_segment_schedule(const mp_graph *graph, const int *segment, int n_segments, const bool *keep, mp_step **steps,
                              size_t *n, mp_error *err);

/* Adds to `keep` each `saved` storage (such as the statistics of a normalization) of at most 1/64 of the bytes of the node's
 * other outputs: it is not worth recomputing the node for it. */
void mp_segment_keep_small(const mp_graph *graph, bool *keep);
