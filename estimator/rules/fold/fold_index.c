/* fold_index.c - fold rules of operators that select or place elements by index or condition. If an index is outside of the
 * tensor, the output value stays unknown. */
#include <math.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

/* Reads element k of `indices` as an index into a dimension of `size` elements. A negative index counts from the end. Returns
 * false if the index is outside [-size, size). */
static bool index_at(const mp_value *indices, int64_t k, int64_t size, int64_t *index)
{
    int64_t i = indices->i[k];
    if (i < -size || i >= size) return false;
    *index = i < 0 ? i + size : i;
    return true;
}

static int axis_of(const mp_fold *f)
{
    const int64_t axis = mp_operator_int(f->c->op, "axis", 0);
    return (int)(axis < 0 ? axis + f->in->rank : axis);
}

bool mp_fold_gather(const mp_fold *f)
{
    const mp_value *indices = mp_fold_in(f->c, 1);
    const mp_tensor *in = f->in;
    const int axis = axis_of(f);
    int64_t outer = mp_product(in->dims, 0, axis), size = in->dims[axis], inner = mp_product(in->dims, axis + 1, in->rank),
            index;
    if (!f->y->n) outer = 0;
    for (int64_t o = 0, to = 0; o < outer; o++)
        for (int64_t k = 0; k < indices->n; k++) {
            if (!index_at(indices, k, size, &index)) return false;
            for (int64_t i = 0; i < inner; i++) mp_fold_move(f->y, to++, f->x, (o * size + index) * inner + i);
        }
    return true;
}

/* Starts an iteration over the indices in input 1. Operand 0 of the iteration is the element of input 0 at the same
 * position, but with index 0 along the axis. *step is the stride of input 0 along the axis. */
static mp_walk walk_along(const mp_fold *f, int axis, int64_t *step)
{
    mp_walk walk;
    mp_walk_start(&walk, mp_infer_in(f->c, 1)->rank, mp_infer_in(f->c, 1)->dims);
    mp_strides(f->in->rank, f->in->dims, walk.stride[0]);
    *step = walk.stride[0][axis];
    walk.stride[0][axis] = 0;
    return walk;
}

bool mp_fold_gather_elements(const mp_fold *f)
{
    const mp_value *indices = mp_fold_in(f->c, 1);
    const int axis = axis_of(f);
    int64_t step, index;
    for (mp_walk walk = walk_along(f, axis, &step); walk.k < walk.n; mp_walk_next(&walk)) {
        if (!index_at(indices, walk.k, f->in->dims[axis], &index)) return false;
        mp_fold_move(f->y, walk.k, f->x, walk.at[0] + index * step);
    }
    return true;
}

/* Folds OneHot(indices, depth, (off, on)). Exporters use it for repeat_interleave with a computed count. For an index
 * outside [-depth, depth), all elements get the off value. */
bool mp_fold_one_hot(const mp_fold *f)
{
    const mp_value *values = mp_fold_in(f->c, 2);
    int64_t axis = mp_operator_int(f->c->op, "axis", -1);
    if (axis < 0) axis += f->out->rank;
    const int64_t depth = f->out->dims[axis], inner = mp_product(f->out->dims, (int)axis + 1, f->out->rank);
    for (int64_t k = 0; k < f->y->n; k++) mp_fold_move(f->y, k, values, 0);
    for (int64_t k = 0; k < f->x->n && depth > 0; k++) {
        /* OneHot permits floating-point indices; their integer part is used */
        const double whole = trunc(mp_fold_real(f->in->dtype, f->x, k));
        if (!(whole >= -(double)depth && whole < (double)depth)) continue;
        const int64_t index = (int64_t)whole < 0 ? (int64_t)whole + depth : (int64_t)whole;
        mp_fold_move(f->y, (k / inner * depth + index) * inner + k % inner, values, 1);
    }
    return true;
}

/* Computes the position of the element that the k-th tuple of `length` indices selects. The indices refer to the dimensions
 * from `first` on. Returns false if the position is outside of the tensor. */
static bool place_of(const mp_tensor *t, const mp_value *indices, int64_t k, int first, int length, int64_t *place)
{
    int64_t strides[MP_RANK_MAX], index;
    mp_strides(t->rank, t->dims, strides);
    *place = 0;
    for (int d = 0; d < length; d++) {
        if (!index_at(indices, k * length + d, t->dims[first + d], &index)) return false;
        *place += index * strides[first + d];
    }
    return true;
}

bool mp_fold_gather_nd(const mp_fold *f)
{
    const mp_tensor *in = f->in, *where = mp_infer_in(f->c, 1);
    const mp_value *indices = mp_fold_in(f->c, 1);
    int batch = (int)mp_operator_int(f->c->op, "batch_dims", 0), length = (int)where->dims[where->rank - 1];
    int64_t batches = mp_product(in->dims, 0, batch), tuples = mp_product(where->dims, batch, where->rank - 1),
            inner = mp_product(in->dims, batch + length, in->rank), one = mp_product(in->dims, batch, in->rank), place;
    if (!f->y->n) batches = 0;
    for (int64_t b = 0, to = 0; b < batches; b++)
        for (int64_t k = 0; k < tuples; k++) {
            if (!place_of(in, indices, b * tuples + k, batch, length, &place)) return false;
            for (int64_t i = 0; i < inner; i++) mp_fold_move(f->y, to++, f->x, b * one + place + i);
        }
    return true;
}

/* The state of folding a Scatter operator: its indices, its updates, and the function that combines an update with an
 * element. */
typedef struct scatter {
    const mp_fold *f;
    const mp_value *indices, *updates;
    const mp_binary *reduction; /* function that combines an update with the element; NULL: the update replaces the element */
} scatter;

/* Starts a scatter by copying the input to the output. Returns false if the attribute `reduction` is unknown. */
static bool scatter_start(const mp_fold *f, scatter *s)
{
    static const char *const names[][2] = {{"add", "Add"}, {"mul", "Mul"}, {"max", "Max"}, {"min", "Min"}};
    const char *reduction = mp_operator_text(f->c->op, "reduction", "none");
    *s = (scatter){.f = f, .indices = mp_fold_in(f->c, 1), .updates = mp_fold_in(f->c, 2)};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(names[k][0], reduction)) s->reduction = mp_binary_find(names[k][1]);
    for (int64_t k = 0; k < f->x->n; k++) mp_fold_move(f->y, k, f->x, k);
    return s->reduction || !strcmp(reduction, "none");
}

static bool scatter_one(const scatter *s, int64_t place, int64_t update)
{
    if (s->reduction) return mp_binary_into(s->reduction, s->f->in->dtype, s->f->y, place, s->updates, update);
    mp_fold_move(s->f->y, place, s->updates, update);
    return true;
}

bool mp_fold_scatter_elements(const mp_fold *f)
{
    scatter s;
    const int axis = axis_of(f);
    int64_t step, index;
    if (!scatter_start(f, &s)) return false;
    for (mp_walk walk = walk_along(f, axis, &step); walk.k < walk.n; mp_walk_next(&walk))
        if (!index_at(s.indices, walk.k, f->in->dims[axis], &index) || !scatter_one(&s, walk.at[0] + index * step, walk.k))
            return false;
    return true;
}

bool mp_fold_scatter_nd(const mp_fold *f)
{
    scatter s;
    const mp_tensor *where = mp_infer_in(f->c, 1);
    const int length = (int)where->dims[where->rank - 1];
    int64_t tuples = mp_product(where->dims, 0, where->rank - 1), inner = mp_product(f->in->dims, length, f->in->rank), place;
    if (!scatter_start(f, &s)) return false;
    if (!s.updates->n) tuples = 0;
    for (int64_t k = 0; k < tuples; k++) {
        if (!place_of(f->in, s.indices, k, 0, length, &place)) return false;
        for (int64_t i = 0; i < inner; i++)
            if (!scatter_one(&s, place + i, k * inner + i)) return false;
    }
    return true;
}

bool mp_fold_compress(const mp_fold *f)
{
    const mp_value *condition = mp_fold_in(f->c, 1);
    const bool flat = !mp_operator_attribute(f->c->op, "axis");
    const int axis = flat ? 0 : axis_of(f);
    int64_t outer = flat ? 1 : mp_product(f->in->dims, 0, axis), size = flat ? f->x->n : f->in->dims[axis],
            inner = flat ? 1 : mp_product(f->in->dims, axis + 1, f->in->rank), to = 0;
    if (!f->y->n) outer = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < size && k < condition->n; k++)
            for (int64_t i = 0; condition->i[k] && i < inner; i++) mp_fold_move(f->y, to++, f->x, (o * size + k) * inner + i);
    return true;
}

bool mp_fold_non_zero(const mp_fold *f)
{
    int64_t found = 0;
    mp_walk walk;
    for (mp_walk_start(&walk, f->in->rank, f->in->dims); walk.k < walk.n; mp_walk_next(&walk)) {
        if (f->x->is_real ? f->x->f[walk.k] == 0 : f->x->i[walk.k] == 0) continue;
        for (int d = 0; d < f->in->rank; d++) f->y->i[d * f->out->dims[1] + found] = walk.index[d];
        found++;
    }
    return true;
}
