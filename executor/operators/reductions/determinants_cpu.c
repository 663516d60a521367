/* determinants_cpu.c - Det (determinant.h) of each matrix of (..., row, column), one after the other. */
#include "executor/operators/reductions/determinant.h"

#include "executor/cpu/base/families.h"

static mp_status run_determinant(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *in = &x->in[0], *out = &x->out[0];
    int64_t n = in->dims[in->rank - 1], count = mp_array_elements(out);
    double *room = x->workspace;
    (void)call, (void)run, (void)err;
    for (int64_t m = 0; m < count; m++) {
        int64_t from = 0, to = 0, left = m;
        for (int d = out->rank - 1; d >= 0; d--) {
            from += left % out->dims[d] * in->strides[d];
            to += left % out->dims[d] * out->strides[d];
            left /= out->dims[d];
        }
        for (int64_t k = 0; k < n * n; k++)
            room[k] = (double)mp_load_float(in->data, in->dtype,
                                            from + k / n * in->strides[in->rank - 2] + k % n * in->strides[in->rank - 1]);
        mp_store_float(out->data, out->dtype, to, (float)mp_determinant(room, n, 1));
    }
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_determinant;
    return mp_determinant_prepare(x, call, err);
}

const mp_kernel mp_cpu_determinants[] = {{"Det", "", prepare, NULL}, {0}};
