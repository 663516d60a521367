/* pools.h - pooling on the GPU. All only enqueue. Private to executor/cuda/. */
#ifndef EXECUTOR_CUDA_POOLS_H
#define EXECUTOR_CUDA_POOLS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/cpu/pools.h"

enum { MP_CUDA_SPACE = 3 }; /* the most spatial dimensions */

/* `where` (MaxPool; NULL: nobody wants it): the saved indices, one per output. `given` (NULL): the operator's second output. */
void mp_cuda_pool(const mp_pooling *pooling, const mp_array *x, const mp_array *y, void *where, const mp_array *given);
/* dx (+)= what its windows give it. x and y are read by norms alone, `where` by MaxPool. */
void mp_cuda_pool_back(const mp_pooling *pooling, const mp_array *x, const mp_array *y, const void *where, const mp_array *dy,
                       const mp_array *dx, bool add);

#ifdef __cplusplus
}
#endif

#endif
