/* plot.c - draws the axes of a plot with round numbers, grid lines and titles. */
#include "formats/canvas/plot.h"

#include <math.h>

#include "formats/base/text.h"

enum { SIZE = 12 }; /* font size of the numbers and titles of the axes, in points */

static double scaled(const mp_plot_axis *axis, double value)
{
    return axis->scale == MP_PLOT_COUNTS ? log1p(value) : value;
}

double mp_plot_at(const mp_plot_axis *axis, double value)
{
    const double low = scaled(axis, axis->low), high = scaled(axis, axis->high);
    return axis->from + (scaled(axis, value) - low) / (high - low) * (axis->to - axis->from);
}

double mp_plot_step(double least)
{
    static const double steps[] = {1, 2, 5};
    const double power = pow(10, floor(log10(least)));
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
        if (steps[k] * power >= least * (1 - 1e-9)) return steps[k] * power;
    return 10 * power;
}

static size_t linear_ticks(const mp_plot_axis *axis, size_t most, double *values)
{
    const double low = axis->low / axis->unit, high = axis->high / axis->unit;
    const double step = mp_plot_step((high - low) / ((double)most - 1));
    size_t n = 0;
    for (double k = ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + 1e-9 * step && n < most; k++)
        values[n++] =
            k * step * axis->unit + 0.0; /* adding 0.0 turns negative zero into positive zero, so that "-0" is never shown */
    return n;
}

/* Selects numbers for the axis from 0, 1, 2, 5, 10, 20, ..., such that neighbours are far enough apart. */
static size_t count_ticks(const mp_plot_axis *axis, size_t most, double *values)
{
    static const double leads[] = {1, 2, 5};
    const double apart = fabs(axis->to - axis->from) / ((double)most + 1);
    size_t n = 0;
    values[n++] = 0;
    for (double power = 1; power <= axis->high && n < most; power *= 10)
        for (size_t k = 0; k < sizeof leads / sizeof *leads && n < most; k++) {
            const double value = leads[k] * power;
            if (value <= axis->high && fabs(mp_plot_at(axis, value) - mp_plot_at(axis, values[n - 1])) >= apart)
                values[n++] = value;
        }
    return n;
}

size_t mp_plot_ticks(const mp_plot_axis *axis, size_t most, double *values)
{
    if (most > MP_PLOT_TICKS_MAX) most = MP_PLOT_TICKS_MAX;
    if (most < 2) most = 2;
    return axis->scale == MP_PLOT_COUNTS ? count_ticks(axis, most, values) : linear_ticks(axis, most, values);
}

double mp_plot_unit(int64_t bytes, const char **name)
{
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double unit = 1;
    size_t k = 0;
    for (; k + 1 < sizeof names / sizeof *names && (double)bytes >= 1024 * unit; k++) unit *= 1024;
    *name = names[k];
    return unit;
}

/* Returns how many decimals the numbers of an axis need. The result depends on the distance between neighbouring numbers, and
 * is the same for all numbers of the axis. */
static int decimals_of(const mp_plot_axis *axis, const double *values, size_t n)
{
    if (n < 2 || axis->scale == MP_PLOT_COUNTS) return 0;
    const double step = (values[1] - values[0]) / axis->unit;
    return step < 1 - 1e-9 ? (int)fmin(ceil(-log10(step) - 1e-9), 9) : 0;
}

void mp_plot_draw(const mp_plot *panel, mp_canvas *canvas)
{
    const mp_plot_axis *x = &panel->x, *y = &panel->y;
    double values[MP_PLOT_TICKS_MAX];
    size_t n = mp_plot_ticks(y, panel->y_ticks, values);
    for (size_t k = 0; k < n; k++) {
        const double at = mp_plot_at(y, values[k]);
        mp_canvas_line(canvas, (double[]){x->from, at, x->to, at}, 2, MP_COLOR_GRID, 1, false);
        mp_canvas_text(canvas, x->from - 8, at - SIZE * 0.35, MP_ALIGN_RIGHT, SIZE, false, MP_COLOR_MUTED,
                       mp_text("%s%.*f%s", panel->signed_y && values[k] > 0 ? "+" : "", decimals_of(y, values, n),
                               values[k] / y->unit, panel->y_suffix ? panel->y_suffix : ""));
    }
    mp_canvas_line(canvas, (double[]){x->from, y->from, x->to, y->from}, 2, MP_COLOR_MUTED, 1, false);
    n = mp_plot_ticks(x, panel->x_ticks, values);
    for (size_t k = 0; k < n; k++) {
        const double at = mp_plot_at(x, values[k]);
        mp_canvas_line(canvas, (double[]){at, y->from, at, y->from - 4}, 2, MP_COLOR_MUTED, 1, false);
        mp_canvas_text(canvas, at, y->from - 6 - SIZE, MP_ALIGN_CENTER, SIZE, false, MP_COLOR_MUTED,
                       mp_text("%.*f", decimals_of(x, values, n), values[k] / x->unit));
    }
    mp_canvas_text(canvas, (x->from + x->to) / 2, y->from - 14 - 2 * SIZE, MP_ALIGN_CENTER, SIZE, false, MP_COLOR_MUTED,
                   panel->x_title);
    mp_canvas_text(canvas, x->from, y->to + 10, MP_ALIGN_LEFT, SIZE, false, MP_COLOR_MUTED, panel->y_title);
}
