/* line_normalizations_cuda.cu - LpNormalization and LRN (line_normalization.h) on the GPU: a line to a thread. */
#include "executor/cuda/grid/bodies.cuh"

#include "executor/cuda/grid/families.h"

extern "C" {
#include "executor/operators/normalizations/line_normalization.h"
}

namespace
{

MP_BODY_LOOP(mp_line_normalization, mp_lp_item)
MP_BODY_LOOP(mp_line_normalization, mp_lrn_item)

static mp_status run_lp(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    return mp_line_normalization_run(call, x, mp_lp_item_loop, err);
}

static mp_status run_lrn(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    return mp_line_normalization_run(call, x, mp_lrn_item_loop, err);
}

static mp_status prepare_lp(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_lp;
    return mp_lp_prepare(x, call, err);
}

static mp_status prepare_lrn(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_lrn;
    return mp_lrn_prepare(x, call, err);
}

} // namespace

extern "C" const mp_kernel mp_cuda_line_normalizations[] = {
    {"LpNormalization", "", prepare_lp, prepare_lp}, {"LRN", "", prepare_lrn, prepare_lrn}, {}};
