/* copies_cpu.c - operators that move elements (copies.h) on the CPU. */
#include "executor/operators/copies/copies.h"

#include "executor/cpu/base/families.h"
#include "executor/operators/copies/strided_copy_cpu.h"
#include "executor/operators/elementwise/elementwise_cpu.h"

MP_VECTOR static void add_rows(const double *parameters, int64_t n, const float *const *in, float *out)
{
    const float *a = in[0], *b = in[1];
    (void)parameters;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = a[k] + b[k];
}

static void add(const mp_array *from, const mp_array *to)
{
    mp_elementwise(add_rows, NULL, (const mp_array *const[]){to, from}, 2, to);
}

static void sum(const mp_array *from, const mp_array *to, bool add, void *workspace)
{
    (void)workspace;
    mp_cpu_sum_to(from, to, 1, add);
}

static mp_status done(mp_error *err)
{
    (void)err;
    return MP_OK;
}

/* Adding bfloat16 across a transposition would convert element by element: copied and then added it is much faster. */
static void plan(const mp_operands *x, const mp_copies *m, mp_call *call)
{
    call->adds = x->adds;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_box *box = &m->parts[k].box;
        bool meets = box->rank == 0 || m->overlaps || mp_copies_repeats(&m->parts[k]);
        for (int d = 0; d < box->rank; d++) meets |= box->from[d] == box->to[d] && box->from[d] == 1;
        if (!meets && mp_operands_in(x, m->parts[k].in)->dtype == MP_DTYPE_BFLOAT16) call->adds &= ~MP_BIT(m->parts[k].in);
    }
}

/* Boxes that are filled have reading strides of 0. */
static const mp_copier copier = {mp_box_copy, mp_box_copy, mp_cpu_array_zero, add, sum, done, plan};

MP_COPIES_PREPARE

const mp_kernel mp_cpu_copies[] = {MP_COPIES(MP_COPIES_ROW){0}};
