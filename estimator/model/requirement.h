/* requirement.h - requirements on an operator's operands and attributes, checked before its rules run: the element types,
 * ranks, sizes and ranges of the ONNX specification (REQUIRES in ops.def).
 *
 * A shape rule checks only the conditions that it needs to derive output shapes. A kernel needs more conditions: the axis is in
 * range, the scale has the right length, no matrix is empty. Requirements state these conditions. A violation is an error
 * before anything runs, and the message names the operand:
 *
 *     GroupNormalization: FLOATS(0), LIKE(1, 0), LIKE(2, 0), RANK(0, 2, MP_RANK_MAX), DIVIDES("num_groups", 0, 1)
 *     num_groups = 3, X of [2, 4, 8]  ->  "GroupNormalization 'gn': num_groups is 3, and it has to divide 4"
 *
 * Operand -1 means every operand. A requirement on an omitted operand, or on one of unknown type, is satisfied. */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/model.h"

/* Sets of element types, one bit per mp_dtype. */
#define MP_TYPE(name) (1u << MP_DTYPE_##name)
#define MP_TYPES_FLOATS (MP_TYPE(FLOAT) | MP_TYPE(FLOAT16) | MP_TYPE(BFLOAT16) | MP_TYPE(DOUBLE))
#define MP_TYPES_BYTES (MP_TYPE(INT8) | MP_TYPE(UINT8))
#define MP_TYPES_INDEX (MP_TYPE(INT32) | MP_TYPE(INT64))
#define MP_TYPES_WHOLE (MP_TYPES_BYTES | MP_TYPE(INT16) | MP_TYPE(UINT16) | MP_TYPES_INDEX | MP_TYPE(UINT32) | MP_TYPE(UINT64))
#define MP_TYPES_NUMBERS (MP_TYPES_FLOATS | MP_TYPES_WHOLE)
#define MP_TYPES_BOOL MP_TYPE(BOOL)
#define MP_TYPES_PLAIN (MP_TYPES_NUMBERS | MP_TYPES_BOOL)

typedef enum mp_requirement_kind {
    MP_REQUIRES_NOTHING, /* marks the end of a list of requirements */
    MP_REQUIRES_TYPES,   /* the operand has one of these element types (one bit per mp_dtype) */
    MP_REQUIRES_LIKE,    /* the operand has the same type as operand `other` */
    MP_REQUIRES_RANK,    /* the rank of the operand is in least .. most */
    MP_REQUIRES_NUMBER,  /* the operand has one element */
    MP_REQUIRES_LIST,    /* the operand has at most one dimension */
    MP_REQUIRES_PER,     /* the operand has one dimension, whose size equals dimension `least` of operand `other` */
    MP_REQUIRES_ONTO,    /* the operand can be broadcast to the shape of operand `other` */
    MP_REQUIRES_FILLED,  /* no dimension of the operand is 0 */
    MP_REQUIRES_AXIS,    /* the attribute (default `least`) is a valid dimension index of the operand */
    MP_REQUIRES_AXES,    /* each number of the attribute is a valid dimension index of the operand; without the attribute,
                            dimensions 0 and `least` must exist */
    MP_REQUIRES_RANGE,   /* the attribute, if it is given, is in least .. most */
    MP_REQUIRES_DIVIDES, /* the attribute, which is mandatory, is at least 1 and divides dimension `least` of the operand */
    MP_REQUIRES_WORD     /* the attribute, if it is given, is one of `words` (separated by blanks) */
} mp_requirement_kind;

typedef struct mp_requirement {
    mp_requirement_kind kind;
    int operand, other;
    unsigned types;
    int64_t least, most;
    const char *attribute, *words;
    int from, before; /* the requirement holds for operator-set versions from <= version < before (before 0: no limit) */
} mp_requirement;

/* Checks all requirements of the operator's row; operand shapes must be known. MP_PARSE: the message names the operator, the
 * operand or attribute, and the requirement. O(operands * requirements). */
mp_status mp_requirements_check(mp_infer *c);
