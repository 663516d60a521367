/* shapes_index.c - shape rules of operators that select elements by index, condition or rank. */
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* Appends dims[from..to) to a shape that has space for three times the maximum rank. */
static void append(int64_t *dims, int *rank, const int64_t *more, int from, int to)
{
    for (int k = from; k < to; k++) dims[(*rank)++] = more[k];
}

mp_status mp_shape_gather(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *indices = mp_infer_in(c, 1);
    int axis, rank = 0;
    int64_t dims[3 * MP_RANK_MAX];
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", 0), x->rank, &axis));
    append(dims, &rank, x->dims, 0, axis);
    append(dims, &rank, indices->dims, 0, indices->rank);
    append(dims, &rank, x->dims, axis + 1, x->rank);
    return mp_infer_set(c, 0, x->dtype, rank, dims);
}

/* Checks the indices of an operator that selects along the attribute's axis of x. They have the rank of x, and are not
 * longer than x along other axes. */
static mp_status check_along_axis(mp_infer *c, const mp_tensor *x, const mp_tensor *indices)
{
    int axis;
    char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", 0), x->rank, &axis));
    MP_FIT(indices->rank == x->rank, "data of %d dimensions do not fit indices of %d dimensions", x->rank, indices->rank);
    for (int d = 0; d < x->rank; d++)
        MP_FIT(d == axis || indices->dims[d] <= x->dims[d], "the indices '%s' %s are larger than '%s' %s along dimension %d",
               indices->name, mp_rule_shape_text(indices->dims, indices->rank, own), x->name,
               mp_rule_shape_text(x->dims, x->rank, whole), d);
    return MP_OK;
}

mp_status mp_shape_gather_elements(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *indices = mp_infer_in(c, 1);
    MP_CHECK(check_along_axis(c, x, indices));
    return mp_infer_set(c, 0, x->dtype, indices->rank, indices->dims);
}

/* Checks that the operand `updates` (input 2) has exactly the dimensions dims[0..rank). */
static mp_status check_updates(mp_infer *c, const int64_t *dims, int rank)
{
    const mp_tensor *updates = mp_infer_in(c, 2);
    char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
    MP_FIT(updates->rank == rank && !memcmp(updates->dims, dims, (size_t)rank * sizeof *dims),
           "the updates '%s' have the shape %s, but they must have %s", updates->name,
           mp_rule_shape_text(updates->dims, updates->rank, own), mp_rule_shape_text(dims, rank, whole));
    return MP_OK;
}

mp_status mp_shape_scatter_elements(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *indices = mp_infer_in(c, 1);
    MP_CHECK(check_along_axis(c, x, indices));
    MP_CHECK(check_updates(c, indices->dims, indices->rank));
    return mp_infer_like(c, 0, x);
}

mp_status mp_shape_scatter_nd(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *indices = mp_infer_in(c, 1);
    int64_t dims[3 * MP_RANK_MAX];
    int rank = 0;
    MP_FIT(indices->rank >= 1 && indices->dims[indices->rank - 1] <= x->rank, "indices do not fit data of %d dimensions",
           x->rank);
    append(dims, &rank, indices->dims, 0, indices->rank - 1);
    append(dims, &rank, x->dims, (int)indices->dims[indices->rank - 1], x->rank);
    MP_CHECK(check_updates(c, dims, rank));
    return mp_infer_like(c, 0, x);
}

/* Shape of ReverseSequence. The operand with lengths states how many elements to reverse, for each index of the batch axis. */
mp_status mp_shape_reverse_sequence(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *lengths = mp_infer_in(c, 1);
    const int64_t batch = mp_operator_int(c->op, "batch_axis", 1), time = mp_operator_int(c->op, "time_axis", 0);
    MP_FIT(batch != time, "batch_axis and time_axis are both %lld", (long long)batch);
    MP_FIT(lengths->dims[0] == x->dims[batch], "%lld lengths are given for %lld sequences", (long long)lengths->dims[0],
           (long long)x->dims[batch]);
    return mp_infer_like(c, 0, x);
}

mp_status mp_shape_gather_nd(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *indices = mp_infer_in(c, 1);
    int64_t batch = mp_operator_int(c->op, "batch_dims", 0), dims[3 * MP_RANK_MAX];
    int rank = 0;
    MP_FIT(indices->rank >= 1 && batch >= 0 && batch < indices->rank && batch <= x->rank &&
               indices->dims[indices->rank - 1] <= x->rank - batch,
           "indices do not fit data of %d dimensions", x->rank);
    for (int d = 0; d < batch; d++) MP_FIT(indices->dims[d] == x->dims[d], "data and indices differ in batch dimension %d", d);
    append(dims, &rank, indices->dims, 0, indices->rank - 1);
    append(dims, &rank, x->dims, (int)(batch + indices->dims[indices->rank - 1]), x->rank);
    return mp_infer_set(c, 0, x->dtype, rank, dims);
}

mp_status mp_shape_compress(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const mp_attribute *axis_attribute = mp_operator_attribute(c->op, "axis");
    const int64_t *condition;
    size_t n;
    int axis = 0, rank = 1;
    int64_t dims[MP_RANK_MAX] = {mp_tensor_elements(x)}, taken = 0;
    MP_CHECK(mp_infer_integers(c, 1, &condition, &n));
    if (!condition) return mp_infer_defer(c, 0, x->dtype);
    if (axis_attribute) {
        MP_CHECK(mp_rule_axis(c, axis_attribute->i, x->rank, &axis));
        rank = x->rank;
        memcpy(dims, x->dims, (size_t)rank * sizeof *dims);
    }
    for (size_t k = 0; k < n && (int64_t)k < dims[axis]; k++) taken += condition[k] != 0;
    dims[axis] = taken;
    return mp_infer_set(c, 0, x->dtype, rank, dims);
}

mp_status mp_shape_non_zero(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const mp_value *v = mp_infer_value(c, 0);
    if (!v) return mp_infer_defer(c, 0, MP_DTYPE_INT64);
    int64_t found = 0;
    for (int64_t k = 0; k < v->n; k++) found += v->is_real ? v->f[k] != 0 : v->i[k] != 0;
    return mp_infer_set(c, 0, MP_DTYPE_INT64, 2, (int64_t[]){x->rank, found});
}

mp_status mp_shape_one_hot(mp_infer *c)
{
    const mp_tensor *indices = mp_infer_in(c, 0);
    mp_dtype dtype = mp_infer_in(c, 2)->dtype;
    const mp_value *depth = mp_infer_value(c, 1);
    int axis, rank = 0;
    int64_t dims[3 * MP_RANK_MAX], classes;
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", -1), indices->rank + 1, &axis));
    MP_FIT(mp_infer_in(c, 2)->dims[0] == 2, "'%s' must contain two values, off and on", mp_infer_in(c, 2)->name);
    if (!depth) return mp_infer_defer(c, 0, dtype);
    MP_FIT(depth->n == 1 && (!depth->is_real || (depth->f[0] >= 0 && depth->f[0] < 1e15)),
           "the depth must be a single number of classes");
    classes = depth->is_real ? (int64_t)depth->f[0] : depth->i[0];
    append(dims, &rank, indices->dims, 0, axis);
    append(dims, &rank, &classes, 0, 1);
    append(dims, &rank, indices->dims, axis, indices->rank);
    return mp_infer_set(c, 0, dtype, rank, dims);
}

/* Shape of Unique. The number of distinct elements is known only at run time. */
mp_status mp_shape_unique(mp_infer *c)
{
    mp_infer_defer(c, 0, mp_infer_in(c, 0)->dtype);
    for (int k = 1; k < c->op->n_out; k++) mp_infer_defer(c, k, MP_DTYPE_INT64);
    c->missing_value = c->op->in[0];
    return MP_OK;
}

mp_status mp_shape_top_k(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    int64_t k = mp_operator_int(c->op, "k", -1), dims[MP_RANK_MAX];
    int axis;
    MP_CHECK(mp_rule_axis(c, mp_operator_int(c->op, "axis", -1), x->rank, &axis));
    if (c->op->version >= 10) {
        const int64_t *list;
        size_t n;
        MP_CHECK(mp_infer_integers(c, 1, &list, &n));
        if (!list && c->missing_value >= 0) {
            mp_infer_defer(c, 0, x->dtype);
            mp_infer_defer(c, 1, MP_DTYPE_INT64);
            return MP_OK;
        }
        k = n == 1 ? list[0] : -1;
    }
    MP_FIT(k >= 0 && k <= x->dims[axis], "k does not fit axis %d of %lld elements", axis, (long long)x->dims[axis]);
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[axis] = k;
    MP_CHECK(mp_infer_set(c, 0, x->dtype, x->rank, dims));
    return mp_infer_set(c, 1, MP_DTYPE_INT64, x->rank, dims);
}
