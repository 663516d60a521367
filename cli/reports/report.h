/* report.h - functions for the reports of several commands. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "executor/workload/workload.h"
#include "memplan/program.h"
#include "memplan/simplify.h"
#include "memplan/workloads/other_rules.h"

/* Prints the peak of a timeline: the node at the peak, the largest storages that are live there, and the static memory. Prints
 * one sentence, or one line per item. `node` is the node that runs at the peak step. */
void report_peak(const mp_graph *graph, const mp_timeline *timeline, int node, bool shortly);

/* Return texts that mp_text allocates. static_text returns the static memory by kind, "static: 97.49 MiB (parameters
 * ...)". node_text returns the name of a node, "/fc/Gemm (Gemm forward)". It omits the operator and the phase if the name
 * contains them. */
const char *static_text(const mp_graph *graph);
const char *node_text(const mp_graph *graph, int node);

/* Prints a command's answer as JSON on standard output. The object begins with "format": "memplan-COMMAND-answer" and
 * "version", the version of its schema in docs/reference/schemas. Takes ownership of json (NULL: out of memory). MP_NOMEM,
 * MP_IO. */
mp_status answer_in_json(const char *command, json_t *json, mp_error *err);
/* Prints JSON like answer_in_json. On failure prints an error message. Returns the exit status. */
int print_json(const char *command, json_t *json);

/* Prints how many attention operators of the model run in each kind of kernel, "  attention: 12 in cuDNN, 0 in own kernels",
 * and a line per reason. Prints nothing if the backend has only one kind of kernel, if the model has no attention, or if
 * program is NULL.
 */
void report_attention(const mp_program *program);
/* Sets the field "attention" of *json to the counts and reasons that report_attention prints, as mp_json_set does. */
void attention_json(const mp_program *program, json_t **json);
/* Prints how many tensors have aligned rows, and the bytes between these rows. Prints nothing if there are none, or if program
 * is NULL. */
void report_aligned_rows(const mp_program *program);
/* Sets the field "aligned_rows" of *json to these numbers, as mp_json_set does. */
void aligned_rows_json(const mp_program *program, json_t **json);

/* Prints how many attention blocks of the model memplan recognised as one operator, "Attention: 12 recognised, 2 written out
 * ...". Adds the reason why the first attention block that stays written out was not recognised. Prints nothing if the model
 * has no attention. */
void report_attention_form(const mp_attention_report *form);
/* Returns the counts that report_attention_form prints as a new JSON reference; NULL if out of memory. */
json_t *attention_form_json(const mp_attention_report *form);

/* Prints the sentence of mp_workload_accuracy. Prints nothing for "" and for a warning, which load_workload has printed. */
void report_accuracy(const char *accuracy);
/* Adds the sentence to an answer as "accuracy", unless it is "". */
void accuracy_json(const char *accuracy, json_t **json);

/* Prints the number of ranks and the bytes that the workload's rank sends in a training step.
 * step_seconds: the seconds of a training step; 0: they are not printed. Prints nothing for a single rank. */
void print_rank_traffic(const mp_workload *s, const mp_rank_traffic *sent, double step_seconds);
/* Returns the numbers of print_rank_traffic as a new JSON reference; NULL if out of memory. */
json_t *rank_traffic_json(const mp_workload *s, const mp_rank_traffic *sent, double step_seconds);

/* ---- the peak of keep-all under the other rules: PyTorch's or those of memplan's executor ---- */

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
