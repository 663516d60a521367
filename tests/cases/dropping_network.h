/* dropping_network.h - a small network with dropout within and after attention, for tests of random numbers. */
#pragma once

#include "tests/cases/onnx_builder.h"

/* Writes the network and returns its path; onnx_end removes the file. "input" is 2 x 4 x 6 x depth (batch, heads, positions,
 * depth). The output has the same sizes. */
const char *dropping_network(onnx_builder *b, int64_t depth);
