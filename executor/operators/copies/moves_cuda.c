/* moves_cuda.c - operators that move elements, on the GPU: lists of boxes (operators/copies/moving.h), which are copied one way
 * forward, and the other way backward. */
#include "executor/operators/copies/moves.h"

#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/elementwise/sums_cuda.h"

static int size_of(const mp_array *a)
{
    return mp_dtype_bits(a->dtype) / 8;
}

static char *at(const mp_array *a, int64_t element)
{
    return (char *)a->data + element * size_of(a);
}

/* What lies outside of the corners becomes the value that lies there (given), or else the one here. */
static void fill_outside(const mp_array *a, const mp_inside *inside, const void *given, const void *value)
{
    for (int d = 0; d < a->rank; d++)
        for (int behind = 0; behind < 2; behind++) {
            mp_box slab = {0};
            void *to = at(a, mp_slab_outside(a, inside->low, inside->high, d, behind, &slab));
            if (given)
                mp_cuda_box_copy(&slab, size_of(a), given, to);
            else
                mp_cuda_box_fill(&slab, size_of(a), value, to);
        }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_moving *m = call->state;
    (void)run;
    if (m->pad.any) {
        const void *given = m->filler > 0 && m->filler < x->n_in ? x->in[m->filler].data : NULL;
        fill_outside(&x->out[0], &m->pad, given, &m->value);
    }
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_moving_part *p = &m->parts[k];
        const mp_array *from = &x->in[p->in], *to = &x->out[p->out];
        if (to->dtype) mp_cuda_box_copy(&p->box, size_of(to), at(from, p->from_at), at(to, p->to_at));
    }
    return mp_cuda_launched(err);
}

/* A part of the gradients as arrays; what it reads several times has one element in *to. */
static void part_arrays(const mp_moving_part *p, const mp_array *d_out, const mp_array *d_in, mp_array *from, mp_array *to)
{
    *from = *to = (mp_array){.rank = p->box.rank};
    from->dtype = d_out->dtype;
    to->dtype = d_in->dtype;
    if (d_out->data) from->data = at(d_out, p->to_at);
    if (d_in->data) to->data = at(d_in, p->from_at);
    for (int d = 0; d < p->box.rank; d++) {
        from->dims[d] = to->dims[d] = p->box.dims[d];
        from->strides[d] = p->box.to[d];
        to->strides[d] = p->box.from[d];
        if (!to->strides[d]) to->dims[d] = 1;
    }
}

/* The box from the output to the input. */
static mp_box turned(const mp_moving_part *p)
{
    mp_box back = p->box;
    for (int d = 0; d < back.rank; d++) {
        back.from[d] = p->box.to[d];
        back.to[d] = p->box.from[d];
    }
    return back;
}

static bool is_wanted(const mp_operands *x, const mp_moving_part *p)
{
    return p->in >= x->from && p->in < x->to && x->d_in[p->in].dtype;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    static const uint64_t zero = 0;
    const mp_moving *m = call->state;
    (void)run;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_moving_part *p = &m->parts[k];
        if (!is_wanted(x, p)) continue;
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        bool add = x->adds & call->adds & MP_BIT(p->in), sums = mp_moving_repeats(p), empty = !mp_box_elements(&p->box);
        if (!add && k == 0 && (m->overlaps || (sums && empty)))
            mp_cuda_array_zero(d_in);
        else if (!add && k == 0 && m->cut.any)
            fill_outside(d_in, &m->cut, NULL, &zero);
        add |= m->overlaps;
        if (empty || (add && !d_out->dtype)) continue;
        mp_box back = turned(p);
        mp_array from, to;
        part_arrays(p, d_out, d_in, &from, &to);
        if (!d_out->dtype)
            mp_cuda_box_fill(&back, size_of(d_in), &zero, to.data);
        else if (sums)
            mp_cuda_sum_to(&from, &to, 1, add, x->workspace);
        else if (add)
            mp_cuda_box_add(&back, d_in->dtype, from.data, to.data);
        else
            mp_cuda_box_copy(&back, size_of(d_in), from.data, to.data);
    }
    return mp_cuda_launched(err);
}

/* What is transposed is copied in tiles and then added; sums want room. */
static void plan_backward(const mp_operands *x, mp_call *call)
{
    const mp_moving *m = call->state;
    call->adds = x->adds;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_moving_part *p = &m->parts[k];
        const mp_array *d_out = &x->d_out[p->out];
        if (!is_wanted(x, p) || !mp_box_elements(&p->box) || !d_out->dtype) continue;
        if (mp_moving_repeats(p)) {
            mp_array from, to;
            part_arrays(p, d_out, &x->d_in[p->in], &from, &to);
            int64_t bytes = mp_cuda_sum_workspace_bytes(&from, &to);
            if (bytes > call->workspace_bytes) call->workspace_bytes = bytes;
        } else if (!m->overlaps) {
            mp_box back = turned(p);
            if (mp_cuda_box_is_transposed(&back)) call->adds &= ~MP_BIT(p->in);
        }
    }
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = mp_moves_prepare(x, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    if (st == MP_OK && x->is_backward) plan_backward(x, call);
    return st;
}

const mp_kernel mp_cuda_moves[] = {
#define ROW(kind, domain, rule) {kind, domain, prepare, prepare},
    MP_MOVES(ROW)
#undef ROW
        {0},
};
