/* interpreter.h - runs a small float model, element by element: the oracle for what rewrites a model.
 *
 * Written from ONNX's definitions and slow. Values of data and parameters are drawn from their index, so that a model before
 * and after a rewrite sees the same ones.
 */
#pragma once

#include "estimator/parallel/split.h"

/* The elements of tensor t after a run, to be released with free; NULL: the operator of this kind is not known here (printed).
 */
double *interpret(const mp_model *model, int tensor);

/* The same of a model that was split over the ranks of a group: all ranks run, and exchange what the split says. `whole` is the
 * model before, of which the tensor is one. Parts are put together; values that each rank has have to be the same on all. */
double *interpret_ranks(const mp_model *whole, const mp_model *part, const mp_split *split, int tensor);

/* Fails a test unless the model's first output is what interpret said before a rewrite, to 1e-9; frees that. `text` names the
 * model. */
void assert_computes(const mp_model *model, double *before, const char *text);
