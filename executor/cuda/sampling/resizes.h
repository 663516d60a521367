/* samplings.h - Resize, Upsample, GridSample and regions of interest on the GPU. All only enqueue. Private to executor/cuda/.
 */
#ifndef EXECUTOR_CUDA_SAMPLINGS_H
#define EXECUTOR_CUDA_SAMPLINGS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/operators/gathers/row_entries.h"
#include "executor/operators/sampling/grid_sample.h"
#include "executor/operators/sampling/regions.h"
#include "executor/operators/sampling/resizing.h"

/* The most dimensions that are resized at once. */
enum { MP_CUDA_RESIZED = 4 };

/* Each position of `to` blends those of `from` that the tables name; the tables are brought to the room first. */
void mp_cuda_resize(const mp_resizing *resizing, const mp_array *from, const mp_array *to, void *room);
int64_t mp_cuda_resize_room(const mp_resizing *resizing);

/* GridSample, and its gradients. Sums go over a point's taps, over an element's taps in the order of points, and over a point's
 * taps and then channels; the rows are those elements, the entries all taps. False: there are too many to be counted. */
void mp_cuda_grid_sample(const mp_sampler *s, const mp_array *x, const mp_array *grid, const mp_array *y);
bool mp_cuda_grid_rows(const mp_sampler *s, const mp_array *x, mp_row_entries *rows);
int64_t mp_cuda_grid_room(const mp_row_entries *rows);
void mp_cuda_grid_spread(const mp_sampler *s, const mp_array *dx, const mp_array *grid, const mp_array *dy, void *room);
void mp_cuda_grid_move(const mp_sampler *s, const mp_array *x, const mp_array *grid, const mp_array *dy,
                       const mp_array *d_grid);

/* RoiAlign, the gradient of its averages, MaxRoiPool. Regions of images that are not there read zero and give nothing. Backward
 * costs O(elements of dx times regions). */
void mp_cuda_roi_align(const mp_regions *s, const mp_array *x, const mp_array *rois, const mp_array *of, const mp_array *y);
void mp_cuda_roi_spread(const mp_regions *s, const mp_array *dx, const mp_array *rois, const mp_array *of, const mp_array *dy);
void mp_cuda_roi_pool(const mp_regions *s, const mp_array *x, const mp_array *rois, const mp_array *y);

#ifdef __cplusplus
}
#endif

#endif
