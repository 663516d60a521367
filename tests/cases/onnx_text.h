/* onnx_text.h - ONNX graphs written as text, subgraphs included, for tests. Every failure is a failed test.
 *
 *     "input x float 2,3; weight w 3,4; int n 3; ints shape 2,12; bool yes 1;"   int, bool: one number, of rank 0
 *     "MatMul x w -> y; Softmax y -> s axis=-1 @first;"                          @: the node's name
 *     "If yes -> z then_branch { Relu s -> t; out t } else_branch { out s }; out z"
 *     "Loop n - x -> y body { formal i c v; Identity c -> d; Add v v -> u; out d u }; out y"
 *
 * - leaves an operand out. Attributes are integers or lists of integers, axes=[0,1]. Within a subgraph, weight and the like are
 * its initializers. The last `out` is followed by no semicolon.
 */
#pragma once

#include "tests/cases/onnx_builder.h"

/* Adds the text to a builder that has been started. */
void onnx_text(onnx_builder *b, const char *text);
/* A started builder with it, in operator set `version`. */
void onnx_text_start(onnx_builder *b, int version, const char *text);
/* Reads it; the model, to be freed. */
mp_model *onnx_text_model(int version, const char *text);
/* Reads it, which has to fail as onnx_refused says. */
void onnx_text_refused(int version, const char *text, mp_status expected, const char *words);
