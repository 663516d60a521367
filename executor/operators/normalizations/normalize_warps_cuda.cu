/* normalize_warps_cuda.cu - normalizes one row per warp. Lane l of a warp keeps the vectors l, l + 32, ... of the row in
 * registers; means are sums over the warp. Backward reads every element once: the warps of a block also add up the gradients
 * of scale and shift over the rows of the block, and a second launch adds up the blocks. */
#include "executor/operators/normalizations/normalize_warps_cuda.cuh"

#include "executor/cuda/grid/blocks.cuh"
#include "executor/operators/randoms/dropout_cuda.cuh"

namespace
{

/* Backward runs blocks of whole turns, in which each warp of a block processes one row. BLOCKS is about two blocks for each
 * multiprocessor of a large GPU, so that the sums of all blocks are a small part of the traffic. */
enum { BLOCKS = 256, TURN = MP_GRID_THREADS / MP_WARP };

static int64_t rows_per_block(int64_t n_rows)
{
    return (n_rows + BLOCKS * TURN - 1) / (BLOCKS * TURN) * TURN;
}
static int64_t blocks_of(int64_t n_rows)
{
    const int64_t rows = rows_per_block(n_rows);
    return (n_rows + rows - 1) / rows;
}

/* A row as the lanes of a warp process it. M: number of vectors per lane. CHAINED: neighbours run in the launch. */
template <mp_dtype T, int M, bool CHAINED> struct row_of {
    enum { W = mp_width<T> };
    mp_normal_data d;
    mp_normal_chain chain;
    int64_t length, vectors; /* number of elements, and of vectors, per row */
    float epsilon;
    bool centered;

    row_of(const mp_normal *n, const mp_normal_data *data, const mp_normal_chain *with)
        : d(*data), chain(with ? *with : mp_normal_chain{}), length(n->form.length), vectors(n->form.length / W),
          epsilon((float)n->form.epsilon), centered(n->form.centered)
    {
    }
    /* Calls f(m, v) for each vector that a lane keeps; m is the vector's index in the lane, v its index in the row. */
    template <class P> MP_BODY void each(int lane, const P &f) const
    {
        MP_UNROLL
        for (int m = 0; m < M; m++) {
            const int64_t v = lane + (int64_t)m * MP_WARP;
            if (v < vectors) f(m, v);
        }
    }
    MP_BODY void load(const mp_operand &from, int64_t row, int lane, float (&to)[M][W]) const
    {
        each(lane, [&](int m, int64_t v) { mp_load_vector(from.data, T, row * vectors + v, W, to[m]); });
    }
    /* The value that memory of type T would hold. */
    static MP_BODY float rounded(float x) { return T == MP_DTYPE_BFLOAT16 ? mp_from_bfloat16(mp_to_bfloat16(x)) : x; }
    /* Rounds vector v to type T, then applies the dropout to it. */
    static MP_BODY void drop(const mp_normal_dropout &dropout, int64_t v, float (&x)[W])
    {
        uint8_t kept[W];
        MP_UNROLL
        for (int e = 0; e < W; e++) x[e] = rounded(x[e]);
        if (!dropout.pass) return;
        mp_draw_kept(dropout.pass, dropout.op, dropout.ratio, v, kept);
        mp_drop_vector(kept, mp_dropout_factor(dropout.ratio), x);
    }
    /* Applies the dropout after the normalization to vector v of the gradient. Rounds the result to type T, as a separate
     * launch would. */
    MP_BODY void drop_gradient(int64_t v, float (&g)[W]) const
    {
        drop(chain.after, v, g);
        MP_UNROLL
        for (int e = 0; e < W; e++) g[e] = rounded(g[e]);
    }
    /* Reads a row of the input, or computes it from the operands of the chain. */
    MP_BODY void load_input(int64_t row, int lane, float (&x)[M][W]) const
    {
        if (!CHAINED || !chain.branch.data) {
            load(d.x, row, lane, x);
            return;
        }
        const int64_t other = chain.residual_rows ? row % chain.residual_rows : row;
        load(chain.branch, row, lane, x);
        each(lane, [&](int m, int64_t v) {
            const int64_t at = row * vectors + v;
            float residual[W];
            mp_load_vector(chain.residual.data, T, other * vectors + v, W, residual);
            drop(chain.before, at, x[m]);
            MP_UNROLL
            for (int e = 0; e < W; e++) x[m][e] = rounded(residual[e] + rounded(x[m][e]));
            if (chain.sum.data) mp_store_vector(chain.sum.data, T, at, W, x[m]);
        });
    }
    /* Reads vector v of scale or shift; if the operand is absent, all elements are `otherwise`. */
    MP_BODY void parameter(const mp_operand &from, int64_t v, float otherwise, float (&to)[W]) const
    {
        if (from.data) {
            mp_load_vector(from.data, T, v, W, to);
        } else {
            MP_UNROLL
            for (int e = 0; e < W; e++) to[e] = otherwise;
        }
    }
    /* Reads a row of the normalized input and of the output's gradient. xhat becomes the normalized input, g the gradient times
     * the scale. Returns in sum and product the lane's terms of the sums of g and of g xhat. `take(m, e, dy, xhat)` sees every
     * element. */
    template <class TAKE>
    MP_BODY void load_gradient(int64_t row, int lane, float (&xhat)[M][W], float (&g)[M][W], float *sum, float *product,
                               const TAKE &take) const
    {
        const float mean = d.mean ? d.mean[row] : 0, rstd = d.rstd[row];
        *sum = *product = 0;
        load(d.x.data ? d.x : d.y, row, lane, xhat);
        load(d.dy, row, lane, g);
        each(lane, [&](int m, int64_t v) {
            float scale[W], shift[W];
            if (CHAINED && chain.after.pass) drop_gradient(row * vectors + v, g[m]);
            parameter(d.scale, v, 1, scale);
            parameter(d.x.data ? mp_operand{} : d.shift, v, 0, shift);
            MP_UNROLL
            for (int e = 0; e < W; e++) {
                xhat[m][e] = d.x.data ? (xhat[m][e] - mean) * rstd : (xhat[m][e] - shift[e]) / scale[e];
                take(m, e, g[m][e], xhat[m][e]);
                g[m][e] *= scale[e];
                *sum += g[m][e];
                *product += g[m][e] * xhat[m][e];
            }
        });
    }
    /* Writes a row of the input's gradient; `sum` and `product` are sums over the whole row. */
    MP_BODY void store_gradient(int64_t row, int lane, const float (&xhat)[M][W], float (&g)[M][W], float sum,
                                float product) const
    {
        const float rstd = d.rstd[row], mean_g = centered ? sum / (float)length : 0, mean_product = product / (float)length;
        each(lane, [&](int m, int64_t v) {
            float before[W] = {};
            if (d.add_x) mp_load_vector(d.dx.data, T, row * vectors + v, W, before);
            MP_UNROLL
            for (int e = 0; e < W; e++) g[m][e] = before[e] + rstd * (g[m][e] - mean_g - xhat[m][e] * mean_product);
            mp_store_vector(d.dx.data, T, row * vectors + v, W, g[m]);
            if (!CHAINED || !chain.out.data) return;
            drop(chain.before, row * vectors + v, g[m]);
            mp_store_vector(chain.out.data, T, row * vectors + v, W, g[m]);
        });
    }
};

template <mp_dtype T, int M, bool CHAINED> struct forward_of : row_of<T, M, CHAINED> {
    using row_of<T, M, CHAINED>::W;
    struct own {
        float x[M][W], sum;
    };
    using row_of<T, M, CHAINED>::row_of;
    template <class WARP> MP_BODY void run(int64_t row, WARP &w) const
    {
        const mp_normal_data &d = this->d;
        const float length = (float)this->length;
        w.lanes([&](int lane, own &o) {
            o.sum = 0;
            this->load_input(row, lane, o.x);
            this->each(lane, [&](int m, int64_t) {
                MP_UNROLL
                for (int e = 0; e < W; e++) o.sum += o.x[m][e];
            });
        });
        if (this->centered) w.sum(&own::sum);
        w.lanes([&](int lane, own &o) {
            const float mean = this->centered ? o.sum / length : 0;
            if (this->centered && d.mean && lane == 0) d.mean[row] = mean;
            o.sum = 0;
            this->each(lane, [&](int m, int64_t) {
                MP_UNROLL
                for (int e = 0; e < W; e++) {
                    o.x[m][e] -= mean;
                    o.sum += o.x[m][e] * o.x[m][e];
                }
            });
        });
        w.sum(&own::sum);
        w.lanes([&](int lane, own &o) {
            const float rstd = mp_reciprocal_root(o.sum / length + this->epsilon);
            if (lane == 0) d.rstd[row] = rstd;
            this->each(lane, [&](int m, int64_t v) {
                float scale[W], shift[W];
                this->parameter(d.scale, v, 1, scale);
                this->parameter(d.shift, v, 0, shift);
                MP_UNROLL
                for (int e = 0; e < W; e++) o.x[m][e] = o.x[m][e] * rstd * scale[e] + shift[e];
                if (!CHAINED || d.y.data) mp_store_vector(d.y.data, T, row * this->vectors + v, W, o.x[m]);
                if (!CHAINED || !this->chain.out.data) return;
                this->drop(this->chain.after, row * this->vectors + v, o.x[m]);
                mp_store_vector(this->chain.out.data, T, row * this->vectors + v, W, o.x[m]);
            });
        });
    }
};

template <mp_dtype T, int M, bool CHAINED> struct backward_of : row_of<T, M, CHAINED> {
    using row_of<T, M, CHAINED>::W;
    struct own {
        float xhat[M][W], g[M][W], sum, product;
    };
    using row_of<T, M, CHAINED>::row_of;
    template <class WARP> MP_BODY void run(int64_t row, WARP &w) const
    {
        w.lanes([&](int lane, own &o) {
            this->load_gradient(row, lane, o.xhat, o.g, &o.sum, &o.product, [](int, int, float, float) {});
        });
        w.sum(&own::sum);
        w.sum(&own::product);
        w.lanes([&](int lane, own &o) { this->store_gradient(row, lane, o.xhat, o.g, o.sum, o.product); });
    }
};

/* The sums that are the gradients of shift and scale, in one number of a row. */
struct parameter_sums {
    float shift, scale;
};

/* Backward with the gradients of scale and shift: a block processes consecutive rows, one row per warp at a time. */
template <mp_dtype T, int M, bool CHAINED> struct gradients_of : row_of<T, M, CHAINED> {
    using row_of<T, M, CHAINED>::W;
    enum { THREADS = MP_GRID_THREADS, WARPS = THREADS / MP_WARP };
    struct shared {
        parameter_sums sums[M * W * MP_WARP];
    };
    struct own {
        float xhat[M][W], g[M][W], shift[M][W], scale[M][W], sum, product;
    };
    int64_t n_rows, n_blocks, rows; /* rows: number of rows per block */
    parameter_sums *partial;        /* for each number of a row: the sums of all blocks */

    gradients_of(const mp_normal *n, const mp_normal_data *data, const mp_normal_chain *with, void *room)
        : row_of<T, M, CHAINED>(n, data, with), n_rows(n->form.n_rows), n_blocks(blocks_of(n_rows)),
          rows(rows_per_block(n_rows)), partial((parameter_sums *)room)
    {
    }
    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        const int64_t first = k * rows, end = first + rows < n_rows ? first + rows : n_rows;
        b.threads([&](int, own &o) {
            MP_UNROLL
            for (int m = 0; m < M; m++) {
                MP_UNROLL
                for (int e = 0; e < W; e++) o.shift[m][e] = o.scale[m][e] = 0;
            }
        });
        for (int64_t next = first; next < end; next += WARPS) {
            b.threads([&](int t, own &o) {
                const int64_t row = next + t / MP_WARP;
                if (row >= end) return;
                this->load_gradient(row, t % MP_WARP, o.xhat, o.g, &o.sum, &o.product, [&](int m, int e, float dy, float xhat) {
                    o.shift[m][e] += dy;
                    o.scale[m][e] += dy * xhat;
                });
            });
            b.warp_sum(&own::sum);
            b.warp_sum(&own::product);
            b.threads([&](int t, own &o) {
                const int64_t row = next + t / MP_WARP;
                if (row < end) this->store_gradient(row, t % MP_WARP, o.xhat, o.g, o.sum, o.product);
            });
        }
        for (int warp = 0; warp < WARPS; warp++)
            b.phase([&](int t, shared &s, own &o) {
                if (t / MP_WARP != warp) return;
                this->each(t % MP_WARP, [&](int m, int64_t v) {
                    MP_UNROLL
                    for (int e = 0; e < W; e++) {
                        parameter_sums &sums = s.sums[v * W + e];
                        sums.shift = o.shift[m][e] + (warp ? sums.shift : 0);
                        sums.scale = o.scale[m][e] + (warp ? sums.scale : 0);
                    }
                });
            });
        b.phase([&](int t, shared &s, own &) {
            for (int64_t c = t; c < this->length; c += THREADS) partial[c * n_blocks + k] = s.sums[c];
        });
    }
};

/* Adds up the sums of all blocks, for each number of a row. */
struct parameters_of_blocks {
    struct value {
        double shift, scale;
    };
    enum { PHASES = 1 };
    const parameter_sums *partial;
    int64_t n_blocks;
    mp_normal_data d;
    MP_BODY value none(int) const { return value{0, 0}; }
    MP_BODY value join(int, value a, value b) const { return value{a.shift + b.shift, a.scale + b.scale}; }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const parameter_sums sums = partial[row * n_blocks + column];
        return value{(double)sums.shift, (double)sums.scale};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        if (d.d_shift.data) d.d_shift.store(row, (float)totals[0].shift + (d.add_shift ? d.d_shift.load(row) : 0));
        if (d.d_scale.data) d.d_scale.store(row, (float)totals[0].scale + (d.add_scale ? d.d_scale.load(row) : 0));
    }
};

/* Launches the kernel for rows of at most M vectors per lane. */
template <mp_dtype T, int M, bool CHAINED>
static void launch(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain, void *workspace)
{
    const bool has_parameters = d->d_scale.data || d->d_shift.data;
    if (!backward) {
        mp_warps(n->form.n_rows, forward_of<T, M, CHAINED>(n, d, chain));
    } else if (!has_parameters) {
        mp_warps(n->form.n_rows, backward_of<T, M, CHAINED>(n, d, chain));
    } else {
        const gradients_of<T, M, CHAINED> f(n, d, chain, workspace);
        mp_blocks(f.n_blocks, f);
        mp_rows(n->form.length, f.n_blocks, parameters_of_blocks{f.partial, f.n_blocks, *d});
    }
}

/* Chooses enough vectors per lane for the longest supported row, or a quarter of them if rows are short. */
template <mp_dtype T, bool CHAINED>
static void run_rows(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain, void *workspace)
{
    constexpr int most = MP_WARP_ROW / MP_WARP / mp_width<T>, few = most / 4;
    if (n->form.length <= MP_WARP_ROW / 4)
        launch<T, few, CHAINED>(n, d, backward, chain, workspace);
    else
        launch<T, most, CHAINED>(n, d, backward, chain, workspace);
}

template <mp_dtype T>
static void run(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain, void *workspace)
{
    if (chain)
        run_rows<T, true>(n, d, backward, chain, workspace);
    else
        run_rows<T, false>(n, d, backward, chain, workspace);
}

/* True if an operand is absent, or has type `dtype` and an address that is aligned for vectors. */
static bool lies(const mp_operand &x, mp_dtype dtype)
{
    return !x.data || (x.dtype == dtype && mp_takes_vectors(x.data, dtype));
}

} // namespace

int64_t mp_normal_warps_workspace_bytes(const mp_normal *n)
{
    return n->form.length > MP_WARP_ROW ? 0 : n->form.length * blocks_of(n->form.n_rows) * (int64_t)sizeof(parameter_sums);
}

static mp_dtype dtype_of(const mp_normal_data *d)
{
    return (d->x.data ? d->x : d->y).dtype;
}

bool mp_normal_fits_warps(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain)
{
    const mp_normalization &form = n->form;
    const mp_dtype dtype = dtype_of(d);
    const int width = dtype == MP_DTYPE_FLOAT ? mp_width<MP_DTYPE_FLOAT> : mp_width<MP_DTYPE_BFLOAT16>;
    int64_t row = form.length;
    if (!n->by_rows || form.length > MP_WARP_ROW || form.length % width) return false;
    if ((d->scale.data || d->shift.data) && form.inner_parameter[0] != 1) return false;
    for (int k = form.n_outer - 1; k >= 0; k--) {
        if (form.outer[k] != 1 && (form.outer_at[k] != row || form.outer_parameter[k] != 0)) return false;
        row *= form.outer[k];
    }
    if (!lies(d->x, dtype) || !lies(d->y, dtype) || !lies(d->scale, dtype) || !lies(d->shift, dtype)) return false;
    if (backward && (!lies(d->dy, dtype) || !lies(d->dx, dtype))) return false;
    if (!chain) return true;
    return lies(chain->branch, dtype) && lies(chain->residual, dtype) && lies(chain->sum, dtype) && lies(chain->out, dtype);
}

bool mp_normal_by_warps(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain,
                        void *workspace)
{
    if (!mp_normal_fits_warps(n, d, backward, chain)) return false;
    MP_BY_DTYPE(dtype_of(d), run<T>(n, d, backward, chain, workspace));
    return true;
}
