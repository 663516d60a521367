/* sampling_grid.c - GridSample: X (N, C, D1..Dn) is read at the points of a grid (N, d1..dn, n), whose coordinates run from -1
 * to 1 and name the last dimension first.
 *
 * Backward: a channel of a sample belongs to one thread, which walks the points in order; a point's own gradient sums
 * over the channels. Nothing is added by two threads.
 */
#include <math.h>
#include <string.h>

#include "executor/cpu/elementwise.h"
#include "executor/cpu/sampling.h"

enum { SPACE = 3, TAPS = 4, POINTS = 32, CHANNELS = 16 };

typedef enum padding { ZEROS, BORDER, REFLECTION } padding;
typedef enum interpolation { NEAREST, LINEAR, CUBIC } interpolation;

typedef struct state {
    int n; /* spatial dimensions */
    interpolation how;
    padding padding;
    bool align_corners;
    int64_t n_points; /* of a sample */
} state;

typedef struct task {
    const state *s;
    const mp_operands *x;
    float *sums; /* the input's gradient in float, plain, where its type is another */
} task;

/* Along one axis: the elements read (-1: none), their weights, and how the weights change with the grid's coordinate. */
typedef struct axis_taps {
    int n;
    int64_t at[TAPS];
    double weight[TAPS], slope[TAPS];
} axis_taps;

/* x brought into [low, high] by reflection at both ends; *slope is 1 or -1 then. */
static double reflect(double x, double low, double high, double *slope)
{
    double span = high - low, from = x - low, sign = from < 0 ? -1 : 1;
    if (span <= 0) {
        *slope = 0;
        return 0;
    }
    from = fabs(from);
    double extra = fmod(from, span), flips = floor(from / span);
    bool odd = fmod(flips, 2) != 0;
    *slope = odd ? -sign : sign;
    return odd ? high - extra : extra + low;
}

static double inside(const state *s, double x, int64_t size, double *slope)
{
    double own = 1;
    *slope = 1;
    if (s->padding == REFLECTION)
        x = s->align_corners ? reflect(x, 0, (double)(size - 1), slope) : reflect(x, -0.5, (double)size - 0.5, slope);
    if (s->padding != ZEROS) {
        if (!(x > 0)) x = 0, own = 0;
        if (x >= (double)(size - 1)) x = (double)(size - 1), own = 0;
    }
    *slope *= own;
    return x;
}

static void put(axis_taps *t, double at, int64_t size, double weight, double slope)
{
    t->at[t->n] = at >= 0 && at < (double)size ? (int64_t)at : -1;
    t->weight[t->n] = weight;
    t->slope[t->n++] = slope;
}

static void taps_of(const state *s, double coordinate, int64_t size, axis_taps *t)
{
    double scale = (double)(s->align_corners ? size - 1 : size) / 2, slope, weights[4], slopes[4];
    double x = (coordinate + 1) * scale - (s->align_corners ? 0 : 0.5);
    t->n = 0;
    if (s->how == CUBIC) {
        double base = floor(x), ignored;
        mp_cubic_weights(x - base, -0.75, weights, slopes);
        for (int k = 0; k < 4; k++)
            put(t, nearbyint(inside(s, base + k - 1, size, &ignored)), size, weights[k], slopes[k] * scale);
        return;
    }
    x = inside(s, x, size, &slope);
    if (s->how == NEAREST) {
        put(t, nearbyint(x), size, 1, 0);
        return;
    }
    double base = floor(x), ratio = x - base;
    put(t, base, size, 1 - ratio, -slope * scale);
    put(t, base + 1, size, ratio, slope * scale);
}

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

static void find_taps(const task *t, int64_t sample, int64_t k, const int64_t *strides, bool slopes, point *p)
{
    const state *s = t->s;
    const mp_array *x = &t->x->in[0], *grid = &t->x->in[1];
    axis_taps taps[SPACE];
    int64_t at = sample * grid->strides[0] + point_at(grid, 1, k);
    for (int d = 0; d < s->n; d++)
        taps[d].n = 0,
        taps_of(s, (double)mp_load_float(grid->data, grid->dtype, at + (s->n - 1 - d) * grid->strides[grid->rank - 1]),
                x->dims[2 + d], &taps[d]);
    int chosen[SPACE] = {0}, turned;
    p->n = 0;
    do {
        int64_t place = 0;
        double weight = 1;
        bool there = true;
        for (int d = 0; d < s->n; d++) {
            there = there && taps[d].at[chosen[d]] >= 0;
            place += taps[d].at[chosen[d]] * strides[d];
            weight *= taps[d].weight[chosen[d]];
        }
        if (there) {
            p->at[p->n] = place;
            p->weight[p->n] = (float)weight;
            for (int d = 0; d < s->n && slopes; d++) {
                double slope = taps[d].slope[chosen[d]];
                for (int e = 0; e < s->n; e++)
                    if (e != d) slope *= taps[e].weight[chosen[e]];
                p->slope[d][p->n] = (float)slope;
            }
            p->n++;
        }
        for (turned = s->n - 1; turned >= 0 && ++chosen[turned] == taps[turned].n; turned--) chosen[turned] = 0;
    } while (turned >= 0);
}

static inline float read(const mp_array *a, int64_t at)
{
    return a->dtype == MP_DTYPE_FLOAT ? ((const float *)a->data)[at] : mp_load_float(a->data, a->dtype, at);
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
    const state *s = call->state;
    task t = {s, x, call->workspace_bytes ? x->workspace : NULL};
    int64_t n = x->in[0].dims[0], channels = x->in[0].dims[1], blocks = (s->n_points + POINTS - 1) / POINTS;
    (void)run, (void)err;
    if (!x->is_backward) mp_parallel(n * blocks, POINTS * channels * 4, sample_points, &t);
    if (x->is_backward && x->from <= 0 && x->d_in[0].dtype)
        mp_parallel(n * ((channels + CHANNELS - 1) / CHANNELS), 64 * s->n_points, scatter_channels, &t);
    if (x->is_backward && x->to > 1 && x->d_in[1].dtype) mp_parallel(n * blocks, POINTS * channels * 8, move_points, &t);
    return MP_OK;
}

static bool is_float(mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16;
}

mp_status mp_prepare_grid_sample(const mp_operands *x, mp_call *call, mp_error *err)
{
    static const struct {
        const char *name;
        interpolation how;
    } modes[] = {{"bilinear", LINEAR}, {"linear", LINEAR}, {"nearest", NEAREST}, {"bicubic", CUBIC}, {"cubic", CUBIC}};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    mp_status st = MP_OK;
    const char *mode = mp_operator_text(x->op, "mode", "bilinear"),
               *padding_mode = mp_operator_text(x->op, "padding_mode", "zeros");
    int how = -1, pads = -1;
    for (int k = 0; k < 5; k++)
        if (!strcmp(modes[k].name, mode)) how = (int)modes[k].how;
    for (int k = 0; k < 3; k++)
        if (!strcmp(paddings[k], padding_mode)) pads = k;
    if (how < 0) return MP_NO_KERNEL(x, err, "this mode");
    if (pads < 0) return MP_NO_KERNEL(x, err, "this padding_mode");
    if (!is_float(x->in[0].dtype) || !is_float(x->in[1].dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].rank - 2 > SPACE) return MP_NO_KERNEL(x, err, "this many dimensions");
    state *s;
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_grid;
    *s = (state){x->in[0].rank - 2, (interpolation)how, (padding)pads, mp_operator_int(x->op, "align_corners", 0) != 0, 1};
    for (int d = 0; d < s->n; d++) s->n_points *= x->in[1].dims[1 + d];
    if (x->is_backward && x->from <= 0 && x->d_in[0].dtype == MP_DTYPE_BFLOAT16)
        call->workspace_bytes = mp_array_elements(&x->d_in[0]) * (int64_t)sizeof(float);
done:
    return st;
}
