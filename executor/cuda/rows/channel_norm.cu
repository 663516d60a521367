/* channel_norm.cu - batch normalization: two sums over each channel, and one pass over the elements.
 *
 * A channel is cut into stretches; where channels lie innermost neighbouring threads sum neighbouring channels, else the
 * threads of a row share a stretch. The sums of the stretches are added in a second turn.
 */
#include "executor/cuda/grid/grid.cuh"

#include "executor/cuda/rows/channel_norm.h"

enum { COLUMN_THREADS = 1 << 17, COLUMN_LENGTH = 32, ROWS = 1 << 10, ROW_LENGTH = 1 << 12, ROW_LENGTH_MAX = 1 << 14 };

namespace
{ /* types of kernels of other files may have these names */

static int64_t parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* How many stretches a channel is cut into. */
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

/* An element's place: position p of channel c, and the other way round. */
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

    MP_BODY double normalized(int64_t c, int64_t k) const
    {
        const float v = mp_load_float(x.value.data, x.value.dtype, k);
        if (!x.from_output) return ((double)v - x.mean[c]) * x.rstd[c];
        return ((double)v - mp_load_float(x.shift.data, x.shift.dtype, c)) / mp_load_float(x.scale.data, x.scale.dtype, c);
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

/* What is summed: of the element at k of channel c. */
struct moments_term {
    given n;
    MP_BODY pair operator()(int64_t, int64_t k) const
    {
        const double v = mp_load_float(n.x.value.data, n.x.value.dtype, k);
        return pair{v, v * v};
    }
};
struct gradient_term {
    given n;
    MP_BODY pair operator()(int64_t c, int64_t k) const
    {
        const double g = mp_load_float(n.x.dy.data, n.x.dy.dtype, k);
        return pair{g, g * n.normalized(c, k)};
    }
};

/* The first turn, either way. */
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

/* The second turn; G takes a channel's sums. */
template <class G> struct by_channel : pairs {
    enum { PHASES = 1 };
    G g;
    int64_t n_stretches;
    const pair *partial;
    MP_BODY pair at(int, int64_t row, int64_t column, const pair *) const { return partial[row * n_stretches + column]; }
    MP_BODY void put(int64_t, int64_t, const pair *) const {}
    MP_BODY void end(int64_t row, const pair *totals) const { g(row, totals[0]); }
};

template <class F, class G> static void sum_channels(const mp_channel_norm *c, const F &f, const G &g)
{
    const int64_t n = stretches_of(c), length = parts(c->positions, n);
    pair *partial = (pair *)c->workspace;
    if (c->inner == 1) {
        const by_columns<F> first = {f, n, length, partial};
        mp_each(c->channels * n, first);
    } else {
        by_rows<F> first;
        first.f = f;
        first.n_stretches = n;
        first.length = length;
        first.partial = partial;
        mp_rows(c->channels * n, length, first);
    }
    by_channel<G> second;
    second.g = g;
    second.n_stretches = n;
    second.partial = partial;
    mp_rows(c->channels, n, second);
}

/* Behind the partial sums: per channel the averages of dy and of dy times the normalized value. */
static float *averages_of(const mp_channel_norm *c)
{
    return (float *)((pair *)c->workspace + c->channels * stretches_of(c));
}

struct keep_moments {
    given n;
    MP_BODY void operator()(int64_t c, pair sum) const
    {
        const double mean = sum.a / (double)n.x.positions, square = sum.b / (double)n.x.positions;
        const double variance = square - mean * mean > 0 ? square - mean * mean : 0;
        n.x.mean[c] = (float)mean;
        n.x.rstd[c] = (float)(1 / sqrt(variance + n.x.epsilon));
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
        put(n.x.d_shift, n.x.add_shift, c, sum.a);
        put(n.x.d_scale, n.x.add_scale, c, sum.b);
        averages[2 * c] = (float)(sum.a / (double)n.x.positions);
        averages[2 * c + 1] = (float)(sum.b / (double)n.x.positions);
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

struct move_channel {
    given n;
    MP_BODY void operator()(int64_t c) const
    {
        for (int which = 0; which < 2; which++) {
            const mp_array &old = n.x.running[which];
            if (!old.data) continue;
            double batch = which ? 1 / ((double)n.x.rstd[c] * (double)n.x.rstd[c]) - n.x.epsilon : (double)n.x.mean[c];
            if (which && batch < 0) batch = 0;
            const double moved = (double)mp_load_float(old.data, old.dtype, c) * n.x.momentum + batch * (1 - n.x.momentum);
            for (int k = 0; k < 2; k++) {
                const mp_array &to = n.x.moved[which][k];
                if (to.data) mp_store_float(to.data, to.dtype, c, (float)moved);
            }
        }
    }
};

struct apply_element {
    given n;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t c = n.at.channel(k);
        const float v = mp_load_float(n.x.value.data, n.x.value.dtype, k);
        const float factor = n.x.rstd[c] * mp_load_float(n.x.scale.data, n.x.scale.dtype, c);
        mp_store_float(n.x.y.data, n.x.y.dtype, k,
                       (v - n.x.mean[c]) * factor + mp_load_float(n.x.shift.data, n.x.shift.dtype, c));
    }
};

struct gradient_element {
    given n;
    const float *averages;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t c = n.at.channel(k);
        const float g = mp_load_float(n.x.dy.data, n.x.dy.dtype, k), v = (float)n.normalized(c, k);
        const float factor = n.x.rstd[c] * mp_load_float(n.x.scale.data, n.x.scale.dtype, c);
        mp_store_float(n.x.dx.data, n.x.dx.dtype, k, factor * (g - averages[2 * c] - v * averages[2 * c + 1]));
    }
};

} // namespace

bool mp_channel_norm_read(const mp_array *a, mp_channel_norm *c)
{
    const int64_t n = mp_array_elements(a);
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
    return c->channels * (stretches_of(c) * (int64_t)sizeof(pair) + 2 * (int64_t)sizeof(float));
}

void mp_channel_norm_measure(const mp_channel_norm *c)
{
    const moments_term term = {given_of(c)};
    const keep_moments keep = {given_of(c)};
    sum_channels(c, term, keep);
}

void mp_channel_norm_borrow(const mp_channel_norm *c)
{
    const borrow_channel f = {given_of(c)};
    mp_each(c->channels, f);
}

void mp_channel_norm_move(const mp_channel_norm *c)
{
    const move_channel f = {given_of(c)};
    mp_each(c->channels, f);
}

void mp_channel_norm_apply(const mp_channel_norm *c)
{
    const apply_element f = {given_of(c)};
    mp_each(c->channels * c->positions, f);
}

void mp_channel_norm_backward(const mp_channel_norm *c)
{
    const gradient_term term = {given_of(c)};
    const keep_gradients keep = {given_of(c), averages_of(c)};
    sum_channels(c, term, keep);
    if (!c->dx.dtype) return;
    const gradient_element f = {given_of(c), averages_of(c)};
    mp_each(c->channels * c->positions, f);
}
