/* requirement.h - what an operator demands of its operands and attributes before any rule reads them: the element
 * types, ranks, sizes and ranges that the ONNX specification states, row by row (REQUIRES in ops.def).
 *
 * A shape rule says how outputs follow from inputs, and refuses only what it needs for that; a kernel reads more. What
 * only a kernel would notice (an axis that is not there, a scale that is too short, an empty matrix) is refused here,
 * by name, before anything runs:
 *
 *     GroupNormalization: FLOATS(0), LIKE(1, 0), LIKE(2, 0), RANK(0, 2, MP_RANK_MAX), DIVIDES("num_groups", 0, 1)
 *     num_groups = 3, X of [2, 4, 8]  ->  "GroupNormalization 'gn': num_groups is 3, and it has to divide 4"
 *
 * Operand -1 is every operand. A requirement on an operand that is left out, or of unknown type, holds. */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/model.h"

/* Sets of element types, a bit for each mp_dtype. */
#define MP_TYPE(name) (1u << MP_DTYPE_##name)
#define MP_TYPES_FLOATS (MP_TYPE(FLOAT) | MP_TYPE(FLOAT16) | MP_TYPE(BFLOAT16) | MP_TYPE(DOUBLE))
#define MP_TYPES_BYTES (MP_TYPE(INT8) | MP_TYPE(UINT8))
#define MP_TYPES_INDEX (MP_TYPE(INT32) | MP_TYPE(INT64))
#define MP_TYPES_WHOLE (MP_TYPES_BYTES | MP_TYPE(INT16) | MP_TYPE(UINT16) | MP_TYPES_INDEX | MP_TYPE(UINT32) | MP_TYPE(UINT64))
#define MP_TYPES_NUMBERS (MP_TYPES_FLOATS | MP_TYPES_WHOLE)
#define MP_TYPES_BOOL MP_TYPE(BOOL)
#define MP_TYPES_PLAIN (MP_TYPES_NUMBERS | MP_TYPES_BOOL)

typedef enum mp_requirement_kind {
    MP_REQUIRES_NOTHING, /* the end of a list */
    MP_REQUIRES_TYPES,   /* operand: its type is among `types` (a bit for each mp_dtype) */
    MP_REQUIRES_LIKE,    /* operand: it has the type of `other` */
    MP_REQUIRES_RANK,    /* operand: least .. most dimensions */
    MP_REQUIRES_NUMBER,  /* operand: it has one element */
    MP_REQUIRES_LIST,    /* operand: it has at most one dimension */
    MP_REQUIRES_PER,     /* operand: one dimension, with as many elements as dimension `least` of `other` */
    MP_REQUIRES_ONTO,    /* operand: broadcasts to the shape of `other` */
    MP_REQUIRES_FILLED,  /* operand: no dimension is 0 */
    MP_REQUIRES_AXIS,    /* the attribute, or without it `least`, counts a dimension of the operand */
    MP_REQUIRES_AXES,    /* each number of the attribute counts a dimension; without it dimensions 0 and `least` must exist */
    MP_REQUIRES_RANGE,   /* the attribute, if given, is in least .. most */
    MP_REQUIRES_DIVIDES, /* the attribute, which has to be given, is at least 1 and divides dimension `least` of the operand */
    MP_REQUIRES_WORD     /* the attribute, if given, is one of `words` (with a blank between each) */
} mp_requirement_kind;

typedef struct mp_requirement {
    mp_requirement_kind kind;
    int operand, other;
    unsigned types;
    int64_t least, most;
    const char *attribute, *words;
    int from, before; /* applies to these versions of the operator set: from <= version < before (0: any) */
} mp_requirement;

/* Checks all that the operator's row requires of operands, whose shapes are known. MP_PARSE with a sentence that names
 * the operator, the operand or attribute, and the requirement. O(operands * requirements). */
mp_status mp_requirements_check(mp_infer *c);
