/* unsupported.c - operators without a row, by kind. */
#include "estimator/simplify/control/unsupported.h"

#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/model/refused_kinds.h"
#include "estimator/simplify/control/tensor_sequences.h"

static const mp_op *row_of(const mp_operator *op)
{
    return mp_op_find(strcmp(op->domain, "ai.onnx") ? op->domain : "", op->kind, op->version);
}

static bool lacks_row(const mp_operator *op)
{
    return !op->removed && !op->control && !mp_is_sequence_operator(op) && !row_of(op);
}

static mp_status refuse(const mp_refused_kinds *refused, mp_error *err)
{
    char text[MP_REFUSED_TEXT];
    return MP_FAIL(err, MP_UNSUPPORTED, "the model has operators that are not supported: %s; the first one is node '%.120s'",
                   mp_refused_kinds_text(refused, text), refused->kinds[0].node);
}

/* Does a branch of an If stand around this region? */
static bool is_conditional(const mp_model *model, const bool *is_branch, int region)
{
    for (; region; region = model->regions[region].outer)
        if (is_branch[region]) return true;
    return false;
}

mp_status mp_model_check_supported(const mp_model *model, mp_error *err)
{
    mp_status st = MP_OK;
    mp_refused_kinds refused = {.n_kinds = 0};
    bool *is_branch = mp_alloc(model->n_regions + 1, sizeof *is_branch);
    MP_REQUIRE(is_branch, err, MP_NOMEM, "no memory for %zu subgraphs", model->n_regions);
    for (size_t k = 0; k < model->n_operators; k++)
        if (model->operators[k].regions[1])
            is_branch[model->operators[k].regions[0]] = is_branch[model->operators[k].regions[1]] = true;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (lacks_row(op) && !is_conditional(model, is_branch, op->region)) mp_refused_kinds_add(&refused, op);
    }
    if (refused.n_kinds) MP_TRY(refuse(&refused, err));
done:
    mp_free(is_branch);
    return st;
}

mp_status mp_operators_check_supported(const mp_model *model, const int *list, size_t n, mp_error *err)
{
    mp_refused_kinds refused = {.n_kinds = 0};
    for (size_t k = 0; k < n; k++)
        if (lacks_row(&model->operators[list[k]])) mp_refused_kinds_add(&refused, &model->operators[list[k]]);
    return refused.n_kinds ? refuse(&refused, err) : MP_OK;
}

mp_status mp_operator_find_row(mp_operator *op, mp_error *err)
{
    mp_refused_kinds refused = {.n_kinds = 0};
    op->op = row_of(op);
    if (op->op) return MP_OK;
    mp_refused_kinds_add(&refused, op);
    return refuse(&refused, err);
}
