/* on_numbers.c - a model of that operator alone, whose inputs are constants without dimensions. */
#include "estimator/simplify/on_numbers.h"

#include "estimator/model/ops.h"
#include "estimator/simplify/infer.h"

static mp_status add_number(mp_model *alone, mp_dtype dtype, double number, int *tensor, mp_error *err)
{
    const bool is_real = mp_dtype_is_float(dtype);
    mp_value *value = mp_value_new(alone, 1, is_real);
    MP_ENSURE(value, err, MP_NOMEM, "out of memory");
    if (is_real)
        value->f[0] = number;
    else
        value->i[0] = (int64_t)number;
    MP_CHECK(mp_model_fresh_tensor(alone, "number", tensor, err));
    MP_CHECK(mp_tensor_set(alone, *tensor, dtype, 0, NULL, err));
    alone->tensors[*tensor].role = MP_ROLE_CONSTANT;
    alone->tensors[*tensor].value = value;
    return MP_OK;
}

static mp_status add_operator(mp_model *alone, const mp_model *model, const mp_operator *op, const double *in, int *out,
                              mp_error *err)
{
    enum { OPERANDS = 8 };
    int operands[OPERANDS], index;
    MP_ENSURE(op->n_in <= OPERANDS && op->n_out == 1 && op->out[0] >= 0, err, MP_UNSUPPORTED, "%s '%s' has other operands",
              op->kind, op->name);
    for (int k = 0; k < op->n_in; k++) {
        operands[k] = -1;
        if (op->in[k] >= 0) MP_CHECK(add_number(alone, model->tensors[op->in[k]].dtype, in[k], &operands[k], err));
    }
    MP_CHECK(mp_model_fresh_tensor(alone, "result", out, err));
    mp_operator_draft draft = {.kind = op->kind,
                               .domain = op->domain,
                               .version = op->version,
                               .in = operands,
                               .n_in = op->n_in,
                               .out = out,
                               .n_out = 1,
                               .attributes = op->attributes,
                               .n_attributes = op->n_attributes};
    MP_CHECK(mp_model_operator(alone, &draft, &index, err));
    return mp_operator_infer(alone, index, err);
}

mp_status mp_operator_on_numbers(const mp_model *model, const mp_operator *op, const double *in, bool *known, double *out,
                                 mp_error *err)
{
    mp_model *alone = NULL;
    mp_error refused = {0};
    int result;
    *known = false;
    if (!op->op->fold) return MP_OK;
    mp_status st = mp_model_new("", "", &alone, &refused);
    if (st == MP_OK) st = add_operator(alone, model, op, in, &result, &refused);
    if (st == MP_OK) {
        const mp_value *value = alone->tensors[result].value;
        *known = value && value->n == 1;
        if (*known) *out = value->is_real ? value->f[0] : (double)value->i[0];
    }
    mp_model_free(alone);
    if (st == MP_NOMEM) return MP_FAIL(err, MP_NOMEM, "out of memory"); /* every other failure: it takes no single numbers */
    return MP_OK;
}
