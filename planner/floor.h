/* floor.h - the certified minimum: no schedule at all of this graph fits below it.
 *
 * When a node runs, its own reads, writes, adds and workspace are there, less what an in-place pair can share. Besides, every
 * storage made only by nodes that run once (loss, backward, update, `once`), some of which must have run before (its
 * ancestors) and which some node that must run later (a descendant) still reads, is live. Updates after all of backward
 * (fuse none) count as such an order, and the end of backward as a moment of its own: all parameter gradients are live then.
 * The floor is the largest such sum over nodes, and that moment, plus the static bytes.
 */
#ifndef PLANNER_FLOOR_H
#define PLANNER_FLOOR_H

#include "estimator/graph.h"

/* *floor_bytes, and the node whose sum it is (-1: the end of backward, or no nodes). O(nodes * (edges / 64 + storages)) time,
 * O(nodes^2 / 4) bytes; beyond 32768 nodes only what nodes need for themselves is counted. MP_NOMEM. */
mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err);

#endif
