/* onnx_metadata.h - what exporters note beside graphs, nodes and values (metadata_props). Private to formats/.
 *
 * The fields are younger than Debian's schema; the scan renumbered them, so they come as unknown fields.
 */
#pragma once

#include "formats/onnx/scan/onnx_budget.h"
#include "onnx.pb-c.h"

/* Takes one entry; neither text outlives the call. What it returns ends the reading unless it is MP_OK. */
typedef mp_status (*mp_onnx_entry_taker)(void *data, const char *key, const char *value);

/* Hands over every entry of the metadata that the scan has left in a message under the number `id`. MP_PARSE, MP_NOMEM.
 * O(metadata). */
mp_status mp_onnx_metadata_each(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, mp_onnx_entry_taker take,
                                void *data, mp_error *err);
