/* other_rules.h - a workload under the other rules: PyTorch's if its graph uses the rules of memplan's executor, otherwise
 * those of memplan's executor. The rules decide which tensors the training step keeps. */
#pragma once

#include "memplan/workload.h"

/* Maximum number of nodes of a graph that is built again with other settings or rules for a comparison. Larger graphs take
 * seconds to build. */
enum { MP_WORKLOAD_TRIED_NODES = 20000 };

typedef struct mp_other_rules {
    bool is_known; /* true: peak_bytes is known; false for a graph file, which has no model, and for very large graphs */
    mp_rules rules;
    int64_t peak_bytes;
} mp_other_rules;

/* Builds the model's training graph again under the other rules, and measures the peak of keep-all. Under PyTorch's rules
 * attention stays one operator and no measured costs are used. If the other rules refuse the model, is_known is false.
 * MP_NOMEM. */
mp_status mp_other_rules_of(const mp_workload_options *o, const mp_workload *w, mp_other_rules *out, mp_error *err);
/* Like mp_other_rules_of, for the model at this path and with this batch size. batch 0: the batch size of the settings. */
mp_status mp_other_rules_at(const mp_workload_options *o, const char *path, int64_t batch, mp_other_rules *out, mp_error *err);
/* Returns a copy of the settings with the other rules, and without measured costs and copies. The copy owns nothing. */
mp_workload_options mp_other_rules_options(const mp_workload_options *o);
