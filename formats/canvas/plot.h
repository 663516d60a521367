/* plot.h - a plot on a canvas: two axes with grid lines and round numbers; maps values to points. Private to formats/. */
#pragma once

#include <stdint.h>

#include "formats/canvas/canvas.h"

typedef enum mp_plot_scale {
    MP_PLOT_LINEAR,
    MP_PLOT_COUNTS /* axis from 0 on which the position is proportional to the logarithm of 1 + value */
} mp_plot_scale;

typedef struct mp_plot_axis {
    mp_plot_scale scale;
    double low, high; /* values at the ends of the axis, low < high */
    double from, to;  /* coordinates of the ends of the axis, in points */
    double unit;      /* axis numbers are round multiples of this unit and are divided by it: 1, or the bytes of a GiB */
} mp_plot_axis;

enum { MP_PLOT_TICKS_MAX = 24 };

/* Returns the coordinate of a value in points. */
double mp_plot_at(const mp_plot_axis *axis, double value);
/* Writes at most `most` (2..MP_PLOT_TICKS_MAX) round values on the axis in ascending order, and returns their number. */
size_t mp_plot_ticks(const mp_plot_axis *axis, size_t most, double *values);

/* Returns the smallest of 1, 2 and 5 times a power of ten that is at least `least` (> 0). */
double mp_plot_step(double least);
/* Returns a suitable unit for this number of bytes; *name receives its name. */
double mp_plot_unit(int64_t bytes, const char **name);

typedef struct mp_plot {
    mp_plot_axis x, y;
    size_t x_ticks, y_ticks; /* approximate number of labels per axis */
    const char *x_title, *y_title;
    const char *y_suffix; /* suffix of each number on the y axis, such as "%" */
    bool signed_y;        /* true: positive numbers on the y axis have a plus sign */
} mp_plot;

/* Draws the grid, the numbers and the titles of the axes. The y title is above the panel. */
void mp_plot_draw(const mp_plot *panel, mp_canvas *canvas);
