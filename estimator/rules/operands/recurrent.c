/* recurrent.c - the sizes of recurrent layers, read off X and R. */
#include "estimator/rules/operands/recurrent.h"

mp_recurrent mp_recurrent_read(const mp_model *model, const mp_operator *op)
{
    const mp_tensor *x = mp_operator_in(model, op, 0), *r = mp_operator_in(model, op, 2);
    bool batch_first = mp_operator_int(op, "layout", 0) != 0;
    return (mp_recurrent){.n_steps = x->dims[batch_first ? 1 : 0],
                          .batch = x->dims[batch_first ? 0 : 1],
                          .input = x->dims[2],
                          .n_directions = r->dims[0],
                          .hidden = r->dims[2],
                          .gates = r->dims[2] > 0 ? r->dims[1] / r->dims[2] : 0,
                          .batch_first = batch_first};
}
