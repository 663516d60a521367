/* windows.cu - pools: maximum, average and norm over windows that slide. */
#include "executor/cuda/grid/grid.cuh"

#include "executor/cuda/sampling/windows.h"

enum { N = MP_WINDOW_SPATIAL };

namespace
{ /* types of kernels of other files may have these names */

/* A tensor (N, C, three spatial dimensions) by its strides. */
struct plane {
    void *data;
    mp_dtype dtype;
    bool is_last; /* neighbouring elements are of neighbouring channels */
    int64_t samples, channels, size[N], sample_stride, channel_stride, stride[N];

    /* The coordinates of the k-th element in the order of memory; returns its place. */
    MP_BODY int64_t find(int64_t k, int64_t *sample, int64_t *channel, int64_t *at) const
    {
        if (is_last) {
            *channel = k % channels;
            k /= channels;
        }
        for (int d = N - 1; d >= 0; d--) {
            at[d] = k % size[d];
            k /= size[d];
        }
        if (!is_last) {
            *channel = k % channels;
            k /= channels;
        }
        *sample = k;
        return place(*sample, *channel, at);
    }
    MP_BODY int64_t place(int64_t sample, int64_t channel, const int64_t *at) const
    {
        int64_t to = sample * sample_stride + channel * channel_stride;
        for (int d = 0; d < N; d++) to += at[d] * stride[d];
        return to;
    }
    MP_BODY float load(int64_t k) const { return mp_load_float(data, dtype, k); }
    MP_BODY void store(int64_t k, float value) const { mp_store_float(data, dtype, k, value); }
};

/* Missing spatial dimensions stand in front, with size 1. */
static plane plane_of(const mp_array *a)
{
    plane p = {a->data,       a->dtype,      a->rank > 2 && a->strides[1] == 1 && a->dims[1] > 1,
               a->dims[0],    a->dims[1],    {1, 1, 1},
               a->strides[0], a->strides[1], {0, 0, 0}};
    for (int d = 2; d < a->rank; d++) {
        p.size[d - a->rank + N] = a->dims[d];
        p.stride[d - a->rank + N] = a->strides[d];
    }
    return p;
}

static int64_t elements_of(const plane *p)
{
    return p->samples * p->channels * p->size[0] * p->size[1] * p->size[2];
}

/* The window, its missing dimensions in front. */
struct slide {
    mp_pooling_rule rule;
    bool counts_pads, wide, backwards;
    float p;
    int64_t kernel[N], stride[N], dilation[N], begin[N], end[N], taps;

    MP_BODY int64_t input_at(int d, int64_t out, int64_t tap) const { return out * stride[d] - begin[d] + tap * dilation[d]; }
    /* Over how many values the average of the window at `out` is. */
    MP_BODY int64_t count(const int64_t *out, const int64_t *in_size) const
    {
        int64_t n = 1;
        for (int d = 0; d < N; d++) {
            int64_t inside = 0;
            for (int64_t t = 0; t < kernel[d]; t++) {
                const int64_t i = input_at(d, out[d], t);
                inside += counts_pads ? i < in_size[d] + end[d] : i >= 0 && i < in_size[d];
            }
            n *= inside;
        }
        return n > 0 ? n : 1;
    }
    MP_BODY int64_t tap_of(const void *where, int64_t k) const
    {
        return wide ? (int64_t)((const int32_t *)where)[k] : (int64_t)((const uint8_t *)where)[k];
    }
    MP_BODY float power(float v, float q) const { return q == 2 ? v * v : q == 1 ? v : powf(v, q); }
};

static slide slide_of(const mp_pooling *pool)
{
    slide s = {pool->rule, pool->counts_pads, pool->wide, pool->backwards, (float)pool->p, {1, 1, 1}, {1, 1, 1}, {1, 1, 1},
               {0, 0, 0},  {0, 0, 0},         1};
    for (int d = 0; d < pool->window.n; d++) {
        const int to = d - pool->window.n + N;
        s.kernel[to] = pool->window.kernel[d];
        s.stride[to] = pool->window.stride[d];
        s.dilation[to] = pool->window.dilation[d];
        s.begin[to] = pool->window.begin[d];
        s.end[to] = pool->window.end[d];
        s.taps *= pool->window.kernel[d];
    }
    return s;
}

struct forward {
    slide s;
    plane x, y, given;
    void *where;

    MP_BODY void keep(int64_t k, int64_t tap, int64_t sample, int64_t channel, const int64_t *out, const int64_t *best) const
    {
        if (where && s.wide) ((int32_t *)where)[k] = (int32_t)tap;
        if (where && !s.wide) ((uint8_t *)where)[k] = (uint8_t)tap;
        if (!given.data) return;
        int64_t flat = 0, size = 1;
        for (int d = 0; d < N; d++) {
            const int e = s.backwards ? d : N - 1 - d;
            flat += best[e] * size;
            size *= x.size[e];
        }
        ((int64_t *)given.data)[given.place(sample, channel, out)] = (sample * x.channels + channel) * size + flat;
    }
    MP_BODY void operator()(int64_t index) const
    {
        int64_t sample, channel, out[N], in[N], best_in[N] = {0, 0, 0}, best_tap = -1, tap = 0;
        const int64_t k = y.find(index, &sample, &channel, out);
        float sum = 0;
        for (int64_t a = 0; a < s.kernel[0]; a++)
            for (int64_t b = 0; b < s.kernel[1]; b++)
                for (int64_t c = 0; c < s.kernel[2]; c++, tap++) {
                    in[0] = s.input_at(0, out[0], a);
                    in[1] = s.input_at(1, out[1], b);
                    in[2] = s.input_at(2, out[2], c);
                    bool inside = true;
                    for (int d = 0; d < N; d++) inside = inside && in[d] >= 0 && in[d] < x.size[d];
                    if (!inside) continue;
                    const float v = x.load(x.place(sample, channel, in));
                    if (s.rule == MP_POOLING_MAXIMUM) {
                        if (best_tap >= 0 && !(v > sum) && v == v) continue;
                        sum = v;
                        best_tap = tap;
                        for (int d = 0; d < N; d++) best_in[d] = in[d];
                    } else {
                        sum += s.rule == MP_POOLING_AVERAGE ? v : s.power(fabsf(v), s.p);
                    }
                }
        if (s.rule == MP_POOLING_AVERAGE) sum /= (float)s.count(out, x.size);
        if (s.rule == MP_POOLING_NORM) sum = s.p == 2 ? sqrtf(sum) : powf(sum, 1 / s.p);
        y.store(k, sum);
        if (s.rule == MP_POOLING_MAXIMUM) keep(k, best_tap, sample, channel, out, best_in);
    }
};

struct backward {
    slide s;
    plane dx, dy, x, y;
    const void *where;
    bool add;

    MP_BODY float share(int64_t k, int64_t at, int64_t tap, const int64_t *out) const
    {
        const float g = dy.load(at);
        if (s.rule == MP_POOLING_MAXIMUM) return s.tap_of(where, at) == tap ? g : 0;
        if (s.rule == MP_POOLING_AVERAGE) return g * (1 / (float)s.count(out, dx.size));
        const float v = x.load(k), norm = y.load(at);
        if (!(norm > 0)) return 0;
        const float slope = s.p == 2 ? v / norm : powf(fabsf(v) / norm, s.p - 1) * (v < 0 ? -1.0f : 1.0f);
        return g * slope;
    }
    /* Where the window must stop so that its tap lies at `in`; -1: nowhere. */
    MP_BODY int64_t stop(int d, int64_t in, int64_t tap) const
    {
        const int64_t from = in + s.begin[d] - tap * s.dilation[d];
        return from < 0 || from % s.stride[d] || from / s.stride[d] >= dy.size[d] ? -1 : from / s.stride[d];
    }
    MP_BODY void operator()(int64_t index) const
    {
        int64_t sample, channel, in[N], out[N], tap = 0;
        const int64_t k = dx.find(index, &sample, &channel, in);
        float sum = add ? dx.load(k) : 0;
        for (int64_t a = 0; a < s.kernel[0]; a++)
            for (int64_t b = 0; b < s.kernel[1]; b++)
                for (int64_t c = 0; c < s.kernel[2]; c++, tap++) {
                    out[0] = stop(0, in[0], a);
                    out[1] = stop(1, in[1], b);
                    out[2] = stop(2, in[2], c);
                    if (out[0] < 0 || out[1] < 0 || out[2] < 0) continue;
                    sum += share(k, dy.place(sample, channel, out), tap, out);
                }
        dx.store(k, sum);
    }
};

} // namespace

void mp_windows_forward(const mp_pooling *pool, const mp_array *x, const mp_array *y, void *where, const mp_array *given)
{
    forward f = {slide_of(pool), plane_of(x), plane_of(y), plane_of(given->data ? given : y), where};
    if (!given->data) f.given.data = NULL;
    mp_each(elements_of(&f.y), f);
}

void mp_windows_backward(const mp_pooling *pool, const mp_array *dy, const mp_array *dx, const mp_array *x, const mp_array *y,
                         const void *where, bool add)
{
    const bool reads = pool->rule == MP_POOLING_NORM;
    const backward f = {slide_of(pool),           plane_of(dx), plane_of(dy), plane_of(reads ? x : dx),
                        plane_of(reads ? y : dy), where,        add};
    mp_each(elements_of(&f.dx), f);
}
