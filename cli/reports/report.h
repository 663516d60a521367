/* report.h - what the reports of several commands share. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/reports/subject.h"
#include "memplan/second_stream.h"

/* Prints the name of a module or tensor list, one per line: grouped by the module that stands in the names
 * ("/layer1/layer1.0/conv1/ Conv_output_0" is of layer1.0.conv1), in order. On a terminal long groups are cut short, and `hint`
 * says where all of it is. */
void report_tensors(const char *const *names, size_t n, const char *hint);

/* Prints which node the peak is at, the five largest storages that are live then, and what is always live. `node` runs at the
 * timeline's peak step. */
void report_peak(const mp_graph *graph, const mp_timeline *timeline, int node);

/* Prints what is always live, by kind: "parameters 97.49 MiB, ...". */
void report_static(const mp_graph *graph);

/* Prints a node's name with, unless they stand in it, its operator and phase: "/fc/Gemm (Gemm forward)". */
void report_node(const mp_graph *graph, int node);

/* What --second-stream came to: one line; as JSON, NULL without memory. */
void report_second_stream(const mp_second_stream *effect, double tick_seconds);
json_t *second_stream_json(const mp_second_stream *effect, double tick_seconds);

/* An answer in JSON on standard output; takes the reference. NULL: memory was short, which is said. Returns the exit status. */
int print_json(json_t *json);

#endif
