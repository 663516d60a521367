/* elementwise.cu - the formulas of formulas.def as kernels: each has one for operands that lie side by side, in quads; operands
 * of other strides and types share one kernel for all formulas. */
#include "executor/cuda/grid/grid.cuh"

#include "executor/cuda/elementwise/elementwise.h"

namespace
{

struct parameters {
    double p[MP_FORMULA_PARAMETERS];
};

/* The formula over its N inputs, as a type. */
#define FORMULA(name, n, operands, formula)                                   \
    struct name##_formula {                                                   \
        enum { N = n };                                                       \
        static MP_BODY float of(const double *p, const float *in)             \
        {                                                                     \
            const float a_ = (float)p[0], b_ = (float)p[1], c_ = (float)p[2]; \
            (void)a_, (void)b_, (void)c_;                                     \
            operands;                                                         \
            return (float)(formula);                                          \
        }                                                                     \
    };
#define X const float x = in[0]
#define G_V                           \
    const float g = in[0], v = in[1]; \
    (void)v
#define A_B const float a = in[0], b = in[1]
#define A_B_C const float a = in[0], b = in[1], c = in[2]
#define G_A_B_Y                                             \
    const float g = in[0], a = in[1], b = in[2], y = in[3]; \
    (void)a, (void)b, (void)y
#define UNARY(name, f, slope) FORMULA(name, 1, X, f) FORMULA(name##_slope, 2, G_V, slope)
#define FLOATS_1(name, f) FORMULA(name, 1, X, f)
#define FLOATS_2(name, f) FORMULA(name, 2, A_B, f)
#define FLOATS_3(name, f) FORMULA(name, 3, A_B_C, f)
#define GRADIENT(name, f) FORMULA(name, 4, G_A_B_Y, f)
#define WHOLE_FORMULA(name, n, operands, formula)                     \
    struct name##_whole {                                             \
        enum { N = n };                                               \
        static MP_BODY int64_t of(const double *p, const int64_t *in) \
        {                                                             \
            (void)p;                                                  \
            operands;                                                 \
            return (int64_t)(formula);                                \
        }                                                             \
    };
#define WHOLE_X const int64_t x = in[0]
#define WHOLE_A_B const int64_t a = in[0], b = in[1]
#define WHOLE_A_B_C const int64_t a = in[0], b = in[1], c = in[2]
#define WHOLE_1(name, f) WHOLE_FORMULA(name, 1, WHOLE_X, f)
#define WHOLE_2(name, f) WHOLE_FORMULA(name, 2, WHOLE_A_B, f)
#define WHOLE_3(name, f) WHOLE_FORMULA(name, 3, WHOLE_A_B_C, f)
#include "executor/operators/elementwise/formulas.def"

/* One operand. */
struct operand {
    void *data;
    mp_dtype dtype;
};

/* Operands that lie side by side, or are one element for all. */
template <class F> struct quads_of {
    operand to, from[F::N];
    bool is_one[F::N];
    int64_t n;
    parameters all;
    MP_BODY void operator()(int64_t quad) const
    {
        const int size = mp_quad_size(n, quad);
        float in[F::N][MP_QUAD] = {}, out[MP_QUAD];
        for (int i = 0; i < F::N; i++) {
            if (is_one[i]) {
                in[i][0] = mp_load_any(from[i].data, from[i].dtype, 0);
                for (int e = 1; e < MP_QUAD; e++) in[i][e] = in[i][0];
            } else {
                mp_load_quad(from[i].data, from[i].dtype, quad, size, in[i]);
            }
        }
        for (int e = 0; e < MP_QUAD; e++) { /* those beyond the last are not stored */
            float values[F::N];
            for (int i = 0; i < F::N; i++) values[i] = in[i][e];
            out[e] = F::of(all.p, values);
        }
        mp_store_quad(to.data, to.dtype, quad, size, out);
    }
};

/* Which formula runs is a jump that all threads take alike; N operands at most, for those of floats and of whole numbers. */
enum { INPUTS_MAX = 4 };

static MP_BODY float float_of(mp_formula formula, const double *p, const float *in)
{
    switch (formula) {
#define ONE(name)           \
    case MP_FORMULA_##name: \
        return name##_formula::of(p, in);
#define UNARY(name, f, slope) ONE(name) ONE(name##_slope)
#define FLOATS_1(name, f) ONE(name)
#define FLOATS_2(name, f) ONE(name)
#define FLOATS_3(name, f) ONE(name)
#define GRADIENT(name, f) ONE(name)
#define WHOLE_1(name, f)
#define WHOLE_2(name, f)
#define WHOLE_3(name, f)
#include "executor/operators/elementwise/formulas.def"
    default:
        return 0;
    }
#undef ONE
}

static MP_BODY int64_t whole_of(mp_whole_formula formula, const double *p, const int64_t *in)
{
    switch (formula) {
#define WHOLE_ONE(name)   \
    case MP_WHOLE_##name: \
        return name##_whole::of(p, in);
#define UNARY(name, f, slope)
#define FLOATS_1(name, f)
#define FLOATS_2(name, f)
#define FLOATS_3(name, f)
#define GRADIENT(name, f)
#define WHOLE_1(name, f) WHOLE_ONE(name)
#define WHOLE_2(name, f) WHOLE_ONE(name)
#define WHOLE_3(name, f) WHOLE_ONE(name)
#include "executor/operators/elementwise/formulas.def"
    default:
        return 0;
    }
}

/* Operands of any strides and types. */
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

/* In quads, if all operands allow it. */
template <class F>
static bool run_quads(const mp_loops *loops, const double *p, const mp_array *const *in, int n_in, const mp_array *out)
{
    quads_of<F> f;
    bool takes_quads = n_in == F::N && loops->rank == 1 && loops->strides[0][0] == 1 && mp_takes_quads(out->data, out->dtype);
    for (int i = 0; takes_quads && i < F::N; i++) {
        const int64_t stride = loops->strides[i + 1][0];
        f.from[i] = {in[i]->data, in[i]->dtype};
        f.is_one[i] = stride == 0;
        takes_quads = stride == 0 || (stride == 1 && mp_takes_quads(in[i]->data, in[i]->dtype));
    }
    if (!takes_quads) return false;
    f.to = {out->data, out->dtype};
    f.all = copy_of(p);
    f.n = loops->n_elements;
    mp_each(mp_quads(loops->n_elements), f);
    return true;
}

static bool run_formula_in_quads(mp_formula formula, const mp_loops *loops, const double *p, const mp_array *const *in,
                                 int n_in, const mp_array *out)
{
    switch (formula) {
#define ONE(name)           \
    case MP_FORMULA_##name: \
        return run_quads<name##_formula>(loops, p, in, n_in, out);
#define UNARY(name, f, slope) ONE(name) ONE(name##_slope)
#define FLOATS_1(name, f) ONE(name)
#define FLOATS_2(name, f) ONE(name)
#define FLOATS_3(name, f) ONE(name)
#define GRADIENT(name, f) ONE(name)
#define WHOLE_1(name, f)
#define WHOLE_2(name, f)
#define WHOLE_3(name, f)
#include "executor/operators/elementwise/formulas.def"
    default:
        return false;
    }
#undef ONE
}

/* Fills what both kinds of placed kernels have. */
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
    if (run_formula_in_quads(formula, &loops, p, in, n_in, out)) return;
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
