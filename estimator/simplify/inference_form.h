/* inference_form.h - counts operators that an exporter wrote in inference mode, so that they differ from the network in
 * training. It also counts operators for which the file does not state how PyTorch executes them. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_inference_form {
    int folded_norms; /* number of batch normalizations that the exporter has folded into other operators
                         (mp_model.folded_norms) */
    int norms;        /* number of batch normalizations in inference mode, which use running statistics */
    int dropouts;     /* number of disabled dropout operators whose ratio is positive */
    bool has_dropout; /* true if the model has a dropout operator of any ratio */
    bool has_softmax; /* true if the model has a softmax over the last dimension of a tensor of rank 3 or more, as in attention
                       */
    bool drops_rows;  /* true if a dropout that is not disabled reads the result of a softmax over the last dimension
                         (has_softmax) */
    bool may_lose;    /* true if PyTorch's newer exporter wrote the file; this exporter omits the dropout of
                         scaled_dot_product_attention */
} mp_inference_form;

/* Returns the signs that a model was exported for inference. Call it before simplification, which removes dropouts.
 * O(operators). */
mp_inference_form mp_model_inference_form(const mp_model *model);

typedef struct mp_guesses {
    /* formulas: number of operators with mp_guess MP_GUESS_FORMULA; loop_operators: number with MP_GUESS_LOOP */
    int formulas, loop_operators;
} mp_guesses;

/* Counts the operators of a simplified model by their mp_guess. O(operators). */
mp_guesses mp_model_guesses(const mp_model *model);

/* Makes batch normalizations in inference mode use their running statistics in training too. Without this call, training
 * uses batch statistics. Each normalization is replaced by arithmetic operators with fixed mean and variance; scale and bias
 * are trained: y = x a + (bias - mean a) with a = scale / sqrt(variance + epsilon). The model must be inferred, and is
 * inferred again. MP_NOMEM. O(operators). */
mp_status mp_model_keep_inference_norms(mp_model *model, mp_error *err);
