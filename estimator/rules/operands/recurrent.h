/* recurrent.h - reads the sizes of a recurrent layer from its operands, and the computation of its cells from its
 * attributes. */
#pragma once

#include "estimator/model/ops.h"

typedef struct mp_recurrent {
    int64_t n_steps, batch, input; /* n_steps: time steps; batch: samples; input: features per time step (dimensions of X) */
    int64_t n_directions;          /* 1: one direction; 2: bidirectional */
    int64_t hidden;
    int64_t gates;    /* number of gates per cell: 4 for LSTM, 3 for GRU, 1 for RNN */
    bool batch_first; /* true if the batch is the first dimension of X and Y (attribute layout = 1) */
} mp_recurrent;

/* Returns the number of gates of a cell: LSTM 4, GRU 3, RNN 1. */
int64_t mp_cell_gates(const mp_operator *op);
/* Reads the sizes of a recurrent layer. X and R must not be omitted, and must have 3 dimensions each. */
mp_recurrent mp_recurrent_read(const mp_model *model, const mp_operator *op);

/* The vectors of `hidden` floats that a forward run saves for backward, per step, sample and direction. There are three
 * kinds. The first kind are the gates. The second is the cell state of an LSTM, or the recurrent part of the candidate of a
 * GRU with linear_before_reset. The third is the hidden state, if the operator has no output Y. For an RNN, the hidden state
 * counts as its only gate. */
typedef struct mp_reserve {
    /* number of vectors of each kind. gates: of gates; seconds: of the second kind (0 or 1); states: of hidden states (0 or
     * 1) */
    int64_t gates, seconds, states;
} mp_reserve;
mp_reserve mp_reserve_of(const mp_model *model, const mp_operator *op);

typedef enum mp_cell_kind { MP_CELL_LSTM, MP_CELL_GRU, MP_CELL_RNN } mp_cell_kind;

/* Activation functions whose derivative can be computed from the value of the function. */
typedef enum mp_activation { MP_ACTIVATION_SIGMOID, MP_ACTIVATION_TANH, MP_ACTIVATION_RELU } mp_activation;

typedef struct mp_cell {
    mp_cell_kind kind;
    bool linear_before_reset; /* GRU: true if the product R h is computed before it is multiplied by the reset gate */
    /* true: the layer has direction "reverse": its only direction runs from the last time step to the first */
    bool starts_reversed;
    mp_activation activations[2][3]; /* per direction: the activations f, g and h of the ONNX specification */
} mp_cell;

/* Reads the attributes that define the cell. Returns NULL, or the name of an attribute that is not supported, such as
 * "clip". */
const char *mp_cell_read(const mp_operator *op, mp_cell *out);
