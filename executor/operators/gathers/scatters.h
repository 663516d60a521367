/* scatters.h - operators that place updates into a copy of their data: Scatter, ScatterElements, ScatterND. For every backend.
 *
 * Where several updates name one element, they meet it in their order (without a reduction the last one stays). Gradients of
 * plain scattering and of adding: the updates' is gathered, the data's is the output's, with zeros where an update took the
 * place. Those of the other reductions are in scatter_shares.h.
 */
#pragma once

#include "executor/operators/gathers/index_lines.h"
#include "executor/operators/gathers/meeting.h"
#include "executor/operators/gathers/row_entries.h"

/* `state` of their calls. */
typedef struct mp_scatter {
    mp_meeting how;
    int axis; /* of lines */
    bool by_rows;
    mp_row_entries rows;
    int64_t rescue_at[3]; /* where in the workspace an operand is saved that may lie where the output will; -1: it cannot */
    int64_t shares_at;    /* where in the workspace mp_scatter_parts lie, backward of reductions but addition */
    int64_t own_at;       /* where in the workspace the backend's own part begins */
} mp_scatter;

/* What backward of those reductions computes on the way, in the workspace: in the layout of the table, and of the updates. */
typedef struct mp_scatter_parts {
    mp_array results, marks;                                        /* FLOAT */
    mp_array update_results, update_marks, update_parts, update_dy; /* the last one of the type of the output's gradient */
} mp_scatter_parts;
mp_scatter_parts mp_scatter_parts_of(const mp_scatter *s, const mp_operands *x);

/* Operand i; its data lies in the workspace, where the caller copies it to, if the output is about to overwrite it. */
static inline mp_array mp_scatter_operand(const mp_scatter *s, const mp_operands *x, int i)
{
    mp_array a = x->in[i];
    if (s->rescue_at[i] >= 0 && a.data == x->out[0].data) a.data = (char *)x->workspace + s->rescue_at[i];
    return a;
}

/* An mp_scatter becomes the call's state, and the room for operands that have to be saved its workspace, of own_at bytes; `run`
 * is the backend's. MP_UNSUPPORTED as mp_indices_check, or a reduction that this type, or the gradient, does not
 * have; MP_INVALID: shapes that do not fit; MP_NOMEM. */
mp_status mp_scatter_elements_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_scatter_nd_prepare(const mp_operands *x, mp_call *call, mp_error *err);
