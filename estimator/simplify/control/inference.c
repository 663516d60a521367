/* inference.c - operators that are added and taken out while a model is walked over. */
#include "estimator/simplify/control/inference.h"

void mp_inference_remove(mp_inference *w, int index)
{
    mp_operator *op = &w->model->operators[index];
    op->removed = true;
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0 && w->model->tensors[op->out[k]].producer == index) w->model->tensors[op->out[k]].producer = -1;
}

mp_status mp_inference_count(mp_inference *w, int64_t n, const char *name)
{
    w->n_unrolled += n;
    if (w->n_unrolled <= MP_UNROLLED_MAX) return MP_OK;
    return MP_FAIL(w->err, MP_UNSUPPORTED, "unrolling takes more than %d operators (MP_UNROLLED_MAX), at '%s'", MP_UNROLLED_MAX,
                   name);
}

mp_status mp_inference_dynamic(const mp_inference *w, int op, const char *what, int tensor)
{
    const mp_operator *o = &w->model->operators[op];
    return MP_FAIL(w->err, MP_UNSUPPORTED,
                   "%s '%s' depends on data: %s '%s' is known only when the step runs (dynamic control flow)", o->kind, o->name,
                   what, w->model->tensors[tensor].name);
}

static mp_status add(mp_inference *w, const mp_operator_draft *draft)
{
    int index;
    mp_status st = mp_model_operator(w->model, draft, &index, w->err);
    return st == MP_OK ? w->visit(w, index) : st;
}

mp_status mp_inference_emit(mp_inference *w, const mp_operator_draft *draft, const char *stem, int *out)
{
    mp_operator_draft full = *draft;
    MP_CHECK(mp_inference_count(w, draft->n_out, stem));
    for (int k = 0; k < draft->n_out; k++) {
        out[k] = draft->out[k];
        if (out[k] < 0) MP_CHECK(mp_model_fresh_tensor(w->model, stem, &out[k], w->err));
    }
    full.out = out;
    return add(w, &full);
}

mp_status mp_inference_alias(mp_inference *w, int from, int to)
{
    const mp_operator_draft draft = {.kind = "Identity", .version = 1, .in = &from, .out = &to, .n_in = 1, .n_out = 1};
    w->model->tensors[to].sequence = w->model->tensors[from].sequence;
    return w->model->tensors[from].sequence ? MP_OK : add(w, &draft);
}
