/* order.h - sorts the operators of a model into an execution order, and lists the readers of each tensor. */
#pragma once

#include "estimator/model/model.h"

/* Sorts the operators so that each runs after its inputs are available, and drops removed operators. Keeps the file's order
 * where possible. MP_PARSE: operators form a cycle, or a tensor is read but has no producer and is neither a declared input
 * nor an initializer. The message names the operator or tensor. O(n log n). Operator indices change. */
mp_status mp_model_sort(mp_model *model, mp_error *err);

/* Puts the operators order[0..n) in this order, and drops all others. The order must be an execution order. MP_NOMEM.
 * Operator indices change. */
mp_status mp_model_reorder(mp_model *model, const int *order, size_t n, mp_error *err);

/* For each tensor, the operators that read it. The consumers of tensor t are list[start[t] .. start[t+1]), in operator
 * order. A consumer that reads t with several operands occurs several times. Removed operators are omitted. Release with
 * mp_consumers_free. MP_NOMEM. O(operands). */
typedef struct mp_consumers {
    int *start, *list;
} mp_consumers;
mp_status mp_model_consumers(const mp_model *model, mp_consumers *out, mp_error *err);
void mp_consumers_free(mp_consumers *consumers);

/* Marks the tensors that depend on a parameter and may have a gradient. Operators must be sorted. O(operands). */
void mp_model_mark_trained(const mp_model *model, bool *trained);
