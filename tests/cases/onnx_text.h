/* onnx_text.h - ONNX graphs written as text, including subgraphs, for tests. Each failure fails the test.
 *
 *     "input x float 2,3; weight w 3,4; int n 3; ints shape 2,12; bool yes 1;"   int, bool: one number, of rank 0
 *     "MatMul x w -> y; Softmax y -> s axis=-1 @first;"                          @: the node's name
 *     "If yes -> z then_branch { Relu s -> t; out t } else_branch { out s }; out z"
 *     "Loop n - x -> y body { formal i c v; Identity c -> d; Add v v -> u; out d u }; out y"
 *
 * A - omits an operand. Attributes are integers or lists of integers, axes=[0,1]. In a subgraph, weight and similar
 * statements define its initializers. No semicolon follows the last `out`.
 */
#pragma once

#include "tests/cases/onnx_builder.h"

/* Adds the text to a started builder. */
void onnx_text(onnx_builder *b, const char *text);
/* Starts a builder in operator set `version` and adds the text. */
void onnx_text_start(onnx_builder *b, int version, const char *text);
/* Parses and reads the model; the caller frees it. */
mp_model *onnx_text_model(int version, const char *text);
/* Parses and reads the text. Reading must fail as described for onnx_refused. */
void onnx_text_refused(int version, const char *text, mp_status expected, const char *words);
