/* samplings.c - the table of operators that read between elements on the GPU: prepared as on the CPU. */
#include "executor/cuda/samplings.h"

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels.h"

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)run;
    mp_cuda_resize(call->state, x->is_backward ? &x->d_out[0] : &x->in[0], x->is_backward ? &x->d_in[0] : &x->out[0],
                   x->workspace);
    return mp_cuda_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    int n = 0;
    MP_TRY(mp_prepare_resize(x, call, err));
    const mp_resizing *s = call->state;
    for (int d = 0; d < s->rank; d++) n += s->axis[d] >= 0;
    if (n > MP_CUDA_RESIZED) {
        st = MP_NO_KERNEL(x, err, "resizing so many dimensions");
        goto done;
    }
    call->run = run;
    call->workspace_bytes = mp_cuda_resize_room(s);
done:
    return st;
}

const mp_kernel mp_cuda_samplings[] = {
    {"Resize", "", prepare, prepare},
    {"Upsample", "", prepare, prepare},
    {0},
};
