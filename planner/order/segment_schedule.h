/* schedule.h - from "what is kept" to an order of steps: the schedules that segment checkpointing can express.
 *
 * The forward nodes are divided into segments 0..k-1 such that no node reads from a later one (a sequence of lower sets). The
 * forward pass runs all nodes, segment by segment, and leaves the kept storages for backward. Backward goes through the
 * segments from the last to the first; before a segment's backward nodes run, what they read and is not there (neither kept nor
 * just made) is recomputed, and with it what that needs, each node at most once per segment. The last segment is still there
 * from the forward pass and needs no recomputation. Everything is freed at its last read, as always.
 */
#ifndef PLANNER_SCHEDULE_H
#define PLANNER_SCHEDULE_H

#include "estimator/graph/timeline.h"

/* `segment[node]` for every forward node (others are ignored; backward nodes belong to the segment of their forward node or,
 * without forward_of, of the latest storage they read that is not kept, else to that of the nodes whose results they read);
 * `keep[storage]`: held from its first production until its last read. The updates are placed as mp_schedule_updates does. On
 * MP_OK *steps is an array of *n steps released with mp_free. MP_NOT_APPLICABLE: the graph has no backward phase. MP_INVALID:
 * the segments do not respect the data flow. MP_NOMEM. O(list lengths * recomputations). */
mp_status mp_schedule_segments(const mp_graph *graph, const int *segment, int n_segments, const bool *keep, mp_step **steps,
                               size_t *n, mp_error *err);

/* Adds to `keep` what is not worth a recomputation: every `saved` storage (statistics of a normalization) of at most 1/64 of
 * the bytes of the other outputs of its node. Without it, a norm would run again for a few numbers. */
void mp_schedule_keep_small(const mp_graph *graph, bool *keep);

/* Puts the updates into an order of all other nodes, steps[0..n), as early as the graph's `fuse` allows: after all others
 * (none); after the last step that reads what they write, or makes or reads what they read (backward); before all others
 * (forward): a gradient of the step before is best freed before the activations come. On MP_OK *out holds n plus the number
 * of updates steps, released with mp_free. MP_NOMEM. O(list lengths). */
mp_status mp_schedule_updates(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out,
                              mp_error *err);

/* The same, but updates that would run over the budget there (they hold more than their gradients: workspace) are put off until
 * all other nodes have run (forward: all other updates). Some may still be over. O(list lengths + n). */
mp_status mp_schedule_updates_within(const mp_graph *graph, const mp_step *steps, size_t n, int64_t budget_bytes, mp_step **out,
                                     size_t *n_out, mp_error *err);

#endif
