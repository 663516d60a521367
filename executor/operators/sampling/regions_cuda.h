/* regions_cuda.h - regions of interest (operators/sampling/regions.h) on the GPU. All only enqueue. Private to executor/cuda/.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/sampling/regions.h"

/* RoiAlign, the gradient of its averages, MaxRoiPool. Regions of images that are not there read zero and give nothing. Backward
 * costs O(elements of dx times regions). */
void mp_cuda_roi_align(const mp_regions *s, const mp_array *x, const mp_array *rois, const mp_array *of, const mp_array *y);
void mp_cuda_roi_spread(const mp_regions *s, const mp_array *dx, const mp_array *rois, const mp_array *of, const mp_array *dy);
void mp_cuda_roi_pool(const mp_regions *s, const mp_array *x, const mp_array *rois, const mp_array *y);

MP_C_END
