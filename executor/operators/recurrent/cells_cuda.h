/* cells_cuda.h - LSTM, GRU and RNN cells, and copies of their arrays, on the GPU. All functions only enqueue. */
#pragma once

#include "executor/operators/recurrent/cells.h"

/* Runs one phase of a time step (executor/operators/recurrent/cells.h), one thread per element of a state. */
void mp_cuda_cells(const mp_cells *cells);
/* Implement `copy` and `fill` of mp_recurrent_engine. */
void mp_cuda_cells_copy(const mp_array *from, const mp_array *to, bool add);
void mp_cuda_cells_fill(float *to, int64_t n, float value);
