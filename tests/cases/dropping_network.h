/* dropping_network.h - a small network with dropout, within attention and behind it, for tests of what random numbers do. */
#pragma once

#include "tests/cases/onnx_builder.h"

/* Writes it: "input" is 2 x 4 x 6 x depth numbers (batch, heads, positions), the output has the same sizes. Its path; the file
 * goes with onnx_end. */
const char *dropping_network(onnx_builder *b, int64_t depth);
