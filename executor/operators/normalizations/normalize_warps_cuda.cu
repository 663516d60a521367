/* normalize_warps_cuda.cu - normalizes one row per warp. Lane l of a warp keeps the vectors l, l + 32, ... of the row in
 * registers; means are sums over the warp. */
#include "executor/operators/normalizations/normalize_warps_cuda.cuh"

#include "executor/cuda/grid/blocks.cuh"
#include "executor/cuda/grid/vectors.cuh"

namespace
{

/* A row as the lanes of a warp process it. M: number of vectors per lane. */
template <mp_dtype T, int M> struct row_of {
    enum { W = mp_width<T> };
    mp_normal_data d;
    int64_t length, vectors; /* number of elements, and of vectors, per row */
    float epsilon;
    bool centered;

    row_of(const mp_normal *n, const mp_normal_data *data)
        : d(*data), length(n->form.length), vectors(n->form.length / W), epsilon((float)n->form.epsilon),
          centered(n->form.centered)
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
};

template <mp_dtype T, int M> struct forward_of : row_of<T, M> {
    using row_of<T, M>::W;
    struct own {
        float x[M][W], sum;
    };
    using row_of<T, M>::row_of;
    template <class WARP> MP_BODY void run(int64_t row, WARP &w) const
    {
        const mp_normal_data &d = this->d;
        const float length = (float)this->length;
        w.lanes([&](int lane, own &o) {
            o.sum = 0;
            this->load(d.x, row, lane, o.x);
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
                mp_store_vector(d.y.data, T, row * this->vectors + v, W, o.x[m]);
            });
        });
    }
};

template <mp_dtype T, int M> struct backward_of : row_of<T, M> {
    using row_of<T, M>::W;
    struct own {
        float xhat[M][W], g[M][W], sum, product;
    };
    using row_of<T, M>::row_of;
    template <class WARP> MP_BODY void run(int64_t row, WARP &w) const
    {
        const mp_normal_data &d = this->d;
        const float mean = d.mean ? d.mean[row] : 0, rstd = d.rstd[row], length = (float)this->length;
        w.lanes([&](int lane, own &o) {
            o.sum = o.product = 0;
            this->load(d.x.data ? d.x : d.y, row, lane, o.xhat);
            this->load(d.dy, row, lane, o.g);
            this->each(lane, [&](int m, int64_t v) {
                float scale[W], shift[W];
                this->parameter(d.scale, v, 1, scale);
                this->parameter(d.x.data ? mp_operand{} : d.shift, v, 0, shift);
                MP_UNROLL
                for (int e = 0; e < W; e++) {
                    o.xhat[m][e] = d.x.data ? (o.xhat[m][e] - mean) * rstd : (o.xhat[m][e] - shift[e]) / scale[e];
                    o.g[m][e] *= scale[e];
                    o.sum += o.g[m][e];
                    o.product += o.g[m][e] * o.xhat[m][e];
                }
            });
        });
        w.sum(&own::sum);
        w.sum(&own::product);
        w.lanes([&](int lane, own &o) {
            const float mean_g = this->centered ? o.sum / length : 0, mean_product = o.product / length;
            this->each(lane, [&](int m, int64_t v) {
                MP_UNROLL
                for (int e = 0; e < W; e++) o.g[m][e] = rstd * (o.g[m][e] - mean_g - o.xhat[m][e] * mean_product);
                mp_store_vector(d.dx.data, T, row * this->vectors + v, W, o.g[m]);
            });
        });
    }
};

/* Launches the kernel with enough vectors per lane for the longest supported row, or with a quarter of them if rows are
 * short. */
template <mp_dtype T> static void run(const mp_normal *n, const mp_normal_data *d, bool backward)
{
    constexpr int most = MP_WARP_ROW / MP_WARP / mp_width<T>, few = most / 4;
    const bool is_short = n->form.length <= MP_WARP_ROW / 4;
    if (backward && is_short)
        mp_warps(n->form.n_rows, backward_of<T, few>(n, d));
    else if (backward)
        mp_warps(n->form.n_rows, backward_of<T, most>(n, d));
    else if (is_short)
        mp_warps(n->form.n_rows, forward_of<T, few>(n, d));
    else
        mp_warps(n->form.n_rows, forward_of<T, most>(n, d));
}

/* True if an operand is absent, or has type `dtype` and an address that is aligned for vectors. */
static bool lies(const mp_operand &x, mp_dtype dtype)
{
    return !x.data || (x.dtype == dtype && mp_takes_vectors(x.data, dtype));
}

} // namespace

bool mp_normal_by_warps(const mp_normal *n, const mp_normal_data *d, bool backward)
{
    const mp_normalization &form = n->form;
    const mp_dtype dtype = (d->x.data ? d->x : d->y).dtype;
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
    MP_BY_DTYPE(dtype, run<T>(n, d, backward));
    return true;
}
