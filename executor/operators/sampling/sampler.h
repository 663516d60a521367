/* sampler.h - operators that sample images at positions between elements (GridSample, RoiAlign, MaxRoiPool), for every
 * backend. A tap is an element that a sample reads, with its weight.
 *
 * GridSample: X (N, C, D1..Dn) is sampled at the points of a grid (N, d1..dn, n). Coordinates range from -1 to 1; the first
 * coordinate of a point belongs to the last dimension of X. RoiAlign and MaxRoiPool: each region of interest is divided into
 * bins, which become the elements of a small output image. */
#pragma once

#include "executor/kernel/body.h"
#include "executor/operators/sampling/cubic.h"

/* Limits: spatial dimensions; taps (elements that a point reads) along one dimension, and of a point; channels sampled by one
 * item. */
enum { MP_SAMPLER_SPACE = 3, MP_SAMPLER_TAPS = 4, MP_SAMPLER_POINT_TAPS = 64, MP_SAMPLER_CHANNELS = 16 };

typedef enum mp_sampler_padding { MP_SAMPLER_ZEROS, MP_SAMPLER_BORDER, MP_SAMPLER_REFLECTION } mp_sampler_padding;
typedef enum mp_sampler_mode { MP_SAMPLER_NEAREST, MP_SAMPLER_LINEAR, MP_SAMPLER_CUBIC } mp_sampler_mode;

/* The description of a GridSample. */
typedef struct mp_sampler {
    int n; /* number of spatial dimensions */
    mp_sampler_mode how;
    mp_sampler_padding padding;
    bool align_corners;
    int64_t n_points; /* number of grid points per sample of the batch */
    int64_t n_blocks; /* number of blocks into which the channels are divided, MP_SAMPLER_CHANNELS each */
    /* number of taps (elements that a point reads) along an axis, and of a point: per_point = per_axis ^ n */
    int per_axis, per_point;
    mp_array x, grid, y; /* y: in backward, its gradient */
    mp_array dx, d_grid; /* gradients of X and of the grid; dtype UNDEFINED: not requested */
} mp_sampler;

/* Prepares a call of GridSample, whose state is an mp_sampler. MP_UNSUPPORTED: the mode or the type is not supported, or there
 * are too many dimensions; MP_NOMEM. */
mp_status mp_grid_sample_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Returns the call's mp_sampler, completed by the operands of the current run. */
mp_sampler mp_sampler_of(const mp_call *call, const mp_operands *x);

/* The taps (elements that a point reads) along one axis: element indices (-1: outside), weights, and the derivatives of the
 * weights with respect to the grid's coordinate. */
typedef struct mp_sampler_axis {
    int64_t at[MP_SAMPLER_TAPS];
    double weight[MP_SAMPLER_TAPS], slope[MP_SAMPLER_TAPS];
} mp_sampler_axis;

/* Returns x reflected at both ends into [low, high]; *slope is the derivative, 1 or -1. Returned value and slope are 0 if
 * the interval is empty. */
MP_INLINE double mp_sampler_reflect(double x, double low, double high, double *slope)
{
    double span = high - low, from = x - low, sign = from < 0 ? -1 : 1;
    if (span <= 0) {
        *slope = 0;
        return 0;
    }
    from = fabs(from);
    double extra = fmod(from, span), flips = floor(from / span);
    bool odd = fmod(flips, 2.0) != 0;
    *slope = odd ? -sign : sign;
    return odd ? high - extra : extra + low;
}

MP_INLINE double mp_sampler_inside(const mp_sampler *s, double x, int64_t size, double *slope)
{
    double own = 1;
    *slope = 1;
    if (s->padding == MP_SAMPLER_REFLECTION)
        x = s->align_corners ? mp_sampler_reflect(x, 0, (double)(size - 1), slope)
                             : mp_sampler_reflect(x, -0.5, (double)size - 0.5, slope);
    if (s->padding != MP_SAMPLER_ZEROS) {
        if (!(x > 0)) x = 0, own = 0;
        if (x >= (double)(size - 1)) x = (double)(size - 1), own = 0;
    }
    *slope *= own;
    return x;
}

MP_INLINE void mp_sampler_put(mp_sampler_axis *t, int k, double at, int64_t size, double weight, double slope)
{
    t->at[k] = at >= 0 && at < (double)size ? (int64_t)at : -1;
    t->weight[k] = weight;
    t->slope[k] = slope;
}

/* Computes the taps of one coordinate along an axis of `size` elements: the per_axis elements that are read, with weights. */
MP_INLINE void mp_sampler_along(const mp_sampler *s, double coordinate, int64_t size, mp_sampler_axis *t)
{
    double scale = (double)(s->align_corners ? size - 1 : size) / 2, slope;
    double x = (coordinate + 1) * scale - (s->align_corners ? 0 : 0.5);
    if (s->how == MP_SAMPLER_CUBIC) {
        double base = floor(x), weights[4], slopes[4], ignored;
        mp_cubic_weights(x - base, -0.75, weights, slopes);
        for (int k = 0; k < 4; k++)
            mp_sampler_put(t, k, nearbyint(mp_sampler_inside(s, base + k - 1, size, &ignored)), size, weights[k],
                           slopes[k] * scale);
        return;
    }
    x = mp_sampler_inside(s, x, size, &slope);
    if (s->how == MP_SAMPLER_NEAREST) {
        mp_sampler_put(t, 0, nearbyint(x), size, 1, 0);
        return;
    }
    double base = floor(x), ratio = x - base;
    mp_sampler_put(t, 0, base, size, 1 - ratio, -slope * scale);
    mp_sampler_put(t, 1, base + 1, size, ratio, slope * scale);
}

/* Computes tap k of a point from the taps along its axes: its offset in an array with strides `strides`, its weight, and the
 * derivative of the weight along each axis (slope NULL: not requested). Returns false if the tap is outside of the image. */
MP_INLINE bool mp_sampler_tap(const mp_sampler *s, const mp_sampler_axis *axes, int k, const int64_t *strides, int64_t *at,
                              float *weight, float *slope)
{
    int chosen[MP_SAMPLER_SPACE] = {0};
    double product = 1;
    bool there = true;
    *at = 0;
    for (int d = s->n - 1; d >= 0; d--) {
        chosen[d] = k % s->per_axis;
        k /= s->per_axis;
        there = there && axes[d].at[chosen[d]] >= 0;
        *at += axes[d].at[chosen[d]] * strides[d];
    }
    for (int d = 0; d < s->n; d++) product *= axes[d].weight[chosen[d]];
    *weight = (float)product;
    for (int d = 0; slope && d < s->n; d++) {
        double own = axes[d].slope[chosen[d]];
        for (int e = 0; e < s->n; e++)
            if (e != d) own *= axes[e].weight[chosen[e]];
        slope[d] = (float)own;
    }
    return there;
}

MP_INLINE void mp_sampler_axes(const mp_sampler *s, int64_t sample, int64_t point, mp_sampler_axis axes[MP_SAMPLER_SPACE])
{
    const mp_array *grid = &s->grid;
    const int64_t at = sample * grid->strides[0] + mp_array_offset(grid, 1, s->n + 1, point);
    for (int d = 0; d < s->n; d++) {
        const float coordinate = mp_array_load(grid, at + (s->n - 1 - d) * grid->strides[s->n + 1]);
        mp_sampler_along(s, (double)coordinate, s->x.dims[2 + d], &axes[d]);
    }
}

/* The taps (elements that a point reads): offsets, weights, and the derivatives of the weights along each axis. */
typedef struct mp_sampler_point {
    int n;
    int64_t at[MP_SAMPLER_POINT_TAPS];
    float weight[MP_SAMPLER_POINT_TAPS], slope[MP_SAMPLER_POINT_TAPS][MP_SAMPLER_SPACE];
} mp_sampler_point;

MP_INLINE void mp_sampler_point_of(const mp_sampler *s, int64_t sample, int64_t point, const int64_t *strides, bool slopes,
                                   mp_sampler_point *p)
{
    mp_sampler_axis axes[MP_SAMPLER_SPACE];
    mp_sampler_axes(s, sample, point, axes);
    p->n = 0;
    for (int t = 0; t < s->per_point; t++)
        if (mp_sampler_tap(s, axes, t, strides, &p->at[p->n], &p->weight[p->n], slopes ? p->slope[p->n] : NULL)) p->n++;
}

/* Computes item k of forward: a block of channels at one point. A sample of the batch has n_blocks * n_points items. */
MP_INLINE void mp_sampler_item(const mp_sampler *s, int64_t k)
{
    const mp_array *x = &s->x, *y = &s->y;
    const int64_t point = k % s->n_points, sample = k / s->n_points / s->n_blocks;
    const int64_t first = k / s->n_points % s->n_blocks * MP_SAMPLER_CHANNELS, left = x->dims[1] - first;
    const int64_t from = sample * x->strides[0] + first * x->strides[1];
    const int64_t to = sample * y->strides[0] + first * y->strides[1] + mp_array_offset(y, 2, y->rank, point);
    mp_sampler_axis axes[MP_SAMPLER_SPACE];
    float sums[MP_SAMPLER_CHANNELS] = {0};
    mp_sampler_axes(s, sample, point, axes);
    for (int t = 0; t < s->per_point; t++) {
        int64_t at;
        float weight;
        if (!mp_sampler_tap(s, axes, t, x->strides + 2, &at, &weight, NULL)) continue;
        for (int c = 0; c < MP_SAMPLER_CHANNELS; c++)
            if (c < left) sums[c] += weight * mp_array_load(x, from + at + c * x->strides[1]);
    }
    for (int c = 0; c < MP_SAMPLER_CHANNELS; c++)
        if (c < left) mp_array_store(y, to + c * y->strides[1], sums[c]);
}

/* Computes the gradient of the coordinates of one point, a sum over all channels. A sample of the batch has n_points items. */
MP_INLINE void mp_sampler_move_item(const mp_sampler *s, int64_t k)
{
    const mp_array *x = &s->x, *dy = &s->y, *d = &s->d_grid;
    const int64_t sample = k / s->n_points, point = k % s->n_points;
    const int64_t from = sample * x->strides[0], out = sample * dy->strides[0] + mp_array_offset(dy, 2, dy->rank, point);
    const int64_t to = sample * d->strides[0] + mp_array_offset(d, 1, s->n + 1, point);
    mp_sampler_point p;
    double sums[MP_SAMPLER_SPACE] = {0};
    mp_sampler_point_of(s, sample, point, x->strides + 2, true, &p);
    for (int64_t c = 0; c < x->dims[1]; c++) {
        const double g = (double)mp_array_load(dy, out + c * dy->strides[1]);
        for (int t = 0; t < p.n; t++) {
            const double v = g * (double)mp_array_load(x, from + c * x->strides[1] + p.at[t]);
            for (int e = 0; e < s->n; e++) sums[e] += v * (double)p.slope[t][e];
        }
    }
    for (int e = 0; e < s->n; e++) mp_array_store(d, to + (s->n - 1 - e) * d->strides[s->n + 1], (float)sums[e]);
}

/* ---- regions. */

/* A RoiAlign or MaxRoiPool: images x (N, C, H, W), regions with image indices, output y (region, C, height, width). */
typedef struct mp_regions {
    bool half_pixel, largest;
    double scale;
    int64_t sampling_ratio;
    int64_t height, width; /* height and width of the output */
    mp_array x, corners, of,
        /* x, y: images and output, in backward their gradients; of: image indices, which for MaxRoiPool are part of
         * `corners` */
        y;
} mp_regions;
typedef mp_regions mp_max_roi_pool;

/* Prepare calls of RoiAlign and MaxRoiPool, whose state is an mp_regions. MP_UNSUPPORTED: the type or mode is not supported, or
 * the gradient of mode "max" is requested; MP_NOMEM. */
mp_status mp_roi_align_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_max_roi_pool_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_max_roi_pool_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);
/* Check the image indices of all regions. MP_INVALID: an image does not exist. The GPU does not check indices: the output of a
 * region whose image does not exist is 0. */
mp_status mp_roi_align_check(const mp_operands *x, mp_error *err);
mp_status mp_max_roi_pool_check(const mp_operands *x, mp_error *err);
/* Returns the call's mp_regions, completed by the operands of the current run. */
mp_regions mp_regions_of(const mp_call *call, const mp_operands *x);

/* Computes the coordinates of element k of (N, C, H, W), counted in memory order; returns its offset. */
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

/* The sample points of one bin of RoiAlign: `rows` x `columns` points. The first is at (top, left); the others follow at
 * distances row_step and column_step. */
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

/* Finds the element at or before a coordinate along an axis of `size` elements, and the coordinate's distance from this
 * element. Returns false if the coordinate is outside of the axis. */
MP_INLINE bool mp_between(double at, int64_t size, int64_t *below, double *behind)
{
    if (!(at >= -1 && at <= (double)size)) return false;
    at = fmax(at, 0.0);
    *below = (int64_t)at;
    if (*below >= size - 1) at = (double)(*below = size - 1);
    *behind = at - (double)*below;
    return true;
}

/* The four elements around a point, and their weights. mp_corners_of returns false if the point is outside of the image. */
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

/* Computes element k of the output of RoiAlign: the average over a bin, or, in mode "max", the largest weighted element. 0 if
 * the image does not exist. */
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

/* MaxRoiPool divides a region into n bins per axis. Finds the elements [*first, *last) that bin k covers, on an axis of `size`
 * elements with a region from `begin` to `end`. */
MP_INLINE void mp_bin_span(int64_t begin, int64_t end, int64_t n, int64_t k, int64_t size, int64_t *first, int64_t *last)
{
    double step = fmax((double)(end - begin + 1), 1.0) / (double)n;
    *first = begin + (int64_t)floor((double)k * step);
    *last = begin + (int64_t)ceil((double)(k + 1) * step);
    *first = *first < 0 ? 0 : *first > size ? size : *first;
    *last = *last < 0 ? 0 : *last > size ? size : *last;
}

/* Computes element k of the output of MaxRoiPool: the largest element of a bin; 0 if the bin is empty. */
MP_INLINE void mp_max_roi_pool_item(const mp_regions *s, int64_t k)
{
    const mp_array *x = &s->x;
    int64_t at[4], region[5], top, bottom, left, right, to = mp_image_element(&s->y, k, at);
    for (int e = 0; e < 5; e++) { /* the five numbers of a region: image index, left, top, right, bottom */
        const double v = (double)mp_array_load(&s->corners, at[0] * s->corners.strides[0] + e * s->corners.strides[1]);
        region[e] = (int64_t)fmin(fmax(e ? round(v * s->scale) : v, -1e15),
                                  1e15); /* the limits of 1e15 keep the value within int64_t; they turn a NaN into -1e15 */
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
