/* contraction.c - creates the loops of an Einsum and of its gradients from its equation. */
#include "executor/operators/products/contraction.h"

/* Adds the strides of an array to the loops. role: 0 if the array is the result y of the sum, 1 for a, 2 for b. operand: index
 * of the array in the Einsum equation; the equation's result has the last index. */
static void see(mp_contraction *l, const mp_einsum *e, int operand, int role, const mp_array *a)
{
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != 1) l->stride[role][e->labels[operand][d]] += a->strides[d];
}

static void close_loops(mp_contraction *l, const mp_einsum *e)
{
    l->n_terms = l->n_results = 1;
    for (int k = 0; k < MP_EINSUM_LABELS; k++) {
        l->size[k] = e->size[k] < 0 ? 1 : e->size[k];
        if (l->size[k] == 1) continue;
        if (l->stride[0][k]) {
            l->kept[l->n_kept++] = k;
            l->n_results *= l->size[k];
        } else {
            l->summed[l->n_summed++] = k;
            l->n_terms *= l->size[k];
        }
    }
}

mp_status mp_einsum_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    mp_einsum sum;
    for (int i = 0; i < x->n_in; i++)
        if (!mp_is_real(x->in[i].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(mp_einsum_sums, s, call, err);
    MP_CHECK(mp_einsum_read(&reader, &sum));
    int n = sum.n_operands;
    const mp_array *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    see(&s->sum[0], &sum, n, 0, y);
    for (int i = 0; i < n; i++) see(&s->sum[0], &sum, i, 1 + i, &x->in[i]);
    for (int i = 0; i < n && x->is_backward; i++) {
        see(&s->sum[1 + i], &sum, i, 0, &x->in[i]);
        see(&s->sum[1 + i], &sum, n, 1, y);
        if (n > 1) see(&s->sum[1 + i], &sum, 1 - i, 2, &x->in[1 - i]);
    }
    for (int k = 0; k < 3; k++) close_loops(&s->sum[k], &sum);
    return MP_OK;
}
