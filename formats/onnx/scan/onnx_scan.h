/* onnx_scan.h - the first look at an ONNX file, before protobuf-c sees it, and the memory that protobuf-c may take. Private to
 * formats/. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

enum {
    MP_ONNX_DEPTH_MAX = 64,         /* nesting of messages */
    MP_ONNX_MESSAGES_MAX = 1 << 22, /* in one file */
    MP_ONNX_NODES_MAX = 1 << 20,    /* in one file, and after the functions are inlined */
    MP_ONNX_SKELETON_MAX = 1 << 29, /* bytes without the payloads that are left out */
    MP_ONNX_PAYLOADS_MAX = 1 << 26, /* bytes of payloads that are kept */
    MP_ONNX_IMPORTS_MAX = 64,       /* operator sets in one list */
    MP_ONNX_FLOATS_MAX = 1024       /* elements of the largest floating-point payload kept */
};

/* Fields that may be younger than the schema. They are written into the skeleton under numbers that no schema uses, so
 * that protobuf-c always hands them over as unknown fields. */
enum {
    MP_ONNX_VALUE_METADATA = 20004,    /* ValueInfoProto.metadata_props = 4 */
    MP_ONNX_NODE_OVERLOAD = 20008,     /* NodeProto.overload = 8 */
    MP_ONNX_NODE_METADATA = 20009,     /* NodeProto.metadata_props = 9 */
    MP_ONNX_FUNCTION_DEFAULT = 20011,  /* FunctionProto.attribute_proto = 11 */
    MP_ONNX_FUNCTION_OVERLOAD = 20013, /* FunctionProto.overload = 13 */
    MP_ONNX_GRAPH_METADATA = 20016     /* GraphProto.metadata_props = 16 */
};

/* The file without what is not read here: weights, documentation, training information. */
typedef struct mp_onnx_skeleton {
    uint8_t *bytes;
    size_t size, capacity;
} mp_onnx_skeleton;

/* Checks the wire format of a ModelProto against the schema and copies all that matters. What it passes cannot make protobuf-c
 * overflow the stack or take quadratic time. Never touches the payload of a large tensor; a payload whose length does not fit
 * its tensor's type and shape is refused. MP_PARSE names the message, field and byte, or the tensor; MP_NOMEM. On MP_OK *out is
 * released with mp_onnx_skeleton_free. O(size without payloads). */
mp_status mp_onnx_scan(const uint8_t *bytes, size_t size, mp_onnx_skeleton *out, mp_error *err);
void mp_onnx_skeleton_free(mp_onnx_skeleton *skeleton); /* zeroed is fine */

typedef struct mp_onnx_budget {
    ProtobufCAllocator allocator;
    size_t left; /* bytes; freeing does not add to it, so that everything that one reading allocates is bounded */
    bool exhausted, out_of_memory;
} mp_onnx_budget;

/* Sets a budget for a skeleton of so many bytes. It must not move while its allocator is in use. */
void mp_onnx_budget_start(mp_onnx_budget *budget, size_t skeleton_bytes);
/* Raises the failure of an unpacking; `what` is what protobuf-c could not unpack. */
mp_status mp_onnx_budget_failure(const mp_onnx_budget *budget, const char *what, mp_error *err);
