/* engine_cuda.c - the GPU's tables of elementwise operators, and its engine (mp_engine), which runs their formulas. */
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/elementwise/elementwise_cuda.h"

static const mp_engine engine = {mp_cuda_floats, mp_cuda_whole, mp_cuda_sum_to, mp_cuda_sum_workspace_bytes, mp_cuda_launched};

#define MP_ENGINE &engine
#define MP_UNARIES mp_cuda_unaries
#define MP_BINARIES mp_cuda_binaries
#include "executor/operators/elementwise/elementwise_tables.h"
