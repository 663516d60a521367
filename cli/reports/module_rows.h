/* module_rows.h - kept bytes, parameters and time of each module of a model, as a table of few rows. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* Prints at most `rows` lines: modules are told apart as deeply as that allows, equal blocks in a row are one line, and
 * if even the outermost modules are too many, the first by `sort` are printed and the rest as one line. `sort`: "kept",
 * "parameters" or "time", largest first, or "name"; NULL: network order, and if there are too many the largest by kept.
 * Prints nothing if names have no modules. MP_NOMEM. */
mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, const char *sort, mp_error *err);
/* Returns the outermost modules as a new reference. NULL if memory is short. */
json_t *modules_json(const mp_graph *graph, const mp_summary *summary);
/* Adds up the parameters of each operator of the summary; a parameter counts for the operator that reads it first. On
 * MP_OK release *bytes with mp_free. MP_NOMEM. */
mp_status operator_parameters(const mp_graph *graph, const mp_summary *summary, int64_t **bytes, mp_error *err);
/* Returns the number by which rows are sorted in descending order; 0 if they are sorted by name. */
int64_t module_rank(const char *sort, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks);
