/* estimate.h - functions for the sections of the answer of `memplan estimate`. Functions that return JSON return a new
 * reference, or NULL if out of memory. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "memplan/studies/update_effect.h"
#include "memplan/summary.h"
#include "memplan/workloads/savings.h"

/* ---- savings: memory with other options for the same model ---- */

/* Prints the largest savings, at most `most` lines. */
void report_savings(const mp_savings *s, size_t most);
json_t *savings_json(const mp_savings *s);

/* ---- modes of --fuse: memory if optimizer updates run after, within or before the other nodes ---- */

void print_update_comparison(const mp_update_effects *c);
json_t *update_comparison_json(const mp_update_effects *c);

/* ---- --per-op: one row per operator with kept bytes, time and inputs ---- */

/* Prints the table of --per-op. MP_NOMEM. */
mp_status report_operators(const mp_graph *graph, const mp_summary *summary, mp_summary_column column, mp_error *err);
json_t *operators_json(const mp_graph *graph, const mp_summary *summary, mp_summary_column column);
/* Writes the rows of --per-op as CSV to standard output: a header line, then one line per operator with exact integers and
 * seconds. MP_NOMEM. */
mp_status operators_csv(const mp_graph *graph, const mp_summary *summary, mp_summary_column column, mp_error *err);
/* Returns a number of FLOPs as a JSON integer. If it is too large for an integer, returns a real number. */
json_t *flops_json(double flops);
json_t *text_or_null(const char *text);

/* ---- roles of tensors that no operator computes: data, trained, kept or constant, with the rule that decides ---- */

/* Prints the tensors that no operator computes, grouped by role and rule. For each group prints their number and the first
 * names. Of the constants, lists only floating-point tensors that are not settings, because only these could be trained. */
void report_roles(const mp_model *model, const mp_workload_options *o);
json_t *roles_json(const mp_model *model, const mp_workload_options *o);

/* ---- synthetic inputs: the values that memplan generates for each input if a training has no data file for it ---- */

/* Prints a row for each input that an operator reads: shape, type, role, the range of its values, and the operator that
 * determines this range. MP_NOMEM. */
mp_status report_synthetic(const mp_model *model, mp_error *err);
json_t *synthetic_json(const mp_model *model);
