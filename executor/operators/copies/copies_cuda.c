/* copies_cuda.c - operators that only copy elements (copies.h), on the GPU. */
#include "executor/operators/copies/copies.h"

#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/elementwise/elementwise_cuda.h"

static void add(const mp_array *from, const mp_array *to)
{
    const mp_box box = mp_box_of(from, to);
    mp_cuda_box_add(&box, to->dtype, from->data, to->data);
}

static void sum(const mp_array *from, const mp_array *to, bool add, void *workspace)
{
    mp_cuda_sum_to(from, to, 1, add, workspace);
}

/* In backward, the gradients of transposed parts (boxes to copy) are copied in tiles to the workspace, and mp_call_run adds
 * them. Sums over repeated elements also need workspace. */
static void plan(const mp_operands *x, const mp_copies *m, mp_call *call)
{
    call->adds = x->adds;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_copies_part *p = &m->parts[k];
        const mp_array *d_out = &x->d_out[p->out];
        mp_array from, to;
        if (!mp_copies_wants(x, p) || !mp_box_elements(&p->box) || !d_out->dtype) continue;
        mp_copies_arrays(p, d_out, &x->d_in[p->in], &from, &to);
        if (mp_copies_repeats(p)) {
            int64_t bytes = mp_cuda_sum_workspace_bytes(&from, &to);
            if (bytes > call->workspace_bytes) call->workspace_bytes = bytes;
        } else if (!m->overlaps) {
            const mp_box back = mp_box_of(&from, &to);
            if (mp_cuda_box_is_transposed(&back)) call->adds &= ~MP_BIT(p->in);
        }
    }
}

static const mp_copier copier = {mp_cuda_box_copy, mp_cuda_box_fill, mp_cuda_array_zero, add, sum, mp_cuda_launched, plan};

MP_COPIES_PREPARE

const mp_kernel mp_cuda_copies[] = {MP_COPIES(MP_COPIES_ROW){0}};
