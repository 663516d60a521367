/* extremes_cpu.c - ArgMax and ArgMin on the CPU: where along an axis the first or the last extreme is, line by line. The first
 * NaN, or the last, is an extreme of all. */
#include <math.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise.h"
#include "executor/operators/reductions/reduced.h"

/* The arrays have one element along the axis: line k begins at their element k. */
typedef struct extremes {
    mp_array from, to;
    int64_t length, step; /* along the axis */
    bool smallest, last;
} extremes;

/* The first extreme of one line of floats. */
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
        if (!(s->smallest ? v < best : v > best) && !(s->last && v == best)) continue;
        best = v;
        where = i;
    }
    return where;
}

static inline void find_in_line(const extremes *s, int64_t k)
{
    const mp_array *x = &s->from;
    const int64_t begin = mp_array_place(x, 0, x->rank, k), to = mp_array_place(&s->to, 0, s->to.rank, k);
    ((int64_t *)s->to.data)[to] = x->dtype == MP_DTYPE_FLOAT && !s->last
                                      ? find_in_floats((const float *)x->data + begin, s->length, s->step, s->smallest ? -1 : 1)
                                  : mp_dtype_is_float(x->dtype) ? find_in_reals(s, begin)
                                                                : find_in_wholes(s, begin);
}

MP_BODY_LOOP(extremes, find_in_line)

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
    return find_in_line_loop(&s, mp_array_elements(&s.to), s.length, err);
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
