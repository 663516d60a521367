/* buckets.h - which parameters of a training graph ranks exchange, and in which buckets: gradients in the order in which
 * backward completes them, values in that of their first use. A bucket's parameters are exchanged with the same ranks.
 */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/ranks/exchange.h"

/* A parameter: a trained one, or with zero=3 a frozen one, which has a value alone. Storages and nodes of the old list; -1:
 * none.
 */
typedef struct mp_exchanged {
    int value, gradient, state, update;
    int shard;       /* zero=3: the part of the value that is always here; zero<3: the part that the update makes */
    int reduced;     /* the gradient that the update reads: `gradient`, or the part of it that is left */
    int reduction;   /* what lets the update wait for the reduction of a gradient that always lives; -1: the gradient does */
    int complete;    /* the last node that makes or adds to the gradient */
    int used;        /* the first node besides updates that reads the value */
    int again;       /* the value as it is gathered once more for backward; -1: backward reads the first one */
    int used_again;  /* the first node of backward that reads the value */
    bool is_part;    /* the gradient is summed over tp as well */
    bool is_staged;  /* stages of a pipeline sum it, once in a step: of what is scattered pass by pass, this rank's part */
    bool is_spread;  /* of experts: shared out over ranks with the same ones */
    bool is_lowered; /* value and gradient are exchanged in 16 bits, and their parts are in float32 */
    int zero;        /* what is shared out of it: that of the mesh, or nothing */
} mp_exchanged;

/* Parameters that are sent or gathered together: list[first .. first+n). */
typedef struct mp_bucket {
    size_t first, n;
    int64_t bytes;
    int at;                  /* the old node before or behind which it is listed; of updated values a place in the sequence */
    bool is_part, is_spread; /* as its parameters */
    bool is_staged;          /* one of them is */
    int zero;
} mp_bucket;

typedef struct mp_exchange {
    mp_graph *graph;
    const mp_ranks *ranks;
    mp_rank_traffic traffic;
    mp_pool *pool;
    int64_t bucket_bytes, next_id; /* next_id: of a storage that is added */
    int zero, channel, n_storages; /* storages of the graph as it was */
    size_t n_parameters, n_trained, n_sent, n_gathered, n_again;
    mp_exchanged *parameters; /* the trained ones in the order of their gradients' storages, then the frozen ones */
    int *by_completion, *by_use, *by_use_again, *of_storage;
    int *sequence; /* the old nodes in the order in which they are listed anew: updates in that of their buckets, so that those
                    * of the first one run while the last one is on its way */
    mp_bucket *sent, *gathered; /* of gradients, by completion; of values: zero=3 by use, else as `sent` */
    mp_bucket *again;           /* of values that are gathered for backward, by their use there */
    int *reads, *writes;        /* of the node that is being made */
    mp_error *err;
} mp_exchange;

/* Returns the ranks over which parameters are shared out, or copied: of experts those that have the same ones. */
mp_rank_group mp_exchange_group(const mp_exchange *x, mp_dim dim, bool is_spread);
/* True if a list of n storages has this one. O(n). */
bool mp_exchange_has(const int *list, size_t n, int storage);
/* True if any gradient is summed over ranks, or anything is shared out. O(storages). */
bool mp_exchange_any(const mp_exchange *x);
/* Finds the parameters, and fills the buckets of x, whose graph, ranks and pool are set; gradients lose their marks.
 * MP_INVALID: a parameter that is to be shared out has no update; MP_NOMEM. O(graph). */
mp_status mp_exchange_list(mp_exchange *x);
