/* floor.h - the certified minimum memory: no schedule of this graph has a smaller peak, whatever it recomputes.
 *
 * For each node, a sum of bytes is computed that must be live while the node runs. The floor is static bytes plus the largest
 * of these sums. The sum of a node has two parts:
 *
 * - The reads, writes, adds and workspace of the node, minus the memory that in-place pairs can share.
 * - The minimum live memory of storages whose producers run once (loss, backward, update, `once`). The minimum is over all sets
 *   of nodes that may have run before: the ancestors of the node, none of its descendants, and any closed set of the other
 *   nodes.
 *
 * If all updates run after backward (fuse none), the end of backward also gives a sum: all parameter gradients are live there.
 * In addition, a forward result that a node reads must either stay live until the node runs or be recomputed before the node.
 * Both choices cost memory; the floor uses the cheaper one.
 *
 *     // given: const mp_graph *graph; mp_error *err
 *     int64_t bytes;
 *     int node;
 *     MP_CHECK(mp_floor(graph, &bytes, &node, err));
 *     if (node >= 0) printf("%lld bytes, because of %s\n", (long long)bytes, graph->nodes[node].name);
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_floor_reason {
    int node; /* the node whose sum determines the floor, or the node that reads `storage`; -1: the end of backward determines
                 the floor, or the graph has no nodes */
    int storage; /* a storage that `node` reads. It is live while `beside` runs, or recomputed afterwards. -1: the sum of `node`
                    alone determines the floor */
    int producer; /* if `storage` is recomputed before `node`: the first node that must run again, either its producer or the
                     producer of one of the producer's inputs */
    int beside;   /* a node that runs exactly once, before `node` */
    int64_t live_bytes; /* minimum live bytes for `storage` while `beside` runs, if `producer` does not run again afterwards */
    int64_t beside_bytes; /* minimum bytes, without static bytes, while `beside` runs and live_bytes are live */
    int64_t again_bytes;  /* minimum bytes, without static bytes, while `producer` runs again between `beside` and `node` */
} mp_floor_reason;

/* Computes *floor_bytes and its reason. If reason->storage >= 0, the floor is static bytes plus the smaller of beside_bytes and
 * again_bytes. MP_NOMEM.
 *
 * Cost: O(nodes * (edges / 64 + storages)) time, O(nodes^2 / 4) bytes, and minimum cuts. The work is limited by a count, not
 * by a clock, so the same graph has the same floor on every machine. The limit corresponds to a second or two. Beyond 8192
 * nodes the choice between keeping and recomputing is ignored. Beyond 32767 nodes only the reads, writes, adds and workspace
 * of each node count. */
mp_status mp_floor_explained(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err);

/* Like mp_floor_explained, but returns only the member `node` of the reason. */
mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err);

/* Finds the storages that a node reads, writes or adds to in its base alternative, without static storages: each once, largest
 * first. Writes up to `most` of them to `storages`. *bytes is the sum of all. Returns their number. O(lists^2). */
size_t mp_floor_storages(const mp_graph *graph, int node, int *storages, size_t most, int64_t *bytes);
