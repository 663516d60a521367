/* reductions_cpu.c - Reduce operators on the CPU. Forward reduces an array of floats along any dimensions. Backward computes
 * the gradient of each element from the tensors that ops.def lists; gradient and result are broadcast to the reduced elements.
 * Integers are reduced one output at a time.
 *
 * Sums are doubles. The order of additions depends only on the shapes: a long reduction to few outputs is split into parts,
 * whose results are combined in order. The results are therefore bit-identical for every number of threads. */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/kernel/element.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/reductions/reduced.h"

enum { FEW_GROUPS = 64, PARTS = 64, PART_TERMS = 1 << 14, LANES_MOST = 128 };

/* The loops of a reduction: kept and reduced dimensions, outermost first, with the strides of the input, the results and the
 * shifts. A shift is a number per result that the accumulation uses, such as the largest element in ReduceLogSumExp. */
typedef struct reduction {
    int n_kept, n_reduced;
    int64_t kept[MP_ARRAY_RANK + 1], kept_stride[MP_ARRAY_RANK + 1], to_stride[MP_ARRAY_RANK + 1],
        shift_stride[MP_ARRAY_RANK + 1];
    int64_t reduced[MP_ARRAY_RANK + 1], reduced_stride[MP_ARRAY_RANK + 1];
    int64_t n_out, n_terms;
    int64_t n_counted; /* divisor of a mean: number of terms, including the terms that other ranks add to the sum */
    bool by_columns; /* true: the innermost dimension of the input is kept, so that adjacent elements belong to adjacent outputs
                      */
    int64_t lanes;   /* maximum number of outputs in a group. The outputs of a group are adjacent along the innermost kept
                        dimension and computed together */
    int64_t n_groups; /* number of groups of outputs */
    /* pieces: number of pieces into which the terms of each output are divided. If by_columns, a piece is one term; otherwise
     * it is up to `run` terms along the innermost dimension */
    int64_t run, pieces;
    /* number of parts into which the list of pieces is split, so that several threads can accumulate one group of outputs */
    int64_t parts;
    int64_t workspace_bytes;
} reduction;

/* The functions that accumulate elements. `run` combines n contiguous elements into one value. `columns` combines the rows of
 * a matrix with n columns and row stride `stride` into one value per column; acc[k] and shift[k] belong to column k. */
typedef struct step_rows {
    double start; /* initial value of an accumulator */
    double (*run)(const float *x, int64_t n, double acc, double shift);
    void (*columns)(const float *x, int64_t rows, int64_t stride, int64_t n, double *acc, const double *shift);
    double (*join)(double a, double b); /* combines two accumulators of the same output */
} step_rows;

/* Defines NAME_join, NAME_run and NAME_columns from a row of reductions.def. NAME_run accumulates into sixteen lanes, so that
 * their operations overlap. */
#define STEP(NAME, name, start, take, joined)                                                                  \
    static inline double name##_join(double a, double b)                                                       \
    {                                                                                                          \
        return joined;                                                                                         \
    }                                                                                                          \
    MP_VECTOR static double name##_run(const float *x, int64_t n, double acc, double s)                        \
    {                                                                                                          \
        enum { LANES = 16 };                                                                                   \
        double lanes[LANES];                                                                                   \
        int64_t k = 0;                                                                                         \
        (void)s;                                                                                               \
        for (int l = 0; l < LANES; l++) lanes[l] = start;                                                      \
        for (; k + LANES <= n; k += LANES)                                                                     \
            for (int l = 0; l < LANES; l++) {                                                                  \
                const double a = lanes[l], v = (double)x[k + l];                                               \
                lanes[l] = take;                                                                               \
            }                                                                                                  \
        for (int l = 0; k + l < n; l++) {                                                                      \
            const double a = lanes[l], v = (double)x[k + l];                                                   \
            lanes[l] = take;                                                                                   \
        }                                                                                                      \
        for (int l = 0; l < LANES && l < n; l++) acc = name##_join(acc, lanes[l]);                             \
        return acc;                                                                                            \
    }                                                                                                          \
    MP_VECTOR static void name##_columns(const float *x, int64_t rows, int64_t stride, int64_t n, double *acc, \
                                         const double *shift)                                                  \
    {                                                                                                          \
        for (int64_t r = 0; r < rows; r++, x += stride) MP_INDEPENDENT for (int64_t l = 0; l < n; l++)         \
            {                                                                                                  \
                const double a = acc[l], v = (double)x[l], s = shift[l];                                       \
                (void)s;                                                                                       \
                acc[l] = take;                                                                                 \
            }                                                                                                  \
    }

#include "executor/operators/reductions/reductions.def"

#define STEP(NAME, name, start, take, joined) [MP_STEP_##NAME] = {start, name##_run, name##_columns, name##_join},
static const step_rows steps[MP_N_STEPS] = {
#include "executor/operators/reductions/reductions.def"
};

static void put_kept(reduction *r, int64_t dim, int64_t from, int64_t to, int64_t shift)
{
    int last = r->n_kept - 1;
    if (last >= 0 && r->kept_stride[last] == from * dim && r->to_stride[last] == to * dim &&
        r->shift_stride[last] == shift * dim)
        r->kept[last] *= dim;
    else
        r->kept[last = r->n_kept++] = dim;
    r->kept_stride[last] = from;
    r->to_stride[last] = to;
    r->shift_stride[last] = shift;
}

static void put_reduced(reduction *r, int64_t dim, int64_t stride)
{
    int last = r->n_reduced - 1;
    if (last >= 0 && r->reduced_stride[last] == stride * dim)
        r->reduced[last] *= dim;
    else
        r->reduced[last = r->n_reduced++] = dim;
    r->reduced_stride[last] = stride;
}

/* Describes the reduction of `from` to `to`, which has the same rank, and size 1 in the reduced dimensions. `shift` (NULL:
 * none) has the shape of `to`, possibly in another layout. */
static void describe(reduction *r, const mp_array *from, const mp_array *to, const mp_array *shift)
{
    int order[MP_ARRAY_RANK], n = mp_array_by_stride(from, order);
    *r = (reduction){.n_out = mp_array_elements(to), .n_terms = 1, .n_counted = 1};
    for (int i = 0; i < n; i++) {
        int d = order[i];
        if (to->dims[d] == 1) {
            put_reduced(r, from->dims[d], from->strides[d]);
            r->n_terms *= from->dims[d];
        } else {
            put_kept(r, from->dims[d], from->strides[d], to->strides[d], shift ? shift->strides[d] : 0);
        }
    }
    if (!r->n_kept) put_kept(r, 1, 0, 0, 0);
    if (!r->n_reduced) put_reduced(r, 1, 0);
    int64_t inner = r->kept[r->n_kept - 1], run = r->reduced[r->n_reduced - 1];
    r->by_columns = r->kept_stride[r->n_kept - 1] == 1;
    r->run = r->by_columns || run == 0 ? 1 : run < MP_BLOCK ? run : MP_BLOCK;
    r->pieces = r->by_columns || run == 0 ? r->n_terms : r->n_terms / run * ((run + r->run - 1) / r->run);
    r->lanes = LANES_MOST;
    if (!r->by_columns && r->n_terms * r->lanes > PART_TERMS) r->lanes = r->n_terms < PART_TERMS ? PART_TERMS / r->n_terms : 1;
    r->n_groups = inner ? r->n_out / inner * ((inner + r->lanes - 1) / r->lanes) : 0;
    r->parts = 1;
    if (r->n_groups < FEW_GROUPS) {
        int64_t width = inner < r->lanes ? inner : r->lanes;
        r->parts = r->n_terms * width / PART_TERMS;
        if (r->parts > PARTS) r->parts = PARTS;
        if (r->parts > r->pieces) r->parts = r->pieces;
        if (r->parts < 1) r->parts = 1;
    }
    if (r->parts > 1) r->workspace_bytes = r->parts * r->n_groups * r->lanes * (int64_t)sizeof(double);
}

/* The data of one call of reduce(), which all threads use. */
typedef struct task {
    const reduction *r;
    const step_rows *step;
    mp_reduction_end end;
    const mp_array *from, *to, *shift;
    double *partial; /* accumulators in the workspace: parts x groups x lanes */
} task;

/* A group of adjacent outputs: their number, and the offsets of the first output's terms, result and shift. */
typedef struct group {
    int64_t n, from, to, shift;
} group;

static group group_of(const reduction *r, int64_t g)
{
    int inner = r->n_kept - 1;
    int64_t blocks = (r->kept[inner] + r->lanes - 1) / r->lanes, first = g % blocks * r->lanes, k = g / blocks;
    int64_t left = r->kept[inner] - first;
    group at = {left < r->lanes ? left : r->lanes, first * r->kept_stride[inner], first * r->to_stride[inner],
                first * r->shift_stride[inner]};
    at.from += mp_strided_offset(inner, r->kept, r->kept_stride, k);
    at.to += mp_strided_offset(inner, r->kept, r->to_stride, k);
    at.shift += mp_strided_offset(inner, r->kept, r->shift_stride, k);
    return at;
}

static void read_shifts(const task *t, const group *at, double *shifts)
{
    int64_t stride = t->r->shift_stride[t->r->n_kept - 1];
    for (int64_t l = 0; l < at->n; l++)
        shifts[l] = t->shift ? (double)mp_load_float(t->shift->data, t->shift->dtype, at->shift + l * stride) : 0;
}

/* Accumulates the terms [from, to) of all outputs of a group, whose terms are adjacent (columns). Consecutive rows with a
 * constant stride are processed in one call. */
static void take_columns(const task *t, const group *at, int64_t from, int64_t to, double *acc, const double *shifts)
{
    const reduction *r = t->r;
    float room[LANES_MOST];
    int inner = r->n_reduced - 1;
    int64_t stride = r->reduced_stride[inner];
    for (int64_t k = from, rows; k < to; k += rows) {
        rows = r->reduced[inner] - k % r->reduced[inner];
        if (rows > to - k) rows = to - k;
        int64_t place = at->from + mp_strided_offset(r->n_reduced, r->reduced, r->reduced_stride, k);
        if (t->from->dtype == MP_DTYPE_FLOAT) {
            t->step->columns((const float *)t->from->data + place, rows, stride, at->n, acc, shifts);
            continue;
        }
        for (int64_t row = 0; row < rows; row++)
            t->step->columns(mp_floats(t->from->data, t->from->dtype, place + row * stride, at->n, room), 1, 0, at->n, acc,
                             shifts);
    }
}

/* Accumulates the pieces [from, to) of each output of a group. A piece is a range of the output's terms. */
static void take_pieces(const task *t, const group *at, int64_t from, int64_t to, double *acc, const double *shifts)
{
    const reduction *r = t->r;
    float room[MP_BLOCK];
    int inner = r->n_reduced - 1;
    int64_t stride = r->reduced_stride[inner], length = r->reduced[inner], per_row = (length + r->run - 1) / r->run;
    for (int64_t l = 0; l < at->n; l++)
        for (int64_t k = from; k < to; k++) {
            int64_t first = k % per_row * r->run, n = length - first < r->run ? length - first : r->run;
            int64_t place = at->from + l * r->kept_stride[r->n_kept - 1] + first * stride +
                            mp_strided_offset(inner, r->reduced, r->reduced_stride, k / per_row);
            acc[l] = t->step->run(mp_floats_apart(t->from->data, t->from->dtype, place, stride, n, room), n, acc[l], shifts[l]);
        }
}

static void finish(const task *t, const group *at, const double *acc, const double *shifts)
{
    int64_t stride = t->r->to_stride[t->r->n_kept - 1];
    for (int64_t l = 0; l < at->n; l++)
        mp_store_float(t->to->data, t->to->dtype, at->to + l * stride,
                       (float)mp_reduction_finish(t->end, acc[l], shifts[l], t->r->n_counted));
}

static void run_part(void *data, int64_t k)
{
    const task *t = data;
    const reduction *r = t->r;
    double acc[LANES_MOST], shifts[LANES_MOST];
    group at = group_of(r, k % r->n_groups);
    int64_t part = k / r->n_groups, from = r->pieces * part / r->parts, to = r->pieces * (part + 1) / r->parts;
    read_shifts(t, &at, shifts);
    for (int64_t l = 0; l < at.n; l++) acc[l] = t->step->start;
    if (r->by_columns)
        take_columns(t, &at, from, to, acc, shifts);
    else
        take_pieces(t, &at, from, to, acc, shifts);
    if (r->parts == 1)
        finish(t, &at, acc, shifts);
    else
        memcpy(t->partial + k * r->lanes, acc, (size_t)at.n * sizeof *acc);
}

static void join_parts(void *data, int64_t g)
{
    const task *t = data;
    const reduction *r = t->r;
    double acc[LANES_MOST], shifts[LANES_MOST];
    group at = group_of(r, g);
    read_shifts(t, &at, shifts);
    for (int64_t l = 0; l < at.n; l++) acc[l] = t->step->start;
    for (int64_t part = 0; part < r->parts; part++)
        for (int64_t l = 0; l < at.n; l++) acc[l] = t->step->join(acc[l], t->partial[(part * r->n_groups + g) * r->lanes + l]);
    finish(t, &at, acc, shifts);
}

/* Runs a reduction from `from` to `to`, whose layouts are described by r. `to` and `shift` may be the same array; the
 * workspace has r->workspace_bytes bytes. */
static void reduce(const reduction *r, mp_reduction_step step, mp_reduction_end end, const mp_array *from, const mp_array *to,
                   const mp_array *shift, void *workspace)
{
    task t = {r, &steps[step], end, from, to, shift, workspace};
    int64_t width = r->kept[r->n_kept - 1] < r->lanes ? r->kept[r->n_kept - 1] : r->lanes;
    if (!r->n_out) return;
    mp_parallel(r->n_groups * r->parts, r->n_terms * width / r->parts + 1, run_part, &t);
    if (r->parts > 1) mp_parallel(r->n_groups, r->parts * width, join_parts, &t);
}

/* ---- the operators. */

/* Computes the gradients of elements from in[0] = dy, in[1] = x, in[2] = y and in[3] = zeros; a slope uses some of them. p[0]:
 * number of reduced elements per output; p[1]: number of operands, 3 or 4. */
#define SLOPE(name, f)                                                                                    \
    MP_VECTOR static void d_##name(const double *p, int64_t elements, const float *const *in, float *out) \
    {                                                                                                     \
        const float *dys = in[0], *xs = in[1], *ys = in[2], *all_zeros = in[p[1] > 3 ? 3 : 0];            \
        const float count = (float)p[0];                                                                  \
        (void)count;                                                                                      \
        MP_INDEPENDENT for (int64_t k = 0; k < elements; k++)                                             \
        {                                                                                                 \
            const float dy = dys[k], x = xs[k], y = ys[k], zeros = all_zeros[k];                          \
            (void)x, (void)y, (void)zeros;                                                                \
            out[k] = f;                                                                                   \
        }                                                                                                 \
    }
#include "executor/operators/reductions/reductions.def"

#define SLOPE(name, f) [MP_SLOPE_##name] = d_##name,
static const mp_row slopes[] = {
#include "executor/operators/reductions/reductions.def"
};

MP_VECTOR static void divide(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *as = in[0], *bs = in[1];
    (void)p;
    MP_INDEPENDENT for (int64_t k = 0; k < n; k++) out[k] = as[k] / bs[k];
}

typedef struct state {
    const mp_reduction_row *row;
    bool reduced[MP_ARRAY_RANK];
    reduction reduction;
    mp_array spread[2]; /* arrays in the workspace with one value per output: dy / number of elements equal to the output; or
                           the product of the nonzero elements, and the number of zeros */
    double parameters[2];
} state;

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    (void)err;
    if (s->row->shifted) reduce(&s->reduction, MP_STEP_MAX, MP_END_none, &x->in[0], &y, NULL, x->workspace);
    reduce(&s->reduction, s->row->step, s->row->end, &x->in[0], &y, s->row->shifted ? &y : NULL, x->workspace);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    int rank = x->in[0].rank;
    mp_array dy = mp_reduction_kept_dims(&x->d_out[0], rank, s->reduced), spread[2] = {s->spread[0], s->spread[1]};
    mp_array y = mp_reduction_kept_dims(&x->out[0], rank, s->reduced);
    const mp_array *in[4] = {&dy, &dy, &dy, &dy};
    void *partial = (char *)x->workspace + 2 * mp_array_bytes(&spread[0]);
    (void)err;
    spread[0].data = x->workspace;
    spread[1].data = (char *)x->workspace + mp_array_bytes(&spread[0]);
    if (s->row->reads == MP_READS_OUTPUT) in[1] = &y;
    if (s->row->reads >= MP_READS_INPUT && s->row->reads != MP_READS_OUTPUT) in[1] = &x->in[0];
    if (s->row->reads == MP_READS_BOTH || s->row->reads == MP_READS_TIES) in[2] = &y;
    if (s->row->reads == MP_READS_TIES) {
        reduce(&s->reduction, MP_STEP_EQUALS, MP_END_none, &x->in[0], &spread[0], &y, partial);
        mp_elementwise(divide, s->parameters, (const mp_array *const[]){&dy, &spread[0]}, 2, &spread[0]);
        in[0] = &spread[0];
    } else if (s->row->reads == MP_READS_ZEROS) {
        reduce(&s->reduction, MP_STEP_NONZEROS, MP_END_none, &x->in[0], &spread[0], NULL, partial);
        reduce(&s->reduction, MP_STEP_ZEROS, MP_END_none, &x->in[0], &spread[1], NULL, partial);
        in[2] = &spread[0];
        in[3] = &spread[1];
    }
    mp_elementwise(slopes[s->row->slope], s->parameters, in, (int)s->parameters[1], &x->d_in[0]);
    return MP_OK;
}

/* A reduction of integers or booleans, exact modulo 2^64; means are truncated. */
typedef struct whole_task {
    const state *s;
    const mp_operands *x;
} whole_task;

static void reduce_one(void *data, int64_t k)
{
    const whole_task *t = data;
    const reduction *r = &t->s->reduction;
    const mp_array *in = &t->x->in[0], *out = &t->x->out[0];
    bool is_unsigned = in->dtype == MP_DTYPE_UINT64, extreme = t->s->row->step == MP_STEP_MAX || t->s->row->step == MP_STEP_MIN;
    const int64_t from = mp_strided_offset(r->n_kept, r->kept, r->kept_stride, k),
                  to = mp_strided_offset(r->n_kept, r->kept, r->to_stride, k);
    uint64_t result = t->s->row->step == MP_STEP_PRODUCT;
    for (int64_t e = 0; e < r->n_terms; e++) {
        int64_t v =
            mp_load_whole(in->data, in->dtype, from + mp_strided_offset(r->n_reduced, r->reduced, r->reduced_stride, e));
        result = extreme && e == 0 ? (uint64_t)v : mp_take_whole(t->s->row->step, is_unsigned, result, v);
    }
    int64_t value = (int64_t)result;
    if (t->s->row->end == MP_END_mean) value = is_unsigned ? (int64_t)(result / (uint64_t)r->n_terms) : value / r->n_terms;
    mp_store_whole(out->data, out->dtype, to, value);
}

static mp_status run_whole(const mp_call *call, const mp_operands *x, mp_error *err)
{
    whole_task t = {call->state, x};
    (void)err;
    mp_parallel(t.s->reduction.n_out, t.s->reduction.n_terms, reduce_one, &t);
    return MP_OK;
}

static mp_status prepare_whole(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_reduction_row *found = mp_reduction_row_of(x->op);
    mp_dtype dtype = x->in[0].dtype;
    if (x->is_backward || !mp_reduction_takes_whole(found) || !mp_elementwise_knows(dtype) || mp_dtype_is_float(dtype))
        return MP_NO_KERNEL(x, err, "its type");
    state *s;
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_whole;
    s->row = found;
    MP_CHECK(mp_reduced_dims(x, s->reduced, err));
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    describe(&s->reduction, &x->in[0], &y, NULL);
    if (s->reduction.n_terms == 0 && s->reduction.n_out > 0) return MP_NO_KERNEL(x, err, "reducing nothing");
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_is_real(x->in[0].dtype)) return prepare_whole(x, call, err);
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->row = mp_reduction_row_of(x->op);
    MP_CHECK(mp_reduced_dims(x, s->reduced, err));
    bool none = x->in[0].rank > 0, shares = s->row->reads == MP_READS_TIES || s->row->reads == MP_READS_ZEROS;
    for (int d = 0; d < x->in[0].rank; d++) none = none && !s->reduced[d];
    if (none && !s->row->is_plain) return MP_NO_KERNEL(x, err, "reducing no dimension");
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced), to = y;
    if (x->is_backward && shares) {
        to = mp_array_plain(MP_DTYPE_FLOAT, y.rank, y.dims);
        s->spread[0] = s->spread[1] = to;
        call->workspace_bytes = 2 * mp_array_bytes(&to);
    }
    describe(&s->reduction, &x->in[0], &to, x->is_backward && !shares ? NULL : &y);
    const mp_tensor_part *part = x->model->tensors[x->op->in[0]].part;
    s->reduction.n_counted = s->reduction.n_terms * (part && s->reduced[part->dim] ? part->ranks : 1);
    if (!x->is_backward || shares) call->workspace_bytes += s->reduction.workspace_bytes;
    s->parameters[0] = (double)s->reduction.n_counted;
    s->parameters[1] = s->row->reads == MP_READS_ZEROS ? 4 : 3;
    return MP_OK;
}

#define REDUCTION(kind, step, end, shifted, is_plain, slope, reads) {#kind, "", prepare, prepare},
const mp_kernel mp_cpu_reductions[] = {
#include "executor/operators/reductions/reductions.def"
    {0},
};
