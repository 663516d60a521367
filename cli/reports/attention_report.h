/* attention_report.h - who computes a program's attention, and why: on a GPU, which of two ways it is makes a factor of ten. */
#ifndef CLI_ATTENTION_REPORT_H
#define CLI_ATTENTION_REPORT_H

#include <jansson.h>

#include "memplan/program.h"

/* "  attention: 12 in cuDNN, 0 in own kernels", and a line for every reason. Both do nothing where a backend has one way only,
 * where there is no attention, and without a program (NULL). */
void report_attention(const mp_program *program);
/* The same as "attention" of *json, as mp_json_set does it. */
void attention_json(const mp_program *program, json_t **json);

#endif
