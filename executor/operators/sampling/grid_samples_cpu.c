/* grid_samples_cpu.c - GridSample (grid_sample.h): X (n, channel, space...) at the points of a grid (n, points..., coordinate).
 *
 * Backward: a channel of a sample belongs to one thread, which walks the points in order; a point's own gradient sums
 * over the channels. Nothing is added by two threads.
 */
#include "executor/operators/sampling/grid_sample.h"

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/pooling/sums_cpu.h"

enum { SPACE = MP_SAMPLER_SPACE, POINTS = 32, CHANNELS = 16 };

typedef struct task {
    const mp_sampler *s;
    const mp_operands *x;
    float *sums; /* the input's gradient in float, plain, where its type is another */
} task;

/* All taps of one point: offsets in X's memory (or, with `plain`, in a plain channel), weights, and the weights' slopes along
 * each axis. */
typedef struct point {
    int n;
    int64_t at[64];
    float weight[64], slope[SPACE][64];
} point;

static int64_t point_at(const mp_array *a, int from, int64_t k)
{
    int64_t at = 0;
    for (int d = from + (a->rank - 2) - 1; d >= from; d--) {
        at += k % a->dims[d] * a->strides[d];
        k /= a->dims[d];
    }
    return at;
}

static inline float read(const mp_array *a, int64_t at)
{
    return a->dtype == MP_DTYPE_FLOAT ? ((const float *)a->data)[at] : mp_load_float(a->data, a->dtype, at);
}

static void find_taps(const task *t, int64_t sample, int64_t i, const int64_t *strides, bool slopes, point *p)
{
    const mp_sampler *s = t->s;
    const mp_array *x = &t->x->in[0], *grid = &t->x->in[1];
    mp_sampler_axis axes[SPACE];
    int64_t at = sample * grid->strides[0] + point_at(grid, 1, i);
    for (int d = 0; d < s->n; d++)
        mp_sampler_along(s, (double)read(grid, at + (s->n - 1 - d) * grid->strides[grid->rank - 1]), x->dims[2 + d], &axes[d]);
    p->n = 0;
    for (int k = 0; k < s->per_point; k++) {
        float slope[SPACE];
        if (!mp_sampler_tap(s, axes, k, strides, &p->at[p->n], &p->weight[p->n], slopes ? slope : NULL)) continue;
        for (int d = 0; d < s->n && slopes; d++) p->slope[d][p->n] = slope[d];
        p->n++;
    }
}

static void sample_points(void *data, int64_t k)
{
    const task *t = data;
    const mp_array *x = &t->x->in[0], *y = &t->x->out[0];
    int64_t blocks = (t->s->n_points + POINTS - 1) / POINTS, sample = k / blocks, first = k % blocks * POINTS;
    point p;
    for (int64_t i = first; i < first + POINTS && i < t->s->n_points; i++) {
        find_taps(t, sample, i, x->strides + 2, false, &p);
        int64_t to = sample * y->strides[0] + point_at(y, 2, i);
        for (int64_t c = 0; c < x->dims[1]; c++) {
            int64_t from = sample * x->strides[0] + c * x->strides[1];
            float sum = 0;
            for (int j = 0; j < p.n; j++) sum += p.weight[j] * read(x, from + p.at[j]);
            mp_store_float(y->data, y->dtype, to + c * y->strides[1], sum);
        }
    }
}

/* Some channels of one sample of the input's gradient. */
static void scatter_channels(void *data, int64_t k)
{
    const task *t = data;
    mp_array *d = &t->x->d_in[0];
    const mp_array *dy = &t->x->d_out[0];
    int64_t blocks = (d->dims[1] + CHANNELS - 1) / CHANNELS, sample = k / blocks, first = k % blocks * CHANNELS;
    int64_t last = first + CHANNELS < d->dims[1] ? first + CHANNELS : d->dims[1], size = 1, strides[SPACE];
    mp_array plain = mp_array_plain(MP_DTYPE_FLOAT, d->rank, d->dims);
    const mp_array *to = t->sums ? &plain : d;
    float *sums = (t->sums ? t->sums : (float *)d->data) + sample * to->strides[0];
    for (int e = 0; e < t->s->n; e++) {
        strides[e] = to->strides[2 + e];
        size *= d->dims[2 + e];
    }
    for (int64_t i = 0; i < size; i++)
        for (int64_t c = first, at = point_at(to, 2, i); c < last; c++) sums[at + c * to->strides[1]] = 0;
    point p;
    for (int64_t i = 0; i < t->s->n_points; i++) {
        find_taps(t, sample, i, strides, false, &p);
        int64_t from = sample * dy->strides[0] + point_at(dy, 2, i);
        for (int64_t c = first; c < last; c++) {
            float g = read(dy, from + c * dy->strides[1]);
            for (int j = 0; j < p.n; j++) sums[c * to->strides[1] + p.at[j]] += p.weight[j] * g;
        }
    }
    for (int64_t i = 0; t->sums && i < size; i++)
        for (int64_t c = first; c < last; c++)
            mp_store_float(d->data, d->dtype, sample * d->strides[0] + c * d->strides[1] + point_at(d, 2, i),
                           sums[c * to->strides[1] + point_at(to, 2, i)]);
}

static void move_points(void *data, int64_t k)
{
    const task *t = data;
    const mp_array *x = &t->x->in[0], *dy = &t->x->d_out[0], *d = &t->x->d_in[1];
    int n = t->s->n;
    int64_t blocks = (t->s->n_points + POINTS - 1) / POINTS, sample = k / blocks, first = k % blocks * POINTS;
    point p;
    for (int64_t i = first; i < first + POINTS && i < t->s->n_points; i++) {
        double sums[SPACE] = {0};
        int64_t out = sample * dy->strides[0] + point_at(dy, 2, i);
        find_taps(t, sample, i, x->strides + 2, true, &p);
        for (int64_t c = 0; c < x->dims[1]; c++) {
            int64_t from = sample * x->strides[0] + c * x->strides[1];
            double g = (double)read(dy, out + c * dy->strides[1]);
            for (int j = 0; j < p.n; j++) {
                double v = g * (double)read(x, from + p.at[j]);
                for (int e = 0; e < n; e++) sums[e] += v * (double)p.slope[e][j];
            }
        }
        int64_t to = sample * d->strides[0] + point_at(d, 1, i);
        for (int e = 0; e < n; e++)
            mp_store_float(d->data, d->dtype, to + (n - 1 - e) * d->strides[d->rank - 1], (float)sums[e]);
    }
}

static mp_status run_grid(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_sampler *s = call->state;
    task t = {s, x, mp_cpu_sums(x)};
    int64_t n = x->in[0].dims[0], channels = x->in[0].dims[1], blocks = (s->n_points + POINTS - 1) / POINTS;
    (void)run, (void)err;
    if (!x->is_backward) mp_parallel(n * blocks, POINTS * channels * 4, sample_points, &t);
    if (mp_operands_wants(x, 0))
        mp_parallel(n * ((channels + CHANNELS - 1) / CHANNELS), 64 * s->n_points, scatter_channels, &t);
    if (mp_operands_wants(x, 1)) mp_parallel(n * blocks, POINTS * channels * 8, move_points, &t);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_grid;
    call->workspace_bytes = mp_cpu_sums_bytes(x);
    return mp_grid_sample_prepare(x, call, err);
}

const mp_kernel mp_cpu_grid_samples[] = {{"GridSample", "", prepare, prepare}, {0}};
