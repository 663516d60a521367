/* onnx_wire.h - reads the fields of a protobuf message one by one. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MP_WIRE_VARINT = 0, MP_WIRE_64BIT = 1, MP_WIRE_BYTES = 2, MP_WIRE_32BIT = 5 };

typedef struct mp_wire_field {
    uint32_t id;
    int wire;
    const uint8_t *start;       /* of the tag */
    const uint8_t *bytes, *end; /* the value, without the length in front of MP_WIRE_BYTES */
    uint64_t number;            /* MP_WIRE_VARINT only */
} mp_wire_field;

/* Reads the varint at *at and moves *at behind it. Returns false if it is cut off or longer than ten bytes. */
bool mp_wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *number);
/* Reads the field at *at and moves *at behind it, without reading its value. Returns false if it is malformed or cut off. */
bool mp_wire_next(const uint8_t **at, const uint8_t *end, mp_wire_field *field);
/* True if the bytes are UTF-8 without a zero byte (which would cut a C string short). */
bool mp_wire_is_text(const uint8_t *bytes, const uint8_t *end);
