/* onnx_builder.c - builds protobuf-c messages by hand and writes them to a file. */
#include "tests/cases/onnx_builder.h"

#include "estimator/base/memory.h"
#include "estimator/model/model.h"
#include "tests/cases/test.h"

#include <unistd.h>

static void *zeroed(onnx_builder *b, size_t size)
{
    void *p = mp_pool_alloc(b->pool, 1, size);
    assert_non_null(p);
    return p;
}

static char *copy(onnx_builder *b, const char *text)
{
    return mp_pool_text(b->pool, text, strlen(text));
}

void onnx_push(onnx_builder *b, size_t *n, void *array_pointer, void *element)
{
    void **old, **grown = zeroed(b, (*n + 1) * sizeof(void *));
    memcpy(&old, array_pointer, sizeof old);
    if (*n) memcpy(grown, old, *n * sizeof(void *));
    grown[(*n)++] = element;
    memcpy(array_pointer, &grown, sizeof grown);
}

/* Calls push for each comma-separated part; "" has none. */
static void split(onnx_builder *b, const char *list, size_t *n, char ***out)
{
    for (const char *at = list; at && *list; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        onnx_push(b, n, out, mp_pool_text(b->pool, at, strcspn(at, ",")));
}

void onnx_start(onnx_builder *b)
{
    *b = (onnx_builder){.pool = mp_pool_new()};
    assert_non_null(b->pool);
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    b->model.has_ir_version = 1;
    b->model.ir_version = 8;
    b->model.graph = &b->graph;
    onnx_import(b, "", 17);
}

void onnx_end(onnx_builder *b)
{
    if (b->path[0]) unlink(b->path);
    mp_pool_free(b->pool);
}

void onnx_import(onnx_builder *b, const char *domain, int64_t version)
{
    Onnx__OperatorSetIdProto *set = zeroed(b, sizeof *set);
    onnx__operator_set_id_proto__init(set);
    set->domain = copy(b, domain);
    set->has_version = 1;
    set->version = version;
    onnx_push(b, &b->model.n_opset_import, &b->model.opset_import, set);
}

static Onnx__NodeProto *new_node(onnx_builder *b, const char *kind, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = zeroed(b, sizeof *node);
    onnx__node_proto__init(node);
    const char *dot = strrchr(kind, '.');
    node->op_type = copy(b, dot ? dot + 1 : kind);
    if (dot) node->domain = mp_pool_text(b->pool, kind, (size_t)(dot - kind));
    split(b, inputs, &node->n_input, &node->input);
    split(b, outputs, &node->n_output, &node->output);
    return node;
}

Onnx__NodeProto *onnx_node(onnx_builder *b, const char *kind, const char *name, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = new_node(b, kind, inputs, outputs);
    node->name = copy(b, name);
    onnx_push(b, &b->graph.n_node, &b->graph.node, node);
    return node;
}

Onnx__FunctionProto *onnx_function(onnx_builder *b, const char *domain, const char *name, const char *inputs,
                                   const char *outputs)
{
    Onnx__FunctionProto *f = zeroed(b, sizeof *f);
    onnx__function_proto__init(f);
    f->domain = copy(b, domain);
    f->name = copy(b, name);
    split(b, inputs, &f->n_input, &f->input);
    split(b, outputs, &f->n_output, &f->output);
    f->n_opset_import = 1;
    f->opset_import = b->model.opset_import;
    onnx_push(b, &b->model.n_functions, &b->model.functions, f);
    return f;
}

Onnx__NodeProto *onnx_function_node(onnx_builder *b, Onnx__FunctionProto *f, const char *kind, const char *inputs,
                                    const char *outputs)
{
    Onnx__NodeProto *node = new_node(b, kind, inputs, outputs);
    onnx_push(b, &f->n_node, &f->node, node);
    return node;
}

Onnx__ValueInfoProto *onnx_value_info(onnx_builder *b, const char *name, int type, const char *dims)
{
    Onnx__ValueInfoProto *info = zeroed(b, sizeof *info);
    Onnx__TypeProto *t = zeroed(b, sizeof *t);
    Onnx__TypeProto__Tensor *tensor = zeroed(b, sizeof *tensor);
    char **parts = NULL;
    size_t n = 0;
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(t);
    onnx__type_proto__tensor__init(tensor);
    info->name = copy(b, name);
    info->type = t;
    t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    t->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = zeroed(b, sizeof *tensor->shape);
    onnx__tensor_shape_proto__init(tensor->shape);
    split(b, dims, &n, &parts);
    for (size_t k = 0; k < n; k++) {
        Onnx__TensorShapeProto__Dimension *d = zeroed(b, sizeof *d);
        char *rest;
        onnx__tensor_shape_proto__dimension__init(d);
        long long size = strtoll(parts[k], &rest, 10);
        if (!*rest) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = size;
        } else if (strcmp(parts[k], "-")) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = parts[k];
        }
        onnx_push(b, &tensor->shape->n_dim, &tensor->shape->dim, d);
    }
    return info;
}

void onnx_input(onnx_builder *b, const char *name, int type, const char *dims)
{
    onnx_push(b, &b->graph.n_input, &b->graph.input, onnx_value_info(b, name, type, dims));
}

void onnx_output(onnx_builder *b, const char *name, int type, const char *dims)
{
    onnx_push(b, &b->graph.n_output, &b->graph.output, onnx_value_info(b, name, type, dims));
}

Onnx__TensorProto *onnx_tensor(onnx_builder *b, const char *name, int type, const char *dims)
{
    Onnx__TensorProto *t = zeroed(b, sizeof *t);
    char **parts = NULL;
    onnx__tensor_proto__init(t);
    t->name = copy(b, name);
    t->has_data_type = 1;
    t->data_type = type;
    split(b, dims, &t->n_dims, &parts);
    t->dims = zeroed(b, (t->n_dims + 1) * sizeof *t->dims);
    for (size_t k = 0; k < t->n_dims; k++) t->dims[k] = strtoll(parts[k], NULL, 10);
    return t;
}

Onnx__TensorProto *onnx_initializer(onnx_builder *b, const char *name, int type, const char *dims)
{
    Onnx__TensorProto *t = onnx_tensor(b, name, type, dims);
    onnx_push(b, &b->graph.n_initializer, &b->graph.initializer, t);
    return t;
}

void onnx_raw(Onnx__TensorProto *tensor, const void *bytes, size_t n)
{
    tensor->has_raw_data = 1;
    tensor->raw_data.len = n;
    memcpy(&tensor->raw_data.data, &bytes, sizeof bytes);
}

Onnx__AttributeProto *onnx_attribute(onnx_builder *b, Onnx__NodeProto *node, const char *name, int type)
{
    Onnx__AttributeProto *a = zeroed(b, sizeof *a);
    onnx__attribute_proto__init(a);
    a->name = copy(b, name);
    a->has_type = 1;
    a->type = type;
    if (node) onnx_push(b, &node->n_attribute, &node->attribute, a);
    return a;
}

void onnx_int(onnx_builder *b, Onnx__NodeProto *node, const char *name, int64_t value)
{
    Onnx__AttributeProto *a = onnx_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    a->has_i = 1;
    a->i = value;
}

void onnx_reference(onnx_builder *b, Onnx__NodeProto *node, const char *name, const char *to)
{
    onnx_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)->ref_attr_name = copy(b, to);
}

void onnx_unknown(onnx_builder *b, ProtobufCMessage *message, uint32_t id, const void *bytes, size_t n)
{
    ProtobufCMessageUnknownField *grown = zeroed(b, (message->n_unknown_fields + 1) * sizeof *grown), *f;
    if (message->n_unknown_fields) memcpy(grown, message->unknown_fields, message->n_unknown_fields * sizeof *grown);
    f = &grown[message->n_unknown_fields++];
    message->unknown_fields = grown;
    assert_true(n < 1 << 14);
    f->tag = id;
    f->wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    f->len = n + 2;
    f->data = zeroed(b, n + 2);
    f->data[0] = (uint8_t)(n | 128);
    f->data[1] = (uint8_t)(n >> 7);
    memcpy(f->data + 2, bytes, n);
}

const char *onnx_save_bytes(onnx_builder *b, const void *bytes, size_t n)
{
    if (b->path[0]) unlink(b->path);
    snprintf(b->path, sizeof b->path, "/tmp/memplan-test-XXXXXX");
    int fd = mkstemp(b->path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    assert_int_equal(close(fd), 0);
    return b->path;
}

const char *onnx_save(onnx_builder *b)
{
    size_t n = onnx__model_proto__get_packed_size(&b->model);
    uint8_t *bytes = zeroed(b, n + 1);
    assert_int_equal(onnx__model_proto__pack(&b->model, bytes), n);
    return onnx_save_bytes(b, bytes, n);
}

mp_model *onnx_load(onnx_builder *b, const mp_onnx_options *options)
{
    mp_error err = {0};
    mp_model *model = NULL;
    const mp_onnx_options none = {0};
    mp_status st = mp_onnx_read(onnx_save(b), options ? options : &none, &model, &err);
    if (st != MP_OK) fail_msg("refused: %s", err.message);
    return model;
}

void onnx_file_refused(const char *path, const mp_onnx_options *options, mp_status expected, const char *words)
{
    mp_error err = {0};
    mp_model *model = NULL;
    const mp_onnx_options none = {0};
    long live = mp_alloc_live;
    mp_status st = mp_onnx_read(path, options ? options : &none, &model, &err);
    mp_model_free(model);
    if (st != expected)
        fail_msg("expected '%s' about '%s', got '%s': %s", mp_status_text(expected), words, mp_status_text(st), err.message);
    for (const char *at = words; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (!strstr(err.message, word)) fail_msg("'%s' is not in: %s", word, err.message);
    }
    assert_int_equal(err.code, st);
    assert_string_equal(err.input, path);
    assert_null(strchr(err.message, '\n'));
    assert_true(err.message[0] && err.message[strlen(err.message) - 1] != '.');
    assert_int_equal(mp_alloc_live, live);
}

void onnx_refused(onnx_builder *b, const mp_onnx_options *options, mp_status expected, const char *words)
{
    onnx_file_refused(onnx_save(b), options, expected, words);
}

const mp_tensor *onnx_find(const mp_model *model, const char *name)
{
    int index = mp_model_find(model, name);
    if (index < 0) fail_msg("no tensor '%s'", name);
    return &model->tensors[index];
}
