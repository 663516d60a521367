/* pools.cu - windows that slide, and windows that are everything. Forward each output looks at its window; backward each input
 * at the outputs whose windows it is in, in their order, so that nothing is added by two threads. Windows over everything are
 * reduced by the threads of a row.
 */
#include "executor/cuda/grid.cuh"

#include "executor/cuda/kernels.h"
#include "executor/cuda/pools.h"

enum { SPACE = MP_CUDA_SPACE };

/* Indices in the order of dims: sample, channel, space. */
struct place {
    int64_t sample, channel, at[SPACE];
};

/* An array of one sample, channel and SPACE dimensions, of which the first may be missing. */
struct image {
    void *data;
    mp_dtype dtype;
    bool channels_last, is_small; /* 32 bits count the elements */
    int64_t dims[SPACE], channels, strides[2 + SPACE];

    image() {}
    explicit image(const mp_array *a) : data(a->data), dtype(a->dtype), channels(a->dims[1])
    {
        const int n = a->rank - 2;
        strides[0] = a->strides[0];
        strides[1] = a->strides[1];
        for (int d = 0; d < SPACE; d++) {
            const int own = d - (SPACE - n);
            dims[d] = own < 0 ? 1 : a->dims[own + 2];
            strides[d + 2] = own < 0 ? 0 : a->strides[own + 2];
        }
        channels_last = channels > 1 && strides[1] == 1;
        is_small = mp_array_elements(a) <= INT32_MAX;
    }
    int64_t elements(int64_t n_samples) const { return n_samples * channels * dims[0] * dims[1] * dims[2]; }
    /* Element k in the order of memory. */
    template <class I> MP_BODY place split(I k) const
    {
        place p;
        if (channels_last) {
            p.channel = k % (I)channels;
            k /= (I)channels;
        }
        for (int d = SPACE - 1; d >= 0; d--) {
            p.at[d] = k % (I)dims[d];
            k /= (I)dims[d];
        }
        if (!channels_last) {
            p.channel = k % (I)channels;
            k /= (I)channels;
        }
        p.sample = k;
        return p;
    }
    MP_BODY place of(int64_t k) const { return is_small ? split<uint32_t>((uint32_t)k) : split<int64_t>(k); }
    MP_BODY int64_t base(const place &p) const { return p.sample * strides[0] + p.channel * strides[1]; }
    MP_BODY int64_t space(int64_t a, int64_t b, int64_t c) const { return a * strides[2] + b * strides[3] + c * strides[4]; }
    MP_BODY int64_t offset(const place &p) const { return base(p) + space(p.at[0], p.at[1], p.at[2]); }
    MP_BODY float load(int64_t offset) const { return mp_load_any(data, dtype, offset); }
};

struct windows {
    mp_pool_rule rule;
    int64_t in[SPACE], out[SPACE], kernel[SPACE], stride[SPACE], dilation[SPACE], begin[SPACE], end[SPACE];
    bool counts_pads, wide_index, column_major;
    float p;
    void *where;

    windows(const mp_pooling *s, void *indices)
    {
        rule = s->rule;
        counts_pads = s->counts_pads;
        wide_index = s->wide_index;
        column_major = s->column_major;
        p = (float)s->p;
        where = indices;
        for (int d = 0; d < SPACE; d++) {
            const int own = d - (SPACE - s->n);
            in[d] = own < 0 ? 1 : s->in[own];
            out[d] = own < 0 ? 1 : s->out[own];
            kernel[d] = own < 0 ? 1 : s->kernel[own];
            stride[d] = own < 0 ? 1 : s->stride[own];
            dilation[d] = own < 0 ? 1 : s->dilation[own];
            begin[d] = own < 0 ? 0 : s->begin[own];
            end[d] = own < 0 ? 0 : s->end[own];
        }
    }
    MP_BODY int64_t start(int d, int64_t o) const { return o * stride[d] - begin[d]; }
    /* How many elements the average at an output divides by. */
    MP_BODY float count(const int64_t *o) const
    {
        int64_t n = 1;
        for (int d = 0; d < SPACE; d++) {
            const int64_t first = start(d, o[d]), behind = counts_pads ? in[d] + end[d] : in[d];
            const int64_t low = first < 0 && !counts_pads ? (-first + dilation[d] - 1) / dilation[d] : 0;
            int64_t high = first < behind ? (behind - 1 - first) / dilation[d] + 1 : 0;
            high = high < kernel[d] ? high : kernel[d];
            n *= high > low ? high - low : 0;
        }
        return (float)(n ? n : 1);
    }
    MP_BODY float power(float x) const { return p == 2 ? x * x : p == 1 ? fabsf(x) : powf(fabsf(x), p); }
    MP_BODY float root(float x) const { return p == 2 ? sqrtf(x) : powf(x, 1 / p); }
    MP_BODY void save(int64_t at, int64_t tap) const
    {
        if (!where) return;
        if (wide_index)
            ((int32_t *)where)[at] = (int32_t)tap;
        else
            ((uint8_t *)where)[at] = (uint8_t)tap;
    }
    MP_BODY int64_t saved(int64_t at) const { return wide_index ? ((const int32_t *)where)[at] : ((const uint8_t *)where)[at]; }
    /* The maximum's place in the whole input, as ONNX counts it. */
    MP_BODY int64_t flat(const place &p, int64_t channels, const int64_t *o, int64_t tap) const
    {
        int64_t i[SPACE], at;
        for (int d = SPACE - 1; d >= 0; d--) {
            i[d] = start(d, o[d]) + tap % kernel[d] * dilation[d];
            tap /= kernel[d];
        }
        at = column_major ? i[0] + in[0] * (i[1] + in[1] * i[2]) : (i[0] * in[1] + i[1]) * in[2] + i[2];
        return (p.sample * channels + p.channel) * in[0] * in[1] * in[2] + at;
    }
};

struct pooled {
    windows w;
    image x, y, given; /* given.data NULL: it is not there */
    MP_BODY void operator()(int64_t k) const
    {
        const place p = y.of(k);
        const int64_t base = x.base(p), to = y.offset(p);
        int64_t tap = 0, best_tap = -1;
        float best = 0;
        for (int64_t a = 0; a < w.kernel[0]; a++)
            for (int64_t b = 0; b < w.kernel[1]; b++)
                for (int64_t c = 0; c < w.kernel[2]; c++, tap++) {
                    const int64_t i = w.start(0, p.at[0]) + a * w.dilation[0], j = w.start(1, p.at[1]) + b * w.dilation[1],
                                  l = w.start(2, p.at[2]) + c * w.dilation[2];
                    if (i < 0 || i >= w.in[0] || j < 0 || j >= w.in[1] || l < 0 || l >= w.in[2]) continue;
                    const float v = x.load(base + x.space(i, j, l));
                    if (w.rule != MP_POOL_MAXIMUM) {
                        best += w.rule == MP_POOL_AVERAGE ? v : w.power(v);
                    } else if (v > best || best_tap < 0 || v != v) {
                        best = v;
                        best_tap = tap;
                    }
                }
        if (w.rule == MP_POOL_AVERAGE) best /= w.count(p.at);
        if (w.rule == MP_POOL_NORM) best = w.root(best);
        mp_store_any(y.data, y.dtype, to, best);
        if (w.rule != MP_POOL_MAXIMUM) return;
        w.save(to, best_tap);
        if (given.data) ((int64_t *)given.data)[given.offset(p)] = w.flat(p, y.channels, p.at, best_tap < 0 ? 0 : best_tap);
    }
};

struct pooled_back {
    windows w;
    image x, y, dy, dx;
    bool add;
    MP_BODY void operator()(int64_t k) const
    {
        const place p = dx.of(k);
        const int64_t base = dy.base(p), y_base = y.base(p), to = dx.offset(p);
        const float own = w.rule == MP_POOL_NORM ? x.load(x.offset(p)) : 0;
        int64_t low[SPACE], high[SPACE], o[SPACE];
        for (int d = 0; d < SPACE; d++) {
            const int64_t from_pad = p.at[d] + w.begin[d], before = from_pad - (w.kernel[d] - 1) * w.dilation[d];
            low[d] = before > 0 ? (before + w.stride[d] - 1) / w.stride[d] : 0;
            high[d] = from_pad / w.stride[d] < w.out[d] ? from_pad / w.stride[d] : w.out[d] - 1;
        }
        float sum = 0;
        for (o[0] = low[0]; o[0] <= high[0]; o[0]++)
            for (o[1] = low[1]; o[1] <= high[1]; o[1]++)
                for (o[2] = low[2]; o[2] <= high[2]; o[2]++) {
                    int64_t tap = 0;
                    bool meets = true;
                    for (int d = 0; d < SPACE; d++) {
                        const int64_t from_start = p.at[d] - w.start(d, o[d]);
                        meets &= from_start % w.dilation[d] == 0;
                        tap = tap * w.kernel[d] + from_start / w.dilation[d];
                    }
                    if (!meets) continue;
                    const int64_t at = base + dy.space(o[0], o[1], o[2]);
                    if (w.rule == MP_POOL_MAXIMUM) {
                        if (w.saved(at) == tap) sum += dy.load(at);
                    } else if (w.rule == MP_POOL_AVERAGE) {
                        sum += dy.load(at) / w.count(o);
                    } else {
                        const float norm = y.load(y_base + y.space(o[0], o[1], o[2]));
                        const float slope = w.p == 2 ? own / norm : powf(fabsf(own) / norm, w.p - 1) * (own < 0 ? -1.0f : 1.0f);
                        if (norm > 0) sum += dy.load(at) * slope;
                    }
                }
        if (add) sum += dx.load(to);
        mp_store_any(dx.data, dx.dtype, to, sum);
    }
};

/* Row k: sample and channel; columns: all of its elements. */
static MP_BODY int64_t column_at(const image &x, int64_t row, int64_t column)
{
    const int64_t c = column % x.dims[2], b = column / x.dims[2] % x.dims[1], a = column / x.dims[2] / x.dims[1];
    return row / x.channels * x.strides[0] + row % x.channels * x.strides[1] + x.space(a, b, c);
}
static MP_BODY int64_t row_at(const image &y, int64_t row)
{
    return row / y.channels * y.strides[0] + row % y.channels * y.strides[1];
}

struct largest_of : mp_largest {
    enum { PHASES = 1 };
    windows w;
    image x, y;
    largest_of(const windows &all, const image &from, const image &to) : w(all), x(from), y(to) {}
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{x.load(column_at(x, row, column)), column};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        const int64_t to = row_at(y, row);
        mp_store_any(y.data, y.dtype, to, totals[0].x);
        w.save(to, totals[0].column);
    }
};

struct norm_of : mp_sums {
    enum { PHASES = 1 };
    windows w;
    image x, y;
    norm_of(const windows &all, const image &from, const image &to) : w(all), x(from), y(to) {}
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{w.power(x.load(column_at(x, row, column)))};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        mp_store_any(y.data, y.dtype, row_at(y, row), w.root(totals[0].x));
    }
};

void mp_cuda_pool(const mp_pooling *pooling, const mp_array *x, const mp_array *y, void *where, const mp_array *given)
{
    const windows w(pooling, where);
    image indices;
    indices.data = NULL;
    if (given && given->data) indices = image(given);
    const image from(x), to(y);
    if (pooling->is_global && pooling->rule == MP_POOL_MAXIMUM)
        mp_rows(x->dims[0] * from.channels, pooling->n_taps, largest_of(w, from, to));
    else if (pooling->is_global && pooling->rule == MP_POOL_NORM)
        mp_rows(x->dims[0] * from.channels, pooling->n_taps, norm_of(w, from, to));
    else
        mp_each(to.elements(y->dims[0]), pooled{w, from, to, indices});
}

void mp_cuda_pool_back(const mp_pooling *pooling, const mp_array *x, const mp_array *y, const void *where, const mp_array *dy,
                       const mp_array *dx, bool add)
{
    const image to(dx);
    mp_each(to.elements(dx->dims[0]), pooled_back{windows(pooling, (void *)where), image(x), image(y), image(dy), to, add});
}
