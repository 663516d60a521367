/* shapes_normalization.c - shapes of normalizations that give statistics as further outputs; those that do not keep the shape
 * of their input (mp_shape_same). */
#include <inttypes.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* X (N, C, D1..Dn); scale, bias, mean and variance have one element per channel. Before version 9 of the operator, spatial = 0
 * gives them one per element of a sample. A single dimension is N, with one channel. The statistics that come out (up to
 * version 13: mean, variance and their saved copies; from 14 on: the running ones) look like those that go in. */
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
    for (int k = 5; k < c->op->n_in; k++) { /* what is added */
        MP_CHECK(mp_rule_input(c, k, 1, MP_RANK_MAX, &t));
        MP_FIT(mp_same_shape(t, x), "'%s' %s has not the shape of '%s' %s", t->name, mp_rule_shape_text(t->dims, t->rank, own),
               x->name, mp_rule_shape_text(x->dims, x->rank, whole));
    }
    MP_CHECK(mp_infer_set(c, 0, x->dtype, x->rank, x->dims));
    for (int k = 1; k < c->op->n_out; k++) MP_CHECK(mp_infer_set(c, k, mean->dtype, mean->rank, mean->dims));
    return MP_OK;
}

/* Layer and RMS normalization over the dimensions from `axis` on: Y looks like X but has the type of the scale; the statistics
 * have size 1 there and the type that stash_type says. */
mp_status mp_shape_layer_normalization(mp_infer *c)
{
    const mp_tensor *x, *t;
    int axis, rank;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 1, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", -1), x->rank, &axis));
    for (int k = c->op->n_in - 1; k >= 1; k--) { /* bias, then scale */
        char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
        if (k > 1 && !mp_infer_in(c, k)) continue;
        MP_CHECK(mp_rule_input(c, k, 0, x->rank, &t));
        bool fits = mp_rule_broadcast(x->dims, x->rank, t->dims, t->rank, dims, &rank);
        for (int d = 0; d < x->rank; d++) fits = fits && dims[d] == x->dims[d];
        MP_FIT(fits, "'%s' %s does not fit to '%s' %s", t->name, mp_rule_shape_text(t->dims, t->rank, own), x->name,
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

/* Scale and bias have an element per channel, or as before operator set 21 one per group. */
mp_status mp_shape_group_normalization(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *t;
    const int64_t groups = mp_operator_int(c->op, "num_groups", 1);
    for (int k = 1; k < 3; k++) {
        MP_CHECK(mp_rule_input(c, k, 1, 1, &t));
        MP_FIT(t->dims[0] == x->dims[1] || (c->op->version < 21 && t->dims[0] == groups),
               "'%s' has %" PRId64 " elements for %" PRId64 " channels in %" PRId64 " groups", t->name, t->dims[0], x->dims[1],
               groups);
    }
    MP_FIT(mp_infer_in(c, 1)->dims[0] == mp_infer_in(c, 2)->dims[0], "scale and bias differ in length");
    return mp_infer_set(c, 0, x->dtype, x->rank, x->dims);
}
