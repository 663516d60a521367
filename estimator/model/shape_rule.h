/* shape_rule.h - helpers for the shape rules of operators: operands and their values, axes, broadcasting, and errors. */
#pragma once

#include "estimator/model/ops.h"

/* Returns the value of input k. NULL: the value is unknown (the function then sets missing_value), or the input is omitted.
 * The value of a tensor without elements is always known. */
const mp_value *mp_infer_value(mp_infer *c, int k);
/* Reads the value of input k as a list of *n integers. *list is NULL and *n 0 if mp_infer_value returns NULL. MP_PARSE: the
 * elements are not integers. */
mp_status mp_infer_integers(mp_infer *c, int k, const int64_t **list, size_t *n);
/* Return input k or output k of the operator that is being inferred; NULL: omitted. */
mp_tensor *mp_infer_in(mp_infer *c, int k);
mp_tensor *mp_infer_out(mp_infer *c, int k);
/* Sets type and shape of output k. No effect if the output is omitted. */
mp_status mp_infer_set(mp_infer *c, int k, mp_dtype dtype, int rank, const int64_t *dims);
/* Sets the type and shape of output k to those of tensor x. */
mp_status mp_infer_like(mp_infer *c, int k, const mp_tensor *x);
/* Sets the type of output k if its shape depends on an unknown value (missing_value). The shape that the file declares for
 * the output is then used. Returns MP_OK. */
mp_status mp_infer_defer(mp_infer *c, int k, mp_dtype dtype);
/* Returns the shape of input k of a broadcasting operator. Before operator set 7, the attribute `axis` states where the
 * input's first dimension is aligned; the function then appends dimensions of size 1: Add(A, B, axis = 1, broadcast = 1)
 * aligns B's first dimension with A's second. dims has MP_RANK_MAX elements. */
mp_status mp_infer_operand(mp_infer *c, int k, int *rank, int64_t *dims);

/* Records an error for the operator: "Conv 'stem': " and the formatted text. Returns `code`. */
mp_status mp_rule_raise(const mp_infer *c, mp_status code, const char *source, int source_line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* If the condition is false, records an error with mp_rule_raise on the variable `c` and returns MP_PARSE from the calling
 * rule. */
#define MP_FIT(condition, ...)                                                                \
    do {                                                                                      \
        if (!(condition)) return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* Returns input k. MP_PARSE: it is omitted, or its rank is outside min_rank..max_rank (max_rank < 0: no maximum). */
mp_status mp_rule_input(mp_infer *c, int k, int min_rank, int max_rank, const mp_tensor **tensor);

/* Converts an axis of a tensor with `rank` dimensions to the range 0 .. rank - 1; negative axes count from the end.
 * MP_PARSE: the tensor has no such axis. */
mp_status mp_rule_axis(const mp_infer *c, int64_t axis, int rank, int *normalized);

/* Computes the shape to which `a` and `b` broadcast, with their last dimensions aligned. `out` has MP_RANK_MAX elements and
 * may be `a`. Returns false if the shapes cannot be broadcast. */
bool mp_rule_broadcast(const int64_t *a, int rank_a, const int64_t *b, int rank_b, int64_t *out, int *rank_out);

/* Writes a shape to `text`, such as "[2, 3]", for messages. Returns `text`. */
enum { MP_SHAPE_TEXT = 160 };
const char *mp_rule_shape_text(const int64_t *dims, int rank, char text[MP_SHAPE_TEXT]);
