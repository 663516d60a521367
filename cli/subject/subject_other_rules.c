/* subject_other_rules.c - builds the graph once more under the other rules, and describes the result. */
#include "cli/subject/subject.h"

#include "estimator/training/training.h"
#include "memplan/update_effect.h"

mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err)
{
    mp_error ours = {0};
    mp_update_effect effect;
    MP_CLEARED_BY(subject_free) subject again = {0};
    options asked = *o;
    other_rules other = {.rules = mp_rules_find(o->model.rules) == MP_RULES_PYTORCH ? MP_RULES_EXECUTOR : MP_RULES_PYTORCH};
    *out = other;
    if (!s->model || s->graph->n_nodes > SUBJECT_TRIED_NODES) return MP_OK;
    asked.model.rules = mp_rules_name(other.rules);
    asked.given[OPT_RULES] = false; /* warnings are about the options that the user gave */
    asked.model.costs = NULL;
    asked.model.offload = asked.model.link = (text_list){0}; /* it is about keep-all */
    asked.model.offload_state = false;
    if (other.rules == MP_RULES_PYTORCH) {
        asked.model.fused_attention = true;
        asked.model.chunk_steps = 0; /* PyTorch does not cut sequences */
    }
    if (subject_load(o->operands[0], &asked, &again, &ours) == MP_OK &&
        mp_update_effect_of(again.graph, 1, &effect, &ours) == MP_OK) {
        out->is_known = true;
        out->peak_bytes = effect.peak_bytes;
    }
    MP_ENSURE(ours.code != MP_NOMEM, err, MP_NOMEM, "%s", ours.message);
    return MP_OK;
}

const char *other_rules_name(const other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "in PyTorch" : "in memplan";
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
