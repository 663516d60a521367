/* curve_spread.h - the right panel of the trade-off picture: results by number of checkpoints. Private to formats/. */
#pragma once

#include "formats/canvas/canvas.h"
#include "memplan/studies/sweep.h"

typedef struct mp_curve_frame {
    double left, right, low, high;
} mp_curve_frame;

/* Returns by how many per cent `ticks` exceeds the time of keep-all. */
double mp_curve_percent(const mp_sweep *sweep, int64_t ticks);

/* Draws two plots, one above the other, under a heading: peak and extra time over the number of evenly spread checkpoints.
 * Requires sweep->n_spread > 1. */
void mp_curve_spread(const mp_sweep *sweep, mp_canvas *canvas, const mp_curve_frame *frame);
