/* fold_index.c - values of operators that pick or place elements by index or condition. An index outside the tensor leaves the
 * value unknown. */
#include <math.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

/* The index at element k, counted from the front; false when it is outside [-size, size). */
static bool index_at(const mp_value *indices, int64_t k, int64_t size, int64_t *index)
{
    int64_t i = indices->i[k];
    if (i < -size || i >= size) return false;
    *index = i < 0 ? i + size : i;
    return true;
}

/* The indices in input 1, which must be integers; NULL otherwise. */
static const mp_value *indices_in(mp_infer *c)
{
    return mp_dtype_is_integer(mp_infer_in(c, 1)->dtype) ? mp_fold_in(c, 1) : NULL;
}

static int64_t axis_of(const mp_operator *op, int rank)
{
    int64_t axis = mp_operator_int(op, "axis", 0);
    return axis < 0 ? axis + rank : axis;
}

mp_status mp_fold_gather(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0), *indices = indices_in(c);
    if (!x || !indices) return MP_OK;
    int axis = (int)axis_of(c->op, in->rank);
    int64_t outer = mp_product(in->dims, 0, axis), size = in->dims[axis], inner = mp_product(in->dims, axis + 1, in->rank);
    mp_value *y;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (!y->n) outer = 0;
    for (int64_t o = 0, to = 0; o < outer; o++)
        for (int64_t k = 0; k < indices->n; k++) {
            int64_t index;
            if (!index_at(indices, k, size, &index)) return MP_OK;
            for (int64_t i = 0; i < inner; i++) mp_fold_move(y, to++, x, (o * size + index) * inner + i);
        }
    return mp_fold_give(c, y);
}

mp_status mp_fold_gather_elements(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0), *where = mp_infer_in(c, 1);
    const mp_value *x = mp_fold_in(c, 0), *indices = indices_in(c);
    if (!x || !indices) return MP_OK;
    int axis = (int)axis_of(c->op, in->rank);
    int64_t strides[MP_RANK_MAX], index;
    mp_value *y;
    mp_walk walk;
    for (int d = 0; d < in->rank; d++)
        if (d != axis && where->dims[d] > in->dims[d]) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    mp_strides(in->rank, in->dims, strides);
    mp_walk_start(&walk, where->rank, where->dims);
    memcpy(walk.stride[0], strides, (size_t)in->rank * sizeof *strides);
    walk.stride[0][axis] = 0;
    for (; walk.k < walk.n; mp_walk_next(&walk)) {
        if (!index_at(indices, walk.k, in->dims[axis], &index)) return MP_OK;
        mp_fold_move(y, walk.k, x, walk.at[0] + index * strides[axis]);
    }
    return mp_fold_give(c, y);
}

/* Indices, a depth and the values (off, on): what repeat_interleave with a computed count is exported as. An index outside
 * [-depth, depth) gives a row of off values. */
mp_status mp_fold_one_hot(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0), *pair = mp_infer_in(c, 2);
    const mp_value *indices = mp_fold_in(c, 0), *values = mp_fold_in(c, 2);
    const mp_tensor *out = mp_infer_out(c, 0);
    if (!indices || !values || values->n != 2 || pair->dtype != out->dtype) return MP_OK;
    int64_t axis = mp_operator_int(c->op, "axis", -1);
    if (axis < 0) axis += out->rank;
    int64_t depth = out->dims[axis], inner = mp_product(out->dims, (int)axis + 1, out->rank), index;
    mp_value *y;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (int64_t k = 0; k < y->n; k++) mp_fold_move(y, k, values, 0);
    for (int64_t k = 0; k < indices->n && depth > 0; k++) {
        /* indices may be reals, of which the whole part counts */
        double whole = trunc(mp_fold_real(in->dtype, indices, k));
        if (!(whole >= -(double)depth && whole < (double)depth)) continue;
        index = (int64_t)whole < 0 ? (int64_t)whole + depth : (int64_t)whole;
        mp_fold_move(y, (k / inner * depth + index) * inner + k % inner, values, 1);
    }
    return mp_fold_give(c, y);
}

/* The place in a tensor that the k-th tuple of `length` indices names, from dimension `first` on. False: outside. */
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

mp_status mp_fold_gather_nd(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0), *where = mp_infer_in(c, 1);
    const mp_value *x = mp_fold_in(c, 0), *indices = indices_in(c);
    if (!x || !indices) return MP_OK;
    int batch = (int)mp_operator_int(c->op, "batch_dims", 0), length = (int)where->dims[where->rank - 1];
    int64_t batches = mp_product(in->dims, 0, batch), tuples = mp_product(where->dims, batch, where->rank - 1),
            inner = mp_product(in->dims, batch + length, in->rank), one = mp_product(in->dims, batch, in->rank), place;
    mp_value *y;
    for (int d = 0; d < batch; d++)
        if (where->dims[d] != in->dims[d]) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (!y->n) batches = 0;
    for (int64_t b = 0, to = 0; b < batches; b++)
        for (int64_t k = 0; k < tuples; k++) {
            if (!place_of(in, indices, b * tuples + k, batch, length, &place)) return MP_OK;
            for (int64_t i = 0; i < inner; i++) mp_fold_move(y, to++, x, b * one + place + i);
        }
    return mp_fold_give(c, y);
}

/* Scatter: what happens where an update meets an element. */
static bool reduction_of(const mp_operator *op, const mp_binary **f)
{
    static const char *const names[][2] = {{"add", "Add"}, {"mul", "Mul"}, {"max", "Max"}, {"min", "Min"}};
    const char *reduction = mp_operator_text(op, "reduction", "none");
    *f = NULL;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(names[k][0], reduction)) *f = mp_binary_find(names[k][1]);
    return *f || !strcmp(reduction, "none");
}

typedef struct scatter {
    const mp_tensor *in, *where, *updates;
    const mp_value *x, *indices, *u;
    const mp_binary *reduction; /* NULL: the update takes the place */
    mp_value *y;                /* starts as a copy of x */
} scatter;

/* *known false: nothing to fold. */
static mp_status scatter_start(mp_infer *c, scatter *s, bool *known)
{
    *known = false;
    s->in = mp_infer_in(c, 0);
    s->where = mp_infer_in(c, 1);
    s->updates = mp_infer_in(c, 2);
    s->x = mp_fold_in(c, 0);
    s->indices = indices_in(c);
    s->u = mp_fold_in(c, 2);
    if (!s->x || !s->indices || !s->u || s->in->dtype != s->updates->dtype || !reduction_of(c->op, &s->reduction)) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &s->y));
    for (int64_t k = 0; k < s->x->n; k++) mp_fold_move(s->y, k, s->x, k);
    *known = true;
    return MP_OK;
}

static bool scatter_one(scatter *s, int64_t place, int64_t update)
{
    if (s->reduction) return mp_binary_into(s->reduction, s->in->dtype, s->y, place, s->u, update);
    mp_fold_move(s->y, place, s->u, update);
    return true;
}

mp_status mp_fold_scatter_elements(mp_infer *c)
{
    scatter s;
    bool known;
    int64_t strides[MP_RANK_MAX], index;
    mp_walk walk;
    MP_CHECK(scatter_start(c, &s, &known));
    if (!known || s.where->rank != s.in->rank || s.u->n != s.indices->n) return MP_OK;
    int64_t axis = axis_of(c->op, s.in->rank);
    if (axis < 0 || axis >= s.in->rank) return MP_OK;
    for (int d = 0; d < s.in->rank; d++)
        if (d != axis && s.where->dims[d] > s.in->dims[d]) return MP_OK;
    mp_strides(s.in->rank, s.in->dims, strides);
    mp_walk_start(&walk, s.where->rank, s.where->dims);
    memcpy(walk.stride[0], strides, (size_t)s.in->rank * sizeof *strides);
    walk.stride[0][axis] = 0;
    for (; walk.k < walk.n; mp_walk_next(&walk))
        if (!index_at(s.indices, walk.k, s.in->dims[axis], &index) ||
            !scatter_one(&s, walk.at[0] + index * strides[axis], walk.k))
            return MP_OK;
    return mp_fold_give(c, s.y);
}

mp_status mp_fold_scatter_nd(mp_infer *c)
{
    scatter s;
    bool known;
    int64_t place;
    MP_CHECK(scatter_start(c, &s, &known));
    if (!known || s.where->rank < 1 || s.where->dims[s.where->rank - 1] > s.in->rank) return MP_OK;
    int length = (int)s.where->dims[s.where->rank - 1];
    int64_t tuples = mp_product(s.where->dims, 0, s.where->rank - 1), inner = mp_product(s.in->dims, length, s.in->rank);
    if (!s.u->n) tuples = 0;
    if (s.u->n && s.u->n / (inner ? inner : 1) != tuples) return MP_OK;
    for (int64_t k = 0; k < tuples; k++) {
        if (!place_of(s.in, s.indices, k, 0, length, &place)) return MP_OK;
        for (int64_t i = 0; i < inner; i++)
            if (!scatter_one(&s, place + i, k * inner + i)) return MP_OK;
    }
    return mp_fold_give(c, s.y);
}

mp_status mp_fold_compress(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0), *condition = mp_fold_in(c, 1);
    bool flat = !mp_operator_attribute(c->op, "axis");
    mp_value *y;
    if (!x || !condition || mp_infer_in(c, 1)->dtype != MP_DTYPE_BOOL) return MP_OK;
    int axis = flat ? 0 : (int)axis_of(c->op, in->rank);
    int64_t outer = flat ? 1 : mp_product(in->dims, 0, axis), size = flat ? x->n : in->dims[axis],
            inner = flat ? 1 : mp_product(in->dims, axis + 1, in->rank), to = 0;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (!y->n) outer = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < size && k < condition->n; k++)
            for (int64_t i = 0; condition->i[k] && i < inner; i++) mp_fold_move(y, to++, x, (o * size + k) * inner + i);
    return mp_fold_give(c, y);
}

mp_status mp_fold_non_zero(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    const mp_tensor *out = mp_infer_out(c, 0);
    int64_t found = 0;
    mp_value *y;
    mp_walk walk;
    if (!x || out->rank != 2 || out->dims[0] != in->rank) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (mp_walk_start(&walk, in->rank, in->dims); walk.k < walk.n; mp_walk_next(&walk)) {
        if (x->is_real ? x->f[walk.k] == 0 : x->i[walk.k] == 0) continue;
        for (int d = 0; d < in->rank; d++) y->i[d * out->dims[1] + found] = walk.index[d];
        found++;
    }
    return mp_fold_give(c, y);
}
