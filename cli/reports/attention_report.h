/* attention_report.h - who computes a program's attention, and why: on a GPU, which of two ways it is makes a factor of ten. */
#pragma once

#include <jansson.h>

#include "memplan/program.h"
#include "memplan/simplify.h"

/* "  attention: 12 in cuDNN, 0 in own kernels", and a line for every reason. Both do nothing where a backend has one way only,
 * where there is no attention, and without a program (NULL). */
void report_attention(const mp_program *program);
/* The same as "attention" of *json, as mp_json_set does it. */
void attention_json(const mp_program *program, json_t **json);

/* "Attention: 12 recognised, 2 written out ...", with what stands in the way of the first of those; nothing where there is
 * none. */
void report_attention_form(const mp_attention_report *form);
/* The same as an object, a new reference; NULL: memory is short. */
json_t *attention_form_json(const mp_attention_report *form);
