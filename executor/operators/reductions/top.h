/* top.h - TopK for every backend: the k largest or smallest elements along an axis, in order, and their indices. Among equal
 * elements, the element with the lower index is first, and a NaN is larger than every number, so the result is unique. */
#pragma once

#include "executor/kernel/body.h"

/* The description of a TopK: the state of its calls. */
typedef struct mp_top {
    /* rank: number of dimensions without the axis; dims: their sizes; in, values, indices: their strides in the input and
     * the two outputs */
    int rank;
    int64_t dims[MP_ARRAY_RANK], in[MP_ARRAY_RANK], values[MP_ARRAY_RANK], indices[MP_ARRAY_RANK];
    int64_t n_lines, length, k;
    int64_t in_step, value_step, index_step; /* strides along the axis in input, values and indices */
    bool largest;
    mp_array from, to; /* from: the input; to: the k values of each line; in backward, their gradients */
    int64_t *where;    /* address of the output with the indices */
} mp_top;

/* Makes an mp_top the call's state; the caller sets call->run. MP_UNSUPPORTED: the type is not supported, or the axis is not a
 * dimension; MP_NOMEM. */
mp_status mp_top_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Returns the call's mp_top, completed by the addresses of the current run. */
mp_top mp_top_of(const mp_call *call, const mp_operands *x);

/* One line: its elements, and a heap with the indices of the best k elements so far. The root of the heap is the worst of the
 * best k. */
typedef struct mp_top_line {
    const void *data;
    mp_dtype dtype;
    int64_t at, step;
    int64_t *heap, heap_step;
    bool largest;
} mp_top_line;

/* Returns line k (elements along the axis); *value_at becomes the offset of its first value. */
MP_INLINE mp_top_line mp_top_line_of(const mp_top *s, int64_t k, int64_t *value_at)
{
    mp_top_line l = {s->from.data, s->from.dtype, 0, s->in_step, s->where, s->index_step, s->largest};
    *value_at = 0;
    for (int d = s->rank - 1; d >= 0; d--) { /* one loop computes all three offsets, so that the GPU keeps them in registers */
        const int64_t i = k % s->dims[d];
        k /= s->dims[d];
        l.at += i * s->in[d];
        *value_at += i * s->values[d];
        l.heap += i * s->indices[d];
    }
    return l;
}

/* True if element i precedes element j in the result. */
MP_INLINE bool mp_top_before(const mp_top_line *l, int64_t i, int64_t j)
{
    int64_t a = l->at + i * l->step, b = l->at + j * l->step;
    if (l->dtype == MP_DTYPE_FLOAT || l->dtype == MP_DTYPE_BFLOAT16 || l->dtype == MP_DTYPE_DOUBLE) {
        double v = mp_load_real(l->data, l->dtype, a), w = mp_load_real(l->data, l->dtype, b);
        if (v < w || (w != w && v == v)) return !l->largest;
        if (v > w || (v != v && w == w)) return l->largest;
    } else {
        int64_t v = mp_load_whole(l->data, l->dtype, a), w = mp_load_whole(l->data, l->dtype, b);
        if (v != w) return (l->dtype == MP_DTYPE_UINT64 ? (uint64_t)v > (uint64_t)w : v > w) == l->largest;
    }
    return i < j;
}

/* Inserts `item` at position `root` of a heap of n, and moves it below all elements that come later in the result. */
MP_INLINE void mp_top_sink(const mp_top_line *l, int64_t n, int64_t root, int64_t item)
{
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= n) break;
        if (child + 1 < n && mp_top_before(l, l->heap[child * l->heap_step], l->heap[(child + 1) * l->heap_step])) child++;
        if (mp_top_before(l, l->heap[child * l->heap_step], item)) break;
        l->heap[root * l->heap_step] = l->heap[child * l->heap_step];
        root = child;
    }
    l->heap[root * l->heap_step] = item;
}

/* Returns the index of the first element from i on that may be better than the root of the heap, the worst of the best k
 * elements so far; n: there is none. */
MP_INLINE int64_t mp_top_candidate(const mp_top_line *l, int64_t i, int64_t n)
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

/* Fills the heap with the indices of the best k of n elements, and sorts them in the order of the result. O(n log k). */
MP_INLINE void mp_top_choose(const mp_top_line *l, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < k; i++) l->heap[i * l->heap_step] = i;
    for (int64_t root = k / 2 - 1; root >= 0; root--) mp_top_sink(l, k, root, l->heap[root * l->heap_step]);
    for (int64_t i = k; k > 0 && (i = mp_top_candidate(l, i, n)) < n; i++)
        if (mp_top_before(l, i, l->heap[0])) mp_top_sink(l, k, 0, i);
    for (int64_t last = k - 1; last > 0; last--) {
        int64_t worst = l->heap[0], item = l->heap[last * l->heap_step];
        mp_top_sink(l, last, 0, item);
        l->heap[last * l->heap_step] = worst;
    }
}

/* Copies one element between arrays of one type. */
MP_INLINE void mp_top_copy(const void *from, int64_t from_at, void *to, int64_t to_at, mp_dtype dtype)
{
    if (dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16 || dtype == MP_DTYPE_DOUBLE)
        mp_store_real(to, dtype, to_at, mp_load_real(from, dtype, from_at));
    else
        mp_store_whole(to, dtype, to_at, mp_load_whole(from, dtype, from_at));
}

/* Computes the values and indices of line k (elements along the axis). The output of indices is used as the heap, so no
 * workspace is needed. */
MP_INLINE void mp_top_item(const mp_top *s, int64_t k)
{
    int64_t value_at;
    const mp_top_line l = mp_top_line_of(s, k, &value_at);
    mp_top_choose(&l, s->length, s->k);
    for (int64_t i = 0; i < s->k; i++)
        mp_top_copy(l.data, l.at + l.heap[i * l.heap_step] * l.step, s->to.data, value_at + i * s->value_step, l.dtype);
}
