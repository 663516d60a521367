/* sketch.c - adds operators to a model under construction, and provides the building blocks that all families share. */
#include "estimator/architectures/sketch.h"

#include <stdio.h>
#include <string.h>

enum {
    OPERATOR_SET = 24,
    NAME_MAX_BYTES = 128
}; /* version of the oldest operator set that contains RMSNormalization and Swish */

/* Records a failure, unless an earlier one is recorded. Returns true if no failure is recorded. */
static bool went(mp_sketch *n, mp_status status)
{
    if (n->status == MP_OK) n->status = status;
    return n->status == MP_OK;
}

/* Writes the name of an operator with the current layer's name as prefix. */
static const char *within(const mp_sketch *n, char separator, const char *name, char text[NAME_MAX_BYTES])
{
    if (*n->layer)
        snprintf(text, NAME_MAX_BYTES, "%s%c%s", n->layer, separator, name);
    else
        snprintf(text, NAME_MAX_BYTES, "%s", name);
    return text;
}

static int declare(mp_sketch *n, const char *name, mp_role role, const char *reason, mp_dtype dtype, int rank,
                   const int64_t *dims)
{
    int t = -1;
    if (!went(n, MP_OK) || !went(n, mp_model_fresh_tensor(n->model, name, &t, n->err)) ||
        !went(n, mp_tensor_set(n->model, t, dtype, rank, dims, n->err)) ||
        !went(n, mp_model_declare_input(n->model, t, n->err)))
        return -1;
    n->model->tensors[t].role = role;
    n->model->tensors[t].role_reason = reason;
    return t;
}

int mp_sketch_parameter(mp_sketch *n, const char *name, int rank, const int64_t *dims)
{
    char text[NAME_MAX_BYTES];
    return declare(n, within(n, '.', name, text), MP_ROLE_PARAMETER, "a parameter of the architecture", MP_DTYPE_FLOAT, rank,
                   dims);
}

int mp_sketch_data(mp_sketch *n, const char *name, mp_dtype dtype, int rank, const int64_t *dims)
{
    return declare(n, name, MP_ROLE_DATA, "the batch of the architecture", dtype, rank, dims);
}

void mp_sketch_put_all(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in,
                       const mp_attribute *attributes, size_t n_attributes, int *out, int n_out)
{
    char text[NAME_MAX_BYTES], stem[NAME_MAX_BYTES + 32];
    mp_operator_draft draft = mp_draft(kind, "", OPERATOR_SET, in, n_in, attributes, n_attributes);
    int index;
    for (int k = 0; k < n_out; k++) out[k] = -1;
    snprintf(stem, sizeof stem, "%s/%s", within(n, '/', module, text), kind);
    for (int k = 0; k < n_out; k++)
        if (!went(n, MP_OK) || !went(n, mp_model_fresh_tensor(n->model, stem, &out[k], n->err))) return;
    draft.name = n->model->tensors[out[0]].name;
    draft.out = out;
    draft.n_out = n_out;
    went(n, mp_model_operator(n->model, &draft, &index, n->err));
}

int mp_sketch_put(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in, const mp_attribute *attributes,
                  size_t n_attributes)
{
    int out;
    mp_sketch_put_all(n, module, kind, in, n_in, attributes, n_attributes, &out, 1);
    return out;
}

int mp_sketch_of(mp_sketch *n, const char *module, const char *kind, int x)
{
    return mp_sketch_put(n, module, kind, &x, 1, NULL, 0);
}

int mp_sketch_of_two(mp_sketch *n, const char *module, const char *kind, int x, int y)
{
    return mp_sketch_put(n, module, kind, (int[]){x, y}, 2, NULL, 0);
}

/* Adds a Constant operator with this value. value NULL: the allocation of the value failed, so this function fails too. */
static int constant(mp_sketch *n, const char *module, mp_dtype dtype, int rank, const int64_t *dims, mp_value *value)
{
    int64_t sizes[MP_RANK_MAX] = {0};
    for (int d = 0; d < rank; d++) sizes[d] = dims[d];
    const mp_attribute a = {
        .name = "value", .kind = MP_ATTRIBUTE_TENSOR, .dtype = dtype, .rank = rank, .dims = sizes, .value = value};
    if (!value) went(n, MP_FAIL(n->err, MP_NOMEM, "no memory for a constant of '%s'", module));
    return value ? mp_sketch_put(n, module, "Constant", NULL, 0, &a, 1) : -1;
}

int mp_sketch_integers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const int64_t *values)
{
    const int64_t count = mp_product(dims, 0, rank);
    mp_value *value = mp_value_new(n->model, count, false);
    for (int64_t k = 0; value && k < count; k++) value->i[k] = values[k];
    return constant(n, module, MP_DTYPE_INT64, rank, dims, value);
}

int mp_sketch_list(mp_sketch *n, const char *module, int64_t count, const int64_t *values)
{
    return mp_sketch_integers(n, module, 1, &count, values);
}

int mp_sketch_numbers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const double *values)
{
    const int64_t count = mp_product(dims, 0, rank);
    mp_value *value = mp_value_new(n->model, count, true);
    for (int64_t k = 0; value && k < count; k++)
        value->f[k] =
            (double)(float)values[k]; /* the number is rounded to single precision, because an ONNX file would store float32 */
    return constant(n, module, MP_DTYPE_FLOAT, rank, dims, value);
}

int mp_sketch_truth(mp_sketch *n, const char *module, bool truth)
{
    mp_value *value = mp_value_new(n->model, 1, false);
    if (value) value->i[0] = truth;
    return constant(n, module, MP_DTYPE_BOOL, 0, NULL, value);
}

int mp_sketch_transpose(mp_sketch *n, const char *module, int x, const int64_t *order, size_t rank)
{
    const mp_attribute perm = mp_attribute_ints("perm", order, rank);
    return mp_sketch_put(n, module, "Transpose", &x, 1, &perm, 1);
}

/* Adds the parameter named MODULE.ENTRY with this shape. */
static int entry(mp_sketch *n, const char *module, const char *name, int rank, const int64_t *dims)
{
    char text[NAME_MAX_BYTES];
    snprintf(text, sizeof text, "%s.%s", module, name);
    for (char *at = text; *at; at++)
        if (*at == '/') *at = '.';
    return mp_sketch_parameter(n, text, rank, dims);
}

int mp_sketch_linear(mp_sketch *n, const char *module, int x, int64_t in, int64_t out, bool biased)
{
    const int weight = entry(n, module, "weight", 2, (int64_t[]){in, out});
    const int product = mp_sketch_of_two(n, module, "MatMul", x, weight);
    return biased ? mp_sketch_of_two(n, module, "Add", product, entry(n, module, "bias", 1, &out)) : product;
}

int mp_sketch_norm(mp_sketch *n, const char *module, int x)
{
    return mp_sketch_norm_of(n, module, x, n->shape->width);
}

int mp_sketch_norm_of(mp_sketch *n, const char *module, int x, int64_t width)
{
    static const double epsilons[] = {[MP_FAMILY_GPT] = 1e-5,
                                      [MP_FAMILY_LLAMA] = 1e-5,
                                      [MP_FAMILY_BERT] = 1e-12,
                                      [MP_FAMILY_VIT] = 1e-12,
                                      [MP_FAMILY_T5] = 1e-6};
    const bool is_rms = n->shape->family == MP_FAMILY_LLAMA || n->shape->family == MP_FAMILY_T5;
    const double epsilon = n->shape->norms_heads ? 1e-6 : epsilons[n->shape->family];
    const mp_attribute attributes[] = {mp_attribute_int("axis", -1), mp_attribute_float("epsilon", epsilon)};
    int in[3] = {x, entry(n, module, "weight", 1, &width), -1};
    if (!is_rms) in[2] = entry(n, module, "bias", 1, &width);
    return mp_sketch_put(n, module, is_rms ? "RMSNormalization" : "LayerNormalization", in, is_rms ? 2 : 3, attributes, 2);
}

int mp_sketch_dropout(mp_sketch *n, const char *module, int x)
{
    return n->ratio < 0 ? x : mp_sketch_put(n, module, "Dropout", (int[]){x, n->ratio, n->training}, 3, NULL, 0);
}
