/* shapes_reduction.c - shapes of reductions over axes (Reduce*, ArgMax, ArgMin), normalizations and losses.
 *
 * The axes are an attribute in older versions (ReduceSum before 13, other reductions before 18) and the second input in newer
 * ones. Without axes all dimensions are reduced, or with noop_with_empty_axes none. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* Sets output 0 to the shape of x after reduction of the marked dimensions. */
static mp_status set_reduced(mp_infer *c, mp_dtype dtype, const mp_tensor *x, const bool *reduced)
{
    bool keep = mp_operator_int(c->op, "keepdims", 1) != 0;
    int64_t dims[MP_RANK_MAX];
    int rank = 0;
    for (int k = 0; k < x->rank; k++)
        if (!reduced[k] || keep) dims[rank++] = reduced[k] ? 1 : x->dims[k];
    return mp_infer_set(c, 0, dtype, rank, dims);
}

mp_status mp_shape_reduce(mp_infer *c)
{
    const mp_tensor *x;
    bool reduced[MP_RANK_MAX] = {false};
    MP_CHECK(mp_rule_input(c, 0, 0, MP_RANK_MAX, &x));
    const int64_t *axes;
    size_t n;
    if (mp_infer_in(c, 1)) {
        MP_CHECK(mp_infer_integers(c, 1, &axes, &n));
        if (!axes) return mp_infer_defer(c, 0, x->dtype);
    } else {
        axes = mp_operator_ints(c->op, "axes", &n);
    }
    if (n == 0) {
        bool all = mp_operator_int(c->op, "noop_with_empty_axes", 0) == 0;
        for (int k = 0; k < x->rank; k++) reduced[k] = all;
    }
    for (size_t k = 0; k < n; k++) {
        int axis;
        MP_CHECK(mp_rule_axis(c, axes[k], x->rank, &axis));
        MP_FIT(!reduced[axis], "axis %d is given twice", axis);
        reduced[axis] = true;
    }
    return set_reduced(c, x->dtype, x, reduced);
}

mp_status mp_shape_arg_reduce(mp_infer *c)
{
    const mp_tensor *x;
    bool reduced[MP_RANK_MAX] = {false};
    int axis;
    MP_CHECK(mp_rule_input(c, 0, 0, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", 0), x->rank, &axis));
    MP_FIT(x->dims[axis] > 0, "axis %d of '%s' is empty", axis, x->name);
    reduced[axis] = true;
    return set_reduced(c, MP_DTYPE_INT64, x, reduced);
}

/* The following rules are for normalizations that also output statistics. Other normalizations use mp_shape_same. */

/* Shape of BatchNormalization. X is (N, C, D1..Dn). Scale, bias, mean and variance have one element per channel. Before
 * version 9, spatial = 0 means that they have one element per element of a sample. If X has a single dimension, this is N,
 * and there is one channel. The output statistics have the shapes of the input statistics. Up to version 13 they are mean,
 * variance and their saved copies, from 14 on the running statistics. */
mp_status mp_shape_batch_normalization(mp_infer *c)
{
    const mp_tensor *x, *t, *mean;
    char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
    MP_CHECK(mp_rule_input(c, 0, 1, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_input(c, 3, 1, MP_RANK_MAX, &mean));
    int64_t n_channels = x->rank >= 2 ? x->dims[1] : 1;
    bool per_channel = c->op->version >= 9 || mp_operator_int(c->op, "spatial", 1) != 0;
    for (int k = 1; k < 5; k++) {
        MP_CHECK(mp_rule_input(c, k, 1, per_channel ? 1 : MP_RANK_MAX, &t));
        MP_FIT(!per_channel || t->dims[0] == n_channels, "'%s' has %" PRId64 " elements for the %" PRId64 " channels of '%s'",
               t->name, t->dims[0], n_channels, x->name);
    }
    for (int k = 5; k < c->op->n_in; k++) { /* if a normalization is fused with an addition, input 5 is added to its result and
                                               has the shape of the result */
        MP_CHECK(mp_rule_input(c, k, 1, MP_RANK_MAX, &t));
        MP_FIT(mp_same_shape(t, x), "'%s' %s must have the shape of '%s' %s", t->name,
               mp_rule_shape_text(t->dims, t->rank, own), x->name, mp_rule_shape_text(x->dims, x->rank, whole));
    }
    MP_CHECK(mp_infer_like(c, 0, x));
    for (int k = 1; k < c->op->n_out; k++) MP_CHECK(mp_infer_like(c, k, mean));
    return MP_OK;
}

/* Shape of layer and RMS normalization over the dimensions from `axis` on. Y has X's shape and the type of the scale. The
 * statistics have size 1 in the normalized dimensions, and the type that the attribute stash_type states. */
mp_status mp_shape_layer_normalization(mp_infer *c)
{
    const mp_tensor *x, *t;
    int axis, rank;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 1, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", -1), x->rank, &axis));
    for (int k = c->op->n_in - 1; k >= 1;
         k--) { /* the shapes of the bias (input 2, optional) and of the scale (input 1) must broadcast to the shape of X */
        char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
        if (k > 1 && !mp_infer_in(c, k)) continue;
        MP_CHECK(mp_rule_input(c, k, 0, x->rank, &t));
        bool fits = mp_rule_broadcast(x->dims, x->rank, t->dims, t->rank, dims, &rank);
        for (int d = 0; d < x->rank; d++) fits = fits && dims[d] == x->dims[d];
        MP_FIT(fits, "'%s' %s does not fit '%s' %s", t->name, mp_rule_shape_text(t->dims, t->rank, own), x->name,
               mp_rule_shape_text(x->dims, x->rank, whole));
    }
    MP_CHECK(mp_infer_set(c, 0, t->dtype, x->rank, x->dims));
    for (int d = 0; d < x->rank; d++) dims[d] = d < axis ? x->dims[d] : 1;
    int64_t stash = mp_operator_int(c->op, "stash_type", MP_DTYPE_FLOAT);
    MP_FIT(stash > MP_DTYPE_UNDEFINED && stash < MP_N_DTYPES && mp_dtype_is_float((mp_dtype)stash),
           "stash_type %" PRId64 " is no floating-point type", stash);
    for (int k = 1; k < c->op->n_out; k++) MP_CHECK(mp_infer_set(c, k, (mp_dtype)stash, x->rank, dims));
    return MP_OK;
}

/* Shape of group and instance normalization. Scale and bias have one element per channel. Before operator set 21 they may
 * have one element per group. In recognised patterns they may have the shape [channels, 1, ...]. */
mp_status mp_shape_group_normalization(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *t;
    const int64_t groups = mp_operator_int(c->op, "num_groups", 1);
    for (int k = 1; k < 3; k++) {
        MP_CHECK(mp_rule_input(c, k, 1, x->rank - 1, &t));
        for (int d = 1; d < t->rank; d++) MP_FIT(t->dims[d] == 1, "'%s' has several elements per channel", t->name);
        MP_FIT(t->dims[0] == x->dims[1] || (c->op->version < 21 && t->dims[0] == groups),
               "'%s' has %" PRId64 " elements for %" PRId64 " channels in %" PRId64 " groups", t->name, t->dims[0], x->dims[1],
               groups);
    }
    MP_FIT(mp_infer_in(c, 1)->dims[0] == mp_infer_in(c, 2)->dims[0], "scale and bias have different lengths");
    return mp_infer_like(c, 0, x);
}

/* Shapes of losses. Scores (N, C, d1..dk) and integer labels (N, d1..dk) give one value per label, or with a reduction a single
 * value. Predictions and targets with the same shape give their mean loss. */

mp_status mp_shape_loss(mp_infer *c)
{
    const mp_tensor *scores, *labels, *weights;
    MP_CHECK(mp_rule_input(c, 0, 2, MP_RANK_MAX, &scores));
    MP_CHECK(mp_rule_input(c, 1, scores->rank - 1, scores->rank - 1, &labels));
    for (int k = 0; k < labels->rank; k++)
        MP_FIT(labels->dims[k] == scores->dims[k ? k + 1 : 0],
               "the labels '%s' have %" PRId64 " along dimension %d where the scores '%s' have %" PRId64, labels->name,
               labels->dims[k], k, scores->name, scores->dims[k ? k + 1 : 0]);
    if (mp_infer_in(c, 2)) {
        MP_CHECK(mp_rule_input(c, 2, 1, 1, &weights));
        MP_FIT(weights->dims[0] == scores->dims[1], "%" PRId64 " weights are given for %" PRId64 " classes", weights->dims[0],
               scores->dims[1]);
    }
    const char *reduction = mp_operator_text(c->op, "reduction", "mean");
    bool none = !strcmp(reduction, "none");
    MP_FIT(none || !strcmp(reduction, "mean") || !strcmp(reduction, "sum"), "reduction '%s' is unknown", reduction);
    MP_CHECK(mp_infer_set(c, 0, scores->dtype, none ? labels->rank : 0, labels->dims));
    return mp_infer_like(c, 1, scores); /* output 1 of the loss contains the logarithms of the probabilities */
}

mp_status mp_shape_element_loss(mp_infer *c)
{
    const mp_tensor *x, *target, *weights;
    char text[2][MP_SHAPE_TEXT];
    MP_CHECK(mp_rule_input(c, 0, 0, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_input(c, 1, 0, MP_RANK_MAX, &target));
    MP_FIT(x->rank == target->rank && !memcmp(x->dims, target->dims, (size_t)x->rank * sizeof *x->dims),
           "'%s' %s and its target '%s' %s have different shapes", x->name, mp_rule_shape_text(x->dims, x->rank, text[0]),
           target->name, mp_rule_shape_text(target->dims, target->rank, text[1]));
    if (mp_infer_in(c, 2)) {
        MP_CHECK(mp_rule_input(c, 2, 1, 1, &weights));
        MP_FIT(weights->dims[0] == 1 || (x->rank && weights->dims[0] == x->dims[x->rank - 1]),
               "%" PRId64 " weights are given for '%s' %s; give one, or one per position along the last dimension",
               weights->dims[0], x->name, mp_rule_shape_text(x->dims, x->rank, text[0]));
    }
    MP_FIT(mp_operator_float(c->op, "delta", 1) > 0, "delta is %g, but it must be over 0",
           mp_operator_float(c->op, "delta", 1));
    return mp_infer_set(c, 0, x->dtype, 0, NULL);
}
