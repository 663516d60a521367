/* grid_sample.c - fills the description of a GridSample from its operands. */
#include "executor/operators/sampling/grid_sample.h"

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
