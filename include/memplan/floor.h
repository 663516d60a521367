/* floor.h - the certified minimum memory: no schedule of this graph has a smaller peak, whatever it recomputes.
 *
 * The floor is static bytes plus the largest sum over nodes. The sum of a node has two parts:
 *
 * - The reads, writes, adds and workspace of the node, minus the memory that in-place pairs can share.
 * - The minimum live memory of storages whose producers run once (loss, backward, update, `once`). Ancestors of the node have
 *   run, descendants run later, and of the other nodes any precedence-closed set may have run.
 *
 * If all updates run after backward (fuse none), the end of backward also gives a sum: all parameter gradients are live there.
 * In addition, a forward result that a node reads must either stay live until that node runs or be recomputed before it.
 *
 *     int64_t bytes;
 *     int node;
 *     if (mp_floor(graph, &bytes, &node, &err) == MP_OK && node >= 0)
 *         printf("%lld bytes, because of %s\n", (long long)bytes, graph->nodes[node].name);
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_floor_reason {
    int node;     /* the node whose sum is the floor, or that reads `storage`; -1: end of backward, or the graph has no nodes */
    int storage;  /* storage read by `node`, live while `beside` runs or recomputed later; -1: the node's own run decides
                   */
    int producer; /* if `storage` is recomputed before `node`: the first node that must rerun, its producer or the producer of
                     an input */
    int beside;   /* a node that runs before `node`, exactly once */
    int64_t live_bytes;   /* minimum bytes kept live for the storage while `beside` runs, if `producer` does not run later */
    int64_t beside_bytes; /* minimum bytes of the run of `beside` with these bytes live (without static bytes) */
    int64_t again_bytes;  /* minimum bytes of a run of `producer` between `beside` and `node` (without static bytes) */
} mp_floor_reason;

/* Computes *floor_bytes and its reason. If reason->storage >= 0, the floor is static bytes plus the smaller of beside_bytes and
 * again_bytes. MP_NOMEM.
 *
 * Cost: O(nodes * (edges / 64 + storages)) time, O(nodes^2 / 4) bytes, and minimum cuts. All work is limited by counting, not
 * by time, so the same graph has the same floor on every machine; the limit is a second or two. Beyond 8192 nodes only storages
 * that must be live count; beyond 32767 nodes only each node's own run. */
mp_status mp_floor_explained(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* Like mp_floor_explained, but returns only the reason's node. */
mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err);
