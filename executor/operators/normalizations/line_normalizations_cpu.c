/* line_normalizations_cpu.c - LpNormalization and LRN (line_normalization.h) on the CPU. */
#include "executor/operators/normalizations/line_normalization.h"

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"

MP_BODY_LOOP(mp_line_normalization, mp_lp_item)
MP_BODY_LOOP(mp_line_normalization, mp_lrn_item)

static mp_status run_lp(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)run;
    return mp_line_normalization_run(call, x, mp_lp_item_loop, err);
}

static mp_status run_lrn(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)run;
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

const mp_kernel mp_cpu_line_normalizations[] = {
    {"LpNormalization", "", prepare_lp, prepare_lp}, {"LRN", "", prepare_lrn, prepare_lrn}, {0}};
