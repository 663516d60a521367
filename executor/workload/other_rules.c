/* other_rules.c - builds the training graph again under the other rules (PyTorch's or those of memplan's executor), and
 * measures the peak of keep-all under these rules. */
#include "memplan/workloads/other_rules.h"

#include "estimator/training/training.h"
#include "memplan/studies/update_effect.h"

static mp_rules other_than(const mp_workload_options *o)
{
    return mp_rules_find(o->rules) == MP_RULES_PYTORCH ? MP_RULES_EXECUTOR : MP_RULES_PYTORCH;
}

mp_workload_options mp_other_rules_options(const mp_workload_options *o)
{
    mp_workload_options other = *o;
    const mp_rules rules = other_than(o);
    other.rules = mp_rules_name(rules);
    other.costs = NULL;
    other.offload = other.link = (mp_text_list){0}; /* only keep-all without copies is compared under the two sets of rules */
    other.offload_state = false;
    other.adopted = NULL;
    if (rules == MP_RULES_PYTORCH) {
        other.fused_attention = true;
        other.chunk_steps = 0; /* PyTorch does not split sequences of recurrent layers into chunks of time steps */
    }
    return other;
}

mp_status mp_other_rules_at(const mp_workload_options *o, const char *path, int64_t batch, mp_other_rules *out, mp_error *err)
{
    mp_error ours = {0};
    mp_update_effect effect;
    MP_CLEARED_BY(mp_workload_free) mp_workload again = {0};
    mp_workload_options other = mp_other_rules_options(o);
    *out = (mp_other_rules){.rules = other_than(o)};
    if (batch) other.batch = batch;
    if (mp_workload_load(path, &other, &again, &ours) == MP_OK && again.graph->n_nodes <= MP_WORKLOAD_TRIED_NODES &&
        mp_update_effect_of(again.graph, 1, &effect, &ours) == MP_OK) {
        out->is_known = true;
        out->peak_bytes = effect.peak_bytes;
    }
    MP_ENSURE(ours.code != MP_NOMEM, err, MP_NOMEM, "%s", ours.message);
    return MP_OK;
}

mp_status mp_other_rules_of(const mp_workload_options *o, const mp_workload *w, mp_other_rules *out, mp_error *err)
{
    *out = (mp_other_rules){.rules = other_than(o)};
    if (!w->model || w->graph->n_nodes > MP_WORKLOAD_TRIED_NODES) return MP_OK;
    return mp_other_rules_at(o, w->path, 0, out, err);
}
