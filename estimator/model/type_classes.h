/* type_classes.h - sets of element types, a bit for each mp_dtype, as the operator table speaks of them. */
#pragma once

#include "memplan/model.h"

#define MP_TYPE(name) (1u << MP_DTYPE_##name)
#define MP_TYPES_FLOATS (MP_TYPE(FLOAT) | MP_TYPE(FLOAT16) | MP_TYPE(BFLOAT16) | MP_TYPE(DOUBLE))
#define MP_TYPES_BYTES (MP_TYPE(INT8) | MP_TYPE(UINT8))
#define MP_TYPES_INDEX (MP_TYPE(INT32) | MP_TYPE(INT64))
#define MP_TYPES_WHOLE (MP_TYPES_BYTES | MP_TYPE(INT16) | MP_TYPE(UINT16) | MP_TYPES_INDEX | MP_TYPE(UINT32) | MP_TYPE(UINT64))
#define MP_TYPES_NUMBERS (MP_TYPES_FLOATS | MP_TYPES_WHOLE)
#define MP_TYPES_BOOL MP_TYPE(BOOL)
#define MP_TYPES_PLAIN (MP_TYPES_NUMBERS | MP_TYPES_BOOL)
