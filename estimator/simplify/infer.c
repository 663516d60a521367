/* infer.c - infers all operators in one pass: finds the registry row, checks the arity, and applies the shape rule (or the
 * declared shape) and the fold rule. */
#include "estimator/simplify/infer.h"

#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/model/ops_rules.h"
#include "estimator/model/order.h"
#include "estimator/model/requirement.h"
#include "estimator/model/shape_rule.h"
#include "estimator/rules/fold/fold.h"
#include "estimator/simplify/control/control.h"

/* Maximum number of elements that folding computes per model. It suffices for a hundred tables of position embeddings of the
 * largest size. The limit protects time and memory from a hostile file. */
enum { FOLD_BUDGET = 1 << 24, FOLD_SMALL = 1 << 10 };
/* Maximum number of operators that all searches for declared shapes together may visit in a model. */
enum { AHEAD_BUDGET = 1 << 20 };

/* Checks the inputs and outputs of an operator against its row: their number, that required ones are not omitted, and that
 * shapes are known. */
static mp_status check_operands(const mp_model *model, const mp_operator *op, mp_error *err)
{
    const mp_op *row = op->op;
    if (op->n_in < row->min_in || (row->max_in >= 0 && op->n_in > row->max_in))
        return MP_FAIL(err, MP_PARSE, "%s '%s' has %d inputs", op->kind, op->name, op->n_in);
    if (op->n_out < row->min_out || (row->max_out >= 0 && op->n_out > row->max_out))
        return MP_FAIL(err, MP_PARSE, "%s '%s' has %d outputs", op->kind, op->name, op->n_out);
    for (int k = 0; k < op->n_in; k++) {
        const mp_tensor *t = mp_operator_in(model, op, k);
        if (!t && (k < row->min_in || row->max_in < 0))
            return MP_FAIL(err, MP_PARSE, "%s '%s' lacks its input %d", op->kind, op->name, k);
        MP_ENSURE(!t || !t->sequence, err, MP_UNSUPPORTED,
                  "%s '%s' reads the sequence '%s', but it is supported on tensors only", op->kind, op->name, t->name);
        MP_ENSURE(!t || t->rank >= 0, err, MP_UNSUPPORTED, "the shape of '%s', which %s '%s' reads, is unknown", t->name,
                  op->kind, op->name);
    }
    for (int k = 0; k < row->min_out; k++)
        if (!mp_operator_out(model, op, k)) return MP_FAIL(err, MP_PARSE, "%s '%s' lacks its output %d", op->kind, op->name, k);
    return MP_OK;
}

static bool is_declared(const mp_tensor *t)
{
    for (int d = 0; d < t->declared_rank; d++)
        if (t->declared_dims[d] < 0) return false;
    return t->declared_rank >= 0;
}

/* True if the operator's first output has the shape that all marked tensors share. This is so if the operator is elementwise
 * and reads only marked tensors and scalars. */
static bool keeps_shape(const mp_model *model, const mp_operator *op, const bool *marked)
{
    const mp_op *row = mp_op_find(op->domain, op->kind, op->version);
    if (!row || op->n_in < 1 || op->n_out < 1 || op->out[0] < 0) return false;
    if (row->shape == mp_shape_same || row->shape == mp_shape_cast || row->shape == mp_shape_predicate)
        return op->in[0] >= 0 && marked[op->in[0]];
    if (row->shape != mp_shape_broadcast && row->shape != mp_shape_compare) return false;
    bool keeps = false;
    for (int k = 0; k < op->n_in; k++) {
        const mp_tensor *t = mp_operator_in(model, op, k);
        if (!t || (!marked[op->in[k]] && t->rank != 0)) return false;
        keeps = keeps || marked[op->in[k]];
    }
    return keeps;
}

/* Finds a declared shape for output t of operator `index`. If elementwise operators derive a later tensor with a declared shape
 * from t, this shape is also the shape of t. NULL: no shape is found. */
static mp_status declared_downstream(mp_inference *w, size_t index, int t, const mp_tensor **declared)
{
    MP_OWNED bool *marked = mp_alloc(w->model->n_tensors, sizeof *marked);
    MP_ENSURE(marked, w->err, MP_NOMEM, "out of memory");
    marked[t] = true;
    *declared = NULL;
    w->steps_ahead -=
        (int64_t)w->model->n_tensors / 64; /* the limit of visited operators also covers the time to mark tensors */
    for (size_t k = index + 1; k < w->model->n_operators && w->steps_ahead > 0 && !*declared; k++, w->steps_ahead--) {
        const mp_operator *op = &w->model->operators[k];
        if (op->removed || op->region) continue;
        if (op->n_in == 0 && !mp_is_sequence_operator(op))
            MP_CHECK(w->visit(w, (int)k)); /* an operator without inputs is a constant; its shape must be known before
                                              keeps_shape checks whether it is a scalar */
        if (!keeps_shape(w->model, op, marked)) continue;
        marked[op->out[0]] = true;
        if (is_declared(&w->model->tensors[op->out[0]])) *declared = &w->model->tensors[op->out[0]];
    }
    return MP_OK;
}

/* Sets the shape of an output for which the shape rule found none. Uses the declared shape of the output, or of a later
 * tensor with the same shape. */
static mp_status use_declared(mp_inference *w, mp_infer *c, int k)
{
    mp_tensor *t = mp_infer_out(c, k), *first = mp_infer_in(c, 0);
    const mp_tensor *declared = t;
    mp_dtype dtype = t->dtype;
    if (dtype == MP_DTYPE_UNDEFINED) dtype = t->declared_dtype;
    if (dtype == MP_DTYPE_UNDEFINED && first) dtype = first->dtype;
    if (!is_declared(t)) MP_CHECK(declared_downstream(w, (size_t)(c->op - w->model->operators), c->op->out[k], &declared));
    MP_ENSURE(declared || c->missing_value >= 0, c->err, MP_UNSUPPORTED,
              "the shape of '%s', output %d of %s '%s', cannot be derived and is not declared", t->name, k, c->op->kind,
              c->op->name);
    MP_ENSURE(declared, c->err, MP_UNSUPPORTED,
              "the shape of '%s', written by %s '%s', depends on the value of '%s', which is known only at run time, and is "
              "not declared",
              t->name, c->op->kind, c->op->name, c->model->tensors[c->missing_value].name);
    return mp_infer_set(c, k, dtype, declared->declared_rank, declared->declared_dims);
}

/* True if the output shares a value instead of copying it: a view shares the value of its input, a constant the value of its
 * attribute. */
static bool shares_value(const mp_operator *op)
{
    const mp_attribute *a = op->n_in ? NULL : mp_operator_attribute(op, "value");
    return op->op->gradient == MP_GRADIENT_VIEW || (a && a->kind == MP_ATTRIBUTE_TENSOR);
}

/* Applies the fold rule of an operator. Conditions: the row has a fold rule, the limit of computed elements permits it, and the
 * required values are known. Every output is small enough to be stored, except that a constant of any size is permitted,
 * because its value is stored already. Most rules require the values of all inputs. A cast requires the value of the first
 * input only, and a rule that reads only shapes requires none. Stops at an omitted output, because the position of later
 * outputs is then unknown. */
static mp_status fold(mp_inference *w, mp_infer *c)
{
    const mp_op *row = c->op->op;
    const int n_read = row->traits & MP_TRAIT_OF_SHAPE ? 0 : row->traits & MP_TRAIT_CASTS ? 1 : c->op->n_in;
    int64_t visits = 1;
    if (!row->fold) return MP_OK;
    for (int k = 0; k < c->op->n_out; k++) {
        const mp_tensor *t = mp_infer_out(c, k);
        if (!t) continue;
        if (!mp_fold_can_hold(t->dtype)) return MP_OK;
        if (mp_tensor_elements(t) > MP_VALUE_MAX && (c->op->n_in || !shares_value(c->op))) return MP_OK;
        visits += mp_tensor_elements(t);
    }
    for (int k = 0; k < c->op->n_in; k++) {
        const mp_tensor *t = mp_infer_in(c, k);
        if (t && t->value) visits += t->value->n;
    }
    /* half of the limit is reserved for small tensors, such as computed shapes; large tables cannot use it up */
    int64_t reserved = visits > FOLD_SMALL ? FOLD_BUDGET / 2 : 0;
    if (visits > w->fold_budget - reserved) return MP_OK;
    w->fold_budget -= visits;
    for (int k = 0; k < n_read; k++)
        if (mp_infer_in(c, k) && !mp_fold_in(c, k)) return MP_OK;
    mp_fold f = {.c = c, .in = mp_infer_in(c, 0), .out = mp_infer_out(c, 0), .x = n_read ? mp_fold_in(c, 0) : NULL};
    for (int k = 0; k < c->op->n_out && mp_infer_out(c, k) && !shares_value(c->op); k++) {
        mp_tensor *t = mp_infer_out(c, k);
        t->value = mp_value_new(c->model, mp_tensor_elements(t), mp_dtype_is_float(t->dtype));
        MP_ENSURE(t->value, c->err, MP_NOMEM, "no memory for the value of '%s'", t->name);
    }
    f.y = f.out->value;
    const bool is_defined = row->fold(&f);
    for (int k = 0; k < c->op->n_out && !is_defined; k++)
        if (mp_infer_out(c, k)) mp_infer_out(c, k)->value = NULL;
    return MP_OK;
}

/* Infers an operator for which the registry has a row. */
static mp_status infer_row(mp_inference *w, int index)
{
    mp_infer c = {.model = w->model, .op = &w->model->operators[index], .err = w->err, .missing_value = -1};
    bool derived = true;
    MP_CHECK(mp_operator_find_row(c.op, w->err));
    MP_CHECK(check_operands(w->model, c.op, w->err));
    MP_CHECK(mp_requirements_check(&c));
    for (int k = 0; k < c.op->n_out; k++) {
        mp_tensor *t = mp_infer_out(&c, k);
        if (!t) continue;
        t->rank = -1;
        t->dtype = MP_DTYPE_UNDEFINED;
        t->value = NULL;
    }
    MP_CHECK(c.op->op->shape(&c));
    for (int k = 0; k < c.op->n_out; k++) {
        const mp_tensor *t = mp_infer_out(&c, k);
        if (!t || t->rank >= 0) continue;
        MP_CHECK(use_declared(w, &c, k));
        derived = false;
    }
    /* an operator whose shape was taken from the file is not folded, because this shape may contradict its operands */
    if (derived) MP_CHECK(fold(w, &c));
    return MP_OK;
}

/* True if the output of the operator is the same sequence as its input. Example: an Identity of a sequence. */
static bool hands_sequence_on(const mp_inference *w, const mp_operator *op)
{
    return !strcmp(op->kind, "Identity") && op->n_in == 1 && op->n_out == 1 && op->in[0] >= 0 && op->out[0] >= 0 &&
           w->model->tensors[op->in[0]].sequence;
}

static mp_status visit(mp_inference *w, int index)
{
    const mp_operator op = w->model->operators[index];
    switch (op.control) {
    case MP_CONTROL_IF:
        return mp_control_if(w, index);
    case MP_CONTROL_LOOP:
        return mp_control_loop(w, index);
    case MP_CONTROL_SCAN:
        return mp_control_scan(w, index);
    default:
        break;
    }
    if (mp_is_sequence_operator(&op)) return mp_sequence_resolve(w, index);
    if (mp_is_attention_operator(&op)) return mp_attention_expand(w, index);
    if (!hands_sequence_on(w, &op)) return infer_row(w, index);
    mp_inference_remove(w, index);
    return mp_inference_alias(w, op.in[0], op.out[0]);
}

static mp_status check_outputs(const mp_model *model, mp_error *err)
{
    for (size_t k = 0; k < model->n_outputs; k++)
        if (model->tensors[model->outputs[k]].sequence)
            return MP_FAIL(err, MP_UNSUPPORTED, "output '%s' is a sequence, but only tensors are supported",
                           model->tensors[model->outputs[k]].name);
    return MP_OK;
}

mp_status mp_operator_infer(mp_model *model, int op, mp_error *err)
{
    mp_inference w = {.model = model, .visit = visit, .fold_budget = FOLD_BUDGET, .steps_ahead = AHEAD_BUDGET, .err = err};
    return visit(&w, op);
}

mp_status mp_operator_put(mp_model *model, mp_operator_draft draft, const char *stem, int *out, mp_error *err)
{
    int index;
    if (*out < 0) MP_CHECK(mp_model_fresh_tensor(model, stem, out, err));
    draft.out = out;
    draft.n_out = 1;
    MP_CHECK(mp_model_operator(model, &draft, &index, err));
    return mp_operator_infer(model, index, err);
}

mp_status mp_operator_split(mp_model *model, int tensor, int axis, const int64_t *sizes, int n, int *parts, mp_error *err)
{
    const mp_attribute attributes[] = {mp_attribute_int("axis", axis), mp_attribute_ints("split", sizes, (size_t)n)};
    mp_operator_draft draft = mp_draft("Split", "", 11, &tensor, 1, attributes, 2);
    int index;
    for (int k = 0; k < n; k++) {
        const char *name = mp_pool_format(model->pool, "%s:%d", model->tensors[tensor].name, k);
        MP_ENSURE(name, err, MP_NOMEM, "out of memory");
        MP_CHECK(mp_model_fresh_tensor(model, name, &parts[k], err));
    }
    draft.out = parts;
    draft.n_out = n;
    MP_CHECK(mp_model_operator(model, &draft, &index, err));
    return mp_operator_infer(model, index, err);
}

mp_status mp_model_infer(mp_model *model, mp_error *err)
{
    const size_t n = model->n_operators;
    bool changed =
        false; /* true if an operator was added after an operator that reads its output; the model must then be sorted again */
    MP_CLEARED_BY(mp_control_free)
    mp_inference w = {.model = model, .visit = visit, .fold_budget = FOLD_BUDGET, .steps_ahead = AHEAD_BUDGET, .err = err};
    MP_CHECK(mp_model_check_supported(model, err));
    MP_CHECK(mp_control_start(&w));
    for (size_t k = 0; k < n; k++) {
        const mp_operator *op = &model->operators[k];
        if (op->removed || op->region) continue;
        changed |= op->control || mp_is_sequence_operator(op) || mp_is_attention_operator(op);
        MP_CHECK(visit(&w, (int)k));
    }
    if (!changed) return MP_OK;
    MP_CHECK(check_outputs(model, err));
    MP_CHECK(mp_control_finish(&w));
    return mp_model_sort(model, err);
}

/* Adds a scalar constant as an input for the model `alone`, which contains a single operator. */

static mp_status add_number(mp_model *alone, mp_dtype dtype, double number, int *tensor, mp_error *err)
{
    mp_value *value;
    MP_CHECK(mp_model_constant(alone, "number", dtype, 0, NULL, tensor, &value, err));
    if (value->is_real)
        value->f[0] = number;
    else
        value->i[0] = (int64_t)number;
    return MP_OK;
}

static mp_status add_operator(mp_model *alone, const mp_model *model, const mp_operator *op, const double *in, int *out,
                              mp_error *err)
{
    enum { OPERANDS = 8 };
    int operands[OPERANDS];
    MP_ENSURE(op->n_in <= OPERANDS && op->n_out == 1 && op->out[0] >= 0, err, MP_UNSUPPORTED,
              "%s '%s' has operands of another kind", op->kind, op->name);
    for (int k = 0; k < op->n_in; k++) {
        operands[k] = -1;
        if (op->in[k] >= 0) MP_CHECK(add_number(alone, model->tensors[op->in[k]].dtype, in[k], &operands[k], err));
    }
    *out = -1;
    return mp_operator_put(alone, mp_draft_like(op, operands, op->n_in), "result", out, err);
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
    if (st == MP_NOMEM)
        return MP_FAIL(
            err, MP_NOMEM,
            "out of memory"); /* any other failure means that the operator does not accept scalars, so *known stays false */
    return MP_OK;
}
