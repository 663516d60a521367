/* floor.h - the certified minimum memory: no schedule of this graph has a smaller peak, whatever it recomputes.
 *
 * When a node runs, its own reads, writes, adds and workspace are live, less what an in-place pair can share. Add the
 * minimum that storages produced only by nodes that run once (loss, backward, update, `once`) take at that moment: some
 * nodes must have run before (its ancestors), some must run later (its descendants), and of the others any
 * precedence-closed set may have run. Where all updates run after backward (fuse none), the end of backward is a moment
 * of its own: all gradients of parameters are live then. A forward result that a node reads has to stay live until
 * then, or be recomputed before. The floor is the largest such sum, plus the static bytes.
 *
 *     int64_t bytes;
 *     int node;
 *     if (mp_floor(graph, &bytes, &node, &err) == MP_OK && node >= 0)
 *         printf("%lld bytes, because of %s\n", (long long)bytes, graph->nodes[node].name);
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_floor_reason {
    int node;           /* the node whose sum is the floor, or that reads `storage`; -1: end of backward, or no nodes */
    int storage;        /* read by `node`: kept live while `beside` runs, or recomputed later; -1: the node's own run decides */
    int producer;       /* start of that recomputation: producer of the storage, or of one that it is computed from */
    int beside;         /* a node that runs before `node`, and runs once */
    int64_t live_bytes; /* least bytes kept live for the storage while `beside` runs, if `producer` does not run later */
    int64_t beside_bytes; /* least bytes of the run of `beside` with these live (without static bytes) */
    int64_t again_bytes;  /* least bytes of a run of `producer` between `beside` and `node` (without static bytes) */
} mp_floor_reason;

/* Computes *floor_bytes and its reason (reason->storage >= 0: it is static bytes and the smaller of beside_bytes and
 * again_bytes). O(nodes * (edges / 64 + storages)) time, O(nodes^2 / 4) bytes, and minimum cuts whose number is limited
 * by what they have cost, as all of its work is: counted and not timed, so that the same graph has the same floor
 * everywhere, a second or two at most; beyond 8192 nodes only storages that must be live count, beyond 32767 only what
 * each node needs. MP_NOMEM. */
mp_status mp_floor_explained(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* Like mp_floor_explained, but gives the reason's node only. */
mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err);
