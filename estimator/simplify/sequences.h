/* sequences.h - long sequences of recurrent layers are cut into chunks of time steps, which a plan can keep or recompute.
 *
 *     Y, Y_h, Y_c = LSTM(X, h, c)      becomes, for X of 100 steps and chunks of 50:
 *
 *     X0, X1 = Split(X);   Y0, h1, c1 = LSTM(X0, h, c);   Y1, Y_h, Y_c = LSTM(X1, h1, c1);   Y = Concat(Y0, Y1)
 *
 * What backward needs of a chunk (gates, states, output) comes again from its X and the states before it: those states are the
 * checkpoints of backpropagation through time. The gradient of a weight is added to, chunk by chunk. A layer in two directions
 * becomes one layer for each, with their halves of the weights. The cut is made as far up as it costs nothing: in the indices
 * of an embedding rather than in what it looked up, in the chunks of the layer below rather than in their concatenation.
 *
 * Left whole: layers with lengths of sequences, with layout = 1, and with sequences no longer than a chunk. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_sequence_report {
    int n_layers; /* how many were cut, a direction of a layer each */
    int n_chunks; /* of all of them */
} mp_sequence_report;

/* Steps of a chunk where nobody says how many: about the square root of all, which makes states between chunks and the inside
 * of a chunk take about as much; sequences of less than MP_SEQUENCE_LONG stay whole. */
enum { MP_SEQUENCE_LONG = 64 };
int64_t mp_sequence_steps(int64_t n_steps);

/* Cuts a simplified model; it stays sorted. `steps`: of a chunk; 0: by the rule above. MP_NOMEM. O(operators). */
mp_status mp_model_cut_sequences(mp_model *model, int64_t steps, mp_sequence_report *report, mp_error *err);
