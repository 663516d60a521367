/* channel_norm_cuda.cu - batch normalization on the GPU: two sums over each channel, and one pass over the elements.
 *
 * This file has the kernels for any layout, and the kernels with one thread per channel. A channel is split into stretches. If
 * channels are innermost, adjacent threads sum adjacent channels; otherwise the threads of a row share a stretch. A second
 * launch adds the stretches of each channel. */
#include "executor/operators/batch_normalization/channel_vectors.cuh"

enum { COLUMN_THREADS = 1 << 17, COLUMN_LENGTH = 32, ROWS = 1 << 10, ROW_LENGTH = 1 << 12, ROW_LENGTH_MAX = 1 << 14 };

namespace
{ /* an unnamed namespace, because other files define types with the same names for their kernels */

static int64_t parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Returns the number of stretches (ranges of consecutive terms) into which the sum over a channel is split. */
static int64_t stretches_of(const mp_channel_norm *c)
{
    const bool columns = c->inner == 1;
    const int64_t threads = columns ? COLUMN_THREADS : ROWS, least = columns ? COLUMN_LENGTH : ROW_LENGTH;
    int64_t n = parts(threads, c->channels > 0 ? c->channels : 1);
    const int64_t most = parts(c->positions, least), fewest = columns ? 1 : parts(c->positions, ROW_LENGTH_MAX);
    n = n < most ? n : most;
    n = n > fewest ? n : fewest;
    return n > 0 ? n : 1;
}

/* Converts a channel and a position within the channel to the offset of an element, and an offset to its channel. */
struct places {
    int64_t channels, inner;
    bool is_small;

    MP_BODY int64_t of(int64_t c, int64_t p) const { return (p / inner * channels + c) * inner + p % inner; }
    MP_BODY int64_t channel(int64_t k) const
    {
        if (is_small) return (uint32_t)k / (uint32_t)inner % (uint32_t)channels;
        return k / inner % channels;
    }
};

struct given {
    mp_channel_norm x;
    places at;

    MP_BODY float center(int64_t c) const { return x.from_output ? mp_load_one(x.shift.data, x.shift.dtype, c) : x.mean[c]; }
    MP_BODY float gain(int64_t c) const { return x.rstd[c] * mp_load_one(x.scale.data, x.scale.dtype, c); }
    MP_BODY float value(int64_t k) const { return mp_load_one(x.value.data, x.value.dtype, k); }
    MP_BODY float normal(int64_t c, int64_t k) const
    {
        return mp_channel_value(value(k), x.mean[c], gain(c), mp_load_one(x.shift.data, x.shift.dtype, c));
    }
    /* Returns dy where the fused ReLU's output is above zero, else 0. */
    MP_BODY float masked(int64_t c, int64_t k) const
    {
        const float g = mp_load_one(x.dy.data, x.dy.dtype, k);
        if (x.end == MP_CHANNEL_PLAIN) return g;
        return (x.end == MP_CHANNEL_RELU ? normal(c, k) > 0 : x.positive[k / 8] >> k % 8 & 1) ? g : 0;
    }
};

static given given_of(const mp_channel_norm *c)
{
    const given n = {*c, {c->channels, c->inner, c->channels * c->positions <= INT32_MAX}};
    return n;
}

struct pair {
    double a, b;
};

struct pairs {
    typedef pair value;
    MP_BODY value none(int) const { return pair{0, 0}; }
    MP_BODY value join(int, value s, value t) const { return pair{s.a + t.a, s.b + t.b}; }
};

/* The two terms that an element adds to the sums of its channel: functions of the element's offset k. */
struct moments_term {
    given n;
    MP_BODY pair operator()(int64_t, int64_t k) const
    {
        const double v = n.value(k);
        return pair{v, v * v};
    }
};
struct gradient_term {
    given n;
    MP_BODY pair operator()(int64_t c, int64_t k) const
    {
        const double g = n.masked(c, k);
        return pair{g, g * ((double)n.value(k) - n.center(c))};
    }
};

/* The kernel of the first launch: computes a partial sum for each channel and stretch of consecutive elements of the
 * channel. */
template <class F> struct by_columns {
    F f;
    int64_t n_stretches, length;
    pair *partial;
    MP_BODY void operator()(int64_t index) const
    {
        const given &n = f.n;
        const int64_t c = index % n.x.channels, stretch = index / n.x.channels, first = stretch * length;
        const int64_t until = first + length < n.x.positions ? first + length : n.x.positions;
        pair sum = {0, 0};
        for (int64_t p = first; p < until; p++) {
            const pair term = f(c, p * n.x.channels + c);
            sum.a += term.a;
            sum.b += term.b;
        }
        partial[c * n_stretches + stretch] = sum;
    }
};
template <class F> struct by_rows : pairs {
    enum { PHASES = 1 };
    F f;
    int64_t n_stretches, length;
    pair *partial;
    MP_BODY pair at(int, int64_t row, int64_t column, const pair *) const
    {
        const int64_t c = row / n_stretches, p = row % n_stretches * length + column;
        if (p >= f.n.x.positions) return pair{0, 0};
        return f(c, f.n.at.of(c, p));
    }
    MP_BODY void put(int64_t, int64_t, const pair *) const {}
    MP_BODY void end(int64_t row, const pair *totals) const { partial[row] = totals[0]; }
};

/* The kernel of the second launch: adds the stretches' sums of a channel, and passes the totals to G. The sums of stretch s and
 * channel c are at index s * step + c * across. */
template <class G, class P> struct by_channel : pairs {
    enum { PHASES = 1 };
    G g;
    int64_t step, across;
    const P *partial;
    MP_BODY pair at(int, int64_t row, int64_t column, const pair *) const
    {
        const P p = partial[column * step + row * across];
        return pair{p.a, p.b};
    }
    MP_BODY void put(int64_t, int64_t, const pair *) const {}
    MP_BODY void end(int64_t row, const pair *totals) const { g(row, totals[0]); }
};

template <class G, class P>
static void end_sums(const mp_channel_norm *c, const G &g, const P *partial, int64_t n, int64_t step, int64_t across)
{
    mp_rows(c->channels, n, by_channel<G, P>{{}, g, step, across, partial});
}

template <class F, class G> static void sum_channels(const mp_channel_norm *c, const F &f, const G &g)
{
    const int64_t n = stretches_of(c), length = parts(c->positions, n);
    pair *partial = (pair *)c->workspace;
    if (c->inner == 1) {
        mp_each(c->channels * n, by_columns<F>{f, n, length, partial});
    } else {
        mp_rows(c->channels * n, length, by_rows<F>{{}, f, n, length, partial});
    }
    end_sums(c, g, partial, n, 1, n);
}

template <class TERMS, class G> static void sum_vectors(const mp_channel_norm *c, const TERMS &terms, const G &g)
{
    const mp_channel_cut cut = mp_channel_cut_of(c, TERMS::W);
    const mp_channel_sums<TERMS> first = {terms, cut, (mp_float_pair *)c->workspace};
    mp_blocks(cut.n_parts * cut.chunks, first);
    end_sums(c, g, first.partial, cut.n_parts, c->channels, 1);
}

/* Returns the number of elements per vector in the kernels that compute mean and variance. */
static int width_of_moments(const mp_channel_norm *c)
{
    return c->value.dtype == MP_DTYPE_FLOAT ? mp_width<MP_DTYPE_FLOAT> : mp_width<MP_DTYPE_BFLOAT16>;
}

/* Returns the number of elements per vector in the kernels of forward and backward; 0: the tensor's channels cannot be read in
 * vectors. */
static int width_of(const mp_channel_norm *c)
{
    const int width = c->end == MP_CHANNEL_ADDED_RELU ? 8 : width_of_moments(c);
    return c->inner == 1 && c->channels > 1 && c->channels % width == 0 ? width : 0;
}

static bool is_aligned(const mp_array *a)
{
    return (uintptr_t)a->data % 16 == 0;
}

static bool takes_vectors(const mp_channel_norm *c)
{
    return width_of(c) && is_aligned(&c->value) && is_aligned(&c->y) && is_aligned(&c->dy) && is_aligned(&c->dx) &&
           is_aligned(&c->z) && is_aligned(&c->dz);
}

static int64_t sums_bytes(const mp_channel_norm *c)
{
    const int width = width_of(c);
    int64_t most = stretches_of(c) * (int64_t)sizeof(pair);
    for (int k = 0; width && k < 2; k++) {
        const int64_t vectors = mp_channel_cut_of(c, k ? width : width_of_moments(c)).n_parts * (int64_t)sizeof(mp_float_pair);
        most = vectors > most ? vectors : most;
    }
    return c->channels * most;
}

/* Returns the workspace address after the partial sums. Backward stores two values per channel: the mean of dy, and the mean
 * of dy times the normalized value. */
static float *averages_of(const mp_channel_norm *c)
{
    return (float *)((char *)c->workspace + sums_bytes(c));
}

struct keep_moments {
    given n;
    bool is_shifted; /* true: the first element of the channel is subtracted from all values before they are summed */
    MP_BODY void move(int which, int64_t c, double batch) const
    {
        const mp_array &old = n.x.running[which], *to = n.x.moved[which];
        if (!old.data) return;
        const double moved = (double)mp_load_any(old.data, old.dtype, c) * n.x.momentum + batch * (1 - n.x.momentum);
        for (int k = 0; k < 2; k++)
            if (to[k].data) mp_store_any(to[k].data, to[k].dtype, c, (float)moved);
    }
    MP_BODY void operator()(int64_t c, pair sum) const
    {
        const double off = sum.a / (double)n.x.positions, square = sum.b / (double)n.x.positions;
        const double variance = square - off * off > 0 ? square - off * off : 0;
        const double mean = off + (is_shifted ? (double)n.value(c) : 0);
        n.x.mean[c] = (float)mean;
        n.x.rstd[c] = (float)(1 / sqrt(variance + n.x.epsilon));
        move(0, c, mean);
        move(1, c, variance);
    }
};

struct keep_gradients {
    given n;
    float *averages;
    MP_BODY void put(const mp_array &to, bool add, int64_t c, double value) const
    {
        if (!to.dtype) return;
        mp_store_float(to.data, to.dtype, c, (float)value + (add ? mp_load_float(to.data, to.dtype, c) : 0));
    }
    MP_BODY void operator()(int64_t c, pair sum) const
    {
        const double product = sum.b * (double)mp_channel_unit(n.x, c);
        put(n.x.d_shift, n.x.add_shift, c, sum.a);
        put(n.x.d_scale, n.x.add_scale, c, product);
        averages[2 * c] = (float)(sum.a / (double)n.x.positions);
        averages[2 * c + 1] = (float)(product / (double)n.x.positions);
    }
};

struct borrow_channel {
    given n;
    MP_BODY void operator()(int64_t c) const
    {
        n.x.mean[c] = mp_load_float(n.x.running[0].data, n.x.running[0].dtype, c);
        n.x.rstd[c] = (float)(1 / sqrt((double)mp_load_float(n.x.running[1].data, n.x.running[1].dtype, c) + n.x.epsilon));
    }
};

struct apply_element {
    given n;
    MP_BODY void operator()(int64_t k) const
    {
        const float y = n.normal(n.at.channel(k), k);
        mp_store_one(n.x.y.data, n.x.y.dtype, k, n.x.end == MP_CHANNEL_PLAIN ? y : mp_channel_relu(y));
    }
};

/* Forward with a fused addition and ReLU. Each thread processes eight elements and writes one byte of sign bits. */
template <mp_dtype T> struct apply_byte {
    enum { W = 8 };
    given n;
    int64_t n_elements;
    bool vectors;

    MP_BODY void take(const mp_array &a, int64_t byte, int size, float (&to)[W]) const
    {
        if (vectors) return mp_load_vector(a.data, T, byte, size, to);
        MP_UNROLL
        for (int e = 0; e < W; e++) to[e] = e < size ? mp_load_one(a.data, T, byte * W + e) : 0;
    }
    MP_BODY void operator()(int64_t byte) const
    {
        const int size = mp_vector_size<W>(n_elements, byte);
        float x[W], z[W];
        unsigned positive = 0;
        take(n.x.value, byte, size, x);
        take(n.x.z, byte, size, z);
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            if (e >= size) continue;
            const int64_t c = n.at.channel(byte * W + e);
            const float y =
                mp_channel_value(x[e], n.x.mean[c], n.gain(c), mp_load_one(n.x.shift.data, n.x.shift.dtype, c)) + z[e];
            positive |= (y > 0 ? 1u : 0u) << e;
            x[e] = mp_channel_relu(y);
            if (!vectors) mp_store_one(n.x.y.data, T, byte * W + e, x[e]);
        }
        if (vectors) mp_store_vector(n.x.y.data, T, byte, size, x);
        if (n.x.positive) n.x.positive[byte] = (uint8_t)positive;
    }
};

struct gradient_element {
    given n;
    const float *averages;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t c = n.at.channel(k);
        const float g = n.masked(c, k), v = (n.value(k) - n.center(c)) * mp_channel_unit(n.x, c);
        const mp_array &dx = n.x.dx, &dz = n.x.dz;
        if (dx.data) mp_store_one(dx.data, dx.dtype, k, n.gain(c) * (g - averages[2 * c] - v * averages[2 * c + 1]));
        if (n.x.end != MP_CHANNEL_ADDED_RELU || !dz.data) return;
        /* dz must be written after dx: if both have one address, the gradient of the added tensor is added to dx */
        mp_store_one(dz.data, dz.dtype, k, g + (n.x.add_dz ? mp_load_one(dz.data, dz.dtype, k) : 0));
    }
};

template <mp_dtype T> static void measure(const mp_channel_norm *c)
{
    const bool vectors = takes_vectors(c);
    const keep_moments keep = {given_of(c), vectors};
    if (vectors)
        sum_vectors(c, mp_moment_terms<T>{*c}, keep);
    else
        sum_channels(c, moments_term{given_of(c)}, keep);
}

template <mp_dtype T, mp_channel_end END> static void apply(const mp_channel_norm *c)
{
    const int64_t n = c->channels * c->positions;
    if (!takes_vectors(c)) {
        if (END != MP_CHANNEL_ADDED_RELU) return mp_each(n, apply_element{given_of(c)});
        return mp_each(mp_vectors<8>(n),
                       apply_byte<T>{given_of(c), n, is_aligned(&c->value) && is_aligned(&c->y) && is_aligned(&c->z)});
    }
    const mp_channel_lanes lanes = mp_channel_lanes_of(c, mp_channel_width<T, END>);
    mp_each(lanes.vectors * lanes.n_lanes, mp_channel_apply<T, END>{*c, lanes});
}

template <mp_dtype T, mp_channel_end END> static void backward(const mp_channel_norm *c)
{
    const bool vectors = takes_vectors(c);
    const keep_gradients keep = {given_of(c), averages_of(c)};
    if (vectors)
        sum_vectors(c, mp_gradient_terms<T, END>{*c}, keep);
    else
        sum_channels(c, gradient_term{given_of(c)}, keep);
    if (!c->dx.data && !c->dz.data) return;
    const mp_channel_lanes lanes = mp_channel_lanes_of(c, mp_channel_width<T, END>);
    if (vectors)
        mp_each(lanes.vectors * lanes.n_lanes, mp_channel_gradient<T, END>{*c, lanes, averages_of(c)});
    else
        mp_each(c->channels * c->positions, gradient_element{given_of(c), averages_of(c)});
}

/* Runs STATEMENT with END as a compile-time constant: the operators that are fused after the normalization. */
#define BY_END(end, STATEMENT)                                    \
    do {                                                          \
        if ((end) == MP_CHANNEL_PLAIN) {                          \
            constexpr mp_channel_end END = MP_CHANNEL_PLAIN;      \
            STATEMENT;                                            \
        } else if ((end) == MP_CHANNEL_RELU) {                    \
            constexpr mp_channel_end END = MP_CHANNEL_RELU;       \
            STATEMENT;                                            \
        } else {                                                  \
            constexpr mp_channel_end END = MP_CHANNEL_ADDED_RELU; \
            STATEMENT;                                            \
        }                                                         \
    } while (0)

} // namespace

bool mp_channel_norm_read(const mp_array *a, mp_channel_norm *c)
{
    const int64_t n = mp_array_elements(a);
    c->value = *a;
    c->channels = a->rank > 1 ? a->dims[1] : 1;
    c->positions = c->channels ? n / c->channels : 0;
    const mp_array last = a->rank > 2 ? mp_array_channels_last(a->dtype, a->rank, a->dims) : *a;
    if (mp_array_is_plain(a)) {
        c->inner = 1;
        for (int d = 2; d < a->rank; d++) c->inner *= a->dims[d];
        if (a->rank < 2) c->inner = n;
        return true;
    }
    c->inner = 1;
    return a->rank > 2 && mp_array_same_layout(a, &last);
}

int64_t mp_channel_norm_workspace_bytes(const mp_channel_norm *c)
{
    return sums_bytes(c) + 2 * c->channels * (int64_t)sizeof(float);
}

void mp_channel_norm_measure(const mp_channel_norm *c)
{
    MP_BY_DTYPE(c->value.dtype, measure<T>(c));
}

void mp_channel_norm_borrow(const mp_channel_norm *c)
{
    const borrow_channel f = {given_of(c)};
    mp_each(c->channels, f);
}

void mp_channel_norm_apply(const mp_channel_norm *c)
{
    MP_BY_DTYPE(c->value.dtype, BY_END(c->end, (apply<T, END>(c))));
}

void mp_channel_norm_backward(const mp_channel_norm *c)
{
    MP_BY_DTYPE(c->value.dtype, BY_END(c->end, (backward<T, END>(c))));
}
