/* inference_form.c - counts operators in inference mode, and converts batch normalization to arithmetic with fixed
 * statistics. */
#include "estimator/simplify/inference_form.h"

#include <string.h>

#include "estimator/model/model.h"
#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"

static bool is_kind(const mp_operator *op, const char *kind)
{
    return !op->removed && !*op->domain && !strcmp(op->kind, kind);
}

/* True for a batch normalization in inference mode. Since version 14 the attribute training_mode states the mode,
 * before version 7 is_test. In versions 7 to 13 the mode is inference if the operator writes no updated statistics. */
static bool is_inference_norm(const mp_operator *op)
{
    if (!is_kind(op, "BatchNormalization")) return false;
    if (op->version >= 14) return !mp_operator_int(op, "training_mode", 0);
    if (op->version < 7) return mp_operator_int(op, "is_test", 0) != 0;
    for (int k = 1; k < op->n_out; k++)
        if (op->out[k] >= 0) return false;
    return true;
}

static double first_number(const mp_tensor *t, double otherwise)
{
    if (!t || !t->value || t->value->n < 1) return otherwise;
    return t->value->is_real ? t->value->f[0] : (double)t->value->i[0];
}

/* True if a dropout is disabled. In versions 7 to 11 the file does not state whether it is; the function then returns false. */
static bool is_idle_dropout(const mp_model *model, const mp_operator *op)
{
    if (!is_kind(op, "Dropout")) return false;
    if (op->version < 12)
        return op->version < 7 && mp_operator_int(op, "is_test", 0) && mp_operator_float(op, "ratio", 0.5) > 0;
    bool off = op->n_in < 3 || op->in[2] < 0 || first_number(mp_operator_in(model, op, 2), 1) == 0;
    return off && first_number(op->n_in > 1 ? mp_operator_in(model, op, 1) : NULL, 0.5) > 0;
}

static bool is_softmax_of_rows(const mp_model *model, const mp_operator *op)
{
    if (op->removed || (strcmp(op->kind, "Softmax") != 0 && strcmp(op->kind, "SafeSoftmax") != 0)) return false;
    const mp_tensor *x = mp_operator_in(model, op, 0);
    const int64_t axis = mp_operator_int(op, "axis", op->version < 13 ? 1 : -1);
    return x && x->rank >= 3 && (axis == -1 || axis == x->rank - 1);
}

/* True if the operator reads the result of a softmax over the last dimension. Between them there may be a conversion, or a
 * Where that writes zeros to masked rows. */
static bool reads_softmax_of_rows(const mp_model *model, const mp_operator *op)
{
    for (int tensor = op->in[0]; tensor >= 0 && model->tensors[tensor].producer >= 0;) {
        const mp_operator *from = &model->operators[model->tensors[tensor].producer];
        if (is_softmax_of_rows(model, from)) return true;
        const bool is_choice = is_kind(from, "Where");
        if (!is_choice && !is_kind(from, "Cast") && !is_kind(from, "Identity")) return false;
        tensor = from->in[is_choice ? 2 : 0];
    }
    return false;
}

mp_inference_form mp_model_inference_form(const mp_model *model)
{
    mp_inference_form form = {.folded_norms = model->folded_norms, .may_lose = model->is_of_newer_exporter};
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        const bool is_dropout = is_kind(op, "Dropout"), is_idle = is_idle_dropout(model, op);
        form.norms += is_inference_norm(op);
        form.dropouts += is_idle;
        form.has_dropout |= is_dropout;
        form.has_softmax |= is_softmax_of_rows(model, op);
        form.drops_rows |= is_dropout && !is_idle && reads_softmax_of_rows(model, op);
    }
    return form;
}

mp_guesses mp_model_guesses(const mp_model *model)
{
    mp_guesses guesses = {0};
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        guesses.formulas += !op->removed && op->guess == MP_GUESS_FORMULA;
        guesses.loop_operators += !op->removed && op->guess == MP_GUESS_LOOP;
    }
    return guesses;
}

/* The state of replacing one batch normalization by arithmetic operators. */
typedef struct writer {
    mp_model *model;
    const char *name; /* name of the replaced operator, which is the prefix of new names */
    int version;
    mp_error *err;
} writer;

/* Adds an operator with the inputs a and b; with b < 0, a is its only input. The operator's output is the tensor *out. If *out
 * is -1, the function adds a tensor for the output and sets *out to it. */
static mp_status put(writer *w, const char *kind, int a, int b, int *out)
{
    const int in[] = {a, b};
    mp_operator_draft draft = mp_draft(kind, "", w->version, in, b < 0 ? 1 : 2, NULL, 0);
    draft.name = w->name;
    return mp_operator_put(w->model, draft, w->name, out, w->err);
}

/* Reshapes a vector with one element per channel to (C, 1, 1), so that it broadcasts over x. */
static mp_status put_channels(writer *w, int vector, const mp_tensor *x, int *out)
{
    const int64_t rank = x->rank - 1;
    mp_value *shape;
    int sizes;
    *out = vector;
    if (x->rank < 3) return MP_OK;
    MP_CHECK(mp_model_constant(w->model, w->name, MP_DTYPE_INT64, 1, &rank, &sizes, &shape, w->err));
    for (int64_t d = 0; d < rank; d++) shape->i[d] = d ? 1 : x->dims[1];
    *out = -1;
    return put(w, "Reshape", vector, sizes, out);
}

static mp_status replace(mp_model *model, size_t index, mp_error *err)
{
    const mp_operator op = model->operators[index];
    writer w = {.model = model, .name = op.name, .version = op.version, .err = err};
    const mp_tensor x = *mp_operator_in(model, &op, 0);
    mp_value *epsilon;
    int small, shifted = -1, deviation = -1, factor = -1, moved = -1, shift = -1, scaled = -1, y = op.out[0];
    model->operators[index].removed = true;
    model->tensors[y].producer = -1;
    MP_CHECK(mp_model_constant(model, op.name, MP_DTYPE_FLOAT, 1, (const int64_t[]){1}, &small, &epsilon, err));
    epsilon->f[0] = mp_operator_float(&op, "epsilon", 1e-5f);
    MP_CHECK(put(&w, "Add", op.in[4], small, &shifted));
    MP_CHECK(put(&w, "Sqrt", shifted, -1, &deviation));
    MP_CHECK(put(&w, "Div", op.in[1], deviation, &factor));
    MP_CHECK(put(&w, "Mul", op.in[3], factor, &moved));
    MP_CHECK(put(&w, "Sub", op.in[2], moved, &shift));
    MP_CHECK(put_channels(&w, factor, &x, &factor));
    MP_CHECK(put_channels(&w, shift, &x, &shift));
    MP_CHECK(put(&w, "Mul", op.in[0], factor, &scaled));
    return put(&w, "Add", scaled, shift, &y);
}

mp_status mp_model_keep_inference_norms(mp_model *model, mp_error *err)
{
    const size_t n = model->n_operators;
    for (size_t k = 0; k < n; k++)
        if (is_inference_norm(&model->operators[k])) MP_CHECK(replace(model, k, err));
    if (model->n_operators == n) return MP_OK;
    MP_CHECK(mp_model_sort(model, err));
    return mp_model_infer(model, err);
}
