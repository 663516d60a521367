/* shapes_layout.c - shape rules of operators that rearrange, repeat, split or join elements without arithmetic. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/layout.h"

/* Computes the shape of a Reshape. A size of 0 keeps the input's size (unless allowzero is set); one size may be -1, which
 * means all remaining elements. */
static mp_status reshape(mp_infer *c, const int64_t *target, size_t n)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    bool keep_zero = mp_operator_int(c->op, "allowzero", 0);
    int64_t dims[MP_RANK_MAX], left = mp_tensor_elements(x), fixed = 1;
    int open = -1;
    MP_FIT(n <= MP_RANK_MAX, "a shape of %zu dimensions is not supported", n);
    for (int d = 0; d < (int)n; d++) {
        dims[d] = target[d];
        if (dims[d] == 0 && !keep_zero) {
            MP_FIT(d < x->rank, "the new shape keeps dimension %d, but the input has only %d", d, x->rank);
            dims[d] = x->dims[d];
        }
        MP_FIT(dims[d] >= -1 && (dims[d] != -1 || open < 0), "dimension %d may not be %" PRId64, d, dims[d]);
        if (dims[d] == -1)
            open = d;
        else
            MP_FIT(mp_multiply(fixed, dims[d], &fixed), "more elements than can be counted");
    }
    if (open >= 0) {
        MP_FIT(fixed > 0 && left % fixed == 0, "%" PRId64 " elements are not divisible by %" PRId64, left, fixed);
        dims[open] = left / fixed;
    } else {
        MP_FIT(fixed == left, "%" PRId64 " elements cannot become %" PRId64, left, fixed);
    }
    return mp_infer_set(c, 0, x->dtype, (int)n, dims);
}

mp_status mp_shape_reshape(mp_infer *c)
{
    const int64_t *target;
    size_t n;
    MP_CHECK(mp_moved_integers(c, "shape", 5, 1, &target, &n));
    MP_FIT(target || c->missing_value >= 0, "the new shape is missing");
    return target ? reshape(c, target, n) : mp_infer_defer(c, 0, mp_infer_in(c, 0)->dtype);
}

mp_status mp_shape_flatten(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    int64_t axis = mp_operator_int(c->op, "axis", 1);
    MP_FIT(axis >= -x->rank && axis <= x->rank, "there is no axis %" PRId64 " in %d dimensions", axis, x->rank);
    int cut = (int)(axis < 0 ? axis + x->rank : axis);
    return mp_infer_set(c, 0, x->dtype, 2, (int64_t[]){mp_product(x->dims, 0, cut), mp_product(x->dims, cut, x->rank)});
}

/* Marks the given axes of a tensor with `rank` dimensions. An axis must not occur twice. */
static mp_status mark_axes(mp_infer *c, const int64_t *axes, size_t n, int rank, bool marked[2 * MP_RANK_MAX])
{
    int axis;
    for (size_t k = 0; k < n; k++) {
        MP_CHECK(mp_rule_axis(c, axes[k], rank, &axis));
        MP_FIT(!marked[axis], "axis %d is named twice", axis);
        marked[axis] = true;
    }
    return MP_OK;
}

mp_status mp_shape_squeeze(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const int64_t *axes;
    size_t n;
    bool gone[2 * MP_RANK_MAX] = {false};
    int64_t dims[MP_RANK_MAX];
    int rank = 0;
    MP_CHECK(mp_moved_integers(c, "axes", 13, 1, &axes, &n));
    if (!axes && c->missing_value >= 0) return mp_infer_defer(c, 0, x->dtype);
    MP_CHECK(mark_axes(c, axes, n, x->rank, gone));
    for (int d = 0; d < x->rank; d++) {
        if (!axes) gone[d] = x->dims[d] == 1;
        MP_FIT(!gone[d] || x->dims[d] == 1, "dimension %d has size %" PRId64 " instead of 1", d, x->dims[d]);
        if (!gone[d]) dims[rank++] = x->dims[d];
    }
    return mp_infer_set(c, 0, x->dtype, rank, dims);
}

mp_status mp_shape_unsqueeze(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const int64_t *axes;
    size_t n;
    bool added[2 * MP_RANK_MAX] = {false};
    int64_t dims[2 * MP_RANK_MAX];
    MP_CHECK(mp_moved_integers(c, "axes", 13, 1, &axes, &n));
    if (!axes && c->missing_value >= 0) return mp_infer_defer(c, 0, x->dtype);
    MP_FIT(axes && n <= MP_RANK_MAX, "the axes are missing or too many");
    int rank = x->rank + (int)n;
    MP_CHECK(mark_axes(c, axes, n, rank, added));
    for (int d = 0, from = 0; d < rank; d++) dims[d] = added[d] ? 1 : x->dims[from++];
    return mp_infer_set(c, 0, x->dtype, rank, dims);
}

mp_status mp_shape_transpose(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    int permutation[MP_RANK_MAX];
    int64_t dims[MP_RANK_MAX];
    MP_CHECK(mp_permutation_read(c, permutation));
    for (int d = 0; d < x->rank; d++) dims[d] = x->dims[permutation[d]];
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

mp_status mp_shape_concat(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    int64_t dims[MP_RANK_MAX];
    int axis;
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", 1), x->rank, &axis));
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int k = 1; k < c->op->n_in; k++) {
        const mp_tensor *more = mp_infer_in(c, k);
        MP_FIT(more->rank == x->rank, "'%s' has %d dimensions, '%s' %d", x->name, x->rank, more->name, more->rank);
        for (int d = 0; d < x->rank; d++)
            MP_FIT(d == axis || more->dims[d] == x->dims[d], "'%s' and '%s' differ in dimension %d", x->name, more->name, d);
        MP_FIT(mp_add(dims[axis], more->dims[axis], &dims[axis]), "more elements than can be counted");
    }
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

mp_status mp_shape_split(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const int64_t *sizes;
    size_t n;
    int64_t dims[MP_RANK_MAX], parts = c->op->n_out;
    int axis;
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", 0), x->rank, &axis));
    MP_CHECK(mp_moved_integers(c, "split", 13, 1, &sizes, &n));
    if (!sizes && c->missing_value >= 0) {
        for (int k = 0; k < parts; k++) mp_infer_defer(c, k, x->dtype);
        return MP_OK;
    }
    MP_FIT(!sizes || (int64_t)n == parts, "%zu sizes for %" PRId64 " outputs", n, parts);
    /* Sizes of the outputs of a Split that states no sizes: all outputs are equal. Since operator set 18 the Split states the
     * number of outputs, and the last output may be smaller. */
    MP_FIT(sizes || c->op->version >= 18 || x->dims[axis] % parts == 0, "axis %d of %" PRId64 " elements in %" PRId64 " parts",
           axis, x->dims[axis], parts);
    int64_t left = x->dims[axis], part = left / parts + (left % parts != 0);
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int k = 0; k < parts; k++) {
        dims[axis] = sizes ? sizes[k] : left < part ? left : part;
        MP_FIT(dims[axis] >= 0 && dims[axis] <= left, "the sizes do not fit axis %d of %" PRId64 " elements", axis,
               x->dims[axis]);
        left -= dims[axis];
        MP_CHECK(mp_infer_set(c, k, x->dtype, x->rank, dims));
    }
    MP_FIT(left == 0, "the sizes do not fill axis %d of %" PRId64 " elements", axis, x->dims[axis]);
    return MP_OK;
}

mp_status mp_shape_slice(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    mp_slice slice;
    bool known;
    MP_CHECK(mp_slice_read(c, &slice, &known));
    return known ? mp_infer_set(c, 0, x->dtype, x->rank, slice.size) : mp_infer_defer(c, 0, x->dtype);
}

mp_status mp_shape_expand(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const int64_t *target;
    size_t n;
    int64_t dims[MP_RANK_MAX];
    int rank;
    MP_CHECK(mp_infer_integers(c, 1, &target, &n));
    if (!target) return mp_infer_defer(c, 0, x->dtype);
    MP_FIT(n <= MP_RANK_MAX && mp_rule_broadcast(x->dims, x->rank, target, (int)n, dims, &rank),
           "the new shape does not broadcast with the shape of '%s'", x->name);
    return mp_infer_set(c, 0, x->dtype, rank, dims);
}

mp_status mp_shape_tile(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const int64_t *repeats, *axis_list;
    size_t n, n_axis;
    int64_t dims[MP_RANK_MAX];
    int axis;
    MP_CHECK(mp_infer_integers(c, 1, &repeats, &n));
    MP_CHECK(mp_infer_integers(c, 2, &axis_list, &n_axis));
    if (c->missing_value >= 0) return mp_infer_defer(c, 0, x->dtype);
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    if (c->op->version < 6) {
        MP_FIT(n == 1 && n_axis == 1, "one axis and its number of repetitions are needed");
        MP_CHECK(mp_rule_axis(c, axis_list[0], x->rank, &axis));
        MP_FIT(mp_multiply(dims[axis], repeats[0], &dims[axis]), "%" PRId64 " repetitions", repeats[0]);
    } else {
        MP_FIT((int)n == x->rank, "%zu repetitions are given for %d dimensions", n, x->rank);
        for (int d = 0; d < x->rank; d++)
            MP_FIT(mp_multiply(dims[d], repeats[d], &dims[d]), "%" PRId64 " repetitions of dimension %d", repeats[d], d);
    }
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

/* Shape of Pad. The list of pads has two halves: elements before each axis, then elements after each axis. Negative pads
 * remove elements. */
static mp_status pad(mp_infer *c, const int64_t *pads, size_t n, const int64_t *axes, size_t n_axes)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    bool padded[2 * MP_RANK_MAX] = {false};
    int64_t dims[MP_RANK_MAX];
    int axis;
    if (!axes) n_axes = (size_t)x->rank;
    MP_FIT(n_axes <= MP_RANK_MAX && n == 2 * n_axes, "%zu pads are given for %zu axes", n, n_axes);
    if (axes) MP_CHECK(mark_axes(c, axes, n_axes, x->rank, padded));
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (size_t k = 0; k < n_axes; k++) {
        MP_CHECK(mp_rule_axis(c, axes ? axes[k] : (int64_t)k, x->rank, &axis));
        __int128 size = (__int128)dims[axis] + pads[k] + pads[n_axes + k];
        MP_FIT(size >= 0 && size < INT64_MAX, "the pads leave axis %d empty, or too large", axis);
        dims[axis] = (int64_t)size;
    }
    return mp_infer_set(c, 0, x->dtype, x->rank, dims);
}

mp_status mp_shape_pad(mp_infer *c)
{
    const int64_t *pads, *axes = NULL;
    size_t n, n_axes = 0;
    MP_CHECK(mp_moved_integers(c, c->op->version < 2 ? "paddings" : "pads", 11, 1, &pads, &n));
    if (c->op->version >= 18) MP_CHECK(mp_infer_integers(c, 3, &axes, &n_axes));
    if (c->missing_value >= 0) return mp_infer_defer(c, 0, mp_infer_in(c, 0)->dtype);
    MP_FIT(pads, "the pads are missing");
    return pad(c, pads, n, axes, n_axes);
}

/* DepthToSpace rearranges channels into spatial blocks of b x b elements, SpaceToDepth does the reverse. X is (N, C, H, W). */
mp_status mp_shape_blocks(mp_infer *c)
{
    const mp_tensor *x;
    const bool into_space = !strcmp(c->op->kind, "DepthToSpace");
    int64_t b = mp_operator_int(c->op, "blocksize", 0), area;
    MP_CHECK(mp_rule_input(c, 0, 4, 4, &x));
    MP_FIT(b >= 1 && mp_multiply(b, b, &area), "a block size of %" PRId64, b);
    const int64_t *d = x->dims;
    MP_FIT(into_space ? d[1] % area == 0 : d[2] % b == 0 && d[3] % b == 0, "the input cannot be split into blocks of %" PRId64,
           b);
    int64_t dims[4] = {d[0], into_space ? d[1] / area : d[1], d[2] / b, d[3] / b};
    MP_FIT(into_space ? mp_multiply(d[2], b, &dims[2]) && mp_multiply(d[3], b, &dims[3]) : mp_multiply(d[1], area, &dims[1]),
           "more elements than can be counted");
    return mp_infer_set(c, 0, x->dtype, 4, dims);
}
