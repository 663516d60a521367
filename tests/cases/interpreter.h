/* interpreter.h - runs a small float model, element by element: the oracle for what rewrites a model.
 *
 * Written from ONNX's definitions and slow. Values of data and parameters are drawn from their index, so that a model before
 * and after a rewrite sees the same ones.
 */
#pragma once

#include "estimator/model/model.h"

/* The elements of tensor t after a run, to be released with free; NULL: the operator of this kind is not known here (printed).
 */
double *interpret(const mp_model *model, int tensor);

/* Fails a test unless the model's first output is what interpret said before a rewrite, to 1e-9; frees that. `text` names the
 * model. */
void assert_computes(const mp_model *model, double *before, const char *text);
