/* layers.h - the layers of a network: attention, of a decoder also over its encoder's output, and what comes after it. Each is
 * built by one function in one order, so that all layers of a network, or of its encoder and its decoder, are equal.
 */
#pragma once

#include "estimator/architectures/sketch.h"

/* Builds what the layers of this network share: masks, positions, shapes. */
void mp_layers_share(mp_sketch *n);
/* Builds what is added to the scores of all layers of `stack`, "encoder" or "decoder": a learned number of each head for each
 * distance. */
int mp_layers_distances(mp_sketch *n, const char *stack);
/* Builds layer n->layer on x (batch, sequence, width). Returns its output. */
int mp_layers_add(mp_sketch *n, int x);
/* Builds the feed-forward of a layer with experts, without normalization and residual. */
int mp_layers_experts(mp_sketch *n, int x);
