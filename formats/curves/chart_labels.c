/* chart_labels.c - positions of the labels that state the peaks of the plan and of keep-all. */
#include "formats/curves/chart.h"

#include <math.h>

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"

#define SIZE 13.0        /* font size of the labels at the peaks, in points */
#define NAME_WIDTH 300.0 /* maximum width of the name of a node in a label, in points */

static double height_of(const mp_timeline_chart *p, int64_t bytes)
{
    return mp_byte_scale_y(&p->scale, (double)bytes);
}

typedef struct label_box {
    double left, right, low, high;
} label_box;

static bool overlap(const label_box *a, const label_box *b)
{
    return a->left < b->right && b->left < a->right && a->low < b->high && b->low < a->high;
}

/* Finds the lowest and the highest point of keep-all's curve between the left and the right side of a label's box. */
static void curve_range(const mp_timeline_chart *p, const label_box *box, double *lowest, double *highest)
{
    const mp_tier_use *use = p->columns->tiers[p->tier].keep_all;
    const double n = (double)p->columns->keep_all->n_steps, span = p->frame.right - p->frame.left;
    const size_t end = (size_t)fmin((box->right - p->frame.left) / span * n + 2, n);
    *lowest = INFINITY;
    *highest = -INFINITY;
    for (size_t t = (size_t)fmax((box->left - p->frame.left) / span * n - 1, 0); t < end; t++) {
        const double at = height_of(p, use->static_bytes + use->live_bytes[t]);
        *lowest = fmin(*lowest, at);
        *highest = fmax(*highest, at);
    }
}

/* Finds a position for a label of this size: near x, not below y, and without covering keep-all's curve or the n boxes
 * `others`. The curve of the plan is below y. A free position always exists above everything else. */
static label_box find_place(const mp_timeline_chart *p, double x, double y, double width, double height,
                            const label_box *others, size_t n)
{
    const double starts[] = {x - width / 2, x - 8, x - width + 8};
    label_box best = {.low = INFINITY};
    for (size_t side = 0; side < sizeof starts / sizeof *starts; side++) {
        label_box box = {.left = fmin(fmax(starts[side], p->frame.left + 4), p->frame.right - width - 4), .low = y};
        box.right = box.left + width;
        for (bool moved = true; moved;) {
            double lowest, highest;
            moved = false;
            box.high = box.low + height;
            for (size_t k = 0; k < n && !moved; k++) {
                if (!overlap(&box, &others[k])) continue;
                box.low = others[k].high + 1;
                moved = true;
            }
            curve_range(p, &box, &lowest, &highest);
            if (!moved && p->saves && lowest < box.high + 1 && highest > box.low - 1) {
                box.low = highest + 2;
                moved = true;
            }
        }
        if (box.low < best.low - 1) best = box;
    }
    return best;
}

typedef struct point_label {
    const char *text, *more; /* first and second line of the label; `more` is "" if there is only one line */
    bool bold;
    const char *color;
    double x, y;   /* coordinates of the peak that the label describes */
    label_box box; /* box of the label's text; a line connects the box with the peak */
} point_label;

enum { LABELS_MAX = 2, OBSTACLES_MAX = 6 };

/* The boxes that are placed already; further labels must not cover them. */
typedef struct obstacles {
    label_box boxes[OBSTACLES_MAX];
    size_t n;
} obstacles;

/* Places a label near its peak, above y = above, without covering anything. */
static void place_label(const mp_timeline_chart *p, point_label *label, double above, obstacles *in_the_way)
{
    const double first = mp_canvas_text_width(label->text, SIZE, label->bold),
                 second = mp_canvas_text_width(label->more, SIZE, 0);
    const double height = (*label->more ? 2 : 1) * (SIZE + 3);
    label->box = find_place(p, label->x, above + 7, fmax(first, second) + 10, height, in_the_way->boxes, in_the_way->n);
    in_the_way->boxes[in_the_way->n++] = label->box;
    in_the_way->boxes[in_the_way->n++] = (label_box){label->x - 3, label->x + 3, label->y, label->box.low};
}

/* Places the labels of the plan's peak and of keep-all's peak, and returns their number. */
static size_t place_labels(const mp_timeline_chart *p, point_label labels[LABELS_MAX])
{
    const mp_timeline_columns *c = p->columns;
    const mp_tier_use *use = c->tiers[p->tier].use, *all = c->tiers[p->tier].keep_all;
    point_label *peak = &labels[0], *beyond = &labels[1];
    obstacles in_the_way = {.n = 0};
    double from, to, above;
    mp_distinct_names *names =
        p->canvas ? mp_canvas_names(p->canvas) : NULL; /* without a canvas, only the size of the labels is needed */
    const char *title = mp_node_title(c->graph, c->steps[use->peak_step].node);
    *peak = (point_label){.text = mp_text("peak %s at", mp_bytes_text(use->peak_bytes)),
                          .more = mp_canvas_distinct(names, title, mp_short_name(title), SIZE, false, NAME_WIDTH),
                          .bold = true,
                          .color = MP_COLOR_TEXT,
                          .y = height_of(p, use->peak_bytes)};
    *beyond = (point_label){.text = mp_text("keep everything: %s", mp_bytes_text(all->peak_bytes)),
                            .more = "",
                            .color = MP_COLOR_MUTED,
                            .y = height_of(p, all->peak_bytes)};
    peak->x = mp_step_x(c, &p->frame, use->peak_step + 0.5);
    beyond->x = p->frame.left + (all->peak_step + 0.5) / (double)c->keep_all->n_steps * (p->frame.right - p->frame.left);
    if (mp_byte_scale_upper_break(&p->scale, &from, &to))
        in_the_way.boxes[in_the_way.n++] = (label_box){p->frame.left, p->frame.right, from, to};
    above = p->budget_bytes < MP_NO_LIMIT ? fmax(peak->y, height_of(p, p->budget_bytes)) : peak->y;
    const size_t line_beyond = in_the_way.n;
    if (p->saves) in_the_way.boxes[in_the_way.n++] = (label_box){beyond->x - 3, beyond->x + 3, beyond->y, beyond->y + 24};
    place_label(p, peak, above, &in_the_way);
    if (!p->saves) return 1;
    in_the_way.boxes[line_beyond] = in_the_way.boxes[--in_the_way.n];
    place_label(p, beyond, beyond->y, &in_the_way);
    return 2;
}

double mp_timeline_labels_top(const mp_timeline_chart *p)
{
    point_label labels[LABELS_MAX];
    double top = 0;
    for (size_t k = 0, n = place_labels(p, labels); k < n; k++) top = fmax(top, labels[k].box.high);
    return top;
}

void mp_timeline_peaks(const mp_timeline_chart *p)
{
    point_label labels[LABELS_MAX];
    const size_t n = place_labels(p, labels);
    for (const point_label *l = labels; l < labels + n; l++) {
        const label_box *box = &l->box;
        mp_canvas_line(p->canvas, (double[]){l->x, l->y, l->x, box->low}, 2, l->color, 1, false);
        mp_canvas_text(p->canvas, box->left + 5, box->high - SIZE, MP_ALIGN_LEFT, SIZE, l->bold, l->color, l->text);
        if (*l->more) mp_canvas_text(p->canvas, box->left + 5, box->low + 3, MP_ALIGN_LEFT, SIZE, false, l->color, l->more);
    }
    mp_canvas_dot(p->canvas, labels[0].x, labels[0].y, 3.6, MP_COLOR_TEXT);
}
