/* bodies.h - lists the operators that are written once as a body for all backends (executor/kernel/body.h), one row each. Both
 * backends create their kernels from these rows. */
#pragma once

#include "executor/operators/copies/triangle.h"
#include "executor/operators/gathers/sequences.h"
#include "executor/operators/normalizations/line_normalization.h"
#include "executor/operators/reductions/determinant.h"
#include "executor/operators/reductions/running_sum.h"
#include "executor/operators/sampling/columns.h"
#include "executor/operators/sampling/sampler.h"

/* X(kind, domain, NAME, backward): the description is the struct NAME, the body is NAME_item; NAME_prepare and NAME_run
 * complete the kernel. `backward` is NAME_kernel, or NULL if the operator has no gradient. */
#define MP_BODIES(X)                              \
    X("Trilu", "", mp_trilu, mp_trilu_kernel)     \
    X("OneHot", "", mp_one_hot, NULL)             \
    X("CumSum", "", mp_cumsum, mp_cumsum_kernel)  \
    X("Col2Im", "", mp_col2im, mp_col2im_kernel)  \
    X("LpNormalization", "", mp_lp, mp_lp_kernel) \
    X("LRN", "", mp_lrn, mp_lrn_kernel)
/* Bodies whose items need workspace. NAME_prepare requests the workspace of one item. The backend multiplies these bytes by
 * MP_BODY_SLOTS(x), the number of items that run at once. */
#define MP_SLOTTED_BODIES(X) X("Det", "", mp_det, NULL)
/* Bodies whose operands may contain invalid values, such as a length beyond its axis. NAME_check reports them before the run,
 * if the backend can read the data. */
#define MP_CHECKED_BODIES(X)                                                  \
    X("ReverseSequence", "", mp_reverse_sequence, mp_reverse_sequence_kernel) \
    X("MaxRoiPool", "", mp_max_roi_pool, NULL)

/* Defines the kernel of one row of the list. The including backend must have defined MP_BODY_LOOP. */
#define MP_BODY_KERNEL(kind, domain, name, backward) MP_BODY_KERNEL_OF(name, , 1)
#define MP_SLOTTED_BODY_KERNEL(kind, domain, name, backward) MP_BODY_KERNEL_OF(name, , MP_BODY_SLOTS(x))
#define MP_CHECKED_BODY_KERNEL(kind, domain, name, backward) MP_BODY_KERNEL_OF(name, MP_BODY_CHECK(name##_check(x, err)), 1)
#define MP_BODY_KERNEL_OF(name, check, slots)                                              \
    MP_BODY_LOOP(name, name##_item)                                                        \
    static mp_status name##_call(const mp_call *call, const mp_operands *x, mp_error *err) \
    {                                                                                      \
        check;                                                                             \
        return name##_run(call, x, name##_item_loop, err);                                 \
    }                                                                                      \
    static mp_status name##_kernel(const mp_operands *x, mp_call *call, mp_error *err)     \
    {                                                                                      \
        MP_CHECK(name##_prepare(x, call, err));                                            \
        call->run = name##_call;                                                           \
        call->workspace_bytes *= slots;                                                    \
        return MP_OK;                                                                      \
    }
/* Define the kernels of all rows for a backend, and the rows of the backend's kernel table. */
#define MP_BODY_KERNELS                       \
    MP_BODIES(MP_BODY_KERNEL)                 \
    MP_SLOTTED_BODIES(MP_SLOTTED_BODY_KERNEL) \
    MP_CHECKED_BODIES(MP_CHECKED_BODY_KERNEL)
#define MP_BODY_ROW(kind, domain, name, backward) {kind, domain, name##_kernel, backward},
#define MP_BODY_ROWS MP_BODIES(MP_BODY_ROW) MP_SLOTTED_BODIES(MP_BODY_ROW) MP_CHECKED_BODIES(MP_BODY_ROW)
