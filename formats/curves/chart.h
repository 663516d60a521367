/* chart.h - the parts of the timeline picture: memory by layer over the steps of a plan, which are summarised in columns;
 * the byte scale; panels; labels of peaks. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "formats/canvas/canvas.h"
#include "memplan/makespan.h"
#include "memplan/memory.h"
#include "memplan/plan.h"

/* The layers of the picture (categories of memory contents), from bottom to top. */
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

/* The activity of a step. The ribbon below the picture shows it by a colour. */
typedef enum mp_activity {
    MP_ACTIVITY_FORWARD,
    MP_ACTIVITY_RECOMPUTE,
    MP_ACTIVITY_COPY, /* the step copies a tensor to another tier or back */
    MP_ACTIVITY_BACKWARD,
    MP_ACTIVITY_UPDATE,
    MP_N_ACTIVITIES
} mp_activity;

/* A column of the picture stands for a range of consecutive steps. It shows the values of the step in the range that has the
 * most live bytes. */
typedef struct mp_timeline_column {
    int first, last, shown;
    int64_t bytes[MP_N_LAYERS];
    int64_t total, keep_all; /* keep_all: the maximum of live bytes in keep-all over the corresponding steps. The column covers
                                the same fraction of keep-all's steps */
    mp_activity activity;    /* the activity that most steps of the column's range have */
} mp_timeline_column;

/* The columns of the timeline picture for one memory tier. */
typedef struct mp_tier_columns {
    const mp_tier_use *use, *keep_all;
    int64_t always[MP_N_LAYERS]; /* per layer: bytes of static storages */
    mp_timeline_column *columns;
} mp_tier_columns;

typedef struct mp_timeline_columns {
    mp_pool *pool; /* memory pool that owns all arrays of this struct */
    const mp_graph *graph;
    size_t n_steps;
    const mp_step *steps;
    mp_step *early; /* keep-all's steps with updates as early as `fuse` allows; NULL: `steps` has other steps */
    mp_timeline *timeline, *keep_all;
    mp_layer *layer;        /* per span (live range of a storage) of the timeline: its layer in the picture */
    mp_activity *activity;  /* activity of each step */
    int64_t keep_all_ticks; /* ticks of the training step as the user wrote it, without recomputation and copies
                               (mp_keep_all_ticks) */
    int64_t *ends;          /* per step: its end in ticks since the start of the training step (makespan.h) */
    mp_recomputation again; /* the plan's recomputation, and the part of it that costs no time */
    size_t n_activity[MP_N_ACTIVITIES];
    size_t n;
    mp_tier_columns *tiers;      /* per tier of the graph: its columns. All tiers have the same ranges of steps */
    mp_timeline_column *columns; /* columns of the device's tier */
    int peak_column;
} mp_timeline_columns;

/* Summarises steps[0..n), n >= 1, in at most `most` columns with equal numbers of steps. `steps` NULL: keep-all, with
 * fused updates as early as possible. The array must not change while *out is used. On MP_OK release *out with
 * mp_timeline_columns_free (NULL is allowed). MP_INVALID: there are no steps; or as mp_timeline_build. MP_NOMEM.
 * O(lists + n * layers). */
mp_status mp_timeline_columns_new(const mp_graph *graph, const mp_step *steps, size_t n, size_t most, mp_timeline_columns **out,
                                  mp_error *err);
void mp_timeline_columns_free(mp_timeline_columns *columns);
MP_OWNER(mp_timeline_columns_free, mp_timeline_columns)

/* Returns the maximum of live bytes in a tier during a part of keep-all, static bytes included. The part is given by two
 * fractions of keep-all's steps, 0 <= from <= to <= 1. O(steps of the part). */
int64_t mp_keep_all_between(const mp_timeline_columns *columns, int tier, double from, double to);

/* Returns the layer in which the picture shows storages of a static kind. */
mp_layer mp_layer_of_kind(mp_kind kind);
const char *mp_layer_name(mp_layer layer), *mp_layer_color(mp_layer layer);
/* Return the name and the colour of an activity. The colour is that of the layer that the activity produces or changes, so
 * that one legend suffices. */
const char *mp_activity_name(mp_activity activity), *mp_activity_color(mp_activity activity);

/* The rectangle of a panel. The plot is between `left` and `right`; texts are in the margins outside. */
typedef struct mp_frame {
    double left, right, low, high;
} mp_frame;

/* Return the x coordinate at which a step, or a column, begins. */
double mp_step_x(const mp_timeline_columns *columns, const mp_frame *frame, double step);
double mp_column_left(const mp_timeline_columns *columns, const mp_frame *frame, size_t column);
/* Returns a node's title: its name, operator type and phase, as in "/conv1/Conv (Conv, forward)". Type and phase are omitted if
 * the name contains them. The result is valid as long as a result of mp_text (text.h). */
const char *mp_node_title(const mp_graph *graph, int node);
/* Draws the step numbers below the lower edge of a panel, frame->low. */
void mp_step_axis(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame);

/* A lane shows the issued steps of one channel. There is a lane per additional channel of the graph, and one for the second
 * stream if the plan uses it. Steps of a channel that are issued at the same time are in separate rows of the lane. */
enum { MP_LANE_ROWS_MAX = 8 }; /* maximum number of rows of a lane; if more are necessary, steps share the last row */
typedef struct mp_lanes {
    int rows[MP_MAX_CHANNELS]; /* per channel: number of rows of its lane; 0: the channel has no lane */
    int *row;                  /* per step: its row in the lane of its channel */
} mp_lanes;

/* Assigns each issued step a row of its lane. On MP_OK clear `out` with mp_lanes_clear. MP_NOMEM. O(steps). */
mp_status mp_lanes_find(const mp_timeline_columns *columns, mp_lanes *out, mp_error *err);
void mp_lanes_clear(mp_lanes *lanes);
/* mp_lanes_draw draws the lanes downwards from frame->high; mp_lanes_height returns their height. An issued step is a bar
 * from its issue to the step that waits for it. */
double mp_lanes_height(const mp_timeline_columns *columns, const mp_lanes *lanes);
void mp_lanes_draw(const mp_timeline_columns *columns, const mp_lanes *lanes, mp_canvas *canvas, const mp_frame *frame);

/* mp_largest_draw draws a row for each of the largest tensors that are live at the peak. A bar covers the steps in which the
 * tensor is live. mp_largest_height returns the height of all rows. */
double mp_largest_height(const mp_timeline_columns *columns);
void mp_largest_draw(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame);

/* mp_arena_draw draws the address map: the places (offset, size, lifetime) of a plan's storages in the arena, over the steps of
 * the plan. mp_arena_height returns its height. */
double mp_arena_height(void);
mp_status mp_arena_draw(const mp_timeline_columns *columns, const mp_plan *plan, mp_canvas *canvas, const mp_frame *frame,
                        mp_error *err);

typedef struct mp_byte_zone {
    double from, to;  /* bytes at the lower and the upper end of the zone, a part of the scale */
    double low, high; /* y coordinates of the lower and the upper end of the zone (a part of the scale), in points */
} mp_byte_zone;

typedef struct mp_byte_scale {
    int n;
    mp_byte_zone zones[3];
    bool cut_below, cut_above; /* cut_below: the scale has a break between zones[0] and the next zone; cut_above: it has a break
                                  below zones[n - 1] */
} mp_byte_scale;

/* Returns a vertical scale between the y coordinates `low` and `high`. `always` is the static bytes of the plan, `most` its
 * peak, and `beyond` the maximum of keep-all's curve (0: no curve). If static bytes would occupy much of the height, they
 * are compressed. The part above the plan's peak is compressed in the same way. */
mp_byte_scale mp_byte_scale_choose(double always, double most, double beyond, double low, double high);
double mp_byte_scale_y(const mp_byte_scale *scale, double bytes);
/* True if the scale has a break above the plan's peak. *low and *high receive the y coordinates of the break mark. */
bool mp_byte_scale_upper_break(const mp_byte_scale *scale, double *low, double *high);

/* Draw the grid lines from left to right with labels and the unit at the left end, and draw the marks of the breaks. */
void mp_byte_scale_grid(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right);
void mp_byte_scale_breaks(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right);

typedef struct mp_timeline_chart {
    const mp_timeline_columns *columns;
    int tier;
    mp_canvas *canvas;
    mp_frame frame;
    mp_byte_scale scale;
    int64_t budget_bytes; /* budget in bytes, drawn as a line; MP_NO_LIMIT: no line */
    bool saves;           /* true: also draw keep-all's curve */
} mp_timeline_chart;

/* Sets the frame and the scale of a chart whose lower edge is at y = low. `height` is the space for data and labels; it is
 * increased if the labels need more. Returns the y coordinate of the upper edge. O(steps). */
double mp_timeline_chart_place(mp_timeline_chart *chart, double low, double height);
/* Draws the chart of a tier. MP_NOMEM. O(steps + columns). */
mp_status mp_timeline_chart_draw(const mp_timeline_chart *chart, mp_error *err);

/* Returns the y coordinate of the upper edge of the labels that mp_timeline_peaks draws. O(steps). */
double mp_timeline_labels_top(const mp_timeline_chart *chart);

/* Marks the plan's peak and keep-all's peak with labels. The labels cover neither a curve nor a break mark. O(steps). */
void mp_timeline_peaks(const mp_timeline_chart *chart);
