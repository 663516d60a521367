/* reductions.h - the operators among the reductions that have a file of their own: as mp_prepare. Private to executor/cuda/. */
#ifndef EXECUTOR_CUDA_REDUCTIONS_H
#define EXECUTOR_CUDA_REDUCTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/kernel/kernel.h"

mp_status mp_cuda_prepare_top_k(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_cuda_prepare_determinant(const mp_operands *x, mp_call *call, mp_error *err);

#ifdef __cplusplus
}
#endif

#endif
