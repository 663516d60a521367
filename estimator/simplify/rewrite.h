/* rewrite.h - changes to a model that is being simplified, with readers and replacements of every tensor kept up to date.
 *
 * A pass visits the operators in an order in which they can run. A tensor that is replaced only notes by which one; its
 * readers learn of it when they are visited, or at the start of the next pass at the latest. So a pass costs O(operands),
 * however long the chains of replacements are. Operators are changed in place, which keeps the order valid: what an operator
 * becomes reads only what was computed before it.
 */
#pragma once

#include "estimator/model/ops.h"

typedef struct mp_rewriter {
    mp_model *model;
    int *n_readers; /* per tensor: the number of operands that read it, plus one for a declared output */
    int changes;    /* changes made by this pass */
    mp_rules rules;
    mp_error *err;
} mp_rewriter;

/* Rewrites one operator, whose operands are up to date. Rules look backwards only, count what they do in `changes`, and leave
 * the operator alone when they do not apply. */
typedef mp_status (*mp_rewrite_rule)(mp_rewriter *r, int op);

/* Brings every operand up to date, counts the readers, and sets changes to 0: before each pass. O(tensors + operands). */
void mp_rewriter_start(mp_rewriter *r);
/* Applies a rule to every operator that is not removed, in order. */
mp_status mp_rewriter_each(mp_rewriter *r, mp_rewrite_rule rule);

/* Brings the operands of one operator up to date, for passes that keep a state and cannot use mp_rewriter_each. */
void mp_rewriter_update(mp_rewriter *r, int op);

/* Readers of `old` read `by` from now on. Neither is checked; `old` is no declared output. */
void mp_rewriter_replace(mp_rewriter *r, int old, int by);
/* Removes an operator; the tensors that it wrote no longer have a producer. */
void mp_rewriter_remove(mp_rewriter *r, int op);
/* Removes an operator whose first output equals its operand `from` and whose other outputs nobody reads. A declared output
 * keeps its name: then the producer of `from` writes it directly. Returns false, and does nothing, if that is not possible. */
bool mp_rewriter_bypass(mp_rewriter *r, int op, int from);
/* Turns an operator into another: it keeps its name, position and outputs, and takes draft's kind, domain, version,
 * inputs and attributes (a version too old for a row is raised to draft's). Its shapes are inferred again. */
mp_status mp_rewriter_become(mp_rewriter *r, int op, const mp_operator_draft *draft);

/* Return the operator that writes a tensor: its index, or -1 if there is none; its address, or NULL if there is none. */
int mp_producer(const mp_rewriter *r, int tensor);
const mp_operator *mp_writer(const mp_rewriter *r, int tensor);
/* Returns the operator that writes a tensor if it is of this kind; else NULL. */
const mp_operator *mp_written_by(const mp_rewriter *r, int tensor, const char *kind);
/* Returns the operator that writes a tensor if it is a view of all elements in the same order (not a slice); else
 * NULL. */
const mp_operator *mp_view(const mp_rewriter *r, int tensor);
/* True if a Transpose swaps the last two dimensions and leaves the others where they are. */
bool mp_swaps_last_two(const mp_model *model, const mp_operator *op);
/* True if the operator is of this kind and of ONNX's own domain. */
bool mp_is_kind(const mp_operator *op, const char *kind);
bool mp_known_scalar(const mp_rewriter *r, int tensor, double *c); /* true for a small constant whose elements all equal *c */
bool mp_near(double value, double wanted); /* true within a thousandth, because fp16 exports round constants */

/* The operators that a pattern consists of. */
enum { MP_PATTERN_MAX = 24 };
typedef struct mp_pattern {
    int ops[MP_PATTERN_MAX];
    int n;
} mp_pattern;

/* Adds an operator unless it is there already. Returns false if the pattern is full. */
bool mp_pattern_add(mp_pattern *pattern, int op);
/* Returns the producer of the tensor if it is of this kind, and adds it to the pattern. NULL if the producer is of another
 * kind, or there is none. */
const mp_operator *mp_pattern_written_by(const mp_rewriter *r, mp_pattern *pattern, int tensor, const char *kind);
/* True if only the pattern's operators read what they compute, apart from the root's outputs. */
bool mp_pattern_is_closed(const mp_rewriter *r, const mp_pattern *pattern, int root);
/* How the program called a pattern, as far as the exporter has noted it: all of it at once (its one Gelu is five operators in a
 * file), or operator by operator. */
typedef enum mp_pattern_calls { MP_CALLS_UNSAID, MP_CALLS_ONE, MP_CALLS_SEVERAL } mp_pattern_calls;
mp_pattern_calls mp_pattern_called(const mp_rewriter *r, const mp_pattern *pattern);
/* Turns the root into `draft` and removes the other operators of the pattern; the root's first output replaces theirs. */
mp_status mp_pattern_fuse(mp_rewriter *r, const mp_pattern *pattern, int root, const mp_operator_draft *draft);

/* The passes in the order of a round: EACH(rule, the count of the report that it adds to, when it is asked for; `all` is
 * mp_model_simplify's) applies the rule mp_rewrite_RULE to each operator, WHOLE(pass, ..) calls mp_rewrite_PASS once. Each is
 * in a file that is named after what it looks for. */
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
    EACH(softmax, patterns, all)                                    \
    EACH(apart, apart, true)                                        \
    EACH(transposition, transpositions, true)                       \
    EACH(bias, biases, all)

#define MP_EACH(name, counted, when) mp_status mp_rewrite_##name(mp_rewriter *r, int op);
#define MP_WHOLE(name, counted, when) mp_status mp_rewrite_##name(mp_rewriter *r);
MP_PASSES(MP_EACH, MP_WHOLE)
#undef MP_EACH
#undef MP_WHOLE
