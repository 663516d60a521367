/* regions.h - regions of interest as small images of one size, RoiAlign and MaxRoiPool: where the bins of a region lie, and
 * what they read, for every backend.
 */
#pragma once

#include "executor/kernel/body.h"

/* Images (N, C, H, W), regions with the numbers of their images, and a small image (region, C, height, width) of each. */
typedef struct mp_regions {
    bool half_pixel, largest;
    double scale;
    int64_t sampling_ratio;
    int64_t height, width;      /* of the output */
    mp_array x, corners, of, y; /* backward the gradients of x and y; of: MaxRoiPool has the image's number in the corners */
} mp_regions;
typedef mp_regions mp_max_roi_pool;

/* The description becomes the call's state. MP_UNSUPPORTED: types, a mode, or the gradient of the largest; MP_NOMEM. */
mp_status mp_roi_align_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_max_roi_pool_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_max_roi_pool_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);
/* MP_INVALID: regions of images that are not there; their output is 0 where nobody checks. */
mp_status mp_roi_align_check(const mp_operands *x, mp_error *err);
mp_status mp_max_roi_pool_check(const mp_operands *x, mp_error *err);
/* Returns the description with the operands of this run. */
mp_regions mp_regions_of(const mp_call *call, const mp_operands *x);

/* The coordinates of the k-th element of (N, C, H, W), of which neighbours lie side by side; returns its place. */
MP_INLINE int64_t mp_image_element(const mp_array *a, int64_t k, int64_t at[4])
{
    const bool channels_last = a->strides[1] == 1 && a->dims[1] > 1;
    if (channels_last) {
        at[1] = k % a->dims[1];
        k /= a->dims[1];
    }
    at[3] = k % a->dims[3];
    k /= a->dims[3];
    at[2] = k % a->dims[2];
    k /= a->dims[2];
    if (!channels_last) {
        at[1] = k % a->dims[1];
        k /= a->dims[1];
    }
    at[0] = k;
    return at[0] * a->strides[0] + at[1] * a->strides[1] + at[2] * a->strides[2] + at[3] * a->strides[3];
}

MP_INLINE int64_t mp_region_image(const mp_regions *s, int64_t region)
{
    return mp_load_whole(s->of.data, s->of.dtype, region * s->of.strides[0]);
}

/* Where the points of one bin of RoiAlign lie: `rows` x `columns` of them, from (top, left) on. */
typedef struct mp_bin {
    int64_t rows, columns;
    double top, left, row_step, column_step;
} mp_bin;

MP_INLINE mp_bin mp_bin_of(const mp_regions *s, int64_t region, int64_t row, int64_t column)
{
    double corner[4], offset = s->half_pixel ? 0.5 : 0;
    for (int k = 0; k < 4; k++) {
        const int64_t at = region * s->corners.strides[0] + k * s->corners.strides[1];
        corner[k] = (double)mp_array_load(&s->corners, at) * s->scale - offset;
    }
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

/* The four elements around a point, and their weights; false: the point lies outside. */
typedef struct mp_corners {
    int64_t row[4], column[4];
    float weight[4];
} mp_corners;

MP_INLINE bool mp_corners_of(const mp_bin *b, int64_t p, int64_t height, int64_t width, mp_corners *c)
{
    int64_t top, left;
    double down, right;
    if (!mp_between(b->top + (double)(p / b->columns) * b->row_step, height, &top, &down)) return false;
    if (!mp_between(b->left + (double)(p % b->columns) * b->column_step, width, &left, &right)) return false;
    for (int k = 0; k < 4; k++) {
        c->row[k] = k / 2 && top < height - 1 ? top + 1 : top;
        c->column[k] = k % 2 && left < width - 1 ? left + 1 : left;
        c->weight[k] = (float)((k / 2 ? down : 1 - down) * (k % 2 ? right : 1 - right));
    }
    return true;
}

/* Element k of the output of RoiAlign: the average or the largest of a bin's points. A region of no image is zero. */
MP_INLINE void mp_roi_align_item(const mp_regions *s, int64_t k)
{
    const mp_array *x = &s->x;
    int64_t at[4], to = mp_image_element(&s->y, k, at), image = mp_region_image(s, at[0]);
    const mp_bin b = mp_bin_of(s, at[0], at[2], at[3]);
    const int64_t count = b.rows * b.columns, base = image * x->strides[0] + at[1] * x->strides[1];
    double sum = 0, most = -INFINITY;
    if (image < 0 || image >= x->dims[0] || count <= 0) {
        mp_array_store(&s->y, to, 0);
        return;
    }
    for (int64_t p = 0; p < count; p++) {
        mp_corners c;
        if (!mp_corners_of(&b, p, x->dims[2], x->dims[3], &c)) {
            most = fmax(most, 0.0);
            continue;
        }
        for (int e = 0; e < 4; e++) {
            const float value = mp_array_load(x, base + c.row[e] * x->strides[2] + c.column[e] * x->strides[3]);
            const double v = (double)c.weight[e] * (double)value;
            sum += v;
            most = fmax(most, v);
        }
    }
    mp_array_store(&s->y, to, (float)(s->largest ? most : sum / (double)count));
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

/* Element k of the output of MaxRoiPool: the largest of a bin's elements; 0 where there are none. */
MP_INLINE void mp_max_roi_pool_item(const mp_regions *s, int64_t k)
{
    const mp_array *x = &s->x;
    int64_t at[4], region[5], top, bottom, left, right, to = mp_image_element(&s->y, k, at);
    for (int e = 0; e < 5; e++) { /* the image, then left, top, right, bottom */
        const double v = (double)mp_array_load(&s->corners, at[0] * s->corners.strides[0] + e * s->corners.strides[1]);
        region[e] = (int64_t)fmin(fmax(e ? round(v * s->scale) : v, -1e15), 1e15); /* nor is a NaN anywhere */
    }
    mp_bin_span(region[2], region[4], s->height, at[2], x->dims[2], &top, &bottom);
    mp_bin_span(region[1], region[3], s->width, at[3], x->dims[3], &left, &right);
    if (region[0] < 0 || region[0] >= x->dims[0]) bottom = top;
    const int64_t base = region[0] * x->strides[0] + at[1] * x->strides[1];
    float most = top < bottom && left < right ? -INFINITY : 0;
    for (int64_t i = top; i < bottom; i++)
        for (int64_t j = left; j < right; j++)
            most = fmaxf(most, mp_array_load(x, base + i * x->strides[2] + j * x->strides[3]));
    mp_array_store(&s->y, to, most);
}
