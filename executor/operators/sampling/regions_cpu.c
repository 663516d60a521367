/* regions_cpu.c - RoiAlign (averages or largest of interpolated points) and MaxRoiPool (regions.h): X (n, channel, height,
 * width), Y (region, channel, row, column). The gradient of RoiAlign: a channel belongs to one thread, which walks the regions
 * in order.
 */
#include "executor/operators/sampling/regions.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/pooling/sums_cpu.h"

typedef struct task {
    const mp_regions *s;
    const mp_operands *x;
    float *sums; /* the input's gradient in float, plain, where its type is another */
} task;

static int64_t image_of(const task *t, int64_t region)
{
    const mp_array *images = &t->x->in[2];
    return mp_load_whole(images->data, images->dtype, region * images->strides[0]);
}

static mp_bin bin_of(const task *t, int64_t region, int64_t row, int64_t column)
{
    const mp_array *rois = &t->x->in[1];
    return mp_bin_of(t->s, rois->data, rois->dtype, region * rois->strides[0], rois->strides[1], row, column);
}

/* One output row of bins of a region, all channels. */
static void align_row(void *data, int64_t k)
{
    const task *t = data;
    const mp_regions *s = t->s;
    const mp_array *in = &t->x->in[0], *out = &t->x->out[0];
    int64_t region = k / s->height, row = k % s->height, image = image_of(t, region);
    for (int64_t column = 0; column < s->width; column++) {
        mp_bin b = bin_of(t, region, row, column);
        int64_t count = b.rows * b.columns;
        for (int64_t channel = 0; channel < in->dims[1]; channel++) {
            int64_t base = image * in->strides[0] + channel * in->strides[1];
            double sum = 0, most = -INFINITY;
            for (int64_t p = 0; p < count; p++) {
                mp_corners c;
                if (!mp_corners_of(b.top + (double)(p / b.columns) * b.row_step,
                                   b.left + (double)(p % b.columns) * b.column_step, in->dims[2], in->dims[3], &c)) {
                    most = fmax(most, 0);
                    continue;
                }
                for (int e = 0; e < 4; e++) {
                    double v = (double)c.weight[e] *
                               (double)mp_load_float(in->data, in->dtype,
                                                     base + c.row[e] * in->strides[2] + c.column[e] * in->strides[3]);
                    sum += v;
                    most = fmax(most, v);
                }
            }
            double value = count <= 0 ? 0 : s->largest ? most : sum / (double)count;
            mp_store_float(out->data, out->dtype,
                           region * out->strides[0] + channel * out->strides[1] + row * out->strides[2] +
                               column * out->strides[3],
                           (float)value);
        }
    }
}

/* One channel of the gradient, all images. */
static void spread_channel(void *data, int64_t channel)
{
    const task *t = data;
    const mp_regions *s = t->s;
    const mp_array *d = &t->x->d_in[0], *dy = &t->x->d_out[0];
    mp_array plain = mp_array_plain(MP_DTYPE_FLOAT, 4, d->dims);
    const mp_array *to = t->sums ? &plain : d;
    float *sums = (t->sums ? t->sums : (float *)d->data) + channel * to->strides[1];
    int64_t plane = d->dims[2] * d->dims[3], n = d->dims[0] * plane;
    for (int64_t k = 0; k < n; k++)
        sums[k / plane * to->strides[0] + k % plane / d->dims[3] * to->strides[2] + k % d->dims[3] * to->strides[3]] = 0;
    for (int64_t region = 0; region < dy->dims[0]; region++)
        for (int64_t image = image_of(t, region), o = 0; o < s->height * s->width; o++) {
            int64_t row = o / s->width, column = o % s->width;
            mp_bin b = bin_of(t, region, row, column);
            int64_t count = b.rows * b.columns;
            float g = mp_load_float(dy->data, dy->dtype,
                                    region * dy->strides[0] + channel * dy->strides[1] + row * dy->strides[2] +
                                        column * dy->strides[3]);
            for (int64_t p = 0; p < count; p++) {
                mp_corners c;
                if (!mp_corners_of(b.top + (double)(p / b.columns) * b.row_step,
                                   b.left + (double)(p % b.columns) * b.column_step, d->dims[2], d->dims[3], &c))
                    continue;
                for (int e = 0; e < 4; e++)
                    sums[image * to->strides[0] + c.row[e] * to->strides[2] + c.column[e] * to->strides[3]] +=
                        g * c.weight[e] / (float)count;
            }
        }
    for (int64_t k = 0; k < n && t->sums; k++)
        mp_store_float(d->data, d->dtype,
                       k / plane * d->strides[0] + channel * d->strides[1] + k % plane / d->dims[3] * d->strides[2] +
                           k % d->dims[3] * d->strides[3],
                       sums[k / plane * to->strides[0] + k % plane]);
}

/* One output row of a region (image, left, top, right, bottom), all channels. */
static void pool_row(void *data, int64_t k)
{
    const task *t = data;
    const mp_regions *s = t->s;
    const mp_array *in = &t->x->in[0], *rois = &t->x->in[1], *out = &t->x->out[0];
    int64_t region = k / s->height, row = k % s->height, at[5], top, bottom, left, right;
    mp_region_read(s, rois->data, rois->dtype, region * rois->strides[0], rois->strides[1], at);
    mp_bin_span(at[2], at[4], s->height, row, in->dims[2], &top, &bottom);
    for (int64_t column = 0; column < s->width; column++) {
        mp_bin_span(at[1], at[3], s->width, column, in->dims[3], &left, &right);
        for (int64_t channel = 0; channel < in->dims[1]; channel++) {
            float most = top < bottom && left < right ? -INFINITY : 0;
            for (int64_t r = top; r < bottom; r++)
                for (int64_t c = left; c < right; c++)
                    most = fmaxf(most, mp_load_float(in->data, in->dtype,
                                                     at[0] * in->strides[0] + channel * in->strides[1] + r * in->strides[2] +
                                                         c * in->strides[3]));
            mp_store_float(
                out->data, out->dtype,
                region * out->strides[0] + channel * out->strides[1] + row * out->strides[2] + column * out->strides[3], most);
        }
    }
}

/* Regions of images that are not there. */
static mp_status check_images(const mp_operands *x, const mp_array *images, int64_t stride, mp_error *err)
{
    for (int64_t k = 0; k < x->in[1].dims[0]; k++) {
        int64_t image = mp_load_whole(images->data, images->dtype, k * stride);
        if (image < 0 || image >= x->in[0].dims[0])
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): region %lld is of image %lld, and there are %lld", x->op->kind,
                           x->op->name, (long long)k, (long long)image, (long long)x->in[0].dims[0]);
    }
    return MP_OK;
}

static mp_status run_align(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_regions *s = call->state;
    task t = {s, x, mp_cpu_sums(x)};
    (void)run;
    MP_CHECK(check_images(x, &x->in[2], x->in[2].strides[0], err));
    /* the regions have no gradient, as in PyTorch */
    if (mp_operands_wants(x, 1)) memset(x->d_in[1].data, 0, (size_t)mp_array_bytes(&x->d_in[1]));
    if (x->is_backward && !mp_operands_wants(x, 0)) return MP_OK;
    if (x->is_backward)
        mp_parallel(x->d_in[0].dims[1], 16 * x->d_out[0].dims[0] * s->height * s->width, spread_channel, &t);
    else
        mp_parallel(x->out[0].dims[0] * s->height, 16 * s->width * x->out[0].dims[1], align_row, &t);
    return MP_OK;
}

static mp_status run_pool(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_regions *s = call->state;
    task t = {s, x, NULL};
    (void)run;
    MP_CHECK(check_images(x, &x->in[1], x->in[1].strides[0], err));
    mp_parallel(x->out[0].dims[0] * s->height, 16 * s->width * x->out[0].dims[1], pool_row, &t);
    return MP_OK;
}

static mp_status prepare_align(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_align;
    call->workspace_bytes = mp_cpu_sums_bytes(x);
    return mp_roi_align_prepare(x, call, err);
}

static mp_status prepare_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_pool;
    return mp_max_roi_pool_prepare(x, call, err);
}

const mp_kernel mp_cpu_regions[] = {
    {"RoiAlign", "", prepare_align, prepare_align}, {"MaxRoiPool", "", prepare_pool, NULL}, {0}};
