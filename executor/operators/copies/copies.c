/* copies.c - describes an operator as a list of parts, each a box to copy; checks the parts and runs them. */
#include "executor/operators/copies/copies.h"

#include <string.h>

static int size_of(const mp_array *a)
{
    return mp_dtype_bits(a->dtype) / 8;
}

static char *at(const mp_array *a, int64_t element)
{
    return (char *)a->data + element * size_of(a);
}

/* Describes as a box the elements before (or behind) the region [low, high) along dimension d. In the dimensions before d, the
 * box covers only [low, high). The reading strides are 0. Returns the offset of the first element. */
static int64_t slab_outside(const mp_array *a, const int64_t *low, const int64_t *high, int d, bool behind, mp_box *slab)
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

/* Fills the elements outside of a region with the element at `given`, or, if given is NULL, with `value` in host memory. */
static void fill_outside(const mp_copier *by, const mp_array *a, const mp_inside *inside, const void *given, const void *value)
{
    for (int d = 0; d < a->rank; d++)
        for (int behind = 0; behind < 2; behind++) {
            mp_box slab = {0};
            void *to = at(a, slab_outside(a, inside->low, inside->high, d, behind, &slab));
            if (given)
                by->copy(&slab, size_of(a), given, to);
            else
                by->fill(&slab, size_of(a), value, to);
        }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_copies *m = call->state;
    if (m->pad.any) {
        const void *given = m->filler > 0 && m->filler < x->n_in ? x->in[m->filler].data : NULL;
        fill_outside(m->by, &x->out[0], &m->pad, given, &m->value);
    }
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_copies_part *p = &m->parts[k];
        const mp_array *from = &x->in[p->in], *to = &x->out[p->out];
        if (to->dtype) m->by->copy(&p->box, size_of(to), at(from, p->from_at), at(to, p->to_at));
    }
    return m->by->done(err);
}

bool mp_copies_wants(const mp_operands *x, const mp_copies_part *p)
{
    return p->in >= x->from && p->in < x->to && x->d_in[p->in].dtype;
}

void mp_copies_arrays(const mp_copies_part *p, const mp_array *d_out, const mp_array *d_in, mp_array *from, mp_array *to)
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

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    static const uint64_t zero = 0;
    const mp_copies *m = call->state;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_copies_part *p = &m->parts[k];
        if (!mp_copies_wants(x, p)) continue;
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        bool add = x->adds & call->adds & MP_BIT(p->in), sums = mp_copies_repeats(p), empty = !mp_box_elements(&p->box);
        if (!add && k == 0 && (m->overlaps || (sums && empty)))
            m->by->zero(d_in);
        else if (!add && k == 0 && m->cut.any)
            fill_outside(m->by, d_in, &m->cut, NULL, &zero);
        add |= m->overlaps;
        if (empty || (add && !d_out->dtype)) continue;
        mp_box back = p->box;
        for (int d = 0; d < back.rank; d++) {
            back.from[d] = d_out->dtype ? p->box.to[d] : 0;
            back.to[d] = p->box.from[d];
        }
        mp_array from, to;
        mp_copies_arrays(p, d_out, d_in, &from, &to);
        if (!d_out->dtype)
            m->by->fill(&back, size_of(d_in), &zero, to.data);
        else if (sums)
            m->by->sum(&from, &to, add, x->workspace);
        else if (add)
            m->by->add(&from, &to);
        else
            m->by->copy(&back, size_of(d_in), from.data, to.data);
    }
    return m->by->done(err);
}

static mp_copies_rule *rule_of(const mp_operator *op)
{
    static const struct {
        const char *kind;
        mp_copies_rule *rule;
    } rules[] = {
#define RULE(kind, domain, rule) {kind, mp_copies_##rule},
        MP_COPIES(RULE)
#undef RULE
    };
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (!strcmp(rules[k].kind, op->op->name)) return rules[k].rule;
    return NULL;
}

static void release(mp_call *call)
{
    mp_copies *m = call->state;
    if (m) mp_free(m->parts);
}

/* Checks that backward is supported. Requested gradients and the gradients of their outputs must be FLOAT or BFLOAT16. Their
 * parts (boxes to copy) must have at most MP_ARRAY_RANK dimensions. */
static mp_status check_gradients(const mp_operands *x, const mp_copies *m, mp_error *err)
{
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_copies_part *p = &m->parts[k];
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        if (!mp_copies_wants(x, p)) continue;
        if ((d_in->dtype != MP_DTYPE_FLOAT && d_in->dtype != MP_DTYPE_BFLOAT16) ||
            (d_out->dtype && d_out->dtype != d_in->dtype))
            return MP_NO_KERNEL(x, err, "a gradient of this type");
        if (p->box.rank > MP_ARRAY_RANK) return MP_NO_KERNEL(x, err, "a gradient over this many dimensions");
    }
    return MP_OK;
}

static mp_status check_operands(const mp_operands *x, mp_error *err)
{
    for (int o = 0; o < x->n_out; o++) {
        const mp_array *y = &x->out[o];
        if (!y->dtype) continue;
        if (y->packed || mp_dtype_bits(y->dtype) < 8) return MP_NO_KERNEL(x, err, "this element type or layout");
    }
    for (int i = 0; i < x->n_in; i++)
        if (x->in[i].packed) return MP_NO_KERNEL(x, err, "a packed operand");
    return MP_OK;
}

mp_status mp_copies_prepare(const mp_operands *x, mp_call *call, const mp_copier *by, mp_error *err)
{
    mp_copies_rule *rule = rule_of(x->op);
    if (!rule) return MP_NO_KERNEL(x, err, "running it");
    MP_CHECK(check_operands(x, err));
    MP_STATE(mp_copies, m, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    m->by = by;
    call->release = release;
    MP_CHECK(rule(x, m, err));
    for (size_t k = 0; k < m->n_parts; k++)
        MP_ENSURE(!x->out[m->parts[k].out].dtype || x->in[m->parts[k].in].dtype == x->out[m->parts[k].out].dtype, err,
                  MP_UNSUPPORTED, "%s ('%s'): different input and output types are not supported here", x->op->kind,
                  x->op->name);
    if (!x->is_backward) return MP_OK;
    MP_CHECK(check_gradients(x, m, err));
    by->plan(x, m, call);
    return MP_OK;
}
