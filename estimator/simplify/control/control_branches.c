/* control_branches.c - If: one branch runs where it stands, the other one goes. */
#include "estimator/simplify/control/control_branches.h"

#include "estimator/model/regions.h"
#include "estimator/simplify/control/control.h"

/* What the file declares of the operator's outputs holds for what the branch computes. */
static void hand_declarations_in(mp_inference *w, int region, const int *results, const mp_operator *op)
{
    for (int k = 0; k < op->n_out; k++) {
        mp_tensor *t = &w->model->tensors[results[k]];
        if (op->out[k] < 0 || t->producer < 0 || w->model->operators[t->producer].region != region) continue;
        const mp_tensor *declared = &w->model->tensors[op->out[k]];
        t->declared_dtype = declared->declared_dtype;
        t->declared_rank = declared->declared_rank;
        t->declared_dims = declared->declared_dims;
    }
}

mp_status mp_control_if(mp_inference *w, int index)
{
    const mp_operator op = w->model->operators[index];
    const mp_region *branches[2];
    MP_ENSURE(op.n_in > 0 && op.in[0] >= 0 && mp_operator_explicit_inputs(w->model, &op) == 1, w->err, MP_PARSE,
              "If '%s' has to have one input, its condition", op.name);
    for (int k = 0; k < 2; k++) {
        branches[k] = &w->model->regions[op.regions[k]];
        MP_ENSURE(branches[k]->n_formals == 0, w->err, MP_PARSE,
                  "the subgraph '%s' of If '%s' has %d inputs, and a branch has none", branches[k]->prefix, op.name,
                  branches[k]->n_formals);
        MP_ENSURE(branches[k]->n_results == op.n_out, w->err, MP_PARSE,
                  "the subgraph '%s' of If '%s' has %d outputs, and the operator has %d", branches[k]->prefix, op.name,
                  branches[k]->n_results, op.n_out);
    }
    const mp_tensor *condition = &w->model->tensors[op.in[0]];
    if (!condition->value) return mp_inference_dynamic(w, index, "its condition", op.in[0]);
    MP_ENSURE(condition->value->n == 1 && !condition->value->is_real, w->err, MP_PARSE,
              "the condition of If '%s' is no single boolean", op.name);
    const int chosen = condition->value->i[0] ? 0 : 1;
    const int *results = branches[chosen]->results;
    mp_control_drop(w, op.regions[1 - chosen]);
    hand_declarations_in(w, op.regions[chosen], results, &op);
    MP_CHECK(mp_control_enter(w, op.regions[chosen]));
    mp_inference_remove(w, index);
    for (int k = 0; k < op.n_out; k++)
        if (op.out[k] >= 0) MP_CHECK(mp_inference_alias(w, results[k], op.out[k]));
    return MP_OK;
}
