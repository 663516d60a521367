/* formulas_cpu.c - the CPU's engine for elementwise operators: the formulas of elementwise.def as loops over blocks of values.
 */
#include <math.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise.h"
#include "executor/operators/elementwise/elementwise_cpu.h"

/* Declarations of a formula's operands in iteration k of a loop. Each macro is named after the operands that it declares. */
#define X(type) const type x = in[0][k]
#define G_V(type)                          \
    const type g = in[0][k], v = in[1][k]; \
    (void)v
#define A_B(type) const type a = in[0][k], b = in[1][k]
#define A_B_C(type) const type a = in[0][k], b = in[1][k], c = in[2][k]
#define G_A_B_Y(type)                                                  \
    const type g = in[0][k], a = in[1][k], b = in[2][k], y = in[3][k]; \
    (void)a, (void)b, (void)y

/* Defines for each formula a function that computes the formula for n values in a loop. */
#define FLOATS(operands, name, formula)                                                              \
    MP_VECTOR static void name##_row(const double *p, int64_t n, const float *const *in, float *out) \
    {                                                                                                \
        const float a_ = (float)p[0], b_ = (float)p[1], c_ = (float)p[2];                            \
        (void)a_, (void)b_, (void)c_;                                                                \
        MP_INDEPENDENT                                                                               \
        for (int64_t k = 0; k < n; k++) {                                                            \
            operands(float);                                                                         \
            out[k] = (formula);                                                                      \
        }                                                                                            \
    }
#define WHOLE(operands, name, formula)                                                               \
    static void name##_whole_row(const double *p, int64_t n, const int64_t *const *in, int64_t *out) \
    {                                                                                                \
        (void)p;                                                                                     \
        for (int64_t k = 0; k < n; k++) {                                                            \
            operands(int64_t);                                                                       \
            out[k] = (formula);                                                                      \
        }                                                                                            \
    }
#include "executor/operators/elementwise/elementwise.def"

#define FLOATS(operands, name, formula) [MP_FORMULA_##name] = name##_row,
static const mp_row rows[MP_N_FORMULAS] = {
#include "executor/operators/elementwise/elementwise.def"
};

#define WHOLE(operands, name, formula) [MP_WHOLE_##name] = name##_whole_row,
static const mp_whole_row whole_rows[MP_N_WHOLE_FORMULAS] = {
#include "executor/operators/elementwise/elementwise.def"
};

static void run_floats(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out)
{
    mp_elementwise(rows[formula], parameters, in, n_in, out);
}

static void run_whole(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in,
                      const mp_array *out)
{
    mp_elementwise_whole(whole_rows[formula], parameters, in, n_in, out);
}

static void sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace)
{
    (void)workspace;
    mp_cpu_sum_to(from, to, scale, add);
}

static int64_t sum_workspace_bytes(const mp_array *from, const mp_array *to)
{
    (void)from, (void)to;
    return 0;
}

static mp_status end(mp_error *err)
{
    (void)err;
    return MP_OK;
}

static const mp_engine engine = {run_floats, run_whole, sum_to, sum_workspace_bytes, end};

#define MP_ENGINE &engine
#define MP_UNARIES mp_cpu_unaries
#define MP_BINARIES mp_cpu_binaries
#include "executor/operators/elementwise/elementwise_tables.h"
