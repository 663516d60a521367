/* parameters.c - reads initial values of parameters from a file of weights or from the model, or draws random ones. Writes them
 * to a parameter and its master copy. */
#include "executor/data/parameters.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "estimator/model/ops.h"
#include "estimator/model/order.h"
#include "executor/data/input_roles.h"
#include "executor/kernel/philox.h"
#include "executor/program/parts.h"
#include "executor/run/held.h"
#include "formats/onnx/onnx_weights.h"

static bool transposes(const mp_operator *op, int operand)
{
    return mp_operator_int(op, operand ? "transB" : "transA", 0) != 0;
}

/* Returns the initial distribution of a tensor, which depends on the first operator that reads it (*reader). *seen is the
 * tensor that this operator reads: the parameter after views and transpositions. */
static mp_initial initial_of(const mp_model *model, const mp_consumers *consumers, int tensor, const mp_operator **reader,
                             int *seen)
{
    mp_initial found = MP_INITIAL_THROUGH;
    *seen = tensor;
    for (int hops = 0; hops < 8 && found == MP_INITIAL_THROUGH; hops++) {
        found = MP_INITIAL_SMALL;
        if (consumers->start[*seen] == consumers->start[*seen + 1]) break;
        const mp_operator *op = *reader = &model->operators[consumers->list[consumers->start[*seen]]];
        for (int i = op->n_in - 1; i >= 0; i--) {
            mp_initial own = mp_op_input_of(op->op, i).initial;
            if (op->in[i] == *seen && own > MP_INITIAL_SMALL) found = own;
        }
        if (found == MP_INITIAL_THROUGH) *seen = op->out[0];
    }
    return found == MP_INITIAL_THROUGH ? MP_INITIAL_SMALL : found;
}

static double fan_in(const mp_tensor *t, mp_initial initial, const mp_operator *reader)
{
    const int64_t *dims = mp_tensor_whole_dims(t);
    if (initial == MP_INITIAL_FILTER) return (double)mp_product(dims, 1, t->rank);
    if (t->rank < 2) return t->rank ? (double)dims[0] : 1;
    bool right = initial == MP_INITIAL_RIGHT_MATRIX, transposed = transposes(reader, right);
    int rows = t->rank - 2, columns = t->rank - 1;
    return (double)dims[right != transposed ? rows : columns];
}

/* Returns a normally distributed number, computed from two random words (Box and Muller 1958). */
static double normal(uint64_t seed, uint32_t key, uint64_t element)
{
    double u = ((double)mp_random_word(seed, UINT32_MAX, key, 2 * element) + 1) / 4294967297.0;
    double v = (double)mp_random_word(seed, UINT32_MAX, key, 2 * element + 1) / 4294967296.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Fills all elements of the whole tensor in the order of its dimensions. The use of a parameter decides its distribution.
 * Weights of products and convolutions are uniform within 1 / sqrt(fan-in) (He et al. 2015 with the default gain of PyTorch's
 * layers). Biases, shifts and running means are 0, scales and running variances 1. Embedding tables and all other parameters
 * are normally distributed with a standard deviation of 0.02. The Philox key is the seed and the parameter's name, so the
 * values do not depend on the order of the file. */
static void initialise(const mp_model *model, const mp_consumers *consumers, int tensor, uint64_t seed, float *to)
{
    const mp_tensor *t = &model->tensors[tensor];
    const mp_operator *reader = NULL;
    int seen;
    const int64_t *dims = mp_tensor_whole_dims(t), n = mp_product(dims, 0, t->rank);
    mp_initial initial = initial_of(model, consumers, tensor, &reader, &seen);
    uint32_t key = (uint32_t)XXH64(t->name, strlen(t->name), 0);
    if (t->starts_at_zero) initial = MP_INITIAL_ZERO;
    if (initial == MP_INITIAL_TERM) initial = t->rank && dims[t->rank - 1] == n ? MP_INITIAL_ZERO : MP_INITIAL_SMALL;
    bool is_factor = initial == MP_INITIAL_LEFT_MATRIX || initial == MP_INITIAL_RIGHT_MATRIX || initial == MP_INITIAL_FILTER;
    double bound = is_factor ? 1 / sqrt(fan_in(&model->tensors[seen], initial, reader)) : 0;
    for (int64_t k = 0; k < n; k++) {
        double value = initial == MP_INITIAL_ONE ? 1 : initial == MP_INITIAL_QUARTER ? 0.25 : 0;
        if (bound > 0)
            value = bound * (2 * (double)mp_random_uniform(seed, UINT32_MAX, key, (uint64_t)k) - 1);
        else if (initial == MP_INITIAL_SMALL)
            value = 0.02 * normal(seed, key, (uint64_t)k);
        to[k] = (float)value;
    }
}

struct mp_parameter_source {
    const mp_program *program;
    mp_onnx_weights *weights; /* the file with initial values; NULL: there is none */
    mp_consumers consumers;
    uint64_t seed;
};

static bool is_in_file(const mp_parameter_source *s, const mp_tensor *t)
{
    return s->weights && mp_onnx_weights_have(s->weights, t->name);
}

/* True for tensors whose values a program reads from the source of parameters: neither data inputs nor results of operators. */
static bool is_read(const mp_program *p, size_t tensor)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    return t->producer < 0 && t->role != MP_ROLE_DATA && p->bindings->storage[tensor] >= 0 && !mp_tensor_whole_value(t);
}

/* Fails if the file's trained values are missing, because random values would silently replace them. */
static mp_status check_external(const mp_parameter_source *s, mp_error *err)
{
    const mp_model *m = s->program->model;
    const char *name = NULL, *file = NULL;
    size_t n = 0;
    for (size_t k = 0; k < m->n_tensors; k++) {
        const char *missing = is_read(s->program, k) ? mp_onnx_weights_missing(s->weights, m->tensors[k].name) : NULL;
        if (missing && !n++) {
            name = m->tensors[k].name;
            file = missing;
        }
    }
    if (!n) return MP_OK;
    return MP_FAIL(
        err, MP_PARSE,
        "the values of %zu tensor%s, '%s' first, are in other files, but '%s' is missing; --random-weights draws random values",
        n, n == 1 ? "" : "s", name, file);
}

mp_status mp_parameter_source_open(const mp_program *program, const char *path, uint64_t seed, bool draws_missing,
                                   mp_parameter_source **out, mp_error *err)
{
    MP_OWNED_BY(mp_parameter_source_free) mp_parameter_source *s = mp_alloc(1, sizeof *s);
    MP_ENSURE(s, err, MP_NOMEM, "out of memory");
    *s = (mp_parameter_source){.program = program, .seed = seed};
    if (path) MP_CHECK(mp_onnx_weights_open(path, program->model->external_folder, &s->weights, err));
    MP_CHECK(mp_model_consumers(program->model, &s->consumers, err));
    if (path && !draws_missing) MP_CHECK(check_external(s, err));
    *out = s;
    s = NULL;
    return MP_OK;
}

void mp_parameter_source_free(mp_parameter_source *s)
{
    if (!s) return;
    mp_onnx_weights_close(s->weights);
    mp_consumers_free(&s->consumers);
    mp_free(s);
}

/* For an index tensor whose values the file lacks: fails unless the values can be the positions 0, 1, 2 ... The tensor must be
 * a single list, no longer than the table into which it indexes. Other index values are part of the network and cannot be
 * guessed. */
static mp_status check_positions(const mp_parameter_source *s, int tensor, mp_error *err)
{
    const mp_tensor *t = &s->program->model->tensors[tensor];
    const int64_t *dims = mp_tensor_whole_dims(t), n = mp_product(dims, 0, t->rank), last = t->rank ? dims[t->rank - 1] : 1;
    mp_input_role role = {0};
    if (mp_dtype_is_integer(t->dtype)) MP_CHECK(mp_input_role_of(s->program->model, &s->consumers, tensor, &role, err));
    MP_ENSURE(!role.n_values || (last <= role.n_values && n == last), err, MP_INVALID,
              "the file has no values for '%s', %" PRId64 " indices into a table of %" PRId64
              " rows; export the model with its weights",
              t->name, n, role.n_values);
    return MP_OK;
}

/* Fills a constant without values in the file. Integers become positions 0, 1, 2 ... along the last dimension. Booleans become
 * a causal mask if the last two dimensions are equal: true above the diagonal if the tensor's mask is MP_MASK_FUTURE, otherwise
 * true on and below the diagonal. Other booleans are all true. */
static mp_status left_open(const mp_tensor *t, const mp_array *to, mp_error *err)
{
    const int64_t *dims = mp_tensor_whole_dims(t), n = mp_product(dims, 0, t->rank), last = t->rank ? dims[t->rank - 1] : 1;
    bool causal = t->rank > 1 && dims[t->rank - 2] == last;
    for (int64_t k = 0; k < n; k++) {
        if (to->dtype == MP_DTYPE_INT64)
            ((int64_t *)to->data)[k] = k % last;
        else if (to->dtype == MP_DTYPE_INT32)
            ((int32_t *)to->data)[k] = (int32_t)(k % last);
        else if (to->dtype == MP_DTYPE_BOOL)
            ((uint8_t *)to->data)[k] = !causal || (k % last <= k / last % last) == (t->mask != MP_MASK_FUTURE);
        else
            return MP_FAIL(
                err, MP_INVALID,
                "the file has no values for '%s' of type %s, and memplan cannot draw them; export the model with its weights",
                t->name, mp_dtype_name(to->dtype));
    }
    return MP_OK;
}

/* Fills a whole parameter or constant with its initial values. */
static mp_status first_values(const mp_parameter_source *s, int tensor, const mp_array *to, mp_error *err)
{
    const mp_tensor *t = &s->program->model->tensors[tensor];
    const mp_value *value = mp_tensor_whole_value(t);
    if (value)
        MP_ENSURE(mp_array_write(to, value), err, MP_UNSUPPORTED, "'%s' is of type %s, which is not supported here", t->name,
                  mp_dtype_name(to->dtype));
    else if (is_in_file(s, t))
        MP_CHECK(mp_onnx_weights_read(s->weights, t->name, to->dtype, mp_array_elements(to), to->data, err));
    else if (t->role == MP_ROLE_CONSTANT)
        return MP_FAIL(err, MP_INVALID, "the file has no values for the constant '%s'", t->name);
    else if (to->dtype == MP_DTYPE_FLOAT)
        initialise(s->program->model, &s->consumers, tensor, s->seed, to->data);
    else {
        MP_CHECK(check_positions(s, tensor, err));
        MP_CHECK(left_open(t, to, err));
    }
    return MP_OK;
}

static mp_status load_one(const mp_parameter_source *s, mp_execution *e, int tensor, mp_error *err)
{
    const mp_program *p = s->program;
    const mp_tensor *t = &p->model->tensors[tensor];
    mp_array there, host = mp_array_plain(t->dtype, t->rank, t->dims), whole = mp_whole_array(t);
    MP_OWNED void *values = whole.data = mp_alloc((size_t)mp_array_bytes(&whole) + 1, 1);
    MP_OWNED void *part = t->part ? mp_alloc((size_t)mp_array_bytes(&host) + 1, 1) : NULL;
    MP_ENSURE(values && (part || !t->part), err, MP_NOMEM, "there is no memory for the values of '%s'", t->name);
    MP_CHECK(first_values(s, tensor, &whole, err));
    if (mp_is_held(p, e, tensor)) return mp_held_write(p, e, tensor, MP_HELD_VALUES, &whole, err);
    host.data = part ? part : values;
    if (part) mp_part_take(t, mp_execution_position(e)->part_index, mp_dtype_bits(t->dtype) / 8, values, part);
    MP_CHECK(mp_execution_tensor(e, tensor, &there, err));
    return p->backend->upload(p->backend, &host, &there, err);
}

mp_status mp_parameters_load(const mp_parameter_source *s, const mp_program *p, mp_execution *e, mp_error *err)
{
    for (size_t t = 0; t < p->model->n_tensors; t++) {
        const mp_tensor *x = &p->model->tensors[t];
        const int storage = p->bindings->storage[t];
        const bool outside = x->producer < 0 && x->role != MP_ROLE_DATA && storage >= 0;
        if (outside && (mp_is_held(p, e, (int)t) || mp_storage_is_static(&p->graph->storages[storage])))
            MP_CHECK(load_one(s, e, (int)t, err));
    }
    return MP_OK;
}

void mp_parameter_source_count(const mp_parameter_source *s, size_t *n_parameters, size_t *n_drawn)
{
    const mp_model *m = s->program->model;
    *n_parameters = *n_drawn = 0;
    for (size_t k = 0; k < m->n_tensors; k++) {
        const mp_tensor *t = &m->tensors[k];
        if (t->role != MP_ROLE_PARAMETER || t->producer >= 0) continue;
        if (!mp_program_has(s->program, (int)k) && !mp_program_lacks(s->program, (int)k)) continue;
        (*n_parameters)++;
        *n_drawn += !t->value && !is_in_file(s, t);
    }
}
