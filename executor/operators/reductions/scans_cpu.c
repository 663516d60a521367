/* scans_cpu.c - along one axis, in order: running sums, and where the largest or smallest element is. */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/kernel/element.h"
#include "executor/operators/elementwise/elementwise.h"
#include "executor/operators/reductions/reduced.h"

enum { LINES = 64 };

/* All lines along an axis of `from`, in groups of at most LINES that lie side by side. */
typedef struct scan {
    int64_t length, stride, to_stride; /* along the axis */
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK], to_strides[MP_ARRAY_RANK]; /* the other dimensions, outermost first */
    int64_t n_groups, blocks;
    bool flag[2]; /* running sums: exclusive, reverse; extremes: the smallest, the last */
} scan;

typedef struct task {
    const scan *s;
    const mp_array *from, *to;
} task;

typedef struct lines {
    int64_t n, from, to, step, to_step;
} lines;

/* `to` has the rank of `from`. */
static void describe(scan *s, const mp_array *from, const mp_array *to, int axis)
{
    s->length = from->dims[axis];
    s->stride = from->strides[axis];
    s->to_stride = to->strides[axis];
    s->rank = 0;
    for (int d = 0; d < from->rank; d++) {
        if (d == axis || from->dims[d] == 1) continue;
        int k = s->rank++;
        for (; k > 0 && s->strides[k - 1] < from->strides[d]; k--) {
            s->dims[k] = s->dims[k - 1];
            s->strides[k] = s->strides[k - 1];
            s->to_strides[k] = s->to_strides[k - 1];
        }
        s->dims[k] = from->dims[d];
        s->strides[k] = from->strides[d];
        s->to_strides[k] = to->strides[d];
    }
    if (!s->rank) {
        s->rank = 1;
        s->dims[0] = 1;
    }
    s->blocks = (s->dims[s->rank - 1] + LINES - 1) / LINES;
    s->n_groups = s->blocks;
    for (int d = 0; d < s->rank - 1; d++) s->n_groups *= s->dims[d];
}

static lines lines_of(const scan *s, int64_t k)
{
    int inner = s->rank - 1;
    int64_t first = k % s->blocks * LINES, left = s->dims[inner] - first;
    lines l = {left < LINES ? left : LINES, first * s->strides[inner], first * s->to_strides[inner], s->strides[inner],
               s->to_strides[inner]};
    k /= s->blocks;
    l.from += mp_strided_place(inner, s->dims, s->strides, k);
    l.to += mp_strided_place(inner, s->dims, s->to_strides, k);
    return l;
}

/* The same for floats, line by line or row by row, whichever lies closer together. */
MP_VECTOR static void sum_floats(const scan *s, const lines *l, const float *from, float *to)
{
    bool exclusive = s->flag[0], by_line = s->stride < l->step;
    double sums[LINES] = {0};
    int64_t outer = by_line ? l->n : s->length, inner = by_line ? s->length : l->n;
    int64_t sign = s->flag[1] ? -1 : 1, first = s->flag[1] ? s->length - 1 : 0;
    for (int64_t o = 0; o < outer; o++) {
        int64_t line = by_line ? o : 0, place = first + sign * (by_line ? 0 : o);
        const float *x = from + line * l->step + place * s->stride;
        float *y = to + line * l->to_step + place * s->to_stride;
        int64_t x_step = by_line ? sign * s->stride : l->step, y_step = by_line ? sign * s->to_stride : l->to_step;
        for (int64_t i = 0; i < inner; i++) {
            double *sum = &sums[by_line ? 0 : i], before = i || !by_line ? *sum : 0;
            *sum = before + (double)x[i * x_step];
            y[i * y_step] = (float)(exclusive ? before : *sum);
        }
    }
}

static void sum_lines(void *data, int64_t k)
{
    const task *t = data;
    const scan *s = t->s;
    bool exclusive = s->flag[0], reverse = s->flag[1], real = mp_dtype_is_float(t->from->dtype);
    lines l = lines_of(s, k);
    double sums[LINES] = {0};
    uint64_t whole[LINES] = {0};
    if (t->from->dtype == MP_DTYPE_FLOAT && t->to->dtype == MP_DTYPE_FLOAT) {
        sum_floats(s, &l, (const float *)t->from->data + l.from, (float *)t->to->data + l.to);
        return;
    }
    for (int64_t i = 0; i < s->length; i++) {
        int64_t place = reverse ? s->length - 1 - i : i;
        int64_t from = l.from + place * s->stride, to = l.to + place * s->to_stride;
        for (int64_t e = 0; e < l.n; e++, from += l.step, to += l.to_step) {
            if (!real) {
                uint64_t before = whole[e];
                whole[e] += (uint64_t)mp_load_whole(t->from->data, t->from->dtype, from);
                mp_store_whole(t->to->data, t->to->dtype, to, (int64_t)(exclusive ? before : whole[e]));
                continue;
            }
            double before = sums[e], sum = before + mp_load_real(t->from->data, t->from->dtype, from);
            sums[e] = sum;
            if (t->to->dtype == MP_DTYPE_DOUBLE)
                ((double *)t->to->data)[to] = exclusive ? before : sum;
            else
                mp_store_float(t->to->data, t->to->dtype, to, (float)(exclusive ? before : sum));
        }
    }
}

static mp_status run_sum(const mp_call *call, const mp_operands *x, mp_error *err)
{
    task t = {call->state, x->is_backward ? &x->d_out[0] : &x->in[0], x->is_backward ? &x->d_in[0] : &x->out[0]};
    (void)err;
    if (mp_array_elements(t.to)) mp_parallel(t.s->n_groups, t.s->length * LINES, sum_lines, &t);
    return MP_OK;
}

static mp_status prepare_sum(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!x->in[1].data) return MP_NO_KERNEL(x, err, "an axis that is computed");
    if (!mp_elementwise_knows(x->in[0].dtype) || x->in[0].rank == 0) return MP_NO_KERNEL(x, err, "its type");
    int64_t axis = mp_load_whole(x->in[1].data, x->in[1].dtype, 0);
    if (axis < 0) axis += x->in[0].rank;
    if (axis < 0 || axis >= x->in[0].rank) return MP_NO_KERNEL(x, err, "an axis that is not there");
    MP_STATE(scan, s, call, err);
    call->run = run_sum;
    describe(s, x->is_backward ? &x->d_out[0] : &x->in[0], x->is_backward ? &x->d_in[0] : &x->out[0], (int)axis);
    s->flag[0] = mp_operator_int(x->op, "exclusive", 0) != 0;
    s->flag[1] = (mp_operator_int(x->op, "reverse", 0) != 0) != x->is_backward; /* later sums take in earlier elements */
    return MP_OK;
}

/* The first extreme of one line of floats. */
static int64_t find_in_line(const float *x, int64_t n, int64_t step, float sign)
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

/* The first extremes of lines that lie side by side, row by row. */
MP_VECTOR static void find_in_columns(const float *x, int64_t rows, int64_t stride, int64_t n, float sign, int32_t *where)
{
    float best[LINES];
    for (int64_t e = 0; e < n; e++) best[e] = sign * x[e];
    for (int64_t i = 1; i < rows; i++) MP_INDEPENDENT for (int64_t e = 0; e < n; e++)
        {
            float v = sign * x[i * stride + e], b = best[e];
            bool takes = (v > b || v != v) && b == b;
            best[e] = takes ? v : b;
            where[e] = takes ? (int32_t)i : where[e];
        }
}

/* True if it could be done so. */
static bool find_floats(const task *t, const lines *l)
{
    const scan *s = t->s;
    const float *x = (const float *)t->from->data + l->from;
    int64_t *to = (int64_t *)t->to->data + l->to;
    int32_t where[LINES] = {0};
    float sign = s->flag[0] ? -1 : 1;
    if (t->from->dtype != MP_DTYPE_FLOAT || s->flag[1] || s->length >= INT32_MAX) return false;
    if (l->step == 1)
        find_in_columns(x, s->length, s->stride, l->n, sign, where);
    else
        for (int64_t e = 0; e < l->n; e++) where[e] = (int32_t)find_in_line(x + e * l->step, s->length, s->stride, sign);
    for (int64_t e = 0; e < l->n; e++) to[e * l->to_step] = where[e];
    return true;
}

/* The first NaN is an extreme of all. */
static void find_lines(void *data, int64_t k)
{
    const task *t = data;
    const scan *s = t->s;
    bool smallest = s->flag[0], last = s->flag[1], real = mp_dtype_is_float(t->from->dtype);
    lines l = lines_of(s, k);
    double best[LINES] = {0};
    int64_t whole[LINES] = {0}, where[LINES] = {0};
    if (find_floats(t, &l)) return;
    for (int64_t i = 0; i < s->length; i++) {
        int64_t from = l.from + i * s->stride;
        for (int64_t e = 0; e < l.n; e++, from += l.step) {
            bool takes;
            if (real) {
                double v = mp_load_real(t->from->data, t->from->dtype, from), b = best[e];
                takes = (smallest ? v < b : v > b) || (last && v == b) || (isnan(v) && (last || !isnan(b)));
                if (isnan(b) && !isnan(v)) takes = false;
                if (i == 0 || takes) best[e] = v;
            } else {
                int64_t v = mp_load_whole(t->from->data, t->from->dtype, from), b = whole[e];
                takes = (smallest ? v < b : v > b) || (last && v == b);
                if (i == 0 || takes) whole[e] = v;
            }
            if (i > 0 && takes) where[e] = i;
        }
    }
    int64_t *to = (int64_t *)t->to->data + l.to;
    for (int64_t e = 0; e < l.n; e++) to[e * l.to_step] = where[e];
}

/* The result with its axis there, of size 1. */
static mp_array with_axis(const mp_operands *x)
{
    bool reduced[MP_ARRAY_RANK] = {false};
    int64_t axis = mp_operator_int(x->op, "axis", 0);
    reduced[axis < 0 ? axis + x->in[0].rank : axis] = true;
    return mp_reduction_kept_dims(&x->out[0], x->in[0].rank, reduced);
}

static mp_status run_find(const mp_call *call, const mp_operands *x, mp_error *err)
{
    mp_array to = with_axis(x);
    task t = {call->state, &x->in[0], &to};
    (void)err;
    if (mp_array_elements(&to)) mp_parallel(t.s->n_groups, t.s->length * LINES, find_lines, &t);
    return MP_OK;
}

static mp_status prepare_arg(const mp_operands *x, mp_call *call, bool least, mp_error *err)
{
    int64_t axis = mp_operator_int(x->op, "axis", 0);
    if (!mp_elementwise_knows(x->in[0].dtype) || x->in[0].dtype == MP_DTYPE_UINT64) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].rank == 0) return MP_NO_KERNEL(x, err, "a single number");
    MP_STATE(scan, s, call, err);
    call->run = run_find;
    mp_array to = with_axis(x);
    describe(s, &x->in[0], &to, (int)(axis < 0 ? axis + x->in[0].rank : axis));
    s->flag[0] = least;
    s->flag[1] = mp_operator_int(x->op, "select_last_index", 0) != 0;
    return MP_OK;
}

static mp_status prepare_max(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_arg(x, call, false, err);
}

static mp_status prepare_min(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_arg(x, call, true, err);
}

const mp_kernel mp_cpu_scans[] = {
    {"ArgMax", "", prepare_max, NULL}, {"ArgMin", "", prepare_min, NULL}, {"CumSum", "", prepare_sum, prepare_sum}, {0}};
