/* twin_recurrents.h - recurrent layers of the twin: the GPU's own cells, and loops in the place of cublasLt's products. Private
 * to executor/cuda/. */
#ifndef EXECUTOR_CUDA_TWIN_RECURRENTS_H
#define EXECUTOR_CUDA_TWIN_RECURRENTS_H

#include "executor/kernel/kernel.h"

extern const mp_kernel mp_twin_recurrents[]; /* LSTM, GRU, RNN; ended by a row without a kind */

#endif
