/* nccl_calls.h - declarations of the NCCL functions in use, so that the build needs neither NCCL's header nor CUDA's. The
 * library is loaded when devices are joined. If <nccl.h> is included before this file, the declarations use NCCL's own types
 * (tests/nccl/test_nccl_calls.c compares them).
 *
 * NCCL's enumerations are declared as unsigned integers, the compatible type. */
#pragma once

#include <stddef.h>

#ifndef NCCL_UNIQUE_ID_BYTES
typedef struct {
    char internal[128];
} ncclUniqueId;
#endif

enum { MP_NCCL_SUCCESS = 0, MP_NCCL_SUM = 0, MP_NCCL_INT8 = 0, MP_NCCL_FLOAT32 = 7, MP_NCCL_BFLOAT16 = 9 };

/* The list of NCCL functions: CALL(type of the result, name, types of the arguments). */
#define MP_NCCL_CALLS(CALL)                                                                                                    \
    CALL(unsigned, ncclGetVersion, (int *))                                                                                    \
    CALL(unsigned, ncclGetUniqueId, (ncclUniqueId *))                                                                          \
    CALL(unsigned, ncclCommInitRank, (struct ncclComm **, int, ncclUniqueId, int))                                             \
    CALL(unsigned, ncclCommDestroy, (struct ncclComm *))                                                                       \
    CALL(unsigned, ncclCommAbort, (struct ncclComm *))                                                                         \
    CALL(unsigned, ncclCommGetAsyncError, (struct ncclComm *, unsigned *))                                                     \
    CALL(const char *, ncclGetErrorString, (unsigned))                                                                         \
    CALL(unsigned, ncclGroupStart, (void))                                                                                     \
    CALL(unsigned, ncclGroupEnd, (void))                                                                                       \
    CALL(unsigned, ncclSend, (const void *, size_t, unsigned, int, struct ncclComm *, struct CUstream_st *))                   \
    CALL(unsigned, ncclRecv, (void *, size_t, unsigned, int, struct ncclComm *, struct CUstream_st *))                         \
    CALL(unsigned, ncclBroadcast, (const void *, void *, size_t, unsigned, int, struct ncclComm *, struct CUstream_st *))      \
    CALL(unsigned, ncclReduce,                                                                                                 \
         (const void *, void *, size_t, unsigned, unsigned, int, struct ncclComm *, struct CUstream_st *))                     \
    CALL(unsigned, ncclAllReduce, (const void *, void *, size_t, unsigned, unsigned, struct ncclComm *, struct CUstream_st *)) \
    CALL(unsigned, ncclReduceScatter,                                                                                          \
         (const void *, void *, size_t, unsigned, unsigned, struct ncclComm *, struct CUstream_st *))                          \
    CALL(unsigned, ncclAllGather, (const void *, void *, size_t, unsigned, struct ncclComm *, struct CUstream_st *))
struct ncclComm;
struct CUstream_st;
