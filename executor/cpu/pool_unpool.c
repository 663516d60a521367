/* pool_unpool.c - MaxUnpool: values go back to where MaxPool's indices say they were; everything else is zero. Indices count
 * the elements row-major of the tensor that was pooled: a larger output (output_shape) has rows of zeros more. */
#include <string.h>

#include "estimator/window.h"
#include "executor/cpu/parallel.h"
#include "executor/cpu/pools.h"

/* The tensor that was pooled. */
typedef struct state {
    int64_t dims[MP_ARRAY_RANK], n;
} state;

/* Where the k-th element, counted in these dimensions, lies in an array. */
static int64_t place(const mp_array *a, const int64_t *dims, int64_t k)
{
    int64_t at = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        at += k % dims[d] * a->strides[d];
        k /= dims[d];
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
    const state *s = call->state;
    int64_t n = mp_array_elements(small);
    (void)run;
    if (!x->is_backward) memset(large->data, 0, (size_t)mp_array_bytes(large));
    for (int64_t k = 0; k < n; k++) {
        int64_t to = ((const int64_t *)index->data)[place(index, index->dims, k)];
        if (to < 0 || to >= s->n)
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): index %lld is not one of %lld elements", x->op->kind, x->op->name,
                           (long long)to, (long long)s->n);
        if (x->is_backward)
            store(small, place(small, small->dims, k), load(large, place(large, s->dims, to)));
        else
            store(large, place(large, s->dims, to), load(small, place(small, small->dims, k)));
    }
    return MP_OK;
}

mp_status mp_prepare_max_unpool(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    mp_status st = MP_OK;
    mp_infer infer = {.model = (mp_model *)x->model, .op = (mp_operator *)x->op, .err = err, .missing_value = -1};
    const mp_array *a = &x->in[0];
    mp_window window;
    state *s;
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run;
    MP_TRY(mp_window_read(&infer, a->rank - 2, NULL, &window));
    MP_TRY(mp_window_unslide(&infer, &window, a->dims + 2, NULL, s->dims + 2));
    s->dims[0] = a->dims[0];
    s->dims[1] = a->dims[1];
    s->n = 1;
    for (int d = 0; d < a->rank; d++) s->n *= s->dims[d];
done:
    return st;
}
