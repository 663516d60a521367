/* shapes_resize.c - shapes of Resize and of its predecessor Upsample: each chosen axis is multiplied by a scale, or gets a
 * given size.
 *
 *     Upsample 1: height_scale, width_scale; 7: scales attribute; 9: X, scales
 *     Resize 10: X, scales; 11 on: X, roi, scales, sizes (exactly one of the last two is given); 18 on: axes,
 *     keep_aspect_ratio_policy
 *
 * Factors are float32, and so are the products: 10 x 0.7f is 7, though 0.7f is less than 0.7. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* Input indices of the operands of Resize and Upsample; -1: the operator has no such input. */
typedef struct layout {
    int roi, scales, sizes;
} layout;

/* True if an optional input is present: neither omitted nor an empty tensor. */
static bool is_given(mp_infer *c, int k)
{
    const mp_tensor *t = k < 0 ? NULL : mp_infer_in(c, k);
    return t && !(t->rank == 1 && t->dims[0] == 0);
}

/* Computes the size of a scaled axis, floor(size * scale). */
static mp_status scaled(const mp_infer *c, int64_t size, double factor, int64_t *out)
{
    float product = floorf((float)size * (float)factor);
    MP_FIT(product >= 0 && product < 0x1p62f, "a factor of %g gives no valid size", factor);
    *out = (int64_t)product;
    return MP_OK;
}

static mp_status resize_by_factors(mp_infer *c, int input, const mp_tensor *x, const int *axes, int n, int roi, int64_t *dims)
{
    const mp_value *factors = mp_infer_value(c, input), *corners = NULL;
    if (!factors) return MP_OK;
    MP_FIT(factors->n == n && factors->is_real, "%" PRId64 " factors are given for %d axes", factors->n, n);
    /* tf_crop_and_resize scales only a region of interest: starts of all axes, then ends, as fractions of the size */
    if (!strcmp(mp_operator_text(c->op, "coordinate_transformation_mode", ""), "tf_crop_and_resize")) {
        MP_FIT(is_given(c, roi), "tf_crop_and_resize needs a region of interest");
        corners = mp_infer_value(c, roi);
        if (!corners) return MP_OK;
        MP_FIT(corners->n == 2 * n && corners->is_real, "the region of interest has %" PRId64 " corners for %d axes",
               corners->n, n);
    }
    for (int k = 0; k < n; k++) {
        MP_FIT(factors->f[k] > 0, "a factor of %g gives no valid size", factors->f[k]);
        double part = corners ? (float)corners->f[n + k] - (float)corners->f[k] : 1;
        MP_CHECK(scaled(c, x->dims[axes[k]], part * factors->f[k], &dims[axes[k]]));
    }
    return MP_OK;
}

static mp_status resize_to_sizes(mp_infer *c, int input, const mp_tensor *x, const int *axes, int n, int64_t *dims)
{
    const mp_value *sizes = mp_infer_value(c, input);
    if (!sizes) return MP_OK;
    MP_FIT(sizes->n == n && !sizes->is_real, "%" PRId64 " sizes are given for %d axes", sizes->n, n);
    const char *policy = mp_operator_text(c->op, "keep_aspect_ratio_policy", "stretch");
    bool smallest = !strcmp(policy, "not_larger"), largest = !strcmp(policy, "not_smaller");
    MP_FIT(smallest || largest || !strcmp(policy, "stretch"), "keep_aspect_ratio_policy '%s' is unknown", policy);
    double factor = 0;
    for (int k = 0; k < n; k++) {
        MP_FIT(sizes->i[k] >= 0, "a size may not be %" PRId64, sizes->i[k]);
        MP_FIT(x->dims[axes[k]] > 0 || !(smallest || largest), "an empty axis has no aspect ratio");
        if (!smallest && !largest) {
            dims[axes[k]] = sizes->i[k];
            continue;
        }
        double f = (double)sizes->i[k] / (double)x->dims[axes[k]];
        if (k == 0 || (smallest ? f < factor : f > factor)) factor = f;
    }
    for (int k = 0; k < n && (smallest || largest); k++) {
        double size = floor(factor * (double)x->dims[axes[k]] +
                            0.5); /* rounds to the nearest integer; halves are rounded up, not to even */
        MP_FIT(size < 0x1p62, "the sizes are too large");
        dims[axes[k]] = (int64_t)size;
    }
    return MP_OK;
}

/* Reads the axes to which the scales or sizes apply: the attribute `axes`, or by default all axes. */
static mp_status read_axes(mp_infer *c, int rank, int *axes, int *n)
{
    size_t given;
    bool seen[MP_RANK_MAX] = {false};
    const int64_t *ints = mp_operator_ints(c->op, "axes", &given);
    *n = ints ? (int)given : rank;
    MP_FIT(!ints || given <= (size_t)rank, "%zu axes are given for %d dimensions", given, rank);
    for (int k = 0; k < *n; k++) {
        MP_CHECK(mp_rule_axis(c, ints ? ints[k] : k, rank, &axes[k]));
        MP_FIT(!seen[axes[k]], "axis %d is given twice", axes[k]);
        seen[axes[k]] = true;
    }
    return MP_OK;
}

/* Computes the shape for early versions of Upsample, whose attributes state the scales of single dimensions of X. */
static mp_status upsample_by_attributes(mp_infer *c, const mp_tensor *x, int64_t *dims)
{
    const mp_attribute *scales = mp_operator_attribute(c->op, "scales");
    if (scales && scales->kind == MP_ATTRIBUTE_FLOATS) {
        MP_FIT(scales->n == (size_t)x->rank, "%zu factors are given for %d axes", scales->n, x->rank);
        for (int k = 0; k < x->rank; k++) MP_CHECK(scaled(c, x->dims[k], scales->floats[k], &dims[k]));
    } else {
        MP_FIT(x->rank == 4 && mp_operator_attribute(c->op, "height_scale") && mp_operator_attribute(c->op, "width_scale"),
               "neither scales nor sizes are given");
        MP_CHECK(scaled(c, x->dims[2], mp_operator_float(c->op, "height_scale", 1), &dims[2]));
        MP_CHECK(scaled(c, x->dims[3], mp_operator_float(c->op, "width_scale", 1), &dims[3]));
    }
    return MP_OK;
}

mp_status mp_shape_resize(mp_infer *c)
{
    const mp_tensor *x;
    int axes[MP_RANK_MAX], n;
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_rule_input(c, 0, 1, MP_RANK_MAX, &x));
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    MP_CHECK(read_axes(c, x->rank, axes, &n));
    const layout inputs = c->op->version >= 11 ? (layout){1, 2, 3} : (layout){-1, 1, -1};
    bool by_factors = is_given(c, inputs.scales), to_sizes = is_given(c, inputs.sizes);
    MP_FIT(!by_factors || !to_sizes, "both scales and sizes are given");
    if (by_factors)
        MP_CHECK(resize_by_factors(c, inputs.scales, x, axes, n, inputs.roi, dims));
    else if (to_sizes)
        MP_CHECK(resize_to_sizes(c, inputs.sizes, x, axes, n, dims));
    else
        MP_CHECK(upsample_by_attributes(c, x, dims));
    return c->missing_value < 0 ? mp_infer_set(c, 0, x->dtype, x->rank, dims) : mp_infer_defer(c, 0, x->dtype);
}
