/* timeline_labels.c - places for the names of the peaks. */
#include "formats/curves/timeline_labels.h"

#include <math.h>
#include <stdio.h>

#include "formats/base/bytes_text.h"
#include "formats/base/short_name.h"
#include "formats/canvas/canvas_text.h"

#define SIZE 13.0        /* of text */
#define NAME_WIDTH 300.0 /* of a node's name */

enum { TEXT_MAX = 256 };

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

/* The lowest and highest of keep-all's curve above a box's width. */
static void curve_range(const mp_timeline_chart *p, const label_box *box, double *lowest, double *highest)
{
    const mp_timeline *tl = p->columns->keep_all;
    const double n = (double)tl->n_steps, span = p->frame.right - p->frame.left;
    const size_t end = (size_t)fmin((box->right - p->frame.left) / span * n + 2, n);
    *lowest = INFINITY;
    *highest = -INFINITY;
    for (size_t t = (size_t)fmax((box->left - p->frame.left) / span * n - 1, 0); t < end; t++) {
        const double at = height_of(p, tl->static_bytes + tl->live_bytes[t]);
        *lowest = fmin(*lowest, at);
        *highest = fmax(*highest, at);
    }
}

/* Where a label of this width and height may stand: beside x, not lower than y, and on no data. What the plan takes lies below
 * y; in the way are keep-all's curve and the n `others`. Above all of them there is always room. */
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
    const char *text, *more; /* the second line; NULL: none */
    bool bold;
    const char *color;
} point_label;

/* A label near a point (x, y), above the height `above`, that covers nothing, with a line to the point. Boxes of both are
 * appended to `boxes`. */
static mp_status draw_label(const mp_timeline_chart *p, const point_label *label, double x, double y, double above,
                            label_box *boxes, size_t *n, mp_error *err)
{
    mp_status st = MP_OK;
    const double size = SIZE, line = size + 3, first = mp_canvas_text_width(label->text, size, label->bold);
    const double second = label->more ? mp_canvas_text_width(label->more, size, false) : 0;
    const label_box box = find_place(p, x, above + 7, fmax(first, second) + 10, label->more ? 2 * line : line, boxes, *n);
    MP_TRY(mp_canvas_line(p->canvas, (double[]){x, y, x, box.low}, 2, label->color, 1, false, err));
    MP_TRY(mp_canvas_text(p->canvas, box.left + 5, box.high - size, MP_ALIGN_LEFT, size, label->bold, label->color, label->text,
                          err));
    if (label->more)
        MP_TRY(
            mp_canvas_text(p->canvas, box.left + 5, box.low + 3, MP_ALIGN_LEFT, size, false, label->color, label->more, err));
    boxes[(*n)++] = box;
    boxes[(*n)++] = (label_box){x - 3, x + 3, y, box.low};
done:
    return st;
}

mp_status mp_timeline_peaks(const mp_timeline_chart *p, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_timeline_columns *c = p->columns;
    const mp_timeline *tl = c->timeline, *all = c->keep_all;
    char text[TEXT_MAX], node[TEXT_MAX], name[TEXT_MAX], shown[TEXT_MAX], bytes[MP_BYTES_TEXT_MAX];
    double x = mp_step_x(c, &p->frame, tl->peak_step + 0.5), y = height_of(p, tl->peak_bytes), above = y;
    const double all_x = p->frame.left + (all->peak_step + 0.5) / (double)all->n_steps * (p->frame.right - p->frame.left);
    const double all_y = height_of(p, all->peak_bytes);
    label_box boxes[5];
    size_t n = 0;
    if (p->budget_bytes >= 0) above = fmax(above, height_of(p, p->budget_bytes));
    if (p->saves) boxes[n++] = (label_box){all_x - 3, all_x + 3, all_y, all_y + 24}; /* where its line will be */
    mp_short_name(mp_node_title(c->graph, c->steps[tl->peak_step].node, node, sizeof node), name, sizeof name);
    mp_canvas_shorten(name, SIZE, false, NAME_WIDTH, shown, sizeof shown);
    snprintf(text, sizeof text, "peak %s at", mp_bytes_text(tl->peak_bytes, bytes));
    MP_TRY(draw_label(p, &(point_label){text, shown, true, MP_COLOR_TEXT}, x, y, above, boxes, &n, err));
    MP_TRY(mp_canvas_dot(p->canvas, x, y, 3.6, MP_COLOR_TEXT, err));
    if (!p->saves) goto done;
    boxes[0] = boxes[--n];
    snprintf(text, sizeof text, "keep everything: %s", mp_bytes_text(all->peak_bytes, bytes));
    MP_TRY(draw_label(p, &(point_label){text, NULL, false, MP_COLOR_MUTED}, all_x, all_y, all_y, boxes, &n, err));
done:
    return st;
}
