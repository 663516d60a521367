/* reduction_cpu.c - how a reduction takes in floats, a row or some columns at a time; and which elements go where: dimensions
 * in the order of memory, groups of outputs, parts of long reductions. */
#include "executor/operators/reductions/reduction_cpu.h"

#include <math.h>
#include <string.h>

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/element.h"

enum { FEW_GROUPS = 64, PARTS = 64, PART_TERMS = 1 << 14 };

/* Rows of the table of steps: over n contiguous elements into one value, and over `rows` rows of n columns, `stride` apart,
 * into a value per column (acc[k] and shift[k] are column k's). */
typedef struct step_rows {
    double start; /* of what has taken in nothing */
    double (*run)(const float *x, int64_t n, double acc, double shift);
    void (*columns)(const float *x, int64_t rows, int64_t stride, int64_t n, double *acc, const double *shift);
    double (*join)(double a, double b); /* what two parts give together */
} step_rows;

/* NAME_run and NAME_columns from `take`, an expression of a (what was taken in so far), v (the element) and s (the shift), and
 * `join` of a and b. A row has sixteen values side by side, so that the operations can overlap. */
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

static void put_kept(mp_reduction *r, int64_t dim, int64_t from, int64_t to, int64_t shift)
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

static void put_reduced(mp_reduction *r, int64_t dim, int64_t stride)
{
    int last = r->n_reduced - 1;
    if (last >= 0 && r->reduced_stride[last] == stride * dim)
        r->reduced[last] *= dim;
    else
        r->reduced[last = r->n_reduced++] = dim;
    r->reduced_stride[last] = stride;
}

void mp_reduction_describe(mp_reduction *r, const mp_array *from, const mp_array *to, const mp_array *shift)
{
    int order[MP_ARRAY_RANK], n = mp_array_by_stride(from, order);
    *r = (mp_reduction){.n_out = mp_array_elements(to), .n_terms = 1};
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
    r->lanes = MP_REDUCTION_LANES;
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

/* One run. */
typedef struct task {
    const mp_reduction *r;
    const step_rows *step;
    mp_reduction_end end;
    const mp_array *from, *to, *shift;
    double *partial; /* parts x groups x lanes */
} task;

/* The outputs of a group: how many, and where the first one's terms, result and shift lie. */
typedef struct group {
    int64_t n, from, to, shift;
} group;

static group group_of(const mp_reduction *r, int64_t g)
{
    int inner = r->n_kept - 1;
    int64_t blocks = (r->kept[inner] + r->lanes - 1) / r->lanes, first = g % blocks * r->lanes, k = g / blocks;
    int64_t left = r->kept[inner] - first;
    group at = {left < r->lanes ? left : r->lanes, first * r->kept_stride[inner], first * r->to_stride[inner],
                first * r->shift_stride[inner]};
    at.from += mp_strided_place(inner, r->kept, r->kept_stride, k);
    at.to += mp_strided_place(inner, r->kept, r->to_stride, k);
    at.shift += mp_strided_place(inner, r->kept, r->shift_stride, k);
    return at;
}

static void read_shifts(const task *t, const group *at, double *shifts)
{
    int64_t stride = t->r->shift_stride[t->r->n_kept - 1];
    float room;
    for (int64_t l = 0; l < at->n; l++)
        shifts[l] = t->shift ? (double)*mp_floats(t->shift->data, t->shift->dtype, at->shift + l * stride, 1, &room) : 0;
}

/* Reduces rows [from, to) of a group of columns. Rows that lie at one distance are taken in one run of the inner loop. */
static void take_columns(const task *t, const group *at, int64_t from, int64_t to, double *acc, const double *shifts)
{
    const mp_reduction *r = t->r;
    float room[MP_REDUCTION_LANES];
    int inner = r->n_reduced - 1;
    int64_t stride = r->reduced_stride[inner];
    for (int64_t k = from, rows; k < to; k += rows) {
        rows = r->reduced[inner] - k % r->reduced[inner];
        if (rows > to - k) rows = to - k;
        int64_t place = at->from + mp_strided_place(r->n_reduced, r->reduced, r->reduced_stride, k);
        if (t->from->dtype == MP_DTYPE_FLOAT) {
            t->step->columns((const float *)t->from->data + place, rows, stride, at->n, acc, shifts);
            continue;
        }
        for (int64_t row = 0; row < rows; row++)
            t->step->columns(mp_floats(t->from->data, t->from->dtype, place + row * stride, at->n, room), 1, 0, at->n, acc,
                             shifts);
    }
}

/* Pieces [from, to) of each output of a group. */
static void take_pieces(const task *t, const group *at, int64_t from, int64_t to, double *acc, const double *shifts)
{
    const mp_reduction *r = t->r;
    float room[MP_BLOCK];
    int inner = r->n_reduced - 1;
    int64_t stride = r->reduced_stride[inner], length = r->reduced[inner], per_row = (length + r->run - 1) / r->run;
    for (int64_t l = 0; l < at->n; l++)
        for (int64_t k = from; k < to; k++) {
            int64_t first = k % per_row * r->run, n = length - first < r->run ? length - first : r->run;
            int64_t place = at->from + l * r->kept_stride[r->n_kept - 1] + first * stride +
                            mp_strided_place(inner, r->reduced, r->reduced_stride, k / per_row);
            const float *x = room;
            if (stride == 1)
                x = mp_floats(t->from->data, t->from->dtype, place, n, room);
            else
                for (int64_t e = 0; e < n; e++) {
                    float one;
                    room[e] = *mp_floats(t->from->data, t->from->dtype, place + e * stride, 1, &one);
                }
            acc[l] = t->step->run(x, n, acc[l], shifts[l]);
        }
}

static void finish(const task *t, const group *at, const double *acc, const double *shifts)
{
    int64_t stride = t->r->to_stride[t->r->n_kept - 1];
    for (int64_t l = 0; l < at->n; l++) {
        float value = (float)mp_reduction_finish(t->end, acc[l], shifts[l], t->r->n_terms);
        float *place = mp_floats_room(t->to->data, t->to->dtype, at->to + l * stride, &value);
        *place = value;
        mp_floats_done(t->to->data, t->to->dtype, at->to + l * stride, 1, &value);
    }
}

static void run_part(void *data, int64_t k)
{
    const task *t = data;
    const mp_reduction *r = t->r;
    double acc[MP_REDUCTION_LANES], shifts[MP_REDUCTION_LANES];
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
    const mp_reduction *r = t->r;
    double acc[MP_REDUCTION_LANES], shifts[MP_REDUCTION_LANES];
    group at = group_of(r, g);
    read_shifts(t, &at, shifts);
    for (int64_t l = 0; l < at.n; l++) acc[l] = t->step->start;
    for (int64_t part = 0; part < r->parts; part++)
        for (int64_t l = 0; l < at.n; l++) acc[l] = t->step->join(acc[l], t->partial[(part * r->n_groups + g) * r->lanes + l]);
    finish(t, &at, acc, shifts);
}

void mp_reduction_run(const mp_reduction *r, mp_reduction_step step, mp_reduction_end end, const mp_array *from,
                      const mp_array *to, const mp_array *shift, void *workspace)
{
    task t = {r, &steps[step], end, from, to, shift, workspace};
    int64_t width = r->kept[r->n_kept - 1] < r->lanes ? r->kept[r->n_kept - 1] : r->lanes;
    if (!r->n_out) return;
    mp_parallel(r->n_groups * r->parts, r->n_terms * width / r->parts + 1, run_part, &t);
    if (r->parts > 1) mp_parallel(r->n_groups, r->parts * width, join_parts, &t);
}
