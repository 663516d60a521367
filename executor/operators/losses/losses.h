/* losses.h - losses over classes (cross-entropy), and losses over elements, for every backend. A loss over elements is the
 * mean over all elements of a function of prediction a and target b:
 *
 *   - MeanSquaredError: (a - b)^2.
 *   - HuberLoss: d^2 / 2 if d = |a - b| is at most delta, else delta (d - delta / 2). With the attribute smooth, the result is
 *     divided by delta; this is smooth L1 with beta = delta.
 *   - BinaryCrossEntropyWithLogits: (1 - b) a + (1 + (w - 1) b) ln(1 + e^-a), where a is a logit, b the target probability,
 *     and w the weight of the positive class: operand 2, one number, or one per index of the last dimension; 1 if it is
 *     absent. */
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
    /* for HUBER: delta: the operator's parameter; scale: the number by which each term of the loss is multiplied */
    float delta, scale;
} mp_element_loss;

/* Computes the gradient of prediction or target: the derivative of the mean with respect to each element, times dy, the
 * gradient of the loss. */
typedef struct mp_element_slope {
    mp_element_loss loss;
    mp_loops loops; /* the loops over the elements of the gradient, prediction, target and weight */
    mp_array a, b, w, dy, to;
    bool of_target; /* true: the operand is the target; false: the prediction */
} mp_element_slope;

/* Makes an mp_element_loss the call's state. MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16; MP_NOMEM. */
mp_status mp_element_loss_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Computes the requested gradients of a loss over elements, with the backend's loop over mp_element_slope_item. */
mp_status mp_element_loss_backward(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* Returns operand 2, broadcast to the shape of the prediction. Its data is NULL if the operand is absent: all weights are 1. */
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

/* Returns the derivative of an element's loss with respect to the prediction a. */
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

/* Returns the derivative of an element's loss with respect to the target b. */
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

/* ---- losses over classes. */

typedef enum mp_class_loss_reduction { MP_CLASS_LOSS_MEAN, MP_CLASS_LOSS_SUM, MP_CLASS_LOSS_NONE } mp_class_loss_reduction;

typedef struct mp_class_loss {
    mp_lines
        lines; /* lines along the classes. A position is one target; line k has the scores of position k, counted row-major */
    mp_class_loss_reduction reduction;
    /* true: input 0 contains scores, and saved output 0 the log(sum(e^score)) of each line; false: input 0 contains
     * log-probabilities */
    bool softmax;
    bool ignores; /* true: positions (targets) with the value `ignored` do not count */
    int64_t ignored;
    double smoothing; /* label smoothing: the fraction of a position's (target's) loss that is the mean over all classes; 0
                         without softmax */
    int64_t ranks;    /* number of ranks over which the classes are split; 1: not split */
    int64_t sharers;  /* sharers: number of ranks over which the positions (targets) are split; 1: not split */
    bool is_counted;  /* true: the weights of positions (targets) are known only at run time, so the ranks that share the
                         positions exchange their sums */
} mp_class_loss;

/* If the classes are split over ranks: the values that each rank sends to the other ranks for every position (target). */
typedef struct mp_class_part {
    double sum;    /* sum of e^(score - largest) over this rank's classes */
    float largest; /* largest score of this rank's classes */
    float score;   /* score of the target class, if this rank holds that class */
} mp_class_part;

/* Reads the parameters of a loss over classes. MP_UNSUPPORTED: the type is neither FLOAT nor BFLOAT16, or the output of the
 * loss is not row-major. */
mp_status mp_class_loss_read(const mp_operands *x, mp_class_loss *out, mp_error *err);
