/* subject_other_rules.c - builds the training graph again under the other rules (PyTorch's or those of memplan's executor),
 * and reports the peak of keep-all under these rules. */
#include "cli/subject/subject.h"

#include "cli/messages/quantities.h"
#include "estimator/training/training.h"
#include "memplan/update_effect.h"

static mp_rules other_than(const options *o)
{
    return mp_rules_find(o->model.rules) == MP_RULES_PYTORCH ? MP_RULES_EXECUTOR : MP_RULES_PYTORCH;
}

options other_options(const options *o)
{
    options asked = *o;
    const mp_rules rules = other_than(o);
    asked.model.rules = mp_rules_name(rules);
    asked.model.is_second = true;
    asked.model.costs = NULL;
    /* the peaks that are compared are those of keep-all without copies to other tiers */
    asked.model.offload = asked.model.link = (text_list){0};
    asked.model.offload_state = false;
    if (rules == MP_RULES_PYTORCH) {
        asked.model.fused_attention = true;
        asked.model.chunk_steps = 0; /* PyTorch does not divide sequences into chunks, so this option is removed */
    }
    return asked;
}

mp_status other_rules_at(const options *o, const char *path, int64_t batch, other_rules *out, mp_error *err)
{
    mp_error ours = {0};
    mp_update_effect effect;
    MP_CLEARED_BY(subject_free) subject again = {0};
    options asked = other_options(o);
    *out = (other_rules){.rules = other_than(o)};
    if (batch) asked.model.batch = batch;
    if (subject_load(path, &asked, &again, &ours) == MP_OK && again.graph->n_nodes <= SUBJECT_TRIED_NODES &&
        mp_update_effect_of(again.graph, 1, &effect, &ours) == MP_OK) {
        out->is_known = true;
        out->peak_bytes = effect.peak_bytes;
    }
    MP_ENSURE(ours.code != MP_NOMEM, err, MP_NOMEM, "%s", ours.message);
    return MP_OK;
}

mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err)
{
    *out = (other_rules){.rules = other_than(o)};
    if (!s->model || s->graph->n_nodes > SUBJECT_TRIED_NODES) return MP_OK;
    return other_rules_at(o, s->path, 0, out, err);
}

const char *other_rules_name(const other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "in PyTorch" : "in memplan";
}

const char *other_rules_text(const other_rules *other, int64_t peak_bytes)
{
    if (!other->is_known || other->peak_bytes == peak_bytes) return "";
    return mp_text(", %s %s", mp_bytes_text(other->peak_bytes), other_rules_name(other));
}

const char *other_rules_option(const other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "--rules pytorch" : "--rules executor";
}

json_t *other_rules_json(const other_rules *other)
{
    if (!other->is_known) return json_null();
    return json_pack("{s:s, s:I}", "rules", mp_rules_name(other->rules), "peak_bytes", (json_int_t)other->peak_bytes);
}
