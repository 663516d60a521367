/* module_rows.h - a short table of modules with kept bytes, parameters and time. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* Prints a table of modules in at most `rows` lines. It chooses the greatest nesting depth with which the table has at most
 * `rows` lines. Successive equal blocks are printed as one line. There may be more outermost modules than lines. Then the first
 * of them in the order of `sort` are printed, and all others are added up in one line. `sort`: "kept", "parameters" or "time",
 * largest first, or "name". NULL: network order; if there are too many modules, the largest by kept bytes. Prints nothing if
 * the names contain no modules. MP_NOMEM. */
mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, const char *sort, mp_error *err);
/* Returns kept bytes, parameters and time of the outermost modules as a new JSON reference; NULL if out of memory. */
json_t *modules_json(const mp_graph *graph, const mp_summary *summary);
/* Computes, per operator of the summary, the bytes of the parameters that it reads. If several operators read a parameter, it
 * counts for the first of them only. On MP_OK release *bytes with mp_free. MP_NOMEM. */
mp_status operator_parameters(const mp_graph *graph, const mp_summary *summary, int64_t **bytes, mp_error *err);
/* Returns the value by which a row is sorted for the column `sort`, largest first; 0 if rows are sorted by name. */
int64_t module_rank(const char *sort, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks);
