/* attention_masks.c - the values of a mask, or what is known without them. */
#include "estimator/simplify/patterns/attention_masks.h"

#include "estimator/rules/operands/attention.h"

static const mp_tensor *tensor_of(const mp_rewriter *r, int t)
{
    return &r->model->tensors[t];
}

/* Is the element hidden, as a mask with these values has it? 0: kept, 1: hidden, -1: neither. */
static int hidden(const mp_attention_found *f, const mp_value *value, int64_t k, bool is_choice)
{
    if (is_choice) return value->is_real ? -1 : (value->i[k] != 0) != f->keeps;
    double x = value->is_real ? value->f[k] : (double)value->i[k];
    return x == 0 ? 0 : x <= MP_ATTENTION_HIDES ? 1 : -1;
}

/* Are these whole numbers all `wanted`, or not there at all? */
static bool are_all(const mp_rewriter *r, const mp_operator *op, int k, int64_t wanted)
{
    const mp_tensor *t = mp_operator_in(r->model, op, k);
    if (!t) return true;
    bool all = t->value && !t->value->is_real;
    for (int64_t e = 0; all && e < t->value->n; e++) all = t->value->i[e] == wanted;
    return all;
}

/* What is known of a mask without its values, whose first rows and columns may be all that is used. */
static mp_mask mask_of(const mp_rewriter *r, int tensor)
{
    for (int index; (index = mp_producer(r, tensor)) >= 0;) {
        const mp_operator *op = &r->model->operators[index];
        bool from_front = mp_is_kind(op, "Slice") && op->version >= 10 && are_all(r, op, 1, 0) && are_all(r, op, 4, 1);
        if (!from_front && !mp_is_kind(op, "Cast")) return MP_MASK_UNKNOWN;
        tensor = op->in[0];
    }
    return tensor_of(r, tensor)->mask;
}

/* Does the choice hide exactly the columns behind the row, by a mask of which only that is known? */
static bool chooses_past(const mp_rewriter *r, const mp_attention_found *f)
{
    const mp_tensor *t = tensor_of(r, f->positions), *q = tensor_of(r, f->q), *v = tensor_of(r, f->v);
    const int64_t rows = q->dims[q->rank - 2], columns = v->dims[v->rank - 2];
    if (!(f->fill <= MP_ATTENTION_HIDES) || t->rank < 2 || t->dims[t->rank - 2] != rows || t->dims[t->rank - 1] != columns)
        return false;
    return mask_of(r, f->positions) == (f->keeps ? MP_MASK_PAST : MP_MASK_FUTURE);
}

/* Does the mask hide exactly the columns behind the row, for every sample alike? */
static bool hides_what_follows(const mp_rewriter *r, const mp_attention_found *f, int mask, bool is_choice)
{
    const mp_tensor *t = tensor_of(r, mask), *q = tensor_of(r, f->q), *v = tensor_of(r, f->v);
    bool is_fixed = t->role == MP_ROLE_CONSTANT || (is_choice && t->role == MP_ROLE_BUFFER);
    int64_t rows = q->dims[q->rank - 2], columns = v->dims[v->rank - 2];
    if (!is_fixed || !t->value || t->rank < 2 || t->dims[t->rank - 2] != rows || t->dims[t->rank - 1] != columns) return false;
    if (t->value->n != rows * columns || (is_choice && !(f->fill <= MP_ATTENTION_HIDES))) return false;
    for (int64_t k = 0; k < t->value->n; k++)
        if (hidden(f, t->value, k, is_choice) != (k % columns > k / columns)) return false;
    return true;
}

void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *f)
{
    if (f->positions >= 0 && (hides_what_follows(r, f, f->positions, true) || chooses_past(r, f)))
        f->positions = -1, f->is_causal = true;
    if (f->positions < 0 && f->added >= 0 && hides_what_follows(r, f, f->added, false)) f->added = -1, f->is_causal = true;
}
