/* simplify_apart.c - operators whose gradients read more than those of their kind become operators of their own.
 *
 * A row of ops.def has one list of needs. What fits into none has a second row, of the same name in the domain `memplan`:
 * scattering that keeps the largest, the smallest or the product, whose gradients read more than the indices; activations with
 * a negative factor, whose output does not tell on which side of 0 the input was; and Clip between bounds that are computed,
 * which share the gradient of what is equal to them.
 */
#include <string.h>

#include "estimator/simplify/rewrite.h"

static bool keeps_one(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    const char *reduction = mp_operator_text(op, "reduction", "none");
    return !strcmp(reduction, "max") || !strcmp(reduction, "min") || !strcmp(reduction, "mul");
}

static bool has_negative_factor(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    return mp_operator_float(op, "alpha", 1) < 0 || mp_operator_float(op, "gamma", 1) < 0;
}

static bool has_computed_bound(const mp_rewriter *r, const mp_operator *op)
{
    double c;
    bool computed = false;
    for (int k = 1; k < op->n_in; k++) computed |= op->in[k] >= 0 && !mp_known_scalar(r, op->in[k], &c);
    return computed;
}

static const struct row {
    const char *kind;
    bool (*is_apart)(const mp_rewriter *r, const mp_operator *op);
} rows[] = {{"ScatterElements", keeps_one}, {"ScatterND", keeps_one},      {"LeakyRelu", has_negative_factor},
            {"Elu", has_negative_factor},   {"Selu", has_negative_factor}, {"Clip", has_computed_bound}};

static mp_status name_apart(mp_rewriter *r, int index)
{
    const mp_operator *op = &r->model->operators[index];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!mp_is_kind(op, rows[k].kind) || !rows[k].is_apart(r, op)) continue;
        const mp_operator_draft draft = {.kind = op->kind,
                                         .domain = "memplan",
                                         .version = op->version,
                                         .in = op->in,
                                         .n_in = op->n_in,
                                         .attributes = op->attributes,
                                         .n_attributes = op->n_attributes};
        MP_CHECK(mp_rewriter_become(r, index, &draft));
        r->changes++;
        break;
    }
    return MP_OK;
}

mp_status mp_rewrite_apart(mp_rewriter *r)
{
    return mp_rewriter_each(r, name_apart);
}
