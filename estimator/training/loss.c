/* loss.c - the loss of a model: its own, or one appended to an output. */
#include "estimator/training/autocast.h"
#include "estimator/training/loss_forms.h"
#include "estimator/training/training.h"
#include "memplan/simplify.h"

#include <stdio.h>

/* Which tensors depend on a parameter. */
static void mark_trained(const mp_model *model, bool *trained)
{
    for (size_t t = 0; t < model->n_tensors; t++) trained[t] = model->tensors[t].role == MP_ROLE_PARAMETER;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (op->removed || op->op->gradient == MP_GRADIENT_NONE) continue;
        bool any = false;
        for (int i = 0; i < op->n_in; i++) any |= op->in[i] >= 0 && trained[op->in[i]];
        for (int o = 0; any && o < op->n_out; o++)
            if (op->out[o] >= 0) trained[op->out[o]] = true;
    }
}

/* A loss is one number whatever the batch: of rank 0, or declared with a fixed single element. */
static bool is_scalar(const mp_tensor *t)
{
    return mp_dtype_is_float(t->dtype) &&
           (t->rank == 0 || (t->rank == 1 && t->dims[0] == 1 && t->declared_rank == 1 && t->declared_dims[0] == 1));
}

/* Whether cross-entropy makes sense: scores of two classes or more. Images of one channel and lists of numbers are regression.
 */
static bool has_classes(const mp_tensor *t)
{
    return t->rank >= 2 && t->dims[t->rank == 3 ? 2 : 1] > 1;
}

/* Options of another loss are a mistake. */
static mp_status check_options(const mp_loss_options *o, mp_loss loss, mp_error *err)
{
    const bool classes = o->label_smoothing != 0 || o->ignore_index || o->class_weights;
    MP_ENSURE(!classes || loss == MP_LOSS_CROSS_ENTROPY, err, MP_INVALID,
              "label smoothing, an ignored index and class weights are for the loss cross-entropy, and this is %s",
              loss == MP_LOSS_AUTO ? "the model's own" : mp_loss_name(loss));
    MP_ENSURE(!o->pos_weight || loss == MP_LOSS_BCE, err, MP_INVALID,
              "a weight of positives is for the loss bce, and this is %s",
              loss == MP_LOSS_AUTO ? "the model's own" : mp_loss_name(loss));
    MP_ENSURE(o->beta == 0 || loss == MP_LOSS_SMOOTH_L1 || loss == MP_LOSS_HUBER, err, MP_INVALID,
              "beta is for the losses smooth-l1 and huber, and this is %s",
              loss == MP_LOSS_AUTO ? "the model's own" : mp_loss_name(loss));
    MP_ENSURE(o->label_smoothing >= 0 && o->label_smoothing <= 1, err, MP_INVALID,
              "the label smoothing is %g, and it is a share between 0 and 1", o->label_smoothing);
    MP_ENSURE(o->beta >= 0, err, MP_INVALID, "beta is %g, and it is a number over 0", o->beta);
    return MP_OK;
}

/* The floating-point values of the file that were not taken for parameters, which --train would make of them. */
static const char *not_taken(const mp_model *model, char text[320])
{
    enum { NAMES = 3 };
    size_t n = 0, used = 0;
    char names[192] = "";
    for (size_t t = 0; t < model->n_tensors; t++) {
        const mp_tensor *x = &model->tensors[t];
        const bool is_state = x->role == MP_ROLE_CONSTANT || x->role == MP_ROLE_BUFFER;
        if (!is_state || x->producer >= 0 || !x->role_reason || !mp_dtype_is_float(x->dtype)) continue;
        if (n++ < NAMES && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s'%.60s'", used ? ", " : "", x->name);
    }
    *text = 0;
    if (n)
        snprintf(text, 320, "; not taken for parameters: %s%s (--train NAME makes one a parameter)", names,
                 n > NAMES ? ", ..." : "");
    return text;
}

mp_status mp_model_add_loss(mp_model *model, const mp_training_options *options, int *loss, mp_error *err)
{
    mp_status st = MP_OK;
    bool *trained = NULL;
    char others[320];
    int output = -1, own = -1;
    mp_loss kind;
    MP_REQUIRE(trained = mp_alloc(model->n_tensors, sizeof *trained), err, MP_NOMEM, "out of memory");
    mark_trained(model, trained);
    for (size_t k = 0; own < 0 && k < model->n_outputs; k++) {
        int t = model->outputs[k];
        if (trained[t] && is_scalar(&model->tensors[t])) own = t;
    }
    if (options->output) {
        output = mp_model_find(model, options->output);
        MP_REQUIRE(output >= 0, err, MP_INVALID, "there is no tensor '%s' to put the loss on", options->output);
        output = mp_model_resolve(model, output);
    } else if (options->loss != MP_LOSS_NONE && own >= 0) {
        MP_REQUIRE(options->loss == MP_LOSS_AUTO, err, MP_INVALID,
                   "the model has a loss of its own, '%s'; leave --loss out or name another --output",
                   model->tensors[own].name);
        MP_TRY(check_options(&options->loss_options, MP_LOSS_AUTO, err));
        *loss = own;
        goto cast;
    } else {
        for (size_t k = 0; output < 0 && k < model->n_outputs; k++)
            if (trained[model->outputs[k]]) output = model->outputs[k];
        MP_REQUIRE(output >= 0, err, MP_INVALID,
                   "no output of the model depends on a parameter, so there is nothing to train%s", not_taken(model, others));
    }
    MP_REQUIRE(mp_dtype_is_float(model->tensors[output].dtype), err, MP_INVALID, "'%s' is of type %s, and a loss needs numbers",
               model->tensors[output].name, mp_dtype_name(model->tensors[output].dtype));
    MP_REQUIRE(trained[output], err, MP_INVALID, "'%s' depends on no parameter, so there is nothing to train%s",
               model->tensors[output].name, not_taken(model, others));
    kind = options->loss;
    if (kind == MP_LOSS_AUTO && !is_scalar(&model->tensors[output])) /* a scalar is one that the model computes */
        kind = has_classes(&model->tensors[output]) ? MP_LOSS_CROSS_ENTROPY : MP_LOSS_MSE;
    MP_TRY(check_options(&options->loss_options, kind, err));
    *loss = kind == MP_LOSS_AUTO ? output : -1;
    if (kind != MP_LOSS_AUTO && kind != MP_LOSS_NONE)
        MP_TRY(mp_loss_append(model, kind, &options->loss_options, output, loss, err));
cast:
    if (options->amp) MP_TRY(mp_model_autocast(model, options->amp, options->rules, err));
done:
    mp_free(trained);
    return st;
}
