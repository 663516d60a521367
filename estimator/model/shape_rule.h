/* shape_rule.h - what the shape rules share: how they refuse an operator, and axes counted from the end. */
#ifndef ESTIMATOR_SHAPE_RULE_H
#define ESTIMATOR_SHAPE_RULE_H

#include "estimator/model/ops.h"

/* Refuses the operator at hand: records "Conv 'stem': " and the formatted rest. Returns `code`. */
mp_status mp_rule_raise(const mp_infer *c, mp_status code, const char *source, int source_line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Needs `mp_status st`, the label `done` and the mp_infer `c` in the function it stands in: shapes that do not fit. */
#define MP_FIT(condition, ...)                                                \
    do {                                                                      \
        if (!(condition)) {                                                   \
            st = mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, __VA_ARGS__); \
            goto done;                                                        \
        }                                                                     \
    } while (0)

/* Input k, which must be there with a rank of min_rank..max_rank (max_rank < 0: any). MP_PARSE. */
mp_status mp_rule_input(mp_infer *c, int k, int min_rank, int max_rank, const mp_tensor **tensor);

/* An axis of `rank` dimensions, counted from the end when negative. MP_PARSE when there is no such axis. */
mp_status mp_rule_axis(const mp_infer *c, int64_t axis, int rank, int *normalized);

/* The shape in which `a` and `b` are broadcast together, right-aligned; `out` has room for MP_RANK_MAX and may be `a`. False
 * when they do not fit. */
bool mp_rule_broadcast(const int64_t *a, int rank_a, const int64_t *b, int rank_b, int64_t *out, int *rank_out);

/* "[2, 3]", for messages. `room` holds the text. */
enum { MP_SHAPE_TEXT = 160 };
const char *mp_rule_shape_text(const int64_t *dims, int rank, char room[MP_SHAPE_TEXT]);

#endif
