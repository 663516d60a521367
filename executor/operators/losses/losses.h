/* losses.h - losses over classes, and those that are the mean over all elements of a function of prediction and target, for
 * every backend. The latter:
 *
 * - MeanSquaredError: (a - b)^2.
 * - HuberLoss: d^2 / 2 where d = |a - b| is at most delta, delta (d - delta / 2) beyond. Attribute smooth: divided by delta,
 *   which is smooth L1 with beta = delta.
 * - BinaryCrossEntropyWithLogits: (1 - b) a + (1 + (w - 1) b) ln(1 + e^-a), where b is how likely it is that something is so,
 *   a the logit of it, and w its weight: operand 2, a number or one for each place along the last dimension; without it 1.
 */
#pragma once

#include "executor/kernel/body.h"
#include "executor/kernel/loops.h"
#include "executor/operators/elementwise/formulas.h"

typedef enum mp_element_loss_kind {
    MP_ELEMENT_LOSS_SQUARED,
    MP_ELEMENT_LOSS_HUBER,
    MP_ELEMENT_LOSS_BINARY
} mp_element_loss_kind;

#define MP_ELEMENT_LOSSES(X)                       \
    X("MeanSquaredError", MP_ELEMENT_LOSS_SQUARED) \
    X("HuberLoss", MP_ELEMENT_LOSS_HUBER)          \
    X("BinaryCrossEntropyWithLogits", MP_ELEMENT_LOSS_BINARY)

typedef struct mp_element_loss {
    mp_element_loss_kind kind;
    float delta, scale; /* of HUBER */
} mp_element_loss;

/* The derivative of the mean by the elements of an operand, times the gradient of the loss. */
typedef struct mp_element_slope {
    mp_element_loss loss;
    mp_loops loops; /* over the gradient, prediction, target and weight */
    mp_array a, b, w, dy, to;
    bool of_target; /* the operand is the target, else the prediction */
} mp_element_slope;

/* An mp_element_loss becomes the call's state. MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16; MP_NOMEM. */
mp_status mp_element_loss_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Runs mp_element_slope_item for the gradients. */
mp_status mp_element_loss_backward(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* Returns operand 2 broadcast to the shape of the prediction. Its data is NULL if there is no such operand: all weights are 1.
 */
mp_array mp_element_loss_weights(const mp_operands *x);

MP_INLINE double mp_element_loss_value(const mp_element_loss *l, float a, float b, float w)
{
    double d = (double)a - (double)b;
    switch (l->kind) {
    case MP_ELEMENT_LOSS_SQUARED:
        return d * d;
    case MP_ELEMENT_LOSS_HUBER:
        d = d < 0 ? -d : d;
        return (double)l->scale * (d <= (double)l->delta ? d * d / 2 : (double)l->delta * (d - (double)l->delta / 2));
    default:
        return (1 - (double)b) * (double)a + (1 + ((double)w - 1) * (double)b) * (double)mp_softplus(-a);
    }
}

/* Returns the derivative by the prediction, a. */
MP_INLINE float mp_element_loss_slope(const mp_element_loss *l, float a, float b, float w)
{
    const float d = a - b;
    switch (l->kind) {
    case MP_ELEMENT_LOSS_SQUARED:
        return 2 * d;
    case MP_ELEMENT_LOSS_HUBER:
        return l->scale * (d > l->delta ? l->delta : d < -l->delta ? -l->delta : d);
    default:
        return (1 - b) - (1 + (w - 1) * b) * mp_sigmoid(-a);
    }
}

/* Returns the derivative by the target, b. */
MP_INLINE float mp_element_loss_target_slope(const mp_element_loss *l, float a, float b, float w)
{
    return l->kind == MP_ELEMENT_LOSS_BINARY ? (w - 1) * mp_softplus(-a) - a : -mp_element_loss_slope(l, a, b, w);
}

MP_INLINE void mp_element_slope_item(const mp_element_slope *s, int64_t k)
{
    int64_t at[4] = {0};
    for (int d = s->loops.rank - 1; d >= 0; d--) {
        for (int i = 0; i < 4; i++) at[i] += k % s->loops.dims[d] * s->loops.strides[i][d];
        k /= s->loops.dims[d];
    }
    const float share = (float)((double)mp_array_load(&s->dy, 0) / (double)s->loops.n_elements);
    const float a = mp_array_load(&s->a, at[1]), b = mp_array_load(&s->b, at[2]),
                w = s->w.data ? mp_array_load(&s->w, at[3]) : 1;
    const float slope =
        s->of_target ? mp_element_loss_target_slope(&s->loss, a, b, w) : mp_element_loss_slope(&s->loss, a, b, w);
    mp_array_store(&s->to, at[0], share * slope);
}

/* ---- what a loss over classes does, read from its operands when a call is prepared. */

typedef enum mp_class_loss_reduction { MP_CLASS_LOSS_MEAN, MP_CLASS_LOSS_SUM, MP_CLASS_LOSS_NONE } mp_class_loss_reduction;

typedef struct mp_class_loss {
    mp_lines lines; /* along the classes; line k is position k of the targets, counted row-major */
    mp_class_loss_reduction reduction;
    bool softmax; /* the log-probabilities are computed here; extra 0 is, of each line, the logarithm of its sum of e^score */
    bool ignores; /* some target counts nothing */
    int64_t ignored;
    double smoothing; /* share of a position's loss that the mean over all classes has instead of its target (softmax only) */
} mp_class_loss;

/* MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, or a loss that is not row-major. */
mp_status mp_class_loss_read(const mp_operands *x, mp_class_loss *out, mp_error *err);
