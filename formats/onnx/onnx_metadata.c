/* onnx_metadata.c - entries of metadata_props, out of protobuf-c's unknown fields. */
#include "formats/onnx/onnx_metadata.h"

#include "formats/onnx/scan/onnx_wire.h"

mp_status mp_onnx_metadata_each(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, mp_onnx_entry_taker take,
                                void *data, mp_error *err)
{
    mp_status st = MP_OK;
    for (unsigned k = 0; k < message->n_unknown_fields; k++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[k];
        if (field->tag != id) continue;
        const uint8_t *at = field->data;
        uint64_t length;
        MP_REQUIRE(mp_wire_varint(&at, field->data + field->len, &length), err, MP_PARSE, "the file's metadata is damaged");
        Onnx__StringStringEntryProto *entry =
            onnx__string_string_entry_proto__unpack(&budget->allocator, field->len - (size_t)(at - field->data), at);
        if (!entry) MP_TRY(mp_onnx_budget_failure(budget, "an entry of the metadata", err));
        st = take(data, entry->key ? entry->key : "", entry->value ? entry->value : "");
        onnx__string_string_entry_proto__free_unpacked(entry, &budget->allocator);
        MP_TRY(st);
    }
done:
    return st;
}
