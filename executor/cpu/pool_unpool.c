/* pool_unpool.c - MaxUnpool: values go back to where MaxPool's indices say they were; everything else is zero. Indices count
 * the elements of the output row-major. */
#include <string.h>

#include "executor/cpu/parallel.h"
#include "executor/cpu/pools.h"

static int64_t place(const mp_array *a, int64_t k)
{
    int64_t at = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        at += k % a->dims[d] * a->strides[d];
        k /= a->dims[d];
    }
    return at;
}

static float load(const mp_array *a, int64_t at)
{
    float room;
    return *mp_floats(a->data, a->dtype, at, 1, &room);
}
static void store(const mp_array *a, int64_t at, float value)
{
    if (a->dtype == MP_DTYPE_FLOAT)
        ((float *)a->data)[at] = value;
    else
        mp_floats_done(a->data, a->dtype, at, 1, &value);
}

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *index = &x->in[1], *small = x->is_backward ? &x->d_in[0] : &x->in[0];
    const mp_array *large = x->is_backward ? &x->d_out[0] : &x->out[0];
    int64_t n = mp_array_elements(small), limit = mp_array_elements(large);
    (void)call, (void)run;
    if (!x->is_backward) memset(large->data, 0, (size_t)mp_array_bytes(large));
    for (int64_t k = 0; k < n; k++) {
        int64_t to = ((const int64_t *)index->data)[place(index, k)];
        if (to < 0 || to >= limit)
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): index %lld is not one of %lld elements", x->op->kind, x->op->name,
                           (long long)to, (long long)limit);
        if (x->is_backward)
            store(small, place(small, k), load(large, place(large, to)));
        else
            store(large, place(large, to), load(small, place(small, k)));
    }
    return MP_OK;
}

mp_status mp_prepare_max_unpool(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    call->run = run;
    return MP_OK;
}
