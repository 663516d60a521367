/* curve_picture.c - draws the trade-off curve. The left panel shows memory and extra time of every plan found, with a line
 * per searcher. It also shades the area that floor and bound prove infeasible. The right panel shows the results for evenly
 * spread checkpoints. */
#include "memplan/pictures/curve_picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/canvas/plot.h"
#include "formats/curves/curve_spread.h"
#include "memplan/solver.h"

#define WIDTH 1040.0
#define HEIGHT 560.0 /* height of the picture in points, if the legend needs only one row */
#define MARGIN 24.0
#define PANELS_TOP 412.0
#define PANELS_BOTTOM 62.0
#define LEFT_FROM 76.0
#define LEFT_TO 600.0 /* x of the right end of the left panel; without the right panel, the left panel ends at RIGHT_TO */
#define RIGHT_FROM 716.0
#define RIGHT_TO (WIDTH - MARGIN - 8)
#define IMPOSSIBLE_COLOR "#f1f5f9"
#define LABEL 12.0 /* font size of texts in the panels, in points */
#define TITLE_SIZE 20.0
#define TITLE_LEAST 13.0 /* smallest font size of the picture's title, used if the title is long */
/* maximum width of the caller's title at font size TITLE_LEAST, without the result that is printed after it */
#define TITLE_WIDTH 620.0
#define ROW 17.0
#define LEGEND_ROW 20.0
#define LEADER_GAP 8.0
#define TEXT_GAP 4.0 /* distance between a leader line and its text, in points */
#define BESIDE 40.0  /* distance in points by which labels may extend beyond the sides of the panel */
#define APART 8.0    /* if one curve is slower than another by this factor, the axis of time is logarithmic */
/* fraction of the memory from floor to keep-all. If the lowest peaks of two curves differ by less, the choice of the axis
 * compares their times */
#define ALIKE 0.05
#define BELOW 0.15 /* a logarithmic axis begins this many per cent below 0 */

static const char *const colors[] = {MP_COLOR_KEPT, "#d97706", "#10b981", "#8b5cf6",
                                     "#be185d",     "#0e7490", "#4d7c0f", "#475569"};
enum { N_COLORS = sizeof colors / sizeof *colors, N_SIGNS = 4, MOST_LABELS = 8, MOST_NAMES = 3, TITLE_MAX = 64 };

typedef struct picture {
    const mp_sweep *sweep;
    mp_canvas *canvas;
    double height;
    mp_error *err;
} picture;

static void text(const picture *p, double x, double y, mp_align align, double size, bool bold, const char *color,
                 const char *what)
{
    mp_canvas_text(p->canvas, x, y, align, size, bold, color, what);
}

/* Returns the row of a curve's searcher in the table of searchers, so that the searcher has the same colour in every picture.
 * If the curve belongs to no single searcher, returns the index of the curve. */
static size_t solver_of(const picture *p, size_t curve)
{
    for (size_t k = 0; k < mp_solver_count(); k++)
        if (!strcmp(mp_solver_row(k)->name, p->sweep->curves[curve].solver)) return k;
    return curve;
}

static const char *color_of(const picture *p, size_t curve)
{
    return colors[solver_of(p, curve) % N_COLORS];
}

/* Draws the marker of a curve. Each searcher has its own marker, so that curves also differ without colours. */
static void marker(const picture *p, size_t curve, double x, double y)
{
    const size_t solver = solver_of(p, curve);
    const char *fill = color_of(p, curve);
    const double r = 4.5;
    switch ((solver + solver / N_COLORS) % N_SIGNS) {
    case 0:
        mp_canvas_dot(p->canvas, x, y, r, fill);
        return;
    case 1:
        mp_canvas_area(p->canvas, (double[]){x - r, y - r, x + r, y - r, x + r, y + r, x - r, y + r}, 4, fill);
        return;
    case 2:
        mp_canvas_area(p->canvas, (double[]){x - 1.2 * r, y - r, x + 1.2 * r, y - r, x, y + 1.3 * r}, 3, fill);
        return;
    default:
        mp_canvas_area(p->canvas, (double[]){x, y - 1.3 * r, x + 1.3 * r, y, x, y + 1.3 * r, x - 1.3 * r, y}, 4, fill);
    }
}

/* ---- the head ---- */

static const char impossible[] = "proved: no schedule";

/* Returns the x coordinate and the row of entry k in the legend. The last entry is the infeasible area. */
static double entry_x(const mp_sweep *sweep, size_t k, size_t *row)
{
    double x = MARGIN;
    *row = 0;
    for (size_t i = 0;; i++) {
        const char *name = i < sweep->n_curves ? sweep->curves[i].solver : impossible;
        const double width = 31 + mp_canvas_text_width(name, 13, false);
        if (x > MARGIN && x + width > WIDTH - MARGIN) {
            x = MARGIN;
            ++*row;
        }
        if (i == k) return x;
        x += width + 26;
    }
}

static size_t legend_rows(const mp_sweep *sweep)
{
    size_t row;
    entry_x(sweep, sweep->n_curves, &row);
    return row + 1;
}

/* Returns a sentence about the plan with the lowest peak. If several plans have this peak, the sentence is about the
 * fastest. */
static const char *finding(const mp_sweep *sweep, const char *title)
{
    const mp_sweep_point *best = NULL;
    const char *keep_all = mp_bytes_text(sweep->keep_all_bytes);
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t i = 0; i < sweep->curves[k].n; i++) {
            const mp_sweep_point *point = &sweep->curves[k].points[i];
            if (!point->feasible || point->peak_bytes >= sweep->keep_all_bytes) continue;
            if (!best || point->peak_bytes < best->peak_bytes ||
                (point->peak_bytes == best->peak_bytes && point->ticks < best->ticks))
                best = point;
        }
    if (best)
        return mp_text("%s: down to %s of %s, for %+.1f %% time", title, mp_bytes_text(best->peak_bytes), keep_all,
                       mp_curve_percent(sweep, best->ticks));
    return mp_text("%s: nothing takes less than the %s of keeping everything", title, keep_all);
}

static void heading(const picture *p, const char *title)
{
    size_t row;
    double x, y;
    const char *found = finding(p->sweep, mp_canvas_shorten(title, TITLE_LEAST, true, TITLE_WIDTH));
    const double size = mp_canvas_fitting_size(found, TITLE_SIZE, TITLE_LEAST, true, WIDTH - 2 * MARGIN);
    mp_canvas_heading(p->canvas, MARGIN, p->height - 36, size, found);
    const char *about = mp_text("peak memory against extra time   \xC2\xB7   keep all: %s   \xC2\xB7   floor: %s",
                                mp_bytes_text(p->sweep->keep_all_bytes), mp_bytes_text(p->sweep->floor_bytes));
    text(p, MARGIN, p->height - 58, MP_ALIGN_LEFT, 13, false, MP_COLOR_MUTED, about);
    for (size_t k = 0; k < p->sweep->n_curves; k++) {
        x = entry_x(p->sweep, k, &row);
        y = p->height - 84 - LEGEND_ROW * (double)row;
        mp_canvas_line(p->canvas, (double[]){x, y + 4, x + 24, y + 4}, 2, color_of(p, k), 2, false);
        marker(p, k, x + 12, y + 4);
        text(p, x + 31, y, MP_ALIGN_LEFT, 13, false, MP_COLOR_TEXT, p->sweep->curves[k].solver);
    }
    x = entry_x(p->sweep, p->sweep->n_curves, &row);
    y = p->height - 84 - LEGEND_ROW * (double)row;
    mp_canvas_box(p->canvas, x, y - 2, 16, 12, IMPOSSIBLE_COLOR, MP_COLOR_MUTED, NULL);
    text(p, x + 23, y, MP_ALIGN_LEFT, 13, false, MP_COLOR_TEXT, impossible);
}

/* ---- the left panel: extra time over memory ---- */

/* Returns the number of rows that the labels above the curves need. */
static double label_rows(const mp_sweep *sweep)
{
    return (double)(sweep->n_curves < MOST_LABELS ? sweep->n_curves : MOST_LABELS);
}

/* Returns the largest extra time among the plans of a curve, in per cent. *peak_bytes receives the lowest peak of these
 * plans. */
static double slowest(const mp_sweep_curve *curve, const mp_sweep *sweep, int64_t *peak_bytes)
{
    double most = 0;
    *peak_bytes = INT64_MAX;
    for (size_t i = 0; i < curve->n; i++) {
        const mp_sweep_point *point = &curve->points[i];
        if (!point->feasible) continue;
        most = fmax(most, mp_curve_percent(sweep, point->ticks));
        if (point->peak_bytes < *peak_bytes) *peak_bytes = point->peak_bytes;
    }
    return most;
}

/* True if two curves have almost the same lowest peak, but one is so much slower that the other would look flat on a linear
 * axis. */
static bool is_far_apart(const mp_sweep *sweep)
{
    const double span = (double)(sweep->keep_all_bytes - sweep->floor_bytes);
    int64_t here, there;
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t j = 0; j < sweep->n_curves; j++) {
            const double slow = slowest(&sweep->curves[k], sweep, &here), fast = slowest(&sweep->curves[j], sweep, &there);
            if (slow > APART * fmax(fast, 1) && (double)there <= (double)here + ALIKE * span) return true;
        }
    return false;
}

/* Creates the left panel. `title` (TITLE_MAX bytes) receives the title of its memory axis. */
static mp_plot memory_panel(const mp_sweep *sweep, char *title)
{
    const char *name;
    double most = 5;
    const double unit = mp_plot_unit(sweep->keep_all_bytes, &name);
    double low = (double)sweep->floor_bytes, high = (double)sweep->keep_all_bytes;
    for (size_t k = 0; k < sweep->n_curves; k++) {
        int64_t smallest;
        most = fmax(most, slowest(&sweep->curves[k], sweep, &smallest));
        for (size_t i = 0; i < sweep->curves[k].n; i++)
            if (sweep->curves[k].points[i].feasible) high = fmax(high, (double)sweep->curves[k].points[i].peak_bytes);
    }
    if (high - low < 0.02 * high) low = 0.98 * high - 1; /* if floor and keep-all are equal, the axis still needs a range */
    const double span = high - low, height = PANELS_TOP - PANELS_BOTTOM;
    const double headroom = height / (height - (label_rows(sweep) + 2) * ROW);
    const bool alone = sweep->n_spread < 2, logarithmic = is_far_apart(sweep);
    mp_plot panel = {.x = {MP_PLOT_LINEAR, low - 0.06 * span, high + 0.05 * span, LEFT_FROM, alone ? RIGHT_TO : LEFT_TO, unit},
                     .y = {MP_PLOT_LINEAR, -0.04 * most, most * headroom, PANELS_BOTTOM, PANELS_TOP, 1},
                     .x_ticks = alone ? 14 : 8,
                     .y_ticks = 7,
                     .x_title = title,
                     .y_title =
                         logarithmic ? "extra time over keeping everything, logarithmic" : "extra time over keeping everything",
                     .y_suffix = " %",
                     .signed_y = true};
    if (logarithmic) {
        panel.y.scale = MP_PLOT_COUNTS;
        panel.y.low = -BELOW;
        panel.y.high = expm1(log1p(most) * headroom);
    }
    snprintf(title, TITLE_MAX, "peak memory, %s", name);
    return panel;
}

static void floor_area(const picture *p, const mp_plot *panel)
{
    const double left = panel->x.from, bottom = panel->y.from, top = panel->y.to;
    double at = mp_plot_at(&panel->x, (double)p->sweep->floor_bytes);
    if (at < left) at = left;
    mp_canvas_box(p->canvas, left, bottom, at - left, top - bottom, IMPOSSIBLE_COLOR, NULL, NULL);
}

/* Draws the area that the bounds exclude. It is a step function, because the bound for a budget also holds for all smaller
 * budgets. */
static void bound_area(const picture *p, const mp_plot *panel)
{
    const double zero = mp_plot_at(&panel->y, 0);
    double from = fmax(mp_plot_at(&panel->x, (double)p->sweep->floor_bytes), panel->x.from);
    for (size_t k = 0; k < p->sweep->n_bounds; k++) {
        const mp_sweep_bound *b = &p->sweep->bounds[k];
        const double to = fmin(mp_plot_at(&panel->x, (double)b->budget_bytes), panel->x.to);
        const double top =
            b->infeasible ? panel->y.to : fmin(mp_plot_at(&panel->y, mp_curve_percent(p->sweep, b->ticks)), panel->y.to);
        if (to <= from) continue;
        if (top > zero) mp_canvas_box(p->canvas, from, zero, to - from, top - zero, IMPOSSIBLE_COLOR, NULL, NULL);
        from = to;
    }
}

static int by_peak(const void *a, const void *b)
{
    const mp_sweep_point *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

/* Draws a curve as a step function, up to keep-all. A plan is the best plan for all budgets from its own peak up to the
 * smallest budget at which a faster plan fits. */
static mp_status curve(const picture *p, const mp_plot *panel, size_t k)
{
    const mp_sweep_curve *c = &p->sweep->curves[k];
    const double right = mp_plot_at(&panel->x, (double)p->sweep->keep_all_bytes);
    size_t n = 0, n_points = 0;
    MP_OWNED double *xy = mp_alloc(2 * c->n + 1, 2 * sizeof *xy);
    MP_OWNED mp_sweep_point *points = mp_alloc(c->n, sizeof *points);
    MP_ENSURE(xy && points, p->err, MP_NOMEM, "out of memory for a curve");
    for (size_t i = 0; i < c->n; i++)
        if (c->points[i].feasible) points[n_points++] = c->points[i];
    qsort(points, n_points, sizeof *points, by_peak);
    for (size_t i = 0; i < n_points; i++) {
        const double x = mp_plot_at(&panel->x, (double)points[i].peak_bytes);
        const double y = mp_plot_at(&panel->y, mp_curve_percent(p->sweep, points[i].ticks));
        marker(p, k, x, y);
        if (n && y >= xy[2 * n - 1])
            continue; /* skips a point of the curve that is neither smaller nor faster than an earlier point */
        if (n) {
            xy[2 * n] = x;
            xy[2 * n + 1] = xy[2 * n - 1];
            n++;
        }
        xy[2 * n] = x;
        xy[2 * n++ + 1] = y;
    }
    if (n && right > xy[2 * n - 2]) {
        xy[2 * n] = right;
        xy[2 * n + 1] = xy[2 * n - 1];
        n++;
    }
    if (n > 1) mp_canvas_line(p->canvas, xy, n, color_of(p, k), 2, false);
    return MP_OK;
}

/* A label for the upper end of a curve. It states the lowest peak and the time of the plan with this peak. Curves that end
 * in the same point share a label. */
typedef struct end_label {
    double x, y;        /* coordinates of the upper end of the curve, in points */
    double text_x;      /* x coordinate of the end of the leader line, where the label's text begins. The row of the text is the
                           index of the label in the list */
    size_t curve, more; /* curve: the first curve that ends in the point; more: number of further curves that end there */
    int64_t peak_bytes, ticks;
    char names[64], text[160];
} end_label;

/* If a label for this point exists already, adds the name of the curve's searcher to the label. Otherwise returns false. */
static bool join_label(end_label *labels, size_t n, const mp_sweep_point *point, const char *solver)
{
    for (size_t k = 0; k < n; k++) {
        end_label *label = &labels[k];
        if (label->peak_bytes != point->peak_bytes || label->ticks != point->ticks) continue;
        const size_t length = strlen(label->names);
        if (++label->more < MOST_NAMES) snprintf(label->names + length, sizeof label->names - length, ", %s", solver);
        return true;
    }
    return false;
}

static size_t end_labels(const picture *p, const mp_plot *panel, end_label *labels)
{
    size_t n = 0;
    for (size_t k = 0; k < p->sweep->n_curves && n < MOST_LABELS; k++) {
        const mp_sweep_curve *c = &p->sweep->curves[k];
        size_t i = 0;
        while (i < c->n && !c->points[i].feasible) i++;
        if (i == c->n || c->points[i].ticks <= p->sweep->keep_all_ticks) continue;
        if (join_label(labels, n, &c->points[i], c->solver)) continue;
        end_label label = {.x = mp_plot_at(&panel->x, (double)c->points[i].peak_bytes),
                           .y = mp_plot_at(&panel->y, mp_curve_percent(p->sweep, c->points[i].ticks)),
                           .curve = k,
                           .peak_bytes = c->points[i].peak_bytes,
                           .ticks = c->points[i].ticks};
        snprintf(label.names, sizeof label.names, "%s", c->solver);
        labels[n++] = label;
    }
    for (size_t k = 0; k < n; k++) {
        const char *more = labels[k].more >= MOST_NAMES ? mp_text(" and %zu more", labels[k].more - MOST_NAMES + 1) : "";
        snprintf(labels[k].text, sizeof labels[k].text, "%s%s: %s, %+.1f %%", labels[k].names, more,
                 mp_bytes_text(labels[k].peak_bytes), mp_curve_percent(p->sweep, labels[k].ticks));
    }
    return n;
}

static int from_left(const void *a, const void *b)
{
    const end_label *l = a, *m = b;
    if (l->x != m->x) return l->x < m->x ? -1 : 1;
    if (l->y != m->y) return l->y > m->y ? -1 : 1;
    return (l->curve > m->curve) - (l->curve < m->curve);
}

static int from_right(const void *a, const void *b)
{
    const end_label *l = a, *m = b;
    return l->x == m->x ? from_left(a, b) : from_left(b, a);
}

/* Sorts the labels and sets the ends of their leader lines. The lines lead to the right (side 1) or to the left (side -1);
 * each ends one gap further than the previous line. Returns the distance by which texts extend beyond the panel. */
static double spread_labels(end_label *labels, size_t n, const mp_plot *panel, double side)
{
    double beyond = 0;
    qsort(labels, n, sizeof *labels, side > 0 ? from_left : from_right);
    for (size_t k = 0; k < n; k++) {
        end_label *label = &labels[k];
        const double from = k ? labels[k - 1].text_x + side * LEADER_GAP : label->x;
        label->text_x = side > 0 ? fmax(label->x, from) : fmin(label->x, from);
        const double end = label->text_x + side * (TEXT_GAP + mp_canvas_text_width(label->text, LABEL, true));
        beyond = fmax(beyond, side > 0 ? end - panel->x.to - BESIDE : panel->x.from - end);
    }
    return beyond;
}

/* Draws the labels in rows above all curves. The label of the outermost point is in the top row. A leader line goes straight
 * up from its point and bends below the rows, so that no leader crosses another leader or its text. */
static void curve_labels(const picture *p, const mp_plot *panel)
{
    end_label labels[MOST_LABELS];
    const size_t n = end_labels(p, panel, labels);
    const double bend = panel->y.to - ((double)n + 0.7) * ROW;
    double side = 1;
    if (spread_labels(labels, n, panel, side) > 0 && spread_labels(labels, n, panel, side = -1) > 0)
        spread_labels(labels, n, panel, side = 1);
    for (size_t k = 0; k < n; k++) {
        const end_label *label = &labels[k];
        const double row = panel->y.to - (double)(k + 1) * ROW;
        const double leader[] = {label->x, label->y, label->x, bend, label->text_x, row - 3};
        mp_canvas_line(p->canvas, leader, 3, color_of(p, label->curve), 0.75, false);
        text(p, label->text_x + side * TEXT_GAP, row, side > 0 ? MP_ALIGN_LEFT : MP_ALIGN_RIGHT, LABEL, true,
             color_of(p, label->curve), label->text);
    }
    if (n == 0) {
        const double middle = (panel->x.from + panel->x.to) / 2;
        const bool left = mp_plot_at(&panel->x, (double)p->sweep->floor_bytes) >
                          middle; /* the text is placed on the side where it does not cover the line of the floor */
        text(p, left ? panel->x.from + 8 : panel->x.to - 8, panel->y.to - 2 * ROW, left ? MP_ALIGN_LEFT : MP_ALIGN_RIGHT, LABEL,
             false, MP_COLOR_MUTED, "nothing was found that takes less than keeping everything");
    }
}

static mp_status trade_off(const picture *p)
{
    char title[TITLE_MAX];
    const mp_plot panel = memory_panel(p->sweep, title);
    const double floor_at = mp_plot_at(&panel.x, (double)p->sweep->floor_bytes),
                 keep_at = mp_plot_at(&panel.x, (double)p->sweep->keep_all_bytes), zero = mp_plot_at(&panel.y, 0);
    const bool tight =
        keep_at - floor_at <
        64; /* true if the lines of floor and keep-all are so close that the name of one would cover the line of the other */
    floor_area(p, &panel);
    bound_area(p, &panel);
    mp_plot_draw(&panel, p->canvas);
    if (floor_at >= panel.x.from) {
        mp_canvas_line(p->canvas, (double[]){floor_at, panel.y.from, floor_at, panel.y.to}, 2, MP_COLOR_LIMIT, 1.5, false);
        const bool left = tight || floor_at - panel.x.from > mp_canvas_text_width("floor", LABEL, false) + 8;
        text(p, left ? floor_at - 6 : floor_at + 6, zero + 8, left ? MP_ALIGN_RIGHT : MP_ALIGN_LEFT, LABEL, false,
             MP_COLOR_LIMIT, "floor");
    }
    const double top = panel.y.to - (label_rows(p->sweep) + 1.3) * ROW;
    mp_canvas_line(p->canvas, (double[]){keep_at, panel.y.from, keep_at, top}, 2, MP_COLOR_MUTED, 1, true);
    text(p, tight ? keep_at + 6 : keep_at, top + 4, tight ? MP_ALIGN_LEFT : MP_ALIGN_CENTER, LABEL, false, MP_COLOR_TEXT,
         "keep all");
    for (size_t k = 0; k < p->sweep->n_curves; k++) MP_CHECK(curve(p, &panel, k));
    mp_canvas_dot(p->canvas, keep_at, zero, 5.5, MP_COLOR_TEXT);
    curve_labels(p, &panel);
    return MP_OK;
}

mp_status mp_curve_picture(const mp_sweep *sweep, const char *title, const char *path, mp_error *err)
{
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    const double height = HEIGHT + LEGEND_ROW * (double)(legend_rows(sweep) - 1);
    MP_CHECK(mp_canvas_new(WIDTH, height, &canvas, err));
    const picture p = {.sweep = sweep, .canvas = canvas, .height = height, .err = err};
    heading(&p, title);
    MP_CHECK(trade_off(&p));
    if (sweep->n_spread > 1)
        mp_curve_spread(sweep, p.canvas, &(mp_curve_frame){RIGHT_FROM, RIGHT_TO, PANELS_BOTTOM, PANELS_TOP});
    return mp_canvas_write(p.canvas, path, err);
}
