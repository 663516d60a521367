/* report.h - what the reports of several commands share. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/subject/subject.h"
#include "memplan/program.h"
#include "memplan/second_stream.h"
#include "memplan/simplify.h"

/* Prints which node is at the peak, the largest storages that are live then, and what is always live: in one sentence,
 * or one line each. `node` runs at the timeline's peak step. */
void report_peak(const mp_graph *graph, const mp_timeline *timeline, int node, bool shortly);

/* Return a text as mp_text does: what is always live, by kind, "always there: 97.49 MiB (parameters ...)"; and a node's
 * name with its operator and phase, unless the name has them, "/fc/Gemm (Gemm forward)". */
const char *static_text(const mp_graph *graph);
const char *node_text(const mp_graph *graph, int node);

/* Report the effect of --second-stream: in one line; as JSON, NULL if memory is short. */
void report_second_stream(const mp_second_stream *effect, double tick_seconds);
json_t *second_stream_json(const mp_second_stream *effect, double tick_seconds);

/* Prints the answer of a command as JSON on standard output, headed by "format": "memplan-COMMAND-answer" and the
 * "version" of its schema in docs/reference/schemas. Takes ownership of json (NULL: memory was short). MP_NOMEM, MP_IO. */
mp_status answer_in_json(const char *command, json_t *json, mp_error *err);
/* As answer_in_json, with a sentence if it fails. Returns the exit status. */
int print_json(const char *command, json_t *json);

/* Prints "  attention: 12 in cuDNN, 0 in own kernels", and a line for every reason. Prints nothing if the backend has
 * only one way, if there is no attention, or without a program (NULL). */
void report_attention(const mp_program *program);
/* Sets the counts and reasons of report_attention as "attention" of *json, as mp_json_set does. */
void attention_json(const mp_program *program, json_t **json);

/* Prints "Attention: 12 recognised, 2 written out ...", with the reason of the first that is written out; nothing if
 * there is no attention. */
void report_attention_form(const mp_attention_report *form);
/* Returns the counts of report_attention_form as a new reference. NULL if memory is short. */
json_t *attention_form_json(const mp_attention_report *form);
