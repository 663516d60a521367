/* control.h - replaces control operators with known conditions and trip counts by the operators they execute.
 *
 * Inference visits every operator of a model once. The operators of a region are inferred when the control operator is
 * replaced. An If is replaced by the chosen branch in place. A loop is replaced by one copy of its body per iteration. The
 * copies and the operators that join their results are appended, and the model is sorted again at the end.
 *
 * A sequence of tensors is known once the loop that fills it is unrolled. Then the model needs no sequence at run time:
 * SequenceAt becomes one of the tensors, ConcatFromSequence a Concat, SplitToSequence a Split.
 *
 * Source: ONNX's operator descriptions. All functions return MP_UNSUPPORTED if a condition, trip count, position or size
 * depends on data, or if unrolling exceeds MP_UNROLLED_MAX operators. MP_PARSE: operands do not match. MP_NOMEM. */
#pragma once

#include "estimator/model/model.h"

/* Limits per model on the operators that unrolling adds: their number, and the bytes of their names, operands and
 * attributes. */
enum { MP_UNROLLED_MAX = 1 << 16, MP_UNROLLED_BYTES_MAX = 1 << 28 };

typedef struct mp_region_operators {
    int *list;
    size_t n, capacity;
} mp_region_operators;

typedef struct mp_inference {
    mp_model *model;
    /* Infers one operator: shapes, types, known values. A control operator is replaced by the operators it executes. A
     * sequence operator is replaced by an operator on tensors, or removed. Pointers to operators and tensors are invalid
     * afterwards. */
    mp_status (*visit)(struct mp_inference *w, int op);
    int64_t fold_budget;     /* number of elements that constant folding may still compute before its limit */
    int64_t steps_ahead;     /* number of operators that the search for a declared shape may still visit before its limit */
    mp_region_operators *of; /* per region: the list of its operators, in order; NULL: the model has no regions */
    size_t of_capacity;
    int *copy_of; /* per tensor, while its region is copied: 1 + the index of its copy. 0: the tensor has no copy, so copied
                     operators read the tensor itself */
    size_t copy_capacity;
    int64_t n_unrolled; /* number of operators that unrolling has added so far */
    int64_t unrolled_bytes;
    int64_t n_copied; /* number of sequence elements that have been copied so far */
    mp_error *err;
} mp_inference;

/* Adds n to the number of operators that unrolling has added. `name` is the control operator. MP_UNSUPPORTED: the number
 * exceeds MP_UNROLLED_MAX. */
mp_status mp_inference_count(mp_inference *w, int64_t n, const char *name);
/* Adds an operator that reads known tensors and writes out[0..n_out), and infers it. If an output is -1, a new tensor is
 * created and named after `stem`. */
mp_status mp_inference_emit(mp_inference *w, mp_operator_draft draft, const char *stem, int *out, int n_out);
/* Makes tensor `to`, which has no producer any more, equal to `from`: by an Identity operator, or by sharing the same
 * sequence. */
mp_status mp_inference_alias(mp_inference *w, int from, int to);
/* Removes an operator; its output tensors no longer have a producer. */
void mp_inference_remove(mp_inference *w, int op);

/* Records the error that operator `op` depends on a tensor whose value is known only at run time. Returns MP_UNSUPPORTED. */
mp_status mp_inference_dynamic(const mp_inference *w, const mp_operator *op, const char *what, int tensor);

/* Fills the operator list of each region, if the model has regions. */
mp_status mp_control_start(mp_inference *w);
/* Ends the inference. If a parameter is read only by branches that are not executed, it becomes a constant. */
mp_status mp_control_finish(mp_inference *w);
void mp_control_free(mp_inference *w);

/* Copies the operators of a region for one execution, and infers the copies at once. actual[k] is the tensor that replaces
 * the k-th formal parameter. Names of copies begin with `prefix` instead of the region's prefix. results[k] receives the
 * copy of the k-th result. */
mp_status mp_control_run(mp_inference *w, int region, const int *actual, const char *prefix, int *results);
/* Removes the operators of a region after its last execution. */
void mp_control_drop(mp_inference *w, int region);

/* Replaces an If by one of its branches. `op` is the index of the If; its operands must be inferred. */
mp_status mp_control_if(mp_inference *w, int op);

/* Replaces a Loop or Scan by its iterations. `op` is the index of the operator; its operands must be inferred. */
mp_status mp_control_loop(mp_inference *w, int op);
mp_status mp_control_scan(mp_inference *w, int op);

/* Add a scalar constant: an integer or a boolean. */
mp_status mp_control_number(mp_inference *w, const char *stem, mp_dtype dtype, int64_t number, int *tensor);

/* Joins items[0..n), n > 0, along an axis into tensor `to` (-1: a new tensor, returned in *out). The tensors are
 * concatenated, or stacked along a new dimension. Operators with more than MP_JOINED_MAX operands are avoided. */
enum { MP_JOINED_MAX = 32 };
mp_status mp_control_join(mp_inference *w, const int *items, int n, int64_t axis, bool stacked, const char *stem, int to,
                          int *out);

/* Splits a tensor along an axis into n > 0 tensors of the given sizes. sizes NULL: each has size 1 along the axis; with
 * `squeezed` that dimension is then removed. */
mp_status mp_control_part(mp_inference *w, int tensor, int axis, const int64_t *sizes, int n, bool squeezed, int *parts);

/* True if the operator creates, changes or reads a sequence of tensors. */
bool mp_is_sequence_operator(const mp_operator *op);
/* Replaces an operator on sequences by operators on tensors, or removes it. */
mp_status mp_sequence_resolve(mp_inference *w, int op);

/* True if the operator is Attention of ONNX (operator sets 23 and 24). */
bool mp_is_attention_operator(const mp_operator *op);
/* Replaces an Attention operator by products, softmax and masks. Its operands must be inferred. MP_UNSUPPORTED: the operator
 * reads keys of earlier calls, returns its scores, or has a window. */
mp_status mp_attention_expand(mp_inference *w, int op);

/* Checks that the registry has a row for every operator that is certain to run. These are the operators of the main graph
 * and of loop bodies, but not of the branches of an If. MP_UNSUPPORTED: "the model has operators that are not supported:
 * NonMaxSuppression (2), StringNormalizer (1); the first one is node 'x'". O(operators). */
mp_status mp_model_check_supported(const mp_model *model, mp_error *err);
/* Finds the registry row of one operator. MP_UNSUPPORTED: the registry has no row for it. */
mp_status mp_operator_find_row(mp_operator *op, mp_error *err);
