/* samplings_cuda.c - the table of operators that read between elements on the GPU. */
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/sampling/grid_sample_cuda.h"
#include "executor/operators/sampling/regions_cuda.h"
#include "executor/operators/sampling/resizes_cuda.h"

static mp_status run_resize(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)run;
    mp_cuda_resize(call->state, x->is_backward ? &x->d_out[0] : &x->in[0], x->is_backward ? &x->d_in[0] : &x->out[0],
                   x->workspace);
    return mp_cuda_launched(err);
}

static void release_resize(mp_call *call)
{
    if (call->state) mp_resizing_free(call->state);
}

static mp_status prepare_resize(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_resizing *s;
    int n = 0;
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->release = release_resize;
    call->run = run_resize;
    MP_CHECK(mp_resizing_read(x, s, err));
    for (int d = 0; d < s->rank; d++) n += s->axis[d] >= 0;
    if (n > MP_CUDA_RESIZED) {
        return MP_NO_KERNEL(x, err, "resizing so many dimensions");
    }
    call->workspace_bytes = mp_cuda_resize_room(s);
    return MP_OK;
}

static mp_status run_grid(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_sampler *s = call->state;
    (void)run;
    if (!x->is_backward) mp_cuda_grid_sample(s, &x->in[0], &x->in[1], &x->out[0]);
    if (mp_operands_wants(x, 0)) mp_cuda_grid_spread(s, &x->d_in[0], &x->in[1], &x->d_out[0], x->workspace);
    if (mp_operands_wants(x, 1)) mp_cuda_grid_move(s, &x->in[0], &x->in[1], &x->d_out[0], &x->d_in[1]);
    return mp_cuda_launched(err);
}

static mp_status prepare_grid(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_row_entries rows;
    MP_CHECK(mp_grid_sample_prepare(x, call, err));
    call->run = run_grid;
    if (!mp_operands_wants(x, 0)) return MP_OK;
    if (!mp_cuda_grid_rows(call->state, &x->d_in[0], &rows)) {
        return MP_NO_KERNEL(x, err, "so many points");
    }
    call->workspace_bytes = mp_cuda_grid_room(&rows);
    return MP_OK;
}

static mp_status run_align(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_regions *s = call->state;
    (void)run;
    if (!x->is_backward) mp_cuda_roi_align(s, &x->in[0], &x->in[1], &x->in[2], &x->out[0]);
    if (mp_operands_wants(x, 0)) mp_cuda_roi_spread(s, &x->d_in[0], &x->in[1], &x->in[2], &x->d_out[0]);
    if (mp_operands_wants(x, 1)) mp_cuda_array_zero(&x->d_in[1]); /* as on the CPU */
    return mp_cuda_launched(err);
}

static mp_status prepare_align(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_align;
    return mp_roi_align_prepare(x, call, err);
}

static mp_status run_pool(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)run;
    mp_cuda_roi_pool(call->state, &x->in[0], &x->in[1], &x->out[0]);
    return mp_cuda_launched(err);
}

static mp_status prepare_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_pool;
    return mp_max_roi_pool_prepare(x, call, err);
}

const mp_kernel mp_cuda_samplings[] = {
    {"Resize", "", prepare_resize, prepare_resize}, {"Upsample", "", prepare_resize, prepare_resize},
    {"GridSample", "", prepare_grid, prepare_grid}, {"RoiAlign", "", prepare_align, prepare_align},
    {"MaxRoiPool", "", prepare_pool, NULL},         {0},
};
