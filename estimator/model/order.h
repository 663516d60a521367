/* order.h - who reads which tensor of a model, and an order in which its operators can run. */
#pragma once

#include "estimator/model/model.h"

/* Puts the operators into an order in which each runs after what it reads, keeping the file's order where that works, and
 * drops removed ones. MP_PARSE names an operator on a cycle, or a tensor that is read and that nothing gives (no producer, no
 * declared input, no initializer: role ACTIVATION without producer). O(n log n). Operator indices change. */
mp_status mp_model_sort(mp_model *model, mp_error *err);

/* For each tensor, the operators that read it: consumers of t are list[start[t] .. start[t+1]), in operator order, once per
 * operand. Removed operators are left out. Release with mp_consumers_free. MP_NOMEM. O(operands). */
typedef struct mp_consumers {
    int *start, *list;
} mp_consumers;
mp_status mp_model_consumers(const mp_model *model, mp_consumers *out, mp_error *err);
void mp_consumers_free(mp_consumers *consumers);

/* Marks, per tensor, whether it depends on a parameter and may have a gradient; operators must be sorted.
 * O(operands). */
void mp_model_mark_trained(const mp_model *model, bool *trained);
