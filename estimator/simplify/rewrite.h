/* rewrite.h - changes to a model during simplification; keeps readers and replacements of every tensor current.
 *
 * A pass visits the operators in execution order. If a tensor is replaced, only the replacement is recorded. An operator
 * that reads the tensor is updated when a pass visits it, at the latest at the start of the next pass. A pass therefore
 * costs O(operands), however long the chains of replacements are. Operators are changed in place. The order stays valid,
 * because a changed operator reads only tensors computed before it. */
#pragma once

#include "estimator/model/ops.h"

typedef struct mp_rewriter {
    mp_model *model;
    int *n_readers; /* per tensor: number of operands that read it, plus one if it is a declared output */
    int changes;    /* number of changes that the current pass has made */
    mp_rules rules;
    mp_error *err;
} mp_rewriter;

/* A rule that rewrites one operator. The operands of the operator are up to date. The rule inspects only earlier operators
 * and adds its changes to mp_rewriter.changes. If the rule does not apply, it leaves the operator unchanged. */
typedef mp_status (*mp_rewrite_rule)(mp_rewriter *r, int op);

/* Prepares a pass: replaces every operand by its recorded replacement, counts the readers, and sets `changes` to 0.
 * O(tensors + operands). */
void mp_rewriter_start(mp_rewriter *r);
/* Applies a rule to all operators in order, except removed ones. */
mp_status mp_rewriter_each(mp_rewriter *r, mp_rewrite_rule rule);

/* Replaces the operands of one operator by their recorded replacements. Needed by passes that do not use mp_rewriter_each. */
void mp_rewriter_update(mp_rewriter *r, int op);

/* Makes the readers of tensor `old` read `by`. The function does not compare the tensors. `old` must not be a declared
 * output. */
void mp_rewriter_replace(mp_rewriter *r, int old, int by);
/* Removes an operator; its output tensors no longer have a producer. */
void mp_rewriter_remove(mp_rewriter *r, int op);
/* Removes an operator whose first output equals its operand `from` and whose other outputs nothing reads. If the output is a
 * declared output, it keeps its name: the producer of `from` then writes it directly. If that is impossible, returns false
 * and changes nothing. */
bool mp_rewriter_bypass(mp_rewriter *r, int op, int from);
/* Changes the type of an operator. The operator keeps its name, position and outputs. It gets the draft's kind, domain,
 * version, inputs and attributes. If its version is below the minimum of the row, the version is raised. Shapes are inferred
 * again. */
mp_status mp_rewriter_become(mp_rewriter *r, int op, const mp_operator_draft *draft);

/* Return the operator that writes a tensor: mp_producer its index (-1: none), mp_writer its address (NULL: none). */
int mp_producer(const mp_rewriter *r, int tensor);
const mp_operator *mp_writer(const mp_rewriter *r, int tensor);
/* Returns the operator that writes a tensor if it is of this type; else NULL. */
const mp_operator *mp_written_by(const mp_rewriter *r, int tensor, const char *kind);
/* Returns the producer of a tensor if the tensor is a view of all elements of the producer's input in the same order (not a
 * slice); else NULL. */
const mp_operator *mp_view(const mp_rewriter *r, int tensor);
/* True if the operator is a Transpose that swaps the last two dimensions and keeps all others in place. */
bool mp_swaps_last_two(const mp_model *model, const mp_operator *op);
/* True if the operator is of this type, in ONNX's own domain. */
bool mp_is_kind(const mp_operator *op, const char *kind);
bool mp_known_scalar(
    const mp_rewriter *r, int tensor,
    double *c); /* returns true if the tensor is a small constant whose elements are all equal; *c is their value */
bool mp_near(
    double value,
    double wanted); /* returns true if the numbers differ by less than a thousandth, because exports in fp16 round constants */

/* True if the source program called both operators as one function, or if the exporter has not recorded it and `otherwise`
 * holds. */
bool mp_are_of_one_call(const mp_operator *a, const mp_operator *b, bool otherwise);

/* The operators of a pattern. */
enum { MP_PATTERN_MAX = 24 };
typedef struct mp_pattern {
    int ops[MP_PATTERN_MAX];
    int n;
} mp_pattern;

/* Adds an operator unless the pattern already contains it. Returns false if the pattern is full. */
bool mp_pattern_add(mp_pattern *pattern, int op);
/* If the producer of the tensor is of this type, adds it to the pattern and returns it; else NULL. */
const mp_operator *mp_pattern_written_by(const mp_rewriter *r, mp_pattern *pattern, int tensor, const char *kind);
/* True if no operator outside the pattern reads an intermediate result of the pattern. The outputs of the root are not
 * intermediate. */
bool mp_pattern_is_closed(const mp_rewriter *r, const mp_pattern *pattern, int root);
/* States whether the source program called a pattern as one function (such as Gelu, which a file writes as five operators) or
 * operator by operator. UNSAID: the exporter has not recorded it. */
typedef enum mp_pattern_calls { MP_CALLS_UNSAID, MP_CALLS_ONE, MP_CALLS_SEVERAL } mp_pattern_calls;
mp_pattern_calls mp_pattern_called(const mp_rewriter *r, const mp_pattern *pattern);
/* Replaces a pattern by one operator: the root becomes `draft`, and all other operators of the pattern are removed. The
 * root's first output replaces their outputs. */
mp_status mp_pattern_fuse(mp_rewriter *r, const mp_pattern *pattern, int root, const mp_operator_draft *draft);

/* The passes of one round of simplification, in order. EACH(rule, counter, condition) applies mp_rewrite_RULE to each
 * operator. WHOLE(pass, ..) calls mp_rewrite_PASS once. `counter` is the member of the report that counts the changes. In
 * `condition`, `all` is the argument of mp_model_simplify. Each pass is in the file named after its pattern. */
#define MP_PASSES(EACH, WHOLE)                                      \
    EACH(known_value, folded, true)                                 \
    EACH(identity, identities, all)                                 \
    WHOLE(dead, dead, true)                                         \
    WHOLE(duplicates, merged, all &&rules == MP_RULES_EXECUTOR)     \
    EACH(common_factor, factored, all &&rules == MP_RULES_EXECUTOR) \
    EACH(call, patterns, all &&rules == MP_RULES_PYTORCH)           \
    EACH(split, views, all)                                         \
    EACH(normalization, patterns, all)                              \
    EACH(group_normalization, patterns, all)                        \
    EACH(activation, patterns, all)                                 \
    EACH(softplus, patterns, all)                                   \
    EACH(softmax, patterns, all)                                    \
    EACH(apart, apart, true)                                        \
    EACH(transposition, transpositions, true)                       \
    EACH(bias, biases, all)

#define MP_EACH(name, counted, when) mp_status mp_rewrite_##name(mp_rewriter *r, int op);
#define MP_WHOLE(name, counted, when) mp_status mp_rewrite_##name(mp_rewriter *r);
MP_PASSES(MP_EACH, MP_WHOLE)
#undef MP_EACH
#undef MP_WHOLE
