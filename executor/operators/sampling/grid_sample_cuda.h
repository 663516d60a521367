/* grid_sample_cuda.h - GridSample (operators/sampling/grid_sample.h) on the GPU. All only enqueue. Private to executor/cuda/.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/gathers/row_entries.h"
#include "executor/operators/sampling/grid_sample.h"

/* GridSample, and its gradients. Sums go over a point's taps, over an element's taps in the order of points, and over a point's
 * taps and then channels; the rows are those elements, the entries all taps. False: there are too many to be counted. */
void mp_cuda_grid_sample(const mp_sampler *s, const mp_array *x, const mp_array *grid, const mp_array *y);
bool mp_cuda_grid_rows(const mp_sampler *s, const mp_array *x, mp_row_entries *rows);
int64_t mp_cuda_grid_room(const mp_row_entries *rows);
void mp_cuda_grid_spread(const mp_sampler *s, const mp_array *dx, const mp_array *grid, const mp_array *dy, void *room);
void mp_cuda_grid_move(const mp_sampler *s, const mp_array *x, const mp_array *grid, const mp_array *dy,
                       const mp_array *d_grid);

MP_C_END
