/* buckets.h - the parameters whose gradients and values ranks exchange, in buckets. Gradient buckets are ordered by the
 * completion of gradients in backward, value buckets by the first use of values. All parameters of a bucket are exchanged
 * with the same ranks. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/ranks/exchange.h"

/* A parameter that ranks exchange: a trained parameter, or with zero=3 also a frozen one, which has only a value. Members
 * that name storages and nodes are indices in the original graph; -1: none. */
typedef struct mp_exchanged {
    int value, gradient, state, update;
    int shard;     /* storage of this rank's shard of the value. With zero=3 it is static; otherwise the update produces it */
    int reduced;   /* storage that the update reads: `gradient`, or this rank's shard of it */
    int reduction; /* storage that makes the update wait for the reduction of a static gradient; -1: not needed, because
                      the update waits for the gradient itself */
    int complete;  /* the last node that writes the gradient or adds to it */
    int used;      /* the first node, except updates, that reads the value of the parameter */
    int again; /* storage of the value that is gathered a second time for backward; -1: backward reads the value gathered for
                  forward */
    int used_again; /* the first backward node that reads the value of the parameter; the number of nodes: none. Under PyTorch's
                       rules: the first backward node of an operator that reads the value, if a backward node reads it */
    bool is_part;   /* true: the gradient is a partial sum, so it is also summed over tp */
    bool is_staged; /* true: several pipeline stages use the parameter and sum its gradient once per training step. If the
                       gradient is scattered after each pass, they sum only this rank's shard */
    bool is_spread; /* true: expert parameter, which is sharded over the ranks with the same experts */
    /* under PyTorch's rules with zero 2 or 3: the name of the parameter's block, of block_length bytes ("layers.3"). Length 0
     * in all other cases, and for FSDP2's root group, the parameters outside of blocks */
    const char *block;
    size_t block_length;
    bool is_root;    /* true: of the root group. It is one bucket, which stays gathered from forward until its gradients are
                        complete */
    bool is_lowered; /* true: value and gradient are exchanged in 16 bits, and their shards are float32 */
    int zero;        /* ZeRO stage that applies to this parameter: the mesh's stage, or 0 */
} mp_exchanged;

/* A bucket: parameters list[first .. first+n) that are reduced or gathered together. */
typedef struct mp_bucket {
    size_t first, n;
    int64_t bytes;
    int at; /* node of the original graph before or after which the collective of the bucket is inserted; for updated values an
               index into `sequence` */
    bool is_part, is_spread; /* the flags is_part and is_spread, which all parameters of a bucket share */
    bool is_staged;          /* true if a parameter of the bucket has is_staged */
    int zero;
    int buffer; /* under PyTorch's rules: the storage that contains the tensors of the bucket side by side, while they are moved
                   (FSDP2) or always (DDP). Set by exchange.c */
} mp_bucket;

typedef struct mp_exchange {
    mp_graph *graph;
    const mp_ranks *ranks;
    mp_pool *pool;
    int64_t bucket_bytes, next_id; /* next_id: id that the next added storage gets */
    int zero, channel, n_storages; /* n_storages: number of storages of the original graph */
    size_t n_parameters, n_trained, n_sent, n_gathered, n_again;
    /* the parameters: first the trained ones in the order of their gradients' storages, then the frozen ones */
    mp_exchanged *parameters;
    int *by_completion, *by_use, *by_use_again, *of_storage;
    int *sequence; /* the nodes of the original graph in their new order. Updates follow the order of their gradients' buckets,
                      so updates of the first bucket can run while the last bucket is transferred */
    mp_bucket *sent, *gathered; /* sent: buckets of gradients, ordered by completion. gathered: buckets of values, with zero=3
                                   ordered by first use, else like `sent` */
    mp_bucket *again;    /* buckets of values that are gathered a second time for backward, ordered by first use in backward */
    int last_reduction;  /* storage of 0 bytes that the last reduction from a buffer writes; -1: none */
    int *reads, *writes; /* storages that the node which is being built reads and writes */
    mp_error *err;
} mp_exchange;

/* Returns the group of ranks along `dim` over which parameters are sharded or replicated. With is_spread, only ranks with
 * the same experts belong to the group. */
mp_rank_group mp_exchange_group(const mp_exchange *x, mp_dim dim, bool is_spread);
/* True if FSDP2 shards and gathers two parameters together: they are of the same block, or of the root group. */
bool mp_exchange_same_block(const mp_exchanged *p, const mp_exchanged *q);
/* Requires that each pattern of the ranks' units matches a module that contains a parameter. MP_INVALID. O(patterns *
 * storages). */
mp_status mp_exchange_check_units(const mp_graph *graph, const mp_ranks *ranks, mp_error *err);
/* True if ranks must exchange data: a gradient is summed over ranks, or a storage is sharded. O(storages). */
bool mp_exchange_any(const mp_exchange *x);
/* Finds the parameters and fills the buckets of x. The graph, ranks and pool of x must be set. Clears the flags is_part and
 * is_spread of gradients. MP_INVALID: a parameter to be sharded has no update. MP_NOMEM. O(graph size). */
mp_status mp_exchange_list(mp_exchange *x);
