/* tensor_rows.h - many tensors in few lines: by module, with equal blocks in a row on one line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "memplan/error.h"

/* Prints tensors by the module that stands in their names ("/layer1/layer1.0/conv1/Conv_output_0" is of layer1.0.conv1), in
 * order, in at most `rows` lines: modules are told apart as deeply as that allows, and blocks that follow each other and have
 * the same tensors are one line ("h.0 - h.18  2 each: attn/Softmax, ln_1/Add"). `list`: every name in full instead. MP_NOMEM.
 */
mp_status report_tensors(const char *const *names, size_t n, size_t rows, bool list, mp_error *err);
/* True if module b[0..m) follows a[0..n) by number: "h.4" after "h.3", "layer2.1" after "layer2.0". */
bool module_is_next(const char *a, size_t n, const char *b, size_t m);
