/* product_einsum.c - Einstein summation by its definition: every element of the result is a sum over the labels that it lacks.
 *
 * The gradient of an operand is another such sum: dA = sum over the labels A lacks of dY B. O(product of all label sizes).
 */
#include <string.h>

#include "executor/cpu/parallel.h"
#include "executor/cpu/products/products.h"
#include "executor/operators/products/contraction.h"

/* Operands as the equation counts them: 0, 1, and the result behind the operands. */
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

typedef struct job {
    const mp_contraction *l;
    const mp_array *y, *a, *b;
} job;

static float load(const mp_array *x, int64_t at)
{
    return mp_load_float(x->data, x->dtype, at);
}

static void one(void *data, int64_t k)
{
    const job *j = data;
    const mp_contraction *l = j->l;
    int64_t at[3];
    double sum = 0;
    mp_contraction_result(l, k, at);
    for (int64_t t = 0; t < l->n_terms; t++) {
        int64_t a = at[1], b = at[2];
        mp_contraction_term(l, t, &a, &b);
        sum += (double)load(j->a, a) * (j->b ? (double)load(j->b, b) : 1);
    }
    mp_store_float(j->y->data, j->y->dtype, at[0], (float)sum);
}

static void run_loops(const mp_contraction *l, const mp_array *y, const mp_array *a, const mp_array *b)
{
    job j = {l, y, a, b};
    mp_parallel(l->n_results, l->n_terms, one, &j);
}

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_einsum_sums *s = call->state;
    (void)run, (void)err;
    if (!x->is_backward) {
        run_loops(&s->sum[0], &x->out[0], &x->in[0], x->n_in > 1 ? &x->in[1] : NULL);
        return MP_OK;
    }
    for (int i = x->from; i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        memset(x->d_in[i].data, 0, (size_t)mp_array_bytes(&x->d_in[i])); /* off the diagonals */
        run_loops(&s->sum[1 + i], &x->d_in[i], &x->d_out[0], x->n_in > 1 ? &x->in[1 - i] : NULL);
    }
    return MP_OK;
}

mp_status mp_prepare_einsum(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_infer c = {.model = (mp_model *)x->model, .op = (mp_operator *)x->op, .err = err, .missing_value = -1};
    mp_einsum_sums *s;
    mp_einsum sum;
    for (int i = 0; i < x->n_in; i++)
        if (x->in[i].dtype != MP_DTYPE_FLOAT && x->in[i].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run;
    MP_TRY(mp_einsum_read(&c, &sum));
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
done:
    return st;
}
