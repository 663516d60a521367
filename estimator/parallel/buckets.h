/* buckets.h - the parameters that ranks exchange, and their buckets. Gradients are ordered by their completion in backward,
 * values by their first use. All parameters of a bucket are exchanged with the same ranks. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/ranks/exchange.h"

/* An exchanged parameter: a trained one, or with zero=3 a frozen one, which has only a value. Storages and nodes have their
 * indices in the original graph; -1: none. */
typedef struct mp_exchanged {
    int value, gradient, state, update;
    int shard;   /* zero=3: always-live storage of this rank's shard of the value; zero<3: the shard that the update produces */
    int reduced; /* the gradient that the update reads: `gradient`, or its shard */
    int reduction;   /* storage by which the update waits for the reduction of an always-live gradient; -1: the gradient itself
                        serves */
    int complete;    /* the last node that writes or adds to the gradient */
    int used;        /* the first non-update node that reads the value */
    int again;       /* storage of the value gathered again for backward; -1: backward reads the value gathered for forward */
    int used_again;  /* the first backward node that reads the value */
    bool is_part;    /* true: the gradient is a partial sum, and is also summed over tp */
    bool is_staged;  /* true: pipeline stages share the parameter and sum its gradient once per step. If the gradient is
                        scattered per pass, they sum this rank's shard */
    bool is_spread;  /* expert parameter: sharded over the ranks with the same experts */
    bool is_lowered; /* value and gradient are exchanged in 16 bits; their shards are float32 */
    int zero;        /* ZeRO stage that applies to this parameter: the mesh's stage, or 0 */
} mp_exchanged;

/* Parameters that are reduced or gathered together: list[first .. first+n). */
typedef struct mp_bucket {
    size_t first, n;
    int64_t bytes;
    int at; /* original node before or after which the bucket is inserted; for updated values an index into `sequence` */
    bool is_part, is_spread; /* the same as for each parameter of the bucket */
    bool is_staged;          /* true if it is true for a parameter of the bucket */
    int zero;
} mp_bucket;

typedef struct mp_exchange {
    mp_graph *graph;
    const mp_ranks *ranks;
    mp_rank_traffic traffic;
    mp_pool *pool;
    int64_t bucket_bytes, next_id; /* next_id: id of the next added storage */
    int zero, channel, n_storages; /* n_storages: number of storages of the original graph */
    size_t n_parameters, n_trained, n_sent, n_gathered, n_again;
    mp_exchanged *parameters; /* trained parameters in the order of their gradients' storages, then frozen ones */
    int *by_completion, *by_use, *by_use_again, *of_storage;
    int *sequence; /* the original nodes in their new list order. Updates follow the order of their buckets, so that updates of
                      the first bucket overlap with the transfer of the last */
    mp_bucket *sent, *gathered; /* gradient buckets, by completion; value buckets: with zero=3 by use, else like `sent` */
    mp_bucket *again;    /* buckets of values that are gathered again for backward, in the order of their use in backward */
    int *reads, *writes; /* storages that the node under construction reads and writes */
    mp_error *err;
} mp_exchange;

/* Returns the ranks over which parameters are sharded or replicated; for expert parameters the ranks with the same experts. */
mp_rank_group mp_exchange_group(const mp_exchange *x, mp_dim dim, bool is_spread);
/* True if a list of n storages contains this one. O(n). */
bool mp_exchange_has(const int *list, size_t n, int storage);
/* True if an exchange is necessary: a gradient is summed over ranks, or a storage is sharded. O(storages). */
bool mp_exchange_any(const mp_exchange *x);
/* Finds the parameters and fills the buckets of x, whose graph, ranks and pool must be set. Clears the marks of gradients
 * (is_part, is_spread). MP_INVALID: a parameter to be sharded has no update. MP_NOMEM. O(graph). */
mp_status mp_exchange_list(mp_exchange *x);
