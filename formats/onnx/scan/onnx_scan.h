/* onnx_scan.h - checks an ONNX file before protobuf-c reads it, and limits the memory of protobuf-c. Private to formats/. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

enum {
    MP_ONNX_DEPTH_MAX = 64,         /* maximum nesting depth of messages */
    MP_ONNX_MESSAGES_MAX = 1 << 22, /* maximum number of messages in a file */
    MP_ONNX_NODES_MAX = 1 << 20,    /* maximum number of nodes in a file; also the limit after functions are inlined */
    MP_ONNX_SKELETON_MAX = 1 << 29, /* maximum bytes of the skeleton (the file without weights), without kept payloads */
    MP_ONNX_PAYLOADS_MAX = 1 << 26, /* maximum bytes of all payloads (elements of tensors) in the skeleton */
    MP_ONNX_IMPORTS_MAX = 64,       /* maximum number of operator sets in a list of imports */
    MP_ONNX_FLOATS_MAX = 1024 /* maximum number of elements of a floating-point tensor whose payload is kept in the skeleton */
};

/* Numbers of fields that the schema may lack. The skeleton stores these fields under numbers that no schema uses. protobuf-c
 * therefore always returns them as unknown fields, whatever its schema. */
enum {
    MP_ONNX_VALUE_METADATA = 20004,    /* ValueInfoProto.metadata_props = 4 */
    MP_ONNX_NODE_OVERLOAD = 20008,     /* NodeProto.overload = 8 */
    MP_ONNX_NODE_METADATA = 20009,     /* NodeProto.metadata_props = 9 */
    MP_ONNX_FUNCTION_DEFAULT = 20011,  /* FunctionProto.attribute_proto = 11 */
    MP_ONNX_FUNCTION_OVERLOAD = 20013, /* FunctionProto.overload = 13 */
    MP_ONNX_GRAPH_METADATA = 20016     /* GraphProto.metadata_props = 16 */
};

/* The skeleton: a copy of the file without the parts that memplan does not read (weights, documentation, training
 * information). */
typedef struct mp_onnx_skeleton {
    uint8_t *bytes;
    size_t size, capacity;
} mp_onnx_skeleton;

/* Checks the wire format of a ModelProto against the schema and copies all required parts to a skeleton. The result cannot
 * make protobuf-c overflow the stack or take quadratic time. Never reads the payload of a large tensor. A payload whose
 * length does not match its tensor's type and shape is refused. MP_PARSE names the message, field and byte, or the tensor.
 * MP_NOMEM. On MP_OK release *out with mp_onnx_skeleton_free. O(size without payloads). */
mp_status mp_onnx_scan(const uint8_t *bytes, size_t size, mp_onnx_skeleton *out, mp_error *err);
void mp_onnx_skeleton_free(mp_onnx_skeleton *skeleton); /* releases the memory of a skeleton; a zeroed struct is allowed */

typedef struct mp_onnx_budget {
    ProtobufCAllocator allocator;
    size_t left; /* number of bytes that protobuf-c may still allocate. Freeing memory does not increase it, so the sum of all
                    allocations is limited */
    bool exhausted, out_of_memory;
} mp_onnx_budget;

/* Initialises the budget for decoding a skeleton of this size. The struct must not move while its allocator is in use. */
void mp_onnx_budget_start(mp_onnx_budget *budget, size_t skeleton_bytes);
/* Records the error that protobuf-c could not decode a part of the file. `what` names the part. */
mp_status mp_onnx_budget_failure(const mp_onnx_budget *budget, const char *what, mp_error *err);
