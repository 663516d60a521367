/* held.h - the tensors that outlive a step: parameters, buffers and optimizer moments. A rank may store only a part of a
 * tensor. A read returns the whole tensor on one rank or on all ranks. A write receives the whole tensor, and each rank stores
 * its part. */
#pragma once

#include "executor/run/execution.h"

/* True if a tensor is a parameter or buffer with its own values on this rank, as a whole or as a part. O(nodes). */
bool mp_is_held(const mp_program *program, const mp_execution *execution, int tensor);
/* index of the array with a tensor's values; the arrays of its optimizer moments have the following indices */
enum { MP_HELD_VALUES };
/* Returns the number of arrays of a tensor: its values, and its moments. O(nodes). */
int mp_held_arrays(const mp_program *program, const mp_execution *execution, int tensor);

/* The tensors that each rank holds, with values and moments. Stages of a pipeline hold different tensors. */
typedef struct mp_holders {
    int n_ranks;
    size_t n_tensors;
    /* counts of arrays: entry r * n_tensors + t is the number of arrays of tensor t that rank r holds; 0: none */
    const unsigned char *arrays;
} mp_holders;
/* mp_holders_arrays returns the number of arrays of a tensor that a rank holds. mp_holders_first returns the first rank that
 * holds the tensor, -1: none. */
static inline int mp_holders_arrays(const mp_holders *h, int rank, int tensor)
{
    return h->arrays[(size_t)rank * h->n_tensors + (size_t)tensor];
}
int mp_holders_first(const mp_holders *holders, int tensor);
/* With `all`, exchanges the lists of held tensors between all ranks, and waits for all ranks. Otherwise lists only this rank,
 * as rank 0. The lists are allocated in the pool. MP_NOMEM, MP_IO. O(tensors x (nodes + ranks)). */
mp_status mp_holders_of(const mp_program *program, mp_execution *execution, bool all, mp_pool *pool, mp_holders *out,
                        mp_error *err);

/* Copies an array to *host, as floats in row-major order. The values of a 16-bit parameter are taken from its master copy. If
 * the array is sharded, all ranks that hold parts must call the function. `root` is the rank that receives the array; -1: all
 * ranks receive it. On other ranks, *host may have no data. Waits for the result. MP_NOMEM, MP_IO. */
mp_status mp_held_read(const mp_program *program, mp_execution *execution, int tensor, int array, int root, mp_array *host,
                       mp_error *err);
/* Stores this rank's part of the row-major array *host. Values are also stored in the master copy. MP_NOMEM, MP_IO. */
mp_status mp_held_write(const mp_program *program, mp_execution *execution, int tensor, int array, const mp_array *host,
                        mp_error *err);
