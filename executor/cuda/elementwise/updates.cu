/* updates.cu - one step of the optimizer on a list of parameters, the norm of all gradients, and adding.
 *
 * A launch takes as many parameters as fit in its arguments. The step's factors and the clip factor are read from the device.
 */
#include "executor/cuda/grid/grid.cuh"

#include "executor/cuda/device/step.h"
#include "executor/cuda/elementwise/updates.h"
#include "executor/kernel/update_formulas.h"

namespace
{

enum { LIST = 40, NORM_STRETCHES = 128 };

/* `quads[k]` comes before the quads of update k. */
struct update_list {
    int n;
    mp_update updates[LIST];
    MP_BODY const mp_update &of(int64_t quad) const
    {
        int low = 0, high = n;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (updates[middle].first <= quad)
                low = middle;
            else
                high = middle;
        }
        return updates[low];
    }
};

struct steps_of {
    update_list list;
    const mp_update_factors *factors;
    MP_BODY void operator()(int64_t index) const
    {
        const mp_update &u = list.of(index);
        const mp_update_factors f = *factors;
        const int64_t quad = index - u.first;
        const int size = mp_quad_size(u.n, quad);
        const int moments = f.optimizer == MP_OPTIMIZER_SGD ? 0 : f.optimizer == MP_OPTIMIZER_MOMENTUM ? 1 : 2;
        const float clip = u.clip ? *u.clip : 1;
        for (int e = 0; e < size; e++) {
            const int64_t k = quad * MP_QUAD + e;
            const float g = clip * mp_load_any(u.gradient, u.dtype, k);
            float *master = u.dtype == MP_DTYPE_FLOAT ? (float *)u.parameter : u.state + moments * u.n;
            float w = master[k];
            if (moments == 0)
                w = mp_sgd_step(&f, g, w);
            else if (moments == 1)
                w = mp_momentum_step(&f, g, w, u.state + k);
            else
                w = mp_adam_step(&f, g, w, u.state + k, u.state + u.n + k);
            master[k] = w;
            if (u.dtype != MP_DTYPE_FLOAT) mp_store_any(u.parameter, u.dtype, k, w);
        }
    }
};

} // namespace

void mp_cuda_update(mp_update *updates, size_t n, const mp_update_factors *factors)
{
    steps_of f;
    f.factors = mp_cuda_factors(factors);
    for (size_t k = 0; k < n; k += LIST) {
        int64_t quads = 0;
        f.list.n = (int)(n - k < LIST ? n - k : (size_t)LIST);
        for (int j = 0; j < f.list.n; j++) {
            f.list.updates[j] = updates[k + (size_t)j];
            f.list.updates[j].first = quads;
            quads += mp_quads(updates[k + (size_t)j].n);
        }
        mp_each(quads, f);
    }
}

namespace
{

/* The sum of squares of a stretch of a gradient: NORM_STRETCHES per gradient. */
struct squares_of : mp_double_sums {
    enum { PHASES = 1 };
    update_list list;
    double *partial;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const mp_update &u = list.updates[row / NORM_STRETCHES];
        const int64_t length = (u.n + NORM_STRETCHES - 1) / NORM_STRETCHES, k = row % NORM_STRETCHES * length + column;
        if (column >= length || k >= u.n) return value{0};
        const double g = (double)mp_load_any(u.gradient, u.dtype, k);
        return value{g * g};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { partial[row] = totals[0].x; }
};

/* Adds the sums of a list to the total, and after the last one makes the factor of it. */
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

} // namespace

int64_t mp_cuda_norm_workspace_bytes(int64_t n_elements)
{
    (void)n_elements;
    return (1 + LIST * NORM_STRETCHES) * (int64_t)sizeof(double);
}

void mp_cuda_clip(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor)
{
    double *total = (double *)workspace;
    for (size_t k = 0; k < n || k == 0; k += LIST) {
        squares_of squares;
        norm_of norm;
        int64_t longest = 0;
        squares.list.n = (int)(n - k < LIST ? n - k : (size_t)LIST);
        squares.partial = total + 1;
        for (int j = 0; j < squares.list.n; j++) {
            squares.list.updates[j] = gradients[k + (size_t)j];
            const int64_t length = (gradients[k + (size_t)j].n + NORM_STRETCHES - 1) / NORM_STRETCHES;
            longest = length > longest ? length : longest;
        }
        mp_rows_of_width<MP_GRID_THREADS>((int64_t)squares.list.n * NORM_STRETCHES, longest, squares);
        norm.partial = total + 1;
        norm.total = total;
        norm.clip_norm = clip_norm;
        norm.is_first = k == 0;
        norm.is_last = k + LIST >= n;
        norm.factor = factor;
        mp_rows_of_width<MP_GRID_THREADS>(1, (int64_t)squares.list.n * NORM_STRETCHES, norm);
    }
}

namespace
{

struct sum_of {
    const void *from;
    void *to;
    mp_dtype dtype;
    int64_t n;
    MP_BODY void operator()(int64_t quad) const
    {
        const int size = mp_quad_size(n, quad);
        float a[MP_QUAD], b[MP_QUAD];
        mp_load_quad(from, dtype, quad, size, a);
        mp_load_quad(to, dtype, quad, size, b);
        for (int e = 0; e < size; e++) b[e] += a[e];
        mp_store_quad(to, dtype, quad, size, b);
    }
};

} // namespace

void mp_cuda_add(mp_dtype dtype, int64_t n, const void *from, void *to)
{
    const sum_of f = {from, to, dtype, n};
    mp_each(mp_quads(n), f);
}
