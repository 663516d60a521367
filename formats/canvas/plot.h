/* plot.h - a plot on a canvas: two axes with grid lines and round numbers. Converts values to coordinates in points. Private
 * to formats/. */
#pragma once

#include <stdint.h>

#include "formats/canvas/canvas.h"

typedef enum mp_plot_scale {
    MP_PLOT_LINEAR,
    MP_PLOT_COUNTS /* an axis that starts at 0; the position is proportional to the logarithm of 1 + value */
} mp_plot_scale;

typedef struct mp_plot_axis {
    mp_plot_scale scale;
    double low, high; /* values at the two ends of the axis, low < high */
    double from, to;  /* coordinates of the two ends of the axis, in points */
    double unit; /* the numbers on the axis are round multiples of this unit, and are shown divided by it: 1, or the bytes of a
                    GiB */
} mp_plot_axis;

enum { MP_PLOT_TICKS_MAX = 24 };

/* Returns the coordinate, in points, of a value on an axis. */
double mp_plot_at(const mp_plot_axis *axis, double value);
/* Writes at most `most` (2..MP_PLOT_TICKS_MAX) round values of the axis in ascending order, and returns their number. */
size_t mp_plot_ticks(const mp_plot_axis *axis, size_t most, double *values);

/* Returns the smallest number that is 1, 2 or 5 times a power of ten and at least `least` (> 0). */
double mp_plot_step(double least);
/* Returns a unit that suits this number of bytes, such as the bytes of a GiB; *name receives its name. */
double mp_plot_unit(int64_t bytes, const char **name);

typedef struct mp_plot {
    mp_plot_axis x, y;
    size_t x_ticks, y_ticks; /* approximate number of numbers on each axis */
    const char *x_title, *y_title;
    const char *y_suffix; /* suffix of the numbers on the y axis, such as "%" */
    bool signed_y;        /* true: positive numbers on the y axis have a plus sign */
} mp_plot;

/* Draws the grid, and the numbers and titles of both axes. The title of the y axis is above the plot. */
void mp_plot_draw(const mp_plot *panel, mp_canvas *canvas);
