/* pools_cuda.cu - pools on the GPU: maximum, average and norm of sliding windows with up to three spatial dimensions and any
 * strides. As on the CPU, forward saves the tap of each maximum, its position within the window; cuDNN does not provide it. A
 * tap has one byte if the window is not global and has at most 256 taps. A global average is computed as a sum.
 *
 * In forward, one thread per output reads its window. In backward, one thread per input reads the windows over it in a fixed
 * order. Therefore no two threads add to the same element; sums are in float. A thread processes one element, or eight
 * adjacent channels. One division per dimension finds the taps inside the input, and the windows that cover an element.
 * Divisions use 32-bit integers if all numbers fit. */
#include "executor/cuda/grid/vectors.cuh"

#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/elementwise/elementwise_cuda.h"
#include "executor/operators/pooling/sliding.h"
}

enum { N = 3, WIDTH = 8 }; /* N: number of spatial dimensions; WIDTH: number of channels per vector */

/* Placed before the loop over taps (elements of a window): unrolls the loop only as far as registers can hold the loads. */
#ifdef MP_CUDA_TWIN
#define FEW_TAPS
#else
#define FEW_TAPS _Pragma("unroll 2")
#endif

namespace
{ /* an unnamed namespace, because other files define types with the same names for their kernels */

/* Returns a / b for numbers that are not negative. */
MP_BODY int32_t over(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a / (uint32_t)b);
}
MP_BODY int64_t over(int64_t a, int64_t b)
{
    return a / b;
}

/* Returns 1 / n for n > 0; on the GPU by a division without support for denormal numbers, which is faster. */
MP_BODY float part_of(int64_t n)
{
#ifdef __CUDA_ARCH__
    return __fdividef(1, (float)n);
#else
    return 1 / (float)n;
#endif
}

/* Sizes and strides of a tensor (N, C, three spatial dimensions), in vectors of W channels; with W > 1, channels are innermost.
 * I: int32_t or int64_t. */
template <class I> struct plane {
    bool is_last; /* true: channels are the innermost dimension in memory */
    I channels, size[N], sample_stride, channel_stride, stride[N];

    /* Computes sample, channel and spatial coordinates of the k-th vector of W channels, counted in memory order. */
    MP_BODY void find(I k, I *sample, I *channel, I *at) const
    {
        I next = k;
        if (is_last) {
            next = over(k, channels);
            *channel = k - next * channels;
        }
        for (int d = N - 1; d >= 0; d--) {
            k = next;
            next = over(k, size[d]);
            at[d] = k - next * size[d];
        }
        *sample = next;
        if (is_last) return;
        *sample = over(next, channels);
        *channel = next - *sample * channels;
    }
    MP_BODY I line(I sample, I channel) const { return sample * sample_stride + channel * channel_stride; }
    MP_BODY I place(I line, I a, I b, I c) const { return line + a * stride[0] + b * stride[1] + c * stride[2]; }
};

/* Describes a tensor; missing spatial dimensions are added in front with size 1. */
template <class I> static plane<I> plane_of(const mp_array *a, int width)
{
    const bool is_last = a->rank > 2 && a->strides[1] == 1 && a->dims[1] > 1;
    plane<I> p = {is_last, (I)(a->dims[1] / width), {1, 1, 1}, (I)(a->strides[0] / width), (I)a->strides[1], {0, 0, 0}};
    for (int d = 2; d < a->rank; d++) {
        p.size[d - a->rank + N] = (I)a->dims[d];
        p.stride[d - a->rank + N] = (I)(a->strides[d] / width);
    }
    return p;
}

/* Read or write vector v of W elements. */
template <mp_dtype T, int W> MP_BODY void load(const void *data, int64_t v, float (&to)[W])
{
    if constexpr (W == 1)
        to[0] = mp_load_one(data, T, v);
    else
        mp_load_vector(data, T, v, W, to);
}
template <mp_dtype T, int W> MP_BODY void store(void *data, int64_t v, const float (&from)[W])
{
    if constexpr (W == 1)
        mp_store_one(data, T, v, from[0]);
    else
        mp_store_vector(data, T, v, W, from);
}

/* The saved taps (positions within the window) of W adjacent maxima; V: uint8_t or int32_t. */
template <class V, int W> struct alignas(sizeof(V) * W < 16 ? sizeof(V) * W : 16) taps_of {
    V tap[W];
};

/* The sliding window of a pool with N spatial dimensions; missing dimensions are added in front. */
template <class I> struct slide {
    bool counts_pads, wide, backwards;
    float p;
    I kernel[N], stride[N], dilation[N], begin[N], end[N];
    /* step: distance between consecutive windows that cover the same element; taps: distance between the taps (elements of a
     * window) with which these windows cover the element */
    I step[N], taps[N];

    MP_BODY I start(int d, I out) const { return out * stride[d] - begin[d]; }
    /* first and until: along dimension d, the taps (elements) [first, until) of a window that starts at `from` are inside [0,
     * size). */
    MP_BODY I first(int d, I from) const { return from < 0 ? over(dilation[d] - 1 - from, dilation[d]) : 0; }
    MP_BODY I until(int d, I from, I size) const
    {
        if (from + (kernel[d] - 1) * dilation[d] < size) return kernel[d];
        return from < size ? over(size - 1 - from, dilation[d]) + 1 : 0;
    }
    /* Returns the number of elements of window `out` along dimension d that an average counts. */
    MP_BODY I counted(int d, I out, I size) const
    {
        const I from = start(d, out), n = counts_pads ? until(d, from, size + end[d]) : until(d, from, size) - first(d, from);
        return n > 0 ? n : 0;
    }
    /* Along dimension d: finds the last of `size` windows that covers input position `in`, and the tap (element of this window)
     * that covers `in`. Returns false if no window does. */
    MP_BODY bool last(int d, I in, I size, I *out, I *tap) const
    {
        I stop = over(in + begin[d], stride[d]), rest = in + begin[d] - stop * stride[d];
        if (dilation[d] > 1)
            for (I k = 1; k < step[d] && rest % dilation[d]; k++) {
                stop--;
                rest += stride[d];
            }
        if (stop >= size) {
            const I back = (over(stop - size, step[d]) + 1) * step[d];
            stop -= back;
            rest += back * stride[d];
        }
        *out = stop;
        *tap = dilation[d] > 1 ? over(rest, dilation[d]) : rest;
        return dilation[d] == 1 || rest % dilation[d] == 0;
    }
    MP_BODY float power(float v, float q) const { return q == 2 ? v * v : q == 1 ? v : powf(v, q); }
};

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

template <class I> static slide<I> slide_of(const mp_pooling *pool)
{
    slide<I> s = {pool->counts_pads, pool->wide, pool->backwards, (float)pool->p, {1, 1, 1}, {1, 1, 1},
                  {1, 1, 1},         {0, 0, 0},  {0, 0, 0},       {1, 1, 1},      {1, 1, 1}};
    for (int d = 0; d < pool->window.n; d++) {
        const int to = d - pool->window.n + N;
        const int64_t stride = pool->window.stride[d], dilation = pool->window.dilation[d];
        s.kernel[to] = (I)pool->window.kernel[d];
        s.stride[to] = (I)stride;
        s.dilation[to] = (I)dilation;
        s.begin[to] = (I)pool->window.begin[d];
        s.end[to] = (I)pool->window.end[d];
        s.step[to] = (I)(dilation / common_divisor(dilation, stride));
        s.taps[to] = (I)(stride / common_divisor(dilation, stride));
    }
    return s;
}

template <mp_dtype T, class I, mp_pooling_rule RULE, int W> struct forward {
    slide<I> s;
    plane<I> x, y, given_at;
    const void *from;
    void *to, *where;
    int64_t *given; /* address of output 1, the indices of the maxima; NULL if a thread processes several channels (W > 1) */
    I tap_step[N];  /* for each dimension: distance in the input between consecutive taps (elements) of a window */

    template <class V> MP_BODY void keep(I k, const int32_t (&best)[W]) const
    {
        taps_of<V, W> taps;
        for (int e = 0; e < W; e++) taps.tap[e] = (V)best[e];
        ((taps_of<V, W> *)where)[k] = taps;
    }
    /* Returns the index, in the whole input, of the element that tap `tap` of window `out` reads: row-major, or (backwards)
     * with the first spatial dimension fastest. */
    MP_BODY int64_t place(I sample, I channel, const I *out, int32_t tap) const
    {
        int64_t flat = 0, size = 1;
        I in[N];
        for (int d = N - 1; d >= 0; d--) {
            in[d] = tap < 0 ? 0 : s.start(d, out[d]) + tap % (int32_t)s.kernel[d] * s.dilation[d];
            tap = tap < 0 ? tap : tap / (int32_t)s.kernel[d];
        }
        for (int d = 0; d < N; d++) {
            flat += (s.backwards ? in[d] : in[N - 1 - d]) * size;
            size *= s.backwards ? x.size[d] : x.size[N - 1 - d];
        }
        return ((int64_t)sample * x.channels + channel) * size + flat;
    }
    MP_BODY void operator()(int64_t index) const
    {
        I sample, channel, out[N], start[N], until[N];
        float sum[W] = {}, v[W];
        int32_t best[W];
        y.find((I)index, &sample, &channel, out);
        for (int e = 0; e < W; e++) best[e] = -1;
        for (int d = 0; d < N; d++) {
            start[d] = s.start(d, out[d]);
            until[d] = s.until(d, start[d], x.size[d]);
        }
        const I begin = x.place(x.line(sample, channel), start[0], start[1], start[2]);
        const I n = s.counted(0, out[0], x.size[0]) * s.counted(1, out[1], x.size[1]) * s.counted(2, out[2], x.size[2]);
        const float part = RULE == MP_POOLING_AVERAGE ? part_of(n > 0 ? n : 1) : 1;
        for (I a = s.first(0, start[0]); a < until[0]; a++)
            for (I b = s.first(1, start[1]); b < until[1]; b++) {
                FEW_TAPS
                for (I c = s.first(2, start[2]); c < until[2]; c++) {
                    const I at = begin + a * tap_step[0] + b * tap_step[1] + c * tap_step[2];
                    load<T>(from, at, v);
                    for (int e = 0; e < W; e++) {
                        if (RULE == MP_POOLING_AVERAGE) sum[e] += v[e];
                        if (RULE == MP_POOLING_NORM) sum[e] += s.power(fabsf(v[e]), s.p);
                        if (RULE != MP_POOLING_MAXIMUM) continue;
                        const bool larger = best[e] < 0 || v[e] > sum[e] || v[e] != v[e];
                        sum[e] = larger ? v[e] : sum[e];
                        best[e] = larger ? (int32_t)((a * s.kernel[1] + b) * s.kernel[2] + c) : best[e];
                    }
                }
            }
        for (int e = 0; RULE == MP_POOLING_AVERAGE && e < W; e++) sum[e] *= part;
        for (int e = 0; RULE == MP_POOLING_NORM && e < W; e++) sum[e] = s.p == 2 ? sqrtf(sum[e]) : powf(sum[e], 1 / s.p);
        store<T>(to, index, sum);
        if (RULE != MP_POOLING_MAXIMUM) return;
        if (where && s.wide) keep<int32_t>((I)index, best);
        if (where && !s.wide) keep<uint8_t>((I)index, best);
        if (given)
            given[given_at.place(given_at.line(sample, channel), out[0], out[1], out[2])] =
                place(sample, channel, out, best[0]);
    }
};

template <mp_dtype T, class I, mp_pooling_rule RULE, int W> struct backward {
    slide<I> s;
    plane<I> dx, dy;
    const void *from, *x, *y; /* from: gradient of the output; x, y: input and output of the pool, used for norms only */
    void *to;
    const void *where; /* saved taps of the maxima, their positions within the windows */
    bool add;

    template <class V> MP_BODY void pick(I at, I tap, const float (&g)[W], float (&sum)[W]) const
    {
        const taps_of<V, W> taps = ((const taps_of<V, W> *)where)[at];
        for (int e = 0; e < W; e++) sum[e] += (I)taps.tap[e] == tap ? g[e] : 0;
    }
    /* Adds to `sum` the contribution of the window at offset `at` of dy to the gradient of the elements v, which tap `tap` (an
     * element of the window) covers. n: number of values that an average counts. */
    MP_BODY void share(I at, I tap, I n, const float (&v)[W], float (&sum)[W]) const
    {
        float g[W], norm[W];
        load<T>(from, at, g);
        if (RULE == MP_POOLING_MAXIMUM && s.wide) pick<int32_t>(at, tap, g, sum);
        if (RULE == MP_POOLING_MAXIMUM && !s.wide) pick<uint8_t>(at, tap, g, sum);
        if (RULE == MP_POOLING_AVERAGE) {
            const float part = part_of(n > 0 ? n : 1);
            for (int e = 0; e < W; e++) sum[e] += g[e] * part;
        }
        if (RULE != MP_POOLING_NORM) return;
        load<T>(y, at, norm);
        for (int e = 0; e < W; e++) {
            if (!(norm[e] > 0) || v[e] == 0) continue;
            const float ratio = fabsf(v[e]) / norm[e];
            sum[e] += g[e] * copysignf(s.p == 2 ? ratio : powf(ratio, s.p - 1), v[e]);
        }
    }
    MP_BODY void operator()(int64_t index) const
    {
        I sample, channel, in[N], out[N], tap[N];
        const bool counts = RULE == MP_POOLING_AVERAGE;
        float sum[W] = {}, v[W] = {};
        bool is_over = true;
        dx.find((I)index, &sample, &channel, in);
        const I line = dy.line(sample, channel);
        if (add) load<T>(to, index, sum);
        if (RULE == MP_POOLING_NORM) load<T>(x, index, v);
        for (int d = 0; d < N; d++) is_over = s.last(d, in[d], dy.size[d], &out[d], &tap[d]) && is_over;
        for (I a = out[0], i = tap[0]; is_over && a >= 0 && i < s.kernel[0]; a -= s.step[0], i += s.taps[0]) {
            const I n0 = counts ? s.counted(0, a, dx.size[0]) : 1;
            for (I b = out[1], j = tap[1]; b >= 0 && j < s.kernel[1]; b -= s.step[1], j += s.taps[1]) {
                const I n1 = counts ? n0 * s.counted(1, b, dx.size[1]) : 1;
                for (I c = out[2], l = tap[2]; c >= 0 && l < s.kernel[2]; c -= s.step[2], l += s.taps[2])
                    share(dy.place(line, a, b, c), (i * s.kernel[1] + j) * s.kernel[2] + l,
                          counts ? n1 * s.counted(2, c, dx.size[2]) : 1, v, sum);
            }
        }
        store<T>(to, index, sum);
    }
};

/* The operands of one call. x and y are the input and output of the pool, or, in backward, their gradients. */
struct operands {
    const mp_pooling *pool;
    const mp_array *x, *y;
    void *where;
    int64_t *given;
    const mp_array *given_at;   /* in forward: the layout of output 1 (`given`) */
    const void *values, *norms; /* in backward of a norm: the pool's input and output */
    bool add, is_backward;
};

template <mp_dtype T, class I, mp_pooling_rule RULE, int W> static void run(const operands *q)
{
    const plane<I> x = plane_of<I>(q->x, W), y = plane_of<I>(q->y, W);
    const slide<I> s = slide_of<I>(q->pool);
    if (q->is_backward) {
        const backward<T, I, RULE, W> f = {s, x, y, q->y->data, q->values, q->norms, q->x->data, q->where, q->add};
        mp_each(mp_array_elements(q->x) / W, f);
    } else {
        const forward<T, I, RULE, W> f = {
            s,
            x,
            y,
            plane_of<I>(q->given_at, W),
            q->x->data,
            q->y->data,
            q->where,
            q->given,
            {s.dilation[0] * x.stride[0], s.dilation[1] * x.stride[1], s.dilation[2] * x.stride[2]}};
        mp_each(mp_array_elements(q->y) / W, f);
    }
}

/* True if all element counts, and all coordinates that windows reach, fit in 32 bits. */
static bool is_small(const operands *q)
{
    int64_t most = mp_array_elements(q->x);
    if (mp_array_elements(q->y) > most) most = mp_array_elements(q->y);
    for (int d = 0; d < q->pool->window.n; d++) {
        const mp_sliding *w = &q->pool->window;
        const int64_t reach =
            q->y->dims[d + 2] * w->stride[d] + w->kernel[d] * w->dilation[d] + w->begin[d] + w->end[d] + q->x->dims[d + 2];
        if (reach > most) most = reach;
    }
    return most <= INT32_MAX / 2;
}

/* True if one thread can process eight channels: the channels are adjacent in memory and aligned, and all offsets fit in 32
 * bits. */
static bool takes_vectors(const operands *q, bool small)
{
    const mp_array *x = q->x, *y = q->y;
    return small && !q->given && x->rank > 2 && x->dims[1] % WIDTH == 0 && x->strides[1] == 1 && y->strides[1] == 1 &&
           mp_takes_vectors(x->data, x->dtype) && mp_takes_vectors(y->data, y->dtype) && (uintptr_t)q->where % 16 == 0;
}

template <mp_dtype T> static void run_of(const operands *q)
{
    const bool small = is_small(q), vectors = takes_vectors(q, small);
    switch (q->pool->rule) {
    case MP_POOLING_MAXIMUM:
        if (vectors) return run<T, int32_t, MP_POOLING_MAXIMUM, WIDTH>(q);
        return small ? run<T, int32_t, MP_POOLING_MAXIMUM, 1>(q) : run<T, int64_t, MP_POOLING_MAXIMUM, 1>(q);
    case MP_POOLING_AVERAGE:
        if (vectors) return run<T, int32_t, MP_POOLING_AVERAGE, WIDTH>(q);
        return small ? run<T, int32_t, MP_POOLING_AVERAGE, 1>(q) : run<T, int64_t, MP_POOLING_AVERAGE, 1>(q);
    case MP_POOLING_NORM:
        return small ? run<T, int32_t, MP_POOLING_NORM, 1>(q) : run<T, int64_t, MP_POOLING_NORM, 1>(q);
    }
}

/* Backward of a global average: each element gets its share of one gradient. `run` consecutive elements use the same `width`
 * adjacent gradients. If channels are innermost, width is the number of channels; otherwise width is 1. run and width count
 * vectors of W elements. */
template <mp_dtype T, class I, int W> struct spread {
    I run, width;
    const void *from;
    void *to;
    float part;
    bool add;
    MP_BODY void operator()(int64_t index) const
    {
        const I k = (I)index;
        float g[W], sum[W] = {};
        load<T>(from, over(k, run) * width + k - over(k, width) * width, g);
        if (add) load<T>(to, index, sum);
        for (int e = 0; e < W; e++) sum[e] += g[e] * part;
        store<T>(to, index, sum);
    }
};

template <mp_dtype T, class I, int W> static void run_spread(const operands *q, int64_t width)
{
    const int64_t positions = mp_array_elements(q->x) / mp_array_elements(q->y);
    const spread<T, I, W> f = {
        (I)(positions * width / W), (I)((width + W - 1) / W), q->y->data, q->x->data, 1 / (float)positions, q->add};
    mp_each(mp_array_elements(q->x) / W, f);
}

/* If the call is backward of a global average with a suitable layout, runs it with the kernel `spread`. Otherwise returns
 * false and runs nothing. */
template <mp_dtype T> static bool spreads(const operands *q)
{
    const mp_array *x = q->x, last = x->rank > 2 ? mp_array_channels_last(x->dtype, x->rank, x->dims) : *x;
    const bool is_last = x->rank > 2 && mp_array_same_layout(x, &last);
    if (!q->pool->is_global || q->pool->rule != MP_POOLING_AVERAGE || !mp_array_is_plain(q->y)) return false;
    if (!mp_array_is_plain(x) && !is_last) return false;
    const int64_t width = is_last ? x->dims[1] : 1;
    const bool small = is_small(q);
    if (takes_vectors(q, small))
        run_spread<T, int32_t, WIDTH>(q, width);
    else if (small)
        run_spread<T, int32_t, 1>(q, width);
    else
        run_spread<T, int64_t, 1>(q, width);
    return true;
}

/* The state of a call of a pool. */
struct pools {
    mp_pooling pool;
    bool is_sum; /* true: forward of a global average, computed as a sum */
    float share; /* if is_sum: 1 / n_taps, the factor by which the sum of the window is multiplied */
};

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const pools *s = (const pools *)call->state;
    const mp_array *in = &x->in[0], *out = &x->out[0], *given = x->n_out > 1 && x->out[1].data ? &x->out[1] : NULL;
    const operands q = {
        &s->pool, in,    out,  x->extra[0].data, given ? (int64_t *)given->data : NULL, given ? given : out, NULL,
        NULL,     false, false};
    if (s->is_sum)
        mp_cuda_sum_to(in, out, s->share, false, x->workspace);
    else
        MP_BY_DTYPE(in->dtype, run_of<T>(&q));
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const pools *s = (const pools *)call->state;
    const mp_array *dx = &x->d_in[0], *dy = &x->d_out[0];
    const bool add = (x->adds & call->adds & MP_BIT(0)) != 0;
    const operands q = {&s->pool, dx, dy, x->extra[0].data, NULL, dy, x->in[0].data, x->out[0].data, add, true};
    if (mp_array_elements(dy) > 0) MP_BY_DTYPE(dx->dtype, if (!spreads<T>(&q)) run_of<T>(&q));
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = &x->in[0];
    if (a->rank > 2 + N) return MP_NO_KERNEL(x, err, "more than three spatial dimensions");
    MP_STATE(pools, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    if (x->is_backward) call->adds = x->adds & MP_BIT(0);
    MP_CHECK(mp_pooling_read(x, &s->pool, err));
    s->is_sum = s->pool.is_global && s->pool.rule == MP_POOLING_AVERAGE && !x->is_backward && s->pool.n_taps > 0;
    s->share = s->pool.n_taps > 0 ? 1 / (float)s->pool.n_taps : 0;
    if (s->is_sum) call->workspace_bytes = mp_cuda_sum_workspace_bytes(a, &x->out[0]);
    return MP_OK;
}

} // namespace

#define ROW(kind, rule, is_global) {kind, "", prepare, prepare},
extern "C" const mp_kernel mp_cuda_pools[] = {MP_POOLINGS(ROW){}};
