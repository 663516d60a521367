/* loss_picture.c - draws the loss of each training step, and its running mean. */
#include "memplan/pictures/loss_picture.h"

#include <math.h>

#include "estimator/base/memory.h"
#include "formats/base/text.h"
#include "formats/canvas/plot.h"

#define WIDTH 860.0
#define HEIGHT 460.0
#define LEFT 72.0
#define RIGHT (WIDTH - 28)
#define BOTTOM 58.0
#define TOP (HEIGHT - 96)
#define RAW_COLOR MP_COLOR_FORWARD_ONLY
#define MEAN_COLOR "#1d4ed8"

typedef struct curve {
    const double *losses;
    size_t n, window; /* n: number of losses. window: number of training steps over which the running mean is computed */
    int64_t first;
    mp_plot panel;
    mp_canvas *canvas;
    double *points;
} curve;

static double mean_at(const curve *c, size_t k)
{
    double sum = 0;
    size_t from = k + 1 > c->window ? k + 1 - c->window : 0;
    for (size_t j = from; j <= k; j++) sum += c->losses[j];
    return sum / (double)(k + 1 - from);
}

static void draw_line(curve *c, bool mean, const char *color, double width)
{
    size_t n = 0;
    for (size_t k = 0; k <= c->n; k++) {
        double value = k == c->n ? NAN : mean ? mean_at(c, k) : c->losses[k];
        if (isfinite(value)) {
            c->points[2 * n] = mp_plot_at(&c->panel.x, (double)(c->first + (int64_t)k + 1));
            c->points[2 * n++ + 1] = mp_plot_at(&c->panel.y, value);
            continue;
        }
        if (n > 1) mp_canvas_line(c->canvas, c->points, n, color, width, false);
        n = 0;
    }
}

static void draw_legend(const curve *c)
{
    double y = TOP + 20, x = RIGHT - 250;
    mp_canvas_line(c->canvas, (double[]){x, y + 4, x + 26, y + 4}, 2, RAW_COLOR, 1.5, false);
    mp_canvas_text(c->canvas, x + 32, y, MP_ALIGN_LEFT, 12, false, MP_COLOR_MUTED, "each step");
    mp_canvas_line(c->canvas, (double[]){x + 112, y + 4, x + 138, y + 4}, 2, MEAN_COLOR, 2.5, false);
    mp_canvas_text(c->canvas, x + 144, y, MP_ALIGN_LEFT, 12, false, MP_COLOR_MUTED, mp_text("mean of %zu steps", c->window));
}

/* Returns the first (or the last) loss that is finite; NAN if no loss is finite. */
static double first_finite(const double *losses, size_t n, bool from_the_end)
{
    for (size_t k = 0; k < n; k++) {
        const double loss = losses[from_the_end ? n - 1 - k : k];
        if (isfinite(loss)) return loss;
    }
    return NAN;
}

static void curve_free(curve *c)
{
    mp_canvas_free(c->canvas);
    mp_free(c->points);
}

mp_status mp_loss_picture(const char *title, const double *losses, size_t n, int64_t first_step, const char *path,
                          mp_error *err)
{
    double low = INFINITY, high = -INFINITY;
    MP_CLEARED_BY(curve_free) curve c = {.losses = losses, .n = n, .first = first_step, .window = n / 20 > 1 ? n / 20 : 2};
    MP_ENSURE(n >= 2, err, MP_INVALID, "a curve needs two steps or more");
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(losses[k])) continue;
        low = fmin(low, losses[k]);
        high = fmax(high, losses[k]);
    }
    MP_ENSURE(low <= high, err, MP_INVALID, "there is no loss that is a number");
    double margin = high > low ? 0.05 * (high - low) : 0.5;
    MP_ENSURE(c.points = mp_alloc(2 * n, sizeof *c.points), err, MP_NOMEM, "no memory for a curve of %zu steps", n);
    c.panel = (mp_plot){.x = {MP_PLOT_LINEAR, (double)(first_step + 1), (double)(first_step + (int64_t)n), LEFT, RIGHT, 1},
                        .y = {MP_PLOT_LINEAR, low >= 0 && low < margin * 2 ? 0 : low - margin, high + margin, BOTTOM, TOP, 1},
                        .x_ticks = 10,
                        .y_ticks = 8,
                        .x_title = "step",
                        .y_title = "loss",
                        .y_suffix = ""};
    MP_CHECK(mp_canvas_new(WIDTH, HEIGHT, &c.canvas, err));
    const char *heading = mp_text("%s: training loss %.4g at first, %.4g at last", title, first_finite(losses, n, false),
                                  first_finite(losses, n, true));
    mp_canvas_heading(c.canvas, LEFT - 40, HEIGHT - 36, 17, heading);
    mp_plot_draw(&c.panel, c.canvas);
    draw_line(&c, false, RAW_COLOR, 1.2);
    draw_line(&c, true, MEAN_COLOR, 2.5);
    draw_legend(&c);
    return mp_canvas_write(c.canvas, path, err);
}
