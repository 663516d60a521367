/* kernel.c - prepares and runs calls. If a kernel cannot accumulate a gradient, it writes the gradient into the workspace, and
 * mp_call_run adds it to the sum. */
#include "executor/kernel/kernel.h"

#include <string.h>

#include "executor/kernel/backend.h"
#include "executor/kernel/philox.h"

enum { CALL_ALIGNMENT = 64 };

const mp_array *mp_operands_in(const mp_operands *x, int i)
{
    return x->is_backward && x->d_in[i].dtype ? &x->d_in[i] : &x->in[i];
}

const mp_array *mp_operands_out(const mp_operands *x, int o)
{
    return x->is_backward && x->d_out[o].dtype ? &x->d_out[o] : &x->out[o];
}

bool mp_operands_wants(const mp_operands *x, int i)
{
    return x->is_backward && x->from <= i && x->to > i && x->d_in[i].dtype;
}

int mp_operands_axis(const mp_operands *x, int64_t otherwise, int rank)
{
    int64_t axis = mp_operator_int(x->op, "axis", otherwise);
    return (int)(axis < 0 ? axis + rank : axis);
}

void mp_dealt_uniforms(const mp_operands *x, const mp_dealt *dealt, int64_t from, int64_t n, float *out)
{
    const int index = dealt->run ? x->run.group->index : 0;
    for (int64_t done = 0, some; done < n; done += some) {
        const int64_t at = from + done, left = dealt->run ? dealt->run - at % dealt->run : n;
        some = left < n - done ? left : n - done;
        mp_random_uniforms(x->run.seed, x->run.step, (uint32_t)x->op_index, (uint64_t)mp_dealt_index(dealt, index, at), some,
                           out + done);
    }
}

mp_infer mp_operands_reader(const mp_operands *x, mp_error *err)
{
    return (mp_infer){.model = (mp_model *)x->model, .op = (mp_operator *)x->op, .err = err, .missing_value = -1};
}

static int64_t elements_of(const mp_operands *x, int i)
{
    return x->d_in[i].packed ? x->model->tensors[x->op->in[i]].stored.packed_elements : mp_array_stored_elements(&x->d_in[i]);
}

/* Returns the workspace bytes for the gradient of input i, if mp_call_run must add the gradient to a sum. */
static int64_t room_of(const mp_operands *x, int i)
{
    int64_t room;
    if (!mp_multiply(elements_of(x, i), mp_dtype_bits(x->d_in[i].dtype) / 8, &room) ||
        !mp_round_up(room, CALL_ALIGNMENT, &room))
        return INT64_MAX;
    return room;
}

mp_status mp_call_prepare(const mp_backend *backend, const mp_kernel *kernel, const mp_operands *x, mp_call *call,
                          mp_error *err)
{
    mp_prepare prepare = x->is_backward ? kernel->backward : kernel->forward;
    MP_CLEARED_BY(mp_call_release) mp_call made = {0};
    *call = made;
    if (!prepare) return MP_NO_KERNEL(x, err, x->is_backward ? "its gradient" : "running it");
    if (backend->use) backend->use(backend);
    MP_CHECK(prepare(x, &made, err));
    MP_ENSURE(mp_round_up(made.workspace_bytes, CALL_ALIGNMENT, &made.workspace_bytes), err, MP_INVALID,
              "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    made.added_at = made.workspace_bytes;
    for (int i = x->from; x->is_backward && i < x->to; i++)
        if (x->adds & ~made.adds & MP_BIT(i))
            MP_ENSURE(mp_add(made.workspace_bytes, room_of(x, i), &made.workspace_bytes), err, MP_INVALID,
                      "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    *call = made;
    made = (mp_call){0};
    return MP_OK;
}

mp_status mp_call_run(const mp_backend *backend, const mp_call *call, const mp_operands *x, mp_error *err)
{
    mp_status st = MP_OK;
    uint64_t ours = x->is_backward ? x->adds & ~call->adds : 0;
    void *target[64];
    int64_t at = call->added_at;
    if (backend->use) backend->use(backend);
    if (!ours) return call->run(call, x, err);
    for (int i = x->from; i < x->to; i++) {
        if (!(ours & MP_BIT(i))) continue;
        target[i] = x->d_in[i].data;
        x->d_in[i].data = (char *)x->workspace + at;
        at += room_of(x, i);
    }
    st = call->run(call, x, err);
    for (int i = x->from; i < x->to; i++) {
        if (!(ours & MP_BIT(i))) continue;
        int64_t n = elements_of(x, i);
        if (st == MP_OK) backend->add(backend, x->d_in[i].dtype, n, x->d_in[i].data, target[i]);
        x->d_in[i].data = target[i];
    }
    return st;
}

void mp_call_release(mp_call *call)
{
    if (call->release) call->release(call);
    mp_free(call->state);
    *call = (mp_call){0};
}

const mp_kernel *mp_kernel_find(const mp_kernel *const *tables, size_t n, const mp_operator *op)
{
    for (size_t t = 0; t < n; t++)
        for (const mp_kernel *k = tables[t]; k->kind; k++)
            if (!strcmp(k->kind, op->op->name) && !strcmp(k->domain, op->op->domain)) return k;
    return NULL;
}
