/* model_text.h - small models written as text, for tests. Each failure fails the test.
 *
 *     "data x 2 3; param w 3; const half 0.5; ints shape 3 2; int i 1;"   float32, scalars, an int64 vector
 *     "data:10 h 2 3;"                                           of another type (ONNX's number)
 *     "Mul x half -> y; LayerNormalization y w -> z axis=-1;"     operators, each inferred immediately; - omits an operand
 *     "ReduceMean@13 z -> m axes=[0,1] keepdims=1; Gelu@20 z -> g approximate=tanh; out m g"
 *
 * An operator has its first output's name, followed by "/op". Its version is 17, or the number after @. A domain is written
 * before a colon. Attributes: integers, decimal numbers, lists of integers, words. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/training.h"

mp_model *model_text(const char *text);
/* Returns the training graph of a model text on an h100: simplified, with the mean squared error as its loss. */
mp_graph *model_text_graph(const char *text, mp_training_options options);
/* Returns the kinds of the operators in order, separated by blanks: "Mul Gelu". Valid until the next call. */
const char *model_kinds(const mp_model *model);
