/* sequences.h - splits long sequences of recurrent layers into chunks of time steps, which a plan can keep or recompute.
 *
 *     Y, Y_h, Y_c = LSTM(X, h, c)      becomes, for X of 100 steps and chunks of 50:
 *
 *     X0, X1 = Split(X);   Y0, h1, c1 = LSTM(X0, h, c);   Y1, Y_h, Y_c = LSTM(X1, h1, c1);   Y = Concat(Y0, Y1)
 *
 * Backward reads the gates, states and output of a chunk. They can be recomputed from the chunk's input and initial states.
 * These states are the checkpoints of backpropagation through time. Weight gradients accumulate over the chunks. A
 * bidirectional layer becomes one layer per direction, each with half of the weights. Tensors are split as early in the graph
 * as this costs nothing. Examples: the indices of an embedding are split instead of its output, and the chunks of the layer
 * below are used instead of their concatenation.
 *
 * Not split: layers with sequence lengths, with layout = 1, or with sequences no longer than a chunk. */
#pragma once

#include "estimator/model/model.h"

typedef struct mp_sequence_report {
    int n_layers; /* number of recurrent layers that were split; a bidirectional layer counts as two */
    int n_chunks; /* number of sequence chunks of all split layers together */
} mp_sequence_report;

/* Returns the default number of steps per chunk: about the square root of the sequence length. With this number, the states
 * between chunks and the data inside a chunk need about the same memory. Sequences shorter than MP_SEQUENCE_LONG stay whole. */
enum { MP_SEQUENCE_LONG = 64 };
int64_t mp_sequence_steps(int64_t n_steps);

/* Splits the sequences of all recurrent layers of a simplified model. The model stays sorted. `steps` is the number of time
 * steps per chunk; 0: mp_sequence_steps. MP_NOMEM. O(operators). */
mp_status mp_model_cut_sequences(mp_model *model, int64_t steps, mp_sequence_report *report, mp_error *err);
