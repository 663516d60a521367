/* exchange.h - the training graph of one rank among several: collectives are nodes on the channel "network".
 *
 * Data parallelism (dp) and sharding (shard) modify a finished graph. Gradients are all-reduced in buckets, in the order in
 * which backward completes them. A sharded storage has 1/n of its bytes. A node of the forward pass gathers sharded parameters
 * and may be recomputed like other forward nodes. "Reshard after forward" therefore means that a plan recomputes this
 * all-gather for backward. An all-gather that is issued early is a prefetch.
 *
 *     shard       zero=1                    zero=2                      zero=3
 *     state       1/n                       1/n                         1/n
 *     gradients   all-reduced in place      reduce-scattered: 1/n       reduce-scattered: 1/n
 *     parameters  replicated, gathered      replicated, gathered        1/n, gathered for forward and backward
 *                 after their update        after their update
 *
 * Frozen parameters are sharded like trained ones; they have no gradient and no state. Expert parameters (is_spread) are
 * sharded, and their gradients summed, over the ranks that hold the same experts. If every rank along the shard dimension holds
 * other experts, expert parameters are not sharded.
 *
 * Under the executor's rules collectives work in place and need no further memory. Under PyTorch's rules a rank also holds the
 * buffers of DDP and FSDP2. DDP allocates buckets: the first of 1 MiB, the others of the requested size. FSDP2 allocates a
 * buffer for a gather and the input of the reduce-scatter. Nodes copy between these buffers and the tensors (CopyOut, CopyIn).
 * Parameters are allocated when their gather has ended. Gradients are free when they are in the buffer. The next reduce-scatter
 * gets a buffer when the previous one has ended. FSDP2 does not keep a block's gathered parameters from forward to backward:
 * backward gathers them again. Parameters outside of blocks and units are one bucket, which stays gathered. The shards of
 * is_lowered storages have twice the bits. Exchanges of gradients over tp then run on a channel of their own, "exchanges".
 *
 *     // given: mp_graph *graph; mp_mesh mesh; mp_interconnect network; mp_error *err
 *     const mp_ranks ranks = {.mesh = mesh, .network = network};
 *     MP_CHECK(mp_graph_exchange(graph, &ranks, err));
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/model.h"
#include "memplan/ranks/mesh.h"
#include "memplan/ranks/network.h"

/* Size of a bucket in bytes: gradients are added to a bucket until it has this size, as in PyTorch. */
enum { MP_BUCKET_BYTES = 25 << 20, MP_FIRST_BUCKET_BYTES = 1 << 20 };

/* A mesh of ranks that train together, and the network between them. */
typedef struct mp_ranks {
    mp_mesh mesh;
    mp_interconnect network;
    mp_algorithm algorithm;
    int64_t bucket_bytes; /* size of a bucket of gradients or parameters in bytes; 0: MP_BUCKET_BYTES */
    mp_rules rules;
    /* under PyTorch's rules: patterns (* ? []) of modules that fully_shard wraps besides the blocks, such as "classifier". The
     * parameters of each matching module are gathered and reduced together. Borrowed */
    const char *const *units;
    size_t n_units;
    bool shares_statistics; /* true: batch normalization uses the samples of all ranks; false: each rank normalizes its own
                               samples */
    bool for_execution; /* true: the executor will run the graph. tp then makes equal shards, and only splits that the kernels
                           support */
} mp_ranks;

/* Adds the collectives of dp and shard to a finished training graph, and finishes it again. If the mesh has pp, the graph
 * already has the channel "network"; otherwise this function adds it. Partial gradients of tp ranks (is_part) are also
 * summed over tp, in separate buckets. Node numbers change, storage numbers do not. If dp and shard are 1, there are no partial
 * gradients, and no exchange of gradients over tp gets a channel, the graph is unchanged. MP_INVALID: shard without an
 * optimizer. MP_PARSE: the mesh has no pp, but the graph has the channel. MP_NOMEM. After an error the graph can only be
 * released. O(graph). */
mp_status mp_graph_exchange(mp_graph *graph, const mp_ranks *ranks, mp_error *err);
