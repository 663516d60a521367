/* normalize_cuda.cu - normalizes rows and computes the gradients: contiguous rows with several threads per row, all other rows
 * with reductions. The elements of a row share statistics. */
#include "executor/cuda/grid/vectors.cuh"
#include "executor/operators/normalizations/normalize_cuda.cuh"
#include "executor/operators/normalizations/normalize_warps_cuda.cuh"

namespace
{

enum { X, ROW, PARAMETER, N_OPERANDS };

static void put_dim(mp_loops *loops, int64_t dim, int64_t x, int64_t row, int64_t parameter)
{
    int d = loops->rank;
    if (dim == 1) return;
    for (; d > 0 && loops->strides[X][d - 1] < x; d--) {
        loops->dims[d] = loops->dims[d - 1];
        for (int i = 0; i < N_OPERANDS; i++) loops->strides[i][d] = loops->strides[i][d - 1];
    }
    loops->dims[d] = dim;
    loops->strides[X][d] = x;
    loops->strides[ROW][d] = row;
    loops->strides[PARAMETER][d] = parameter;
    loops->rank++;
    loops->n_elements *= dim;
}

} // namespace

mp_normal mp_normal_of(const mp_normalization *form)
{
    enum { LONGEST = 1 << 16, FEWEST = 32 };
    mp_normal n = {};
    int64_t row = 1;
    n.form = *form;
    n.loops.n = N_OPERANDS;
    n.loops.n_elements = 1;
    for (int d = form->n_outer - 1; d >= 0; d--) {
        put_dim(&n.loops, form->outer[d], form->outer_at[d], row, form->outer_parameter[d]);
        row *= form->outer[d];
    }
    for (int d = 0; d < form->n_inner; d++) put_dim(&n.loops, form->inner[d], form->inner_at[d], 0, form->inner_parameter[d]);
    if (!n.loops.rank) { /* if x has one element, its loop nest has no loops, so one loop is added */
        n.loops.rank = 1;
        n.loops.dims[0] = 1;
    }
    n.by_rows = form->n_inner == 1 && form->inner_at[0] == 1 && form->length <= LONGEST && form->n_rows >= FEWEST;
    return n;
}

namespace
{

/* ---- data that all kernels of this file use. */

/* The data of a pass, forward or backward. T: the type of x, y and their gradients. */
template <mp_dtype T> struct pass {
    mp_normal_data d;
    float epsilon;
    int64_t length;

    explicit pass(const mp_normal *n, const mp_normal_data *data)
        : d(*data), epsilon((float)n->form.epsilon), length(n->form.length)
    {
    }
    MP_BODY float rstd_of(float squares) const { return mp_reciprocal_root(squares / (float)length + epsilon); }
    static MP_BODY float load(const mp_operand &from, int64_t x) { return mp_load_one(from.data, T, x); }
    static MP_BODY float parameter(const mp_operand &from, int64_t p, float otherwise)
    {
        return from.data ? mp_load_one(from.data, from.dtype, p) : otherwise;
    }
    MP_BODY float normalized(int64_t x, int64_t p, float mean, float rstd) const
    {
        if (d.x.data) return (load(d.x, x) - mean) * rstd;
        return (load(d.y, x) - parameter(d.shift, p, 0)) / parameter(d.scale, p, 1);
    }
    MP_BODY void put(int64_t x, int64_t p, float mean, float rstd) const
    {
        const float xhat = (load(d.x, x) - mean) * rstd;
        mp_store_one(d.y.data, T, x, xhat * parameter(d.scale, p, 1) + parameter(d.shift, p, 0));
    }
    MP_BODY float scaled(int64_t x, int64_t p) const { return load(d.dy, x) * parameter(d.scale, p, 1); }
    MP_BODY void put_gradient(int64_t x, float value) const
    {
        mp_store_one(d.dx.data, T, x, d.add_x ? load(d.dx, x) + value : value);
    }
    MP_BODY float mean_of(int64_t row) const { return d.mean ? d.mean[row] : 0; }
};

/* ---- contiguous rows. */

struct row_places {
    int n_outer;
    mp_divisor outer[MP_ARRAY_RANK];
    int64_t outer_at[MP_ARRAY_RANK], outer_parameter[MP_ARRAY_RANK], inner_parameter;

    explicit row_places(const mp_normal *n) : n_outer(n->form.n_outer), inner_parameter(n->form.inner_parameter[0])
    {
        for (int d = 0; d < MP_ARRAY_RANK; d++) {
            outer[d] = mp_divisor_of(d < n_outer ? n->form.outer[d] : 1);
            outer_at[d] = d < n_outer ? n->form.outer_at[d] : 0;
            outer_parameter[d] = d < n_outer ? n->form.outer_parameter[d] : 0;
        }
    }
    MP_BODY void find(int64_t row, int64_t column, int64_t *x, int64_t *p) const
    {
        *x = column;
        *p = column * inner_parameter;
        for (int d = n_outer - 1; d > 0; d--) {
            int64_t index;
            row = mp_divide_rest(row, &outer[d], &index);
            *x += index * outer_at[d];
            *p += index * outer_parameter[d];
        }
        *x += row * outer_at[0];
        *p += row * outer_parameter[0];
    }
};

template <mp_dtype T, bool CENTERED> struct forward_rows : mp_sums {
    enum { PHASES = CENTERED ? 2 : 1 };
    pass<T> a;
    row_places places;
    forward_rows(const mp_normal *n, const mp_normal_data *d) : a(n, d), places(n) {}
    MP_BODY float mean(const value *totals) const { return CENTERED ? totals[0].x / (float)a.length : 0; }
    MP_BODY value at(int phase, int64_t row, int64_t column, const value *totals) const
    {
        int64_t x, p;
        places.find(row, column, &x, &p);
        const float v = a.load(a.d.x, x);
        if (CENTERED && phase == 0) return value{v};
        const float centered = v - mean(totals);
        return value{centered * centered};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        int64_t x, p;
        places.find(row, column, &x, &p);
        a.put(x, p, mean(totals), a.rstd_of(totals[PHASES - 1].x));
    }
    MP_BODY void end(int64_t row, const value *totals) const
    {
        if (CENTERED && a.d.mean) a.d.mean[row] = mean(totals);
        a.d.rstd[row] = a.rstd_of(totals[PHASES - 1].x);
    }
};

template <mp_dtype T> struct backward_rows {
    struct value {
        float g, product;
    };
    enum { PHASES = 1 };
    pass<T> a;
    row_places places;
    bool centered;
    backward_rows(const mp_normal *n, const mp_normal_data *d) : a(n, d), places(n), centered(n->form.centered) {}
    MP_BODY value none(int) const { return value{0, 0}; }
    MP_BODY value join(int, value x, value y) const { return value{x.g + y.g, x.product + y.product}; }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        int64_t x, p;
        places.find(row, column, &x, &p);
        const float g = a.scaled(x, p);
        return value{g, g * a.normalized(x, p, a.mean_of(row), a.d.rstd[row])};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        int64_t x, p;
        places.find(row, column, &x, &p);
        const float rstd = a.d.rstd[row], length = (float)a.length, mean_g = centered ? totals[0].g / length : 0;
        const float xhat = a.normalized(x, p, a.mean_of(row), rstd);
        a.put_gradient(x, rstd * (a.scaled(x, p) - mean_g - xhat * (totals[0].product / length)));
    }
    MP_BODY void end(int64_t, const value *) const {}
};

/* ---- rows that are not contiguous, with reductions. */

template <mp_dtype T> struct means_of : mp_float_sum {
    pass<T> a;
    means_of(const mp_normal *n, const mp_normal_data *d) : a(n, d) {}
    MP_BODY part at(const int64_t *at, int64_t) const { return part{a.load(a.d.x, at[X])}; }
    MP_BODY void end(const int64_t *at, value total) const { a.d.mean[at[ROW]] = (float)(total.x / (double)a.length); }
};

template <mp_dtype T> struct deviations_of : mp_float_sum {
    pass<T> a;
    deviations_of(const mp_normal *n, const mp_normal_data *d) : a(n, d) {}
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        const float centered = a.load(a.d.x, at[X]) - a.mean_of(at[ROW]);
        return part{centered * centered};
    }
    MP_BODY void end(const int64_t *at, value total) const { a.d.rstd[at[ROW]] = a.rstd_of((float)total.x); }
};

template <mp_dtype T> struct apply_to {
    pass<T> a;
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        a.put(at[X], at[PARAMETER], a.mean_of(at[ROW]), a.d.rstd[at[ROW]]);
    }
};

/* Computes mean(g) and mean(g xhat) of every row, where g = dy * scale and xhat is the normalized input. */
template <mp_dtype T> struct row_sums_of : mp_float_sums {
    pass<T> a;
    bool centered;
    float *sums; /* the sums of backward, two values per row: mean(g) and mean(g xhat) */
    row_sums_of(const mp_normal *n, const mp_normal_data *d, float *to) : a(n, d), centered(n->form.centered), sums(to) {}
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        const float g = a.scaled(at[X], at[PARAMETER]);
        return part{g, g * a.normalized(at[X], at[PARAMETER], a.mean_of(at[ROW]), a.d.rstd[at[ROW]])};
    }
    MP_BODY void end(const int64_t *at, value total) const
    {
        sums[2 * at[ROW]] = centered ? (float)(total.a / (double)a.length) : 0;
        sums[2 * at[ROW] + 1] = (float)(total.b / (double)a.length);
    }
};

template <mp_dtype T> struct combine_of {
    pass<T> a;
    const float *sums;
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        const float rstd = a.d.rstd[at[ROW]];
        const float xhat = a.normalized(at[X], at[PARAMETER], a.mean_of(at[ROW]), rstd);
        const float g = a.scaled(at[X], at[PARAMETER]);
        a.put_gradient(at[X], rstd * (g - sums[2 * at[ROW]] - xhat * sums[2 * at[ROW] + 1]));
    }
};

/* Computes the gradients of scale and shift. */
template <mp_dtype T> struct parameters_of : mp_float_sums {
    pass<T> a;
    parameters_of(const mp_normal *n, const mp_normal_data *d) : a(n, d) {}
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        const float dy = a.load(a.d.dy, at[X]);
        return part{dy, dy * a.normalized(at[X], at[PARAMETER], a.mean_of(at[ROW]), a.d.rstd[at[ROW]])};
    }
    static MP_BODY void give(const mp_operand &to, int64_t at, double value, bool add)
    {
        if (to.data) to.store(at, (float)value + (add ? to.load(at) : 0));
    }
    MP_BODY void end(const int64_t *at, value total) const
    {
        give(a.d.d_shift, at[PARAMETER], total.a, a.d.add_shift);
        give(a.d.d_scale, at[PARAMETER], total.b, a.d.add_scale);
    }
};

typedef mp_reduce_places<N_OPERANDS> places;

static void *stretches_in(const mp_normal *n, void *workspace)
{
    return (char *)workspace + mp_aligned(2 * n->form.n_rows * (int64_t)sizeof(float));
}

template <mp_dtype T> static void measure(const mp_normal *n, const mp_normal_data *d, void *workspace)
{
    const places rows(&n->loops, ROW);
    if (d->mean) mp_reduce(rows, means_of<T>(n, d), stretches_in(n, workspace));
    mp_reduce(rows, deviations_of<T>(n, d), stretches_in(n, workspace));
}

template <mp_dtype T> static void apply(const mp_normal *n, const mp_normal_data *d)
{
    const apply_to<T> f = {pass<T>(n, d)};
    mp_each_placed<N_OPERANDS>(&n->loops, f);
}

template <mp_dtype T> static void forward(const mp_normal *n, const mp_normal_data *d, void *workspace)
{
    if (n->by_rows && n->form.centered) {
        mp_rows(n->form.n_rows, n->form.length, forward_rows<T, true>(n, d));
    } else if (n->by_rows) {
        mp_rows(n->form.n_rows, n->form.length, forward_rows<T, false>(n, d));
    } else {
        measure<T>(n, d, workspace);
        apply<T>(n, d);
    }
}

template <mp_dtype T> static void backward(const mp_normal *n, const mp_normal_data *d, void *workspace)
{
    if (n->by_rows) {
        mp_rows(n->form.n_rows, n->form.length, backward_rows<T>(n, d));
    } else {
        float *sums = (float *)workspace;
        mp_reduce(places(&n->loops, ROW), row_sums_of<T>(n, d, sums), stretches_in(n, workspace));
        const combine_of<T> f = {pass<T>(n, d), sums};
        mp_each_placed<N_OPERANDS>(&n->loops, f);
    }
}

} // namespace

int64_t mp_normal_workspace_bytes(const mp_normal *n)
{
    const places rows(&n->loops, ROW), parameters(&n->loops, PARAMETER);
    const int64_t of_rows = mp_reduce_workspace_bytes<N_OPERANDS, row_sums_of<MP_DTYPE_FLOAT>>(rows);
    const int64_t of_parameters = mp_reduce_workspace_bytes<N_OPERANDS, parameters_of<MP_DTYPE_FLOAT>>(parameters);
    const int64_t sums = 2 * n->form.n_rows * (int64_t)sizeof(float);
    const int64_t reduced = of_rows > of_parameters ? of_rows : of_parameters, by_warps = mp_normal_warps_workspace_bytes(n);
    const int64_t of_all = mp_aligned(sums) + reduced;
    return n->by_rows && by_warps > of_all ? by_warps : of_all;
}

void mp_normal_measure(const mp_normal *n, const mp_normal_data *d, void *workspace)
{
    MP_BY_DTYPE(d->x.dtype, measure<T>(n, d, workspace));
}

void mp_normal_forward(const mp_normal *n, const mp_normal_data *d, void *workspace)
{
    if (!mp_normal_by_warps(n, d, false, NULL, workspace)) MP_BY_DTYPE(d->x.dtype, forward<T>(n, d, workspace));
}

void mp_normal_backward(const mp_normal *n, const mp_normal_data *d, void *workspace)
{
    if (d->dx.data && mp_normal_by_warps(n, d, true, NULL, workspace)) return;
    /* the gradient of x is computed last, because it may overwrite the gradient of y */
    if (d->d_scale.data || d->d_shift.data)
        MP_BY_DTYPE(d->dy.dtype, mp_reduce(places(&n->loops, PARAMETER), parameters_of<T>(n, d), stretches_in(n, workspace)));
    if (d->dx.data) MP_BY_DTYPE(d->dy.dtype, backward<T>(n, d, workspace));
}

/* ---- calls of the operators in MP_NORMALIZATIONS. */

namespace
{

struct state {
    mp_normal normal;
    /* workspace offset of the statistics, if forward does not save them for backward (as extra outputs) */
    int64_t statistics_at;
};

/* Collects the operands of a call. The saved extra outputs are mean and rstd, or, if no mean is subtracted, only rstd. */
static mp_normal_data data_of(const state *s, const mp_operands *x)
{
    const bool centered = s->normal.form.centered;
    const mp_array *mean = &x->extra[0], *rstd = &x->extra[centered ? 1 : 0];
    float *room = (float *)mp_workspace_at(x, s->statistics_at);
    mp_normal_data d = {};
    d.x = mp_input(x, 0);
    d.scale = mp_input(x, 1);
    d.mean = !centered ? NULL : mean->data ? (float *)mean->data : room;
    d.rstd = rstd->data ? (float *)rstd->data : room + s->normal.form.n_rows;
    if (!x->is_backward) {
        d.shift = mp_input(x, 2);
        d.y = mp_output(x, 0);
        return d;
    }
    d.dy = mp_operand_of(&x->d_out[0]);
    d.dx = mp_input_gradient(x, 0);
    d.d_scale = mp_input_gradient(x, 1);
    d.d_shift = mp_input_gradient(x, 2);
    d.add_x = x->adds & MP_BIT(0);
    d.add_scale = x->adds & MP_BIT(1);
    d.add_shift = x->adds & MP_BIT(2);
    if (x->alternative == 1) {
        d.x.data = NULL;
        d.y = mp_output(x, 0);
        d.shift = mp_input(x, 2);
    }
    return d;
}

struct given {
    const float *from;
    mp_operand to;
    MP_BODY void operator()(int64_t k) const { to.store(k, from[k]); }
};

static void give(const mp_operands *x, int o, const float *values, int64_t n)
{
    const given f = {values, mp_output(x, o)};
    if (f.to.data && values) mp_each(n, f);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const int64_t n = s->normal.form.n_rows;
    const mp_normal_data d = data_of(s, x);
    mp_normal_forward(&s->normal, &d, x->workspace);
    if (s->normal.form.centered) {
        give(x, 1, d.mean, n);
        give(x, 2, d.rstd, n);
    } else if (x->n_out > 1) {
        give(x, x->n_out - 1, d.rstd, n);
    }
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const mp_normal_data d = data_of(s, x);
    if (!x->extra[0].data)
        mp_normal_measure(&s->normal, &d, x->workspace); /* if forward has saved no statistics, backward computes them again */
    mp_normal_backward(&s->normal, &d, x->workspace);
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_normalization form;
    mp_status st = mp_normalization_read(x, &form, err);
    if (st) return st;
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->normal = mp_normal_of(&form);
    s->statistics_at = mp_aligned(mp_normal_workspace_bytes(&s->normal));
    call->workspace_bytes = s->statistics_at + 2 * form.n_rows * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(0) | MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

} // namespace

const mp_normal *mp_normal_of_call(const mp_call *call)
{
    return &((const state *)call->state)->normal;
}

mp_normal_data mp_normal_operands(const mp_call *call, const mp_operands *x)
{
    return data_of((const state *)call->state, x);
}

#define ROW(kind, domain, cut, centered, epsilon) {kind, domain, prepare, prepare},
extern "C" const mp_kernel mp_cuda_normalizations[] = {MP_NORMALIZATIONS(ROW){}};
