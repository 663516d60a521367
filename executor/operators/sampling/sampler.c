/* sampler.c - fills the descriptions of GridSample, RoiAlign and MaxRoiPool from their operands. */
#include "executor/operators/sampling/sampler.h"

#include <string.h>

mp_status mp_grid_sample_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    static const struct {
        const char *name;
        mp_sampler_mode how;
    } modes[] = {{"bilinear", MP_SAMPLER_LINEAR},
                 {"linear", MP_SAMPLER_LINEAR},
                 {"nearest", MP_SAMPLER_NEAREST},
                 {"bicubic", MP_SAMPLER_CUBIC},
                 {"cubic", MP_SAMPLER_CUBIC}};
    static const int taps[] = {[MP_SAMPLER_NEAREST] = 1, [MP_SAMPLER_LINEAR] = 2, [MP_SAMPLER_CUBIC] = 4};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const char *mode = mp_operator_text(x->op, "mode", "bilinear"),
               *padding_mode = mp_operator_text(x->op, "padding_mode", "zeros");
    int how = -1, pads = -1;
    for (int k = 0; k < 5; k++)
        if (!strcmp(modes[k].name, mode)) how = (int)modes[k].how;
    for (int k = 0; k < 3; k++)
        if (!strcmp(paddings[k], padding_mode)) pads = k;
    if (how < 0) return MP_NO_KERNEL(x, err, "this mode");
    if (pads < 0) return MP_NO_KERNEL(x, err, "this padding_mode");
    if (!mp_is_real(x->in[0].dtype) || !mp_is_real(x->in[1].dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].rank - 2 > MP_SAMPLER_SPACE) return MP_NO_KERNEL(x, err, "this many dimensions");
    MP_STATE(mp_sampler, s, call, err);
    *s = (mp_sampler){.n = x->in[0].rank - 2,
                      .how = (mp_sampler_mode)how,
                      .padding = (mp_sampler_padding)pads,
                      .align_corners = mp_operator_int(x->op, "align_corners", 0) != 0,
                      .n_points = 1,
                      .n_blocks = (x->in[0].dims[1] + MP_SAMPLER_CHANNELS - 1) / MP_SAMPLER_CHANNELS,
                      .per_axis = taps[how],
                      .per_point = 1};
    for (int d = 0; d < s->n; d++) s->per_point *= s->per_axis;
    for (int d = 0; d < s->n; d++) s->n_points *= x->in[1].dims[1 + d];
    return MP_OK;
}

mp_sampler mp_sampler_of(const mp_call *call, const mp_operands *x)
{
    mp_sampler s = *(const mp_sampler *)call->state;
    s.x = x->in[0];
    s.grid = x->in[1];
    s.y = x->is_backward ? x->d_out[0] : x->out[0];
    if (mp_operands_wants(x, 0)) s.dx = x->d_in[0];
    if (mp_operands_wants(x, 1)) s.d_grid = x->d_in[1];
    return s;
}

static mp_status prepare_regions(const mp_operands *x, mp_call *call, double scale, mp_error *err)
{
    const mp_array *out = x->is_backward ? &x->d_out[0] : &x->out[0];
    if (!mp_is_real(out->dtype) || !mp_is_real(x->in[1].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(mp_regions, s, call, err);
    *s = (mp_regions){.scale = scale, .height = out->dims[2], .width = out->dims[3]};
    return MP_OK;
}

mp_status mp_roi_align_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const char *where = mp_operator_text(x->op, "coordinate_transformation_mode", "half_pixel");
    const char *mode = mp_operator_text(x->op, "mode", "avg");
    bool half_pixel = x->op->version >= 16 && !strcmp(where, "half_pixel"), largest = !strcmp(mode, "max");
    if (!half_pixel && x->op->version >= 16 && strcmp(where, "output_half_pixel") != 0)
        return MP_NO_KERNEL(x, err, "this coordinate_transformation_mode");
    if (!largest && strcmp(mode, "avg") != 0) return MP_NO_KERNEL(x, err, "this mode");
    if (largest && x->is_backward) return MP_NO_KERNEL(x, err, "the gradient of the largest");
    MP_CHECK(prepare_regions(x, call, mp_operator_float(x->op, "spatial_scale", 1), err));
    mp_regions *s = call->state;
    s->half_pixel = half_pixel;
    s->largest = largest;
    s->sampling_ratio = mp_operator_int(x->op, "sampling_ratio", 0);
    return MP_OK;
}

mp_status mp_max_roi_pool_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_regions(x, call, mp_operator_float(x->op, "spatial_scale", 1), err);
}

mp_regions mp_regions_of(const mp_call *call, const mp_operands *x)
{
    mp_regions s = *(const mp_regions *)call->state;
    s.x = x->is_backward ? x->d_in[0] : x->in[0];
    s.y = x->is_backward ? x->d_out[0] : x->out[0];
    s.corners = x->in[1];
    s.of = x->n_in > 2 ? x->in[2] : x->in[1];
    return s;
}

static mp_status check_images(const mp_operands *x, const mp_array *images, mp_error *err)
{
    for (int64_t k = 0; k < x->in[1].dims[0]; k++) {
        int64_t image = mp_load_whole(images->data, images->dtype, k * images->strides[0]);
        if (image < 0 || image >= x->in[0].dims[0])
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): region %lld belongs to image %lld, but there are only %lld images",
                           x->op->kind, x->op->name, (long long)k, (long long)image, (long long)x->in[0].dims[0]);
    }
    return MP_OK;
}

mp_status mp_roi_align_check(const mp_operands *x, mp_error *err)
{
    return check_images(x, &x->in[2], err);
}

mp_status mp_max_roi_pool_check(const mp_operands *x, mp_error *err)
{
    return check_images(x, &x->in[1], err);
}

mp_status mp_max_roi_pool_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    const mp_regions s = mp_regions_of(call, x);
    return loop(&s, mp_array_elements(&s.y), 16, err);
}
