/* module_rows.h - kept bytes, parameters and time per module of a model, as a short table. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* Prints a table of modules in at most `rows` lines. Modules are listed to the greatest depth for which the table has no more
 * lines. Consecutive equal blocks are one line. If there are more outermost modules than lines, the first ones by `sort` are
 * printed, and the rest as one line. `sort`: "kept", "parameters" or "time", largest first, or "name". NULL: network order; if
 * there are too many modules, the largest by kept bytes. Prints nothing if the names contain no modules. MP_NOMEM. */
mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, const char *sort, mp_error *err);
/* Returns the kept bytes, parameters and time of the outermost modules as a new JSON reference; NULL if out of memory. */
json_t *modules_json(const mp_graph *graph, const mp_summary *summary);
/* Computes the parameter bytes of each operator of the summary. A parameter that several operators read counts for the first
 * of them only. On MP_OK release *bytes with mp_free. MP_NOMEM. */
mp_status operator_parameters(const mp_graph *graph, const mp_summary *summary, int64_t **bytes, mp_error *err);
/* Returns the number by which a row is sorted, largest first, for the column `sort`; 0 if rows are sorted by name. */
int64_t module_rank(const char *sort, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks);
