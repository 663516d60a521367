/* floor.h - the certified minimum: no schedule at all of this graph fits below it.
 *
 * When a node runs, its own reads, writes, adds and workspace are there, less what an in-place pair can share. Besides, the
 * least is there that storages made only by nodes that run once (loss, backward, update, `once`) can take at such a moment:
 * some nodes must have run before (its ancestors), some must run later (its descendants), and of the others any set may have
 * run that the order permits (floor_cut.h). Updates after all of backward (fuse none) count as such an order, and the end of
 * backward as a moment of its own: all parameter gradients are live then. And what a node reads of forward has to be held up to
 * it, or run again on the way (floor_held.h). The floor is the largest such sum, plus the static bytes.
 */
#ifndef MEMPLAN_FLOOR_H
#define MEMPLAN_FLOOR_H

#include "memplan/graph.h"

typedef struct mp_floor_reason {
    int node;             /* whose sum it is, -1: the end of backward, or no nodes */
    int storage;          /* what this node reads, and is held or run again; -1: the sum is that of the node's own run */
    int maker;            /* the node that has to run again: it makes the storage, or what it is made from */
    int beside;           /* ... unless the storage, or what it is made from, is held while this node runs, */
    int64_t held_bytes;   /* so many bytes at least, */
    int64_t beside_bytes; /* which then takes at least this; */
    int64_t again_bytes;  /* a run of `maker` behind it takes at least this (both without static bytes) */
} mp_floor_reason;

/* *floor_bytes, and why (reason->storage >= 0: static bytes and the smaller of beside_bytes and again_bytes). O(nodes * (edges
 * / 64 + storages)) time, O(nodes^2 / 4) bytes, and minimum cuts whose number is limited by what they have cost, so that the
 * same graph has the same floor everywhere; beyond 8192 nodes only storages that live for certain, and beyond 32767 only what
 * nodes need for themselves is counted. MP_NOMEM. */
mp_status mp_floor_explained(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* The same with the reason's node only. */
mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err);

#endif
