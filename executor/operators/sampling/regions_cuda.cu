/* regions_cuda.cu - RoiAlign and MaxRoiPool (executor/operators/sampling/regions.h): one output element to a thread; backward,
 * one element of the images looks at all regions, in their order.
 */
#include "executor/cuda/grid/grid.cuh"

#include "executor/operators/sampling/regions_cuda.h"

namespace
{

/* A tensor (N, C, H, W). */
struct images {
    void *data;
    mp_dtype dtype;
    bool is_last; /* neighbouring elements are of neighbouring channels */
    int64_t dims[4], strides[4];

    /* The coordinates of the k-th element in the order of memory; returns its place. */
    MP_BODY int64_t find(int64_t k, int64_t *at) const
    {
        if (is_last) {
            at[1] = k % dims[1];
            k /= dims[1];
        }
        at[3] = k % dims[3];
        k /= dims[3];
        at[2] = k % dims[2];
        k /= dims[2];
        if (!is_last) {
            at[1] = k % dims[1];
            k /= dims[1];
        }
        at[0] = k;
        return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
    }
    MP_BODY float load(int64_t at) const { return mp_load_any(data, dtype, at); }
    MP_BODY void store(int64_t at, float value) const { mp_store_any(data, dtype, at, value); }
};

static images images_of(const mp_array *a)
{
    images t = {a->data, a->dtype, a->strides[1] == 1 && a->dims[1] > 1, {0, 0, 0, 0}, {0, 0, 0, 0}};
    for (int d = 0; d < 4; d++) {
        t.dims[d] = a->dims[d];
        t.strides[d] = a->strides[d];
    }
    return t;
}

/* The regions of RoiAlign, with the images that they are of. */
struct regions {
    mp_regions s;
    const void *corners, *of;
    mp_dtype dtype, of_dtype;
    int64_t n, region_stride, corner_stride, of_stride;

    MP_BODY int64_t image(int64_t region) const { return mp_load_any_whole(of, of_dtype, region * of_stride); }
    MP_BODY mp_bin bin(int64_t region, int64_t row, int64_t column) const
    {
        return mp_bin_of(&s, corners, dtype, region * region_stride, corner_stride, row, column);
    }
};

static regions regions_of(const mp_regions *s, const mp_array *rois, const mp_array *of)
{
    return regions{
        *s, rois->data, of->data, rois->dtype, of->dtype, rois->dims[0], rois->strides[0], rois->strides[1], of->strides[0]};
}

struct aligned_regions {
    regions r;
    images x, y;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t at[4];
        const int64_t to = y.find(k, at), image = r.image(at[0]);
        const mp_bin b = r.bin(at[0], at[2], at[3]);
        const int64_t count = b.rows * b.columns;
        double sum = 0, most = -INFINITY;
        if (image < 0 || image >= x.dims[0] || count <= 0) {
            y.store(to, 0);
            return;
        }
        const int64_t base = image * x.strides[0] + at[1] * x.strides[1];
        for (int64_t p = 0; p < count; p++) {
            mp_corners c;
            if (!mp_corners_of(b.top + (double)(p / b.columns) * b.row_step, b.left + (double)(p % b.columns) * b.column_step,
                               x.dims[2], x.dims[3], &c)) {
                most = fmax(most, 0.0);
                continue;
            }
            for (int e = 0; e < 4; e++) {
                const double v =
                    (double)c.weight[e] * (double)x.load(base + c.row[e] * x.strides[2] + c.column[e] * x.strides[3]);
                sum += v;
                most = fmax(most, v);
            }
        }
        y.store(to, (float)(r.s.largest ? most : sum / (double)count));
    }
};

struct spread_regions {
    regions r;
    images d, dy;

    /* What `n` points from `first` on, `step` apart, weigh at element i of an axis. */
    static MP_BODY double weigh(double first, double step, int64_t n, int64_t size, int64_t i)
    {
        double sum = 0;
        for (int64_t p = 0; p < n; p++) {
            int64_t below;
            double behind;
            if (!mp_between(first + (double)p * step, size, &below, &behind)) continue;
            if (below == i) sum += 1 - behind;
            if (below + 1 == i) sum += behind;
        }
        return sum;
    }
    /* Whether points between two coordinates are too far from element i. */
    static MP_BODY bool misses(double a, double b, int64_t i)
    {
        return fmax(a, b) < (double)(i - 1) || fmin(a, b) > (double)(i + 1);
    }
    MP_BODY void operator()(int64_t k) const
    {
        int64_t at[4];
        const int64_t to = d.find(k, at);
        float sum = 0;
        for (int64_t region = 0; region < r.n; region++) {
            if (r.image(region) != at[0]) continue;
            const mp_bin first = r.bin(region, 0, 0), last = r.bin(region, r.s.height - 1, r.s.width - 1);
            if (misses(first.top, last.top + (double)last.rows * last.row_step, at[2]) ||
                misses(first.left, last.left + (double)last.columns * last.column_step, at[3]))
                continue;
            for (int64_t row = 0; row < r.s.height; row++) {
                mp_bin b = r.bin(region, row, 0);
                const double high = weigh(b.top, b.row_step, b.rows, d.dims[2], at[2]);
                if (high == 0) continue;
                for (int64_t column = 0; column < r.s.width; column++) {
                    b = r.bin(region, row, column);
                    const double wide = weigh(b.left, b.column_step, b.columns, d.dims[3], at[3]);
                    if (wide == 0) continue;
                    const float g =
                        dy.load(region * dy.strides[0] + at[1] * dy.strides[1] + row * dy.strides[2] + column * dy.strides[3]);
                    sum += g * (float)(high * wide / (double)(b.rows * b.columns));
                }
            }
        }
        d.store(to, sum);
    }
};

struct pooled_regions {
    mp_regions s;
    images x, y;
    const void *data;
    mp_dtype dtype;
    int64_t region_stride, stride;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t at[4], region[5], top, bottom, left, right;
        const int64_t to = y.find(k, at);
        mp_region_read(&s, data, dtype, at[0] * region_stride, stride, region);
        mp_bin_span(region[2], region[4], s.height, at[2], x.dims[2], &top, &bottom);
        mp_bin_span(region[1], region[3], s.width, at[3], x.dims[3], &left, &right);
        if (region[0] < 0 || region[0] >= x.dims[0]) bottom = top;
        float most = top < bottom && left < right ? -INFINITY : 0;
        for (int64_t i = top; i < bottom; i++)
            for (int64_t j = left; j < right; j++)
                most =
                    fmaxf(most, x.load(region[0] * x.strides[0] + at[1] * x.strides[1] + i * x.strides[2] + j * x.strides[3]));
        y.store(to, most);
    }
};

} // namespace

void mp_cuda_roi_align(const mp_regions *s, const mp_array *x, const mp_array *rois, const mp_array *of, const mp_array *y)
{
    mp_each(mp_array_elements(y), aligned_regions{regions_of(s, rois, of), images_of(x), images_of(y)});
}

void mp_cuda_roi_spread(const mp_regions *s, const mp_array *dx, const mp_array *rois, const mp_array *of, const mp_array *dy)
{
    mp_each(mp_array_elements(dx), spread_regions{regions_of(s, rois, of), images_of(dx), images_of(dy)});
}

void mp_cuda_roi_pool(const mp_regions *s, const mp_array *x, const mp_array *rois, const mp_array *y)
{
    mp_each(mp_array_elements(y),
            pooled_regions{*s, images_of(x), images_of(y), rois->data, rois->dtype, rois->strides[0], rois->strides[1]});
}
