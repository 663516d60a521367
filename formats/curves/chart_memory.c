/* chart_memory.c - draws the chart of one tier: live bytes in layers, keep-all's curve, the budget, tooltips. */
#include "formats/curves/chart.h"

#include <math.h>

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"

#define LABEL_SPACE 62.0 /* height in points above the data, enough for two labels */
#define UNIT_SPACE 30.0  /* part of LABEL_SPACE that the unit of the axis occupies */

enum { KEEP_ALL_PARTS = 700, SEPARATED_MAX = 110 };

static double height_of(const mp_timeline_chart *p, int64_t bytes)
{
    return mp_byte_scale_y(&p->scale, (double)bytes);
}

static double share_x(const mp_timeline_chart *p, double share)
{
    return p->frame.left + share * (p->frame.right - p->frame.left);
}

double mp_column_left(const mp_timeline_columns *columns, const mp_frame *frame, size_t k)
{
    return mp_step_x(columns, frame, k < columns->n ? columns->columns[k].first : (double)columns->n_steps);
}

/* Draws each layer as the area from the bottom of the chart to the layer's upper edge. The uppermost layer is drawn first,
 * so the areas overlap and no gaps are visible. */
static mp_status draw_layers(const mp_timeline_chart *p, mp_error *err)
{
    const mp_timeline_columns *c = p->columns;
    const mp_timeline_column *columns = c->tiers[p->tier].columns;
    MP_OWNED double *xy = mp_alloc(2 * c->n + 2, 2 * sizeof *xy);
    MP_ENSURE(xy, err, MP_NOMEM, "no memory for a picture");
    for (int layer = MP_N_LAYERS - 1; layer >= 0; layer--) {
        size_t n = 0;
        bool any = false;
        for (size_t k = 0; k < c->n; k++) {
            int64_t below = 0;
            for (int j = 0; j <= layer; j++) below += columns[k].bytes[j];
            any |= columns[k].bytes[layer] > 0;
            for (size_t side = 0; side < 2; side++) {
                xy[n++] = mp_column_left(c, &p->frame, k + side);
                xy[n++] = height_of(p, below);
            }
        }
        if (!any) continue;
        xy[n++] = p->frame.right;
        xy[n++] = p->frame.low;
        xy[n++] = p->frame.left;
        xy[n++] = p->frame.low;
        mp_canvas_area(p->canvas, xy, n / 2, mp_layer_color((mp_layer)layer));
    }
    for (size_t k = 1; c->n <= SEPARATED_MAX && k < c->n; k++) {
        const double x = mp_column_left(c, &p->frame, k);
        const double top = fmax(height_of(p, columns[k].total), height_of(p, columns[k - 1].total));
        mp_canvas_line(p->canvas, (double[]){x, p->frame.low, x, top}, 2, MP_COLOR_PAPER, 0.7, false);
    }
    return MP_OK;
}

/* Writes the names of the static layers into their areas. */
static void name_bands(const mp_timeline_chart *p)
{
    const mp_tier_columns *tier = &p->columns->tiers[p->tier];
    int64_t below = 0;
    for (int k = 0; k < MP_N_LAYERS; k++) {
        int64_t always = tier->always[k];
        double low = height_of(p, below), high = height_of(p, below + always);
        below += always;
        if (p->scale.cut_below && below == tier->use->static_bytes)
            high -= 11; /* the space at the break of the scale is reserved for its mark */
        if (high - low < 13 || k > MP_LAYER_OPTIMIZER) continue;
        mp_canvas_text(p->canvas, p->frame.left + 10, (low + high) / 2 - 4, MP_ALIGN_LEFT, 11.5, false, MP_COLOR_TEXT,
                       mp_text("%s: %s", mp_layer_name((mp_layer)k), mp_bytes_text(always)));
    }
}

static mp_status draw_keep_all(const mp_timeline_chart *p, mp_error *err)
{
    const mp_timeline_columns *c = p->columns;
    const size_t parts = c->keep_all->n_steps < KEEP_ALL_PARTS ? c->keep_all->n_steps : KEEP_ALL_PARTS;
    size_t n = 0;
    MP_OWNED double *xy = mp_alloc(4 * parts, sizeof *xy);
    MP_ENSURE(xy, err, MP_NOMEM, "no memory for a picture");
    for (size_t k = 0; k < parts; k++) {
        const double from = (double)k / (double)parts, to = (double)(k + 1) / (double)parts;
        const double y = height_of(p, mp_keep_all_between(c, p->tier, from, to));
        if (n && fabs(xy[n - 1] - y) < 0.05) { /* while the curve of keep-all keeps its height, it needs no new point */
            xy[n - 2] = share_x(p, to);
            continue;
        }
        for (size_t side = 0; side < 2; side++) {
            xy[n++] = share_x(p, side ? to : from);
            xy[n++] = y;
        }
    }
    mp_canvas_line(p->canvas, xy, n / 2, MP_COLOR_MUTED, 1.3, true);
    return MP_OK;
}

static void draw_budget(const mp_timeline_chart *p)
{
    double y = height_of(p, p->budget_bytes);
    mp_canvas_line(p->canvas, (double[]){p->frame.left, y, p->frame.right, y}, 2, MP_COLOR_LIMIT, 1.6, false);
    mp_canvas_text(p->canvas, p->frame.right + 7, y + 1, MP_ALIGN_LEFT, 12.5, true, MP_COLOR_LIMIT, "budget");
    mp_canvas_text(p->canvas, p->frame.right + 7, y - 14, MP_ALIGN_LEFT, 12.5, true, MP_COLOR_LIMIT,
                   mp_bytes_text(p->budget_bytes));
}

/* Adds a tooltip to each column of the chart, which states the live bytes. */
static void draw_tooltips(const mp_timeline_chart *p)
{
    const mp_timeline_columns *c = p->columns;
    for (size_t k = 0; k < c->n; k++) {
        const mp_timeline_column *column = &c->tiers[p->tier].columns[k];
        double left = mp_column_left(c, &p->frame, k);
        const int node = c->steps[column->shown].node;
        const char *source = c->graph->nodes[node].source;
        const char *text = mp_text("step %d of %zu, %s: %.255s\n%.255s%s%s", column->shown + 1, c->n_steps,
                                   mp_activity_name(c->activity[column->shown]), mp_node_title(c->graph, node),
                                   source ? source : "", source ? "\n" : "", mp_bytes_text(column->total));
        for (int layer = 0; layer < MP_N_LAYERS; layer++)
            if (column->bytes[layer])
                text = mp_text("%s\n  %s %s", text, mp_layer_name((mp_layer)layer), mp_bytes_text(column->bytes[layer]));
        if (p->saves) text = mp_text("%s\nkeep everything, as far in its step: %s", text, mp_bytes_text(column->keep_all));
        mp_canvas_box(p->canvas, left, p->frame.low, mp_column_left(c, &p->frame, k + 1) - left, p->frame.high - p->frame.low,
                      MP_COLOR_CLEAR, NULL, text);
    }
}

double mp_timeline_chart_place(mp_timeline_chart *p, double low, double height)
{
    const mp_tier_columns *tier = &p->columns->tiers[p->tier];
    const double data_high = low + height - LABEL_SPACE;
    double most = (double)tier->use->peak_bytes, beyond = p->saves ? (double)tier->keep_all->peak_bytes : 0;
    if (p->budget_bytes < MP_NO_LIMIT) most = fmax(most, (double)p->budget_bytes);
    p->frame.low = low + 6;
    p->scale = mp_byte_scale_choose((double)tier->use->static_bytes, most, beyond, p->frame.low, data_high);
    p->frame.high = fmax(data_high + UNIT_SPACE, mp_timeline_labels_top(p) + 4);
    return p->frame.high;
}

mp_status mp_timeline_chart_draw(const mp_timeline_chart *p, mp_error *err)
{
    mp_byte_scale_grid(&p->scale, p->canvas, p->frame.left, p->frame.right);
    MP_CHECK(draw_layers(p, err));
    mp_byte_scale_breaks(&p->scale, p->canvas, p->frame.left, p->frame.right);
    name_bands(p);
    if (p->saves) MP_CHECK(draw_keep_all(p, err));
    if (p->budget_bytes < MP_NO_LIMIT) draw_budget(p);
    mp_timeline_peaks(p);
    draw_tooltips(p);
    mp_canvas_line(p->canvas, (double[]){p->frame.left, p->frame.low, p->frame.right, p->frame.low}, 2, MP_COLOR_MUTED, 1,
                   false);
    return MP_OK;
}
