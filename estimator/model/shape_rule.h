/* shape_rule.h - helpers of the operators' rules: operands and their values, refusal of an operator, axes and
 * broadcasting. */
#pragma once

#include "estimator/model/ops.h"

/* Returns the value of input k. NULL if it is not known (then missing_value is set), or if the input is left out. A tensor
 * without elements has a known value. */
const mp_value *mp_infer_value(mp_infer *c, int k);
/* Reads the value of input k as a list of integers: *list has *n elements; it is NULL, and *n 0, where mp_infer_value gives
 * NULL. MP_PARSE if the value is not of integers. */
mp_status mp_infer_integers(mp_infer *c, int k, const int64_t **list, size_t *n);
/* Return input k or output k of the operator; NULL if it is left out. */
mp_tensor *mp_infer_in(mp_infer *c, int k);
mp_tensor *mp_infer_out(mp_infer *c, int k);
/* Sets type and shape of output k; does nothing if that output is left out. */
mp_status mp_infer_set(mp_infer *c, int k, mp_dtype dtype, int rank, const int64_t *dims);
/* Gives output k the type and shape of a tensor. */
mp_status mp_infer_like(mp_infer *c, int k, const mp_tensor *x);
/* Sets the type of output k, whose shape depends on a missing value: the file's declared shape is used. Returns MP_OK. */
mp_status mp_infer_defer(mp_infer *c, int k, mp_dtype dtype);
/* Gives the shape of input k of a broadcasting operator, with the trailing ones that `axis` meant before operator set 7
 * (Add(A, B, axis = 1, broadcast = 1) aligns B's first dimension with A's second). dims has MP_RANK_MAX elements. */
mp_status mp_infer_operand(mp_infer *c, int k, int *rank, int64_t *dims);

/* Refuses the operator: records "Conv 'stem': " and the formatted rest. Returns `code`. */
mp_status mp_rule_raise(const mp_infer *c, mp_status code, const char *source, int source_line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Refuses the operator (mp_rule_raise on the `c` of the function it stands in) with MP_PARSE unless the condition holds. */
#define MP_FIT(condition, ...)                                                                \
    do {                                                                                      \
        if (!(condition)) return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* Gives input k. MP_PARSE unless it is there with a rank of min_rank..max_rank (max_rank < 0: any). */
mp_status mp_rule_input(mp_infer *c, int k, int min_rank, int max_rank, const mp_tensor **tensor);

/* Normalizes an axis of `rank` dimensions, which counts from the end if negative. MP_PARSE if there is no such axis. */
mp_status mp_rule_axis(const mp_infer *c, int64_t axis, int rank, int *normalized);

/* Gives the shape to which `a` and `b` are broadcast together, right-aligned; `out` has MP_RANK_MAX elements and may be
 * `a`. Returns false if they do not fit. */
bool mp_rule_broadcast(const int64_t *a, int rank_a, const int64_t *b, int rank_b, int64_t *out, int *rank_out);

/* Writes a shape for messages, "[2, 3]", to `text` and returns it. */
enum { MP_SHAPE_TEXT = 160 };
const char *mp_rule_shape_text(const int64_t *dims, int rank, char text[MP_SHAPE_TEXT]);
