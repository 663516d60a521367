/* other_rules.h - the peak with everything kept as the other ones have it: PyTorch, where memplan's own rules were asked for.
 */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "cli/subject/subject.h"

typedef struct other_rules {
    bool is_known; /* a graph file has no model to ask, and one of very many nodes is not built twice */
    mp_rules rules;
    int64_t peak_bytes;
} other_rules;

/* Builds the model's training graph once more, under the rules that the options have not chosen; PyTorch's with attention as
 * its own operator keeps it, and without measured costs. Not known where that is refused; MP_NOMEM. */
mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err);
/* "in PyTorch", "in memplan", and the option that says more of it: "--rules pytorch". */
const char *other_rules_name(const other_rules *other);
const char *other_rules_option(const other_rules *other);
/* {"rules": "pytorch", "peak_bytes": N}, null where it is not known; a new reference. NULL: memory is short. */
json_t *other_rules_json(const other_rules *other);
