/* regions.h - regions of interest as small images of one size, RoiAlign and MaxRoiPool: where the bins of a region lie, and
 * what they read, for every backend.
 */
#pragma once

#include <math.h>

#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* `state` of their calls. */
typedef struct mp_regions {
    bool half_pixel, largest;
    double scale;
    int64_t sampling_ratio;
    int64_t height, width; /* of the output */
} mp_regions;

/* An mp_regions becomes the call's state; `run` and the workspace are the backend's. MP_UNSUPPORTED: types, a mode, or the
 * gradient of the largest; MP_NOMEM. */
mp_status mp_roi_align_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_max_roi_pool_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* Where the points of one bin of RoiAlign lie: `rows` x `columns` of them, from (top, left) on. */
typedef struct mp_bin {
    int64_t rows, columns;
    double top, left, row_step, column_step;
} mp_bin;

/* The bin of a region whose four corners lie at `at`, `stride` apart. */
MP_INLINE mp_bin mp_bin_of(const mp_regions *s, const void *corners, mp_dtype dtype, int64_t at, int64_t stride, int64_t row,
                           int64_t column)
{
    double corner[4], offset = s->half_pixel ? 0.5 : 0;
    for (int k = 0; k < 4; k++) corner[k] = (double)mp_load_float(corners, dtype, at + k * stride) * s->scale - offset;
    double width = corner[2] - corner[0], height = corner[3] - corner[1];
    if (!s->half_pixel) {
        width = fmax(width, 1.0);
        height = fmax(height, 1.0);
    }
    double bin_height = height / (double)s->height, bin_width = width / (double)s->width;
    mp_bin b;
    b.rows = s->sampling_ratio > 0 ? s->sampling_ratio : (int64_t)ceil(bin_height);
    b.columns = s->sampling_ratio > 0 ? s->sampling_ratio : (int64_t)ceil(bin_width);
    b.row_step = b.rows > 0 ? bin_height / (double)b.rows : 0;
    b.column_step = b.columns > 0 ? bin_width / (double)b.columns : 0;
    b.top = corner[1] + (double)row * bin_height + b.row_step / 2;
    b.left = corner[0] + (double)column * bin_width + b.column_step / 2;
    return b;
}

/* The element below a coordinate along an axis of `size` elements, and how far it lies behind it; false: it is outside. */
MP_INLINE bool mp_between(double at, int64_t size, int64_t *below, double *behind)
{
    if (!(at >= -1 && at <= (double)size)) return false;
    at = fmax(at, 0.0);
    *below = (int64_t)at;
    if (*below >= size - 1) at = (double)(*below = size - 1);
    *behind = at - (double)*below;
    return true;
}

/* The four elements around a point, and their weights; false: it lies outside. */
typedef struct mp_corners {
    int64_t row[4], column[4];
    float weight[4];
} mp_corners;

MP_INLINE bool mp_corners_of(double y, double x, int64_t height, int64_t width, mp_corners *c)
{
    int64_t top, left;
    double down, right;
    if (!mp_between(y, height, &top, &down) || !mp_between(x, width, &left, &right)) return false;
    for (int k = 0; k < 4; k++) {
        c->row[k] = k / 2 && top < height - 1 ? top + 1 : top;
        c->column[k] = k % 2 && left < width - 1 ? left + 1 : left;
        c->weight[k] = (float)((k / 2 ? down : 1 - down) * (k % 2 ? right : 1 - right));
    }
    return true;
}

/* MaxRoiPool: the elements [*first, *last) of an axis of `size` that bin k of n covers in a region from begin to end. */
MP_INLINE void mp_bin_span(int64_t begin, int64_t end, int64_t n, int64_t k, int64_t size, int64_t *first, int64_t *last)
{
    double step = fmax((double)(end - begin + 1), 1.0) / (double)n;
    *first = begin + (int64_t)floor((double)k * step);
    *last = begin + (int64_t)ceil((double)(k + 1) * step);
    *first = *first < 0 ? 0 : *first > size ? size : *first;
    *last = *last < 0 ? 0 : *last > size ? size : *last;
}

/* Its region at `at`: the image, then left, top, right, bottom. */
MP_INLINE void mp_region_read(const mp_regions *s, const void *regions, mp_dtype dtype, int64_t at, int64_t stride,
                              int64_t region[5])
{
    for (int e = 0; e < 5; e++) {
        const double v = (double)mp_load_float(regions, dtype, at + e * stride);
        region[e] = (int64_t)fmin(fmax(e ? round(v * s->scale) : v, -1e15), 1e15); /* nor is a NaN anywhere */
    }
}
