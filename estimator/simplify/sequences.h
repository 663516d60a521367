/* sequences.h - long sequences of recurrent layers are cut into chunks of time steps, which a plan can keep or recompute.
 *
 *     Y, Y_h, Y_c = LSTM(X, h, c)      becomes, for X of 100 steps and chunks of 50:
 *
 *     X0, X1 = Split(X);   Y0, h1, c1 = LSTM(X0, h, c);   Y1, Y_h, Y_c = LSTM(X1, h1, c1);   Y = Concat(Y0, Y1)
 *
 * What backward needs of a chunk (gates, states, output) is recomputed from its X and the states before it: those states are
 * the checkpoints of backpropagation through time. The gradient of a weight is added to, chunk by chunk. A layer in two
 * directions becomes one layer for each, with their halves of the weights. Inputs are cut as early as that is free: the
 * indices of an embedding rather than its output, the chunks of the layer below rather than their concatenation.
 *
 * Not cut: layers with sequence lengths, with layout = 1, or with sequences no longer than a chunk. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_sequence_report {
    int n_layers; /* layers that were cut, each direction counted */
    int n_chunks; /* chunks of all layers */
} mp_sequence_report;

/* Returns the default number of steps of a chunk: about the square root of all, so that states between chunks and data
 * inside a chunk take about as much; sequences of less than MP_SEQUENCE_LONG stay whole. */
enum { MP_SEQUENCE_LONG = 64 };
int64_t mp_sequence_steps(int64_t n_steps);

/* Cuts a simplified model, which stays sorted. `steps`: length of a chunk, 0: mp_sequence_steps. MP_NOMEM. O(operators). */
mp_status mp_model_cut_sequences(mp_model *model, int64_t steps, mp_sequence_report *report, mp_error *err);
