/* attention_cuda.cu - attention on the GPU. Scores are computed in tiles that are never stored in memory. Forward uses a
 * running maximum and sum of each row (Milakov, Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022,
 * "FlashAttention"). Backward uses the logarithm of each row's sum.
 *
 * Products run on tensor cores: in bfloat16 if Q, K and V are bfloat16; else in TF32 with --tf32; else in float, as three TF32
 * products. Sums are float. A thread block computes rows of one result. It processes the blocks of the other operand in
 * ascending order, so sums have a fixed order. Scores are computed once in forward and twice in backward: once for the
 * gradients of K and V, and once for the gradient of Q. Backward's workspace is one float per row. */
#include "executor/operators/attention/attention_cuda.cuh"

extern "C" {
#include "executor/cuda/device/settings.h"
#include "executor/operators/attention/packed_operands.h"
}

namespace
{

MP_INLINE int64_t parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* ---- forward. */

template <mp_numbers N, int COLUMNS> struct forward_rows {
    typedef mp_attention_tiles<N, COLUMNS, 64> tiles;
    enum { THREADS = tiles::THREADS, KEYS = tiles::THEIRS };
    struct shared {
        typename tiles::mine q;
        typename tiles::theirs k, v;
    };
    struct own {
        float scores[KEYS / 8][4], sums[COLUMNS / 8][4];
        mp_fragment<N, 4> a;
        mp_fragment<N, 2> b;
        float best[2], factor[2], part[2], total[2]; /* for the two rows that a lane holds */
        mp_score_bits bits;
    };
    mp_attend a;
    int64_t chunks; /* number of column blocks of V, of COLUMNS columns each */

    static MP_BODY float shift_of(float best) { return best == -INFINITY ? 0 : best; }

    /* Computes the scores of a tile, and reads the first slice of V into shared memory. q, k, v: views that begin at the tile's
     * first row. */
    template <class BLOCK>
    MP_BODY void scores_at(BLOCK &b, bool is_first, const mp_matrix_view &q, const mp_matrix_view &k,
                           const mp_matrix_view &v) const
    {
        const bool is_single = a.size.depth <= tiles::SLICE;
        b.threads([&](int, own &o) {
            MP_UNROLL
            for (int j = 0; j < KEYS / 8; j++) o.scores[j][0] = o.scores[j][1] = o.scores[j][2] = o.scores[j][3] = 0;
        });
        for (int64_t first = 0; first < a.size.depth; first += tiles::SLICE) {
            b.shares([&](int t, shared &s, own &) {
                if (!is_single || is_first) mp_tile_fill<N, THREADS>(t, s.q, q.from(0, first));
                mp_tile_fill<N, THREADS>(t, s.k, k.from(0, first));
                if (first == 0) mp_tile_fill<N, THREADS>(t, s.v, v);
            });
            b.barrier();
            const int64_t left = a.size.depth - first;
            mp_product_across<N, KEYS>(
                b, [](shared & s) -> auto & { return s.q; }, [](shared & s) -> auto & { return s.k; },
                left < tiles::SLICE ? left : (int64_t)tiles::SLICE, [](own &o) { return o.scores; });
            if (!is_single) b.barrier();
        }
    }

    /* Replaces scores by exponentials relative to the row's current maximum. If a tile raises the maximum, the earlier sums are
     * rescaled. */
    template <class BLOCK>
    MP_BODY void take_in(BLOCK &b, const mp_matrix_view &added, const mp_matrix_view &place, int64_t m, int64_t row,
                         int64_t column) const
    {
        const mp_score_masks masks(a, added, row, column);
        b.threads([&](int t, own &o) {
            o.bits = mp_score_bits_of<KEYS>(a, place, t, m, row, column, false);
            o.part[0] = o.part[1] = -INFINITY;
            mp_each_sum<KEYS>(t, [&](int j, int e, int r, int c) {
                const float score = masks.apply(r, c, o.bits.replaced >> (4 * j + e) & 1, o.scores[j][e]);
                o.scores[j][e] = score;
                o.part[e / 2] = score > o.part[e / 2] ? score : o.part[e / 2];
            });
        });
        mp_join_columns<false>(b, [](own &o) { return o.part; });
        b.threads([&](int t, own &o) {
            const float growth = 1 / (1 - a.ratio);
            MP_UNROLL
            for (int k = 0; k < 2; k++) {
                const float best = o.part[k] > o.best[k] ? o.part[k] : o.best[k];
                o.factor[k] = expf(o.best[k] - shift_of(best));
                o.best[k] = best;
                o.part[k] = 0;
            }
            mp_each_sum<KEYS>(t, [&](int j, int e, int, int) {
                const float p = mp_exp_of_score<N>(o.scores[j][e] - shift_of(o.best[e / 2]));
                o.part[e / 2] += p;
                o.scores[j][e] = p * (o.bits.kept >> (4 * j + e) & 1 ? growth : 0);
            });
            mp_each_sum<COLUMNS>(t, [&](int j, int e, int, int) { o.sums[j][e] *= o.factor[e / 2]; });
        });
        mp_join_columns<true>(b, [](own &o) { return o.part; });
        b.threads([&](int, own &o) {
            MP_UNROLL
            for (int k = 0; k < 2; k++) o.total[k] = o.total[k] * o.factor[k] + o.part[k];
        });
    }

    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        const int64_t n_tiles = parts_of(a.size.rows, MP_ATTENTION_ROWS), chunk = k % chunks * COLUMNS;
        /* with a causal mask, the last rows take longest, so blocks begin with them */
        const int64_t row = (n_tiles - 1 - k / chunks % n_tiles) * MP_ATTENTION_ROWS, m = k / chunks / n_tiles;
        const mp_matrix_view q = a.q.matrix(m).from(row, 0), keys = a.k.matrix(m), values = a.v.matrix(m).from(0, chunk),
                             added = a.added.matrix(m), place = a.positions.matrix(m);
        b.threads([&](int t, own &o) {
            mp_each_sum<COLUMNS>(t, [&](int j, int e, int, int) { o.sums[j][e] = 0; });
            o.best[0] = o.best[1] = -INFINITY;
            o.total[0] = o.total[1] = 0;
        });
        for (int64_t column = 0; column < a.size.columns && !(a.causal && column >= row + MP_ATTENTION_ROWS); column += KEYS) {
            const mp_matrix_view v = values.from(column, 0);
            scores_at(b, column == 0, q, keys.from(column, 0), v);
            take_in(b, added, place, m, row, column);
            MP_UNROLL
            for (int c = 0; c < tiles::SLICES; c++) {
                if (c * tiles::SLICE >= v.columns) continue;
                if (c) {
                    b.barrier();
                    b.shares([&](int t, shared &s, own &) { mp_tile_fill<N, THREADS>(t, s.v, v.from(0, c * tiles::SLICE)); });
                    b.barrier();
                }
                mp_product_down<N, tiles>(
                    b, [](own &o) { return o.scores; }, [](shared & s) -> auto & { return s.v; }, v.rows,
                    v.columns - c * tiles::SLICE, c * tiles::SLICE / 8, [](own &o) { return o.sums; });
            }
            b.barrier();
        }
        b.threads([&](int t, own &o) {
            /* a row whose scores are all masked gives 0 times infinity, that is NaN, unless the operator requires zeros */
            mp_sums_write<COLUMNS>(t, a.y.matrix(m).from(row, chunk), o.sums,
                                   [&](int e) { return a.safe && o.best[e / 2] == -INFINITY ? 0 : 1 / o.total[e / 2]; });
            for (int half = 0; half < 2; half++) {
                const int64_t r = row + t / MP_WARP * 16 + t % MP_WARP / 4 + half * 8;
                const float best = o.best[half];
                if (a.lse && chunk == 0 && t % 4 == 0 && r < a.size.rows)
                    a.lse[m * a.size.rows + r] = a.safe && best == -INFINITY ? INFINITY : best + logf(o.total[half]);
            }
        });
    }
};

/* ---- backward: with D = rowsum(dY * Y),
 *
 * dV = P^T dY;  dP = dY V^T;  dS = P * (dP - D);  dQ = scale dS K;  dK = scale dS^T Q
 *
 * Dropout is drawn again and applied to P and dP. */

struct sums_of_rows : mp_sums {
    enum { PHASES = 1 };
    mp_attend a;
    float *d;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t m = row / a.size.rows, r = row % a.size.rows;
        return value{a.dy.matrix(m).load(r, column) * a.y.matrix(m).load(r, column)};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { d[row] = totals[0].x; }
};

/* The common part of both kernels of backward. A block owns rows of two operands (`first`, `second`), and reads two other
 * operands (`third`, `fourth`) in blocks of rows. For dQ these four are Q, dY, K and V. For dK and dV they are K, V, Q and dY;
 * scores then have one row per key. */
template <mp_numbers N, int C> struct backward_products {
    typedef mp_attention_tiles<N, C, N == MP_HALVES && C == 64 ? 64 : 32> tiles;
    enum { THREADS = tiles::THREADS, COLUMNS = C, THEIRS = tiles::THEIRS, SLICE = tiles::SLICE };
    struct shared {
        typename tiles::mine first, second;
        typename tiles::theirs third, fourth;
        float lse[THEIRS], d[THEIRS]; /* only for dK and dV: lse and D of the rows of Q in the tile */
    };
    struct own {
        float scores[THEIRS / 8][4], dp[THEIRS / 8][4], sums[C / 8][4];
        mp_fragment<N, 4> a;
        mp_fragment<N, 2> b;
        float lse[2], d[2]; /* only for dQ: lse and D of the two rows that a lane holds */
    };
    mp_attend a;
    const float *d;
    int64_t chunks; /* number of column blocks of the results, of COLUMNS columns each */

    MP_BODY bool is_single() const { return a.size.depth <= SLICE && a.size.value_depth <= SLICE; }

    /* Reads columns [from, from + SLICE) of `third` and `fourth` into shared memory. */
    template <class S>
    static MP_BODY void read(int t, S &s, const mp_matrix_view &third, const mp_matrix_view &fourth, int64_t from)
    {
        mp_tile_fill<N, THREADS>(t, s.third, third.from(0, from));
        mp_tile_fill<N, THREADS>(t, s.fourth, fourth.from(0, from));
    }

    /* Computes scores = first third^T and dP = second fourth^T. is_new: `first` and `second` must still be read into shared
     * memory. */
    template <class BLOCK>
    MP_BODY void products(BLOCK &b, bool is_new, const mp_matrix_view &first, const mp_matrix_view &second,
                          const mp_matrix_view &third, const mp_matrix_view &fourth) const
    {
        const int64_t depth = a.size.depth, value_depth = a.size.value_depth;
        b.threads(
            [&](int t, auto &o) { mp_each_sum<THEIRS>(t, [&](int j, int e, int, int) { o.scores[j][e] = o.dp[j][e] = 0; }); });
        for (int64_t from = 0; from < depth || from < value_depth; from += SLICE) {
            b.shares([&](int t, auto &s, auto &) {
                if (is_new || !is_single()) {
                    mp_tile_fill<N, THREADS>(t, s.first, first.from(0, from));
                    mp_tile_fill<N, THREADS>(t, s.second, second.from(0, from));
                }
                read(t, s, third, fourth, from);
            });
            b.barrier();
            mp_product_across<N, THEIRS>(
                b, [](auto &s) -> auto & { return s.first; }, [](auto &s) -> auto & { return s.third; },
                depth - from < SLICE ? depth - from : (int64_t)SLICE, [](auto &o) { return o.scores; });
            mp_product_across<N, THEIRS>(
                b, [](auto &s) -> auto & { return s.second; }, [](auto &s) -> auto & { return s.fourth; },
                value_depth - from < SLICE ? value_depth - from : (int64_t)SLICE, [](auto &o) { return o.dp; });
            if (!is_single()) b.barrier();
        }
    }

    /* Replaces o.scores by probabilities after dropout, and o.dp by the gradients of the scores. is_turned: scores have one row
     * per key. lse(e, c) and sum(e, c) return the row's logarithm of its sum and its D; c is the column of the tile. */
    template <class OWN, class L, class D>
    MP_BODY void differentiate(int t, OWN &o, const mp_matrix_view &added, const mp_matrix_view &place, int64_t m, int64_t row,
                               int64_t column, bool is_turned, const L &lse, const D &sum) const
    {
        const mp_score_masks masks(a, added, row, column);
        const mp_score_bits bits = mp_score_bits_of<THEIRS>(a, place, t, m, row, column, is_turned);
        const float growth = 1 / (1 - a.ratio);
        mp_each_sum<THEIRS>(t, [&](int j, int e, int mine, int theirs) {
            const int r = is_turned ? theirs : mine, c = is_turned ? mine : theirs, k = 4 * j + e;
            const bool is_replaced = bits.replaced >> k & 1, is_inside = masks.is_inside(r, c);
            const float w = bits.kept >> k & 1 ? growth : 0;
            const float p = is_inside ? mp_exp_of_score<N>(masks.apply(r, c, is_replaced, o.scores[j][e]) - lse(e, theirs)) : 0;
            /* the gradient is 0 if a mask has replaced the score, or if the score is the only one of its row */
            o.dp[j][e] = is_inside && !is_replaced && a.size.columns > 1 ? p * (o.dp[j][e] * w - sum(e, theirs)) : 0;
            o.scores[j][e] = is_inside ? p * w : 0;
        });
    }
};

/* Computes rows of the gradients of K and V in one thread block. */
template <mp_numbers N, int C> struct backward_keys : backward_products<N, C> {
    typedef backward_products<N, C> base;
    typedef typename base::tiles tiles;
    typedef typename base::shared shared;
    struct own : base::own {
        float values[C / 8][4];
    };
    enum { THREADS = base::THREADS, QUERIES = base::THEIRS, SLICE = base::SLICE };
    mp_matrix_stack dk, dv;

    template <class BLOCK> MP_BODY void run(int64_t work, BLOCK &b) const
    {
        const mp_attend &a = this->a;
        const int64_t chunk = work % this->chunks * C, n_tiles = parts_of(a.size.columns, MP_ATTENTION_ROWS);
        const int64_t column = work / this->chunks % n_tiles * MP_ATTENTION_ROWS, m = work / this->chunks / n_tiles;
        const bool wants_k = dk.of.data && chunk < a.size.depth, wants_v = dv.of.data && chunk < a.size.value_depth;
        const mp_matrix_view k = a.k.matrix(m).from(column, 0), v = a.v.matrix(m).from(column, 0), queries = a.q.matrix(m),
                             dys = a.dy.matrix(m), added = a.added.matrix(m), place = a.positions.matrix(m);
        bool is_new = true;
        b.threads(
            [&](int t, own &o) { mp_each_sum<C>(t, [&](int j, int e, int, int) { o.sums[j][e] = o.values[j][e] = 0; }); });
        for (int64_t row = 0; row < a.size.rows; row += QUERIES) {
            const mp_matrix_view q = queries.from(row, 0), dy = dys.from(row, 0);
            if (a.causal && column >= row + QUERIES) continue;
            b.shares([&](int t, shared &s, own &) {
                const int64_t at = m * a.size.rows + row + t;
                if (t < QUERIES && row + t < a.size.rows) s.lse[t] = a.lse[at], s.d[t] = this->d[at];
            });
            this->products(b, is_new, k, v, q, dy);
            is_new = false;
            b.shares([&](int t, shared &s, own &o) {
                this->differentiate(
                    t, o, added, place, m, row, column, true, [&](int, int r) { return s.lse[r]; },
                    [&](int, int r) { return s.d[r]; });
            });
            MP_UNROLL
            for (int slice = 0; slice < tiles::SLICES; slice++) {
                const int64_t from = chunk + slice * SLICE;
                if (!this->is_single()) {
                    b.barrier();
                    b.shares([&](int t, shared &s, own &) { this->read(t, s, q, dy, from); });
                    b.barrier();
                }
                if (wants_k)
                    mp_product_down<N, tiles>(
                        b, [](own &o) { return o.dp; }, [](shared & s) -> auto & { return s.third; }, q.rows,
                        a.size.depth - from, slice * SLICE / 8, [](own &o) { return o.sums; });
                if (wants_v)
                    mp_product_down<N, tiles>(
                        b, [](own &o) { return o.scores; }, [](shared & s) -> auto & { return s.fourth; }, q.rows,
                        a.size.value_depth - from, slice * SLICE / 8, [](own &o) { return o.values; });
            }
            b.barrier();
        }
        b.threads([&](int t, own &o) {
            if (wants_k) mp_sums_write<C>(t, dk.matrix(m).from(column, chunk), o.sums, [&](int) { return a.scale; });
            if (wants_v) mp_sums_write<C>(t, dv.matrix(m).from(column, chunk), o.values, [](int) { return 1.0f; });
        });
    }
};

/* Computes rows of the gradient of Q in one thread block. */
template <mp_numbers N, int C> struct backward_rows : backward_products<N, C> {
    typedef backward_products<N, C> base;
    typedef typename base::tiles tiles;
    typedef typename base::shared shared;
    typedef typename base::own own;
    enum { THREADS = base::THREADS, KEYS = base::THEIRS, SLICE = base::SLICE };
    mp_matrix_stack dq;

    template <class BLOCK> MP_BODY void run(int64_t work, BLOCK &b) const
    {
        const mp_attend &a = this->a;
        const int64_t chunk = work % this->chunks * C, n_tiles = parts_of(a.size.rows, MP_ATTENTION_ROWS);
        const int64_t row = (n_tiles - 1 - work / this->chunks % n_tiles) * MP_ATTENTION_ROWS,
                      m = work / this->chunks / n_tiles;
        const mp_matrix_view q = a.q.matrix(m).from(row, 0), dy = a.dy.matrix(m).from(row, 0), keys = a.k.matrix(m),
                             values = a.v.matrix(m), added = a.added.matrix(m), place = a.positions.matrix(m);
        b.threads([&](int t, own &o) {
            mp_each_sum<C>(t, [&](int j, int e, int, int) { o.sums[j][e] = 0; });
            for (int half = 0; half < 2; half++) {
                const int64_t r = row + t / MP_WARP * 16 + t % MP_WARP / 4 + half * 8, at = m * a.size.rows + r;
                o.lse[half] = r < a.size.rows ? a.lse[at] : 0;
                o.d[half] = r < a.size.rows ? this->d[at] : 0;
            }
        });
        for (int64_t column = 0; column < a.size.columns && !(a.causal && column >= row + MP_ATTENTION_ROWS); column += KEYS) {
            const mp_matrix_view k = keys.from(column, 0), v = values.from(column, 0);
            this->products(b, column == 0, q, dy, k, v);
            b.threads([&](int t, own &o) {
                this->differentiate(
                    t, o, added, place, m, row, column, false, [&](int e, int) { return o.lse[e / 2]; },
                    [&](int e, int) { return o.d[e / 2]; });
            });
            MP_UNROLL
            for (int slice = 0; slice < tiles::SLICES; slice++) {
                const int64_t from = chunk + slice * SLICE;
                if (from >= a.size.depth) continue;
                if (!this->is_single()) {
                    b.barrier();
                    b.shares([&](int t, shared &s, own &) { mp_tile_fill<N, THREADS>(t, s.third, k.from(0, from)); });
                    b.barrier();
                }
                mp_product_down<N, tiles>(
                    b, [](own &o) { return o.dp; }, [](shared & s) -> auto & { return s.third; }, k.rows, a.size.depth - from,
                    slice * SLICE / 8, [](own &o) { return o.sums; });
            }
            b.barrier();
        }
        b.threads(
            [&](int t, own &o) { mp_sums_write<C>(t, dq.matrix(m).from(row, chunk), o.sums, [&](int) { return a.scale; }); });
    }
};

/* ---- the calls. */

struct attention_state {
    mp_attention_spec form;
    bool is_half, tf32; /* is_half: products are in bfloat16; tf32: products of floats are in TF32 */
};

static mp_matrix_stack stack_of(mp_operand of, const mp_matrices *form, int64_t rows, int64_t columns)
{
    const int64_t width = of.dtype == MP_DTYPE_BFLOAT16 ? 8 : 4;
    bool has_vectors = mp_takes_vectors(of.data, of.dtype) && form->column_stride == 1 && form->row_stride % width == 0 &&
                       columns % width == 0;
    for (int d = 0; d < form->n_batch; d++) has_vectors = has_vectors && form->batch_stride[d] % width == 0;
    return mp_matrix_stack{of, *form, rows, columns, has_vectors};
}

static mp_attend attend(const mp_attention_spec *f, const mp_operands *x)
{
    const mp_attention *size = &f->size;
    mp_attend a = {};
    a.size = *size;
    a.scale = f->scale;
    a.fill = f->fill;
    a.ratio = f->ratio;
    a.causal = f->causal;
    a.keeps = f->keeps;
    a.safe = f->safe;
    a.q = stack_of(mp_input(x, 0), &f->q, size->rows, size->depth);
    a.k = stack_of(mp_input(x, 1), &f->k, size->columns, size->depth);
    a.v = stack_of(mp_input(x, 2), &f->v, size->columns, size->value_depth);
    a.y = stack_of(mp_output(x, 0), &f->y, size->rows, size->value_depth);
    if (x->is_backward) a.dy = stack_of(mp_operand_of(&x->d_out[0]), &f->y, size->rows, size->value_depth);
    a.added = stack_of(mp_input(x, MP_ATTENTION_ADDED), &f->added, size->rows, size->columns);
    a.positions = stack_of(mp_input(x, MP_ATTENTION_POSITIONS), &f->positions, size->rows, size->columns);
    a.lse = x->extra[0].dtype ? (float *)x->extra[0].data : NULL;
    a.pass = f->ratio > 0 ? mp_cuda_pass_of(&x->run) : NULL;
    a.op = (uint32_t)x->op_index;
    return a;
}

/* The kernels for one kind of numbers and one number of columns of results. */
template <mp_numbers N, int C> struct kernels {
    static_assert(sizeof(typename forward_rows<N, C>::shared) <= 64 << 10 &&
                      sizeof(typename backward_keys<N, C>::shared) <= 64 << 10,
                  "every GPU from compute capability 7.5 on has this shared memory");

    static void forward(const mp_attend &a)
    {
        const forward_rows<N, C> f = {a, parts_of(a.size.value_depth, C)};
        mp_blocks(a.size.n_batch * parts_of(a.size.rows, MP_ATTENTION_ROWS) * f.chunks, f);
    }
    static void backward(const mp_attend &a, const float *d, const mp_matrix_stack *gradients)
    {
        const mp_matrix_stack &dq = gradients[0], &dk = gradients[1], &dv = gradients[2];
        const mp_attention *size = &a.size;
        if (dk.of.data || dv.of.data) {
            int64_t deepest = dk.of.data ? size->depth : 0;
            if (dv.of.data && size->value_depth > deepest) deepest = size->value_depth;
            const backward_keys<N, C> f = {{a, d, parts_of(deepest, C)}, dk, dv};
            mp_blocks(size->n_batch * parts_of(size->columns, MP_ATTENTION_ROWS) * f.chunks, f);
        }
        if (dq.of.data) {
            const backward_rows<N, C> f = {{a, d, parts_of(size->depth, C)}, dq};
            mp_blocks(size->n_batch * parts_of(size->rows, MP_ATTENTION_ROWS) * f.chunks, f);
        }
    }
};

/* Runs run(kernels<N, C>()) for the numbers and depths of a call. */
template <class R> static void choose(const attention_state *s, const R &run)
{
    const bool is_shallow = s->form.size.depth <= 64 && s->form.size.value_depth <= 64;
    if (s->is_half)
        is_shallow ? run(kernels<MP_HALVES, 64>()) : run(kernels<MP_HALVES, 128>());
    else if (s->tf32)
        is_shallow ? run(kernels<MP_TF32, 64>()) : run(kernels<MP_TF32, 128>());
    else
        is_shallow ? run(kernels<MP_FLOATS, 64>()) : run(kernels<MP_FLOATS, 128>());
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const attention_state *s = (const attention_state *)call->state;
    const mp_attend a = attend(&s->form, x);
    choose(s, [&](auto of) { of.forward(a); });
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const attention_state *s = (const attention_state *)call->state;
    const mp_attention *size = &s->form.size;
    float *d = (float *)x->workspace;
    const sums_of_rows sums = {{}, attend(&s->form, x), d};
    mp_rows(size->n_batch * size->rows, size->value_depth, sums);
    const mp_matrix_stack gradients[3] = {stack_of(mp_input_gradient(x, 0), &s->form.q, size->rows, size->depth),
                                          stack_of(mp_input_gradient(x, 1), &s->form.k, size->columns, size->depth),
                                          stack_of(mp_input_gradient(x, 2), &s->form.v, size->columns, size->value_depth)};
    choose(s, [&](auto of) { of.backward(sums.a, d, gradients); });
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_spec form;
    mp_status st = mp_attention_spec_read(x, &form, err);
    if (st) return st;
    if (form.wants[MP_ATTENTION_ADDED]) return MP_NO_KERNEL(x, err, "the gradient of a mask");
    MP_STATE(attention_state, s, call, err);
    s->form = form;
    s->is_half = true;
    for (int i = 0; i < 3; i++) s->is_half = s->is_half && x->in[i].dtype == MP_DTYPE_BFLOAT16;
    s->tf32 = mp_cuda_settings_get()->tf32;
    call->run = x->is_backward ? run_backward : run_forward;
    if (x->is_backward) call->workspace_bytes = form.size.n_batch * form.size.rows * (int64_t)sizeof(float);
    return MP_OK;
}

static mp_status prepare_any(const mp_operands *x, mp_call *call, mp_error *err)
{
    return mp_packed_attention_prepare(prepare, x, call, err);
}

} // namespace

extern "C" const mp_kernel mp_cuda_attentions[] = {
    {"ScaledDotProductAttention", "memplan", prepare_any, prepare_any},
    {},
};
