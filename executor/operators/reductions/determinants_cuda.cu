/* determinants_cuda.cu - Det (executor/operators/reductions/determinant.h): one matrix to a thread, interleaved with those of
 * its neighbours. */
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/reductions/determinant.h"
}

namespace
{

struct eliminated {
    int rank;
    int64_t n, count, row, column; /* row, column: strides of the matrix */
    int64_t dims[MP_ARRAY_RANK], from_stride[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK];
    mp_operand from, to;
    double *room;
    MP_BODY void operator()(int64_t m) const
    {
        int64_t from_at = 0, to_at = 0, left = m;
        for (int d = rank - 1; d >= 0; d--) {
            from_at += left % dims[d] * from_stride[d];
            to_at += left % dims[d] * to_stride[d];
            left /= dims[d];
        }
        for (int64_t k = 0; k < n * n; k++) room[k * count + m] = (double)from.load(from_at + k / n * row + k % n * column);
        to.store(to_at, (float)mp_determinant(room + m, n, count));
    }
};

static mp_status run(const mp_call *, const mp_operands *x, const mp_run *, mp_error *err)
{
    const mp_array *in = &x->in[0], *out = &x->out[0];
    eliminated f = {};
    f.rank = out->rank;
    f.n = in->dims[in->rank - 1];
    f.count = mp_array_elements(out);
    f.row = in->strides[in->rank - 2];
    f.column = in->strides[in->rank - 1];
    for (int d = 0; d < out->rank; d++) {
        f.dims[d] = out->dims[d];
        f.from_stride[d] = in->strides[d];
        f.to_stride[d] = out->strides[d];
    }
    f.from = mp_input(x, 0);
    f.to = mp_output(x, 0);
    f.room = (double *)x->workspace;
    mp_each(f.count, f);
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_status st = mp_determinant_prepare(x, call, err);
    call->run = run;
    call->workspace_bytes *= mp_array_elements(&x->out[0]);
    return st;
}

} // namespace

extern "C" const mp_kernel mp_cuda_determinants[] = {{"Det", "", prepare, NULL}, {}};
