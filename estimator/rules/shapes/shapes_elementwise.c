/* shapes_elementwise.c - shape rules of elementwise operators, with and without broadcasting. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* Gives every output the type and shape of input 0. */
mp_status mp_shape_same(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    for (int k = 0; k < c->op->n_out; k++) MP_CHECK(mp_infer_like(c, k, x));
    return MP_OK;
}

/* Shape of PRelu: Y has X's type and shape. Before operator set 7 the slope has one element or one per channel; later
 * versions broadcast it. */
mp_status mp_shape_prelu(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0), *slope = mp_infer_in(c, 1);
    bool fits = mp_tensor_elements(slope) == 1 || (slope->rank == 1 && x->rank > 1 && slope->dims[0] == x->dims[1]);
    MP_FIT(c->op->version >= 7 || fits, "'%s' is neither one number nor one for each channel of '%s'", slope->name, x->name);
    return mp_infer_like(c, 0, x);
}

/* Shape of an added bias: Y has X's type and shape. The bias is a vector with one element per index of the last dimension. */
mp_status mp_shape_biased(mp_infer *c)
{
    const mp_tensor *x, *bias;
    MP_CHECK(mp_rule_input(c, 0, mp_infer_in(c, 1) ? 1 : 0, -1, &x));
    if (mp_infer_in(c, 1)) {
        MP_CHECK(mp_rule_input(c, 1, 1, 1, &bias));
        MP_FIT(bias->dims[0] == x->dims[x->rank - 1], "the bias '%s' has %" PRId64 " elements for rows of %" PRId64, bias->name,
               bias->dims[0], x->dims[x->rank - 1]);
    }
    return mp_infer_like(c, 0, x);
}

/* Sets output 0 to the shape to which all operands broadcast. */
static mp_status broadcast(mp_infer *c, mp_dtype dtype)
{
    int rank = 0;
    int64_t dims[MP_RANK_MAX];
    for (int k = 0; k < c->op->n_in; k++) {
        int operand_rank;
        int64_t operand[MP_RANK_MAX];
        MP_CHECK(mp_infer_operand(c, k, &operand_rank, operand));
        MP_FIT(mp_rule_broadcast(dims, rank, operand, operand_rank, dims, &rank),
               "the shape of '%s' does not broadcast with the operands before it", mp_infer_in(c, k)->name);
    }
    return mp_infer_set(c, 0, dtype, rank, dims);
}

mp_status mp_shape_broadcast(mp_infer *c)
{
    return broadcast(c, mp_infer_in(c, 0)->dtype);
}

mp_status mp_shape_compare(mp_infer *c)
{
    return broadcast(c, MP_DTYPE_BOOL);
}

mp_status mp_shape_where(mp_infer *c)
{
    return broadcast(c, mp_infer_in(c, 1)->dtype);
}

mp_status mp_shape_predicate(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    return mp_infer_set(c, 0, MP_DTYPE_BOOL, x->rank, x->dims);
}

/* Returns the element type that the attribute `to` states: a number, or before operator set 6 a word ("FLOAT"). */
static mp_dtype cast_target(const mp_operator *op)
{
#define WORD(name, number, text, bits) {MP_DTYPE_##name, #name},
    static const struct {
        mp_dtype dtype;
        const char *word;
    } words[] = {MP_DTYPE_LIST(WORD)};
#undef WORD
    int64_t number = mp_operator_int(op, "to", MP_DTYPE_UNDEFINED);
    const char *text = mp_operator_text(op, "to", "");
    for (size_t k = 1; k < sizeof words / sizeof *words;
         k++) /* index 0 of the words is UNDEFINED, which is not a valid type for a Cast */
        if (words[k].dtype == number || !strcmp(words[k].word, text)) return words[k].dtype;
    return MP_DTYPE_UNDEFINED;
}

mp_status mp_shape_cast(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    mp_dtype to = cast_target(c->op);
    MP_FIT(to != MP_DTYPE_UNDEFINED, "the attribute 'to' names no element type");
    return mp_infer_set(c, 0, to, x->rank, x->dims);
}

mp_status mp_shape_cast_like(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    return mp_infer_set(c, 0, mp_infer_in(c, 1)->dtype, x->rank, x->dims);
}

mp_status mp_shape_dropout(mp_infer *c)
{
    const mp_tensor *x = mp_infer_in(c, 0);
    MP_CHECK(mp_infer_like(c, 0, x));
    return mp_infer_set(c, 1, c->op->version < 10 ? x->dtype : MP_DTYPE_BOOL, x->rank, x->dims);
}
