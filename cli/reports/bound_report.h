/* bound_report.h - what `memplan plan --explain-bound` says: what each stage of the bound proved, and where memory is short. */
#pragma once

#include <jansson.h>

#include "cli/reports/plan_report.h"

/* Prints the explanation for people. */
void print_bound_explanation(const outcome *out);

/* The same as a JSON object, null where nothing is proved; NULL: out of memory. */
json_t *bound_json(const outcome *out);
