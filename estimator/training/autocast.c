/* autocast.c - decides which operators autocast runs in 16 bits and which in float32, and inserts the casts.
 *
 * The entry AUTOCAST of ops.def states the behaviour of an operator. LOW casts operands to 16 bits and writes 16 bits. FULL
 * casts operands to float32. WIDENED reads operands of any type and writes float32. Other operators do not cast. Elementwise
 * operators with several operands write the widest operand type, as in PyTorch's type promotion (scalars do not count). The
 * rest write the type of their first operand. */
#include "estimator/training/autocast.h"

#include <stdio.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"

typedef struct caster {
    mp_model *model;
    mp_dtype low;
    bool shares_all, gathers_low;
    int *copy; /* per original tensor: 1 + the index of its shared copy in the other type; 0: it has no such copy */
    size_t n_tensors;
    mp_error *err;
} caster;

bool mp_casts_parameter(const mp_model *model, const mp_operator *op)
{
    return op->op->traits & MP_TRAIT_CASTS && op->in[0] >= 0 && model->tensors[op->in[0]].role == MP_ROLE_PARAMETER;
}

/* True if the tensor is a parameter or a view of a parameter. */
static bool is_parameter(const mp_model *model, int tensor)
{
    for (const mp_tensor *t = &model->tensors[tensor];; t = &model->tensors[tensor]) {
        if (t->producer < 0) return t->role == MP_ROLE_PARAMETER;
        const mp_operator *op = &model->operators[t->producer];
        if (op->op->gradient != MP_GRADIENT_VIEW || op->in[0] < 0) return false;
        tensor = op->in[0];
    }
}

/* Casts an operand to type `to` by replacing it with a copy. Only operands of the types `low` and FLOAT are cast. */
static mp_status cast_operand(caster *c, int index, int k, mp_dtype to)
{
    const int from = c->model->operators[index].in[k];
    if (from < 0) return MP_OK;
    const mp_tensor *t = &c->model->tensors[from];
    const mp_dtype other = to == MP_DTYPE_FLOAT ? c->low : MP_DTYPE_FLOAT;
    if (t->dtype != other) return MP_OK;
    if (c->gathers_low && to == c->low && is_parameter(c->model, from))
        return MP_OK; /* no cast is needed, because ranks gather this parameter in type `to` */
    const bool is_shared = (c->shares_all || t->role == MP_ROLE_PARAMETER) && (size_t)from < c->n_tensors;
    int copy = is_shared ? c->copy[from] - 1 : -1;
    if (copy < 0) {
        const mp_attribute type = mp_attribute_int("to", to);
        char name[512];
        snprintf(name, sizeof name, "%s:%s", t->name, mp_dtype_name(to));
        mp_operator_draft draft = mp_draft("Cast", "", 13, &from, 1, &type, 1);
        draft.name = name;
        MP_CHECK(mp_operator_put(c->model, draft, name, &copy, c->err));
        if (is_shared) c->copy[from] = copy + 1;
    }
    c->model->operators[index].in[k] = copy;
    return MP_OK;
}

static bool promotes(const mp_op *op)
{
    return op->shape == mp_shape_broadcast || op->shape == mp_shape_where || op->shape == mp_shape_concat;
}

/* Returns the output type that autocast gives an operator that is on no autocast list. It depends on the types of the
 * operands. The function is called for operators with float32 outputs. */
static mp_dtype passed_type(const caster *c, const mp_operator *op)
{
    bool is_low = false;
    if (op->op->traits & MP_TRAIT_CASTS) return MP_DTYPE_FLOAT;
    for (int k = 0; k < (promotes(op->op) ? op->n_in : 1) && k < op->n_in; k++) {
        const mp_tensor *t = op->in[k] >= 0 ? &c->model->tensors[op->in[k]] : NULL;
        if (t && t->dtype == MP_DTYPE_FLOAT && t->rank > 0) return MP_DTYPE_FLOAT;
        is_low |= t && t->dtype == c->low;
    }
    return is_low ? c->low : MP_DTYPE_FLOAT;
}

static mp_status visit(caster *c, int index)
{
    const mp_op *row = c->model->operators[index].op;
    const int n_in = c->model->operators[index].n_in;
    mp_dtype type = row->autocast == MP_AUTOCAST_LOW ? c->low : MP_DTYPE_FLOAT;
    if (row->autocast == MP_AUTOCAST_NONE) type = passed_type(c, &c->model->operators[index]);
    const bool casts = row->autocast == MP_AUTOCAST_LOW || row->autocast == MP_AUTOCAST_FULL || row->shape == mp_shape_concat;
    for (int k = 0; casts && k < n_in; k++) MP_CHECK(cast_operand(c, index, k, type));
    const mp_operator *op = &c->model->operators[index];
    for (int o = 0; type == c->low && o < op->n_out; o++)
        if (op->out[o] >= 0 && c->model->tensors[op->out[o]].dtype == MP_DTYPE_FLOAT)
            c->model->tensors[op->out[o]].dtype = type;
    return MP_OK;
}

mp_status mp_model_autocast(mp_model *model, const mp_training_options *options, mp_error *err)
{
    const size_t n_operators = model->n_operators;
    MP_OWNED int *copy = mp_alloc(model->n_tensors, sizeof *copy);
    caster c = {.copy = copy,
                .model = model,
                .low = options->amp,
                .shares_all = options->rules == MP_RULES_EXECUTOR,
                .gathers_low = options->gathers_low,
                .n_tensors = model->n_tensors,
                .err = err};
    MP_ENSURE(copy, err, MP_NOMEM, "no memory to cast %zu tensors", model->n_tensors);
    for (size_t k = 0; k < n_operators; k++)
        if (!model->operators[k].removed) MP_CHECK(visit(&c, (int)k));
    return mp_model_sort(model, err); /* sorting moves each cast before the first operator that reads it */
}
