/* model.c - appends tensors and operators to growing arrays; copies strings and lists into the pool. */
#include "estimator/model/model.h"

#include <limits.h>
#include <string.h>

#include "estimator/base/names.h"

#define DTYPE_NAME(name, number, text, bits) [number] = text,
static const char *const dtype_names[] = {MP_DTYPE_LIST(DTYPE_NAME)};
#undef DTYPE_NAME
#define DTYPE_BITS(name, number, text, bits) [number] = bits,
static const int dtype_bits[] = {MP_DTYPE_LIST(DTYPE_BITS)};
#undef DTYPE_BITS

const char *mp_dtype_name(mp_dtype dtype)
{
    return dtype_names[(unsigned)dtype < MP_N_DTYPES ? dtype : MP_DTYPE_UNDEFINED];
}

int mp_dtype_bits(mp_dtype dtype)
{
    return (unsigned)dtype < MP_N_DTYPES ? dtype_bits[dtype] : 0;
}

static bool name_starts_with(mp_dtype dtype, const char *start)
{
    return !strncmp(mp_dtype_name(dtype), start, strlen(start));
}

bool mp_dtype_is_float(mp_dtype dtype)
{
    return name_starts_with(dtype, "float") || name_starts_with(dtype, "bfloat");
}

bool mp_dtype_is_integer(mp_dtype dtype)
{
    return name_starts_with(dtype, "int") || name_starts_with(dtype, "uint");
}

const char *mp_role_name(mp_role role)
{
    static const char *const names[] = {"activation", "data", "parameter", "buffer", "constant"};
    return (unsigned)role < sizeof names / sizeof *names ? names[role] : "unknown";
}

mp_status mp_model_new(const char *name, const char *path, mp_model **out, mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *model = mp_alloc(1, sizeof *model);
    MP_ENSURE(model, err, MP_NOMEM, "no memory for a model");
    MP_ENSURE((model->pool = mp_pool_new()) && (model->names = mp_names_new()) && (model->tensor_numbers = mp_names_new()) &&
                  (model->operator_numbers = mp_names_new()) && (model->name = mp_pool_text(model->pool, name, strlen(name))) &&
                  (model->path = mp_pool_text(model->pool, path, strlen(path))),
              err, MP_NOMEM, "no memory for the model '%s'", name);
    *out = model;
    model = NULL;
    return MP_OK;
}

void mp_model_free(mp_model *model)
{
    if (!model) return;
    mp_names_free(model->names);
    mp_names_free(model->tensor_numbers);
    mp_names_free(model->operator_numbers);
    mp_free(model->tensors);
    mp_free(model->operators);
    mp_free(model->regions);
    mp_free(model->inputs);
    mp_free(model->outputs);
    mp_pool_free(model->pool);
    mp_free(model);
}

int mp_model_find(const mp_model *model, const char *name)
{
    return mp_names_find(model->names, name);
}

/* Appends a tensor. `name` must be in the pool, and no other tensor may have it. */
static mp_status append_tensor(mp_model *model, const char *name, int *index, mp_error *err)
{
    size_t n = model->n_tensors;
    if (n >= INT_MAX || !mp_grow(&model->tensors, &model->tensors_capacity, n + 1, sizeof *model->tensors) ||
        !mp_names_set(model->names, name, (int)n))
        return MP_FAIL(err, MP_NOMEM, "no memory for the tensor '%s'", name);
    model->tensors[n] = (mp_tensor){.name = name, .rank = -1, .declared_rank = -1, .producer = -1, .replaced_by = -1};
    model->n_tensors = n + 1;
    *index = (int)n;
    return MP_OK;
}

mp_status mp_model_tensor(mp_model *model, const char *name, int *index, mp_error *err)
{
    int found = mp_model_find(model, name);
    if (found >= 0) {
        *index = found;
        return MP_OK;
    }
    const char *copy = mp_pool_text(model->pool, name, strlen(name));
    if (!copy) return MP_FAIL(err, MP_NOMEM, "no memory for the tensor '%s'", name);
    return append_tensor(model, copy, index, err);
}

/* Returns a name in the pool that is not in `taken`: `stem`, or stem with a number. `numbers` stores the last number used
 * for each stem. Many equal stems therefore do not take quadratic time. NULL: out of memory. */
static const char *unused_name(mp_model *model, const mp_names *taken, mp_names *numbers, const char *stem)
{
    const char *own_stem = mp_pool_text(model->pool, stem, strlen(stem));
    if (!own_stem || mp_names_find(taken, stem) < 0) return own_stem;
    int number = mp_names_find(numbers, stem);
    const char *name;
    if (number < 2) number = 2;
    do {
        if (!(name = mp_pool_format(model->pool, "%s_%d", stem, number++))) return NULL;
    } while (mp_names_find(taken, name) >= 0);
    return mp_names_set(numbers, own_stem, number) ? name : NULL;
}

mp_status mp_model_fresh_tensor(mp_model *model, const char *stem, int *index, mp_error *err)
{
    const char *name = unused_name(model, model->names, model->tensor_numbers, stem);
    if (!name) return MP_FAIL(err, MP_NOMEM, "no memory for the tensor '%s'", stem);
    return append_tensor(model, name, index, err);
}

/* Returns a unique name for a new operator and records it in operator_numbers. NULL: out of memory. */
static const char *operator_name(mp_model *model, const mp_operator_draft *draft)
{
    const char *stem = draft->name, *name = NULL;
    if (!stem || !stem[0]) {
        const char *output = "";
        for (int k = draft->n_out - 1; k >= 0; k--)
            if (draft->out[k] >= 0) output = model->tensors[draft->out[k]].name;
        if (!(stem = mp_pool_format(model->pool, "%s(%s)", draft->kind, output))) return NULL;
    }
    name = unused_name(model, model->operator_numbers, model->operator_numbers, stem);
    return name && mp_names_set(model->operator_numbers, name, 2) ? name : NULL;
}

/* Makes the operator the producer of the tensors out[0..n). Fails if a tensor already has a producer, is a model input or
 * stored value, or is also an input of the operator. */
static mp_status claim_outputs(mp_model *model, const mp_operator *op, int index, mp_error *err)
{
    for (int k = 0; k < op->n_out; k++) {
        if (op->out[k] < 0) continue;
        mp_tensor *t = &model->tensors[op->out[k]];
        MP_ENSURE(t->producer != index, err, MP_PARSE, "operator '%s' writes tensor '%s' twice", op->name, t->name);
        MP_ENSURE(t->producer < 0, err, MP_PARSE, "operators '%s' and '%s' both write tensor '%s'",
                  model->operators[t->producer].name, op->name, t->name);
        MP_ENSURE(t->role == MP_ROLE_ACTIVATION, err, MP_PARSE,
                  "operator '%s' writes tensor '%s', which is an input or a constant", op->name, t->name);
        t->producer = index;
    }
    for (int k = 0; k < op->n_in; k++)
        MP_ENSURE(op->in[k] < 0 || model->tensors[op->in[k]].producer != index, err, MP_PARSE,
                  "operator '%s' reads tensor '%s', which it writes itself", op->name, model->tensors[op->in[k]].name);
    return MP_OK;
}

static void give_up_outputs(mp_model *model, const mp_operator *op, int index)
{
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0 && model->tensors[op->out[k]].producer == index) model->tensors[op->out[k]].producer = -1;
}

static int *copy_tensors(mp_model *model, const int *tensors, int n)
{
    int *copy = mp_pool_alloc(model->pool, (size_t)n, sizeof *copy);
    for (int k = 0; copy && k < n; k++) copy[k] = tensors[k];
    return copy;
}

mp_operator_draft mp_draft(const char *kind, const char *domain, int version, const int *in, int n_in,
                           const mp_attribute *attributes, size_t n_attributes)
{
    return (mp_operator_draft){.kind = kind,
                               .domain = domain,
                               .version = version,
                               .in = in,
                               .n_in = n_in,
                               .attributes = attributes,
                               .n_attributes = n_attributes};
}

mp_operator_draft mp_draft_like(const mp_operator *op, const int *in, int n_in)
{
    return mp_draft(op->kind, op->domain, op->version, in, n_in, op->attributes, op->n_attributes);
}

mp_status mp_model_operator(mp_model *model, const mp_operator_draft *draft, int *index, mp_error *err)
{
    size_t n = model->n_operators;
    mp_pool *pool = model->pool;
    mp_operator op = {
        .version = draft->version, .n_in = draft->n_in, .n_out = draft->n_out, .n_attributes = draft->n_attributes};
    const char *domain = draft->domain ? draft->domain : "";
    MP_ENSURE(n < INT_MAX && mp_grow(&model->operators, &model->operators_capacity, n + 1, sizeof *model->operators) &&
                  (op.name = operator_name(model, draft)) && (op.kind = mp_pool_text(pool, draft->kind, strlen(draft->kind))) &&
                  (op.domain = mp_pool_text(pool, domain, strlen(domain))) &&
                  (op.in = copy_tensors(model, draft->in, draft->n_in)) &&
                  (op.out = copy_tensors(model, draft->out, draft->n_out)),
              err, MP_NOMEM, "no memory for an operator of kind %s", draft->kind);
    MP_CHECK(mp_attributes_copy(model, draft->attributes, draft->n_attributes, &op.attributes, err));
    const mp_status st = claim_outputs(model, &op, (int)n, err);
    if (st != MP_OK) give_up_outputs(model, &op, (int)n);
    MP_CHECK(st);
    model->operators[n] = op;
    model->n_operators = n + 1;
    *index = (int)n;
    return MP_OK;
}

static mp_status append_index(int **list, size_t *n, size_t *capacity, int tensor, mp_error *err)
{
    MP_ENSURE(mp_grow(list, capacity, *n + 1, sizeof **list), err, MP_NOMEM, "no memory for %zu declarations", *n + 1);
    (*list)[(*n)++] = tensor;
    return MP_OK;
}

mp_status mp_model_declare_input(mp_model *model, int tensor, mp_error *err)
{
    return append_index(&model->inputs, &model->n_inputs, &model->inputs_capacity, tensor, err);
}

mp_status mp_model_declare_output(mp_model *model, int tensor, mp_error *err)
{
    mp_status st = append_index(&model->outputs, &model->n_outputs, &model->outputs_capacity, tensor, err);
    if (st == MP_OK) model->tensors[tensor].is_output = true;
    return st;
}

/* Multiplies dims[0..rank). Returns false if the product of the nonzero dimensions overflows. Zeros are excluded because
 * strides of an empty tensor must also fit. */
static bool count_elements(const int64_t *dims, int rank, int64_t *n)
{
    bool is_empty = false;
    *n = 1;
    for (int k = 0; k < rank; k++) {
        is_empty |= dims[k] == 0;
        if (dims[k] && !mp_multiply(*n, dims[k], n)) return false;
    }
    if (is_empty) *n = 0;
    return true;
}

/* Computes the bytes of n elements, rounded up to whole bytes. Returns false on overflow. */
static bool count_bytes(int64_t n, mp_dtype dtype, int64_t *bytes)
{
    int bits = mp_dtype_bits(dtype);
    *bytes = n / 2 + n % 2;
    return bits == 4 || mp_multiply(n, bits / 8, bytes);
}

mp_status mp_tensor_set(mp_model *model, int tensor, mp_dtype dtype, int rank, const int64_t *dims, mp_error *err)
{
    mp_tensor *t = &model->tensors[tensor];
    int64_t elements, bytes;
    int64_t *copy = NULL;
    MP_ENSURE(rank >= 0 && rank <= MP_RANK_MAX, err, MP_PARSE, "tensor '%s' has %d dimensions, more than %d", t->name, rank,
              MP_RANK_MAX);
    for (int k = 0; k < rank; k++)
        MP_ENSURE(dims[k] >= 0, err, MP_PARSE, "dimension %d of tensor '%s' is negative (%lld)", k, t->name,
                  (long long)dims[k]);
    MP_ENSURE(count_elements(dims, rank, &elements) && count_bytes(elements, dtype, &bytes), err, MP_PARSE,
              "tensor '%s' has more bytes than can be counted", t->name);
    MP_ENSURE(copy = mp_pool_alloc(model->pool, (size_t)rank, sizeof *copy), err, MP_NOMEM, "no memory for the shape of '%s'",
              t->name);
    if (rank) memcpy(copy, dims, (size_t)rank * sizeof *copy);
    t->dtype = dtype;
    t->rank = rank;
    t->dims = copy;
    return MP_OK;
}

int64_t mp_tensor_elements(const mp_tensor *tensor)
{
    int64_t n = 0;
    return count_elements(tensor->dims, tensor->rank, &n) ? n : INT64_MAX;
}

bool mp_same_shape(const mp_tensor *a, const mp_tensor *b)
{
    if (a->dtype != b->dtype || a->rank < 0 || a->rank != b->rank) return false;
    return !a->rank || !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

int64_t mp_row_padding(const mp_tensor *tensor)
{
    if (tensor->stored.layout != MP_LAYOUT_ALIGNED_ROWS || tensor->rank < 1) return 0;
    const int64_t beyond = tensor->dims[tensor->rank - 1] % MP_ROW_ALIGNMENT;
    return beyond ? MP_ROW_ALIGNMENT - beyond : 0;
}

int64_t mp_stored_elements(const mp_tensor *tensor)
{
    const int64_t n = mp_tensor_elements(tensor), padding = mp_row_padding(tensor);
    int64_t unused;
    if (tensor->stored.packed) return tensor->stored.packed_elements;
    if (!padding || n == INT64_MAX) return n;
    return mp_multiply(n / tensor->dims[tensor->rank - 1], padding, &unused) && mp_add(n, unused, &unused) ? unused : INT64_MAX;
}

int64_t mp_tensor_bytes(const mp_tensor *tensor)
{
    int64_t bytes;
    return count_bytes(mp_stored_elements(tensor), tensor->dtype, &bytes) ? bytes : INT64_MAX;
}

static mp_tensor *tensor_at(const mp_model *model, const int *list, int n, int k)
{
    return k >= 0 && k < n && list[k] >= 0 ? &model->tensors[list[k]] : NULL;
}

mp_tensor *mp_operator_in(const mp_model *model, const mp_operator *op, int k)
{
    return tensor_at(model, op->in, op->n_in, k);
}

mp_tensor *mp_operator_out(const mp_model *model, const mp_operator *op, int k)
{
    return tensor_at(model, op->out, op->n_out, k);
}

int mp_model_resolve(const mp_model *model, int tensor)
{
    while (model->tensors[tensor].replaced_by >= 0) tensor = model->tensors[tensor].replaced_by;
    return tensor;
}

const mp_attribute *mp_operator_attribute(const mp_operator *op, const char *name)
{
    for (size_t k = 0; k < op->n_attributes; k++)
        if (!strcmp(op->attributes[k].name, name)) return &op->attributes[k];
    return NULL;
}

/* Returns the attribute of an operator if it exists and has this kind; else NULL. */
static const mp_attribute *attribute_of_kind(const mp_operator *op, const char *name, mp_attribute_kind kind)
{
    const mp_attribute *a = mp_operator_attribute(op, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t mp_operator_int(const mp_operator *op, const char *name, int64_t otherwise)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_INT);
    return a ? a->i : otherwise;
}

double mp_operator_float(const mp_operator *op, const char *name, double otherwise)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_FLOAT);
    return a ? a->f : otherwise;
}

const char *mp_operator_text(const mp_operator *op, const char *name, const char *otherwise)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_TEXT);
    return a ? a->text : otherwise;
}

const int64_t *mp_operator_ints(const mp_operator *op, const char *name, size_t *n)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_INTS);
    *n = a ? a->n : 0;
    return a ? a->ints : NULL;
}

/* Returns a copy in the pool of n elements of `size` bytes. NULL: out of memory. `from` may be NULL if n is 0. */
static void *copy_elements(mp_pool *pool, const void *from, size_t n, size_t size)
{
    void *copy = mp_pool_alloc(pool, n, size);
    if (copy && n) memcpy(copy, from, n * size);
    return copy;
}

/* Replaces every pointer in attribute *a by a pointer to a copy in the pool. Returns false if memory is short. */
static bool own_contents(mp_model *model, mp_attribute *a)
{
    mp_pool *pool = model->pool;
    if (!(a->name = mp_pool_text(pool, a->name, strlen(a->name)))) return false;
    if (a->text && !(a->text = mp_pool_text(pool, a->text, strlen(a->text)))) return false;
    if (a->ints && !(a->ints = copy_elements(pool, a->ints, a->n, sizeof *a->ints))) return false;
    if (a->floats && !(a->floats = copy_elements(pool, a->floats, a->n, sizeof *a->floats))) return false;
    if (a->dims && !(a->dims = copy_elements(pool, a->dims, a->rank > 0 ? (size_t)a->rank : 0, sizeof *a->dims))) return false;
    if (a->value) {
        mp_value *value = mp_value_new(model, a->value->n, a->value->is_real);
        if (!value) return false;
        if (value->n && value->is_real) memcpy(value->f, a->value->f, (size_t)value->n * sizeof *value->f);
        if (value->n && !value->is_real) memcpy(value->i, a->value->i, (size_t)value->n * sizeof *value->i);
        a->value = value;
    }
    return true;
}

mp_attribute mp_attribute_int(const char *name, int64_t i)
{
    return (mp_attribute){.name = name, .kind = MP_ATTRIBUTE_INT, .i = i};
}

mp_attribute mp_attribute_float(const char *name, double f)
{
    return (mp_attribute){.name = name, .kind = MP_ATTRIBUTE_FLOAT, .f = f};
}

mp_attribute mp_attribute_ints(const char *name, const int64_t *ints, size_t n)
{
    return (mp_attribute){.name = name, .kind = MP_ATTRIBUTE_INTS, .n = n, .ints = (int64_t *)ints};
}

mp_status mp_attributes_copy(mp_model *model, const mp_attribute *from, size_t n, mp_attribute **out, mp_error *err)
{
    mp_attribute *copy = copy_elements(model->pool, from, n, sizeof *from);
    bool complete = copy != NULL;
    for (size_t k = 0; complete && k < n; k++) complete = own_contents(model, &copy[k]);
    if (!complete) return MP_FAIL(err, MP_NOMEM, "no memory for %zu attributes", n);
    *out = copy;
    return MP_OK;
}

mp_value *mp_value_new(mp_model *model, int64_t n, bool is_real)
{
    mp_value *value = mp_pool_alloc(model->pool, 1, sizeof *value);
    if (!value || n < 0) return NULL;
    value->n = n;
    value->is_real = is_real;
    if (is_real)
        value->f = mp_pool_alloc(model->pool, (size_t)n, sizeof *value->f);
    else
        value->i = mp_pool_alloc(model->pool, (size_t)n, sizeof *value->i);
    return (is_real ? (void *)value->f : (void *)value->i) ? value : NULL;
}

mp_status mp_model_constant(mp_model *model, const char *stem, mp_dtype dtype, int rank, const int64_t *dims, int *tensor,
                            mp_value **value, mp_error *err)
{
    MP_CHECK(mp_model_fresh_tensor(model, stem, tensor, err));
    MP_CHECK(mp_tensor_set(model, *tensor, dtype, rank, dims, err));
    mp_tensor *t = &model->tensors[*tensor];
    *value = t->value = mp_value_new(model, mp_tensor_elements(t), mp_dtype_is_float(dtype));
    t->role = MP_ROLE_CONSTANT;
    return t->value ? MP_OK : MP_FAIL(err, MP_NOMEM, "no memory for the value of '%s'", t->name);
}

mp_status mp_model_region(mp_model *model, int outer, const char *prefix, int *index, mp_error *err)
{
    size_t n = model->n_regions ? model->n_regions : 1; /* the first region gets index 1, because region 0 is the main graph */
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
