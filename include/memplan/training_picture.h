/* training_picture.h - a picture of a training step: forward, backward and recomputation side by side. */
#pragma once

#include "memplan/graph_picture.h"

/* Draws the training step three ways, side by side: forward alone, which drops every tensor at its last use; with backward,
 * where tensors are kept for it; with the plan's recomputation in between (left out without a plan). Errors as
 * mp_graph_picture. */
mp_status mp_training_picture(const mp_picture_request *request, const char *path, mp_error *err);
