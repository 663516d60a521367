/* loss.c - the loss of a model: its own, or one appended to an output.
 *
 * Some PyTorch losses are composed of elementwise functions and reductions. memplan composes them of the same functions, so
 * that backward saves the same tensors. Examples: l1 saves a difference, kl-div the target, and cosine both operands with a
 * few numbers per row. The other losses are single operators. */
#include <stdio.h>

#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"
#include "estimator/training/autocast.h"
#include "estimator/training/training.h"

typedef struct writer {
    mp_model *model;
    mp_error *err;
} writer;

/* Appends one operator to the model and infers its shapes. It writes one new tensor, *out. */
static mp_status put(const writer *w, const char *kind, const char *domain, int version, const int *in, int n_in,
                     const mp_attribute *attributes, size_t n_attributes, const char *output, int *out)
{
    *out = -1;
    return mp_operator_put(w->model, mp_draft(kind, domain, version, in, n_in, attributes, n_attributes), output, out, w->err);
}

/* Appends an elementwise operator of ai.onnx; b negative: the operator has one operand. */
static mp_status put_plain(const writer *w, const char *kind, int a, int b, const char *output, int *out)
{
    return put(w, kind, "", 13, (int[]){a, b}, b < 0 ? 1 : 2, NULL, 0, output, out);
}

/* Appends a reduction over all elements, or along the last dimension. */
static mp_status put_reduced(const writer *w, const char *kind, int a, bool last, const char *output, int *out)
{
    int64_t axis = -1;
    const mp_attribute attributes[] = {mp_attribute_int("keepdims", 0), mp_attribute_ints("axes", &axis, 1)};
    return put(w, kind, "", 11, &a, 1, attributes, last ? 2 : 1, output, out);
}

/* Adds a constant tensor: a scalar or a list. */
static mp_status put_constant(const writer *w, mp_dtype dtype, int rank, const double *values, int64_t n, const char *name,
                              int *out)
{
    mp_value *value;
    MP_ENSURE(n <= MP_VALUE_MAX, w->err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_model_constant(w->model, name, dtype, rank, &n, out, &value, w->err));
    w->model->tensors[*out].role_reason = "of the appended loss";
    for (int64_t k = 0; k < n; k++) value->f[k] = values[k];
    return MP_OK;
}

static mp_status put_number(const writer *w, mp_dtype dtype, double value, const char *name, int *out)
{
    return put_constant(w, dtype, 0, &value, 1, name, out);
}

static mp_status put_target(const writer *w, mp_dtype dtype, int rank, const int64_t *dims, int *target)
{
    MP_CHECK(mp_model_fresh_tensor(w->model, "target", target, w->err));
    MP_CHECK(mp_tensor_set(w->model, *target, dtype, rank, dims, w->err));
    w->model->tensors[*target].role = MP_ROLE_DATA;
    w->model->tensors[*target].role_reason = "the target of the appended loss";
    w->model->tensors[*target].is_target = true;
    return mp_model_declare_input(w->model, *target, w->err);
}

/* Appends cross-entropy over classes. The classes are axis 1 of the output (N, C, ...). For a sequence (N, T, C) they are
 * the last axis, and the target is (N, T). */
static mp_status put_cross_entropy(const writer *w, const mp_loss_options *o, int logits, int *loss)
{
    int target, in[3] = {logits, -1, -1};
    const mp_tensor *t = &w->model->tensors[logits];
    MP_ENSURE(t->rank >= 2, w->err, MP_INVALID,
              "cross-entropy needs an output of rank 2 or more, but '%s' has rank %d; choose --output or --loss mse", t->name,
              t->rank);
    const int rank = t->rank, axis = rank == 3 ? 2 : 1;
    int64_t dims[MP_RANK_MAX], classes = t->dims[axis];
    MP_ENSURE(classes > 1, w->err, MP_INVALID,
              "cross-entropy needs two classes or more, but '%s' has %lld; choose --output or --loss mse", t->name,
              (long long)classes);
    MP_ENSURE(!o->class_weights || (int64_t)o->n_class_weights == classes, w->err, MP_INVALID,
              "%zu class weights are given, but '%s' has %lld classes", o->n_class_weights, t->name, (long long)classes);
    bool any_weight = !o->class_weights;
    for (size_t k = 0; k < o->n_class_weights; k++) any_weight |= o->class_weights[k] != 0;
    MP_ENSURE(any_weight, w->err, MP_INVALID, "all class weights are 0, so the loss has no terms; use a weight over 0");
    for (int d = 0; d < rank; d++)
        if (d != axis) dims[d < axis ? d : d - 1] = t->dims[d];
    const mp_dtype dtype = t->dtype;
    MP_CHECK(put_target(w, MP_DTYPE_INT64, rank - 1, dims, &target));
    in[1] = target;
    if (axis == 2) {
        int64_t n = dims[0] * dims[1];
        const mp_attribute last = mp_attribute_int("axis", 2), flat = mp_attribute_ints("shape", &n, 1);
        MP_CHECK(put(w, "Flatten", "", 13, &logits, 1, &last, 1, "positions", &in[0]));
        MP_CHECK(put(w, "Reshape", "memplan", 1, &target, 1, &flat, 1, "labels", &in[1]));
    }
    if (o->class_weights) MP_CHECK(put_constant(w, dtype, 1, o->class_weights, classes, "class weights", &in[2]));
    const mp_attribute attributes[] = {mp_attribute_int("ignore_index", o->ignore_index ? *o->ignore_index : MP_LOSS_IGNORED),
                                       mp_attribute_float("label_smoothing", o->label_smoothing)};
    return put(w, "SoftmaxCrossEntropyLoss", "", 13, in, o->class_weights ? 3 : 2, attributes, o->label_smoothing != 0 ? 2 : 1,
               "loss", loss);
}

/* Appends a loss that is the mean over all elements of a function of output and target. */
static mp_status put_element_loss(const writer *w, mp_loss kind, const mp_loss_options *o, int output, int target, int *loss)
{
    int in[3] = {output, target, -1}, n = 2;
    const mp_attribute huber[] = {mp_attribute_float("delta", o->beta != 0 ? o->beta : 1),
                                  mp_attribute_int("smooth", kind == MP_LOSS_SMOOTH_L1)};
    if (kind == MP_LOSS_BCE && o->pos_weight) {
        const mp_tensor *t = &w->model->tensors[output];
        const mp_dtype dtype = t->dtype;
        const int64_t places = t->rank ? t->dims[t->rank - 1] : 1, given = (int64_t)o->n_pos_weight;
        MP_ENSURE(given == 1 || given == places, w->err, MP_INVALID,
                  "%lld weights of positives are given, but '%s' needs one, or %lld for its last dimension", (long long)given,
                  t->name, (long long)places);
        MP_CHECK(put_constant(w, dtype, 1, o->pos_weight, (int64_t)o->n_pos_weight, "weight of positives", &in[n++]));
    }
    if (kind == MP_LOSS_MSE) return put(w, "MeanSquaredError", "memplan", 1, in, n, NULL, 0, "loss", loss);
    if (kind == MP_LOSS_BCE) return put(w, "BinaryCrossEntropyWithLogits", "memplan", 1, in, n, NULL, 0, "loss", loss);
    return put(w, "HuberLoss", "memplan", 1, in, n, huber, 2, "loss", loss);
}

/* Appends the l1 loss: the mean of |output - target|. */
static mp_status put_l1(const writer *w, int output, int target, int *loss)
{
    int difference, distance;
    MP_CHECK(put_plain(w, "Sub", output, target, "difference", &difference));
    MP_CHECK(put_plain(w, "Abs", difference, -1, "distance", &distance));
    return put_reduced(w, "ReduceMean", distance, false, "loss", loss);
}

/* Appends the kl-div loss: the sum of target * (log target - output), divided by the size of the first dimension. 0 log 0 is
 * 0. */
static mp_status put_kl_div(const writer *w, int output, int target, int *loss)
{
    const mp_tensor *t = &w->model->tensors[output];
    const mp_dtype dtype = t->dtype;
    const double batch = t->rank ? (double)t->dims[0] : 1;
    int least, positive, logarithm, surplus, share, sum, factor;
    MP_CHECK(put_number(w, dtype, 1.17549435e-38, "least", &least));
    MP_CHECK(put_plain(w, "Max", target, least, "positive", &positive));
    MP_CHECK(put_plain(w, "Log", positive, -1, "logarithm", &logarithm));
    MP_CHECK(put_plain(w, "Sub", logarithm, output, "surplus", &surplus));
    MP_CHECK(put_plain(w, "Mul", target, surplus, "share", &share));
    MP_CHECK(put_reduced(w, "ReduceSum", share, false, "divergence", &sum));
    MP_CHECK(put_number(w, dtype, 1 / batch, "share of a sample", &factor));
    return put_plain(w, "Mul", sum, factor, "loss", loss);
}

/* Appends the cosine loss: 1 - the mean of the cosines of all rows. A row of zeros has the cosine 0. */
static mp_status put_cosine(const writer *w, int output, int target, int *loss)
{
    const mp_tensor *t = &w->model->tensors[output];
    const mp_dtype dtype = t->dtype;
    const int of[3][2] = {{output, target}, {output, output}, {target, target}};
    int small, one, product, sums[3], squares, norm, cosine, distance;
    MP_ENSURE(t->rank >= 1, w->err, MP_INVALID, "the cosine needs an output with rows, but '%s' is a number", t->name);
    MP_CHECK(put_number(w, dtype, 1e-12, "epsilon", &small));
    MP_CHECK(put_number(w, dtype, 1, "one", &one));
    for (int k = 0; k < 3; k++) {
        MP_CHECK(put_plain(w, "Mul", of[k][0], of[k][1], "products", &product));
        MP_CHECK(put_reduced(w, "ReduceSum", product, true, "sums", &sums[k]));
        if (k) MP_CHECK(put_plain(w, "Add", sums[k], small, "length", &sums[k]));
    }
    MP_CHECK(put_plain(w, "Mul", sums[1], sums[2], "lengths", &squares));
    MP_CHECK(put_plain(w, "Sqrt", squares, -1, "norm", &norm));
    MP_CHECK(put_plain(w, "Div", sums[0], norm, "cosine", &cosine));
    MP_CHECK(put_plain(w, "Sub", one, cosine, "distance", &distance));
    return put_reduced(w, "ReduceMean", distance, false, "loss", loss);
}

/* Appends the target input and the operators of a loss that is neither AUTO nor NONE. *loss is the tensor with its value, of
 * rank 0. Options of other losses are ignored. MP_INVALID: the loss does not apply to the output, or the number of weights
 * is wrong. */
static mp_status append(mp_model *model, mp_loss kind, const mp_loss_options *options, int output, int *loss, mp_error *err)
{
    const writer w = {model, err};
    const mp_tensor *t = &model->tensors[output];
    int target;
    if (kind == MP_LOSS_CROSS_ENTROPY) return put_cross_entropy(&w, options, output, loss);
    MP_CHECK(put_target(&w, t->dtype, t->rank, t->dims, &target));
    if (kind == MP_LOSS_L1) return put_l1(&w, output, target, loss);
    if (kind == MP_LOSS_KL_DIV) return put_kl_div(&w, output, target, loss);
    if (kind == MP_LOSS_COSINE) return put_cosine(&w, output, target, loss);
    return put_element_loss(&w, kind, options, output, target, loss);
}

/* True if an operator computes the output. False if the output is a parameter, or a view of one. */
static bool is_result(const mp_model *model, int tensor)
{
    while (model->tensors[tensor].producer >= 0) {
        const mp_operator *op = &model->operators[model->tensors[tensor].producer];
        if (!op->op || op->op->gradient != MP_GRADIENT_VIEW || op->in[0] < 0) return true;
        tensor = op->in[0];
    }
    return false;
}

/* True if the tensor is computed and has a single element for every batch size: its rank is 0, or it is declared with fixed
 * sizes of 1. */
static bool is_computed_scalar(const mp_model *model, int tensor)
{
    const mp_tensor *t = &model->tensors[tensor];
    return is_result(model, tensor) && mp_dtype_is_float(t->dtype) &&
           (t->rank == 0 || (t->rank == 1 && t->dims[0] == 1 && t->declared_rank == 1 && t->declared_dims[0] == 1));
}

/* True if cross-entropy makes sense for the output: it has scores for at least two classes. Images with one channel and
 * lists of numbers are regression outputs. */
static bool has_classes(const mp_tensor *t)
{
    return t->rank >= 2 && t->dims[t->rank == 3 ? 2 : 1] > 1;
}

/* Fails if the options contain an option that belongs to another loss than `loss`. */
static mp_status check_options(const mp_loss_options *o, mp_loss loss, mp_error *err)
{
    const bool classes = o->label_smoothing != 0 || o->ignore_index || o->class_weights;
    MP_ENSURE(!classes || loss == MP_LOSS_CROSS_ENTROPY, err, MP_INVALID,
              "label smoothing, an ignored index and class weights apply to --loss cross-entropy, not to %s",
              loss == MP_LOSS_AUTO ? "the model's own loss" : mp_loss_name(loss));
    MP_ENSURE(!o->pos_weight || loss == MP_LOSS_BCE, err, MP_INVALID, "a weight of positives applies to --loss bce, not to %s",
              loss == MP_LOSS_AUTO ? "the model's own loss" : mp_loss_name(loss));
    MP_ENSURE(o->beta == 0 || loss == MP_LOSS_SMOOTH_L1 || loss == MP_LOSS_HUBER, err, MP_INVALID,
              "beta applies to --loss smooth-l1 and huber, not to %s",
              loss == MP_LOSS_AUTO ? "the model's own loss" : mp_loss_name(loss));
    MP_ENSURE(o->label_smoothing >= 0 && o->label_smoothing <= 1, err, MP_INVALID,
              "the label smoothing is %g, but it must be between 0 and 1", o->label_smoothing);
    MP_ENSURE(o->beta >= 0, err, MP_INVALID, "beta is %g, but it must be over 0", o->beta);
    return MP_OK;
}

/* For an error message: lists the names of floating-point tensors in the file that did not become parameters. --train would
 * make them parameters. */
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
        snprintf(text, 320, "; these tensors are not parameters: %s%s (--train NAME makes a tensor a parameter)", names,
                 n > NAMES ? ", ..." : "");
    return text;
}

mp_status mp_model_add_loss(mp_model *model, const mp_training_options *options, int *loss, mp_error *err)
{
    MP_OWNED bool *trained = NULL;
    char others[320];
    int output = -1, own = -1;
    mp_loss kind;
    MP_ENSURE(trained = mp_alloc(model->n_tensors, sizeof *trained), err, MP_NOMEM, "out of memory");
    mp_model_mark_trained(model, trained);
    for (size_t k = 0; own < 0 && k < model->n_outputs; k++) {
        int t = model->outputs[k];
        if (trained[t] && is_computed_scalar(model, t)) own = t;
    }
    if (options->output) {
        output = mp_model_find(model, options->output);
        MP_ENSURE(output >= 0, err, MP_INVALID, "there is no tensor '%s' to compute the loss from; choose another --output",
                  options->output);
        output = mp_model_resolve(model, output);
    } else if (options->loss != MP_LOSS_NONE && own >= 0) {
        MP_ENSURE(options->loss == MP_LOSS_AUTO, err, MP_INVALID,
                  "the model already has the loss '%s'; omit --loss or name another --output", model->tensors[own].name);
        MP_CHECK(check_options(&options->loss_options, MP_LOSS_AUTO, err));
        *loss = own;
        goto cast;
    } else {
        for (size_t k = 0; k < model->n_outputs; k++) /* chooses the first output that depends on a parameter; outputs computed
                                                         by an operator precede outputs that are parameters */
            if (trained[model->outputs[k]] && (output < 0 || is_result(model, model->outputs[k]) > is_result(model, output)))
                output = model->outputs[k];
        MP_ENSURE(output >= 0, err, MP_INVALID, "no output of the model depends on a parameter, so there is nothing to train%s",
                  not_taken(model, others));
    }
    MP_ENSURE(mp_dtype_is_float(model->tensors[output].dtype), err, MP_INVALID,
              "'%s' has the type %s, but a loss needs floating-point numbers", model->tensors[output].name,
              mp_dtype_name(model->tensors[output].dtype));
    MP_ENSURE(trained[output], err, MP_INVALID, "'%s' depends on no parameter, so there is nothing to train%s",
              model->tensors[output].name, not_taken(model, others));
    kind = options->loss;
    if (kind == MP_LOSS_AUTO && !is_computed_scalar(model, output))
        kind = has_classes(&model->tensors[output]) ? MP_LOSS_CROSS_ENTROPY : MP_LOSS_MSE;
    MP_CHECK(check_options(&options->loss_options, kind, err));
    *loss = kind == MP_LOSS_AUTO ? output : -1;
    if (kind != MP_LOSS_AUTO && kind != MP_LOSS_NONE) MP_CHECK(append(model, kind, &options->loss_options, output, loss, err));
cast:
    if (options->amp) MP_CHECK(mp_model_autocast(model, options, err));
    for (size_t k = 0; k < model->n_operators; k++) model->operators[k].number = (int)k + 1;
    return MP_OK;
}
