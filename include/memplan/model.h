/* model.h - a network as stored in its ONNX file: operators and tensors with shapes. mp_onnx_read (onnx.h) creates a model.
 * mp_training_graph (training.h) converts a model to a training graph. The struct is opaque: read names, operators and bytes
 * from the training graph. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"

typedef struct mp_model mp_model;

/* Element types of tensors, numbered as in ONNX. */
#define MP_DTYPE_LIST(X)                       \
    X(UNDEFINED, 0, "undefined", 0)            \
    X(FLOAT, 1, "float32", 32)                 \
    X(UINT8, 2, "uint8", 8)                    \
    X(INT8, 3, "int8", 8)                      \
    X(UINT16, 4, "uint16", 16)                 \
    X(INT16, 5, "int16", 16)                   \
    X(INT32, 6, "int32", 32)                   \
    X(INT64, 7, "int64", 64)                   \
    X(STRING, 8, "string", 0)                  \
    X(BOOL, 9, "bool", 8)                      \
    X(FLOAT16, 10, "float16", 16)              \
    X(DOUBLE, 11, "float64", 64)               \
    X(UINT32, 12, "uint32", 32)                \
    X(UINT64, 13, "uint64", 64)                \
    X(COMPLEX64, 14, "complex64", 64)          \
    X(COMPLEX128, 15, "complex128", 128)       \
    X(BFLOAT16, 16, "bfloat16", 16)            \
    X(FLOAT8E4M3FN, 17, "float8e4m3fn", 8)     \
    X(FLOAT8E4M3FNUZ, 18, "float8e4m3fnuz", 8) \
    X(FLOAT8E5M2, 19, "float8e5m2", 8)         \
    X(FLOAT8E5M2FNUZ, 20, "float8e5m2fnuz", 8) \
    X(UINT4, 21, "uint4", 4)                   \
    X(INT4, 22, "int4", 4)

#define MP_DTYPE_ENUM(name, number, text, bits) MP_DTYPE_##name = number,
typedef enum mp_dtype { MP_DTYPE_LIST(MP_DTYPE_ENUM) MP_N_DTYPES } mp_dtype;
#undef MP_DTYPE_ENUM

const char *
mp_dtype_name(mp_dtype dtype);          /* returns a name such as "float32"; "undefined" if the number is not an element type */
int mp_dtype_bits(mp_dtype dtype);      /* returns the bits per element; 0: the size is not fixed (string, undefined) */
bool mp_dtype_is_float(mp_dtype dtype); /* returns true for float16, bfloat16, float32, float64 and the float8 types */
bool mp_dtype_is_integer(mp_dtype dtype); /* returns true for signed and unsigned integer types, false for bool */

void mp_model_free(mp_model *model); /* releases a model; NULL is allowed */
MP_OWNER(mp_model_free, mp_model)

/* Returns the tensor that replaces this tensor after simplification, or the tensor itself if it was not replaced. */
int mp_model_resolve(const mp_model *model, int tensor);

/* The rules that define which tensors the forward pass saves for backward: the rules of memplan's executor, or of PyTorch's
 * autograd. */
typedef enum mp_rules { MP_RULES_EXECUTOR, MP_RULES_PYTORCH, MP_N_RULES } mp_rules;
