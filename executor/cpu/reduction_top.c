/* reduction_top.c - TopK: the k largest or smallest along an axis, in order, and where they were; of equals the first comes
 * first, and a NaN is larger than everything.
 *
 * The list of indices is itself the heap in which the k best are kept, so no other room is needed.
 */
#include <math.h>

#include "executor/cpu/elementwise.h"
#include "executor/cpu/reduction.h"

typedef struct state {
    int rank;                                                                                      /* of the other dimensions */
    int64_t dims[MP_ARRAY_RANK], in[MP_ARRAY_RANK], values[MP_ARRAY_RANK], indices[MP_ARRAY_RANK]; /* their strides */
    int64_t n_lines, length, k;
    int64_t in_step, value_step, index_step; /* along the axis */
    bool largest;
} state;

typedef struct task {
    const state *s;
    const mp_array *in, *values, *indices;
} task;

/* One line: its elements, and the heap, whose root is the worst of those kept. */
typedef struct line {
    const void *data;
    mp_dtype dtype;
    int64_t at, step;
    int64_t *heap, heap_step;
    bool largest;
} line;

/* Whether element i comes before element j in the result. */
static bool before(const line *l, int64_t i, int64_t j)
{
    int64_t a = l->at + i * l->step, b = l->at + j * l->step;
    if (mp_dtype_is_float(l->dtype)) {
        double v = l->dtype == MP_DTYPE_DOUBLE ? ((const double *)l->data)[a] : (double)mp_load_float(l->data, l->dtype, a);
        double w = l->dtype == MP_DTYPE_DOUBLE ? ((const double *)l->data)[b] : (double)mp_load_float(l->data, l->dtype, b);
        if (v < w || (isnan(w) && !isnan(v))) return !l->largest;
        if (v > w || (isnan(v) && !isnan(w))) return l->largest;
    } else {
        int64_t v = mp_load_whole(l->data, l->dtype, a), w = mp_load_whole(l->data, l->dtype, b);
        if (v != w) return (l->dtype == MP_DTYPE_UINT64 ? (uint64_t)v > (uint64_t)w : v > w) == l->largest;
    }
    return i < j;
}

/* Puts `item` at the root of a heap of n and lets it sink below those that come later in the result. */
static void sink(const line *l, int64_t n, int64_t root, int64_t item)
{
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= n) break;
        if (child + 1 < n && before(l, l->heap[child * l->heap_step], l->heap[(child + 1) * l->heap_step])) child++;
        if (before(l, l->heap[child * l->heap_step], item)) break;
        l->heap[root * l->heap_step] = l->heap[child * l->heap_step];
        root = child;
    }
    l->heap[root * l->heap_step] = item;
}

/* The first element from i on that may come before the worst of those kept; n: none. */
static int64_t candidate(const line *l, int64_t i, int64_t n)
{
    if (l->dtype != MP_DTYPE_FLOAT) return i;
    const float *x = (const float *)l->data + l->at;
    const float worst = x[l->heap[0] * l->step];
    if (l->largest)
        while (i < n && x[i * l->step] <= worst) i++;
    else
        while (i < n && x[i * l->step] >= worst) i++;
    return i;
}

static void choose(const line *l, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < k; i++) l->heap[i * l->heap_step] = i;
    for (int64_t root = k / 2 - 1; root >= 0; root--) sink(l, k, root, l->heap[root * l->heap_step]);
    for (int64_t i = k; k > 0 && (i = candidate(l, i, n)) < n; i++)
        if (before(l, i, l->heap[0])) sink(l, k, 0, i);
    for (int64_t last = k - 1; last > 0; last--) {
        int64_t worst = l->heap[0], item = l->heap[last * l->heap_step];
        sink(l, last, 0, item);
        l->heap[last * l->heap_step] = worst;
    }
}

static void locate(const state *s, int64_t k, int64_t *in, int64_t *values, int64_t *indices)
{
    *in = *values = *indices = 0;
    for (int d = s->rank - 1; d >= 0; d--) {
        int64_t i = k % s->dims[d];
        k /= s->dims[d];
        *in += i * s->in[d];
        *values += i * s->values[d];
        *indices += i * s->indices[d];
    }
}

static void choose_line(void *data, int64_t k)
{
    const task *t = data;
    const state *s = t->s;
    int64_t in, values, indices;
    locate(s, k, &in, &values, &indices);
    line l = {t->in->data, t->in->dtype, in, s->in_step, (int64_t *)t->indices->data + indices, s->index_step, s->largest};
    choose(&l, s->length, s->k);
    for (int64_t i = 0; i < s->k; i++) {
        int64_t from = in + l.heap[i * s->index_step] * s->in_step, to = values + i * s->value_step;
        if (t->in->dtype == MP_DTYPE_DOUBLE)
            ((double *)t->values->data)[to] = ((const double *)t->in->data)[from];
        else if (mp_dtype_is_float(t->in->dtype))
            mp_store_float(t->values->data, t->values->dtype, to, mp_load_float(t->in->data, t->in->dtype, from));
        else
            mp_store_whole(t->values->data, t->values->dtype, to, mp_load_whole(t->in->data, t->in->dtype, from));
    }
}

/* in: its gradient; values: theirs. */
static void spread_line(void *data, int64_t k)
{
    const task *t = data;
    const state *s = t->s;
    int64_t in, values, indices;
    locate(s, k, &in, &values, &indices);
    const int64_t *index = (const int64_t *)t->indices->data + indices;
    for (int64_t i = 0; i < s->length; i++) mp_store_float(t->in->data, t->in->dtype, in + i * s->in_step, 0);
    for (int64_t i = 0; i < s->k; i++)
        mp_store_float(t->in->data, t->in->dtype, in + index[i * s->index_step] * s->in_step,
                       mp_load_float(t->values->data, t->values->dtype, values + i * s->value_step));
}

static mp_status run_top(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    task t = {s, x->is_backward ? &x->d_in[0] : &x->in[0], x->is_backward ? &x->d_out[0] : &x->out[0], &x->out[1]};
    (void)run, (void)err;
    mp_parallel(s->n_lines, 4 * s->length, x->is_backward ? spread_line : choose_line, &t);
    return MP_OK;
}

mp_status mp_prepare_top_k(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    state *s;
    const mp_array *in = x->is_backward ? &x->d_in[0] : &x->in[0], *values = x->is_backward ? &x->d_out[0] : &x->out[0];
    const mp_array *indices = &x->out[1];
    int64_t axis = mp_operator_int(x->op, "axis", -1);
    if (!mp_elementwise_knows(in->dtype) || !values->dtype || !indices->dtype) return MP_NO_KERNEL(x, err, "its type");
    if (x->is_backward && in->dtype != MP_DTYPE_FLOAT && in->dtype != MP_DTYPE_BFLOAT16)
        return MP_NO_KERNEL(x, err, "its type");
    if (axis < 0) axis += in->rank;
    if (axis < 0 || axis >= in->rank) return MP_NO_KERNEL(x, err, "an axis that is not there");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_top;
    s->n_lines = 1;
    for (int d = 0; d < in->rank; d++) {
        if (d == axis) continue;
        s->dims[s->rank] = in->dims[d];
        s->in[s->rank] = in->strides[d];
        s->values[s->rank] = values->strides[d];
        s->indices[s->rank++] = indices->strides[d];
        s->n_lines *= in->dims[d];
    }
    s->length = in->dims[axis];
    s->k = values->dims[axis];
    s->in_step = in->strides[axis];
    s->value_step = values->strides[axis];
    s->index_step = indices->strides[axis];
    s->largest = mp_operator_int(x->op, "largest", 1) != 0;
done:
    return st;
}
