/* timeline_scale.h - bytes to heights, with breaks where one part would flatten the rest. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "formats/canvas/canvas.h"

typedef struct mp_byte_zone {
    double from, to;  /* bytes */
    double low, high; /* points */
} mp_byte_zone;

typedef struct mp_byte_scale {
    int n;
    mp_byte_zone zones[3];
    bool cut_below, cut_above; /* zones[0] is squeezed; zones[n - 1] is */
} mp_byte_scale;

/* A scale between the heights low and high for a plan that takes `always` bytes at all times and never more than `most`, next
 * to a curve that reaches `beyond` (0: none). What is always live is squeezed where it would take much of the height, and so is
 * the part above the plan. */
mp_byte_scale mp_byte_scale_choose(double always, double most, double beyond, double low, double high);
double mp_byte_scale_y(const mp_byte_scale *scale, double bytes);
/* Whether there is a break above the plan, and between which heights its mark lies. */
bool mp_byte_scale_upper_break(const mp_byte_scale *scale, double *low, double *high);

/* Grid lines from left to right, their labels and the unit left of them, and the marks of the breaks. */
mp_status mp_byte_scale_grid(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right, mp_error *err);
mp_status mp_byte_scale_breaks(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right, mp_error *err);
