/* timeline_panels.h - the panels below the curve of a timeline: the largest tensors, and the arena. Private to formats/. */
#pragma once

#include "formats/canvas/canvas.h"
#include "formats/canvas/palette.h"
#include "formats/curves/timeline_columns.h"

enum { MP_TOOLTIP_MAX = 1024 };

typedef struct mp_frame { /* where a panel may draw: the plot between left and right, texts in the margins */
    double left, right, low, high;
} mp_frame;

/* The horizontal place where a step begins. */
double mp_step_x(const mp_timeline_columns *columns, const mp_frame *frame, double step);
/* "/conv1/Conv (Conv, forward)" into `text`; what stands in the name already is not said twice. */
const char *mp_node_title(const mp_graph *graph, int node, char *text, size_t size);
/* Step numbers below frame->low. */
mp_status mp_step_axis(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame, mp_error *err);

/* A row for each of the largest tensors that are live at the peak, a bar where it is in memory. */
double mp_largest_height(const mp_timeline_columns *columns);
mp_status mp_largest_draw(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame, mp_error *err);

/* The offsets of a plan, over time. */
double mp_arena_height(void);
mp_status mp_arena_draw(const mp_timeline_columns *columns, const mp_plan *plan, mp_canvas *canvas, const mp_frame *frame,
                        mp_error *err);
