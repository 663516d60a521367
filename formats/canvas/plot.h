/* plot.h - a panel with two axes on a canvas: where values lie, grid lines, numbers. Private to formats/. */
#ifndef FORMATS_PLOT_H
#define FORMATS_PLOT_H

#include <stdint.h>

#include "formats/canvas/canvas.h"

#define MP_PLOT_TEXT "#0f172a"
#define MP_PLOT_MUTED "#64748b"
#define MP_PLOT_GRID "#e2e8f0"

typedef enum mp_scale {
    MP_SCALE_LINEAR,
    MP_SCALE_COUNTS /* from 0, by the logarithm of 1 + value */
} mp_scale;

typedef struct mp_axis {
    mp_scale scale;
    double low, high; /* values, low < high */
    double from, to;  /* points */
    double unit;      /* ticks stand at round multiples of this and say how many: 1, or the bytes of a GiB */
} mp_axis;

enum { MP_TICKS_MAX = 24 };

/* Where a value lies, in points. */
double mp_axis_at(const mp_axis *axis, double value);
/* At most `most` (2..MP_TICKS_MAX) round values on the axis, ascending; returns how many. */
size_t mp_axis_ticks(const mp_axis *axis, size_t most, double *values);

/* The unit that suits so many bytes, and its name. */
double mp_plot_unit(int64_t bytes, const char **name);

typedef struct mp_panel {
    mp_axis x, y;
    size_t x_ticks, y_ticks; /* about how many numbers */
    const char *x_title, *y_title;
    const char *y_suffix; /* behind each number: "%" */
    bool signed_y;        /* numbers above 0 with their plus sign */
} mp_panel;

/* Grid, numbers and titles of the axes. The y title stands above the panel. */
mp_status mp_panel_draw(const mp_panel *panel, mp_canvas *canvas, mp_error *err);

#endif
