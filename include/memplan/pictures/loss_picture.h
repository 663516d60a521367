/* loss_picture.h - a picture of the loss over the steps of a training. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Draws losses[0..n), the losses of training steps first_step + 1 onwards: the raw values, and a running mean over a
 * twentieth of the steps. Losses that are not numbers leave gaps. `path` ends in .svg, .png or .pdf; the file is replaced
 * atomically. MP_INVALID: there are fewer than two losses, or the path has another ending. MP_UNSUPPORTED: the installed
 * Graphviz cannot write the format. MP_IO, MP_NOMEM. */
mp_status mp_loss_picture(const char *title, const double *losses, size_t n, int64_t first_step, const char *path,
                          mp_error *err);
