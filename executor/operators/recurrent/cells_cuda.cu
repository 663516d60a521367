/* cells_cuda.cu - one step of LSTM, GRU and RNN cells and their gradients, one thread per element of a state. */
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/elementwise/elementwise_cuda.h"
#include "executor/operators/recurrent/cells_cuda.h"
}

namespace
{

struct one_step {
    mp_cells cells;
    MP_BODY void operator()(int64_t k) const { mp_cells_element(&cells, k / cells.hidden, k % cells.hidden); }
};

/* One thread per element of the hidden state; the thread sums over the batch in order. */
struct peepholes {
    mp_cells cells;
    MP_BODY void operator()(int64_t j) const { mp_cells_peepholes(&cells, j); }
};

struct filled {
    float *to, value;
    MP_BODY void operator()(int64_t k) const { to[k] = value; }
};

} // namespace

void mp_cuda_cells(const mp_cells *cells)
{
    if (cells->phase == MP_CELLS_PEEPHOLES)
        mp_each(cells->hidden, peepholes{*cells});
    else
        mp_each(cells->batch * cells->hidden, one_step{*cells});
}

void mp_cuda_cells_copy(const mp_array *from, const mp_array *to, bool add)
{
    if (add || from->dtype != to->dtype) /* adding an array is a sum with one term per element, which needs no workspace */
        mp_cuda_sum_to(from, to, 1, add, NULL);
    else
        mp_cuda_array_copy(from, to);
}

void mp_cuda_cells_fill(float *to, int64_t n, float value)
{
    mp_each(n, filled{to, value});
}
