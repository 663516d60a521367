/* moves_cpu.c - runs lists of boxes: forward copies, backward copies back, adds or sums. */
#include "executor/operators/copies/moves.h"

#include "executor/cpu/base/families.h"
#include "executor/operators/copies/strided_copy_cpu.h"
#include "executor/operators/elementwise/broadcast_sum_cpu.h"
#include "executor/operators/elementwise/elementwise_cpu.h"

static int size_of(const mp_array *a)
{
    return mp_dtype_bits(a->dtype) / 8;
}

static char *at(const mp_array *a, int64_t element)
{
    return (char *)a->data + element * size_of(a);
}

/* Fills what lies outside of the corners with the value of the element's size. */
static void fill_outside(const mp_array *a, const int64_t *low, const int64_t *high, const void *value)
{
    for (int d = 0; d < a->rank; d++) {
        for (int behind = 0; behind < 2; behind++) {
            mp_box slab = {0};
            int64_t start = mp_slab_outside(a, low, high, d, behind, &slab);
            mp_box_copy(&slab, size_of(a), value, at(a, start));
        }
    }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_moving *m = call->state;
    (void)run, (void)err;
    if (m->pad.any) {
        const void *given = m->filler > 0 && m->filler < x->n_in ? x->in[m->filler].data : NULL;
        fill_outside(&x->out[0], m->pad.low, m->pad.high, given ? given : &m->value);
    }
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_moving_part *p = &m->parts[k];
        const mp_array *from = &x->in[p->in], *to = &x->out[p->out];
        if (to->dtype) mp_box_copy(&p->box, size_of(to), at(from, p->from_at), at(to, p->to_at));
    }
    return MP_OK;
}

MP_VECTOR static void add_rows(const double *parameters, int64_t n, const float *const *in, float *out)
{
    const float *a = in[0], *b = in[1];
    (void)parameters;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = a[k] + b[k];
}

/* The part's elements of d_out are added to those of d_in; what it reads several times is summed up. */
static void add_part(const mp_moving_part *p, const mp_array *d_out, const mp_array *d_in, bool sums, bool add)
{
    mp_array from = {.data = at(d_out, p->to_at), .dtype = d_out->dtype, .rank = p->box.rank}, to = from;
    to.data = at(d_in, p->from_at);
    to.dtype = d_in->dtype;
    for (int d = 0; d < p->box.rank; d++) {
        from.dims[d] = to.dims[d] = p->box.dims[d];
        from.strides[d] = p->box.to[d];
        to.strides[d] = p->box.from[d];
        if (!to.strides[d]) to.dims[d] = 1;
    }
    if (sums)
        mp_cpu_sum_to(&from, &to, 1, add);
    else
        mp_elementwise(add_rows, NULL, (const mp_array *const[]){&to, &from}, 2, &to);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    static const uint64_t zero = 0;
    const mp_moving *m = call->state;
    (void)run, (void)err;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_moving_part *p = &m->parts[k];
        if (p->in < x->from || p->in >= x->to || !x->d_in[p->in].dtype) continue;
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        bool add = x->adds & call->adds & MP_BIT(p->in), sums = mp_moving_repeats(p), empty = !mp_box_elements(&p->box);
        if (!add && k == 0 && (m->overlaps || (sums && empty)))
            mp_cpu_array_zero(d_in);
        else if (!add && k == 0 && m->cut.any)
            fill_outside(d_in, m->cut.low, m->cut.high, &zero);
        add |= m->overlaps;
        if (empty || (add && !d_out->dtype)) continue;
        mp_box back = p->box;
        for (int d = 0; d < back.rank; d++) {
            back.from[d] = d_out->dtype ? p->box.to[d] : 0;
            back.to[d] = p->box.from[d];
        }
        if (!d_out->dtype)
            mp_box_copy(&back, size_of(d_in), &zero, at(d_in, p->from_at));
        else if (sums || add)
            add_part(p, d_out, d_in, sums, add);
        else
            mp_box_copy(&back, size_of(d_in), at(d_out, p->to_at), at(d_in, p->from_at));
    }
    return MP_OK;
}

/* Adding bfloat16 across a transposition would convert element by element: copied and then added it is much faster. */
static uint64_t adds_itself(const mp_operands *x, const mp_moving *m)
{
    uint64_t adds = x->is_backward ? x->adds : 0;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_box *box = &m->parts[k].box;
        bool meets = box->rank == 0 || m->overlaps || mp_moving_repeats(&m->parts[k]);
        for (int d = 0; d < box->rank; d++) meets |= box->from[d] == box->to[d] && box->from[d] == 1;
        if (!meets && mp_operands_in(x, m->parts[k].in)->dtype == MP_DTYPE_BFLOAT16) adds &= ~MP_BIT(m->parts[k].in);
    }
    return adds;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = mp_moves_prepare(x, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    if (st == MP_OK) call->adds = adds_itself(x, call->state);
    return st;
}

const mp_kernel mp_cpu_moves[] = {
#define ROW(kind, domain, rule) {kind, domain, prepare, prepare},
    MP_MOVES(ROW)
#undef ROW
        {0}};
