/* curve_spread.h - the right half of the trade-off picture: how many checkpoints? Private to formats/. */
#pragma once

#include "formats/canvas/canvas.h"
#include "memplan/sweep.h"

typedef struct mp_curve_frame {
    double left, right, low, high;
} mp_curve_frame;

/* Returns by how many per cent so many ticks are more than those of keep-all. */
double mp_curve_percent(const mp_sweep *sweep, int64_t ticks);

/* Draws peak and extra time over the number of evenly spread checkpoints, one above the other in the frame, with a heading
 * above it. Needs sweep->n_spread > 1. */
void mp_curve_spread(const mp_sweep *sweep, mp_canvas *canvas, const mp_curve_frame *frame);
