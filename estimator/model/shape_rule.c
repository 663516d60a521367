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

mp_status mp_rule_input(mp_infer *c, int k, int min_rank, int max_rank, const mp_tensor **tensor)
{
    mp_status st = MP_OK;
    const mp_tensor *t = mp_infer_in(c, k);
    MP_FIT(t, "input %d is missing", k);
    MP_FIT(t->rank >= min_rank && (max_rank < 0 || t->rank <= max_rank), "input '%s' has %d dimensions instead of %s%d",
           t->name, t->rank,
           max_rank == min_rank ? ""
           : t->rank < min_rank ? "at least "
                                : "at most ",
           t->rank < min_rank ? min_rank : max_rank);
    *tensor = t;
done:
    return st;
}

mp_status mp_rule_axis(const mp_infer *c, int64_t axis, int rank, int *normalized)
{
    mp_status st = MP_OK;
    MP_FIT(axis >= -rank && axis < rank, "there is no axis %" PRId64 " in %d dimensions", axis, rank);
    *normalized = (int)(axis < 0 ? axis + rank : axis);
done:
    return st;
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

const char *mp_rule_shape_text(const int64_t *dims, int rank, char room[MP_SHAPE_TEXT])
{
    int length = snprintf(room, MP_SHAPE_TEXT, "[");
    for (int k = 0; k < rank && length < MP_SHAPE_TEXT - 32; k++)
        length += snprintf(room + length, (size_t)(MP_SHAPE_TEXT - length), "%s%" PRId64, k ? ", " : "", dims[k]);
    snprintf(room + length, (size_t)(MP_SHAPE_TEXT - length), "]");
    return room;
}
