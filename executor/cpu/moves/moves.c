/* move_parts.c - prepares and runs lists of boxes: forward copies, backward copies back, adds or sums. */
#include <string.h>

#include "executor/cpu/elementwise/elementwise.h"
#include "executor/operators/moves/moving.h"

mp_infer mp_moving_reader(const mp_operands *x, mp_error *err)
{
    return (mp_infer){.model = (mp_model *)x->model, .op = (mp_operator *)x->op, .err = err, .missing_value = -1};
}

const mp_array *mp_moving_in(const mp_operands *x, int i)
{
    return x->is_backward && x->d_in[i].dtype ? &x->d_in[i] : &x->in[i];
}

const mp_array *mp_moving_out(const mp_operands *x, int o)
{
    return x->is_backward && x->d_out[o].dtype ? &x->d_out[o] : &x->out[o];
}

mp_status mp_moving_part(mp_moving *m, int in, int out, mp_part **part, mp_error *err)
{
    if (!mp_grow(&m->parts, &m->capacity, m->n_parts + 1, sizeof *m->parts)) return MP_FAIL(err, MP_NOMEM, "out of memory");
    *part = &m->parts[m->n_parts++];
    (*part)->in = in;
    (*part)->out = out;
    return MP_OK;
}

static int size_of(const mp_array *a)
{
    return mp_dtype_bits(a->dtype) / 8;
}

static char *at(const mp_array *a, int64_t element)
{
    return (char *)a->data + element * size_of(a);
}

int64_t mp_slab_outside(const mp_array *a, const int64_t *low, const int64_t *high, int d, bool behind, mp_box *slab)
{
    int64_t start = (behind ? high[d] : 0) * a->strides[d];
    for (int e = 0; e < a->rank; e++) {
        if (e < d) start += low[e] * a->strides[e];
        mp_box_put(slab,
                   e < d    ? high[e] - low[e]
                   : e > d  ? a->dims[e]
                   : behind ? a->dims[d] - high[d]
                            : low[d],
                   0, a->strides[e]);
    }
    return start;
}

void mp_fill_outside(const mp_array *a, const int64_t *low, const int64_t *high, const void *value)
{
    for (int d = 0; d < a->rank; d++) {
        for (int behind = 0; behind < 2; behind++) {
            mp_box slab = {0};
            int64_t start = mp_slab_outside(a, low, high, d, behind, &slab);
            mp_box_copy(&slab, size_of(a), value, at(a, start));
        }
    }
}

void mp_fill_zero(const mp_array *a)
{
    static const uint64_t zero = 0;
    mp_box all = {0};
    for (int d = 0; d < a->rank; d++) mp_box_put(&all, a->dims[d], 0, a->strides[d]);
    mp_box_copy(&all, size_of(a), &zero, a->data);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_moving *m = call->state;
    (void)run, (void)err;
    if (m->pad.any) {
        const void *given = m->filler > 0 && m->filler < x->n_in ? x->in[m->filler].data : NULL;
        mp_fill_outside(&x->out[0], m->pad.low, m->pad.high, given ? given : &m->value);
    }
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_part *p = &m->parts[k];
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
static void add_part(const mp_part *p, const mp_array *d_out, const mp_array *d_in, bool sums, bool add)
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
        mp_sum_to(&from, &to, 1, add);
    else
        mp_elementwise(add_rows, NULL, (const mp_array *const[]){&to, &from}, 2, &to);
}

bool mp_moving_repeats(const mp_part *p)
{
    for (int d = 0; d < p->box.rank; d++)
        if (!p->box.from[d]) return true;
    return false;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    static const uint64_t zero = 0;
    const mp_moving *m = call->state;
    (void)run, (void)err;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_part *p = &m->parts[k];
        if (p->in < x->from || p->in >= x->to || !x->d_in[p->in].dtype) continue;
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        bool add = x->adds & call->adds & MP_BIT(p->in), sums = mp_moving_repeats(p), empty = !mp_box_elements(&p->box);
        if (!add && k == 0 && (m->overlaps || (sums && empty)))
            mp_fill_zero(d_in);
        else if (!add && k == 0 && m->cut.any)
            mp_fill_outside(d_in, m->cut.low, m->cut.high, &zero);
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

static void release(mp_call *call)
{
    mp_moving *m = call->state;
    if (m) mp_free(m->parts);
}

/* Backward: the gradients that are asked for are floats, lie by strides and have at most as many dimensions as can be added. */
static mp_status check_gradients(const mp_operands *x, const mp_moving *m, mp_error *err)
{
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_part *p = &m->parts[k];
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        if (p->in < x->from || p->in >= x->to || !d_in->dtype) continue;
        if ((d_in->dtype != MP_DTYPE_FLOAT && d_in->dtype != MP_DTYPE_BFLOAT16) ||
            (d_out->dtype && d_out->dtype != d_in->dtype))
            return MP_NO_KERNEL(x, err, "a gradient of this type");
        if (p->box.rank > MP_ARRAY_RANK) return MP_NO_KERNEL(x, err, "a gradient over so many dimensions");
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
        if (!meets && mp_moving_in(x, m->parts[k].in)->dtype == MP_DTYPE_BFLOAT16) adds &= ~MP_BIT(m->parts[k].in);
    }
    return adds;
}

static mp_status check_operands(const mp_operands *x, mp_error *err)
{
    for (int o = 0; o < x->n_out; o++) {
        const mp_array *y = &x->out[o];
        if (!y->dtype) continue;
        if (y->packed || mp_dtype_bits(y->dtype) < 8) return MP_NO_KERNEL(x, err, "an element type or layout like that");
    }
    for (int i = 0; i < x->n_in; i++)
        if (x->in[i].packed) return MP_NO_KERNEL(x, err, "a packed operand");
    return MP_OK;
}

mp_status mp_moving_prepare(const mp_operands *x, mp_moving_rule rule, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_moving *m = NULL;
    MP_TRY(check_operands(x, err));
    MP_REQUIRE(m = mp_alloc(1, sizeof *m), err, MP_NOMEM, "%s ('%s'): out of memory", x->op->kind, x->op->name);
    call->state = m;
    call->release = release;
    MP_TRY(rule(x, m, err));
    for (size_t k = 0; k < m->n_parts; k++)
        MP_REQUIRE(!x->out[m->parts[k].out].dtype || x->in[m->parts[k].in].dtype == x->out[m->parts[k].out].dtype, err,
                   MP_UNSUPPORTED, "%s ('%s'): another type in than out is not supported here", x->op->kind, x->op->name);
    if (x->is_backward) MP_TRY(check_gradients(x, m, err));
    call->run = x->is_backward ? run_backward : run_forward;
    call->adds = adds_itself(x, m);
done:
    return st;
}
