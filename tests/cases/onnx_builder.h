/* onnx_builder.h - small ONNX files for tests, valid and invalid. Failures end the running test. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/onnx.h"
#include "onnx.pb-c.h"

typedef struct onnx_builder {
    mp_pool *pool;
    Onnx__ModelProto model; /* IR version 8, operator set 17 */
    Onnx__GraphProto graph;
    char path[64]; /* path of the last written file */
} onnx_builder;

void onnx_start(onnx_builder *b);
void onnx_end(onnx_builder *b); /* removes the file */

/* Operands are comma-separated; an empty one is omitted. */
Onnx__NodeProto *onnx_node(onnx_builder *b, const char *kind, const char *name, const char *inputs, const char *outputs);
/* Sizes are comma-separated: a number, a symbol, or "-" for a dimension without a size. "" is rank 0. */
void onnx_input(onnx_builder *b, const char *name, int type, const char *dims);
void onnx_output(onnx_builder *b, const char *name, int type, const char *dims);
Onnx__ValueInfoProto *onnx_value_info(onnx_builder *b, const char *name, int type, const char *dims);
/* Tensors without data. */
Onnx__TensorProto *onnx_tensor(onnx_builder *b, const char *name, int type, const char *dims);
Onnx__TensorProto *onnx_initializer(onnx_builder *b, const char *name, int type, const char *dims);
void onnx_raw(Onnx__TensorProto *tensor, const void *bytes, size_t n); /* the tensor refers to the caller's bytes */
Onnx__AttributeProto *onnx_attribute(onnx_builder *b, Onnx__NodeProto *node, const char *name, int type);
void onnx_int(onnx_builder *b, Onnx__NodeProto *node, const char *name, int64_t value);
void onnx_reference(onnx_builder *b, Onnx__NodeProto *node, const char *name, const char *to);
/* Adds a function of operator set 17; onnx_function_node adds its nodes. */
Onnx__FunctionProto *onnx_function(onnx_builder *b, const char *domain, const char *name, const char *inputs,
                                   const char *outputs);
Onnx__NodeProto *onnx_function_node(onnx_builder *b, Onnx__FunctionProto *f, const char *kind, const char *inputs,
                                    const char *outputs);
void onnx_import(onnx_builder *b, const char *domain, int64_t version);
/* Adds a length-delimited field that is not in the schema. */
void onnx_unknown(onnx_builder *b, ProtobufCMessage *message, uint32_t id, const void *bytes, size_t n);
/* Appends an element to one of protobuf-c's arrays: onnx_push(b, &graph->n_node, &graph->node, node). */
void onnx_push(onnx_builder *b, size_t *n, void *array_pointer, void *element);

/* Writes the model, or any bytes, to a new file and returns its path. */
const char *onnx_save(onnx_builder *b);
const char *onnx_save_bytes(onnx_builder *b, const void *bytes, size_t n);
/* Saves and reads the model; the caller frees it. */
mp_model *onnx_load(onnx_builder *b, const mp_onnx_options *options);
/* Saves and reads the file. Reading must fail with `expected`, and the message must contain each of the comma-separated words.
 */
void onnx_refused(onnx_builder *b, const mp_onnx_options *options, mp_status expected, const char *words);
void onnx_file_refused(const char *path, const mp_onnx_options *options, mp_status expected, const char *words);

/* Returns the tensor of this name, which must exist. */
const mp_tensor *onnx_find(const mp_model *model, const char *name);
#define assert_role(model, name, expected) assert_string_equal(mp_role_name(onnx_find((model), (name))->role), (expected))
