/* repeats.c - Expand, Tile, Pad: outputs that hold some elements more than once, or none. */
#include "executor/operators/copies/repeats.h"

#include <inttypes.h>
#include <string.h>

#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/layout.h"
#include "executor/kernel/element.h"

mp_status mp_moving_expand(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_moving_part *p;
    mp_status st = mp_moving_add(m, 0, 0, &p, err);
    for (int d = 0; st == MP_OK && d < out->rank; d++) {
        int own = d - (out->rank - in->rank);
        bool repeated = own < 0 || (in->dims[own] == 1 && out->dims[d] != 1);
        mp_box_put(&p->box, out->dims[d], repeated ? 0 : in->strides[own], out->strides[d]);
    }
    return st;
}

/* Each dimension of the output is one of repetitions and one of the input. */
mp_status mp_moving_tile(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_moving_part *p;
    mp_status st = mp_moving_add(m, 0, 0, &p, err);
    for (int d = 0; st == MP_OK && d < out->rank; d++) {
        mp_box_put(&p->box, in->dims[d] ? out->dims[d] / in->dims[d] : 0, 0, out->strides[d] * in->dims[d]);
        mp_box_put(&p->box, in->dims[d], in->strides[d], out->strides[d]);
    }
    return st;
}

static int64_t modulo(int64_t a, int64_t n)
{
    return (a % n + n) % n;
}

/* Where element i of an axis of n elements, counted from its first one, comes from; constant padding comes from nowhere. */
static int64_t from_edge(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i < n ? i : n - 1;
}
static int64_t from_reflection(int64_t i, int64_t n)
{
    int64_t k = n > 1 ? modulo(i, 2 * n - 2) : 0;
    return k < n ? k : 2 * n - 2 - k;
}
static int64_t from_other_end(int64_t i, int64_t n)
{
    return modulo(i, n);
}

static const struct {
    const char *mode;
    int64_t (*source)(int64_t i, int64_t n);
} modes[] = {{"constant", NULL}, {"edge", from_edge}, {"reflect", from_reflection}, {"wrap", from_other_end}};

/* A stretch of an axis of the output that comes from the input in steps of -1, 0 or 1. */
typedef struct stretch {
    int64_t from, to, step, n;
} stretch;

typedef struct axis_stretches {
    size_t n, capacity;
    stretch *list;
} axis_stretches;

/* Elements of an axis that are padded with others: more than this would be listed for minutes. */
enum { PADDED_MAX = 1 << 26 };

static mp_status add_stretch(axis_stretches *s, stretch one, mp_error *err)
{
    if (!mp_grow(&s->list, &s->capacity, s->n + 1, sizeof *s->list)) return MP_FAIL(err, MP_NOMEM, "out of memory");
    s->list[s->n++] = one;
    return MP_OK;
}

static mp_status cut_axis(int mode, int64_t n, int64_t before, int64_t n_out, axis_stretches *s, mp_error *err)
{
    mp_status st = MP_OK;
    if (mode == 0) { /* what of the input's places 0 .. n lies at 0 .. n_out of the output, `before` places on */
        const int64_t first = before > 0 ? before : 0, last = n_out - before < n ? n_out : before + n;
        if (last > first) st = add_stretch(s, (stretch){first - before, first, 1, last - first}, err);
        return st;
    }
    MP_REQUIRE(n_out <= PADDED_MAX, err, MP_UNSUPPORTED, "padding an axis to %" PRId64 " elements is not supported here",
               n_out);
    for (int64_t o = 0; n > 0 && o < n_out;) {
        const int64_t from = modes[mode].source(o - before, n);
        int64_t step = 1, count = 1;
        if (o + 1 < n_out) {
            int64_t next = modes[mode].source(o + 1 - before, n);
            if (next - from >= -1 && next - from <= 1) step = next - from;
        }
        while (o + count < n_out && modes[mode].source(o + count - before, n) == from + count * step) count++;
        MP_TRY(add_stretch(s, (stretch){from, o, step, count}, err));
        o += count;
    }
done:
    return st;
}

/* Pads before each axis of the input. */
static mp_status read_pads(const mp_operands *x, int rank, int64_t *before, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    const int64_t *pads, *axes = NULL;
    size_t n, n_axes = 0;
    MP_CHECK(mp_moved_integers(&reader, x->op->version < 2 ? "paddings" : "pads", 11, 1, &pads, &n));
    if (x->op->version >= 18) MP_CHECK(mp_infer_integers(&reader, 3, &axes, &n_axes));
    if (reader.missing_value >= 0 || !pads) {
        return MP_NO_KERNEL(x, err, "padding by an amount that is computed while it runs");
    }
    for (int d = 0; d < rank; d++) before[d] = axes ? 0 : pads[d];
    for (size_t k = 0; axes && k < n_axes; k++) before[axes[k] < 0 ? axes[k] + rank : axes[k]] = pads[k];
    return MP_OK;
}

/* What constant padding fills with, where that is no input: an attribute up to operator set 10, else 0. */
static mp_status read_value(const mp_operands *x, mp_moving *m, mp_error *err)
{
    mp_dtype dtype = x->in[0].dtype;
    float value = x->op->version < 11 ? (float)mp_operator_float(x->op, "value", 0) : 0;
    m->filler = x->op->version < 11 ? -1 : 2;
    if (value == 0) return MP_OK;
    if (!mp_is_real(dtype)) return MP_NO_KERNEL(x, err, "a value of this type to pad with");
    mp_store_float(&m->value, dtype, 0, value);
    return MP_OK;
}

/* A part for every combination of stretches. */
static mp_status combine(mp_moving *m, const mp_array *in, const mp_array *out, const axis_stretches *axes, mp_error *err)
{
    int64_t n = 1;
    for (int d = 0; d < in->rank; d++) n *= (int64_t)axes[d].n;
    for (int64_t k = 0; k < n; k++) {
        mp_moving_part *p;
        int64_t rest = k;
        MP_CHECK(mp_moving_add(m, 0, 0, &p, err));
        for (int d = 0; d < in->rank; d++) {
            const stretch *s = &axes[d].list[rest % (int64_t)axes[d].n];
            rest /= (int64_t)axes[d].n;
            p->from_at += s->from * in->strides[d];
            p->to_at += s->to * out->strides[d];
            mp_box_put(&p->box, s->n, s->step * in->strides[d], out->strides[d]);
        }
    }
    return MP_OK;
}

mp_status mp_moving_pad(const mp_operands *x, mp_moving *m, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    const char *name = mp_operator_text(x->op, "mode", "constant");
    axis_stretches axes[MP_ARRAY_RANK] = {0};
    int64_t before[MP_ARRAY_RANK];
    int mode = -1;
    for (int k = 0; k < (int)(sizeof modes / sizeof *modes); k++)
        if (!strcmp(modes[k].mode, name)) mode = k;
    MP_REQUIRE(mode >= 0, err, MP_UNSUPPORTED, "%s ('%s'): mode '%s' is not supported here", x->op->kind, x->op->name, name);
    MP_TRY(read_pads(x, in->rank, before, err));
    MP_TRY(read_value(x, m, err));
    m->overlaps = mode > 0;
    for (int d = 0; d < in->rank; d++) {
        MP_REQUIRE(mode == 0 || in->dims[d] || !out->dims[d], err, MP_UNSUPPORTED,
                   "%s ('%s'): padding an empty axis is not supported here", x->op->kind, x->op->name);
        MP_TRY(cut_axis(mode, in->dims[d], before[d], out->dims[d], &axes[d], err));
        if (mode > 0) continue;
        const stretch none = {0}, *s = axes[d].n ? axes[d].list : &none;
        m->cut.low[d] = s->from;
        m->cut.high[d] = s->from + s->n;
        m->pad.low[d] = s->to;
        m->pad.high[d] = s->to + s->n;
        m->cut.any |= s->n < in->dims[d];
        m->pad.any |= s->n < out->dims[d];
    }
    MP_TRY(combine(m, in, out, axes, err));
    if (!m->n_parts) { /* all is filled: the gradient still has to be written */
        mp_moving_part *p;
        MP_TRY(mp_moving_add(m, 0, 0, &p, err));
        mp_box_put(&p->box, 0, in->rank ? 1 : 0, 1);
    }
done:
    for (int d = 0; d < MP_ARRAY_RANK; d++) mp_free(axes[d].list);
    return st;
}
