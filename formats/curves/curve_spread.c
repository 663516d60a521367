/* curve_spread.c - draws peak and time for evenly spread checkpoints. Each dot is a separate plan, so no line connects the
 * dots. */
#include "formats/curves/curve_spread.h"

#include <math.h>

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/canvas/plot.h"

#define LABEL 12.0 /* font size of the labels in the right panel, in points */

double mp_curve_percent(const mp_sweep *sweep, int64_t ticks)
{
    const double base = (double)sweep->keep_all_ticks;
    return base > 0 ? 100 * ((double)ticks - base) / base : 0;
}

static void draw_dots(const mp_sweep *sweep, mp_canvas *canvas, const mp_plot *panel, bool time, const char *color)
{
    for (size_t i = 0; i < sweep->n_spread; i++) {
        const mp_spread_point *point = &sweep->spread[i];
        const double value = time ? mp_curve_percent(sweep, point->ticks) : (double)point->peak_bytes;
        mp_canvas_dot(canvas, mp_plot_at(&panel->x, (double)point->n_checkpoints), mp_plot_at(&panel->y, value), 3, color);
    }
}

void mp_curve_spread(const mp_sweep *sweep, mp_canvas *canvas, const mp_curve_frame *frame)
{
    const mp_spread_point *best = &sweep->spread[0];
    const double middle = (frame->high + frame->low) / 2;
    double low = INFINITY, high = 0, most_percent = 5;
    const char *unit_name;
    for (size_t i = 0; i < sweep->n_spread; i++) {
        const mp_spread_point *point = &sweep->spread[i];
        if (point->peak_bytes < best->peak_bytes) best = point;
        low = fmin(low, (double)point->peak_bytes);
        high = fmax(high, (double)point->peak_bytes);
        most_percent = fmax(most_percent, mp_curve_percent(sweep, point->ticks));
    }
    const double span = fmax(high - low, 0.02 * high + 1);
    const double count = fmax((double)sweep->spread[sweep->n_spread - 1].n_checkpoints, 1);
    mp_plot peak = {.x = {MP_PLOT_COUNTS, 0, count, frame->left, frame->right, 1},
                    .y = {MP_PLOT_LINEAR, low - 0.3 * span, high + 0.12 * span, middle + 34, frame->high, 1},
                    .x_ticks = 9,
                    .y_ticks = 5,
                    .x_title = ""};
    mp_plot time = {.x = peak.x,
                    .y = {MP_PLOT_LINEAR, 0, most_percent * 1.15, frame->low, middle - 30, 1},
                    .x_ticks = 9,
                    .y_ticks = 4,
                    .x_title = "evenly spread checkpoints",
                    .y_title = "extra time",
                    .y_suffix = " %",
                    .signed_y = true};
    peak.y.unit = mp_plot_unit((int64_t)high, &unit_name);
    peak.y_title = mp_text("peak memory, %s", unit_name);
    mp_canvas_text(canvas, frame->left, frame->high + 32, MP_ALIGN_LEFT, 14, true, MP_COLOR_TEXT, "How many checkpoints?");
    mp_plot_draw(&peak, canvas);
    mp_plot_draw(&time, canvas);
    draw_dots(sweep, canvas, &peak, false, MP_COLOR_KEPT);
    draw_dots(sweep, canvas, &time, true, MP_COLOR_RECOMPUTED);
    const double x = mp_plot_at(&peak.x, (double)best->n_checkpoints), y = mp_plot_at(&peak.y, (double)best->peak_bytes);
    mp_canvas_dot(canvas, x, y, 4.5, MP_COLOR_TEXT);
    const char *label = mp_text("%zu: %s", best->n_checkpoints, mp_bytes_text(best->peak_bytes));
    const double half = mp_canvas_text_width(label, LABEL, true) / 2;
    mp_canvas_text(canvas, fmax(frame->left + 4 + half, fmin(x, frame->right - half)), y - LABEL - 6, MP_ALIGN_CENTER, LABEL,
                   true, MP_COLOR_TEXT, label);
    mp_canvas_text(canvas, frame->left, middle, MP_ALIGN_LEFT, LABEL, false, MP_COLOR_MUTED, "\xe2\x86\x90 too few");
    mp_canvas_text(canvas, frame->right, middle, MP_ALIGN_RIGHT, LABEL, false, MP_COLOR_MUTED, "too many \xe2\x86\x92");
}
