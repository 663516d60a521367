/* needs_report.h - the memory that a process requires on a card, as a sentence and as JSON. The card is unknown if
 * process_bytes is at most 0. */
#pragma once

#include <jansson.h>

#include "memplan/workloads/workload_needs.h"

/* Prints "Needs: tensors 6.81 GiB, reserved 7.12 GiB, process 7.50 GiB; 19 of 20 such jobs run in 7.60 GiB". `title` is the
 * first word or words, here "Needs". Prints nothing if the card is unknown. */
void report_needs(const mp_needs *needs, const char *title);
/* Returns "a100: 19 of 20 such jobs run in 23.01 GiB of 79.15 GiB", or without measured jobs "a100, assumed to need at most
 * ...". The card must be known. mp_text allocates the text. */
const char *needs_verdict(const mp_needs *needs, const char *device);
/* Returns the number of lines that report_needs prints at 80 columns; 0: the card is unknown. */
int needs_lines(const mp_needs *needs);
/* Returns the needs as a new JSON reference, which is JSON null if the card is unknown; NULL: out of memory. */
json_t *needs_json(const mp_needs *needs);
