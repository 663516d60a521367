/* report.h - functions shared by the reports of several commands. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/subject/subject.h"
#include "memplan/program.h"
#include "memplan/second_stream.h"
#include "memplan/simplify.h"

/* Prints the node at the peak, the largest storages live there, and the static memory: in one sentence, or on one line each.
 * `node` runs at the timeline's peak step. */
void report_peak(const mp_graph *graph, const mp_timeline *timeline, int node, bool shortly);

/* Each returns a text as mp_text does. The first is the static memory by kind, "always there: 97.49 MiB (parameters ...)". The
 * second is a node's name, followed by its operator and phase unless the name contains them, "/fc/Gemm (Gemm forward)". */
const char *static_text(const mp_graph *graph);
const char *node_text(const mp_graph *graph, int node);

/* Report the effect of --second-stream: on one line; as JSON, NULL if out of memory. */
void report_second_stream(const mp_second_stream *effect, double tick_seconds);
json_t *second_stream_json(const mp_second_stream *effect, double tick_seconds);

/* Prints a command's answer as JSON on standard output. It begins with "format": "memplan-COMMAND-answer" and the "version" of
 * its schema in docs/reference/schemas. Takes ownership of json (NULL: out of memory). MP_NOMEM, MP_IO. */
mp_status answer_in_json(const char *command, json_t *json, mp_error *err);
/* As answer_in_json, with an error message on failure. Returns the exit status. */
int print_json(const char *command, json_t *json);

/* Prints "  attention: 12 in cuDNN, 0 in own kernels", and a line per reason. Prints nothing if the backend has only one kind
 * of kernel, if there is no attention, or without a program (NULL). */
void report_attention(const mp_program *program);
/* Sets "attention" in *json to the counts and reasons of report_attention, as mp_json_set does. */
void attention_json(const mp_program *program, json_t **json);

/* Prints "Attention: 12 recognised, 2 written out ...", with the reason for the first attention that was not recognised. Prints
 * nothing if there is no attention. */
void report_attention_form(const mp_attention_report *form);
/* Returns the counts of report_attention_form as a new reference; NULL if out of memory. */
json_t *attention_form_json(const mp_attention_report *form);
