/* control.h - control operators whose conditions and trip counts are known are replaced by what they run.
 *
 * Inference walks over a model once. An operator within a region is inferred when its region runs: the branch that a condition
 * picks in place, the body of a loop as one copy for each iteration. Copies and the operators that join their results are
 * appended; the model is sorted once more at the end.
 *
 * A sequence of tensors is known as soon as the loop that fills it is unrolled. Then nothing of it has to exist when the model
 * runs: SequenceAt is one of the tensors, ConcatFromSequence a Concat, SplitToSequence a Split.
 *
 * Sources: ONNX's operator descriptions. Errors: MP_UNSUPPORTED where a condition, a trip count, a position or a size depends
 * on data, or unrolling takes more than MP_UNROLLED_MAX operators; MP_PARSE where the operands do not fit; MP_NOMEM.
 */
#pragma once

#include "estimator/model/model.h"

/* Limits on what unrolled loops may add to one model: operators, and bytes of their names, operands and attributes. */
enum { MP_UNROLLED_MAX = 1 << 16, MP_UNROLLED_BYTES_MAX = 1 << 28 };

typedef struct mp_region_operators {
    int *list;
    size_t n, capacity;
} mp_region_operators;

typedef struct mp_inference {
    mp_model *model;
    /* Infers one operator: shapes, types, known values. A control operator is replaced by what it runs, one on sequences by one
     * on tensors or by nothing. Pointers to operators and tensors are invalid afterwards. */
    mp_status (*visit)(struct mp_inference *w, int op);
    int64_t fold_budget;     /* elements that folding may still compute */
    int64_t steps_ahead;     /* steps that the search for a declared shape may still take */
    mp_region_operators *of; /* operators of each region, in order; NULL: there are no regions */
    size_t of_capacity;
    int *copy_of; /* per tensor of a region that is being copied: its copy + 1; 0: itself */
    size_t copy_capacity;
    int64_t n_unrolled; /* operators added so far */
    int64_t unrolled_bytes;
    int64_t n_copied; /* elements of sequences copied so far */
    mp_error *err;
} mp_inference;

/* Counts n operators that unrolling adds for operator `name`. MP_UNSUPPORTED: more than MP_UNROLLED_MAX. */
mp_status mp_inference_count(mp_inference *w, int64_t n, const char *name);
/* Adds an operator on known tensors that writes out[0..n_out), and infers it. An output that is -1 becomes a new tensor, named
 * after `stem`. */
mp_status mp_inference_emit(mp_inference *w, mp_operator_draft draft, const char *stem, int *out, int n_out);
/* Makes `to`, which has no producer any more, equal to `from`: by an Identity, or as the same sequence. */
mp_status mp_inference_alias(mp_inference *w, int from, int to);
/* Removes an operator; the tensors that it wrote no longer have a producer. */
void mp_inference_remove(mp_inference *w, int op);

/* Fails with MP_UNSUPPORTED: operator `op` depends on a tensor that is known only when it runs. */
mp_status mp_inference_dynamic(const mp_inference *w, const mp_operator *op, const char *what, int tensor);

/* Sorts the operators of regions into lists, for a model that has any. */
mp_status mp_control_start(mp_inference *w);
/* Ends the walk. Parameters that only branches not taken read become constants. */
mp_status mp_control_finish(mp_inference *w);
void mp_control_free(mp_inference *w);

/* Copies a region for one run and infers the copy at once: actual[k] stands for its k-th formal. Names begin with `prefix` in
 * place of the region's own. results[k] becomes the tensor that is the k-th result. */
mp_status mp_control_run(mp_inference *w, int region, const int *actual, const char *prefix, int *results);
/* Removes the operators of a region that does not run again. */
void mp_control_drop(mp_inference *w, int region);

/* Replaces If operator `op`, whose operands are inferred, by one of its branches. */
mp_status mp_control_if(mp_inference *w, int op);

/* Replaces Loop or Scan operator `op`, whose operands are inferred, by its iterations. */
mp_status mp_control_loop(mp_inference *w, int op);
mp_status mp_control_scan(mp_inference *w, int op);

/* Adds a constant of rank 0: an integer or a boolean. */
mp_status mp_control_number(mp_inference *w, const char *stem, mp_dtype dtype, int64_t number, int *tensor);

/* Writes items[0..n), n > 0, along an axis into tensor `to` (-1: a new one, left in *out): one behind the other, or, stacked,
 * under a new dimension. By operators of at most MP_JOINED_MAX operands. */
enum { MP_JOINED_MAX = 32 };
mp_status mp_control_join(mp_inference *w, const int *items, int n, int64_t axis, bool stacked, const char *stem, int to,
                          int *out);

/* Splits a tensor along an axis into parts of sizes[0..n), n > 0 (NULL: 1 each, without the dimension if `squeezed`). */
mp_status mp_control_part(mp_inference *w, int tensor, int axis, const int64_t *sizes, int n, bool squeezed, int *parts);

/* True if the operator makes, changes or reads sequences. */
bool mp_is_sequence_operator(const mp_operator *op);
/* Replaces a sequence operator by operators on tensors, or by nothing. */
mp_status mp_sequence_resolve(mp_inference *w, int op);

/* True for ONNX's Attention. */
bool mp_is_attention_operator(const mp_operator *op);
/* Replaces an Attention, whose operands are inferred, by products, softmax and masks. MP_UNSUPPORTED: it reads keys of earlier
 * calls, puts its scores out, or has a window. */
mp_status mp_attention_expand(mp_inference *w, int op);

/* Looks up the row of every operator that is sure to run: those of the graph and of the bodies of loops, but not those in
 * branches of an If. MP_UNSUPPORTED: "the model has operators that are not supported: NonMaxSuppression (2), StringNormalizer
 * (1); the first one is node 'x'". O(operators). */
mp_status mp_model_check_supported(const mp_model *model, mp_error *err);
/* Looks up the row of one operator. MP_UNSUPPORTED if it has none. */
mp_status mp_operator_find_row(mp_operator *op, mp_error *err);
