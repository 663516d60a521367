/* onnx_wire.h - reads the fields of a protobuf message one by one. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MP_WIRE_VARINT = 0, MP_WIRE_64BIT = 1, MP_WIRE_BYTES = 2, MP_WIRE_32BIT = 5 };

typedef struct mp_wire_field {
    uint32_t id;
    int wire;
    const uint8_t *start;       /* the first byte of the tag of the field */
    const uint8_t *bytes, *end; /* begin and end of the value, without the length prefix of MP_WIRE_BYTES */
    uint64_t number;            /* the value of a field with wire type MP_WIRE_VARINT */
} mp_wire_field;

/* Reads the varint at *at and advances *at. Returns false if it is truncated or longer than ten bytes. */
bool mp_wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *number);
/* Reads the tag and the extent of the field at *at, and advances *at past the field. Does not decode the value. Returns
 * false if the field is malformed or truncated. */
bool mp_wire_next(const uint8_t **at, const uint8_t *end, mp_wire_field *field);
/* True if the bytes are valid UTF-8 and contain no zero byte. (A zero byte would end a C string.) */
bool mp_wire_is_text(const uint8_t *bytes, const uint8_t *end);
