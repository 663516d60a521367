/* softmax.c - the softmax whose closed rows are zeros, recognised in what exporters write it as.
 *
 *     Softmax(x) -> IsNaN; Where(IsNaN, 0, Softmax(x))
 *
 * A row of which all is masked with -infinity has no probabilities: its softmax is 0 / 0. The file puts zeros there, and the
 * gradient of that is no number, 0 times NaN. The operator gives zeros, and its gradient follows from them: zeros, too.
 */
#include "estimator/simplify/rewrite.h"

/* The operand of IsNaN that Where chooses 0 for; -1: it chooses something else. */
static int made_safe(const mp_rewriter *r, mp_pattern *pattern, const mp_operator *where)
{
    double zero;
    const mp_operator *is_nan = mp_pattern_written_by(r, pattern, where->in[0], "IsNaN");
    if (!is_nan || is_nan->in[0] != where->in[2] || !mp_known_scalar(r, where->in[1], &zero) || zero != 0) return -1;
    return is_nan->in[0];
}

static mp_status fuse_softmax(mp_rewriter *r, int root)
{
    const mp_operator *where = &r->model->operators[root];
    mp_pattern pattern = {.ops = {root}, .n = 1};
    if (!mp_is_kind(where, "Where")) return MP_OK;
    const mp_operator *softmax = mp_pattern_written_by(r, &pattern, made_safe(r, &pattern, where), "Softmax");
    if (!softmax || !mp_pattern_is_closed(r, &pattern, root)) return MP_OK;
    const mp_tensor *x = mp_operator_in(r->model, softmax, 0);
    const int64_t axis = mp_operator_int(softmax, "axis", softmax->version < 13 ? 1 : -1);
    const bool is_last = axis == -1 || axis == x->rank - 1; /* before version 13 what follows the axis was one with it */
    if ((softmax->version < 13 && !is_last) || !mp_same_shape(x, mp_operator_out(r->model, where, 0))) return MP_OK;
    mp_attribute along = {.name = "axis", .kind = MP_ATTRIBUTE_INT, .i = axis};
    const mp_operator_draft draft = {.kind = "SafeSoftmax",
                                     .domain = "memplan",
                                     .version = 1,
                                     .in = &softmax->in[0],
                                     .n_in = 1,
                                     .attributes = &along,
                                     .n_attributes = 1};
    return mp_pattern_fuse(r, &pattern, root, &draft);
}

mp_status mp_rewrite_softmaxes(mp_rewriter *r)
{
    return mp_rewriter_each(r, fuse_softmax);
}
