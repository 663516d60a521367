/* layers.h - the layers of a network: attention (in a decoder also cross-attention to the encoder's output) and feed-forward.
 * One function builds each part in a fixed order, so all layers of a network, or of its encoder and its decoder, have equal
 * operators. */
#pragma once

#include "estimator/architectures/sketch.h"

/* Builds the tensors that all layers share: masks, positions, shapes. */
void mp_layers_share(mp_sketch *n);
/* Builds the relative position bias that all layers of `stack` ("encoder" or "decoder") share: a learned number per head and
 * distance, added to the scores. */
int mp_layers_distances(mp_sketch *n, const char *stack);
/* Builds the layer named n->layer on input x (batch, sequence, width). Returns the layer's output. */
int mp_layers_add(mp_sketch *n, int x);
/* Builds the mixture of experts that replaces the mlp of a layer, without normalization and residual connection. */
int mp_layers_experts(mp_sketch *n, int x);
