/* loops.c - sorts dimensions by stride, merges dimensions if all operands allow it, and splits arrays into lines. */
#include "executor/kernel/loops.h"

/* Returns the stride of operand `a` along dimension d of the output, which has rank `rank`; 0 if `a` is broadcast along d. */
static int64_t stride_of(const mp_array *a, int rank, int d)
{
    int own = d - (rank - a->rank);
    return own < 0 || a->dims[own] == 1 ? 0 : a->strides[own];
}

static void swap_dims(mp_loops *x, int a, int b)
{
    int64_t t = x->dims[a];
    x->dims[a] = x->dims[b];
    x->dims[b] = t;
    for (int k = 0; k < x->n; k++) {
        t = x->strides[k][a];
        x->strides[k][a] = x->strides[k][b];
        x->strides[k][b] = t;
    }
}

static void merge(mp_loops *x)
{
    int kept = 0;
    for (int d = 1; d < x->rank; d++) {
        bool merges = true;
        for (int k = 0; k < x->n; k++) merges &= x->strides[k][kept] == x->strides[k][d] * x->dims[d];
        if (merges) {
            x->dims[kept] *= x->dims[d];
        } else {
            kept++;
            x->dims[kept] = x->dims[d];
        }
        for (int k = 0; k < x->n; k++) x->strides[k][kept] = x->strides[k][d];
    }
    x->rank = kept + 1;
}

mp_loops mp_loops_of(const mp_array *const *in, int n_in, const mp_array *out)
{
    mp_loops x = {.n = n_in + 1, .n_elements = mp_array_elements(out)};
    for (int d = 0; d < out->rank; d++) {
        if (out->dims[d] == 1) continue;
        x.dims[x.rank] = out->dims[d];
        x.strides[0][x.rank] = out->strides[d];
        for (int k = 0; k < n_in; k++) x.strides[k + 1][x.rank] = stride_of(in[k], out->rank, d);
        x.rank++;
    }
    /* sorts the dimensions by the output's strides, largest first. Insertion sort is enough for at most a dozen dimensions */
    for (int i = 1; i < x.rank; i++)
        for (int j = i; j > 0 && x.strides[0][j - 1] < x.strides[0][j]; j--) swap_dims(&x, j - 1, j);
    if (x.rank) {
        merge(&x);
    } else {
        x.rank = 1;
        x.dims[0] = 1;
        for (int k = 0; k < x.n; k++) x.strides[k][0] = 1;
    }
    return x;
}

static void put_reduced(mp_sum_loops *x, int64_t dim, int64_t stride)
{
    int n = x->n_reduced;
    if (n && x->reduced_stride[n - 1] == stride * dim) {
        x->reduced[n - 1] *= dim;
        x->reduced_stride[n - 1] = stride;
        return;
    }
    x->reduced[n] = dim;
    x->reduced_stride[n] = stride;
    x->n_reduced++;
}

mp_sum_loops mp_sum_loops_of(const mp_array *from, const mp_array *to)
{
    mp_sum_loops x = {.n_out = 1, .n_terms = 1};
    int order[MP_ARRAY_RANK];
    const int n = mp_array_by_stride(from, order);
    for (int i = 0; i < n; i++) {
        int d = order[i], own = d - (from->rank - to->rank);
        if (own >= 0 && to->dims[own] != 1) {
            x.kept[x.n_kept] = from->dims[d];
            x.kept_stride[x.n_kept] = from->strides[d];
            x.to_stride[x.n_kept++] = to->strides[own];
            x.n_out *= from->dims[d];
        } else {
            put_reduced(&x, from->dims[d], from->strides[d]);
            x.n_terms *= from->dims[d];
        }
    }
    return x;
}

mp_lines mp_lines_of(const mp_array *a, uint32_t line)
{
    mp_lines l = {.n = 1, .length = 1};
    for (int d = 0; d < a->rank; d++) {
        if (line >> d & 1) {
            bool merges = l.n_inner && l.inner_at[l.n_inner - 1] == a->strides[d] * a->dims[d];
            l.length *= a->dims[d];
            if (merges) {
                l.inner[l.n_inner - 1] *= a->dims[d];
                l.inner_at[l.n_inner - 1] = a->strides[d];
            } else {
                l.inner[l.n_inner] = a->dims[d];
                l.inner_at[l.n_inner++] = a->strides[d];
            }
        } else {
            l.n *= a->dims[d];
            l.outer[l.n_outer] = a->dims[d];
            l.outer_dim[l.n_outer] = d;
            l.outer_at[l.n_outer++] = a->strides[d];
        }
    }
    l.contiguous = l.n_inner == 0 || (l.n_inner == 1 && (l.inner_at[0] == 1 || l.length == 1));
    return l;
}

mp_lines mp_softmax_lines(const mp_operands *x)
{
    const int rank = x->in[0].rank;
    /* before operator set 13, a line (the scores that a softmax normalizes together) spans all dimensions from the axis to the
     * last */
    const bool is_old = !x->op->domain[0] && x->op->version < 13;
    int64_t axis = mp_operator_int(x->op, "axis", is_old ? 1 : -1);
    uint32_t line = 0;
    if (axis < 0) axis += rank;
    for (int d = (int)axis; d < (is_old ? rank : axis + 1); d++) line |= 1u << d;
    return mp_lines_of(&x->in[0], line);
}
