/* module_rows.h - kept bytes, parameters and time per module of a model, as a short table. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* Prints at most `rows` lines. Modules are listed to the greatest depth that allows this. Consecutive equal blocks are one
 * line. If even the outermost modules are too many, prints the first ones by `sort` and the rest as one line. `sort`: "kept",
 * "parameters" or "time", largest first, or "name". NULL: network order, but the largest by kept bytes if there are too many.
 * Prints nothing if the names contain no modules. MP_NOMEM. */
mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, const char *sort, mp_error *err);
/* Returns the outermost modules as a new reference; NULL if out of memory. */
json_t *modules_json(const mp_graph *graph, const mp_summary *summary);
/* Computes the parameter bytes of each operator of the summary. A parameter counts for the first operator that reads it. On
 * MP_OK release *bytes with mp_free. MP_NOMEM. */
mp_status operator_parameters(const mp_graph *graph, const mp_summary *summary, int64_t **bytes, mp_error *err);
/* Returns the key of a row for sorting in descending order; 0 if rows are sorted by name. */
int64_t module_rank(const char *sort, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks);
