/* chart_scale.c - the vertical axis of a timeline: piecewise linear, with up to three zones.
 *
 * Parameters and optimizer state are often larger than activations, and a plan may need a tenth of keep-all's memory. The
 * zone between the plan's static bytes and its peak therefore gets most of the height. A white band marks each change of
 * scale, called a break. */
#include "formats/curves/chart.h"

#include <math.h>
#include <stdio.h>

#include "formats/canvas/plot.h"

#define SQUEEZED_BELOW 50.0 /* height of a compressed zone in points, at most the fraction LOW_SHARE of the total height */
#define SQUEEZED_ABOVE 74.0
#define LOW_SHARE 0.22
#define ALWAYS_SHARE 0.3  /* if static bytes occupy at most this fraction of the height, they are not compressed */
#define BEYOND_FACTOR 2.2 /* if keep-all's curve is at most this multiple of the plan's peak, it is not compressed */
#define HEADROOM 1.15
#define LABEL_ROOM 52.0 /* height in points between the plan's peak and the upper break; it contains the label of the peak */
#define WAVE 1.8        /* height of the waves of the mark at a break of the scale, in points */
#define HALF_BAND 2.0

#define GRID_APART 22.0 /* minimum distance of grid lines, in points */

enum { LABEL_MAX = 48, GRID_LINES = 7 };

mp_byte_scale mp_byte_scale_choose(double always, double most, double beyond, double low, double high)
{
    mp_byte_scale s = {.n = 0};
    s.cut_below = most > always && always > ALWAYS_SHARE * fmax(most, 1);
    double from = s.cut_below ? always : 0, to = from + fmax(most - from, 1) * HEADROOM;
    s.cut_above = beyond - from > BEYOND_FACTOR * (to - from);
    if (!s.cut_above && beyond > most) to = fmax(to, beyond);
    if (!s.cut_above && beyond <= most) to = from + fmax(most - from, 1);
    const double squeezed = LOW_SHARE * (high - low);
    double main_low = low + (s.cut_below ? fmin(SQUEEZED_BELOW, squeezed) : 0);
    double main_high = high - (s.cut_above ? fmin(SQUEEZED_ABOVE, squeezed) : 0);
    if (s.cut_above && main_high - main_low > 2 * LABEL_ROOM)
        to = from + fmax(most - from, 1) * fmax(HEADROOM, 1 / (1 - LABEL_ROOM / (main_high - main_low)));
    if (s.cut_below) s.zones[s.n++] = (mp_byte_zone){0, from, low, main_low};
    s.zones[s.n++] = (mp_byte_zone){from, to, main_low, main_high};
    if (s.cut_above) s.zones[s.n++] = (mp_byte_zone){to, beyond, main_high, high};
    return s;
}

double mp_byte_scale_y(const mp_byte_scale *scale, double bytes)
{
    int k = 0;
    while (k + 1 < scale->n && bytes > scale->zones[k].to) k++;
    const mp_byte_zone *z = &scale->zones[k];
    return z->low + (bytes - z->from) / (z->to - z->from) * (z->high - z->low);
}

static void grid_line(mp_canvas *canvas, double left, double right, double y, double value, int decimals)
{
    char text[LABEL_MAX];
    snprintf(text, sizeof text, "%.*f", decimals, value);
    mp_canvas_line(canvas, (double[]){left, y, right, y}, 2, MP_COLOR_GRID, 0.75, false);
    mp_canvas_text(canvas, left - 8, y - 4, MP_ALIGN_RIGHT, 12, false, MP_COLOR_MUTED, text);
}

void mp_byte_scale_grid(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right)
{
    const mp_byte_zone *main = &scale->zones[scale->cut_below];
    const mp_byte_zone *top = &scale->zones[scale->n - 1];
    const char *name;
    const double unit = mp_plot_unit((int64_t)main->to, &name);
    double step = mp_plot_step((main->to - main->from) / unit / fmin(GRID_LINES, (main->high - main->low) / GRID_APART));
    int decimals = 0;
    if (unit == 1 && step < 1) step = 1;
    if (step < 0.999) decimals = (int)ceil(-log10(step) - 1e-9);
    mp_canvas_text(canvas, left - 8, top->high + 14, MP_ALIGN_RIGHT, 12, false, MP_COLOR_MUTED, name);
    if (scale->cut_below) grid_line(canvas, left, right, scale->zones[0].low, 0, 0);
    for (double i = ceil(main->from / unit / step); i * step * unit <= main->to; i++) {
        double y = mp_byte_scale_y(scale, i * step * unit);
        bool crowded = (scale->cut_below && y < main->low + 8) || (scale->cut_above && y > main->high - 8);
        if (!crowded) grid_line(canvas, left, right, y, i * step, decimals);
    }
    if (scale->cut_above) grid_line(canvas, left, right, top->high, top->to / unit, decimals ? decimals : step < 10);
}

/* Draws the mark of a break: a white band with wavy edges. */
static void mark_break(mp_canvas *canvas, double left, double right, double y)
{
    enum { WAVES = 60 };
    double band[4 * (2 * WAVES + 1)], upper[2 * (2 * WAVES + 1)], lower[2 * (2 * WAVES + 1)];
    size_t n = 2 * WAVES + 1;
    for (size_t k = 0; k < n; k++) {
        double x = left + (right - left) * (double)k / (double)(n - 1), wave = k % 2 ? WAVE : -WAVE;
        upper[2 * k] = lower[2 * k] = x;
        upper[2 * k + 1] = y + wave + HALF_BAND;
        lower[2 * k + 1] = y + wave - HALF_BAND;
        band[2 * k] = x;
        band[2 * k + 1] = y + wave + HALF_BAND;
        band[4 * n - 2 - 2 * k] = x;
        band[4 * n - 1 - 2 * k] = y + wave - HALF_BAND;
    }
    mp_canvas_area(canvas, band, 2 * n, MP_COLOR_PAPER);
    mp_canvas_line(canvas, upper, n, MP_COLOR_MUTED, 0.6, false);
    mp_canvas_line(canvas, lower, n, MP_COLOR_MUTED, 0.6, false);
}

bool mp_byte_scale_upper_break(const mp_byte_scale *scale, double *low, double *high)
{
    const double middle = scale->zones[scale->n - 1].low;
    *low = middle - WAVE - HALF_BAND;
    *high = middle + WAVE + HALF_BAND;
    return scale->cut_above;
}

void mp_byte_scale_breaks(const mp_byte_scale *scale, mp_canvas *canvas, double left, double right)
{
    const mp_byte_zone *below = &scale->zones[0], *above = &scale->zones[scale->n - 1];
    if (scale->cut_below) mark_break(canvas, left - 6, right, below->high - 7);
    if (scale->cut_above) mark_break(canvas, left - 6, right, above->low);
}
