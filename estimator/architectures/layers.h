/* layers.h - the layers of a network: attention (in a decoder also cross-attention to the encoder's output) and feed-forward.
 * One function builds each part in a fixed order, so all layers of a network, or of its encoder and its decoder, have equal
 * operators. */
#pragma once

#include "estimator/architectures/sketch.h"

/* Builds the tensors that all layers share: masks, positions, shapes. */
void mp_layers_share(mp_sketch *n);
/* Builds the relative position bias of all layers of `stack` ("encoder" or "decoder"): a learned number per head and distance,
 * which is added to the scores. */
int mp_layers_distances(mp_sketch *n, const char *stack);
/* Builds layer n->layer on x (batch, sequence, width). Returns its output. */
int mp_layers_add(mp_sketch *n, int x);
/* Builds the feed-forward part of a layer with experts, without normalization and residual. */
int mp_layers_experts(mp_sketch *n, int x);
