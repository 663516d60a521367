/* copies_rules.c - for each operator that only copies elements: the rule that lists its parts (boxes to copy). */
#include "executor/operators/copies/copies.h"

#include <inttypes.h>
#include <string.h>

#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/layout.h"
#include "executor/kernel/element.h"

/* Adds a part (a box to copy) with one element, from input `in` to output `out`. The caller adds the part's dimensions. */
static mp_status new_part(mp_copies *m, int in, int out, mp_copies_part **part, mp_error *err)
{
    if (!mp_grow(&m->parts, &m->capacity, m->n_parts + 1, sizeof *m->parts)) return MP_FAIL(err, MP_NOMEM, "out of memory");
    *part = &m->parts[m->n_parts++];
    (*part)->in = in;
    (*part)->out = out;
    return MP_OK;
}

/* ---- operators that copy every element once */

/* Adds the only part of an operator that copies a single box: sizes `dims`, reading strides `from`, writing strides `to`. */
static mp_status one_part(mp_copies *m, int rank, const int64_t *dims, const int64_t *from, const int64_t *to, mp_error *err)
{
    mp_copies_part *p;
    mp_status st = new_part(m, 0, 0, &p, err);
    for (int d = 0; st == MP_OK && d < rank; d++) mp_box_put(&p->box, dims[d], from[d], to[d]);
    return st;
}

/* Splits the dimensions of two arrays with equal numbers of elements into a common loop nest. Example: (4, 6) and (2, 12)
 * become (2, 2, 6). Returns false if there is none. */
static bool refine(const mp_array *a, const mp_array *b, mp_box *box)
{
    int i = a->rank - 1, j = b->rank - 1;
    int64_t left_a = 1, left_b = 1, stride_a = 0, stride_b = 0;
    for (;;) {
        for (; left_a == 1 && i >= 0; i--) left_a = a->dims[i], stride_a = a->strides[i];
        for (; left_b == 1 && j >= 0; j--) left_b = b->dims[j], stride_b = b->strides[j];
        int64_t both = left_a < left_b ? left_a : left_b;
        if (both <= 1) return left_a == left_b;
        if (left_a % both || left_b % both || box->rank == MP_BOX_RANK) return false;
        mp_box_put(box, both, stride_a, stride_b);
        left_a /= both;
        left_b /= both;
        stride_a *= both;
        stride_b *= both;
    }
}

/* Describes a reshape: elements are copied in index order to an array with other dimensions. */
mp_status mp_copies_reshape(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_copies_part *p;
    bool plain_in = mp_array_is_plain(in), plain_out = mp_array_is_plain(out);
    if (plain_in || plain_out) {
        /* the loops use the dimensions of the array that is not contiguous, because a contiguous array can be addressed with
         * any dimensions */
        const mp_array *odd = plain_out ? in : out;
        mp_array plain = mp_array_plain(odd->dtype, odd->rank, odd->dims);
        return one_part(m, odd->rank, odd->dims, plain_out ? odd->strides : plain.strides,
                        plain_out ? plain.strides : odd->strides, err);
    }
    MP_CHECK(new_part(m, 0, 0, &p, err));
    if (mp_array_elements(in) && !refine(in, out, &p->box))
        return MP_NO_KERNEL(x, err, "a reshape from one layout that is not plain into another");
    return MP_OK;
}

mp_status mp_copies_transpose(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_infer reader = mp_operands_reader(x, err);
    int permutation[MP_RANK_MAX];
    int64_t from[MP_ARRAY_RANK];
    MP_CHECK(mp_permutation_read(&reader, permutation));
    for (int d = 0; d < in->rank; d++) from[d] = in->strides[permutation[d]];
    return one_part(m, out->rank, out->dims, from, out->strides, err);
}

mp_status mp_copies_reorder(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    return one_part(m, out->rank, out->dims, in->strides, out->strides, err);
}

/* Describes the copy between b x b pixels of `wide` and b * b channels of `deep`. The channels of `deep` are ordered by pixel
 * position, then channel of `wide`; with channel_first (mode CRD), by channel, then position. */
static mp_status blocks(const mp_operands *x, mp_copies *m, const mp_array *deep, const mp_array *wide, bool into_space,
                        bool channel_first, mp_error *err)
{
    int64_t b = mp_operator_int(x->op, "blocksize", 1), channels = wide->dims[1];
    const int64_t *s = deep->strides, *t = wide->strides;
    int64_t place = s[1] * (channel_first ? 1 : channels), channel = s[1] * (channel_first ? b * b : 1);
    int64_t dims[6] = {wide->dims[0], channels, deep->dims[2], b, deep->dims[3], b};
    int64_t in_deep[6] = {s[0], channel, s[2], place * b, s[3], place};
    int64_t in_wide[6] = {t[0], t[1], t[2] * b, t[2], t[3] * b, t[3]};
    return one_part(m, 6, dims, into_space ? in_deep : in_wide, into_space ? in_wide : in_deep, err);
}

mp_status mp_copies_depth_to_space(const mp_operands *x, mp_copies *m, mp_error *err)
{
    bool channel_first = !strcmp(mp_operator_text(x->op, "mode", "DCR"), "CRD");
    return blocks(x, m, mp_operands_in(x, 0), mp_operands_out(x, 0), true, channel_first, err);
}

mp_status mp_copies_space_to_depth(const mp_operands *x, mp_copies *m, mp_error *err)
{
    return blocks(x, m, mp_operands_out(x, 0), mp_operands_in(x, 0), false, false, err);
}

/* ---- operators that copy ranges along an axis */

/* Adds one part (box to copy) of a concatenation or split, with the dimensions of the smaller array, `small`. The caller sets
 * the part's offsets. */
static mp_status put_part(mp_copies *m, int in, int out, const mp_array *small, const mp_array *from, const mp_array *to,
                          mp_copies_part **p, mp_error *err)
{
    mp_status st = new_part(m, in, out, p, err);
    for (int d = 0; st == MP_OK && d < small->rank; d++)
        mp_box_put(&(*p)->box, small->dims[d], from->strides[d], to->strides[d]);
    return st;
}

mp_status mp_copies_concat(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *out = mp_operands_out(x, 0);
    int axis = mp_operands_axis(x, 1, out->rank);
    int64_t start = 0;
    for (int i = 0; i < x->n_in; i++) {
        const mp_array *in = mp_operands_in(x, i);
        mp_copies_part *p;
        MP_CHECK(put_part(m, i, 0, in, in, out, &p, err));
        p->to_at = start * out->strides[axis];
        start += in->dims[axis];
    }
    return MP_OK;
}

mp_status mp_copies_split(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0);
    mp_infer reader = mp_operands_reader(x, err);
    int axis = mp_operands_axis(x, 0, in->rank);
    const int64_t *sizes;
    size_t n;
    int64_t start = 0, whole = in->dims[axis], even = (whole + x->n_out - 1) / x->n_out;
    MP_CHECK(mp_moved_integers(&reader, "split", 13, 1, &sizes, &n));
    for (int o = 0; o < x->n_out; o++) {
        const mp_tensor *t = mp_operator_out(x->model, x->op, o);
        const mp_array *out = mp_operands_out(x, o);
        mp_array part = *in;
        mp_copies_part *p;
        part.dims[axis] = t ? t->dims[axis] : sizes && (size_t)o < n ? sizes[o] : whole - start < even ? whole - start : even;
        MP_CHECK(put_part(m, 0, o, &part, in, out->dtype ? out : in, &p, err));
        p->from_at = start * in->strides[axis];
        start += part.dims[axis];
    }
    return MP_OK;
}

mp_status mp_copies_slice(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_infer reader = mp_operands_reader(x, err);
    mp_slice slice;
    bool known;
    mp_copies_part *p;
    MP_CHECK(mp_slice_read(&reader, &slice, &known));
    if (!known) return MP_NO_KERNEL(x, err, "a slice whose bounds are known only at run time");
    MP_CHECK(new_part(m, 0, 0, &p, err));
    for (int d = 0; d < in->rank; d++) {
        /* for an axis with a single element the step is not used; it may be too large to be multiplied by a stride */
        int64_t n = out->dims[d], step = n > 1 ? slice.step[d] : 1, last = slice.start[d] + (n - 1) * step;
        if (n) p->from_at += slice.start[d] * in->strides[d];
        mp_box_put(&p->box, n, step * in->strides[d], out->strides[d]);
        m->cut.low[d] = !n ? 0 : step > 0 ? slice.start[d] : last;
        m->cut.high[d] = !n ? 0 : step > 0 ? last + 1 : slice.start[d] + 1;
        if (step != 1 && step != -1)
            m->cut.high[d] = m->cut.low[d]; /* with steps above 1, backward first sets all gradients to zero, because skipped
                                               elements have a zero gradient */
        m->cut.any |= m->cut.low[d] > 0 || m->cut.high[d] < in->dims[d];
    }
    return MP_OK;
}

/* ---- operators that repeat or omit elements */

mp_status mp_copies_expand(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_copies_part *p;
    mp_status st = new_part(m, 0, 0, &p, err);
    for (int d = 0; st == MP_OK && d < out->rank; d++) {
        int own = d - (out->rank - in->rank);
        bool repeated = own < 0 || (in->dims[own] == 1 && out->dims[d] != 1);
        mp_box_put(&p->box, out->dims[d], repeated ? 0 : in->strides[own], out->strides[d]);
    }
    return st;
}

/* Describes a Tile: each dimension of the output becomes two loops, over the repetitions and over the input's elements. */
mp_status mp_copies_tile(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_copies_part *p;
    mp_status st = new_part(m, 0, 0, &p, err);
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

/* Return the index, on an axis of n elements, of the element that is copied to position i; i may be outside of [0, n). */
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

/* A range of an output axis of Pad: n elements, starting at index `to`. Their source index in the input starts at `from` and
 * changes by `step` (-1, 0 or 1) per element. */
typedef struct stretch {
    int64_t from, to, step, n;
} stretch;

typedef struct axis_stretches {
    size_t n, capacity;
    stretch *list;
} axis_stretches;

/* Maximum number of elements of an axis padded in a mode other than "constant". A longer list of ranges would take minutes. */
enum { PADDED_MAX = 1 << 26 };

static mp_status add_stretch(axis_stretches *s, stretch one, mp_error *err)
{
    if (!mp_grow(&s->list, &s->capacity, s->n + 1, sizeof *s->list)) return MP_FAIL(err, MP_NOMEM, "out of memory");
    s->list[s->n++] = one;
    return MP_OK;
}

static mp_status cut_axis(int mode, int64_t n, int64_t before, int64_t n_out, axis_stretches *s, mp_error *err)
{
    if (mode == 0) { /* element o of the output is element o - before of the input (before: padded elements at the start), if
                        both elements exist */
        const int64_t first = before > 0 ? before : 0, last = n_out - before < n ? n_out : before + n;
        return last > first ? add_stretch(s, (stretch){first - before, first, 1, last - first}, err) : MP_OK;
    }
    MP_ENSURE(n_out <= PADDED_MAX, err, MP_UNSUPPORTED, "padding an axis to %" PRId64 " elements is not supported here", n_out);
    for (int64_t o = 0; n > 0 && o < n_out;) {
        const int64_t from = modes[mode].source(o - before, n);
        int64_t step = 1, count = 1;
        if (o + 1 < n_out) {
            int64_t next = modes[mode].source(o + 1 - before, n);
            if (next - from >= -1 && next - from <= 1) step = next - from;
        }
        while (o + count < n_out && modes[mode].source(o + count - before, n) == from + count * step) count++;
        MP_CHECK(add_stretch(s, (stretch){from, o, step, count}, err));
        o += count;
    }
    return MP_OK;
}

/* Reads the number of padded elements before each axis of the input. */
static mp_status read_pads(const mp_operands *x, int rank, int64_t *before, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    const int64_t *pads, *axes = NULL;
    size_t n, n_axes = 0;
    MP_CHECK(mp_moved_integers(&reader, x->op->version < 2 ? "paddings" : "pads", 11, 1, &pads, &n));
    if (x->op->version >= 18) MP_CHECK(mp_infer_integers(&reader, 3, &axes, &n_axes));
    if (reader.missing_value >= 0 || !pads) return MP_NO_KERNEL(x, err, "padding by an amount that is known only at run time");
    for (int d = 0; d < rank; d++) before[d] = axes ? 0 : pads[d];
    for (size_t k = 0; axes && k < n_axes; k++) before[axes[k] < 0 ? axes[k] + rank : axes[k]] = pads[k];
    return MP_OK;
}

/* Sets the padding constant: up to operator set 10 an attribute; later input 2, or 0 if it is absent. */
static mp_status read_value(const mp_operands *x, mp_copies *m, mp_error *err)
{
    mp_dtype dtype = x->in[0].dtype;
    float value = x->op->version < 11 ? (float)mp_operator_float(x->op, "value", 0) : 0;
    m->filler = x->op->version < 11 ? -1 : 2;
    if (value == 0) return MP_OK;
    if (!mp_is_real(dtype)) return MP_NO_KERNEL(x, err, "a value of this type to pad with");
    mp_store_float(&m->value, dtype, 0, value);
    return MP_OK;
}

/* Adds a part (a box to copy) for every combination that takes one range per axis. */
static mp_status combine(mp_copies *m, const mp_array *in, const mp_array *out, const axis_stretches *axes, mp_error *err)
{
    int64_t n = 1;
    for (int d = 0; d < in->rank; d++) n *= (int64_t)axes[d].n;
    for (int64_t k = 0; k < n; k++) {
        mp_copies_part *p;
        int64_t rest = k;
        MP_CHECK(new_part(m, 0, 0, &p, err));
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

static void axes_free(axis_stretches (*axes)[MP_ARRAY_RANK])
{
    for (int d = 0; d < MP_ARRAY_RANK; d++) mp_free((*axes)[d].list);
}

mp_status mp_copies_pad(const mp_operands *x, mp_copies *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    const char *name = mp_operator_text(x->op, "mode", "constant");
    MP_CLEARED_BY(axes_free) axis_stretches axes[MP_ARRAY_RANK] = {0};
    int64_t before[MP_ARRAY_RANK];
    int mode = -1;
    for (int k = 0; k < (int)(sizeof modes / sizeof *modes); k++)
        if (!strcmp(modes[k].mode, name)) mode = k;
    MP_ENSURE(mode >= 0, err, MP_UNSUPPORTED, "%s ('%s'): mode '%s' is not supported here", x->op->kind, x->op->name, name);
    MP_CHECK(read_pads(x, in->rank, before, err));
    MP_CHECK(read_value(x, m, err));
    m->overlaps = mode > 0;
    for (int d = 0; d < in->rank; d++) {
        MP_ENSURE(mode == 0 || in->dims[d] || !out->dims[d], err, MP_UNSUPPORTED,
                  "%s ('%s'): padding an empty axis is not supported here", x->op->kind, x->op->name);
        MP_CHECK(cut_axis(mode, in->dims[d], before[d], out->dims[d], &axes[d], err));
        if (mode > 0) continue;
        const stretch none = {0}, *s = axes[d].n ? axes[d].list : &none;
        m->cut.low[d] = s->from;
        m->cut.high[d] = s->from + s->n;
        m->pad.low[d] = s->to;
        m->pad.high[d] = s->to + s->n;
        m->cut.any |= s->n < in->dims[d];
        m->pad.any |= s->n < out->dims[d];
    }
    MP_CHECK(combine(m, in, out, axes, err));
    /* if the part (a box) copies no element of the input, the input's gradient is zero, and the kernel must still write it */
    if (!m->n_parts) {
        mp_copies_part *p;
        MP_CHECK(new_part(m, 0, 0, &p, err));
        mp_box_put(&p->box, 0, in->rank ? 1 : 0, 1);
    }
    return MP_OK;
}
