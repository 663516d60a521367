/* timeline_labels.h - the peaks of the chart of a timeline, and their names. Private to formats/. */
#pragma once

#include "formats/curves/timeline_columns.h"
#include "formats/curves/timeline_panels.h"
#include "formats/curves/timeline_scale.h"

typedef struct mp_timeline_chart {
    const mp_timeline_columns *columns;
    mp_canvas *canvas;
    mp_frame frame;
    mp_byte_scale scale;
    int64_t budget_bytes; /* MP_NO_LIMIT: no line */
    bool saves;           /* keep-all's curve is drawn, too */
} mp_timeline_chart;

/* How high the labels of mp_timeline_peaks reach; it needs no canvas. O(steps). */
double mp_timeline_labels_top(const mp_timeline_chart *chart);

/* Marks the plan's peak, and keep-all's, with labels that cover neither a curve nor the mark of a break. MP_NOMEM. O(steps). */
mp_status mp_timeline_peaks(const mp_timeline_chart *chart, mp_error *err);
