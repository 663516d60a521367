/* layout.c - reads permutations, slices, pads and axes. Depending on the operator-set version, they are attributes or
 * inputs. */
#include "estimator/rules/operands/layout.h"

#include "estimator/model/shape_rule.h"

mp_status mp_moved_integers(mp_infer *c, const char *name, int moved, int k, const int64_t **list, size_t *n)
{
    if (c->op->version >= moved) return mp_infer_integers(c, k, list, n);
    *list = mp_operator_ints(c->op, name, n);
    return MP_OK;
}

mp_status mp_permutation_read(mp_infer *c, int permutation[MP_RANK_MAX])
{
    int rank = mp_infer_in(c, 0)->rank, from[MP_RANK_MAX];
    bool taken[MP_RANK_MAX] = {false};
    size_t n;
    const int64_t *perm = mp_operator_ints(c->op, "perm", &n);
    MP_FIT(!perm || (int)n == rank, "a permutation of %zu dimensions does not fit %d dimensions", n, rank);
    for (int d = 0; d < rank; d++) {
        from[d] = rank - 1 - d;
        if (perm) MP_CHECK(mp_rule_axis(c, perm[d], rank, &from[d]));
        MP_FIT(!taken[from[d]], "dimension %d is named twice", from[d]);
        taken[from[d]] = true;
    }
    for (int d = 0; d < rank; d++) permutation[d] = from[d];
    return MP_OK;
}

bool mp_permutation_moves_ones(const mp_model *model, const mp_operator *op)
{
    const mp_tensor *x = mp_operator_in(model, op, 0);
    size_t n;
    const int64_t *order = mp_operator_ints(op, "perm", &n);
    int64_t last = -1;
    for (int d = 0; d < x->rank; d++) {
        const int64_t from = order ? order[d] : x->rank - 1 - d;
        if (x->dims[from] == 1) continue;
        if (from < last) return false;
        last = from;
    }
    return true;
}

/* Converts a bound of a slice to a position: a negative bound counts from the end; the result is clamped to [low, high]. */
static int64_t cut_bound(int64_t bound, int64_t size, int64_t low, int64_t high)
{
    if (bound < 0) bound += size;
    return bound < low ? low : bound > high ? high : bound;
}

/* Computes the slice along one axis of `size` elements, like Python's range(size)[from:to:step]. */
static void slice_axis(mp_slice *slice, int axis, int64_t size, int64_t from, int64_t to, int64_t step)
{
    int64_t start, end, n = 0;
    if (step == INT64_MIN) step++; /* a larger step selects the same elements; the limit ensures that -step does not overflow */
    if (step > 0) {
        start = cut_bound(from, size, 0, size);
        end = cut_bound(to, size, 0, size);
        if (end > start) n = 1 + (end - start - 1) / step;
    } else {
        start = cut_bound(from, size, -1, size - 1);
        end = cut_bound(to, size, -1, size - 1);
        if (start > end) n = 1 + (start - end - 1) / -step;
    }
    slice->start[axis] = start;
    slice->step[axis] = step;
    slice->size[axis] = n;
}

mp_status mp_slice_read(mp_infer *c, mp_slice *slice, bool *known)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    const int64_t *starts, *ends, *axes, *steps = NULL;
    size_t n, n_ends, n_axes, n_steps = 0;
    bool cut[MP_RANK_MAX] = {false};
    MP_CHECK(mp_moved_integers(c, "starts", 10, 1, &starts, &n));
    MP_CHECK(mp_moved_integers(c, "ends", 10, 2, &ends, &n_ends));
    MP_CHECK(mp_moved_integers(c, "axes", 10, 3, &axes, &n_axes));
    if (c->op->version >= 10) MP_CHECK(mp_infer_integers(c, 4, &steps, &n_steps));
    *known = c->missing_value < 0;
    if (!*known) return MP_OK;
    MP_FIT(starts && ends && n == n_ends && (!axes || n_axes == n) && (!steps || n_steps == n) && n <= (size_t)x->rank,
           "the starts, ends, axes and steps do not fit together");
    for (int d = 0; d < x->rank; d++) slice_axis(slice, d, x->dims[d], 0, x->dims[d], 1);
    for (size_t k = 0; k < n; k++) {
        int axis;
        MP_CHECK(mp_rule_axis(c, axes ? axes[k] : (int64_t)k, x->rank, &axis));
        MP_FIT(!cut[axis], "axis %d is named twice", axis);
        MP_FIT(!steps || steps[k], "axis %d has a step of 0", axis);
        slice_axis(slice, axis, x->dims[axis], starts[k], ends[k], steps ? steps[k] : 1);
        cut[axis] = true;
    }
    return MP_OK;
}
