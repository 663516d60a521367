/* twin_recurrents.h - recurrent layers of the twin: the GPU's own cells, and loops instead of cublasLt's products. Private to
 * executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

extern const mp_kernel mp_twin_recurrents[]; /* LSTM, GRU, RNN; ended by a row without a kind */
