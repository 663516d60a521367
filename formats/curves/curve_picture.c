/* curve_picture.c - the trade-off curve. Left: every plan that was found at its memory and extra time, a line per searcher,
 * from the area that is proved infeasible, below the floor and below the bound, to keep-all. Right: evenly spread checkpoints,
 * more and more of them.
 */
#include "memplan/curve_picture.h"

#include <math.h>
#include <stdio.h>

#include "estimator/base/memory.h"
#include "formats/base/bytes_text.h"
#include "formats/canvas/canvas_text.h"
#include "formats/canvas/plot.h"

#define WIDTH 1040.0
#define HEIGHT 540.0
#define MARGIN 24.0
#define PANELS_TOP (HEIGHT - 128.0)
#define PANELS_BOTTOM 62.0
#define LEFT_FROM 76.0
#define LEFT_TO 600.0
#define RIGHT_FROM 716.0
#define RIGHT_TO (WIDTH - MARGIN - 8)
#define IMPOSSIBLE_COLOR "#f1f5f9"
#define LABEL 12.0 /* size of text in the panels */
#define ROW 17.0
#define LEADER_GAP 8.0

static const char *const colors[] = {MP_COLOR_KEPT, "#d97706", "#10b981", "#8b5cf6",
                                     "#be185d",     "#0e7490", "#4d7c0f", "#475569"};
enum { N_COLORS = sizeof colors / sizeof *colors, MOST_LABELS = 8, TITLE_MAX = 64 };

typedef struct picture {
    const mp_sweep *sweep;
    mp_canvas *canvas;
    mp_error *err;
} picture;

static double percent(const mp_sweep *sweep, int64_t ticks)
{
    const double base = (double)sweep->keep_all_ticks;
    return base > 0 ? 100 * ((double)ticks - base) / base : 0;
}

static mp_status text(const picture *p, double x, double y, mp_align align, double size, bool bold, const char *color,
                      const char *what)
{
    return mp_canvas_text(p->canvas, x, y, align, size, bold, color, what, p->err);
}

/* The k-th curve's sign: told apart without colours, too. */
static mp_status marker(const picture *p, size_t k, double x, double y)
{
    const char *fill = colors[k % N_COLORS];
    const double r = 4.5;
    switch (k % 4) {
    case 0:
        return mp_canvas_dot(p->canvas, x, y, r, fill, p->err);
    case 1:
        return mp_canvas_area(p->canvas, (double[]){x - r, y - r, x + r, y - r, x + r, y + r, x - r, y + r}, 4, fill, p->err);
    case 2:
        return mp_canvas_area(p->canvas, (double[]){x - 1.2 * r, y - r, x + 1.2 * r, y - r, x, y + 1.3 * r}, 3, fill, p->err);
    default:
        return mp_canvas_area(p->canvas, (double[]){x, y - 1.3 * r, x + 1.3 * r, y, x, y + 1.3 * r, x - 1.3 * r, y}, 4, fill,
                              p->err);
    }
}

static mp_status heading(const picture *p, const char *title)
{
    mp_status st = MP_OK;
    char line[256], keep_all[MP_BYTES_TEXT_MAX], floor[MP_BYTES_TEXT_MAX];
    double x = MARGIN;
    const double y = HEIGHT - 84;
    MP_TRY(text(p, MARGIN, HEIGHT - 36, MP_ALIGN_LEFT, 20, true, MP_COLOR_TEXT, "Memory against extra time"));
    snprintf(line, sizeof line, "%s   keep all: %s   floor: %s", title, mp_bytes_text(p->sweep->keep_all_bytes, keep_all),
             mp_bytes_text(p->sweep->floor_bytes, floor));
    MP_TRY(text(p, MARGIN, HEIGHT - 58, MP_ALIGN_LEFT, 13, false, MP_COLOR_MUTED, line));
    for (size_t k = 0; k < p->sweep->n_curves; k++) {
        const char *name = p->sweep->curves[k].solver;
        MP_TRY(mp_canvas_line(p->canvas, (double[]){x, y + 4, x + 24, y + 4}, 2, colors[k % N_COLORS], 2, false, p->err));
        MP_TRY(marker(p, k, x + 12, y + 4));
        MP_TRY(text(p, x + 31, y, MP_ALIGN_LEFT, 13, false, MP_COLOR_TEXT, name));
        x += 31 + mp_canvas_text_width(name, 13, false) + 26;
    }
    MP_TRY(mp_canvas_box(p->canvas, x, y - 2, 16, 12, IMPOSSIBLE_COLOR, MP_COLOR_MUTED, NULL, p->err));
    MP_TRY(text(p, x + 23, y, MP_ALIGN_LEFT, 13, false, MP_COLOR_TEXT, "proved: no schedule"));
done:
    return st;
}

/* ---- memory against extra time ---- */

/* How many rows of labels stand above the curves. */
static double label_rows(const mp_sweep *sweep)
{
    return (double)(sweep->n_curves < MOST_LABELS ? sweep->n_curves : MOST_LABELS);
}

/* The title of the memory axis is written into `title` of TITLE_MAX. */
static mp_plot memory_panel(const mp_sweep *sweep, char *title)
{
    const char *name;
    double most = 5;
    const double unit = mp_plot_unit(sweep->keep_all_bytes, &name);
    double low = (double)sweep->floor_bytes, high = (double)sweep->keep_all_bytes;
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t i = 0; i < sweep->curves[k].n; i++) {
            const mp_sweep_point *point = &sweep->curves[k].points[i];
            if (!point->feasible) continue;
            if (percent(sweep, point->ticks) > most) most = percent(sweep, point->ticks);
            if ((double)point->peak_bytes > high) high = (double)point->peak_bytes;
        }
    if (high - low < 0.02 * high) low = 0.98 * high - 1; /* floor and keep-all coincide: still an axis */
    const double span = high - low, height = PANELS_TOP - PANELS_BOTTOM;
    const double headroom = height / (height - (label_rows(sweep) + 2) * ROW);
    mp_plot panel = {.x = {MP_PLOT_LINEAR, low - 0.06 * span, high + 0.05 * span, LEFT_FROM, LEFT_TO, unit},
                     .y = {MP_PLOT_LINEAR, -0.04 * most, most * headroom, PANELS_BOTTOM, PANELS_TOP, 1},
                     .x_ticks = 8,
                     .y_ticks = 7,
                     .x_title = title,
                     .y_title = "extra time over keeping everything",
                     .y_suffix = " %",
                     .signed_y = true};
    snprintf(title, TITLE_MAX, "peak memory, %s", name);
    return panel;
}

static mp_status floor_area(const picture *p, const mp_plot *panel)
{
    mp_status st = MP_OK;
    const double left = panel->x.from, bottom = panel->y.from, top = panel->y.to;
    double at = mp_plot_at(&panel->x, (double)p->sweep->floor_bytes);
    if (at < left) at = left;
    MP_TRY(mp_canvas_box(p->canvas, left, bottom, at - left, top - bottom, IMPOSSIBLE_COLOR, NULL, NULL, p->err));
done:
    return st;
}

/* The area that the bounds exclude, as steps: the bound for a budget is one for all smaller budgets too. */
static mp_status bound_area(const picture *p, const mp_plot *panel)
{
    mp_status st = MP_OK;
    const double zero = mp_plot_at(&panel->y, 0);
    double from = fmax(mp_plot_at(&panel->x, (double)p->sweep->floor_bytes), panel->x.from);
    for (size_t k = 0; k < p->sweep->n_bounds; k++) {
        const mp_sweep_bound *b = &p->sweep->bounds[k];
        const double to = fmin(mp_plot_at(&panel->x, (double)b->budget_bytes), panel->x.to);
        const double top = b->infeasible ? panel->y.to : fmin(mp_plot_at(&panel->y, percent(p->sweep, b->ticks)), panel->y.to);
        if (to <= from) continue;
        if (top > zero)
            MP_TRY(mp_canvas_box(p->canvas, from, zero, to - from, top - zero, IMPOSSIBLE_COLOR, NULL, NULL, p->err));
        from = to;
    }
done:
    return st;
}

static mp_status curve(const picture *p, const mp_plot *panel, size_t k)
{
    mp_status st = MP_OK;
    const mp_sweep_curve *c = &p->sweep->curves[k];
    size_t n = 0;
    double *xy = mp_alloc(c->n, 2 * sizeof *xy);
    MP_REQUIRE(xy, p->err, MP_NOMEM, "out of memory for a curve");
    for (size_t i = 0; i < c->n; i++) {
        if (!c->points[i].feasible) continue;
        xy[2 * n] = mp_plot_at(&panel->x, (double)c->points[i].peak_bytes);
        xy[2 * n + 1] = mp_plot_at(&panel->y, percent(p->sweep, c->points[i].ticks));
        n++;
    }
    if (n > 1) MP_TRY(mp_canvas_line(p->canvas, xy, n, colors[k % N_COLORS], 2, false, p->err));
    for (size_t i = 0; i < n; i++) MP_TRY(marker(p, k, xy[2 * i], xy[2 * i + 1]));
done:
    mp_free(xy);
    return st;
}

/* The upper end of a curve: the lowest peak and what it costs. */
typedef struct end_label {
    double x, y;   /* of the point */
    double text_x; /* of the text, whose row follows from its place in the list */
    size_t curve;
    char text[96];
} end_label;

static size_t end_labels(const picture *p, const mp_plot *panel, end_label *labels)
{
    size_t n = 0;
    for (size_t k = 0; k < p->sweep->n_curves && n < MOST_LABELS; k++) {
        const mp_sweep_curve *c = &p->sweep->curves[k];
        char bytes[MP_BYTES_TEXT_MAX];
        size_t i = 0;
        while (i < c->n && !c->points[i].feasible) i++;
        if (i == c->n || c->points[i].ticks <= p->sweep->keep_all_ticks) continue;
        end_label label = {.x = mp_plot_at(&panel->x, (double)c->points[i].peak_bytes),
                           .y = mp_plot_at(&panel->y, percent(p->sweep, c->points[i].ticks)),
                           .curve = k};
        snprintf(label.text, sizeof label.text, "%s: %s, %+.1f %%", c->solver, mp_bytes_text(c->points[i].peak_bytes, bytes),
                 percent(p->sweep, c->points[i].ticks));
        size_t at = n++; /* from left to right; of two that nearly coincide the upper one first */
        for (; at > 0; at--) {
            const end_label *other = &labels[at - 1];
            const bool near = fabs(other->x - label.x) < LEADER_GAP;
            if (near ? other->y >= label.y : other->x <= label.x) break;
            labels[at] = *other;
        }
        labels[at] = label;
    }
    return n;
}

/* Rows above all curves, the leftmost point's on top, so that no leader crosses another's text. */
static mp_status curve_labels(const picture *p, const mp_plot *panel)
{
    mp_status st = MP_OK;
    end_label labels[MOST_LABELS];
    const size_t n = end_labels(p, panel, labels);
    for (size_t k = 0; k < n; k++) {
        end_label *label = &labels[k];
        const char *color = colors[label->curve % N_COLORS];
        const double row = panel->y.to - (double)(k + 1) * ROW, width = mp_canvas_text_width(label->text, LABEL, true);
        label->text_x = label->x;
        if (k > 0 && label->text_x < labels[k - 1].text_x + LEADER_GAP) label->text_x = labels[k - 1].text_x + LEADER_GAP;
        const double leader[] = {label->x, label->y, label->text_x, row + 2};
        MP_TRY(mp_canvas_line(p->canvas, leader, 2, color, 0.75, false, p->err));
        const double text_x = fmin(label->text_x + 4, panel->x.to + 40 - width);
        MP_TRY(text(p, text_x, row, MP_ALIGN_LEFT, LABEL, true, color, label->text));
    }
    if (n == 0) {
        const double middle = (panel->x.from + panel->x.to) / 2;
        const bool left = mp_plot_at(&panel->x, (double)p->sweep->floor_bytes) > middle; /* clear of the floor's line */
        MP_TRY(text(p, left ? panel->x.from + 8 : panel->x.to - 8, panel->y.to - 2 * ROW, left ? MP_ALIGN_LEFT : MP_ALIGN_RIGHT,
                    LABEL, false, MP_COLOR_MUTED, "nothing was found that takes less than keeping everything"));
    }
done:
    return st;
}

static mp_status trade_off(const picture *p)
{
    mp_status st = MP_OK;
    char title[TITLE_MAX];
    const mp_plot panel = memory_panel(p->sweep, title);
    const double floor_at = mp_plot_at(&panel.x, (double)p->sweep->floor_bytes),
                 keep_at = mp_plot_at(&panel.x, (double)p->sweep->keep_all_bytes), zero = mp_plot_at(&panel.y, 0);
    const bool tight = keep_at - floor_at < 64; /* the two names would cover each other's lines */
    MP_TRY(floor_area(p, &panel));
    MP_TRY(bound_area(p, &panel));
    MP_TRY(mp_plot_draw(&panel, p->canvas, p->err));
    if (floor_at >= panel.x.from) {
        MP_TRY(mp_canvas_line(p->canvas, (double[]){floor_at, panel.y.from, floor_at, panel.y.to}, 2, MP_COLOR_LIMIT, 1.5,
                              false, p->err));
        MP_TRY(text(p, tight ? floor_at - 6 : floor_at + 6, zero + 8, tight ? MP_ALIGN_RIGHT : MP_ALIGN_LEFT, LABEL, false,
                    MP_COLOR_LIMIT, "floor"));
    }
    const double top = panel.y.to - (label_rows(p->sweep) + 1.3) * ROW;
    MP_TRY(mp_canvas_line(p->canvas, (double[]){keep_at, panel.y.from, keep_at, top}, 2, MP_COLOR_MUTED, 1, true, p->err));
    MP_TRY(text(p, tight ? keep_at + 6 : keep_at, top + 4, tight ? MP_ALIGN_LEFT : MP_ALIGN_CENTER, LABEL, false, MP_COLOR_TEXT,
                "keep all"));
    for (size_t k = 0; k < p->sweep->n_curves; k++) MP_TRY(curve(p, &panel, k));
    MP_TRY(mp_canvas_dot(p->canvas, keep_at, zero, 5.5, MP_COLOR_TEXT, p->err));
    MP_TRY(curve_labels(p, &panel));
done:
    return st;
}

/* ---- how many checkpoints ---- */

static mp_status spread_line(const picture *p, const mp_plot *panel, bool time, const char *color)
{
    mp_status st = MP_OK;
    const mp_sweep *sweep = p->sweep;
    double *xy = mp_alloc(sweep->n_spread, 2 * sizeof *xy);
    MP_REQUIRE(xy, p->err, MP_NOMEM, "out of memory for a curve");
    for (size_t i = 0; i < sweep->n_spread; i++) {
        const mp_spread_point *point = &sweep->spread[i];
        xy[2 * i] = mp_plot_at(&panel->x, (double)point->n_checkpoints);
        xy[2 * i + 1] = mp_plot_at(&panel->y, time ? percent(sweep, point->ticks) : (double)point->peak_bytes);
    }
    MP_TRY(mp_canvas_line(p->canvas, xy, sweep->n_spread, color, 2, false, p->err));
    for (size_t i = 0; i < sweep->n_spread; i++) MP_TRY(mp_canvas_dot(p->canvas, xy[2 * i], xy[2 * i + 1], 2.5, color, p->err));
done:
    mp_free(xy);
    return st;
}

static mp_status spread(const picture *p)
{
    mp_status st = MP_OK;
    const mp_sweep *sweep = p->sweep;
    const mp_spread_point *best = &sweep->spread[0];
    const double middle = (PANELS_TOP + PANELS_BOTTOM) / 2;
    double low = INFINITY, high = 0, most_percent = 5;
    char label[128], bytes[MP_BYTES_TEXT_MAX];
    const char *unit_name;
    for (size_t i = 0; i < sweep->n_spread; i++) {
        const mp_spread_point *point = &sweep->spread[i];
        if (point->peak_bytes < best->peak_bytes) best = point;
        low = fmin(low, (double)point->peak_bytes);
        high = fmax(high, (double)point->peak_bytes);
        most_percent = fmax(most_percent, percent(sweep, point->ticks));
    }
    const double span = fmax(high - low, 0.02 * high + 1);
    const double count = fmax((double)sweep->spread[sweep->n_spread - 1].n_checkpoints, 1);
    mp_plot peak = {.x = {MP_PLOT_COUNTS, 0, count, RIGHT_FROM, RIGHT_TO, 1},
                    .y = {MP_PLOT_LINEAR, low - 0.3 * span, high + 0.12 * span, middle + 34, PANELS_TOP, 1},
                    .x_ticks = 9,
                    .y_ticks = 5,
                    .x_title = ""};
    mp_plot time = {.x = peak.x,
                    .y = {MP_PLOT_LINEAR, 0, most_percent * 1.15, PANELS_BOTTOM, middle - 30, 1},
                    .x_ticks = 9,
                    .y_ticks = 4,
                    .x_title = "evenly spread checkpoints",
                    .y_title = "extra time",
                    .y_suffix = " %",
                    .signed_y = true};
    peak.y.unit = mp_plot_unit((int64_t)high, &unit_name);
    snprintf(label, sizeof label, "peak memory, %s", unit_name);
    peak.y_title = label;
    MP_TRY(text(p, RIGHT_FROM, PANELS_TOP + 32, MP_ALIGN_LEFT, 14, true, MP_COLOR_TEXT, "How many checkpoints?"));
    MP_TRY(mp_plot_draw(&peak, p->canvas, p->err));
    MP_TRY(mp_plot_draw(&time, p->canvas, p->err));
    MP_TRY(spread_line(p, &peak, false, colors[0]));
    MP_TRY(spread_line(p, &time, true, MP_COLOR_RECOMPUTED));
    const double x = mp_plot_at(&peak.x, (double)best->n_checkpoints), y = mp_plot_at(&peak.y, (double)best->peak_bytes);
    MP_TRY(mp_canvas_dot(p->canvas, x, y, 4.5, MP_COLOR_TEXT, p->err));
    snprintf(label, sizeof label, "%zu: %s", best->n_checkpoints, mp_bytes_text(best->peak_bytes, bytes));
    const double half = mp_canvas_text_width(label, LABEL, true) / 2;
    MP_TRY(text(p, fmax(RIGHT_FROM + 4 + half, fmin(x, RIGHT_TO - half)), y - LABEL - 6, MP_ALIGN_CENTER, LABEL, true,
                MP_COLOR_TEXT, label));
    MP_TRY(text(p, RIGHT_FROM, middle, MP_ALIGN_LEFT, LABEL, false, MP_COLOR_MUTED, "\xe2\x86\x90 too few"));
    MP_TRY(text(p, RIGHT_TO, middle, MP_ALIGN_RIGHT, LABEL, false, MP_COLOR_MUTED, "too many \xe2\x86\x92"));
done:
    return st;
}

mp_status mp_curve_picture(const mp_sweep *sweep, const char *title, const char *path, mp_error *err)
{
    mp_status st = MP_OK;
    picture p = {.sweep = sweep, .err = err};
    MP_TRY(mp_canvas_new(title, WIDTH, HEIGHT, &p.canvas, err));
    MP_TRY(heading(&p, title));
    MP_TRY(trade_off(&p));
    if (sweep->n_spread > 1) MP_TRY(spread(&p));
    MP_TRY(mp_canvas_write(p.canvas, path, err));
done:
    mp_canvas_free(p.canvas);
    return st;
}
