/* grid_sample.h - GridSample: X (N, C, D1..Dn) is read at the points of a grid (N, d1..dn, n), whose coordinates run from -1 to
 * 1 and name the last dimension first. What a point reads, and with which weights, for every backend.
 */
#pragma once

#include "executor/kernel/body.h"
#include "executor/operators/sampling/cubic.h"

/* The most spatial dimensions, taps along one of them and taps of a point; channels that one item samples. */
enum { MP_SAMPLER_SPACE = 3, MP_SAMPLER_TAPS = 4, MP_SAMPLER_POINT_TAPS = 64, MP_SAMPLER_CHANNELS = 16 };

typedef enum mp_sampler_padding { MP_SAMPLER_ZEROS, MP_SAMPLER_BORDER, MP_SAMPLER_REFLECTION } mp_sampler_padding;
typedef enum mp_sampler_mode { MP_SAMPLER_NEAREST, MP_SAMPLER_LINEAR, MP_SAMPLER_CUBIC } mp_sampler_mode;

/* The description of a GridSample. */
typedef struct mp_sampler {
    int n; /* spatial dimensions */
    mp_sampler_mode how;
    mp_sampler_padding padding;
    bool align_corners;
    int64_t n_points;        /* of a sample */
    int64_t n_blocks;        /* of channels */
    int per_axis, per_point; /* taps; per_point = per_axis ^ n */
    mp_array x, grid, y;     /* y: backward its gradient */
    mp_array dx, d_grid;     /* UNDEFINED: nobody asks for them */
} mp_sampler;

/* The description becomes the call's state. MP_UNSUPPORTED: a mode, a type or more dimensions than that; MP_NOMEM. */
mp_status mp_grid_sample_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Returns the description with the operands of this run. */
mp_sampler mp_sampler_of(const mp_call *call, const mp_operands *x);

/* Along one axis: the elements read (-1: none), their weights, and how the weights change with the grid's coordinate. */
typedef struct mp_sampler_axis {
    int64_t at[MP_SAMPLER_TAPS];
    double weight[MP_SAMPLER_TAPS], slope[MP_SAMPLER_TAPS];
} mp_sampler_axis;

/* x brought into [low, high] by reflection at both ends; *slope is 1 or -1 then. */
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

/* The per_axis taps of one coordinate along an axis of `size` elements. */
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

/* Tap k of a point, from those along its axes: where it lies by these strides, its weight, and the weight's slope along each
 * axis (NULL: not wanted). False: it reads nothing. */
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
    const int64_t at = sample * grid->strides[0] + mp_array_place(grid, 1, s->n + 1, point);
    for (int d = 0; d < s->n; d++) {
        const float coordinate = mp_array_load(grid, at + (s->n - 1 - d) * grid->strides[s->n + 1]);
        mp_sampler_along(s, (double)coordinate, s->x.dims[2 + d], &axes[d]);
    }
}

/* What one point reads: places, weights, and how the weights change along each axis. */
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

/* A block of channels of one point; n_blocks * n_points items a sample. */
MP_INLINE void mp_sampler_item(const mp_sampler *s, int64_t k)
{
    const mp_array *x = &s->x, *y = &s->y;
    const int64_t point = k % s->n_points, sample = k / s->n_points / s->n_blocks;
    const int64_t first = k / s->n_points % s->n_blocks * MP_SAMPLER_CHANNELS, left = x->dims[1] - first;
    const int64_t from = sample * x->strides[0] + first * x->strides[1];
    const int64_t to = sample * y->strides[0] + first * y->strides[1] + mp_array_place(y, 2, y->rank, point);
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

/* The gradient of the coordinates of one point: the sum over all channels; n_points items a sample. */
MP_INLINE void mp_sampler_move_item(const mp_sampler *s, int64_t k)
{
    const mp_array *x = &s->x, *dy = &s->y, *d = &s->d_grid;
    const int64_t sample = k / s->n_points, point = k % s->n_points;
    const int64_t from = sample * x->strides[0], out = sample * dy->strides[0] + mp_array_place(dy, 2, dy->rank, point);
    const int64_t to = sample * d->strides[0] + mp_array_place(d, 1, s->n + 1, point);
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
