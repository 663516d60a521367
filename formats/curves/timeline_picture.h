/* timeline_picture.h - the timeline picture as text, for pages that contain it. Private to formats/. */
#pragma once

#include "formats/curves/chart.h"

/* The ends of the plot of a timeline picture, in the units of the SVG's viewBox. Step k of n begins at the fraction k / n. */
#define MP_PLOT_LEFT 98.0
#define MP_PLOT_RIGHT 1152.0
/* Appends the timeline picture of MP_VIEW_MEMORY (memplan/pictures/timeline_picture.h) as an SVG file to `out`. plan NULL: the
 * columns show keep-all. MP_UNSUPPORTED, MP_NOMEM as mp_canvas_render. */
mp_status mp_timeline_svg(const mp_timeline_columns *columns, const mp_plan *plan, const char *title, mp_text_builder *out,
                          mp_error *err);
