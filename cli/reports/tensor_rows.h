/* tensor_rows.h - prints many tensors in few lines: grouped by module, with successive equal blocks on one line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "memplan/error.h"

/* Prints tensors, grouped by the module in their names, in at most `rows` lines. "/layer1/layer1.0/conv1/Conv_output_0" is in
 * layer1.0.conv1. It chooses the greatest nesting depth of modules with which there are at most `rows` lines. Successive blocks
 * with the same tensors are printed on one line, "h.0 - h.18 2 each: attn/Softmax, ln_1/Add". `list`: instead prints the full
 * name of every tensor. MP_NOMEM. */
mp_status report_tensors(const char *const *names, size_t n, size_t rows, bool list, mp_error *err);
