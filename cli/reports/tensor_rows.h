/* tensor_rows.h - lists many tensors in few lines: by module, with consecutive equal blocks on one line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "memplan/error.h"

/* Prints tensors, grouped by the module in their names, in at most `rows` lines. "/layer1/layer1.0/conv1/Conv_output_0" is in
 * layer1.0.conv1. Modules are listed to the greatest depth for which there are no more lines. Consecutive blocks with the same
 * tensors are one line, "h.0 - h.18  2 each: attn/Softmax, ln_1/Add". `list`: prints every name in full instead. MP_NOMEM. */
mp_status report_tensors(const char *const *names, size_t n, size_t rows, bool list, mp_error *err);
/* True if the number in the module name b[0..m) is one more than in a[0..n): "h.4" after "h.3", "layer2.1" after "layer2.0". */
bool module_is_next(const char *a, size_t n, const char *b, size_t m);
