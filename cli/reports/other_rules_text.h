/* other_rules_text.h - prints the peak of keep-all under the other rules: PyTorch's or those of memplan's executor. */
#pragma once

#include <jansson.h>

#include "executor/workload/other_rules.h"

/* Returns the peak under the other rules as ", 7.62 GiB in memplan", which mp_text allocates. Returns "" if the peak is
 * unknown or equal to peak_bytes. */
const char *other_rules_text(const mp_other_rules *other, int64_t peak_bytes);
/* Return the program of the other rules, "in PyTorch" or "in memplan", and the option that selects these rules: "--rules
 * pytorch". */
const char *other_rules_name(const mp_other_rules *other);
const char *other_rules_option(const mp_other_rules *other);
/* Returns the peak under the other rules, {"rules": "pytorch", "peak_bytes": N}, as a new reference. JSON null: unknown. NULL:
 * out of memory. */
json_t *other_rules_json(const mp_other_rules *other);
