/* loss.c - the loss of a model: its own, or one appended to an output. */
#include <string.h>

#include "estimator/simplify/infer.h"
#include "estimator/training/training.h"
#include "memplan/simplify.h"

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

/* Appends one operator and infers it; its only output is a fresh tensor. */
static mp_status append(mp_model *model, const char *kind, const char *domain, int version, const int *in, int n_in,
                        const mp_attribute *attribute, const char *output, int *out, mp_error *err)
{
    mp_status st = MP_OK;
    int index;
    MP_TRY(mp_model_fresh_tensor(model, output, out, err));
    mp_operator_draft draft = {.kind = kind,
                               .domain = domain,
                               .version = version,
                               .in = in,
                               .n_in = n_in,
                               .out = out,
                               .n_out = 1,
                               .attributes = attribute,
                               .n_attributes = attribute ? 1 : 0};
    MP_TRY(mp_model_operator(model, &draft, &index, err));
    MP_TRY(mp_operator_infer(model, index, err));
done:
    return st;
}

static mp_status append_target(mp_model *model, mp_dtype dtype, int rank, const int64_t *dims, int *target, mp_error *err)
{
    mp_status st = MP_OK;
    MP_TRY(mp_model_fresh_tensor(model, "target", target, err));
    MP_TRY(mp_tensor_set(model, *target, dtype, rank, dims, err));
    model->tensors[*target].role = MP_ROLE_DATA;
    model->tensors[*target].role_reason = "the target of the appended loss";
    model->tensors[*target].is_target = true;
    MP_TRY(mp_model_declare_input(model, *target, err));
done:
    return st;
}

/* Whether cross-entropy makes sense: scores of two classes or more. Images of one channel and lists of numbers are regression.
 */
static bool has_classes(const mp_tensor *t)
{
    return t->rank >= 2 && t->dims[t->rank == 3 ? 2 : 1] > 1;
}

/* Cross-entropy over classes: axis 1 of (N, C, ...), the last axis of a sequence (N, T, C), one position at a time, whose
 * target is (N, T). */
static mp_status append_cross_entropy(mp_model *model, int logits, int *loss, mp_error *err)
{
    mp_status st = MP_OK;
    int target, labels, positions = logits;
    const mp_tensor *t = &model->tensors[logits];
    MP_REQUIRE(t->rank >= 2, err, MP_INVALID,
               "cross-entropy needs an output of rank 2 or more and '%s' has rank %d; choose --output or --loss mse", t->name,
               t->rank);
    const bool sequence = t->rank == 3;
    int64_t dims[MP_RANK_MAX], classes = t->dims[sequence ? 2 : 1];
    MP_REQUIRE(classes > 1, err, MP_INVALID,
               "cross-entropy needs two classes or more and '%s' has %lld; choose --output or --loss mse", t->name,
               (long long)classes);
    for (int d = 0; d < t->rank; d++)
        if (d != (sequence ? 2 : 1)) dims[d < (sequence ? 2 : 1) ? d : d - 1] = t->dims[d];
    MP_TRY(append_target(model, MP_DTYPE_INT64, t->rank - 1, dims, &target, err));
    labels = target;
    if (sequence) {
        int64_t n = dims[0] * dims[1];
        mp_attribute axis = {.name = "axis", .kind = MP_ATTRIBUTE_INT, .i = 2},
                     flat = {.name = "shape", .kind = MP_ATTRIBUTE_INTS, .n = 1, .ints = &n};
        MP_TRY(append(model, "Flatten", "", 13, &logits, 1, &axis, "positions", &positions, err));
        MP_TRY(append(model, "Reshape", "memplan", 1, &target, 1, &flat, "labels", &labels, err));
    }
    mp_attribute ignored = {.name = "ignore_index", .kind = MP_ATTRIBUTE_INT, .i = MP_LOSS_IGNORED};
    MP_TRY(append(model, "SoftmaxCrossEntropyLoss", "", 13, (int[]){positions, labels}, 2, &ignored, "loss", loss, err));
done:
    return st;
}

static mp_status append_mse(mp_model *model, int prediction, int *loss, mp_error *err)
{
    mp_status st = MP_OK;
    int target;
    const mp_tensor *t = &model->tensors[prediction];
    MP_TRY(append_target(model, t->dtype, t->rank, t->dims, &target, err));
    MP_TRY(append(model, "MeanSquaredError", "memplan", 1, (int[]){prediction, target}, 2, NULL, "loss", loss, err));
done:
    return st;
}

mp_status mp_model_add_loss(mp_model *model, const mp_training_options *options, int *loss, mp_error *err)
{
    mp_status st = MP_OK;
    bool *trained = NULL;
    int output = -1, own = -1;
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
        *loss = own;
        goto done;
    } else {
        for (size_t k = 0; output < 0 && k < model->n_outputs; k++)
            if (trained[model->outputs[k]]) output = model->outputs[k];
        MP_REQUIRE(output >= 0, err, MP_INVALID, "no output of the model depends on a parameter, so there is nothing to train");
    }
    MP_REQUIRE(mp_dtype_is_float(model->tensors[output].dtype), err, MP_INVALID, "'%s' is of type %s, and a loss needs numbers",
               model->tensors[output].name, mp_dtype_name(model->tensors[output].dtype));
    MP_REQUIRE(trained[output], err, MP_INVALID, "'%s' depends on no parameter, so there is nothing to train",
               model->tensors[output].name);
    if (options->loss == MP_LOSS_NONE) {
        *loss = -1;
    } else if (options->loss == MP_LOSS_AUTO && is_scalar(&model->tensors[output])) {
        *loss = output; /* one that the model computes, named with --output */
    } else if (options->loss == MP_LOSS_MSE || (options->loss == MP_LOSS_AUTO && !has_classes(&model->tensors[output]))) {
        MP_TRY(append_mse(model, output, loss, err));
    } else {
        MP_TRY(append_cross_entropy(model, output, loss, err));
    }
done:
    mp_free(trained);
    return st;
}
