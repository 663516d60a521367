/* interpreter.h - runs a small float model element by element: the oracle for rewrites of models.
 *
 * It is written from ONNX's definitions, and slow. Values of data and parameters depend only on their index, so a model has the
 * same values before and after a rewrite. */
#pragma once

#include "estimator/parallel/split.h"

/* Returns the elements of tensor t after a run; the caller frees them. NULL: an unsupported operator kind (printed). */
double *interpret(const mp_model *model, int tensor);

/* The same for a model split over the ranks of a group. All ranks run, with the exchanges of the split. `tensor` is an index in
 * `whole`, the unsplit model. Parts are concatenated; values held by every rank must be equal. */
double *interpret_ranks(const mp_model *whole, const mp_model *part, const mp_split *split, int tensor);

/* Fails a test unless the model's first output equals `before`, the result of interpret before a rewrite, to 1e-9. Frees
 * `before`. `text` names the model. */
void assert_computes(const mp_model *model, double *before, const char *text);
