/* needs_report.h - the memory that a process requires on a card, as a sentence and as JSON. All functions do nothing, or return
 * JSON null, if the card is unknown (process_bytes is at most 0). */
#pragma once

#include <jansson.h>

#include "memplan/workloads/workload_needs.h"

/* Prints "Needs: tensors 6.81 GiB, reserved 7.12 GiB, process 7.50 GiB; 19 of 20 such jobs run in 7.60 GiB". `title`: "Needs".
 */
void report_needs(const mp_needs *needs, const char *title);
/* Returns "a100: 19 of 20 such jobs run in 23.01 GiB of 79.15 GiB", or without measured jobs "a100, assumed to need at most
 * ...". mp_text allocates it. */
const char *needs_verdict(const mp_needs *needs, const char *device);
/* Returns the number of lines that report_needs prints at 80 columns. */
int needs_lines(const mp_needs *needs);
/* Returns the needs as a new JSON reference; NULL: out of memory. */
json_t *needs_json(const mp_needs *needs);
