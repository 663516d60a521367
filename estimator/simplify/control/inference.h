/* inference.h - one walk of inference over a model, and what control operators add to the model on the way. Private to infer.c,
 * control.c and what stands beside it.
 *
 * An operator within a region is inferred when its region runs: the branch that a condition picks in place, the body of a loop
 * as one copy for each iteration. Copies and the operators that join their results are appended; the model is sorted once more
 * at the end.
 */
#pragma once

#include "estimator/model/model.h"

/* Operators that iterations of loops may add to one model, and bytes of their names, operands and attributes. */
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
    int64_t fold_budget;     /* elements that folding may still visit */
    int64_t steps_ahead;     /* that the search for a declared shape may still take */
    mp_region_operators *of; /* per region, in order; NULL: there are none */
    size_t of_capacity;
    int *copy_of; /* per tensor of a region that is being copied: its copy + 1; 0: itself */
    size_t copy_capacity;
    int64_t n_unrolled; /* operators added so far */
    int64_t unrolled_bytes;
    int64_t n_copied; /* elements of sequences copied so far */
    mp_error *err;
} mp_inference;

/* Counts n operators that unrolling adds, at operator `name`. MP_UNSUPPORTED: more than MP_UNROLLED_MAX. */
mp_status mp_inference_count(mp_inference *w, int64_t n, const char *name);
/* An operator on known tensors, added and inferred. Outputs of the draft that are -1 become new tensors, named after `stem`;
 * out[] gets all of them. */
mp_status mp_inference_emit(mp_inference *w, const mp_operator_draft *draft, const char *stem, int *out);
/* `to`, which has no producer any more, is `from`: an Identity, or the same sequence. */
mp_status mp_inference_alias(mp_inference *w, int from, int to);
/* Takes an operator out, with what it writes. */
void mp_inference_remove(mp_inference *w, int op);

/* Refuses operator `op`, since what decides on it is known only when it runs. */
mp_status mp_inference_dynamic(const mp_inference *w, int op, const char *what, int tensor);
