/* batch_normalization_cpu.c - batch normalization on the CPU: with the batch's statistics in training, with the running ones in
 * evaluation.
 *
 * With the attribute "ranks", statistics cover the samples of that many ranks (estimator/parallel/statistics.h). Each rank sums
 * its own samples, the ranks exchange their sums, and every rank joins them in the order of the ranks.
 *
 * Running statistics are updated once per pass, at the node's first run: running = momentum running + (1 - momentum) batch,
 * with the population variance, as ONNX defines it. PyTorch uses the unbiased variance. */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/normalizations/normalize_cpu.h"

/* ---- channels innermost: sums over each column, first within stretches of rows, then over the stretches in order; then one
 * pass over all rows. */

enum { STRETCHES = 64, LEAST_ROWS = 256, FLUSH = 64 };

/* The input as a matrix (rows, channels) in memory, with contiguous channels. A stretch is a range of rows that one thread
 * sums. */
typedef struct batch_columns {
    int64_t rows, channels, rows_per_stretch, n_stretches;
} batch_columns;

/* Describes x as a matrix of rows and channels. Returns false if the channels of x are not innermost. */
static bool columns_of(const mp_array *x, batch_columns *out)
{
    if (x->rank < 2 || x->packed) return false;
    mp_array like = x->rank > 2 ? mp_array_channels_last(x->dtype, x->rank, x->dims) : mp_array_plain(x->dtype, 2, x->dims);
    if (!mp_array_same_layout(x, &like)) return false;
    batch_columns c = {.channels = x->dims[1]};
    c.rows = c.channels ? mp_array_elements(x) / c.channels : 0;
    c.rows_per_stretch = (c.rows + STRETCHES - 1) / STRETCHES;
    if (c.rows_per_stretch < LEAST_ROWS) c.rows_per_stretch = LEAST_ROWS;
    c.n_stretches = (c.rows + c.rows_per_stretch - 1) / c.rows_per_stretch;
    *out = c;
    return c.channels > 0 && c.rows > 0;
}

/* Returns the workspace bytes of a stretch of rows: two double and two float sums per channel. The workspace holds the sums of
 * all stretches, then four rows of one float per channel. */
static int64_t stretch_bytes(const batch_columns *c)
{
    return c->channels * 24;
}

static int64_t columns_workspace_bytes(const batch_columns *c)
{
    return c->n_stretches * stretch_bytes(c) + 4 * c->channels * (int64_t)sizeof(float) +
           2 * c->channels * (int64_t)sizeof(double);
}

/* Computes two sums over each column: of u, and of u (v - shift). If u is NULL, u is v - shift. */
typedef struct pair_job {
    const batch_columns *c;
    const void *u, *v;
    mp_dtype dtype;
    const float *shift;
    char *workspace;
} pair_job;

MP_VECTOR static void add_pair(const float *u, const float *v, const float *shift, int64_t n, float *first, float *second)
{
    for (int64_t k = 0; k < n; k++) {
        first[k] += u[k];
        second[k] += u[k] * (v[k] - shift[k]);
    }
}

MP_VECTOR static void add_squares(const float *v, const float *shift, int64_t n, float *first, float *second)
{
    for (int64_t k = 0; k < n; k++) {
        float d = v[k] - shift[k];
        first[k] += d;
        second[k] += d * d;
    }
}

MP_VECTOR static void flush(float *first, int64_t n, double *total)
{
    for (int64_t k = 0; k < n; k++) {
        total[k] += (double)first[k];
        first[k] = 0;
    }
}

static void pair_stretch(void *data, int64_t s)
{
    const pair_job *j = data;
    const batch_columns *c = j->c;
    int64_t n = c->channels;
    float u_room[MP_BLOCK], v_room[MP_BLOCK];
    double *totals = (double *)(j->workspace + s * stretch_bytes(c));
    float *sums = (float *)(totals + 2 * n);
    memset(totals, 0, (size_t)stretch_bytes(c));
    int64_t last = (s + 1) * c->rows_per_stretch < c->rows ? (s + 1) * c->rows_per_stretch : c->rows;
    for (int64_t r = s * c->rows_per_stretch; r < last; r++) {
        for (int64_t k = 0; k < n; k += MP_BLOCK) {
            int64_t m = n - k < MP_BLOCK ? n - k : MP_BLOCK;
            const float *v = mp_floats(j->v, j->dtype, r * n + k, m, v_room);
            if (j->u)
                add_pair(mp_floats(j->u, j->dtype, r * n + k, m, u_room), v, j->shift + k, m, sums + k, sums + n + k);
            else
                add_squares(v, j->shift + k, m, sums + k, sums + n + k);
        }
        if (r % FLUSH == FLUSH - 1 || r == last - 1) flush(sums, 2 * n, totals);
    }
}

/* Adds the sums of all stretches of rows in order. The total overwrites the sums of the first stretch, which are returned. */
static double *pair_sums(const batch_columns *c, const void *u, const void *v, mp_dtype dtype, const float *shift,
                         void *workspace)
{
    pair_job j = {c, u, v, dtype, shift, workspace};
    mp_parallel(c->n_stretches, c->rows_per_stretch * c->channels, pair_stretch, &j);
    double *total = workspace;
    for (int64_t s = 1; s < c->n_stretches; s++) {
        const double *more = (const double *)((const char *)workspace + s * stretch_bytes(c));
        for (int64_t k = 0; k < 2 * c->channels; k++) total[k] += more[k];
    }
    return total;
}

static float *factors(const batch_columns *c, void *workspace)
{
    return (float *)((char *)workspace + c->n_stretches * stretch_bytes(c));
}

static float parameter(const mp_array *p, int64_t k, float otherwise)
{
    return p && p->data ? mp_load_float(p->data, p->dtype, k) : otherwise;
}

/* The ranks that share the statistics of a batch, and the memory for their sums: two rows of doubles (one per channel) per
 * rank. */
typedef struct sharing {
    const mp_kernel_group *group; /* the ranks that share statistics; NULL: statistics cover this rank's samples only */
    double *all;
} sharing;

static int sharers(const sharing *s)
{
    return s->group ? s->group->n : 1;
}

/* Sends this rank's two rows of sums to all ranks that share statistics, and receives theirs. */
static mp_status give(const batch_columns *c, const sharing *s, const double *own, mp_error *err)
{
    const int64_t n = 2 * c->channels, bytes = n * (int64_t)sizeof *own;
    double *place = s->all + s->group->index * n;
    memcpy(place, own, (size_t)bytes);
    return s->group->gather(s->group, place, bytes, s->all, err);
}

/* Replaces means and variances by the statistics over all ranks, which have equal numbers of rows. */
static mp_status join_moments(const batch_columns *c, const sharing *s, double *moments, mp_error *err)
{
    const int64_t n = c->channels;
    MP_CHECK(give(c, s, moments, err));
    memset(moments, 0, 2 * (size_t)n * sizeof *moments);
    for (int r = 0; r < s->group->n; r++)
        for (int64_t k = 0; k < n; k++) moments[k] += s->all[2 * r * n + k] / s->group->n;
    for (int r = 0; r < s->group->n; r++)
        for (int64_t k = 0; k < n; k++) {
            const double off = s->all[2 * r * n + k] - moments[k];
            moments[n + k] += (s->all[(2 * r + 1) * n + k] + off * off) / s->group->n;
        }
    return MP_OK;
}

/* Replaces this rank's sums over its samples by the sums over the samples of all ranks that share statistics. */
static mp_status join_sums(const batch_columns *c, const sharing *s, double *sums, mp_error *err)
{
    MP_CHECK(give(c, s, sums, err));
    memset(sums, 0, 2 * (size_t)c->channels * sizeof *sums);
    for (int r = 0; r < s->group->n; r++)
        for (int64_t k = 0; k < 2 * c->channels; k++) sums[k] += s->all[2 * r * c->channels + k];
    return MP_OK;
}

/* Computes mean and 1 / sqrt(variance + epsilon) of every channel. */
static mp_status measure_columns(const batch_columns *c, const sharing *s, const mp_array *x, double epsilon, float *mean,
                                 float *rstd, void *workspace, mp_error *err)
{
    const int64_t n = c->channels;
    float *shift = factors(c, workspace);
    /* subtracts the first row from all rows. The first row is close to the mean, so the sums of squares keep their precision */
    for (int64_t k = 0; k < n; k++) shift[k] = *mp_floats(x->data, x->dtype, k, 1, &shift[k]);
    double *sums = pair_sums(c, NULL, x->data, x->dtype, shift, workspace);
    for (int64_t k = 0; k < n; k++) {
        const double d = sums[k] / (double)c->rows, variance = sums[n + k] / (double)c->rows - d * d;
        sums[k] = (double)shift[k] + d;
        sums[n + k] = variance > 0 ? variance : 0;
    }
    if (s->group) MP_CHECK(join_moments(c, s, sums, err));
    for (int64_t k = 0; k < n; k++) {
        mean[k] = (float)sums[k];
        rstd[k] = (float)(1 / sqrt(sums[n + k] + epsilon));
    }
    return MP_OK;
}

/* Describes a row of values, one per channel, as an operand that is broadcast along all other dimensions of x. */
static mp_array row_of(const mp_array *x, float *values)
{
    int64_t dims[MP_ARRAY_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = d == 1 ? x->dims[1] : 1;
    mp_array a = mp_array_plain(MP_DTYPE_FLOAT, x->rank, dims);
    a.data = values;
    return a;
}

MP_VECTOR static void affine(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *x = in[0], *a = in[1], *b = in[2];
    (void)p;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = x[k] * a[k] + b[k];
}

MP_VECTOR static void affine_of_two(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *dy = in[0], *v = in[1], *a = in[2], *b = in[3], *d = in[4];
    (void)p;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = dy[k] * a[k] + (v[k] * b[k] + d[k]);
}

/* Computes y = scale (x - mean) rstd + shift; scale and shift have the type of x or are floats. */
static void apply_columns(const batch_columns *c, const mp_array *x, const mp_array *scale, const mp_array *shift,
                          const float *mean, const float *rstd, const mp_array *y, void *workspace)
{
    float *a = factors(c, workspace), *b = a + c->channels;
    for (int64_t k = 0; k < c->channels; k++) {
        a[k] = parameter(scale, k, 1) * rstd[k];
        b[k] = parameter(shift, k, 0) - mean[k] * a[k];
    }
    mp_array a_row = row_of(x, a), b_row = row_of(x, b);
    const mp_array *in[] = {x, &a_row, &b_row};
    mp_elementwise(affine, NULL, in, 3, y);
}

/* Returns the number by which v - center is multiplied to give the normalized input: rstd if v is the input, 1 / scale if v is
 * the output. */
static double unit_of(bool from_output, const mp_array *scale, const float *rstd, int64_t k)
{
    return from_output ? 1 / (double)parameter(scale, k, 1) : (double)rstd[k];
}

/* Computes dx, d_scale and d_shift (`channels` floats each); NULL: not requested. `v` is x, or, with from_output, y. The
 * gradients of scale and shift cover this rank's samples only. */
static mp_status backward_columns(const batch_columns *c, const sharing *s, const mp_array *v, bool from_output,
                                  const mp_array *dy, const mp_array *scale, const mp_array *shift, const float *mean,
                                  const float *rstd, const mp_array *dx, float *d_scale, float *d_shift, void *workspace,
                                  mp_error *err)
{
    int64_t n = c->channels;
    float *a = factors(c, workspace), *b = a + n, *d = b + n, *center = d + n;
    for (int64_t k = 0; k < n; k++) center[k] = from_output ? parameter(shift, k, 0) : mean[k];
    double *sums = pair_sums(c, dy->data, v->data, v->dtype, center, workspace);
    const double m = (double)c->rows * sharers(s);
    for (int64_t k = 0; k < n; k++) {
        d_scale[k] = (float)(sums[n + k] * unit_of(from_output, scale, rstd, k));
        d_shift[k] = (float)sums[k];
    }
    if (!dx) return MP_OK;
    if (s->group) MP_CHECK(join_sums(c, s, sums, err));
    for (int64_t k = 0; k < n; k++) {
        const double unit = unit_of(from_output, scale, rstd, k), products = sums[n + k] * unit;
        a[k] = parameter(scale, k, 1) * rstd[k];
        b[k] = (float)(-(double)a[k] * products / m * unit);
        d[k] = (float)(-(double)a[k] * sums[k] / m - (double)b[k] * (double)center[k]);
    }
    mp_array a_row = row_of(v, a), b_row = row_of(v, b), d_row = row_of(v, d);
    const mp_array *in[] = {dy, v, &a_row, &b_row, &d_row};
    mp_elementwise(affine_of_two, NULL, in, 5, dx);
    return MP_OK;
}

/* ---- calls for tensors of any layout. */

typedef struct state {
    /* by_columns: true if channels are innermost; from_batch: true if the statistics of the batch are used */
    bool by_columns, from_batch;
    batch_columns columns;
    mp_normalization rows;
    double epsilon, momentum;
    int64_t channels,
        /* statistics_at: offset in the workspace of mean and rstd, if forward does not save them for backward (as extra
         * outputs) */
        statistics_at;
    int64_t ranks,
        /* ranks: number of ranks whose samples the statistics cover; shared_at: workspace offset of these ranks' sums */
        shared_at;
} state;

static sharing sharing_of(const state *s, const mp_operands *x)
{
    const mp_kernel_group *group = s->ranks > 1 ? x->run.samples : NULL;
    return (sharing){group, (double *)((char *)x->workspace + s->shared_at)};
}

static bool learns(const mp_operands *x)
{
    if (x->mode != MP_MODE_AS_WRITTEN) return x->mode == MP_MODE_TRAIN;
    return x->op->version >= 14 && mp_operator_int(x->op, "training_mode", 0);
}

static float *statistic(const mp_call *call, const mp_operands *x, int k)
{
    const state *s = call->state;
    if (x->extra[k].data) return x->extra[k].data;
    return (float *)((char *)x->workspace + s->statistics_at) + k * s->channels;
}

/* Updates the running statistics in place, and writes them to the requested outputs. */
static void move_statistics(const state *s, const mp_operands *x, const float *mean, const float *rstd)
{
    for (int which = 0; which < 2; which++) {
        const mp_array *old = &x->in[3 + which], *out = x->n_out > 1 + which ? &x->out[1 + which] : NULL;
        bool in_place = x->mode == MP_MODE_TRAIN && x->run.first_run && old->data;
        if (!old->data || (!in_place && !(out && out->data))) continue;
        for (int64_t k = 0; k < s->channels; k++) {
            double batch = which ? 1 / ((double)rstd[k] * (double)rstd[k]) - s->epsilon : (double)mean[k];
            if (which && batch < 0) batch = 0;
            float moved = (float)((double)mp_load_float(old->data, old->dtype, k) * s->momentum + batch * (1 - s->momentum));
            if (out && out->data) mp_store_float(out->data, out->dtype, k, moved);
            if (in_place) mp_store_float(old->data, old->dtype, k, moved);
        }
    }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const sharing shared = sharing_of(s, x);
    float *mean = statistic(call, x, 0), *rstd = statistic(call, x, 1);
    if (!s->from_batch)
        for (int64_t k = 0; k < s->channels; k++) {
            mean[k] = mp_load_float(x->in[3].data, x->in[3].dtype, k);
            rstd[k] = (float)(1 / sqrt((double)mp_load_float(x->in[4].data, x->in[4].dtype, k) + s->epsilon));
        }
    if (s->by_columns) {
        if (s->from_batch)
            MP_CHECK(measure_columns(&s->columns, &shared, &x->in[0], s->epsilon, mean, rstd, x->workspace, err));
        apply_columns(&s->columns, &x->in[0], &x->in[1], &x->in[2], mean, rstd, &x->out[0], x->workspace);
    } else {
        mp_normalize_data d = {.dtype = x->in[0].dtype,
                               .parameter_dtype = x->in[1].dtype,
                               .x = x->in[0].data,
                               .scale = x->in[1].data,
                               .shift = x->in[2].data,
                               .out = x->out[0].data,
                               .mean = mean,
                               .rstd = rstd};
        if (s->from_batch)
            mp_normalize_forward(&s->rows, &d);
        else
            mp_normalize_apply(&s->rows, &d);
    }
    if (s->from_batch) move_statistics(s, x, mean, rstd);
    return MP_OK;
}

static void put_gradient(const mp_operands *x, const mp_call *call, int i, const float *values, int64_t n)
{
    const mp_array *d = &x->d_in[i];
    if (!d->dtype) return;
    for (int64_t k = 0; k < n; k++)
        mp_store_float(d->data, d->dtype, k,
                       values[k] + (x->adds & call->adds & MP_BIT(i) ? mp_load_float(d->data, d->dtype, k) : 0));
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    bool from_output = x->alternative == 1;
    const mp_array *v = from_output ? &x->out[0] : &x->in[0], *dx = x->d_in[0].dtype ? &x->d_in[0] : NULL;
    const sharing shared = sharing_of(s, x);
    float *mean = x->extra[0].data, *rstd = x->extra[1].data;
    if (s->by_columns) {
        float *d_scale = (float *)((char *)x->workspace + s->statistics_at), *d_shift = d_scale + s->channels;
        MP_CHECK(backward_columns(&s->columns, &shared, v, from_output, &x->d_out[0], &x->in[1], &x->in[2], mean, rstd, dx,
                                  d_scale, d_shift, x->workspace, err));
        put_gradient(x, call, 1, d_scale, s->channels);
        put_gradient(x, call, 2, d_shift, s->channels);
        return MP_OK;
    }
    mp_normalize_data d = {.dtype = x->in[0].dtype,
                           .parameter_dtype = x->in[1].dtype,
                           .x = from_output ? NULL : v->data,
                           .y = from_output ? v->data : NULL,
                           .dy = x->d_out[0].data,
                           .scale = x->in[1].data,
                           .shift = from_output ? x->in[2].data : NULL,
                           .out = dx ? dx->data : NULL,
                           .mean = mean,
                           .rstd = rstd,
                           .d_scale = x->d_in[1].dtype ? x->d_in[1].data : NULL,
                           .d_shift = x->d_in[2].dtype ? x->d_in[2].data : NULL,
                           .add_scale = x->adds & MP_BIT(1),
                           .add_shift = x->adds & MP_BIT(2),
                           .partial = x->workspace};
    mp_normalize_backward(&s->rows, &d);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = &x->in[0];
    int64_t parameter_stride[MP_ARRAY_RANK] = {0};
    MP_CHECK(mp_normalization_types(x, err));
    if (x->op->version < 9 && !mp_operator_int(x->op, "spatial", 1)) return MP_NO_KERNEL(x, err, "spatial = 0");
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->channels = a->rank > 1 ? a->dims[1] : 1;
    s->epsilon = mp_operator_float(x->op, "epsilon", 1e-5f);
    s->momentum = mp_operator_float(x->op, "momentum", 0.9f);
    s->from_batch = learns(x);
    s->by_columns = columns_of(a, &s->columns);
    if (a->rank > 1) parameter_stride[1] = 1;
    s->rows = mp_normalization_of(a, ~2u & ((1u << a->rank) - 1), parameter_stride, s->channels, true, s->epsilon);
    call->workspace_bytes = s->by_columns ? columns_workspace_bytes(&s->columns) : mp_normalize_workspace_bytes(&s->rows);
    s->statistics_at = (call->workspace_bytes + 63) / 64 * 64;
    call->workspace_bytes = s->statistics_at + 2 * s->channels * (int64_t)sizeof(float);
    s->ranks = s->from_batch ? mp_operator_int(x->op, "ranks", 1) : 1;
    if (s->ranks > 1) {
        if (!s->by_columns) return MP_NO_KERNEL(x, err, "statistics over ranks in this layout");
        s->shared_at = (call->workspace_bytes + 63) / 64 * 64;
        call->workspace_bytes = s->shared_at + 2 * s->ranks * s->channels * (int64_t)sizeof(double);
    }
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

const mp_kernel mp_cpu_batch_normalizations[] = {{"BatchNormalization", "", prepare, prepare}, {0}};
