/* fold_reduce.c - values of reductions and running sums. Sums and products of reals are rounded once, at the end. */
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"
#include "estimator/rules/operands/layout.h"

typedef struct reduction {
    const char *kind, *step; /* the function that takes one element in */
    int moved;               /* the operator set from which on the axes are an input */
    bool mean, place;        /* divides by the count; gives the place of the extreme instead of it */
} reduction;

static const reduction reductions[] = {{"ReduceSum", "Add", 13, false, false},    {"ReduceMean", "Add", 18, true, false},
                                       {"ReduceMax", "Max", 18, false, false},    {"ReduceMin", "Min", 18, false, false},
                                       {"ReduceProd", "Mul", 18, false, false},   {"ArgMax", "Greater", INT32_MAX, false, true},
                                       {"ArgMin", "Less", INT32_MAX, false, true}};

/* The axes that are reduced. False: not known. */
static bool reduced_axes(mp_infer *c, const reduction *r, int rank, bool reduced[MP_RANK_MAX])
{
    int64_t single = mp_operator_int(c->op, "axis", 0);
    const int64_t *axes = &single;
    size_t n = 1;
    if (!r->place && mp_moved_integers(c, "axes", r->moved, 1, &axes, &n) != MP_OK) return false;
    if (!axes && c->missing_value >= 0) return false;
    bool all = n == 0 && !mp_operator_int(c->op, "noop_with_empty_axes", 0);
    for (int d = 0; d < rank; d++) reduced[d] = all;
    for (size_t k = 0; k < n; k++) {
        int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
        if (axis < 0 || axis >= rank) return false;
        reduced[axis] = true;
    }
    return true;
}

/* True if element j of x comes before what was found so far, at i: larger or smaller, or the later one of equals. */
static bool takes_over(const mp_binary *f, bool last, mp_dtype dtype, const mp_value *x, int64_t j, int64_t i)
{
    const mp_pairing plain = {0};
    if (x->is_real) return f->reals(&plain, x->f[j], x->f[i]) != 0 || (last && x->f[j] == x->f[i]);
    mp_wide first;
    f->integers(&plain, mp_fold_widen(dtype, x->i[j]), mp_fold_widen(dtype, x->i[i]), &first);
    return first || (last && x->i[j] == x->i[i]);
}

/* One element of x into y[to]; `started`: y[to] has one already. */
static void take_in(const reduction *r, const mp_binary *f, mp_dtype dtype, mp_value *y, int64_t to, bool started,
                    const mp_value *x, int64_t from)
{
    const mp_pairing plain = {0};
    mp_wide sum;
    if (!started) {
        mp_fold_move(y, to, x, from);
    } else if (y->is_real) {
        y->f[to] = f->reals(&plain, y->f[to], x->f[from]);
    } else if (f->integers(&plain, mp_fold_widen(dtype, y->i[to]), mp_fold_widen(dtype, x->i[from]), &sum)) {
        /* a mean divides the exact sum, so it is kept in 64 bits until then */
        y->i[to] = mp_fold_wrap(r->mean ? MP_DTYPE_INT64 : dtype, sum);
    }
}

mp_status mp_fold_reduce(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_tensor *out = mp_infer_out(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    const reduction *r = NULL;
    bool reduced[MP_RANK_MAX] = {false}, last = mp_operator_int(c->op, "select_last_index", 0);
    for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++)
        if (!strcmp(reductions[k].kind, c->op->kind)) r = &reductions[k];
    if (!x || !r || !reduced_axes(c, r, in->rank, reduced)) return MP_OK;
    /* Without elements there is no extreme; sums and products would be 0 and 1, which no model was seen to ask for. */
    if (!x->n || (!r->place && in->dtype != out->dtype)) return MP_OK;
    const mp_binary *f = mp_binary_find(r->step);
    int64_t kept[MP_RANK_MAX], strides[MP_RANK_MAX], count = 1;
    for (int d = 0; d < in->rank; d++) {
        kept[d] = reduced[d] ? 1 : in->dims[d];
        if (reduced[d]) count *= in->dims[d];
    }
    if (mp_product(kept, 0, in->rank) != mp_tensor_elements(out)) return MP_OK;
    mp_value *y, *best; /* best: where the extreme was found, for ArgMax and ArgMin */
    mp_walk walk;
    MP_CHECK(mp_fold_new(c, 0, &y));
    best = mp_value_new(c->model, y->n, false);
    MP_ENSURE(best, c->err, MP_NOMEM, "no memory for the value of '%s'", out->name);
    mp_strides(in->rank, kept, strides);
    mp_walk_start(&walk, in->rank, in->dims);
    for (int d = 0; d < in->rank; d++) walk.stride[0][d] = reduced[d] ? 0 : strides[d];
    for (; walk.k < walk.n; mp_walk_next(&walk)) {
        int64_t to = walk.at[0], position = 0;
        bool started = false;
        for (int d = 0; d < in->rank; d++) {
            if (!reduced[d]) continue;
            started = started || walk.index[d];
            position = walk.index[d];
        }
        if (!r->place) {
            take_in(r, f, in->dtype, y, to, started, x, walk.k);
        } else if (!started || takes_over(f, last, in->dtype, x, walk.k, best->i[to])) {
            best->i[to] = walk.k;
            y->i[to] = position;
        }
    }
    for (int64_t k = 0; k < y->n && !r->place; k++) {
        if (y->is_real)
            y->f[k] = mp_fold_round(out->dtype, r->mean ? y->f[k] / (double)count : y->f[k]);
        else if (r->mean)
            y->i[k] /= count;
    }
    return mp_fold_give(c, y);
}

mp_status mp_fold_cumsum(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0), *along = mp_fold_in(c, 1);
    bool exclusive = mp_operator_int(c->op, "exclusive", 0), reverse = mp_operator_int(c->op, "reverse", 0);
    if (!x || !along || along->n != 1 || along->is_real) return MP_OK;
    int64_t axis = along->i[0];
    if (axis < -in->rank || axis >= in->rank) return MP_OK;
    if (axis < 0) axis += in->rank;
    int64_t size = in->dims[axis], inner = mp_product(in->dims, (int)axis + 1, in->rank),
            outer = mp_product(in->dims, 0, (int)axis);
    const mp_binary *add = mp_binary_find("Add");
    mp_value *y;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (!y->n) outer = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            for (int64_t k = 0; k < size; k++) {
                int64_t at = (o * size + (reverse ? size - 1 - k : k)) * inner + i, before = reverse ? at + inner : at - inner;
                if (k) mp_fold_move(y, at, y, before);
                if (!exclusive)
                    mp_binary_into(add, in->dtype, y, at, x, at);
                else if (k)
                    mp_binary_into(add, in->dtype, y, at, x, before);
            }
    return mp_fold_give(c, y);
}
