/* onnx_foreign.h - files of other kinds than ONNX, told by their first bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* MP_UNSUPPORTED where the file is of a kind that is known and is not ONNX; the message says which, and what to do. An ONNX
 * file of whatever content passes. O(1). */
mp_status mp_onnx_refuse_foreign(const uint8_t *bytes, size_t size, mp_error *err);

/* What to do with a file that cannot be read as ONNX, by its name: a sentence, NULL: nothing is known. */
const char *mp_onnx_foreign_by_name(const char *path);
