/* elementwise_cuda.cu - the formulas of elementwise.def as kernels. If all operands have one type and are contiguous or
 * repeated (a bias along rows, a factor per row, a scalar), each formula has its own kernel over vectors. Operands with other
 * strides or types share one kernel for all formulas. */

#include "executor/cuda/grid/reduce.cuh"
#include "executor/cuda/grid/vectors.cuh"

extern "C" {
#include "executor/operators/elementwise/elementwise_cuda.h"
}

namespace
{

struct parameters {
    double p[MP_FORMULA_PARAMETERS];
};

/* Names for the operands of a formula, and the number of operands (_N). _REPEATS: operands may be repeated by broadcasting;
 * formulas of one operand have no broadcast operands. */
#define X(type) const type x = in[0]
#define G_V(type)                    \
    const type g = in[0], v = in[1]; \
    (void)v
#define A_B(type) const type a = in[0], b = in[1]
#define A_B_C(type) const type a = in[0], b = in[1], c = in[2]
#define G_A_B_Y(type)                                      \
    const type g = in[0], a = in[1], b = in[2], y = in[3]; \
    (void)a, (void)b, (void)y
enum { X_N = 1, G_V_N = 2, A_B_N = 2, A_B_C_N = 3, G_A_B_Y_N = 4 };
enum { X_REPEATS = 0, G_V_REPEATS = 0, A_B_REPEATS = 1, A_B_C_REPEATS = 1, G_A_B_Y_REPEATS = 1 };

/* Defines a type for each formula over N inputs, so that templates can be instantiated with the formula. */
#define FLOATS(operands, name, formula)                                       \
    struct name##_formula {                                                   \
        enum { N = operands##_N, REPEATS = operands##_REPEATS };              \
        static MP_BODY float of(const double *p, const float *in)             \
        {                                                                     \
            const float a_ = (float)p[0], b_ = (float)p[1], c_ = (float)p[2]; \
            (void)a_, (void)b_, (void)c_;                                     \
            operands(float);                                                  \
            return (float)(formula);                                          \
        }                                                                     \
    };
#define WHOLE(operands, name, formula)                                \
    struct name##_whole {                                             \
        static MP_BODY int64_t of(const double *p, const int64_t *in) \
        {                                                             \
            (void)p;                                                  \
            operands(int64_t);                                        \
            return (int64_t)(formula);                                \
        }                                                             \
    };
#include "executor/operators/elementwise/elementwise.def"

/* An operand in the form that kernels over vectors receive. */
struct operand {
    void *data;
    mp_dtype dtype;
};

/* States which elements of an operand are read for vector v of the output. SIDE_BY_SIDE: vector v of the operand; VECTOR,
 * ELEMENT: vector or element (v / every) % period of the operand. */
enum reading { SIDE_BY_SIDE, VECTOR, ELEMENT };
struct source {
    operand from;
    reading reads;
    uint32_t every, period;

    MP_BODY int64_t place(int64_t v) const
    {
        return reads == SIDE_BY_SIDE ? v : period == 1 ? 0 : (uint32_t)v / every % period;
    }
    template <int W> MP_BODY void load(mp_dtype dtype, int64_t v, float (&to)[W]) const
    {
        if (reads == ELEMENT) {
            const float x = mp_load_one(from.data, dtype, place(v));
            MP_UNROLL
            for (int e = 0; e < W; e++) to[e] = x;
        } else {
            mp_load_vector(from.data, dtype, place(v), W, to);
        }
    }
    MP_BODY float one(mp_dtype dtype, int64_t v, int W, int e) const
    {
        return mp_load_one(from.data, dtype, reads == ELEMENT ? place(v) : place(v) * W + e);
    }
};

/* T is the type of all operands; MP_DTYPE_UNDEFINED: the types differ. REPEATS: at least one operand is not contiguous. */
template <class F, mp_dtype T, bool REPEATS> struct vectors_of {
    enum { W = mp_width<T> };
    operand to;
    source in[F::N];
    int64_t n;
    parameters all;

    static MP_BODY mp_dtype dtype_of(const operand &x) { return T == MP_DTYPE_UNDEFINED ? x.dtype : T; }
    MP_BODY void operator()(int64_t v) const
    {
        const int size = mp_vector_size<W>(n, v);
        float x[F::N][W], y[W], values[F::N];
        if (size < W) {
            for (int e = 0; e < size; e++) {
                MP_UNROLL
                for (int i = 0; i < F::N; i++) values[i] = in[i].one(dtype_of(in[i].from), v, W, e);
                mp_store_one(to.data, dtype_of(to), v * W + e, F::of(all.p, values));
            }
            return;
        }
        MP_UNROLL
        for (int i = 0; i < F::N; i++) {
            if (REPEATS)
                in[i].load(dtype_of(in[i].from), v, x[i]);
            else
                mp_load_vector(in[i].from.data, dtype_of(in[i].from), v, W, x[i]);
        }
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            MP_UNROLL
            for (int i = 0; i < F::N; i++) values[i] = x[i][e];
            y[e] = F::of(all.p, values);
        }
        mp_store_vector(to.data, dtype_of(to), v, W, y);
    }
};

/* In the kernel for operands of any strides, a switch selects the formula. All threads of a launch take the same branch. */
enum { INPUTS_MAX = 4 };

static MP_BODY float float_of(mp_formula formula, const double *p, const float *in)
{
    switch (formula) {
#define FLOATS(operands, name, f) \
    case MP_FORMULA_##name:       \
        return name##_formula::of(p, in);
#include "executor/operators/elementwise/elementwise.def"
    default:
        return 0;
    }
}

static MP_BODY int64_t whole_of(mp_whole_formula formula, const double *p, const int64_t *in)
{
    switch (formula) {
#define WHOLE(operands, name, f) \
    case MP_WHOLE_##name:        \
        return name##_whole::of(p, in);
#include "executor/operators/elementwise/elementwise.def"
    default:
        return 0;
    }
}

/* The kernels that compute a formula over operands of any strides and types. */
struct floats_placed {
    mp_formula formula;
    int n;
    operand to, from[INPUTS_MAX];
    parameters all;
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        float in[INPUTS_MAX] = {};
        for (int i = 0; i < INPUTS_MAX; i++)
            if (i < n) in[i] = mp_load_any(from[i].data, from[i].dtype, at[i + 1]);
        mp_store_any(to.data, to.dtype, at[0], float_of(formula, all.p, in));
    }
};

struct wholes_placed {
    mp_whole_formula formula;
    int n;
    operand to, from[INPUTS_MAX];
    parameters all;
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        int64_t in[INPUTS_MAX] = {};
        for (int i = 0; i < INPUTS_MAX; i++)
            if (i < n) in[i] = mp_load_any_whole(from[i].data, from[i].dtype, at[i + 1]);
        mp_store_any_whole(to.data, to.dtype, at[0], whole_of(formula, all.p, in));
    }
};

static parameters copy_of(const double *p)
{
    parameters all = {{0}};
    for (int k = 0; p && k < MP_FORMULA_PARAMETERS; k++) all.p[k] = p[k];
    return all;
}

/* True if the output is contiguous and row-major, and the number of its elements fits in 32 bits. */
static bool is_plain(const mp_loops *loops)
{
    int64_t inner = 1;
    for (int d = loops->rank - 1; d >= 0; d--) {
        if (loops->strides[0][d] != inner) return false;
        inner *= loops->dims[d];
    }
    return inner <= UINT32_MAX;
}

/* Finds the source of operand i for vectors of W elements of a contiguous output; false: the operand cannot be read in vectors.
 */
static bool find_source(const mp_loops *loops, int i, const mp_array *array, int W, source *in)
{
    const int64_t *strides = loops->strides[i];
    int64_t every = 1, period = 1;
    int d = loops->rank - 1;
    for (; d >= 0 && strides[d] == 0; d--) every *= loops->dims[d];
    for (; d >= 0 && strides[d] == period; d--) period *= loops->dims[d];
    for (; d >= 0; d--)
        if (strides[d] != 0) return false;
    in->from = {array->data, array->dtype};
    in->reads = period == loops->n_elements ? SIDE_BY_SIDE : period == 1 || every > 1 ? ELEMENT : VECTOR;
    in->every = in->reads == ELEMENT ? (uint32_t)(every / W) : 1;
    in->period = (uint32_t)(in->reads == VECTOR ? period / W : period);
    if (in->reads == ELEMENT)
        return (period == 1 || every % W == 0) && (array->dtype == MP_DTYPE_FLOAT || array->dtype == MP_DTYPE_BFLOAT16);
    return (in->reads == SIDE_BY_SIDE || period % W == 0) && mp_takes_vectors(array->data, array->dtype);
}

template <class F, mp_dtype T, bool REPEATS>
static void run_vectors_of(const source *in, const double *p, const mp_array *out, int64_t n)
{
    vectors_of<F, T, REPEATS> f;
    for (int i = 0; i < F::N; i++) f.in[i] = in[i];
    f.to = {out->data, out->dtype};
    f.all = copy_of(p);
    f.n = n;
    mp_each(mp_vectors<mp_width<T>>(n), f);
}

template <class F, mp_dtype T>
static bool run_vectors_in(const mp_loops *loops, const double *p, const mp_array *const *in, const mp_array *out)
{
    source sources[F::N];
    bool repeats = false;
    for (int i = 0; i < F::N; i++) {
        if (!find_source(loops, i + 1, in[i], mp_width<T>, &sources[i])) return false;
        repeats = repeats || sources[i].reads != SIDE_BY_SIDE;
    }
    if (repeats && !F::REPEATS) return false;
    if (repeats)
        run_vectors_of<F, T, F::REPEATS>(sources, p, out, loops->n_elements);
    else
        run_vectors_of<F, T, false>(sources, p, out, loops->n_elements);
    return true;
}

/* True for formulas that convert types, so that operand and result may have different types. */
template <class F> constexpr bool mixes_types = false;
template <> constexpr bool mixes_types<copy_formula> = true;
template <> constexpr bool mixes_types<copy_slope_formula> = true;

/* Runs a formula with a kernel over vectors, if all operands permit it. Otherwise returns false and runs nothing. */
template <class F>
static bool run_vectors(const mp_loops *loops, const double *p, const mp_array *const *in, int n_in, const mp_array *out)
{
    bool same = true;
    if (n_in != F::N || !is_plain(loops) || !mp_takes_vectors(out->data, out->dtype)) return false;
    for (int i = 0; i < F::N; i++) same = same && in[i]->dtype == out->dtype;
    if (same && out->dtype == MP_DTYPE_FLOAT) return run_vectors_in<F, MP_DTYPE_FLOAT>(loops, p, in, out);
    if (same) return run_vectors_in<F, MP_DTYPE_BFLOAT16>(loops, p, in, out);
    if constexpr (mixes_types<F>) return run_vectors_in<F, MP_DTYPE_UNDEFINED>(loops, p, in, out);
    return false;
}

static bool run_formula_in_vectors(mp_formula formula, const mp_loops *loops, const double *p, const mp_array *const *in,
                                   int n_in, const mp_array *out)
{
    switch (formula) {
#define FLOATS(operands, name, f) \
    case MP_FORMULA_##name:       \
        return run_vectors<name##_formula>(loops, p, in, n_in, out);
#include "executor/operators/elementwise/elementwise.def"
    default:
        return false;
    }
}

/* Fills the members that the kernels for floats and for integers have in common: formula parameters and operands. */
template <class K> static void place(K *f, const double *p, const mp_array *const *in, int n_in, const mp_array *out)
{
    f->n = n_in;
    f->to = {out->data, out->dtype};
    f->all = copy_of(p);
    for (int i = 0; i < INPUTS_MAX; i++) f->from[i] = i < n_in ? operand{in[i]->data, in[i]->dtype} : f->to;
}

} // namespace

void mp_cuda_floats(mp_formula formula, const double *p, const mp_array *const *in, int n_in, const mp_array *out)
{
    const mp_loops loops = mp_loops_of(in, n_in, out);
    floats_placed f;
    if (run_formula_in_vectors(formula, &loops, p, in, n_in, out)) return;
    place(&f, p, in, n_in, out);
    f.formula = formula;
    mp_each_placed<INPUTS_MAX + 1>(&loops, f);
}

void mp_cuda_whole(mp_whole_formula formula, const double *p, const mp_array *const *in, int n_in, const mp_array *out)
{
    const mp_loops loops = mp_loops_of(in, n_in, out);
    wholes_placed f;
    place(&f, p, in, n_in, out);
    f.formula = formula;
    mp_each_placed<INPUTS_MAX + 1>(&loops, f);
}

/* ---- sums over broadcast dimensions: gradients of biases, scales and scalars. */

namespace
{

/* Sums operand 0 over its broadcast dimensions into operand 1. T: type of operand 0; MP_DTYPE_UNDEFINED: any other type. */
template <mp_dtype T> struct sum_of : mp_float_sum {
    const void *from;
    void *to;
    mp_dtype from_dtype, to_dtype;
    float scale;
    bool add;
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        return part{T == MP_DTYPE_UNDEFINED ? mp_load_any(from, from_dtype, at[0]) : mp_load_one(from, T, at[0])};
    }
    MP_BODY void end(const int64_t *at, value total) const
    {
        const float old = add ? mp_load_any(to, to_dtype, at[1]) : 0;
        mp_store_any(to, to_dtype, at[1], old + (float)(total.x * scale));
    }
};

static mp_reduce_places<2> places_of(const mp_array *from, const mp_array *to)
{
    const mp_loops loops = mp_loops_of(&to, 1, from);
    return mp_reduce_places<2>(&loops, 1);
}

template <mp_dtype T> static void sum(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace)
{
    const mp_reduce_places<2> places = places_of(from, to);
    const sum_of<T> f = {{}, from->data, to->data, from->dtype, to->dtype, scale, add};
    if (places.n_terms) mp_reduce(places, f, workspace);
}

} // namespace

int64_t mp_cuda_sum_workspace_bytes(const mp_array *from, const mp_array *to)
{
    return mp_reduce_workspace_bytes<2, sum_of<MP_DTYPE_UNDEFINED>>(places_of(from, to));
}

void mp_cuda_sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace)
{
    if (mp_is_real(from->dtype))
        MP_BY_DTYPE(from->dtype, sum<T>(from, to, scale, add, workspace));
    else
        sum<MP_DTYPE_UNDEFINED>(from, to, scale, add, workspace);
}
