/* inference_form.h - counts operators of a file that differ from the network in training, or whose execution the file does not
 * state. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_inference_form {
    int folded_norms; /* batch normalizations folded by the exporter into other operators (mp_model.folded_norms) */
    int norms;        /* batch normalizations in inference mode, with running statistics */
    int dropouts;     /* number of disabled dropouts with a positive ratio */
    bool has_dropout; /* true if there is a dropout of any ratio */
    bool has_softmax; /* true if there is a softmax over the last dimension of a tensor of rank 3 or more, as in attention */
    bool drops_rows;  /* true if an enabled dropout reads the result of such a softmax */
    bool may_lose;    /* true for the newer exporter of PyTorch, which removes the dropout of scaled_dot_product_attention */
} mp_inference_form;

/* Returns the counts for an inferred model before simplification, because simplification removes dropouts. O(operators). */
mp_inference_form mp_model_inference_form(const mp_model *model);

typedef struct mp_guesses {
    int formulas, loop_operators; /* number of operators whose guess (mp_guess) is MP_GUESS_FORMULA, and MP_GUESS_LOOP */
} mp_guesses;

/* Counts the operators with a guess in a simplified model. O(operators). */
mp_guesses mp_model_guesses(const mp_model *model);

/* Keeps the running statistics of batch normalizations in inference mode; without this call training uses batch statistics.
 * Each becomes arithmetic with the fixed running statistics, and scale and bias are trained: y = x a + (bias - mean a) with a =
 * scale / sqrt(variance + epsilon). The model must be inferred, and is inferred again. MP_NOMEM. O(operators). */
mp_status mp_model_keep_inference_norms(mp_model *model, mp_error *err);
