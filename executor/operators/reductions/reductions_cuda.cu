/* reductions_cuda.cu - Reduce operators for floats and integers, ArgMax and ArgMin on the GPU. */
#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/reduce.cuh"
extern "C" {
#include "executor/kernel/loops.h"
#include "executor/operators/elementwise/elementwise.h"
#include "executor/operators/reductions/reduced.h"
}

namespace
{

/* ---- reductions. Operands: the reduced array, the results, and a shift per result. */

enum { FROM, TO, SHIFT, N_OPERANDS };
typedef mp_reduce_places<N_OPERANDS> places;

/* Reductions that accumulate in double, within stretches of terms and across stretches. */
struct float_reduction {
    struct part {
        double x;
    };
    typedef part value;
    mp_reduction_step step;
    mp_reduction_end finish;
    mp_operand from, to, shift; /* input, result and shift of each result; shift.data NULL: all shifts are 0 */
    int64_t n;

    MP_BODY part none() const
    {
        switch (step) {
#define STEP(NAME, name, start, take, joined) \
    case MP_STEP_##NAME:                      \
        return part{start};
#include "executor/operators/reductions/reductions.def"
        default:
            return part{0};
        }
    }
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        const double v = (double)from.load(at[FROM]), s = shift.data ? (double)shift.load(at[SHIFT]) : 0, a = none().x;
        switch (step) {
#define STEP(NAME, name, start, take, joined) \
    case MP_STEP_##NAME:                      \
        return part{take};
#include "executor/operators/reductions/reductions.def"
        default:
            return part{a + v + s};
        }
    }
    MP_BODY part join(part x, part y) const
    {
        const double a = x.x, b = y.x;
        switch (step) {
#define STEP(NAME, name, start, take, joined) \
    case MP_STEP_##NAME:                      \
        return part{joined};
#include "executor/operators/reductions/reductions.def"
        default:
            return part{a + b};
        }
    }
    MP_BODY value wide(part a) const
    {
        return a;
    }
    MP_BODY value join_wide(value a, value b) const
    {
        return join(a, b);
    }
    MP_BODY void end(const int64_t *at, value total) const
    {
        const double s = shift.data ? (double)shift.load(at[SHIFT]) : 0;
        to.store(at[TO], (float)mp_reduction_finish(finish, total.x, s, n));
    }
};

struct whole_reduction {
    struct part {
        uint64_t x;
        bool is_there;
    };
    typedef part value;
    mp_reduction_step step;
    bool is_unsigned, mean;
    mp_operand from, to;
    int64_t n;

    MP_BODY part none() const { return part{step == MP_STEP_PRODUCT, false}; }
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        const int64_t v = mp_load_any_whole(from.data, from.dtype, at[FROM]);
        if (step == MP_STEP_MAX || step == MP_STEP_MIN) return part{(uint64_t)v, true};
        return part{mp_take_whole(step, is_unsigned, none().x, v), true};
    }
    MP_BODY part join(part a, part b) const
    {
        if (!a.is_there || !b.is_there) return a.is_there ? a : b;
        const mp_reduction_step by = step == MP_STEP_SQUARES || step == MP_STEP_ABSOLUTES ? MP_STEP_SUM : step;
        return part{mp_take_whole(by, is_unsigned, a.x, (int64_t)b.x), true};
    }
    MP_BODY value wide(part a) const { return a; }
    MP_BODY value join_wide(value a, value b) const { return join(a, b); }
    MP_BODY void end(const int64_t *at, value total) const
    {
        int64_t result = (int64_t)total.x;
        if (mean) result = is_unsigned ? (int64_t)(total.x / (uint64_t)n) : result / n;
        mp_store_any_whole(to.data, to.dtype, at[TO], result);
    }
};

static places places_of(const mp_array *from, const mp_array *to, const mp_array *shift)
{
    const mp_array *in[] = {to, shift ? shift : to};
    const mp_loops loops = mp_loops_of(in, 2, from);
    return places(&loops, TO);
}

static void reduce(mp_reduction_step step, mp_reduction_end end, const mp_array *from, const mp_array *to,
                   const mp_array *shift, void *workspace)
{
    const places p = places_of(from, to, shift);
    const mp_operand shifts = shift ? mp_operand_of(shift) : mp_operand{NULL, MP_DTYPE_FLOAT};
    const float_reduction f = {step, end, mp_operand_of(from), mp_operand_of(to), shifts, p.n_terms};
    mp_reduce(p, f, workspace);
}

/* ---- gradients, element by element. */

struct slopes_of {
    enum { GRADIENT, DY, X, Y, ZEROS, OPERANDS };
    mp_reduction_slope slope;
    /* operands that the formula of a gradient may read; data NULL: the formula does not read the operand */
    mp_operand of[OPERANDS];
    float count;
    MP_BODY float read(int i, const int64_t *at) const { return of[i].data ? of[i].load(at[i]) : 0; }
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        of[GRADIENT].store(at[GRADIENT], from(read(DY, at), read(X, at), read(Y, at), read(ZEROS, at)));
    }
    MP_BODY float from(float dy, float x, float y, float zeros) const
    {
        switch (slope) {
#define SLOPE(name, f)    \
    case MP_SLOPE_##name: \
        return f;
#include "executor/operators/reductions/reductions.def"
        default:
            return x + y + zeros;
        }
    }
};

struct quotient_of {
    mp_operand a, to;
    MP_BODY void operator()(int64_t, const int64_t *at) const { to.store(at[0], a.load(at[1]) / to.load(at[0])); }
};

struct state {
    const mp_reduction_row *row;
    bool reduced[MP_ARRAY_RANK];
    /* arrays in the workspace with one value per output: dy / number of elements equal to the output; or the product of the
     * nonzero elements, and the number of zeros */
    mp_array spread[2];
    int64_t n_terms, stretches_at;
};

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    if (s->row->shifted) reduce(MP_STEP_MAX, MP_END_none, &x->in[0], &y, NULL, x->workspace);
    reduce(s->row->step, s->row->end, &x->in[0], &y, s->row->shifted ? &y : NULL, x->workspace);
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const mp_reduction_reads reads = s->row->reads;
    const mp_array *from = &x->in[0];
    const mp_array dy = mp_reduction_kept_dims(&x->d_out[0], from->rank, s->reduced);
    const mp_array y = mp_reduction_kept_dims(&x->out[0], from->rank, s->reduced);
    mp_array spread[2] = {s->spread[0], s->spread[1]};
    void *stretches = mp_workspace_at(x, s->stretches_at);
    const mp_array *in[] = {&dy, NULL, NULL, NULL};
    spread[0].data = x->workspace;
    spread[1].data = mp_workspace_at(x, s->stretches_at / 2);
    if (reads == MP_READS_OUTPUT) in[1] = &y;
    if (reads >= MP_READS_INPUT && reads != MP_READS_OUTPUT) in[1] = from;
    if (reads == MP_READS_BOTH || reads == MP_READS_TIES) in[2] = &y;
    if (reads == MP_READS_TIES) {
        const mp_array *of = &dy;
        const quotient_of f = {mp_operand_of(&dy), mp_operand_of(&spread[0])};
        const mp_loops loops = mp_loops_of(&of, 1, &spread[0]);
        reduce(MP_STEP_EQUALS, MP_END_none, from, &spread[0], &y, stretches);
        mp_each_placed<2>(&loops, f);
        in[0] = &spread[0];
    } else if (reads == MP_READS_ZEROS) {
        reduce(MP_STEP_NONZEROS, MP_END_none, from, &spread[0], NULL, stretches);
        reduce(MP_STEP_ZEROS, MP_END_none, from, &spread[1], NULL, stretches);
        in[2] = &spread[0];
        in[3] = &spread[1];
    }
    slopes_of f;
    f.slope = s->row->slope;
    f.count = (float)s->n_terms;
    f.of[slopes_of::GRADIENT] = mp_input_gradient(x, 0);
    for (int i = 0; i < 4; i++) {
        f.of[slopes_of::DY + i] = in[i] ? mp_operand_of(in[i]) : mp_operand{NULL, MP_DTYPE_FLOAT};
        if (!in[i]) in[i] = &dy;
    }
    const mp_loops loops = mp_loops_of(in, 4, &x->d_in[0]);
    mp_each_placed<slopes_of::OPERANDS>(&loops, f);
    return mp_launched(err);
}

static mp_status run_whole(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    const places p = places_of(&x->in[0], &y, NULL);
    const bool is_unsigned = x->in[0].dtype == MP_DTYPE_UINT64, mean = s->row->end == MP_END_mean;
    const whole_reduction f = {s->row->step, is_unsigned, mean, mp_input(x, 0), mp_output(x, 0), p.n_terms};
    mp_reduce(p, f, x->workspace);
    return mp_launched(err);
}

static mp_status prepare_whole(const mp_operands *x, mp_call *call, const state *s, mp_error *err)
{
    const mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    const places p = places_of(&x->in[0], &y, NULL);
    const mp_dtype dtype = x->in[0].dtype;
    if (x->is_backward || !mp_reduction_takes_whole(s->row) || !mp_elementwise_knows(dtype) || mp_dtype_is_float(dtype))
        return MP_NO_KERNEL(x, err, "its type");
    if (p.n_terms == 0 && p.n_out > 0) return MP_NO_KERNEL(x, err, "reducing nothing");
    call->run = run_whole;
    call->workspace_bytes = mp_reduce_workspace_bytes<N_OPERANDS, whole_reduction>(p);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_STATE(state, s, call, err);
    s->row = mp_reduction_row_of(x->op);
    mp_status st = mp_reduced_dims(x, s->reduced, err);
    if (st) return st;
    if (!mp_is_real(x->in[0].dtype)) return prepare_whole(x, call, s, err);
    const mp_reduction_reads reads = s->row->reads;
    bool none = x->in[0].rank > 0;
    for (int d = 0; d < x->in[0].rank; d++) none = none && !s->reduced[d];
    if (none && !s->row->is_plain) return MP_NO_KERNEL(x, err, "reducing no dimension");
    const mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    const places p = places_of(&x->in[0], &y, NULL);
    s->n_terms = p.n_terms;
    call->run = x->is_backward ? run_backward : run_forward;
    if (x->is_backward && (reads == MP_READS_TIES || reads == MP_READS_ZEROS)) {
        s->spread[0] = s->spread[1] = mp_array_plain(MP_DTYPE_FLOAT, y.rank, y.dims);
        s->stretches_at = 2 * mp_aligned(mp_array_bytes(&s->spread[0]));
    }
    call->workspace_bytes = s->stretches_at + mp_reduce_workspace_bytes<N_OPERANDS, float_reduction>(p);
    return MP_OK;
}

/* ---- ArgMax and ArgMin: the index of the first (or last) extreme along an axis. */

/* T: the type in which elements are compared: float, double or int64_t. A NaN is more extreme than every number. */
template <class T> struct extreme_of {
    struct part {
        T x;
        int64_t index; /* index of the extreme so far; -1: no element has been compared yet */
    };
    typedef part value;
    mp_operand from;
    int64_t *to;
    bool smallest, last;

    static MP_BODY void read(const mp_operand &from, int64_t at, float *v) { *v = from.load(at); }
    static MP_BODY void read(const mp_operand &from, int64_t at, double *v) { *v = ((const double *)from.data)[at]; }
    static MP_BODY void read(const mp_operand &from, int64_t at, int64_t *v)
    {
        *v = mp_load_any_whole(from.data, from.dtype, at);
    }
    MP_BODY part none() const { return part{0, -1}; }
    MP_BODY part at(const int64_t *at, int64_t r) const
    {
        part p = {0, r};
        read(from, at[FROM], &p.x);
        return p;
    }
    MP_BODY part join(part a, part b) const
    {
        if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
        const bool a_is_nan = a.x != a.x, b_is_nan = b.x != b.x;
        if (a.x == b.x || (a_is_nan && b_is_nan)) return (a.index < b.index) != last ? a : b;
        if (a_is_nan || b_is_nan) return a_is_nan ? a : b;
        return (smallest ? a.x < b.x : a.x > b.x) ? a : b;
    }
    MP_BODY value wide(part a) const { return a; }
    MP_BODY value join_wide(value a, value b) const { return join(a, b); }
    MP_BODY void end(const int64_t *at, value total) const { to[at[TO]] = total.index; }
};

struct arg_state {
    bool reduced[MP_ARRAY_RANK];
    bool smallest, last;
};

template <class T> static mp_status run_extremes(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const arg_state *s = (const arg_state *)call->state;
    const mp_array to = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    const extreme_of<T> f = {mp_input(x, 0), (int64_t *)x->out[0].data, s->smallest, s->last};
    mp_reduce(places_of(&x->in[0], &to, NULL), f, x->workspace);
    return mp_launched(err);
}

template <class T> static void take_extremes(const places &p, mp_call *call)
{
    call->run = run_extremes<T>;
    call->workspace_bytes = mp_reduce_workspace_bytes<N_OPERANDS, extreme_of<T>>(p);
}

template <bool SMALLEST> static mp_status prepare_extremes(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_dtype dtype = x->in[0].dtype;
    const int64_t axis = mp_operator_int(x->op, "axis", 0);
    if (!mp_elementwise_knows(dtype) || dtype == MP_DTYPE_UINT64) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].rank == 0) return MP_NO_KERNEL(x, err, "a single number");
    MP_STATE(arg_state, s, call, err);
    s->reduced[axis < 0 ? axis + x->in[0].rank : axis] = true;
    s->smallest = SMALLEST;
    s->last = mp_operator_int(x->op, "select_last_index", 0) != 0;
    const mp_array to = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    const places p = places_of(&x->in[0], &to, NULL);
    if (mp_is_real(dtype))
        take_extremes<float>(p, call);
    else if (dtype == MP_DTYPE_DOUBLE)
        take_extremes<double>(p, call);
    else
        take_extremes<int64_t>(p, call);
    return MP_OK;
}

} // namespace

#define REDUCTION(kind, step, end, shifted, is_plain, slope, reads) {#kind, "", prepare, prepare},
extern "C" const mp_kernel mp_cuda_reductions[] = {
#include "executor/operators/reductions/reductions.def"
    {"ArgMax", "", prepare_extremes<false>, NULL},
    {"ArgMin", "", prepare_extremes<true>, NULL},
    {},
};
