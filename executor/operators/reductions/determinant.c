/* determinant.c - prepares and runs Det, the determinants of a stack of matrices. */
#include "executor/operators/reductions/determinant.h"

static int64_t matrix_bytes(const mp_array *x)
{
    return x->dims[x->rank - 1] * x->dims[x->rank - 1] * (int64_t)sizeof(double);
}

mp_status mp_det_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    call->workspace_bytes = matrix_bytes(&x->in[0]);
    return MP_OK;
}

mp_status mp_det_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    const mp_array *in = &x->in[0];
    mp_det s = {.x = *in, .y = x->out[0], .n = in->dims[in->rank - 1], .room = x->workspace};
    s.slots = s.n_matrices = mp_array_elements(&s.y);
    if (s.n && call->workspace_bytes / matrix_bytes(in) < s.slots) s.slots = call->workspace_bytes / matrix_bytes(in);
    return loop(&s, s.slots, s.n * s.n * s.n, err);
}
