/* updates_cuda.cu - optimizer updates of a list of parameters, the norm of all gradients, and sums of two gradients.
 *
 * A launch updates as many parameters as fit in its arguments. It reads the scalars of the training step (such as the learning
 * rate) and the clipping scale from device memory. */
#include "executor/cuda/grid/vectors.cuh"

#include "executor/kernel/optimizer.h"

extern "C" {
#include "executor/cuda/device/current.h"
#include "executor/cuda/device/step_values.h"
#include "executor/operators/updates/updates_cuda.h"
}

namespace
{

/* LIST: maximum number of updates per launch. STRETCHES: maximum number of stretches into which the gradients of these
 * updates are split. SHORTEST: minimum number of elements per stretch. W: elements per thread. */
enum { LIST = 40, STRETCHES = LIST * 128, SHORTEST = 1 << 12, W = 4 };

struct update_list {
    int n;
    mp_update updates[LIST];
    MP_BODY const mp_update &of(int64_t vector) const
    {
        int low = 0, high = n;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (updates[middle].first <= vector)
                low = middle;
            else
                high = middle;
        }
        return updates[low];
    }
};

/* True if all arrays of an update, moments and master copy included, can be accessed in vectors. */
static MP_BODY bool takes_vectors(const mp_update &u)
{
    return u.n % W == 0 && ((uintptr_t)u.parameter | (uintptr_t)u.gradient | (uintptr_t)u.state) % 16 == 0;
}

template <int MOMENTS> struct steps_of {
    update_list list;
    const mp_update_factors *factors;

    static MP_BODY float step(const mp_update_factors &f, float g, float w, float *moments)
    {
        if (MOMENTS == 0) return mp_sgd_step(&f, g, w);
        return MOMENTS == 1 ? mp_momentum_step(&f, g, w, moments) : mp_adam_step(&f, g, w, moments, moments + 1);
    }
    MP_BODY void step_vector(const mp_update &u, const mp_update_factors &f, int64_t v, float *master) const
    {
        const float clip = u.clip ? *u.clip : 1;
        float g[W], w[W], m[2][W] = {};
        mp_load_vector(u.gradient, u.dtype, v, W, g);
        mp_load_vector(master, MP_DTYPE_FLOAT, v, W, w);
        MP_UNROLL
        for (int k = 0; k < MOMENTS; k++) mp_load_vector(u.state + k * u.n, MP_DTYPE_FLOAT, v, W, m[k]);
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            float moments[2] = {m[0][e], m[1][e]};
            w[e] = step(f, clip * g[e], w[e], moments);
            m[0][e] = moments[0];
            m[1][e] = moments[1];
        }
        MP_UNROLL
        for (int k = 0; k < MOMENTS; k++) mp_store_vector(u.state + k * u.n, MP_DTYPE_FLOAT, v, W, m[k]);
        mp_store_vector(master, MP_DTYPE_FLOAT, v, W, w);
        if (u.dtype != MP_DTYPE_FLOAT) mp_store_vector(u.parameter, u.dtype, v, W, w);
    }
    MP_BODY void step_one(const mp_update &u, const mp_update_factors &f, int64_t at, float *master) const
    {
        const float g = (u.clip ? *u.clip : 1) * mp_load_one(u.gradient, u.dtype, at);
        float moments[2] = {MOMENTS > 0 ? u.state[at] : 0, MOMENTS > 1 ? u.state[u.n + at] : 0};
        const float w = step(f, g, master[at], moments);
        if (MOMENTS > 0) u.state[at] = moments[0];
        if (MOMENTS > 1) u.state[u.n + at] = moments[1];
        master[at] = w;
        if (u.dtype != MP_DTYPE_FLOAT) mp_store_one(u.parameter, u.dtype, at, w);
    }
    MP_BODY void operator()(int64_t index) const
    {
        const mp_update &u = list.of(index);
        const mp_update_factors f = *factors;
        const int64_t v = index - u.first;
        float *master = u.dtype == MP_DTYPE_FLOAT ? (float *)u.parameter : u.state + MOMENTS * u.n;
        if (takes_vectors(u))
            step_vector(u, f, v, master);
        else
            for (int64_t at = v * W; at < u.n && at < (v + 1) * W; at++) step_one(u, f, at, master);
    }
};

template <int MOMENTS> static void update(const mp_update *updates, size_t n, const mp_update_factors *factors)
{
    steps_of<MOMENTS> f;
    f.factors = factors;
    for (size_t k = 0; k < n; k += LIST) {
        int64_t vectors = 0;
        f.list.n = (int)(n - k < LIST ? n - k : (size_t)LIST);
        for (int j = 0; j < f.list.n; j++) {
            f.list.updates[j] = updates[k + (size_t)j];
            f.list.updates[j].first = vectors;
            vectors += mp_vectors<W>(updates[k + (size_t)j].n);
        }
        mp_each(vectors, f);
    }
}

/* Sums the squares of one stretch of a gradient; the threads of a row sum a stretch together. The stretches of a gradient begin
 * at row `first` of the update of this gradient; the last stretch may be shorter. */
struct squares_of : mp_double_sums {
    enum { PHASES = 1 };
    update_list list;
    int64_t length;
    double *partial;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const mp_update &u = list.of(row);
        const int64_t k = (row - u.first) * length + column;
        if (k >= u.n) return value{0};
        const double g = (double)mp_load_any(u.gradient, u.dtype, k);
        return value{g * g};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { partial[row] = totals[0].x; }
};

/* Adds the sums of squares of a list of gradients to the total. After the last list, computes the clipping scale. */
struct norm_of : mp_double_sums {
    enum { PHASES = 1 };
    const double *partial;
    double *total, clip_norm;
    bool is_first, is_last;
    float *factor;
    MP_BODY value at(int, int64_t, int64_t column, const value *) const { return value{partial[column]}; }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t, const value *totals) const
    {
        const double sum = totals[0].x + (is_first ? 0 : *total);
        *total = sum;
        if (is_last) *factor = mp_clip_factor(sqrt(sum), clip_norm);
    }
};

template <mp_dtype T> struct sum_of {
    enum { WIDTH = mp_width<T> };
    const void *from;
    void *to;
    int64_t n;
    MP_BODY void operator()(int64_t v) const
    {
        const int size = mp_vector_size<WIDTH>(n, v);
        float a[WIDTH], b[WIDTH];
        mp_load_vector(from, T, v, size, a);
        mp_load_vector(to, T, v, size, b);
        MP_UNROLL
        for (int e = 0; e < WIDTH; e++) b[e] += a[e];
        mp_store_vector(to, T, v, size, b);
    }
};

} // namespace

void mp_cuda_update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors)
{
    mp_cuda_use(self);
    const mp_update_factors *on_device = mp_cuda_factors(factors);
    if (factors->optimizer == MP_OPTIMIZER_SGD)
        update<0>(updates, n, on_device);
    else if (factors->optimizer == MP_OPTIMIZER_MOMENTUM)
        update<1>(updates, n, on_device);
    else
        update<2>(updates, n, on_device);
}

int64_t mp_cuda_norm_workspace_bytes(const mp_backend *, int64_t n_elements)
{
    (void)n_elements;
    return (1 + STRETCHES) * (int64_t)sizeof(double);
}

void mp_cuda_clip(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace,
                  float *factor)
{
    mp_cuda_use(self);
    double *total = (double *)workspace;
    for (size_t k = 0; k < n || k == 0; k += LIST) {
        squares_of squares;
        norm_of norm;
        int64_t elements = 0, stretches = 0;
        squares.list.n = (int)(n - k < LIST ? n - k : (size_t)LIST);
        squares.partial = total + 1;
        for (int j = 0; j < squares.list.n; j++) elements += gradients[k + (size_t)j].n;
        /* STRETCHES - LIST: one stretch per gradient of the list is reserved, because the last stretch of each gradient may be
         * shorter than the others */
        squares.length = elements / (STRETCHES - LIST) + 1;
        if (squares.length < SHORTEST) squares.length = SHORTEST;
        for (int j = 0; j < squares.list.n; j++) {
            squares.list.updates[j] = gradients[k + (size_t)j];
            squares.list.updates[j].first = stretches;
            stretches += (gradients[k + (size_t)j].n + squares.length - 1) / squares.length;
        }
        if (stretches) mp_rows_of_width<MP_GRID_THREADS>(stretches, squares.length, squares);
        norm.partial = total + 1;
        norm.total = total;
        norm.clip_norm = clip_norm;
        norm.is_first = k == 0;
        norm.is_last = k + LIST >= n;
        norm.factor = factor;
        mp_rows_of_width<MP_GRID_THREADS>(1, stretches, norm);
    }
}

void mp_cuda_add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    mp_cuda_use(self);
    MP_BY_DTYPE(dtype, mp_each(mp_vectors<mp_width<T>>(n), sum_of<T>{from, to, n}));
}
