/* rewrite.h - changes to a model during simplification; keeps readers and replacements of every tensor current.
 *
 * A pass visits the operators in execution order. A replaced tensor only records its replacement. Readers are updated when a
 * pass visits them, at the latest at the start of the next pass. A pass therefore costs O(operands), however long the chains of
 * replacements are. Operators are changed in place. The order stays valid, because a changed operator reads only tensors
 * computed before it. */
#pragma once

#include "estimator/model/ops.h"

typedef struct mp_rewriter {
    mp_model *model;
    int *n_readers; /* number of operands that read each tensor, plus one for a declared output */
    int changes;    /* number of changes that the pass has made */
    mp_rules rules;
    mp_error *err;
} mp_rewriter;

/* Rewrites one operator, whose operands are current. A rule inspects only earlier operators and counts its changes in
 * `changes`. If the rule does not apply, it leaves the operator unchanged. */
typedef mp_status (*mp_rewrite_rule)(mp_rewriter *r, int op);

/* Prepares a pass: updates every operand, counts the readers, and sets changes to 0. O(tensors + operands). */
void mp_rewriter_start(mp_rewriter *r);
/* Applies a rule to every operator that is not removed, in order. */
mp_status mp_rewriter_each(mp_rewriter *r, mp_rewrite_rule rule);

/* Updates the operands of one operator, for passes that visit operators themselves instead of by mp_rewriter_each. */
void mp_rewriter_update(mp_rewriter *r, int op);

/* Redirects the readers of `old` to `by`. Does not check the tensors; `old` must not be a declared output. */
void mp_rewriter_replace(mp_rewriter *r, int old, int by);
/* Removes an operator; its output tensors no longer have a producer. */
void mp_rewriter_remove(mp_rewriter *r, int op);
/* Removes an operator whose first output equals its operand `from` and whose other outputs are not read. A declared output
 * keeps its name: the producer of `from` then writes it directly. Returns false without changes if that is impossible. */
bool mp_rewriter_bypass(mp_rewriter *r, int op, int from);
/* Turns an operator into another type. It keeps its name, position and outputs, and takes the draft's kind, domain, version,
 * inputs and attributes (a version below the row's minimum is raised to the draft's). Its shapes are inferred again. */
mp_status mp_rewriter_become(mp_rewriter *r, int op, const mp_operator_draft *draft);

/* Return the operator that writes a tensor: its index, or -1 if there is none; its address, or NULL if there is none. */
int mp_producer(const mp_rewriter *r, int tensor);
const mp_operator *mp_writer(const mp_rewriter *r, int tensor);
/* Returns the operator that writes a tensor if it is of this kind; else NULL. */
const mp_operator *mp_written_by(const mp_rewriter *r, int tensor, const char *kind);
/* Returns the producer of a tensor if it is a view of all elements in the same order (not a slice); else NULL. */
const mp_operator *mp_view(const mp_rewriter *r, int tensor);
/* True if a Transpose swaps the last two dimensions and keeps the others in place. */
bool mp_swaps_last_two(const mp_model *model, const mp_operator *op);
/* True if the operator has this kind and ONNX's own domain. */
bool mp_is_kind(const mp_operator *op, const char *kind);
bool mp_known_scalar(const mp_rewriter *r, int tensor,
                     double *c); /* true if the tensor is a small constant whose elements are all equal; *c is that number */
bool mp_near(double value,
             double wanted); /* true if the numbers differ by less than a thousandth, because fp16 exports round constants */

/* The operators of a pattern. */
enum { MP_PATTERN_MAX = 24 };
typedef struct mp_pattern {
    int ops[MP_PATTERN_MAX];
    int n;
} mp_pattern;

/* Adds an operator unless the pattern already contains it. Returns false if the pattern is full. */
bool mp_pattern_add(mp_pattern *pattern, int op);
/* Returns the tensor's producer and adds it to the pattern, if the producer has this kind. NULL: another kind, or no
 * producer. */
const mp_operator *mp_pattern_written_by(const mp_rewriter *r, mp_pattern *pattern, int tensor, const char *kind);
/* True if no operator outside the pattern reads its intermediate results (the root's outputs excluded). */
bool mp_pattern_is_closed(const mp_rewriter *r, const mp_pattern *pattern, int root);
/* How the source program called a pattern, if the exporter recorded it: as one function (such as Gelu, which a file writes as
 * five operators), or operator by operator. */
typedef enum mp_pattern_calls { MP_CALLS_UNSAID, MP_CALLS_ONE, MP_CALLS_SEVERAL } mp_pattern_calls;
mp_pattern_calls mp_pattern_called(const mp_rewriter *r, const mp_pattern *pattern);
/* Turns the root into `draft` and removes the other operators of the pattern. The root's first output replaces their
 * outputs. */
mp_status mp_pattern_fuse(mp_rewriter *r, const mp_pattern *pattern, int root, const mp_operator_draft *draft);

/* The passes of a round, in order. EACH(rule, counter, condition) applies mp_rewrite_RULE to each operator. WHOLE(pass, ..)
 * calls mp_rewrite_PASS once. The counter is a member of the report. In the condition, `all` is the argument of
 * mp_model_simplify. A pass is in the file that is named after its pattern. */
#define MP_PASSES(EACH, WHOLE)                                      \
    EACH(known_value, folded, true)                                 \
    EACH(identity, identities, all)                                 \
    WHOLE(dead, dead, true)                                         \
    WHOLE(duplicates, merged, all)                                  \
    EACH(common_factor, factored, all &&rules == MP_RULES_EXECUTOR) \
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
