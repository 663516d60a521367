/* shape_rule.c - helpers for the shape rules of operators: reading operands, axes, broadcasting, and errors. */
#include "estimator/model/shape_rule.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

mp_status mp_rule_raise(const mp_infer *c, mp_status code, const char *source, int source_line, const char *format, ...)
{
    char rest[sizeof c->err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof rest, format, args);
    va_end(args);
    return mp_raise(c->err, code, source, source_line, "%s '%s': %s", c->op->kind, c->op->name, rest);
}

mp_tensor *mp_infer_in(mp_infer *c, int k)
{
    return mp_operator_in(c->model, c->op, k);
}

mp_tensor *mp_infer_out(mp_infer *c, int k)
{
    return mp_operator_out(c->model, c->op, k);
}

const mp_value *mp_infer_value(mp_infer *c, int k)
{
    static const mp_value nothing;
    const mp_tensor *t = mp_infer_in(c, k);
    if (!t) return NULL;
    if (t->value) return t->value;
    if (t->rank >= 0 && mp_tensor_elements(t) == 0 && mp_dtype_bits(t->dtype)) return &nothing;
    c->missing_value = c->op->in[k];
    return NULL;
}

mp_status mp_infer_integers(mp_infer *c, int k, const int64_t **list, size_t *n)
{
    static const int64_t none;
    const mp_value *v = mp_infer_value(c, k);
    if (v && v->n && v->is_real) return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, "input %d is not of integers", k);
    *list = !v ? NULL : v->n ? v->i : &none;
    *n = v ? (size_t)v->n : 0;
    return MP_OK;
}

mp_status mp_infer_set(mp_infer *c, int k, mp_dtype dtype, int rank, const int64_t *dims)
{
    if (!mp_infer_out(c, k)) return MP_OK;
    mp_error e = {0};
    mp_status st = mp_tensor_set(c->model, c->op->out[k], dtype, rank, dims, &e);
    return st == MP_OK ? st : mp_rule_raise(c, st, e.source, e.source_line, "%s", e.message);
}

mp_status mp_infer_like(mp_infer *c, int k, const mp_tensor *x)
{
    return mp_infer_set(c, k, x->dtype, x->rank, x->dims);
}

mp_status mp_infer_defer(mp_infer *c, int k, mp_dtype dtype)
{
    mp_tensor *t = mp_infer_out(c, k);
    if (t) t->dtype = dtype;
    return MP_OK;
}

mp_status mp_infer_operand(mp_infer *c, int k, int *rank, int64_t *dims)
{
    const mp_tensor *t = mp_infer_in(c, k), *first = mp_infer_in(c, 0);
    *rank = t->rank;
    for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
    if (k == 0 || c->op->version >= 7 || !mp_operator_int(c->op, "broadcast", 0)) return MP_OK;
    int64_t axis = mp_operator_int(c->op, "axis", first->rank - t->rank);
    if (axis < 0) axis += first->rank;
    if (axis < 0 || axis > first->rank - t->rank)
        return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, "%d dimensions do not fit under %d from axis %lld on", t->rank,
                             first->rank, (long long)axis);
    *rank = first->rank - (int)axis;
    for (int d = t->rank; d < *rank; d++) dims[d] = 1;
    return MP_OK;
}

mp_status mp_rule_input(mp_infer *c, int k, int min_rank, int max_rank, const mp_tensor **tensor)
{
    const mp_tensor *t = mp_infer_in(c, k);
    MP_FIT(t, "input %d is missing", k);
    MP_FIT(t->rank >= min_rank && (max_rank < 0 || t->rank <= max_rank), "input '%s' has %d dimensions instead of %s%d",
           t->name, t->rank,
           max_rank == min_rank ? ""
           : t->rank < min_rank ? "at least "
                                : "at most ",
           t->rank < min_rank ? min_rank : max_rank);
    *tensor = t;
    return MP_OK;
}

mp_status mp_rule_axis(const mp_infer *c, int64_t axis, int rank, int *normalized)
{
    MP_FIT(axis >= -rank && axis < rank, "there is no axis %" PRId64 " in %d dimensions", axis, rank);
    *normalized = (int)(axis < 0 ? axis + rank : axis);
    return MP_OK;
}

bool mp_rule_broadcast(const int64_t *a, int rank_a, const int64_t *b, int rank_b, int64_t *out, int *rank_out)
{
    int rank = rank_a > rank_b ? rank_a : rank_b;
    if (rank > MP_RANK_MAX) return false;
    for (int k = 1; k <= rank; k++) {
        int64_t p = k <= rank_a ? a[rank_a - k] : 1, q = k <= rank_b ? b[rank_b - k] : 1;
        if (p != q && p != 1 && q != 1) return false;
    }
    int64_t sizes[MP_RANK_MAX];
    for (int k = 1; k <= rank; k++) {
        int64_t p = k <= rank_a ? a[rank_a - k] : 1, q = k <= rank_b ? b[rank_b - k] : 1;
        sizes[rank - k] = p == 1 ? q : p;
    }
    for (int k = 0; k < rank; k++) out[k] = sizes[k];
    *rank_out = rank;
    return true;
}

const char *mp_rule_shape_text(const int64_t *dims, int rank, char text[MP_SHAPE_TEXT])
{
    int length = snprintf(text, MP_SHAPE_TEXT, "[");
    for (int k = 0; k < rank && length < MP_SHAPE_TEXT - 32; k++)
        length += snprintf(text + length, (size_t)(MP_SHAPE_TEXT - length), "%s%" PRId64, k ? ", " : "", dims[k]);
    snprintf(text + length, (size_t)(MP_SHAPE_TEXT - length), "]");
    return text;
}
