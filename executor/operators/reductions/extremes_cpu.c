/* extremes_cpu.c - ArgMax and ArgMin on the CPU: the index of the first (or last) extreme along an axis. A NaN is more extreme
 * than every number. */
#include <math.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise.h"
#include "executor/operators/reductions/reduced.h"

enum { LINES = 64 };

/* The description of an ArgMax or ArgMin. A line is all elements along the axis. A row is all lines along a second dimension:
 * the last dimension, or, if the last dimension is the axis, the dimension before it. `from` and `to` are described with size
 * 1 in both dimensions, so row k begins at element k. A work item is up to LINES lines of a row. */
typedef struct extremes {
    mp_array from, to;
    int64_t length, step;                       /* number of elements of a line, and their stride */
    int64_t n_lines, apart, to_apart, n_blocks; /* number of lines along the second dimension; strides between them in `from`
                                                   and `to`; number of work items for these lines */
    bool smallest, last;
} extremes;

/* Returns the index of the first extreme of one line, the floats along the axis. */
static int64_t find_in_floats(const float *x, int64_t n, int64_t step, float sign)
{
    int64_t where = 0;
    float best = sign * x[0];
    for (int64_t i = 1; i < n && best == best; i++) {
        float v = sign * x[i * step];
        if (v <= best) continue;
        best = v;
        where = i;
    }
    return where;
}

/* Finds the index of the first extreme of each of n adjacent lines (floats along the axis) at x, reading memory in order.
 * where[] must be zero on entry. */
MP_VECTOR static void find_in_columns(const extremes *s, const float *x, int64_t n, float sign, int32_t *where)
{
    float best[LINES];
    for (int64_t e = 0; e < n; e++) best[e] = sign * x[e];
    for (int64_t i = 1; i < s->length; i++) MP_INDEPENDENT for (int64_t e = 0; e < n; e++)
        {
            float v = sign * x[i * s->step + e], b = best[e];
            bool takes = (v > b || v != v) && b == b;
            best[e] = takes ? v : b;
            where[e] = takes ? (int32_t)i : where[e];
        }
}

static int64_t find_in_reals(const extremes *s, int64_t begin)
{
    int64_t where = 0;
    double best = mp_load_real(s->from.data, s->from.dtype, begin);
    for (int64_t i = 1; i < s->length; i++) {
        const double v = mp_load_real(s->from.data, s->from.dtype, begin + i * s->step);
        bool takes = (s->smallest ? v < best : v > best) || (s->last && v == best) || (isnan(v) && (s->last || !isnan(best)));
        if (!takes || (isnan(best) && !isnan(v))) continue;
        best = v;
        where = i;
    }
    return where;
}

static int64_t find_in_wholes(const extremes *s, int64_t begin)
{
    int64_t where = 0, best = mp_load_whole(s->from.data, s->from.dtype, begin);
    for (int64_t i = 1; i < s->length; i++) {
        const int64_t v = mp_load_whole(s->from.data, s->from.dtype, begin + i * s->step);
        const bool takes = (s->smallest ? v < best : v > best) || (s->last && v == best);
        best = takes ? v : best;
        where = takes ? i : where;
    }
    return where;
}

static inline void find_in_lines(const extremes *s, int64_t item)
{
    const mp_array *x = &s->from, *y = &s->to;
    const int64_t row = item / s->n_blocks, first = item % s->n_blocks * LINES;
    const int64_t n = s->n_lines - first < LINES ? s->n_lines - first : LINES;
    const int64_t begin = mp_array_offset(x, 0, x->rank, row) + first * s->apart;
    int64_t *to = (int64_t *)y->data + mp_array_offset(y, 0, y->rank, row) + first * s->to_apart;
    const bool is_plain = x->dtype == MP_DTYPE_FLOAT && !s->last, is_real = mp_dtype_is_float(x->dtype);
    const float *floats = (const float *)x->data + begin, sign = s->smallest ? -1 : 1;
    int32_t where[LINES] = {0};
    const bool in_columns = is_plain && s->apart == 1 && n > 1 && s->length < INT32_MAX;
    if (in_columns) find_in_columns(s, floats, n, sign, where);
    for (int64_t e = 0; e < n; e++)
        to[e * s->to_apart] = in_columns ? where[e]
                              : is_plain ? find_in_floats(floats + e * s->apart, s->length, s->step, sign)
                              : is_real  ? find_in_reals(s, begin + e * s->apart)
                                         : find_in_wholes(s, begin + e * s->apart);
}

MP_BODY_LOOP(extremes, find_in_lines)

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    extremes s = *(const extremes *)call->state;
    bool reduced[MP_ARRAY_RANK] = {false};
    const int axis = mp_operands_axis(x, 0, x->in[0].rank);
    reduced[axis] = true;
    s.from = x->in[0];
    s.to = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, reduced);
    s.length = s.from.dims[axis];
    s.step = s.from.strides[axis];
    s.from.dims[axis] = 1;
    const int along = axis > 0 && axis == s.from.rank - 1 ? axis - 1 : s.from.rank - 1;
    s.n_lines = s.from.dims[along];
    s.apart = s.from.strides[along];
    s.to_apart = s.to.strides[along];
    s.n_blocks = (s.n_lines + LINES - 1) / LINES;
    s.from.dims[along] = s.to.dims[along] = 1;
    return find_in_lines_loop(&s, mp_array_elements(&s.to) * s.n_blocks, s.length * LINES, err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, bool smallest, mp_error *err)
{
    if (!mp_elementwise_knows(x->in[0].dtype) || x->in[0].dtype == MP_DTYPE_UINT64) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].rank == 0) return MP_NO_KERNEL(x, err, "a single number");
    MP_STATE(extremes, s, call, err);
    call->run = run;
    s->smallest = smallest;
    s->last = mp_operator_int(x->op, "select_last_index", 0) != 0;
    return MP_OK;
}

static mp_status prepare_max(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, call, false, err);
}

static mp_status prepare_min(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, call, true, err);
}

const mp_kernel mp_cpu_extremes[] = {{"ArgMax", "", prepare_max, NULL}, {"ArgMin", "", prepare_min, NULL}, {0}};
