/* held.h - what outlives a step: the values and moments of a tensor, of which a rank of many may have a part. They are read
 * whole, by one rank or by all, and written from a whole, of which each takes what it has. */
#pragma once

#include "executor/run/execution.h"

/* True if a tensor is a parameter or buffer with values of its own, as a whole or in parts. O(nodes). */
bool mp_is_held(const mp_program *program, const mp_execution *execution, int tensor);
enum { MP_HELD_VALUES }; /* the first array; moments follow */
/* Returns how many arrays there are of it: its values, and its moments. O(nodes). */
int mp_held_arrays(const mp_program *program, const mp_execution *execution, int tensor);

/* Which rank has what: stages of a pipeline hold different tensors. */
typedef struct mp_holders {
    int n_ranks;
    size_t n_tensors;
    const unsigned char *arrays; /* of rank r and tensor t, at r * n_tensors + t: how many arrays it holds of it; 0: none */
} mp_holders;
/* Returns how many arrays a rank has of a tensor; and the first rank that has any, -1: none. */
static inline int mp_holders_arrays(const mp_holders *h, int rank, int tensor)
{
    return h->arrays[(size_t)rank * h->n_tensors + (size_t)tensor];
}
int mp_holders_first(const mp_holders *holders, int tensor);
/* Asks all ranks, and waits for them; or lists this one alone, as rank 0. The lists lie in the pool. MP_NOMEM, MP_IO.
 * O(tensors x (nodes + ranks)). */
mp_status mp_holders_of(const mp_program *program, mp_execution *execution, bool all, mp_pool *pool, mp_holders *out,
                        mp_error *err);

/* Copies an array to *host, in float and row-major; of a 16-bit parameter the values are those of its master copy. Where ranks
 * have parts, all of them call it, and `root` says which of them gets it, -1: each; others may have a host without data. Waits
 * for it. MP_NOMEM, MP_IO. */
mp_status mp_held_read(const mp_program *program, mp_execution *execution, int tensor, int array, int root, mp_array *host,
                       mp_error *err);
/* Takes from *host, row-major, what this rank has of an array; values go to the master copy, too. MP_NOMEM, MP_IO. */
mp_status mp_held_write(const mp_program *program, mp_execution *execution, int tensor, int array, const mp_array *host,
                        mp_error *err);
