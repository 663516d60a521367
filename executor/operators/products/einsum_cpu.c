/* einsum_cpu.c - Einstein summation by its definition: every element of the result is a sum over the labels that do not occur
 * in the result.
 *
 * The gradient of an operand is also a sum of products: dA = sum of dY B over the labels that do not occur in A. O(product of
 * all label sizes). */
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/products/contraction.h"

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

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_einsum_sums *s = call->state;
    (void)err;
    if (!x->is_backward) {
        run_loops(&s->sum[0], &x->out[0], &x->in[0], x->n_in > 1 ? &x->in[1] : NULL);
        return MP_OK;
    }
    for (int i = x->from; i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        memset(x->d_in[i].data, 0,
               (size_t)mp_array_bytes(
                   &x->d_in[i])); /* if a label occurs twice in the operand, elements off the diagonal have a zero gradient */
        run_loops(&s->sum[1 + i], &x->d_in[i], &x->d_out[0], x->n_in > 1 ? &x->in[1 - i] : NULL);
    }
    return MP_OK;
}

MP_PREPARE_TO_RUN(prepare, mp_einsum_prepare, run)

const mp_kernel mp_cpu_einsums[] = {{"Einsum", "", prepare, prepare}, {0}};
