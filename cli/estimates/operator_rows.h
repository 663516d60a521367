/* operator_rows.h - what each operator keeps, takes and reads: a table, JSON or CSV. */
#pragma once

#include <jansson.h>

#include "memplan/summary.h"

/* `sort` in all of these: as report_modules has it; NULL: in the order of the network. */

/* --per-op. MP_NOMEM. */
mp_status report_operators(const mp_graph *graph, const mp_summary *summary, const char *sort, mp_error *err);
/* A list of objects. NULL: memory is short. */
json_t *operators_json(const mp_graph *graph, const mp_summary *summary, const char *sort);
/* The same to standard output: their keys, then a line for each, with exact integers and seconds. MP_NOMEM. */
mp_status operators_csv(const mp_graph *graph, const mp_summary *summary, const char *sort, mp_error *err);
/* FLOPs are whole numbers: written as such while they fit. */
json_t *flops_json(double flops);
json_t *text_or_null(const char *text);
