/* rearrangements.c - every element of the input at another place of the output. */
#include "executor/operators/copies/rearrangements.h"

#include <string.h>

#include "estimator/rules/operands/layout.h"

/* One part over dims with these strides on both sides. */
static mp_status one_part(mp_moving *m, int rank, const int64_t *dims, const int64_t *from, const int64_t *to, mp_error *err)
{
    mp_moving_part *p;
    mp_status st = mp_moving_add(m, 0, 0, &p, err);
    for (int d = 0; st == MP_OK && d < rank; d++) mp_box_put(&p->box, dims[d], from[d], to[d]);
    return st;
}

/* Cuts the dimensions of two arrays into factors that both have; false: they have none in common. */
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

/* The elements in the order of their indices, under other dimensions. */
mp_status mp_moving_reshape(const mp_operands *x, mp_moving *m, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_moving_part *p;
    bool plain_in = mp_array_is_plain(in), plain_out = mp_array_is_plain(out);
    if (plain_in || plain_out) {
        const mp_array *odd = plain_out ? in : out; /* the other one may be seen under these dimensions too */
        mp_array plain = mp_array_plain(odd->dtype, odd->rank, odd->dims);
        return one_part(m, odd->rank, odd->dims, plain_out ? odd->strides : plain.strides,
                        plain_out ? plain.strides : odd->strides, err);
    }
    MP_TRY(mp_moving_add(m, 0, 0, &p, err));
    if (mp_array_elements(in) && !refine(in, out, &p->box))
        st = MP_NO_KERNEL(x, err, "a reshape from one layout that is not plain into another");
done:
    return st;
}

mp_status mp_moving_transpose(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_infer reader = mp_operands_reader(x, err);
    int permutation[MP_RANK_MAX];
    int64_t from[MP_ARRAY_RANK];
    MP_CHECK(mp_permutation_read(&reader, permutation));
    for (int d = 0; d < in->rank; d++) from[d] = in->strides[permutation[d]];
    return one_part(m, out->rank, out->dims, from, out->strides, err);
}

mp_status mp_moving_reorder(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    return one_part(m, out->rank, out->dims, in->strides, out->strides, err);
}

/* Blocks of b x b pixels of `wide` are b * b groups of channels of `deep`, ordered by place and then channel, or (CRD) by
 * channel and then place. */
static mp_status blocks(const mp_operands *x, mp_moving *m, const mp_array *deep, const mp_array *wide, bool into_space,
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

mp_status mp_moving_depth_to_space(const mp_operands *x, mp_moving *m, mp_error *err)
{
    bool channel_first = !strcmp(mp_operator_text(x->op, "mode", "DCR"), "CRD");
    return blocks(x, m, mp_operands_in(x, 0), mp_operands_out(x, 0), true, channel_first, err);
}

mp_status mp_moving_space_to_depth(const mp_operands *x, mp_moving *m, mp_error *err)
{
    return blocks(x, m, mp_operands_out(x, 0), mp_operands_in(x, 0), false, false, err);
}
