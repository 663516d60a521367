/* chart.h - the parts of the picture of a timeline: memory by layer over the steps of a plan, summed up in columns; the
 * scale of bytes; panels; labels of peaks. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "formats/canvas/canvas.h"
#include "memplan/memory.h"
#include "memplan/plan.h"

/* The layers of the picture, from bottom to top. */
#define MP_LAYER_LIST(X)                                   \
    X(PARAMETERS, "parameters, batch", MP_COLOR_STATIC)    \
    X(OPTIMIZER, "optimizer state", MP_COLOR_STATE)        \
    X(KEPT, "kept activations", MP_COLOR_KEPT)             \
    X(FORWARD_ONLY, "forward only", MP_COLOR_FORWARD_ONLY) \
    X(RECOMPUTED, "recomputed", MP_COLOR_RECOMPUTED)       \
    X(COPIED, "copied", MP_COLOR_COPIED)                   \
    X(GRADIENTS, "gradients", MP_COLOR_GRADIENT)           \
    X(WORKSPACE, "workspace", MP_COLOR_WORKSPACE)
#define MP_LAYER_ENUM(name, text, color) MP_LAYER_##name,
typedef enum mp_layer { MP_LAYER_LIST(MP_LAYER_ENUM) MP_N_LAYERS } mp_layer;
#undef MP_LAYER_ENUM

/* What kind of work a step does, for the ribbon. */
typedef enum mp_activity {
    MP_ACTIVITY_FORWARD,
    MP_ACTIVITY_RECOMPUTE,
    MP_ACTIVITY_COPY, /* out or back */
    MP_ACTIVITY_BACKWARD,
    MP_ACTIVITY_UPDATE,
    MP_N_ACTIVITIES
} mp_activity;

/* A stretch of steps; the step with the most live bytes stands for all of them. */
typedef struct mp_timeline_column {
    int first, last, shown;
    int64_t bytes[MP_N_LAYERS];
    int64_t total, keep_all; /* keep_all: the most that is live in keep-all over the same share of its own steps */
    mp_activity activity;    /* the activity of most of its steps */
} mp_timeline_column;

/* The columns of one memory. */
typedef struct mp_tier_columns {
    const mp_tier_use *use, *keep_all;
    int64_t always[MP_N_LAYERS]; /* bytes of each layer that are always live */
    mp_timeline_column *columns;
} mp_tier_columns;

typedef struct mp_timeline_columns {
    mp_pool *pool; /* owns the arrays */
    const mp_graph *graph;
    size_t n_steps;
    const mp_step *steps;
    mp_timeline *timeline, *keep_all;
    mp_layer *layer;       /* per span of the timeline */
    mp_activity *activity; /* per step */
    int64_t plain_ticks;   /* of the user's step, as mp_plain_ticks has it */
    int64_t *ends;         /* per step: when it ends, in ticks (makespan.h) */
    size_t n_activity[MP_N_ACTIVITIES];
    size_t n;
    mp_tier_columns *tiers;      /* per tier of the graph; all have the same columns of steps */
    mp_timeline_column *columns; /* the device's */
    int peak_column;
} mp_timeline_columns;

/* Sums up steps[0..n) (n >= 1; NULL: those of keep-all), which must not change, in at most `most` columns of equally
 * many steps. On MP_OK *out is released with mp_timeline_columns_free (NULL is fine). MP_INVALID: no steps, or as
 * mp_timeline_build; MP_NOMEM. O(lists + n * layers). */
mp_status mp_timeline_columns_new(const mp_graph *graph, const mp_step *steps, size_t n, size_t most, mp_timeline_columns **out,
                                  mp_error *err);
void mp_timeline_columns_free(mp_timeline_columns *columns);
MP_OWNER(mp_timeline_columns_free, mp_timeline_columns)

/* Returns the most that is live in a tier in keep-all, static bytes included, between two shares of its steps,
 * 0 <= from <= to <= 1. O(steps between them). */
int64_t mp_keep_all_between(const mp_timeline_columns *columns, int tier, double from, double to);

/* Returns the layer of storages of this always-live kind. */
mp_layer mp_layer_of_kind(mp_kind kind);
const char *mp_layer_name(mp_layer layer), *mp_layer_color(mp_layer layer);
/* Returns the colour of an activity: of the layer that it makes or changes, so that one legend is enough. */
const char *mp_activity_name(mp_activity activity), *mp_activity_color(mp_activity activity);

/* The rectangle of a panel: the plot lies between left and right, texts in the margins. */
typedef struct mp_frame {
    double left, right, low, high;
} mp_frame;

/* Return the x coordinate at which a step or column begins. */
double mp_step_x(const mp_timeline_columns *columns, const mp_frame *frame, double step);
double mp_column_left(const mp_timeline_columns *columns, const mp_frame *frame, size_t column);
/* Returns "/conv1/Conv (Conv, forward)" as mp_text does, without words that are in the name already. */
const char *mp_node_title(const mp_graph *graph, int node);
/* Draws the numbers of steps below frame->low. */
void mp_step_axis(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame);

/* The lanes of a graph that lists channels: one for each of them, and for the second stream if something runs there. Steps of
 * a channel that are issued at once have rows of their own. */
enum { MP_LANE_ROWS_MAX = 8 }; /* further ones share the last rows */
typedef struct mp_lanes {
    int rows[MP_MAX_CHANNELS]; /* 0: no lane */
    int *row;                  /* per step, within its lane */
} mp_lanes;

/* On MP_OK, `out` is cleared with mp_lanes_clear. MP_NOMEM. O(steps). */
mp_status mp_lanes_find(const mp_timeline_columns *columns, mp_lanes *out, mp_error *err);
void mp_lanes_clear(mp_lanes *lanes);
/* Returns the names of what a step copies, "a, b", as mp_text does; of another step its node's. */
const char *mp_lane_name(const mp_timeline_columns *columns, size_t step);
/* Draws a bar for each step in a lane, from its issue to its wait, downwards from frame->high. */
double mp_lanes_height(const mp_timeline_columns *columns, const mp_lanes *lanes);
void mp_lanes_draw(const mp_timeline_columns *columns, const mp_lanes *lanes, mp_canvas *canvas, const mp_frame *frame);

/* Draws a row for each of the largest tensors that are live at the peak, with a bar over the steps in which it is live. */
double mp_largest_height(const mp_timeline_columns *columns);
void mp_largest_draw(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame);

/* Draws the offsets of a plan over its steps. */
double mp_arena_height(void);
mp_status mp_arena_draw(const mp_timeline_columns *columns, const mp_plan *plan, mp_canvas *canvas, const mp_frame *frame,
                        mp_error *err);

typedef struct mp_byte_zone {
    double from, to;  /* range of bytes */
    double low, high; /* range of points */
} mp_byte_zone;

typedef struct mp_byte_scale {
    int n;
    mp_byte_zone zones[3];
    bool cut_below, cut_above; /* the scale has a break above zones[0]; below zones[n - 1] */
} mp_byte_scale;

/* Returns a scale between the heights low and high for a plan that takes between `always` and `most` bytes, next to a
 * curve that reaches `beyond` (0: none). What is always live is squeezed where it would take much of the height, and so
 * is the part above the plan. */
mp_byte_scale mp_byte_scale_choose(double always, double most, double beyond, double low, double high);
double mp_byte_scale_y(const mp_byte_scale *scale, double bytes);
/* True if the scale has a break above the plan; its mark lies between *low and *high. */
bool mp_byte_scale_upper_break(const mp_byte_scale *scale, double *low, double *high);

/* Draw the grid lines from left to right, with their labels and the unit at their left; and the marks of the breaks. */
void mp_byte_scale_grid(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right);
void mp_byte_scale_breaks(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right);

typedef struct mp_timeline_chart {
    const mp_timeline_columns *columns;
    int tier;
    mp_canvas *canvas;
    mp_frame frame;
    mp_byte_scale scale;
    int64_t budget_bytes; /* MP_NO_LIMIT: no line */
    bool saves;           /* true: keep-all's curve is drawn, too */
} mp_timeline_chart;

/* Gives a chart its frame and scale above the height `low`, with `height` for data and labels; more where labels need it.
 * Returns its upper end. O(steps). */
double mp_timeline_chart_place(mp_timeline_chart *chart, double low, double height);
/* Draws it. MP_NOMEM. O(steps + columns). */
mp_status mp_timeline_chart_draw(const mp_timeline_chart *chart, mp_error *err);

/* Returns the height that the labels of mp_timeline_peaks reach. O(steps). */
double mp_timeline_labels_top(const mp_timeline_chart *chart);

/* Marks the plan's peak, and keep-all's, with labels that cover neither a curve nor the mark of a break. O(steps). */
void mp_timeline_peaks(const mp_timeline_chart *chart);
