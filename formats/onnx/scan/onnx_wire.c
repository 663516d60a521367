/* onnx_wire.c - the protobuf wire format. A message is a list of pairs (tag, value). A tag is field number * 8 + wire type.
 * A varint is a number in base 128, lowest digit first. Groups, which ONNX has never used, count as malformed. */
#include "formats/onnx/scan/onnx_wire.h"

bool mp_wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    uint64_t value = 0;
    for (int k = 0; k < 10 && *at < end; k++) {
        uint8_t digit = *(*at)++;
        value |= (uint64_t)(digit & 127) << (7 * k);
        if (digit < 128) {
            *number = value;
            return true;
        }
    }
    return false;
}

bool mp_wire_next(const uint8_t **at, const uint8_t *end, mp_wire_field *field)
{
    uint64_t tag, length;
    field->start = *at;
    if (!mp_wire_varint(at, end, &tag) || tag >> 32 || tag >> 3 == 0) return false;
    field->id = (uint32_t)(tag >> 3);
    field->wire = (int)(tag & 7);
    field->bytes = *at;
    switch (field->wire) {
    case MP_WIRE_VARINT:
        if (!mp_wire_varint(at, end, &field->number)) return false;
        field->end = *at;
        return true;
    case MP_WIRE_64BIT:
        length = 8;
        break;
    case MP_WIRE_32BIT:
        length = 4;
        break;
    case MP_WIRE_BYTES:
        if (!mp_wire_varint(at, end, &length)) return false;
        field->bytes = *at;
        break;
    default:
        return false;
    }
    if (length > (uint64_t)(end - *at)) return false;
    *at += length;
    field->end = *at;
    return true;
}

bool mp_wire_is_text(const uint8_t *bytes, const uint8_t *end)
{
    static const uint32_t smallest[] = {
        0, 0x80, 0x800, 0x10000}; /* smallest[k]: the smallest UTF-8 character whose first byte is followed by k bytes */
    while (bytes < end) {
        uint8_t first = *bytes++;
        int further = first < 0x80 ? 0 : first < 0xc0 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf8 ? 3 : -1;
        if (first == 0 || further < 0 || end - bytes < further) return false;
        uint32_t code = further ? first & (0x3fu >> further) : first;
        for (int k = 0; k < further; k++, bytes++) {
            if ((*bytes & 0xc0) != 0x80) return false;
            code = code << 6 | (*bytes & 0x3f);
        }
        if (code < smallest[further] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    }
    return true;
}
