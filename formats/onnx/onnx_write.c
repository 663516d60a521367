/* onnx_write.c - writes a model as an ONNX file without weights: parameters and buffers become inputs. */
#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "formats/base/file.h"
#include "formats/onnx/onnx.h"
#include "memplan/onnx.h"
#include "onnx.pb-c.h"

enum { IR_VERSION = 10 };

/* The state of writing a model. All protobuf messages are in the pool. */
typedef struct writer {
    const mp_model *model;
    mp_pool *pool;
    bool open_batch;
    mp_error *err;
} writer;

/* Returns a new protobuf message of this type. NULL: out of memory. */
static void *message(const writer *w, const ProtobufCMessageDescriptor *type)
{
    void *made = mp_pool_alloc(w->pool, 1, type->sizeof_message);
    if (made) protobuf_c_message_init(type, made);
    return made;
}

static char *text(const writer *w, const char *from)
{
    return mp_pool_text(w->pool, from, strlen(from));
}

static mp_status no_memory(const writer *w)
{
    return MP_FAIL(w->err, MP_NOMEM, "no memory for the file of '%s'", w->model->name);
}

/* Allocates an array of messages. */
#define LIST(w, list, n) ((list) = mp_pool_alloc((w)->pool, (n) + 1, sizeof *(list)))

/* ---- tensors ---- */

/* Writes an element of a tensor, lowest byte first. Returns its number of bytes; 0: the type is not supported. */
static size_t element(mp_dtype dtype, const mp_value *value, int64_t k, uint8_t bytes[8])
{
    uint64_t bits;
    const size_t size = (size_t)mp_dtype_bits(dtype) / 8;
    if (!value->is_real) {
        memcpy(&bits, &value->i[k], sizeof bits);
    } else if (dtype == MP_DTYPE_DOUBLE) {
        memcpy(&bits, &value->f[k], sizeof bits);
    } else if (dtype == MP_DTYPE_FLOAT) {
        const float single = (float)value->f[k];
        uint32_t word;
        memcpy(&word, &single, sizeof word);
        bits = word;
    } else {
        return 0;
    }
    for (size_t b = 0; b < size; b++) bytes[b] = (uint8_t)(bits >> 8 * b);
    return size;
}

static mp_status tensor_of(const writer *w, const char *name, mp_dtype dtype, int rank, const int64_t *dims,
                           const mp_value *value, Onnx__TensorProto **out)
{
    Onnx__TensorProto *t = *out = message(w, &onnx__tensor_proto__descriptor);
    uint8_t bytes[8], *at;
    MP_ENSURE(value, w->err, MP_UNSUPPORTED, "the value of '%s' is not known, so that it cannot be written", name);
    if (!t || !(t->name = text(w, name)) || !LIST(w, t->dims, (size_t)rank)) return no_memory(w);
    t->has_data_type = 1;
    t->data_type = (int32_t)dtype;
    t->n_dims = (size_t)rank;
    for (int d = 0; d < rank; d++) t->dims[d] = dims[d];
    const size_t size = value->n ? element(dtype, value, 0, bytes) : 1;
    MP_ENSURE(size, w->err, MP_UNSUPPORTED, "values of type %s cannot be written, as '%s' requires", mp_dtype_name(dtype),
              name);
    at = t->raw_data.data = mp_pool_alloc(w->pool, (size_t)value->n + 1, size);
    if (!at) return no_memory(w);
    t->has_raw_data = 1;
    t->raw_data.len = (size_t)value->n * size;
    for (int64_t k = 0; k < value->n; k++, at += size) {
        element(dtype, value, k, bytes);
        memcpy(at, bytes, size);
    }
    return MP_OK;
}

/* Describes an input or output of the graph: its name, element type and dimensions. */
static mp_status value_info(const writer *w, int tensor, bool open, Onnx__ValueInfoProto **out)
{
    const mp_tensor *t = &w->model->tensors[tensor];
    Onnx__ValueInfoProto *info = *out = message(w, &onnx__value_info_proto__descriptor);
    Onnx__TypeProto *type = message(w, &onnx__type_proto__descriptor);
    Onnx__TypeProto__Tensor *of = message(w, &onnx__type_proto__tensor__descriptor);
    Onnx__TensorShapeProto *shape = message(w, &onnx__tensor_shape_proto__descriptor);
    if (!info || !type || !of || !shape || !(info->name = text(w, t->name)) || !LIST(w, shape->dim, (size_t)t->rank))
        return no_memory(w);
    info->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = of;
    of->has_elem_type = 1;
    of->elem_type = (int32_t)t->dtype;
    of->shape = shape;
    shape->n_dim = (size_t)t->rank;
    for (int d = 0; d < t->rank; d++) {
        Onnx__TensorShapeProto__Dimension *one = shape->dim[d] = message(w, &onnx__tensor_shape_proto__dimension__descriptor);
        if (!one) return no_memory(w);
        one->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        one->dim_value = t->dims[d];
        if (!open || d) continue;
        one->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        one->dim_param = text(w, "batch");
    }
    return MP_OK;
}

/* ---- operators ---- */

static mp_status attribute_of(const writer *w, const mp_operator *op, const mp_attribute *from, Onnx__AttributeProto **out)
{
    Onnx__AttributeProto *a = *out = message(w, &onnx__attribute_proto__descriptor);
    if (!a || !(a->name = text(w, from->name))) return no_memory(w);
    a->has_type = 1;
    switch (from->kind) {
    case MP_ATTRIBUTE_INT:
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        a->has_i = 1;
        a->i = from->i;
        return MP_OK;
    case MP_ATTRIBUTE_FLOAT:
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        a->has_f = 1;
        a->f = (float)from->f;
        return MP_OK;
    case MP_ATTRIBUTE_TEXT:
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        a->has_s = 1;
        a->s.len = strlen(from->text);
        a->s.data = (uint8_t *)text(w, from->text);
        return MP_OK;
    case MP_ATTRIBUTE_INTS:
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        if (!LIST(w, a->ints, from->n)) return no_memory(w);
        a->n_ints = from->n;
        for (size_t k = 0; k < from->n; k++) a->ints[k] = from->ints[k];
        return MP_OK;
    case MP_ATTRIBUTE_FLOATS:
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
        if (!LIST(w, a->floats, from->n)) return no_memory(w);
        a->n_floats = from->n;
        for (size_t k = 0; k < from->n; k++) a->floats[k] = (float)from->floats[k];
        return MP_OK;
    case MP_ATTRIBUTE_TENSOR:
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
        return tensor_of(w, op->name, from->dtype, from->rank, from->dims, from->value, &a->t);
    default:
        return MP_FAIL(w->err, MP_UNSUPPORTED, "attribute '%s' of '%s' has a type that cannot be written", from->name,
                       op->name);
    }
}

/* Creates a list of the names of operands. An omitted operand has the name "". */
static mp_status names_of(const writer *w, const int *tensors, int n, size_t *count, char ***out)
{
    if (!LIST(w, *out, (size_t)n)) return no_memory(w);
    *count = (size_t)n;
    for (int k = 0; k < n; k++)
        if (!((*out)[k] = text(w, tensors[k] < 0 ? "" : w->model->tensors[tensors[k]].name))) return no_memory(w);
    return MP_OK;
}

static mp_status node_of(const writer *w, const mp_operator *op, Onnx__NodeProto **out)
{
    Onnx__NodeProto *node = *out = message(w, &onnx__node_proto__descriptor);
    if (!node || !(node->name = text(w, op->name)) || !(node->op_type = text(w, op->kind)) ||
        !(node->domain = text(w, op->domain)) || !LIST(w, node->attribute, op->n_attributes))
        return no_memory(w);
    MP_CHECK(names_of(w, op->in, op->n_in, &node->n_input, &node->input));
    MP_CHECK(names_of(w, op->out, op->n_out, &node->n_output, &node->output));
    node->n_attribute = op->n_attributes;
    for (size_t k = 0; k < op->n_attributes; k++) MP_CHECK(attribute_of(w, op, &op->attributes[k], &node->attribute[k]));
    return MP_OK;
}

/* Writes the imports of the operator sets that the operators belong to. */
static mp_status import_sets(const writer *w, Onnx__ModelProto *file)
{
    const mp_model *m = w->model;
    if (!LIST(w, file->opset_import, m->n_operators)) return no_memory(w);
    for (size_t k = 0; k < m->n_operators; k++) {
        const mp_operator *op = &m->operators[k];
        size_t at = 0;
        while (at < file->n_opset_import && strcmp(file->opset_import[at]->domain, op->domain) != 0) at++;
        if (op->removed) continue;
        MP_ENSURE(at == file->n_opset_import || file->opset_import[at]->version == op->version, w->err, MP_UNSUPPORTED,
                  "operators of two versions of one set, as '%s', cannot be in one file", op->name);
        if (at < file->n_opset_import) continue;
        Onnx__OperatorSetIdProto *set = file->opset_import[at] = message(w, &onnx__operator_set_id_proto__descriptor);
        if (!set || !(set->domain = text(w, op->domain))) return no_memory(w);
        set->has_version = 1;
        set->version = op->version;
        file->n_opset_import++;
    }
    return MP_OK;
}

/* ---- the file ---- */

static mp_status add_input(const writer *w, Onnx__GraphProto *graph, int tensor, bool *declared)
{
    const mp_tensor *t = &w->model->tensors[tensor];
    declared[tensor] = true;
    return value_info(w, tensor, w->open_batch && t->role == MP_ROLE_DATA && t->rank > 0, &graph->input[graph->n_input++]);
}

static mp_status graph_of(const writer *w, Onnx__GraphProto *graph)
{
    const mp_model *m = w->model;
    bool *declared;
    if (!(graph->name = text(w, m->name)) || !LIST(w, graph->node, m->n_operators) || !LIST(w, graph->input, m->n_tensors) ||
        !LIST(w, graph->output, m->n_outputs) || !LIST(w, graph->initializer, m->n_tensors) || !LIST(w, declared, m->n_tensors))
        return no_memory(w);
    for (size_t k = 0; k < m->n_inputs; k++) MP_CHECK(add_input(w, graph, m->inputs[k], declared));
    for (size_t k = 0; k < m->n_outputs; k++)
        MP_CHECK(value_info(w, m->outputs[k], w->open_batch && m->tensors[m->outputs[k]].rank > 0,
                            &graph->output[graph->n_output++]));
    for (size_t k = 0; k < m->n_tensors; k++) {
        const mp_tensor *t = &m->tensors[k];
        if (t->producer >= 0 || declared[k]) continue;
        if (t->role == MP_ROLE_CONSTANT)
            MP_CHECK(tensor_of(w, t->name, t->dtype, t->rank, t->dims, t->value, &graph->initializer[graph->n_initializer++]));
        else if (t->role != MP_ROLE_ACTIVATION)
            MP_CHECK(add_input(w, graph, (int)k, declared));
    }
    for (size_t k = 0; k < m->n_operators; k++)
        if (!m->operators[k].removed) MP_CHECK(node_of(w, &m->operators[k], &graph->node[graph->n_node++]));
    return MP_OK;
}

mp_status mp_onnx_write(const mp_model *model, bool open_batch, const char *path, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    const writer w = {.model = model, .pool = pool, .open_batch = open_batch, .err = err};
    Onnx__ModelProto *file = message(&w, &onnx__model_proto__descriptor);
    MP_ENSURE(!model->n_regions, err, MP_UNSUPPORTED, "a model with If, Loop or Scan cannot be written");
    if (!file || !(file->graph = message(&w, &onnx__graph_proto__descriptor)) || !(file->producer_name = text(&w, "memplan")))
        return no_memory(&w);
    file->has_ir_version = 1;
    file->ir_version = IR_VERSION;
    MP_CHECK(import_sets(&w, file));
    MP_CHECK(graph_of(&w, file->graph));
    if (mp_pool_failed(pool)) return no_memory(&w);
    const size_t size = onnx__model_proto__get_packed_size(file);
    MP_OWNED uint8_t *bytes = mp_alloc(size + 1, 1);
    if (!bytes) return no_memory(&w);
    return mp_file_write(path, bytes, onnx__model_proto__pack(file, bytes), err);
}
