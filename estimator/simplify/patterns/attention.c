/* attention.c - attention that is written out becomes one operator. */
#include "estimator/rules/operands/attention.h"
#include "estimator/model/order.h"
#include "estimator/simplify/patterns/attention_masks.h"
#include "estimator/simplify/patterns/attention_operands.h"
#include "memplan/simplify.h"

static const mp_tensor *tensor_of(const mp_rewriter *r, int t)
{
    return &r->model->tensors[t];
}

static mp_status become(mp_rewriter *r, mp_pattern *pattern, int root, mp_attention_found *f)
{
    mp_attribute a[12];
    const int rank = tensor_of(r, f->q)->rank;
    mp_attention_take_causal(r, f);
    if (r->rules == MP_RULES_PYTORCH) mp_attention_take_out_groups(r, f);
    mp_attention_take_in_operands(r, pattern, f);
    const int in[5] = {f->q, f->k, f->v, f->added, f->positions};
    mp_operator_draft draft = {
        .kind = "ScaledDotProductAttention", .domain = "memplan", .version = 1, .in = in, .attributes = a};
    draft.n_in = f->positions >= 0 ? 5 : f->added >= 0 ? 4 : 3;
    a[draft.n_attributes++] = (mp_attribute){.name = "scale", .kind = MP_ATTRIBUTE_FLOAT, .f = f->scale};
    for (int k = 0; k < 3; k++)
        if (f->has_perm[k])
            a[draft.n_attributes++] = (mp_attribute){
                .name = mp_attention_perm_name(k), .kind = MP_ATTRIBUTE_INTS, .n = (size_t)rank, .ints = f->perm[k]};
    if (f->k_is_turned) a[draft.n_attributes++] = (mp_attribute){.name = "transK", .kind = MP_ATTRIBUTE_INT, .i = 1};
    if (f->is_causal) a[draft.n_attributes++] = (mp_attribute){.name = "causal", .kind = MP_ATTRIBUTE_INT, .i = 1};
    if (f->groups > 1) a[draft.n_attributes++] = (mp_attribute){.name = "groups", .kind = MP_ATTRIBUTE_INT, .i = f->groups};
    if (f->is_safe) a[draft.n_attributes++] = (mp_attribute){.name = "safe", .kind = MP_ATTRIBUTE_INT, .i = 1};
    if (f->ratio > 0) a[draft.n_attributes++] = (mp_attribute){.name = "ratio", .kind = MP_ATTRIBUTE_FLOAT, .f = f->ratio};
    if (f->positions >= 0) {
        a[draft.n_attributes++] = (mp_attribute){.name = "keeps", .kind = MP_ATTRIBUTE_INT, .i = f->keeps};
        a[draft.n_attributes++] = (mp_attribute){.name = "fill", .kind = MP_ATTRIBUTE_FLOAT, .f = f->fill};
    }
    return mp_pattern_fuse(r, pattern, root, &draft);
}

static mp_status fuse_attention(mp_rewriter *r, int root, const bool *has_gradient, mp_attention_report *report)
{
    mp_pattern pattern;
    mp_attention_found found;
    mp_attention_gap gap;
    if (!mp_is_kind(&r->model->operators[root], "MatMul")) return MP_OK;
    if (mp_attention_match(r, root, has_gradient, &pattern, &found, &gap)) return become(r, &pattern, root, &found);
    if (!gap.why || report->n_missed++) return MP_OK;
    report->missed = r->model->operators[root].name;
    report->breaks = gap.tensor >= 0 ? tensor_of(r, gap.tensor)->name : gap.op >= 0 ? r->model->operators[gap.op].name : "";
    report->kind = gap.op >= 0 ? r->model->operators[gap.op].kind : "";
    report->why = gap.why;
    return MP_OK;
}

/* What depends on a parameter, and may have a gradient. */
static void find_gradients(const mp_model *model, bool *has_gradient)
{
    for (size_t t = 0; t < model->n_tensors; t++) has_gradient[t] = model->tensors[t].role == MP_ROLE_PARAMETER;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        bool any = false;
        if (op->removed || !op->op || op->op->gradient == MP_GRADIENT_NONE) continue;
        for (int i = 0; i < op->n_in; i++) any |= op->in[i] >= 0 && has_gradient[op->in[i]];
        for (int o = 0; o < op->n_out; o++)
            if (op->out[o] >= 0) has_gradient[op->out[o]] |= any;
    }
}

mp_status mp_model_fuse_attention(mp_model *model, mp_rules rules, bool mask_gradients, mp_attention_report *report,
                                  mp_error *err)
{
    mp_status st = MP_OK;
    mp_attention_report counted = {0};
    bool *has_gradient = mp_alloc(model->n_tensors, sizeof *has_gradient);
    mp_rewriter r = {.model = model, .n_readers = mp_alloc(model->n_tensors, sizeof *r.n_readers), .rules = rules, .err = err};
    MP_REQUIRE(r.n_readers && has_gradient, err, MP_NOMEM, "no memory to simplify %zu tensors", model->n_tensors);
    mp_rewriter_start(&r);
    if (!mask_gradients || rules == MP_RULES_PYTORCH) find_gradients(model, has_gradient);
    for (size_t k = 0; k < model->n_operators; k++) {
        if (model->operators[k].removed) continue;
        mp_rewriter_update(&r, (int)k);
        MP_TRY(fuse_attention(&r, (int)k, has_gradient, &counted));
        if (mp_is_kind(&model->operators[k], "Transpose")) MP_TRY(mp_attention_take_in_result(&r, (int)k));
    }
    counted.n = r.changes;
    mp_rewriter_start(&r);
    MP_TRY(mp_rewrite_dead(&r));
    mp_rewriter_start(&r);
    MP_TRY(mp_model_sort(model, err));
    if (report) *report = counted;
done:
    mp_free(r.n_readers);
    mp_free(has_gradient);
    return st;
}
