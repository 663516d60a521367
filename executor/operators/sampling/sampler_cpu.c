/* sampler_cpu.c - GridSample and RoiAlign on the CPU. In backward, an item is a block of channels of one sample (GridSample) or
 * a channel of all images (RoiAlign). An item processes points or regions in order, and no other item adds to its elements. */
#include <string.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/sampling/sampler.h"

/* True if the gradient of input 0 is requested and BFLOAT16. The gradient is then summed in a row-major array of floats, and
 * rounded at the end. */
static bool sums_apart(const mp_operands *x)
{
    return mp_operands_wants(x, 0) && x->d_in[0].dtype == MP_DTYPE_BFLOAT16;
}

/* Returns the array of sums at the start of the workspace; NULL: the gradient is FLOAT and is summed in place. */
static float *sums_of(const mp_operands *x)
{
    return sums_apart(x) ? (float *)x->workspace : NULL;
}

static int64_t sums_bytes(const mp_operands *x)
{
    return sums_apart(x) ? mp_array_elements(&x->d_in[0]) * (int64_t)sizeof(float) : 0;
}

MP_BODY_LOOP(mp_sampler, mp_sampler_item)
MP_BODY_LOOP(mp_sampler, mp_sampler_move_item)

typedef struct task {
    mp_sampler s;
    float *sums; /* row-major array of floats in which the input's gradient is summed; NULL: the gradient is summed in place */
} task;

/* Backward of GridSample: computes the input's gradient for a block of channels of one sample of the batch. */
static void scatter_channels(void *data, int64_t k)
{
    const task *t = data;
    const mp_sampler *s = &t->s;
    const mp_array *d = &s->dx, *dy = &s->y;
    int64_t sample = k / s->n_blocks, first = k % s->n_blocks * MP_SAMPLER_CHANNELS, size = 1;
    int64_t last = first + MP_SAMPLER_CHANNELS < d->dims[1] ? first + MP_SAMPLER_CHANNELS : d->dims[1];
    mp_array plain = mp_array_plain(MP_DTYPE_FLOAT, d->rank, d->dims);
    const mp_array *to = t->sums ? &plain : d;
    float *sums = (t->sums ? t->sums : (float *)d->data) + sample * to->strides[0];
    for (int e = 2; e < d->rank; e++) size *= d->dims[e];
    for (int64_t i = 0; i < size; i++)
        for (int64_t c = first, at = mp_array_offset(to, 2, to->rank, i); c < last; c++) sums[at + c * to->strides[1]] = 0;
    mp_sampler_point p;
    for (int64_t i = 0; i < s->n_points; i++) {
        mp_sampler_point_of(s, sample, i, to->strides + 2, false, &p);
        int64_t from = sample * dy->strides[0] + mp_array_offset(dy, 2, dy->rank, i);
        for (int64_t c = first; c < last; c++) {
            float g = mp_array_load(dy, from + c * dy->strides[1]);
            for (int j = 0; j < p.n; j++) sums[c * to->strides[1] + p.at[j]] += p.weight[j] * g;
        }
    }
    for (int64_t i = 0; t->sums && i < size; i++)
        for (int64_t c = first; c < last; c++)
            mp_array_store(d, sample * d->strides[0] + c * d->strides[1] + mp_array_offset(d, 2, d->rank, i),
                           sums[c * to->strides[1] + mp_array_offset(to, 2, to->rank, i)]);
}

static mp_status run_grid(const mp_call *call, const mp_operands *x, mp_error *err)
{
    task t = {mp_sampler_of(call, x), sums_of(x)};
    int64_t n = t.s.x.dims[0], channels = t.s.x.dims[1];
    if (!x->is_backward) return mp_sampler_item_loop(&t.s, n * t.s.n_blocks * t.s.n_points, 4 * MP_SAMPLER_CHANNELS, err);
    if (t.s.dx.dtype) mp_parallel(n * t.s.n_blocks, 64 * t.s.n_points, scatter_channels, &t);
    return t.s.d_grid.dtype ? mp_sampler_move_item_loop(&t.s, n * t.s.n_points, 8 * channels, err) : MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_grid;
    call->workspace_bytes = sums_bytes(x);
    return mp_grid_sample_prepare(x, call, err);
}

/* ---- RoiAlign. */

MP_BODY_LOOP(mp_regions, mp_roi_align_item)

typedef struct regions_task {
    mp_regions s;
    float *sums; /* row-major array of floats in which the images' gradient is summed; NULL: the gradient is summed in place */
} regions_task;

/* Backward of RoiAlign: computes one channel of the gradient of all images. */
static void spread_channel(void *data, int64_t channel)
{
    const regions_task *t = data;
    const mp_regions *s = &t->s;
    const mp_array *d = &s->x, *dy = &s->y;
    mp_array plain = mp_array_plain(MP_DTYPE_FLOAT, 4, d->dims);
    const mp_array *to = t->sums ? &plain : d;
    float *sums = (t->sums ? t->sums : (float *)d->data) + channel * to->strides[1];
    int64_t plane = d->dims[2] * d->dims[3], n = d->dims[0] * plane;
    for (int64_t k = 0; k < n; k++)
        sums[k / plane * to->strides[0] + k % plane / d->dims[3] * to->strides[2] + k % d->dims[3] * to->strides[3]] = 0;
    for (int64_t region = 0; region < dy->dims[0]; region++)
        for (int64_t image = mp_region_image(s, region), o = 0; o < s->height * s->width; o++) {
            int64_t row = o / s->width, column = o % s->width;
            mp_bin b = mp_bin_of(s, region, row, column);
            int64_t count = b.rows * b.columns, at = region * dy->strides[0] + channel * dy->strides[1];
            float g = mp_array_load(dy, at + row * dy->strides[2] + column * dy->strides[3]);
            for (int64_t p = 0; p < count; p++) {
                mp_corners c;
                if (!mp_corners_of(&b, p, d->dims[2], d->dims[3], &c)) continue;
                for (int e = 0; e < 4; e++)
                    sums[image * to->strides[0] + c.row[e] * to->strides[2] + c.column[e] * to->strides[3]] +=
                        g * c.weight[e] / (float)count;
            }
        }
    for (int64_t k = 0; k < n && t->sums; k++)
        mp_array_store(d,
                       k / plane * d->strides[0] + channel * d->strides[1] + k % plane / d->dims[3] * d->strides[2] +
                           k % d->dims[3] * d->strides[3],
                       sums[k / plane * to->strides[0] + k % plane]);
}

static mp_status run_regions(const mp_call *call, const mp_operands *x, mp_error *err)
{
    regions_task t = {mp_regions_of(call, x), sums_of(x)};
    int64_t n_bins = t.s.y.dims[0] * t.s.height * t.s.width;
    MP_CHECK(mp_roi_align_check(x, err));
    /* as in PyTorch, regions have no gradient: it is set to zero */
    if (mp_operands_wants(x, 1)) memset(x->d_in[1].data, 0, (size_t)mp_array_bytes(&x->d_in[1]));
    if (!x->is_backward) return mp_roi_align_item_loop(&t.s, mp_array_elements(&t.s.y), 16, err);
    if (mp_operands_wants(x, 0)) mp_parallel(t.s.x.dims[1], 16 * n_bins, spread_channel, &t);
    return MP_OK;
}

static mp_status prepare_regions(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_regions;
    call->workspace_bytes = sums_bytes(x);
    return mp_roi_align_prepare(x, call, err);
}

const mp_kernel mp_cpu_samplers[] = {
    {"GridSample", "", prepare, prepare}, {"RoiAlign", "", prepare_regions, prepare_regions}, {0}};
