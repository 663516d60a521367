/* moves.c - from an operator to the parts it moves, checked. */
#include "executor/operators/copies/moves.h"

#include <string.h>

#include "executor/operators/copies/rearrangements.h"
#include "executor/operators/copies/repeats.h"
#include "executor/operators/copies/slices.h"

static mp_moving_rule rule_of(const mp_operator *op)
{
    static const struct {
        const char *kind;
        mp_moving_rule rule;
    } rules[] = {
#define RULE(kind, domain, rule) {kind, mp_moving_##rule},
        MP_MOVES(RULE)
#undef RULE
    };
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (!strcmp(rules[k].kind, op->op->name)) return rules[k].rule;
    return NULL;
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
        const mp_moving_part *p = &m->parts[k];
        const mp_array *d_in = &x->d_in[p->in], *d_out = &x->d_out[p->out];
        if (p->in < x->from || p->in >= x->to || !d_in->dtype) continue;
        if ((d_in->dtype != MP_DTYPE_FLOAT && d_in->dtype != MP_DTYPE_BFLOAT16) ||
            (d_out->dtype && d_out->dtype != d_in->dtype))
            return MP_NO_KERNEL(x, err, "a gradient of this type");
        if (p->box.rank > MP_ARRAY_RANK) return MP_NO_KERNEL(x, err, "a gradient over so many dimensions");
    }
    return MP_OK;
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

mp_status mp_moves_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_moving *m = NULL;
    mp_moving_rule rule = rule_of(x->op);
    if (!rule) return MP_NO_KERNEL(x, err, "running it");
    MP_CHECK(check_operands(x, err));
    MP_ENSURE(m = mp_alloc(1, sizeof *m), err, MP_NOMEM, "%s ('%s'): out of memory", x->op->kind, x->op->name);
    call->state = m;
    call->release = release;
    MP_CHECK(rule(x, m, err));
    for (size_t k = 0; k < m->n_parts; k++)
        MP_ENSURE(!x->out[m->parts[k].out].dtype || x->in[m->parts[k].in].dtype == x->out[m->parts[k].out].dtype, err,
                  MP_UNSUPPORTED, "%s ('%s'): another type in than out is not supported here", x->op->kind, x->op->name);
    if (x->is_backward) MP_CHECK(check_gradients(x, m, err));
    return MP_OK;
}
