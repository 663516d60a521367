/* onnx_dimensions.c - binds open dimensions to sizes.
 *
 * A dimension of an input is a number, a symbol ("N"), or unknown: no value, -1 (Paddle), or "?" (others). An unknown
 * dimension gets the symbol "INPUT[AXIS]", so that --dim can name it. --batch sets the first dimension of the data inputs.
 * If only another axis has the name of a batch (sequence first), --batch sets that axis. */
#include "formats/onnx/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "estimator/base/names.h"

enum { OPEN = -1 };

typedef struct symbol {
    const char *name;
    int64_t size; /* size of the dimension; OPEN: not known so far */
    bool by_batch;
} symbol;

typedef struct binder {
    mp_model *model;
    const mp_onnx_options *options;
    symbol *symbols;
    size_t n_symbols, capacity;
    mp_names *index; /* map from the name of a dimension to its index in `symbols` */
    mp_error *err;
} binder;

/* Returns the tensor type that a declaration states; NULL: none. */
static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__ValueInfoProto *info)
{
    return info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? info->type->tensor_type : NULL;
}

/* Returns the size of a dimension; OPEN: the file does not fix it. Negative numbers other than -1 are returned unchanged. */
static int64_t fixed_size(const Onnx__TensorShapeProto__Dimension *d)
{
    return d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ? d->dim_value : OPEN;
}

/* Like fixed_size, for the dimension of an input. Some exporters write a batch dimension as 0; it is OPEN if a batch is
 * given. */
static int64_t input_size(const Onnx__TensorShapeProto *shape, size_t axis, const mp_onnx_options *options)
{
    int64_t size = fixed_size(shape->dim[axis]);
    return size == 0 && axis == 0 && options->batch > 0 ? OPEN : size;
}

/* Returns the symbol that the file states for a dimension; NULL: none. "?" and similar texts do not count as symbols,
 * because two such dimensions may have different sizes. */
static const char *file_symbol(const Onnx__TensorShapeProto__Dimension *d)
{
    static const char *const unknown[] = {"", "?", "None", "-1"};
    if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM || !d->dim_param) return NULL;
    for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++)
        if (!strcmp(d->dim_param, unknown[k])) return NULL;
    return d->dim_param;
}

static mp_status check_input(const Onnx__ValueInfoProto *info, mp_error *err)
{
    static const struct {
        Onnx__TypeProto__ValueCase value_case;
        const char *what;
    } others[] = {{ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE, "a sequence"},
                  {ONNX__TYPE_PROTO__VALUE_MAP_TYPE, "a map"},
                  {ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE, "optional"},
                  {ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE, "a sparse tensor"}};
    const char *name = mp_onnx_text(info->name);
    const Onnx__TypeProto__Tensor *type = tensor_type(info);
    if (!*name) return MP_FAIL(err, MP_PARSE, "the graph has an input without a name");
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (info->type && info->type->value_case == others[k].value_case)
            return MP_FAIL(err, MP_UNSUPPORTED, "input '%s' is %s, and only tensors are supported", name, others[k].what);
    if (!type || !type->has_elem_type || type->elem_type == MP_DTYPE_UNDEFINED)
        return MP_FAIL(err, MP_PARSE, "input '%s' does not declare its type", name);
    if (type->elem_type < 0 || type->elem_type >= MP_N_DTYPES)
        return MP_FAIL(err, MP_UNSUPPORTED, "input '%s' has elements of the unknown type %d", name, (int)type->elem_type);
    if (!type->shape) return MP_FAIL(err, MP_UNSUPPORTED, "input '%s' does not declare its shape", name);
    MP_ENSURE(type->shape->n_dim <= MP_RANK_MAX, err, MP_PARSE, "input '%s' has more than %d dimensions", name, MP_RANK_MAX);
    return MP_OK;
}

mp_status mp_onnx_inputs(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err)
{
    for (size_t k = 0; k < graph->n_input; k++) {
        const Onnx__ValueInfoProto *info = graph->input[k];
        int index = info->name ? mp_model_find(model, info->name) : -1;
        if (index >= 0 && model->tensors[index].role == MP_ROLE_CONSTANT)
            continue; /* old files list initializers as inputs, too; these are not inputs of the model */
        MP_ENSURE(index < 0, err, MP_PARSE, "the graph has two inputs named '%s'", info->name);
        MP_CHECK(check_input(info, err));
        MP_CHECK(mp_model_tensor(model, info->name, &index, err));
        MP_CHECK(mp_model_declare_input(model, index, err));
        const Onnx__TypeProto__Tensor *type = tensor_type(info);
        int64_t dims[MP_RANK_MAX];
        bool open = false;
        for (size_t d = 0; d < type->shape->n_dim; d++) open |= (dims[d] = input_size(type->shape, d, options)) == OPEN;
        if (!open) MP_CHECK(mp_tensor_set(model, index, (mp_dtype)type->elem_type, (int)type->shape->n_dim, dims, err));
        model->tensors[index].dtype = (mp_dtype)type->elem_type;
        model->tensors[index].role = MP_ROLE_DATA;
    }
    return MP_OK;
}

static mp_status add_symbol(binder *b, const char *name)
{
    if (mp_names_find(b->index, name) >= 0) return MP_OK;
    if (!mp_grow(&b->symbols, &b->capacity, b->n_symbols + 1, sizeof *b->symbols) ||
        !mp_names_set(b->index, name, (int)b->n_symbols))
        return MP_FAIL(b->err, MP_NOMEM, "no memory for the dimension '%s'", name);
    b->symbols[b->n_symbols++] = (symbol){.name = name, .size = OPEN};
    return MP_OK;
}

/* Returns the name of an open dimension of an input. If the file states no name, one is generated. NULL: out of memory. */
static const char *symbol_name(binder *b, const char *input, size_t axis, const Onnx__TensorShapeProto__Dimension *d)
{
    const char *name = file_symbol(d);
    return name ? name : mp_pool_format(b->model->pool, "%s[%zu]", input, axis);
}

static symbol *find_symbol(binder *b, const char *name)
{
    int k = mp_names_find(b->index, name);
    return k >= 0 ? &b->symbols[k] : NULL;
}

/* True if the shape of a declared input is not fully known. */
static bool lacks_shape(const binder *b, const Onnx__ValueInfoProto *info, int *index)
{
    *index = mp_model_find(b->model, info->name);
    return b->model->tensors[*index].rank < 0;
}

/* Collects the symbols of the dimensions of all inputs. */
static mp_status collect(binder *b, const Onnx__GraphProto *graph)
{
    int index;
    for (size_t k = 0; k < graph->n_input; k++) {
        const Onnx__ValueInfoProto *info = graph->input[k];
        if (!lacks_shape(b, info, &index)) continue;
        const Onnx__TensorShapeProto *shape = tensor_type(info)->shape;
        for (size_t d = 0; d < shape->n_dim; d++) {
            if (input_size(shape, d, b->options) != OPEN) continue;
            const char *name = symbol_name(b, info->name, d, shape->dim[d]);
            MP_ENSURE(name, b->err, MP_NOMEM, "no memory for the dimensions of '%s'", info->name);
            MP_CHECK(add_symbol(b, name));
        }
    }
    return MP_OK;
}

/* Writes a list for an error message, " (they are 'a', 'b')". It is truncated at the end of the buffer. */
static void list_symbols(const binder *b, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t k = 0; k < b->n_symbols && used < size; k++)
        used += (size_t)snprintf(out + used, size - used, "%s'%.40s'", k ? ", " : "", b->symbols[k].name);
}

static mp_status apply_dim_options(binder *b)
{
    char known[200];
    for (size_t k = 0; k < b->options->n_dimensions; k++) {
        const mp_dimension *d = &b->options->dimensions[k];
        symbol *s = find_symbol(b, d->name);
        if (d->size < 1) return MP_FAIL(b->err, MP_INVALID, "--dim %s=%" PRId64 " is no size", d->name, d->size);
        MP_ENSURE(s || b->n_symbols, b->err, MP_INVALID, "--dim names '%s', but no input has an open dimension", d->name);
        if (!s) {
            list_symbols(b, known, sizeof known);
            return MP_FAIL(b->err, MP_INVALID, "--dim names '%s', which is no open dimension of the inputs; these are: %s",
                           d->name, known);
        }
        MP_ENSURE(s->size == OPEN || s->size == d->size, b->err, MP_INVALID,
                  "--dim gives '%s' two sizes, %" PRId64 " and %" PRId64, d->name, s->size, d->size);
        s->size = d->size;
    }
    return MP_OK;
}

bool mp_onnx_is_batch_name(const char *name)
{
    if (!strcasecmp(name, "N") || !strcasecmp(name, "B") || !strcasecmp(name, "bs")) return true;
    for (; *name; name++)
        if (!strncasecmp(name, "batch", 5)) return true;
    return false;
}

/* Returns the axis of a data input that --batch sets. -1: the first dimension is fixed, and no dimension has the name of a
 * batch. */
static int batch_axis(const Onnx__TensorShapeProto *shape, const mp_onnx_options *options)
{
    int named = -1;
    for (size_t d = shape->n_dim; d-- > 0;)
        if (file_symbol(shape->dim[d]) && mp_onnx_is_batch_name(file_symbol(shape->dim[d]))) named = (int)d;
    if (named >= 0) return named;
    return shape->n_dim && input_size(shape, 0, options) == OPEN ? 0 : -1;
}

/* If no data input has an open batch dimension, checks that the given batch equals the one that the file fixes. */
static mp_status check_fixed_batch(const binder *b)
{
    const mp_model *model = b->model;
    for (size_t k = 0; k < model->n_inputs; k++) {
        const mp_tensor *t = &model->tensors[model->inputs[k]];
        if (t->role != MP_ROLE_DATA || t->rank < 1) continue;
        if (t->dims[0] == b->options->batch) return MP_OK;
        return MP_FAIL(b->err, MP_INVALID,
                       "the file fixes the batch at %" PRId64 " (the first dimension of input '%s'), so --batch %" PRId64
                       " cannot be met",
                       t->dims[0], t->name, b->options->batch);
    }
    return MP_FAIL(b->err, MP_INVALID, "--batch %" PRId64 " cannot be met: no data input has a batch dimension",
                   b->options->batch);
}

static mp_status apply_batch(binder *b, const Onnx__GraphProto *graph)
{
    int index;
    bool any = false;
    if (!b->options->batch) return MP_OK;
    for (size_t k = 0; k < graph->n_input; k++) {
        const Onnx__ValueInfoProto *info = graph->input[k];
        if (!lacks_shape(b, info, &index) || b->model->tensors[index].role != MP_ROLE_DATA) continue;
        const Onnx__TensorShapeProto *shape = tensor_type(info)->shape;
        int axis = batch_axis(shape, b->options);
        if (axis < 0) continue;
        const char *name = symbol_name(b, info->name, (size_t)axis, shape->dim[axis]);
        symbol *s = name ? find_symbol(b, name) : NULL;
        if (!s) return MP_FAIL(b->err, MP_NOMEM, "no memory for the dimensions of '%s'", info->name);
        MP_ENSURE(s->size == OPEN || s->size == b->options->batch, b->err, MP_INVALID,
                  "--batch %" PRId64 " and --dim %s=%" PRId64 " contradict each other", b->options->batch, name, s->size);
        s->size = b->options->batch;
        any = true;
    }
    return any ? MP_OK : check_fixed_batch(b);
}

/* Computes a declared shape. Dimensions whose size is not known are OPEN. `dims` has MP_RANK_MAX entries. */
static void declared_shape(binder *b, const Onnx__TensorShapeProto *shape, int64_t *dims)
{
    for (size_t d = 0; d < shape->n_dim; d++) {
        const char *name = file_symbol(shape->dim[d]);
        const symbol *s = name ? find_symbol(b, name) : NULL;
        dims[d] = s ? s->size : fixed_size(shape->dim[d]);
        if (dims[d] < 0) dims[d] = OPEN;
    }
}

static mp_status set_input(binder *b, const Onnx__ValueInfoProto *info, int index)
{
    const Onnx__TensorShapeProto *shape = tensor_type(info)->shape;
    int64_t dims[MP_RANK_MAX];
    int batch = b->model->tensors[index].role == MP_ROLE_DATA ? batch_axis(shape, b->options) : -1;
    for (size_t d = 0; d < shape->n_dim; d++) {
        if ((dims[d] = input_size(shape, d, b->options)) != OPEN) continue;
        const char *name = symbol_name(b, info->name, d, shape->dim[d]);
        const symbol *s = name ? find_symbol(b, name) : NULL;
        if (!s) return MP_FAIL(b->err, MP_NOMEM, "no memory for the shape of '%s'", info->name);
        dims[d] = s->size;
        MP_ENSURE(s->size != OPEN, b->err, MP_PARSE,
                  "dimension '%s' (axis %zu of input '%s') has no size: give it one with %s--dim %s=SIZE", name, d, info->name,
                  batch == (int)d ? "--batch SIZE or " : "", name);
    }
    return mp_tensor_set(b->model, index, b->model->tensors[index].dtype, (int)shape->n_dim, dims, b->err);
}

/* Records in the model the types and shapes that the file declares for tensors. */
static mp_status record_declarations(binder *b, Onnx__ValueInfoProto *const *infos, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const Onnx__TypeProto__Tensor *type = tensor_type(infos[k]);
        int index = type && infos[k]->name ? mp_model_find(b->model, infos[k]->name) : -1;
        if (index < 0) continue;
        mp_tensor *t = &b->model->tensors[index];
        if (type->has_elem_type && type->elem_type > 0 && type->elem_type < MP_N_DTYPES)
            t->declared_dtype = (mp_dtype)type->elem_type;
        if (!type->shape || type->shape->n_dim > MP_RANK_MAX) continue;
        if (!(t->declared_dims = mp_pool_alloc(b->model->pool, type->shape->n_dim, sizeof *t->declared_dims)))
            return MP_FAIL(b->err, MP_NOMEM, "no memory for the shape of '%s'", t->name);
        t->declared_rank = (int)type->shape->n_dim;
        declared_shape(b, type->shape, t->declared_dims);
    }
    return MP_OK;
}

static void binder_free(binder *b)
{
    mp_free(b->symbols);
    mp_names_free(b->index);
}

mp_status mp_onnx_bind(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err)
{
    MP_CLEARED_BY(binder_free) binder b = {.model = model, .options = options, .err = err};
    int index;
    MP_ENSURE(options->batch >= 0, err, MP_INVALID, "--batch %" PRId64 " is no size", options->batch);
    MP_ENSURE(b.index = mp_names_new(), err, MP_NOMEM, "no memory for the dimensions");
    MP_CHECK(collect(&b, graph));
    MP_CHECK(apply_dim_options(&b));
    MP_CHECK(apply_batch(&b, graph));
    for (size_t k = 0; k < graph->n_input; k++)
        if (lacks_shape(&b, graph->input[k], &index)) MP_CHECK(set_input(&b, graph->input[k], index));
    MP_CHECK(record_declarations(&b, graph->input, graph->n_input));
    MP_CHECK(record_declarations(&b, graph->value_info, graph->n_value_info));
    return record_declarations(&b, graph->output, graph->n_output);
}
