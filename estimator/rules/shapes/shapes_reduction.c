/* shapes_reduction.c - shapes of reductions over axes: Reduce* and ArgMax, ArgMin. The axes are an attribute in older versions
 * (ReduceSum before 13, the others before 18) and the second input in newer ones; without any, all dimensions are reduced, or
 * none with noop_with_empty_axes. */
#include <inttypes.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* Sets output 0 to the shape of x with the marked dimensions reduced. */
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
        if (!axes) {
            mp_infer_defer(c, 0, x->dtype);
            return MP_OK;
        }
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
