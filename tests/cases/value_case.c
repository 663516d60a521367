/* value_case.c - runs rows of operands and expected values through the kernels, in every layout and type. */
#include "tests/cases/value_case.h"
#include "tests/cases/test.h"

void value_count_up(kernel_run *r)
{
    const mp_operands *x = &r->forward;
    for (int i = 0, floats = 0; i < x->n_in; i++) {
        if (!x->in[i].dtype || !mp_dtype_is_float(x->in[i].dtype)) continue;
        bool stated = r->model->tensors[x->op->in[i]].value;
        for (int64_t k = 0; !stated && k < mp_array_elements(&x->in[i]); k++)
            kernel_set(&x->in[i], k, (double)(k + 100 * floats + 1));
        floats++;
    }
}

static void check_value(const value_case *v, unsigned flags)
{
    kernel_case c = {
        .kind = v->kind, .version = v->version, .inputs = v->inputs, .attributes = v->attributes, .n_outputs = v->n_outputs};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, flags);
    value_count_up(r);
    kernel_forward(r);
    const mp_array *y = &r->forward.out[v->output];
    assert_int_equal(mp_array_elements(y), v->n);
    for (int k = 0; k < v->n; k++)
        if (kernel_get(y, k) != v->expected[k])
            fail_msg("%s(%s)(%s), flags %u: element %d of output %d is %g and should be %g", v->kind, v->inputs, v->attributes,
                     flags, k, v->output, kernel_get(y, k), v->expected[k]);
    kernel_end(r);
}

void value_check_table(const value_case *table, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (unsigned flags = 0; flags < 4; flags++) check_value(&table[k], flags);
}

void value_check_overwriting(const kernel_case *c)
{
    kernel_run *r = kernel_begin(c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    double *before = NULL;
    for (int round = 0; round < 2; round++) {
        int64_t n = 0;
        for (int i = 0; i < r->backward.n_in; i++) {
            const mp_array *d = &r->backward.d_in[i];
            for (int64_t k = 0; d->dtype && k < mp_array_elements(d); k++) kernel_set(d, k, round ? 1000 : 0), n++;
        }
        memset(r->backward.workspace, round ? 0x44 : 0, (size_t)r->backward_call.workspace_bytes);
        kernel_backward(r);
        if (!before) before = calloc((size_t)n + 1, sizeof *before);
        n = 0;
        for (int i = 0; i < r->backward.n_in; i++) {
            const mp_array *d = &r->backward.d_in[i];
            for (int64_t k = 0; d->dtype && k < mp_array_elements(d); k++, n++) {
                if (!round)
                    before[n] = kernel_get(d, k);
                else if (before[n] != kernel_get(d, k))
                    fail_msg("%s(%s)(%s): what was there before is in gradient %d", c->kind, c->inputs, c->attributes, (int)n);
            }
        }
    }
    free(before);
    kernel_end(r);
}
