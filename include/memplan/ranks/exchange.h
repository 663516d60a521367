/* exchange.h - the training graph of one rank of many: what it sends and gathers as nodes on a channel of their own.
 *
 * Data parallel (dp) and sharding (shard) change a finished graph: gradients are summed over the ranks in buckets, in the order
 * in which backward completes them; what is shared out is a storage of 1/n of its bytes, and what is gathered is made by a node
 * of the forward pass, which may run again like any other: so "reshard after forward, or keep" is the planner's choice between
 * keeping and recomputing, and prefetch is where the gather is issued.
 *
 *     shard   zero=1                    zero=2                      zero=3
 *     state   1/n                       1/n                         1/n
 *     grad.   summed in their place     scattered: 1/n              scattered: 1/n
 *     param.  whole, gathered after     whole, gathered after       1/n, gathered for forward and backward
 *             their update              their update
 *
 * Frozen parameters are shared out as trained ones are: they have a value alone.
 *
 * Without `rules` of PyTorch nothing else is allocated: a collective works on the tensors where they are. With them a rank
 * holds what DDP and FSDP2 allocate beside: DDP's buckets always (the first of 1 MiB, the others as asked), FSDP2's gathered
 * buffer beside the parameters, and the input of the reduce-scatter beside the gradients. FSDP2 keeps no gathered parameter
 * from forward to backward: another gather makes it for backward. Of what is_lowered, the parts have twice the bits.
 *
 *     const mp_ranks ranks = {.mesh = mesh, .network = network};
 * Parameters of experts (is_spread) are shared out, and their gradients summed, over the ranks that have the same ones; where
 * such ranks differ in nothing of shard, nothing is shared out of them.
 *
 *     MP_CHECK(mp_graph_exchange(graph, &ranks, &traffic, err));
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/model.h"
#include "memplan/ranks/mesh.h"
#include "memplan/ranks/network.h"

/* A bucket takes gradients until it has so many bytes, as PyTorch's. */
enum { MP_BUCKET_BYTES = 25 << 20, MP_FIRST_BUCKET_BYTES = 1 << 20 };

/* Of how many ranks a graph is one, and how they are joined. */
typedef struct mp_ranks {
    mp_mesh mesh;
    mp_interconnect network;
    mp_algorithm algorithm;
    int64_t bucket_bytes; /* of gradients that are sent together, and of parameters; 0: MP_BUCKET_BYTES */
    mp_rules rules;
    bool shares_statistics; /* batch normalization is by the samples of all ranks; else by those of each */
    bool runs;              /* a program is to run it: tp makes parts of one size, and none that kernels would need otherwise */
} mp_ranks;

/* What a rank sends in keep-all, as rings send it, or the server. */
typedef struct mp_rank_traffic {
    size_t n_collectives;
    int64_t sent_bytes;
    double seconds; /* of all collectives, one after the other */
} mp_rank_traffic;

/* Adds the channel "network", which a rank of a pipeline has, and what dp and shard need to a finished training graph, and
 * finishes it again; gradients of which each rank of tp has a part (is_part) are summed over tp too, in buckets of their own.
 * Numbers of nodes change, those of storages do not. A mesh with dp and shard of 1 changes nothing where there are no such
 * parts. *traffic may be NULL. MP_INVALID: shard and no optimizer; MP_PARSE: the graph has this channel, and the mesh no pp;
 * MP_NOMEM. After an error the graph can only be released. O(graph). */
mp_status mp_graph_exchange(mp_graph *graph, const mp_ranks *ranks, mp_rank_traffic *traffic, mp_error *err);
