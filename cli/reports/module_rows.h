/* module_rows.h - a short table of modules with kept bytes, parameters and time. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* Prints a table of modules in at most `rows` lines (mp_summary_modules). Prints nothing if the names contain no modules.
 * MP_NOMEM. */
mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, mp_summary_column column,
                         mp_error *err);
/* Returns kept bytes, parameters and time of the outermost modules as a new JSON reference; NULL if out of memory. */
json_t *modules_json(const mp_graph *graph, const mp_summary *summary);
