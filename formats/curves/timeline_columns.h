/* timeline_columns.h - memory by layer over the steps of a plan, summed up in columns. Private to formats/. */
#pragma once

#include "formats/canvas/palette.h"
#include "memplan/plan.h"

/* The layers of the picture, from bottom to top. */
#define MP_LAYER_LIST(X)                                   \
    X(PARAMETERS, "parameters, batch", MP_COLOR_STATIC)    \
    X(OPTIMIZER, "optimizer state", MP_COLOR_STATE)        \
    X(KEPT, "kept activations", MP_COLOR_KEPT)             \
    X(FORWARD_ONLY, "forward only", MP_COLOR_FORWARD_ONLY) \
    X(RECOMPUTED, "recomputed", MP_COLOR_RECOMPUTED)       \
    X(GRADIENTS, "gradients", MP_COLOR_GRADIENT)           \
    X(WORKSPACE, "workspace", MP_COLOR_WORKSPACE)
#define MP_LAYER_ENUM(name, text, color) MP_LAYER_##name,
typedef enum mp_layer { MP_LAYER_LIST(MP_LAYER_ENUM) MP_N_LAYERS } mp_layer;
#undef MP_LAYER_ENUM

/* What a step does, for the ribbon. */
typedef enum mp_activity {
    MP_ACTIVITY_FORWARD,
    MP_ACTIVITY_RECOMPUTE,
    MP_ACTIVITY_BACKWARD,
    MP_ACTIVITY_UPDATE,
    MP_N_ACTIVITIES
} mp_activity;

/* A stretch of steps and the fullest of them, which stands for all. */
typedef struct mp_timeline_column {
    int first, last, shown;
    int64_t bytes[MP_N_LAYERS];
    int64_t total, keep_all; /* keep_all: the most that is live in keep-all in the same share of its own steps */
    mp_activity activity;    /* of most steps */
} mp_timeline_column;

typedef struct mp_timeline_columns {
    const mp_graph *graph;
    size_t n_steps;
    const mp_step *steps;
    mp_timeline *timeline, *keep_all;
    mp_layer *layer;             /* per span of the timeline */
    mp_activity *activity;       /* per step */
    int64_t always[MP_N_LAYERS]; /* bytes that are always live */
    size_t n_activity[MP_N_ACTIVITIES];
    size_t n;
    mp_timeline_column *columns;
    int peak_column;
} mp_timeline_columns;

/* Sums up steps[0..n) (n >= 1; they must stay as they are) in at most `most` columns of equally many steps. On MP_OK *out is
 * released with mp_timeline_columns_free (NULL is fine). MP_INVALID as mp_timeline_build, or no steps; MP_NOMEM. O(lists + n *
 * layers).
 */
mp_status mp_timeline_columns_new(const mp_graph *graph, const mp_step *steps, size_t n, size_t most, mp_timeline_columns **out,
                                  mp_error *err);
void mp_timeline_columns_free(mp_timeline_columns *columns);

/* The most that is live in keep-all, static bytes included, between two shares of its steps, 0 <= from <= to <= 1. O(steps
 * between them). */
int64_t mp_keep_all_between(const mp_timeline_columns *columns, double from, double to);

/* The layer of what is always live. */
mp_layer mp_layer_of_kind(mp_kind kind);
const char *mp_layer_name(mp_layer layer), *mp_layer_color(mp_layer layer);
const char *mp_activity_name(mp_activity activity);
