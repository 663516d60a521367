/* cells_cuda.h - cells and copies of recurrent layers on the GPU. All only enqueue. */
#pragma once

#include "executor/operators/recurrent/cells.h"

/* One phase of a step (executor/operators/recurrent/cells.h), an element of a state to a thread. */
void mp_cuda_cells(const mp_cells *cells);
/* What mp_recurrent_engine asks for. */
void mp_cuda_cells_copy(const mp_array *from, const mp_array *to, bool add);
void mp_cuda_cells_fill(float *to, int64_t n, float value);
