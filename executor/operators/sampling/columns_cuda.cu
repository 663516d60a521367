/* columns_cuda.cu - Col2Im on the GPU: an element of the image, backward one of the columns, to a thread. */
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/sampling/columns.h"
}

namespace
{

struct summed_columns {
    mp_col2im s;
    mp_array x, y;
    int64_t size; /* of a channel of the image */
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t channel = k / size % y.dims[1], sample = k / size / y.dims[1];
        int64_t to = sample * y.strides[0] + channel * y.strides[1], left = k % size;
        for (int d = s.n - 1; d >= 0; d--) {
            to += left % s.image[d] * y.strides[d + 2];
            left /= s.image[d];
        }
        mp_store_any(y.data, y.dtype, to, mp_col2im_sum(&s, &x, sample, channel, k % size));
    }
};

struct given_columns {
    mp_col2im s;
    mp_array dy, dx;
    bool add;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t stop = k % dx.dims[2], row = k / dx.dims[2] % dx.dims[1], sample = k / dx.dims[2] / dx.dims[1];
        const int64_t to = sample * dx.strides[0] + row * dx.strides[1] + stop * dx.strides[2];
        const float old = add ? mp_load_any(dx.data, dx.dtype, to) : 0;
        mp_store_any(dx.data, dx.dtype, to, old + mp_col2im_back(&s, &dy, sample, row, stop));
    }
};

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    const mp_col2im *s = (const mp_col2im *)call->state;
    int64_t size = 1;
    for (int d = 0; d < s->n; d++) size *= s->image[d];
    if (x->is_backward)
        mp_each(mp_array_elements(&x->d_in[0]),
                given_columns{*s, x->d_out[0], x->d_in[0], (x->adds & call->adds & MP_BIT(0)) != 0});
    else
        mp_each(mp_array_elements(&x->out[0]), summed_columns{*s, x->in[0], x->out[0], size});
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    return mp_col2im_prepare(x, call, err);
}

} // namespace

extern "C" const mp_kernel mp_cuda_columns[] = {{"Col2Im", "", prepare, prepare}, {}};
