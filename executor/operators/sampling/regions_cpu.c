/* regions_cpu.c - RoiAlign (regions.h) on the CPU. Its gradient: a channel belongs to one thread,
 * which walks the regions in order.
 */
#include "executor/operators/sampling/regions.h"

#include <string.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/sampling/sums_cpu.h"

MP_BODY_LOOP(mp_regions, mp_roi_align_item)

typedef struct task {
    mp_regions s;
    float *sums; /* the gradient of the images in float, plain, where its type is another */
} task;

/* One channel of the gradient, all images. */
static void spread_channel(void *data, int64_t channel)
{
    const task *t = data;
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

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    task t = {mp_regions_of(call, x), mp_cpu_sums(x)};
    int64_t n_bins = t.s.y.dims[0] * t.s.height * t.s.width;
    MP_CHECK(mp_roi_align_check(x, err));
    /* the regions have no gradient, as in PyTorch */
    if (mp_operands_wants(x, 1)) memset(x->d_in[1].data, 0, (size_t)mp_array_bytes(&x->d_in[1]));
    if (!x->is_backward) return mp_roi_align_item_loop(&t.s, mp_array_elements(&t.s.y), 16, err);
    if (mp_operands_wants(x, 0)) mp_parallel(t.s.x.dims[1], 16 * n_bins, spread_channel, &t);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    call->workspace_bytes = mp_cpu_sums_bytes(x);
    return mp_roi_align_prepare(x, call, err);
}

const mp_kernel mp_cpu_regions[] = {{"RoiAlign", "", prepare, prepare}, {0}};
