/* regions.c - which input a formal stands for, and which output a result goes to. */
#include "estimator/model/regions.h"

#include <limits.h>

mp_status mp_model_region(mp_model *model, int outer, const char *prefix, int *index, mp_error *err)
{
    size_t n = model->n_regions ? model->n_regions : 1; /* number 0 is the graph itself */
    if (n >= INT_MAX || !mp_grow(&model->regions, &model->regions_capacity, n + 1, sizeof *model->regions))
        return MP_FAIL(err, MP_NOMEM, "no memory for the subgraph '%s'", prefix);
    model->regions[n] = (mp_region){.outer = outer, .prefix = prefix};
    model->n_regions = n + 1;
    *index = (int)n;
    return MP_OK;
}

int mp_operator_explicit_inputs(const mp_model *model, const mp_operator *op)
{
    int n = op->n_in;
    for (int k = 0; k < 2; k++) n -= op->regions[k] ? model->regions[op->regions[k]].n_results : 0;
    return n;
}

int mp_operator_input_of_formal(const mp_model *model, const mp_operator *op, int k)
{
    int input = op->control == MP_CONTROL_SCAN && op->version < 9 ? k + 1 : k;
    return input < mp_operator_explicit_inputs(model, op) ? op->in[input] : -1;
}

int mp_operator_output_of_result(const mp_operator *op, int k)
{
    int output = op->control == MP_CONTROL_LOOP ? k - 1 : k;
    return output >= 0 && output < op->n_out ? op->out[output] : -1;
}
