/* shape_rule.h - helpers for operator rules: operands and their values, refusal of operators, axes and broadcasting. */
#pragma once

#include "estimator/model/ops.h"

/* Returns the value of input k. NULL: the value is unknown (missing_value is set), or the input is omitted. A tensor without
 * elements has a known value. */
const mp_value *mp_infer_value(mp_infer *c, int k);
/* Reads the value of input k as a list of *n integers. *list is NULL and *n 0 if mp_infer_value returns NULL. MP_PARSE: the
 * elements are not integers. */
mp_status mp_infer_integers(mp_infer *c, int k, const int64_t **list, size_t *n);
/* Return input k or output k of the operator; NULL: omitted. */
mp_tensor *mp_infer_in(mp_infer *c, int k);
mp_tensor *mp_infer_out(mp_infer *c, int k);
/* Sets type and shape of output k. No effect if the output is omitted. */
mp_status mp_infer_set(mp_infer *c, int k, mp_dtype dtype, int rank, const int64_t *dims);
/* Gives output k the type and shape of tensor x. */
mp_status mp_infer_like(mp_infer *c, int k, const mp_tensor *x);
/* Sets the type of output k if its shape depends on a missing value; the file's declared shape is used. Returns MP_OK. */
mp_status mp_infer_defer(mp_infer *c, int k, mp_dtype dtype);
/* Returns the shape of input k of a broadcasting operator. Before operator set 7, `axis` aligns dimensions, which appends
 * trailing ones: Add(A, B, axis = 1, broadcast = 1) aligns B's first dimension with A's second. dims has MP_RANK_MAX
 * elements. */
mp_status mp_infer_operand(mp_infer *c, int k, int *rank, int64_t *dims);

/* Refuses the operator: records "Conv 'stem': " and the formatted rest. Returns `code`. */
mp_status mp_rule_raise(const mp_infer *c, mp_status code, const char *source, int source_line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Returns from the calling rule with MP_PARSE (mp_rule_raise on its variable `c`) unless the condition is true. */
#define MP_FIT(condition, ...)                                                                \
    do {                                                                                      \
        if (!(condition)) return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* Returns input k. MP_PARSE: it is omitted, or its rank is outside min_rank..max_rank (max_rank < 0: no maximum). */
mp_status mp_rule_input(mp_infer *c, int k, int min_rank, int max_rank, const mp_tensor **tensor);

/* Normalizes an axis of a tensor with `rank` dimensions; negative axes count from the end. MP_PARSE: no such axis. */
mp_status mp_rule_axis(const mp_infer *c, int64_t axis, int rank, int *normalized);

/* Computes the broadcast shape of `a` and `b`, right-aligned. `out` has MP_RANK_MAX elements and may be `a`. Returns false if
 * the shapes do not fit. */
bool mp_rule_broadcast(const int64_t *a, int rank_a, const int64_t *b, int rank_b, int64_t *out, int *rank_out);

/* Writes a shape for messages, "[2, 3]", to `text` and returns it. */
enum { MP_SHAPE_TEXT = 160 };
const char *mp_rule_shape_text(const int64_t *dims, int rank, char text[MP_SHAPE_TEXT]);
