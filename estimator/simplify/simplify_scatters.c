/* simplify_scatters.c - scattering that keeps the largest, the smallest or the product becomes an operator of its own.
 *
 * The gradients of plain scattering and of adding need the indices alone; those of the other reductions also need the data and
 * the updates. A row of ops.def has one list of needs, so these have rows of their own, of the same names in the
 * domain `memplan`.
 */
#include <string.h>

#include "estimator/simplify/rewrite.h"

static mp_status name_apart(mp_rewriter *r, int index)
{
    mp_status st = MP_OK;
    const mp_operator *op = &r->model->operators[index];
    const char *reduction = mp_operator_text(op, "reduction", "none");
    if (!mp_is_kind(op, "ScatterElements") && !mp_is_kind(op, "ScatterND")) goto done;
    if (strcmp(reduction, "max") && strcmp(reduction, "min") && strcmp(reduction, "mul")) goto done;
    const mp_operator_draft draft = {.kind = op->kind,
                                     .domain = "memplan",
                                     .version = 1,
                                     .in = op->in,
                                     .n_in = op->n_in,
                                     .attributes = op->attributes,
                                     .n_attributes = op->n_attributes};
    MP_TRY(mp_rewriter_become(r, index, &draft));
    r->changes++;
done:
    return st;
}

mp_status mp_rewrite_scatters(mp_rewriter *r)
{
    return mp_rewriter_each(r, name_apart);
}
