/* fold_reduce.c - fold rules of reductions and cumulative sums. Sums and products of reals are rounded once, at the end. */
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"
#include "estimator/rules/operands/layout.h"

typedef struct reduction {
    const char *kind, *step; /* step: the function that combines the result so far with one more element */
    int moved;               /* version of the operator set from which on the axes are an input */
    bool mean,
        place; /* mean: divide the sum by the number of elements. place: return the index of the extreme instead of its value */
} reduction;

static const reduction reductions[] = {{"ReduceSum", "Add", 13, false, false},    {"ReduceMean", "Add", 18, true, false},
                                       {"ReduceMax", "Max", 18, false, false},    {"ReduceMin", "Min", 18, false, false},
                                       {"ReduceProd", "Mul", 18, false, false},   {"ArgMax", "Greater", INT32_MAX, false, true},
                                       {"ArgMin", "Less", INT32_MAX, false, true}};

/* Finds the axes that are reduced. Returns false if they are unknown. */
static bool reduced_axes(const mp_fold *f, const reduction *r, bool reduced[MP_RANK_MAX])
{
    const int rank = f->in->rank;
    int64_t single = mp_operator_int(f->c->op, "axis", 0);
    const int64_t *axes = &single;
    size_t n = 1;
    if (!r->place && mp_moved_integers(f->c, "axes", r->moved, 1, &axes, &n) != MP_OK) return false;
    if (!axes && f->c->missing_value >= 0) return false;
    const bool all = n == 0 && !mp_operator_int(f->c->op, "noop_with_empty_axes", 0);
    for (int d = 0; d < rank; d++) reduced[d] = all;
    for (size_t k = 0; k < n; k++) {
        const int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
        if (axis < 0 || axis >= rank) return false;
        reduced[axis] = true;
    }
    return true;
}

/* True if element j of x replaces the current extreme i: it is more extreme, or it is equal and `last` is set. */
static bool takes_over(const mp_binary *step, bool last, mp_dtype dtype, const mp_value *x, int64_t j, int64_t i)
{
    const mp_pairing plain = {0};
    if (x->is_real) return step->reals(&plain, x->f[j], x->f[i]) != 0 || (last && x->f[j] == x->f[i]);
    mp_wide first;
    step->integers(&plain, mp_fold_widen(dtype, x->i[j]), mp_fold_widen(dtype, x->i[i]), &first);
    return first || (last && x->i[j] == x->i[i]);
}

/* Combines element x[from] into y[to]. */
static void take_in(const mp_fold *f, const reduction *r, const mp_binary *step, int64_t to, int64_t from)
{
    const mp_pairing plain = {0};
    const mp_dtype dtype = f->in->dtype;
    mp_wide sum;
    if (f->y->is_real)
        f->y->f[to] = step->reals(&plain, f->y->f[to], f->x->f[from]);
    else if (step->integers(&plain, mp_fold_widen(dtype, f->y->i[to]), mp_fold_widen(dtype, f->x->i[from]), &sum))
        /* for a mean, the exact sum is stored in 64 bits and divided at the end */
        f->y->i[to] = mp_fold_wrap(r->mean ? MP_DTYPE_INT64 : dtype, sum);
}

bool mp_fold_reduce(const mp_fold *f)
{
    const mp_tensor *in = f->in;
    const reduction *r = NULL;
    bool reduced[MP_RANK_MAX] = {false}, last = mp_operator_int(f->c->op, "select_last_index", 0);
    for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++)
        if (!strcmp(reductions[k].kind, f->c->op->kind)) r = &reductions[k];
    if (!r || !reduced_axes(f, r, reduced)) return false;
    /* A maximum or minimum of no elements does not exist. The empty sum 0 and the empty product 1 exist, but are not folded,
     * because no known model needs them. */
    if (!f->x->n || (!r->place && in->dtype != f->out->dtype)) return false;
    const mp_binary *step = mp_binary_find(r->step);
    int64_t kept[MP_RANK_MAX], strides[MP_RANK_MAX], count = 1;
    for (int d = 0; d < in->rank; d++) {
        kept[d] = reduced[d] ? 1 : in->dims[d];
        if (reduced[d]) count *= in->dims[d];
    }
    if (mp_product(kept, 0, in->rank) != f->y->n) return false;
    mp_walk walk;
    mp_walk_start(&walk, in->rank, in->dims);
    mp_strides(in->rank, kept, walk.stride[0]);
    mp_strides(in->rank, in->dims, strides);
    for (int d = 0; d < in->rank; d++)
        if (reduced[d]) walk.stride[0][d] = 0;
    for (; walk.k < walk.n; mp_walk_next(&walk)) {
        const int64_t to = walk.at[0];
        int64_t position = 0, stride = 0; /* for ArgMax and ArgMin: position and stride along the reduced axis */
        bool started = false;
        for (int d = 0; d < in->rank; d++) {
            if (!reduced[d]) continue;
            started |= walk.index[d] > 0;
            position = walk.index[d];
            stride = strides[d];
        }
        if (!r->place && started)
            take_in(f, r, step, to, walk.k);
        else if (!r->place)
            mp_fold_move(f->y, to, f->x, walk.k);
        else if (!started || takes_over(step, last, in->dtype, f->x, walk.k, walk.k - (position - f->y->i[to]) * stride))
            f->y->i[to] = position;
    }
    for (int64_t k = 0; k < f->y->n && !r->place; k++) {
        if (f->y->is_real)
            f->y->f[k] = mp_fold_round(f->out->dtype, r->mean ? f->y->f[k] / (double)count : f->y->f[k]);
        else if (r->mean)
            f->y->i[k] /= count;
    }
    return true;
}

bool mp_fold_cumsum(const mp_fold *f)
{
    const mp_tensor *in = f->in;
    const bool exclusive = mp_operator_int(f->c->op, "exclusive", 0), reverse = mp_operator_int(f->c->op, "reverse", 0);
    int64_t axis = mp_fold_in(f->c, 1)->i[0];
    if (axis < -in->rank || axis >= in->rank) return false;
    if (axis < 0) axis += in->rank;
    int64_t size = in->dims[axis], inner = mp_product(in->dims, (int)axis + 1, in->rank),
            outer = mp_product(in->dims, 0, (int)axis);
    const mp_binary *add = mp_binary_find("Add");
    if (!f->y->n) outer = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            for (int64_t k = 0; k < size; k++) {
                int64_t at = (o * size + (reverse ? size - 1 - k : k)) * inner + i, before = reverse ? at + inner : at - inner;
                if (k) mp_fold_move(f->y, at, f->y, before);
                if (!exclusive)
                    mp_binary_into(add, in->dtype, f->y, at, f->x, at);
                else if (k)
                    mp_binary_into(add, in->dtype, f->y, at, f->x, before);
            }
    return true;
}
