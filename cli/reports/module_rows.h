/* module_rows.h - what each module of a model keeps, trains and takes: a table of few rows. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* Prints at most `rows` lines: modules told apart as deeply as that allows, blocks that follow each other and are equal as one
 * line, and where even the outermost modules are too many, the first by `sort` and the rest as one. `sort`: "kept",
 * "parameters" or "time", the most first, or "name"; NULL: in the order of the network, and where they are too many those that
 * keep the most. Nothing where names tell of no modules. MP_NOMEM. */
mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, const char *sort, mp_error *err);
/* Returns the outermost modules, a new reference. NULL if memory is short. */
json_t *modules_json(const mp_graph *graph, const mp_summary *summary);
/* Adds up the parameters of each operator of the summary; each counts for the operator that reads it first. On MP_OK release
 * *bytes with mp_free. MP_NOMEM. */
mp_status operator_parameters(const mp_graph *graph, const mp_summary *summary, int64_t **bytes, mp_error *err);
/* Returns what rows are sorted by, the most first; 0 if by name. */
int64_t module_rank(const char *sort, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks);
