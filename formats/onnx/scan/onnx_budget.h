/* onnx_budget.h - the memory that protobuf-c may take. Private to formats/. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "memplan/error.h"

typedef struct mp_onnx_budget {
    ProtobufCAllocator allocator;
    size_t left; /* bytes; never given back, so that all that one reading asks for is bounded */
    bool exhausted, out_of_memory;
} mp_onnx_budget;

/* A budget for a skeleton of so many bytes. It must not move while its allocator is in use. */
void mp_onnx_budget_start(mp_onnx_budget *budget, size_t skeleton_bytes);
/* The failure of an unpacking: `what` names what protobuf-c could not unpack. */
mp_status mp_onnx_budget_failure(const mp_onnx_budget *budget, const char *what, mp_error *err);
