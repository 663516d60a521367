/* put.h - bytes that the host knows when a call runs, on their way to the device as parameters of kernels: nothing waits, and a
 * captured graph holds them. Private to executor/cuda/.
 */
#ifndef EXECUTOR_CUDA_PUT_H
#define EXECUTOR_CUDA_PUT_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdint.h>

/* to[0 .. n) = from[0 .. n), bytes of the program's memory that are read before this returns; one launch per 2 KB. Only
 * enqueues. */
void mp_cuda_put(const void *from, int64_t n, void *to);

#ifdef __cplusplus
}
#endif

#endif
