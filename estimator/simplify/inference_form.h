/* inference_form.h - what of a network is in a file otherwise than training has it, or is not said there. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_inference_form {
    int folded_norms; /* batch normalizations that the exporter has folded into other operators (mp_model.folded_norms) */
    int norms;        /* batch normalizations by running statistics */
    int dropouts;     /* with a ratio over zero, and switched off */
    bool has_dropout; /* any, whatever its ratio */
} mp_inference_form;

/* Counts them in a model that was inferred and not yet simplified, which takes out dropouts. O(operators). */
mp_inference_form mp_model_inference_form(const mp_model *model);

typedef struct mp_guesses {
    int formulas, loop_operators; /* per mp_guess */
} mp_guesses;

/* Counts them in a model that was simplified. O(operators). */
mp_guesses mp_model_guesses(const mp_model *model);

/* Batch normalizations that are written in inference mode train by the statistics of the batch, unless this is called: it makes
 * each of them arithmetic with the running statistics, which nothing moves then, while scale and bias learn:
 * y = x a + (bias - mean a) with a = scale / sqrt(variance + epsilon). The model is inferred, and it is again afterwards.
 * MP_NOMEM. O(operators). */
mp_status mp_model_keep_inference_norms(mp_model *model, mp_error *err);
