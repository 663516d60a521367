/* inference_form.h - counts where a file differs from the network in training, or does not say how it was run. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_inference_form {
    int folded_norms; /* batch normalizations that the exporter has folded into other operators (mp_model.folded_norms) */
    int norms;        /* batch normalizations by running statistics */
    int dropouts;     /* dropouts with a ratio over zero that are switched off */
    bool has_dropout; /* there is a dropout, whatever its ratio */
} mp_inference_form;

/* Counts these in a model that is inferred but not yet simplified (which removes dropouts). O(operators). */
mp_inference_form mp_model_inference_form(const mp_model *model);

typedef struct mp_guesses {
    int formulas, loop_operators; /* operators with that mp_guess */
} mp_guesses;

/* Counts the operators with a guess in a simplified model. O(operators). */
mp_guesses mp_model_guesses(const mp_model *model);

/* Batch normalizations written in inference mode train with the statistics of the batch. This makes them arithmetic
 * with the running statistics instead, which then stay fixed while scale and bias learn: y = x a + (bias - mean a) with
 * a = scale / sqrt(variance + epsilon). The model must be inferred, and is inferred again. MP_NOMEM. O(operators). */
mp_status mp_model_keep_inference_norms(mp_model *model, mp_error *err);
