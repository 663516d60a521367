/* timeline_picture.c - the memory of a training step over its steps, as a picture.
 *
 * From top to bottom: a headline with the saving, the legend, live memory in layers with keep-all's curve behind it, a
 * ribbon that says what the steps do, and a panel for single tensors. Thousands of steps are drawn as a few hundred
 * columns, each showing its step with the most live bytes, so that the peak and every spike stay.
 */
#include "memplan/timeline_picture.h"

#include <math.h>
#include <string.h>

#include "estimator/graph/order_rules.h"
#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/curves/chart.h"
#include "planner/order/updates.h"

#define WIDTH 1260.0
#define LEFT 98.0
#define RIGHT (WIDTH - 108.0)
#define HEAD_HEIGHT 126.0 /* headline, second line, legend, unit */
#define CHART_HEIGHT 408.0
#define LABEL_SPACE 62.0   /* above all data, for at most two labels */
#define UNIT_SPACE 30.0    /* part of LABEL_SPACE for the unit of the axis */
#define RIBBON_HEIGHT 62.0 /* with the step numbers */
#define FOOT_HEIGHT 16.0
#define BUDGET_SHOWN 1.25 /* a larger budget than so many times everything else is not drawn, only written */
#define LEGEND_SIZE 12.5
#define DOT "   \xC2\xB7   "

enum { COLUMNS_MAX = 700, SEPARATED_MAX = 110 };

typedef struct picture {
    const mp_timeline_columns *columns;
    const mp_plan *plan; /* NULL: keep-all */
    const char *title;
    mp_canvas *canvas;
    mp_frame frame; /* of the chart */
    mp_byte_scale scale;
    int64_t budget_bytes; /* MP_NO_LIMIT: no line */
    bool saves;           /* keep-all differs from the plan, and is drawn for comparison */
    mp_error *err;
} picture;

/* An activity has the colour of what it makes or changes, so that one legend is enough. */
static const char *const activity_colors[MP_N_ACTIVITIES] = {MP_COLOR_FORWARD_ONLY, MP_COLOR_RECOMPUTED, MP_COLOR_GRADIENT,
                                                             MP_COLOR_STATE};

static double height_of(const picture *p, int64_t bytes)
{
    return mp_byte_scale_y(&p->scale, (double)bytes);
}

static double column_left(const picture *p, size_t k)
{
    return mp_step_x(p->columns, &p->frame, k < p->columns->n ? p->columns->columns[k].first : (double)p->columns->n_steps);
}

static double share_x(const picture *p, double share)
{
    return p->frame.left + share * (p->frame.right - p->frame.left);
}

/* ---- the head ---- */

static void draw_headline(const picture *p, double top)
{
    const mp_timeline_columns *c = p->columns;
    const int64_t before = c->keep_all->peak_bytes, now = c->timeline->peak_bytes;
    const char *title = mp_canvas_shorten(p->title, 21, true, 560), *peak = mp_bytes_text(now), *other = mp_bytes_text(before);
    const char *about = mp_text("%zu steps:", c->n_steps), *between = "";
    if (!p->saves)
        title = mp_text("%s: %s with everything kept", title, peak);
    else if (now <= before)
        title = mp_text("%s: %s instead of %s, %.0f %% less", title, peak, other,
                        before > 0 ? 100 * (double)(before - now) / (double)before : 0);
    else
        title = mp_text("%s: %s, more than the %s of keeping everything", title, peak, other);
    mp_canvas_heading(p->canvas, LEFT, top - 34, 21, title);
    for (int k = 0; k < MP_N_ACTIVITIES; k++) {
        if (!c->n_activity[k]) continue;
        about = mp_text("%s%s %zu %s", about, between, c->n_activity[k], mp_activity_name((mp_activity)k));
        between = ",";
    }
    if (p->saves && c->keep_all->ticks > 0)
        about = mp_text("%s" DOT "time %+.1f %%", about, 100 * ((double)c->timeline->ticks / (double)c->keep_all->ticks - 1));
    if (p->plan && p->plan->budget_bytes < MP_NO_LIMIT)
        about = mp_text("%s" DOT "budget %s", about, mp_bytes_text(p->plan->budget_bytes));
    if (p->plan && p->plan->solver && *p->plan->solver) about = mp_text("%s" DOT "found by %.64s", about, p->plan->solver);
    mp_canvas_text(p->canvas, LEFT, top - 59, MP_ALIGN_LEFT, 14, false, MP_COLOR_MUTED, about);
}

/* Draws a swatch or a line with its name; moves *x behind it. */
static void draw_key(const picture *p, double *x, double y, const char *name, const char *color, bool line, bool dashed)
{
    double width = line ? 26 : 13;
    if (line)
        mp_canvas_line(p->canvas, (double[]){*x, y + 4, *x + width, y + 4}, 2, color, 1.6, dashed);
    else
        mp_canvas_box(p->canvas, *x, y - 2, width, 12, color, NULL, NULL);
    mp_canvas_text(p->canvas, *x + width + 6, y, MP_ALIGN_LEFT, LEGEND_SIZE, false, MP_COLOR_TEXT, name);
    *x += width + 6 + mp_canvas_text_width(name, LEGEND_SIZE, false) + 16;
}

static void draw_legend(const picture *p, double y, bool lines)
{
    double x = LEFT;
    bool used[MP_N_LAYERS] = {false};
    for (size_t k = 0; k < MP_N_LAYERS; k++) used[k] = p->columns->always[k] > 0;
    for (size_t k = 0; k < p->columns->timeline->n_spans; k++) used[p->columns->layer[k]] = true;
    for (size_t k = 0; k < p->columns->n; k++) used[MP_LAYER_WORKSPACE] |= p->columns->columns[k].bytes[MP_LAYER_WORKSPACE] > 0;
    for (int k = 0; k < MP_N_LAYERS; k++)
        if (used[k]) draw_key(p, &x, y, mp_layer_name((mp_layer)k), mp_layer_color((mp_layer)k), false, false);
    if (p->saves && lines) draw_key(p, &x, y, "keep everything, on its own clock", MP_COLOR_MUTED, true, true);
    if (p->budget_bytes < MP_NO_LIMIT && lines) draw_key(p, &x, y, "budget", MP_COLOR_LIMIT, true, false);
}

/* ---- the chart ---- */

/* Draws each layer as the area from the bottom to its upper edge, the uppermost first: they overlap, so that no seam shows. */
static mp_status draw_layers(const picture *p)
{
    const mp_timeline_columns *c = p->columns;
    MP_OWNED double *xy = mp_alloc(2 * c->n + 2, 2 * sizeof *xy);
    MP_ENSURE(xy, p->err, MP_NOMEM, "no memory for a picture");
    for (int layer = MP_N_LAYERS - 1; layer >= 0; layer--) {
        size_t n = 0;
        bool any = false;
        for (size_t k = 0; k < c->n; k++) {
            int64_t below = 0;
            for (int j = 0; j <= layer; j++) below += c->columns[k].bytes[j];
            any |= c->columns[k].bytes[layer] > 0;
            for (size_t side = 0; side < 2; side++) {
                xy[n++] = column_left(p, k + side);
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
        double x = column_left(p, k), top = height_of(p, c->columns[k].total);
        if (top < height_of(p, c->columns[k - 1].total)) top = height_of(p, c->columns[k - 1].total);
        mp_canvas_line(p->canvas, (double[]){x, p->frame.low, x, top}, 2, MP_COLOR_PAPER, 0.7, false);
    }
    return MP_OK;
}

/* Writes the names of the layers that are always live into their bands. */
static void name_bands(const picture *p)
{
    int64_t below = 0;
    for (int k = 0; k < MP_N_LAYERS; k++) {
        int64_t always = p->columns->always[k];
        double low = height_of(p, below), high = height_of(p, below + always);
        below += always;
        if (p->scale.cut_below && below == p->columns->timeline->static_bytes) high -= 11; /* the mark of the break */
        if (high - low < 13 || k > MP_LAYER_OPTIMIZER) continue;
        mp_canvas_text(p->canvas, LEFT + 10, (low + high) / 2 - 4, MP_ALIGN_LEFT, 11.5, false, MP_COLOR_TEXT,
                       mp_text("%s: %s", mp_layer_name((mp_layer)k), mp_bytes_text(always)));
    }
}

static mp_status draw_keep_all(const picture *p)
{
    const mp_timeline_columns *c = p->columns;
    const size_t parts = c->keep_all->n_steps < COLUMNS_MAX ? c->keep_all->n_steps : COLUMNS_MAX;
    size_t n = 0;
    MP_OWNED double *xy = mp_alloc(4 * parts, sizeof *xy);
    MP_ENSURE(xy, p->err, MP_NOMEM, "no memory for a picture");
    for (size_t k = 0; k < parts; k++) {
        const double from = (double)k / (double)parts, to = (double)(k + 1) / (double)parts;
        const double y = height_of(p, mp_keep_all_between(c, from, to));
        if (n && fabs(xy[n - 1] - y) < 0.05) { /* the line goes on at the same height */
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

static void draw_budget(const picture *p)
{
    double y = height_of(p, p->budget_bytes);
    mp_canvas_line(p->canvas, (double[]){p->frame.left, y, p->frame.right, y}, 2, MP_COLOR_LIMIT, 1.6, false);
    mp_canvas_text(p->canvas, RIGHT + 7, y + 1, MP_ALIGN_LEFT, 12.5, true, MP_COLOR_LIMIT, "budget");
    mp_canvas_text(p->canvas, RIGHT + 7, y - 14, MP_ALIGN_LEFT, 12.5, true, MP_COLOR_LIMIT, mp_bytes_text(p->budget_bytes));
}

/* Gives each column a tooltip with its live bytes. */
static void draw_tooltips(const picture *p)
{
    const mp_timeline_columns *c = p->columns;
    for (size_t k = 0; k < c->n; k++) {
        const mp_timeline_column *column = &c->columns[k];
        double left = column_left(p, k);
        const char *text = mp_text("step %d of %zu, %s: %.255s\n%s", column->shown + 1, c->n_steps,
                                   mp_activity_name(c->activity[column->shown]),
                                   mp_node_title(c->graph, c->steps[column->shown].node), mp_bytes_text(column->total));
        for (int layer = 0; layer < MP_N_LAYERS; layer++)
            if (column->bytes[layer])
                text = mp_text("%s\n  %s %s", text, mp_layer_name((mp_layer)layer), mp_bytes_text(column->bytes[layer]));
        if (p->saves) text = mp_text("%s\nkeep everything, as far in its step: %s", text, mp_bytes_text(column->keep_all));
        mp_canvas_box(p->canvas, left, p->frame.low, column_left(p, k + 1) - left, p->frame.high - p->frame.low, MP_COLOR_CLEAR,
                      NULL, text);
    }
}

static mp_timeline_chart chart_of(const picture *p)
{
    return (mp_timeline_chart){p->columns, p->canvas, p->frame, p->scale, p->budget_bytes, p->saves};
}

/* Gives the chart its frame and scale above the height `low`. Returns its upper end, right above the labels. */
static double place_chart(picture *p, double low)
{
    const double data_high = low + CHART_HEIGHT - LABEL_SPACE;
    double most = (double)p->columns->timeline->peak_bytes, beyond = p->saves ? (double)p->columns->keep_all->peak_bytes : 0;
    if (p->budget_bytes < MP_NO_LIMIT) most = fmax(most, (double)p->budget_bytes);
    p->frame = (mp_frame){.left = LEFT, .right = RIGHT, .low = low + 6, .high = data_high};
    p->scale = mp_byte_scale_choose((double)p->columns->timeline->static_bytes, most, beyond, p->frame.low, data_high);
    const mp_timeline_chart chart = chart_of(p);
    p->frame.high = fmax(data_high + UNIT_SPACE, mp_timeline_labels_top(&chart) + 4);
    return p->frame.high;
}

static mp_status draw_chart(const picture *p)
{
    const mp_timeline_chart chart = chart_of(p);
    mp_byte_scale_grid(&p->scale, p->canvas, LEFT, RIGHT);
    MP_CHECK(draw_layers(p));
    mp_byte_scale_breaks(&p->scale, p->canvas, LEFT, RIGHT);
    name_bands(p);
    if (p->saves) MP_CHECK(draw_keep_all(p));
    if (p->budget_bytes < MP_NO_LIMIT) draw_budget(p);
    mp_timeline_peaks(&chart);
    draw_tooltips(p);
    mp_canvas_line(p->canvas, (double[]){LEFT, p->frame.low, RIGHT, p->frame.low}, 2, MP_COLOR_MUTED, 1, false);
    return MP_OK;
}

/* ---- the ribbon ---- */

static void draw_ribbon(const picture *p, double high)
{
    const mp_timeline_columns *c = p->columns;
    double low = high - 18;
    mp_frame frame = {.left = LEFT, .right = RIGHT, .low = low - 2};
    for (size_t k = 0, end; k < c->n; k = end) {
        mp_activity activity = c->columns[k].activity;
        for (end = k + 1; end < c->n && c->columns[end].activity == activity; end++) continue;
        double from = column_left(p, k), to = column_left(p, end);
        mp_canvas_box(p->canvas, from, low, to - from, 18, activity_colors[activity], NULL, NULL);
        if (to - from > mp_canvas_text_width(mp_activity_name(activity), 12, false) + 8)
            mp_canvas_text(p->canvas, (from + to) / 2, low + 5, MP_ALIGN_CENTER, 12, false, MP_COLOR_TEXT,
                           mp_activity_name(activity));
    }
    mp_step_axis(c, p->canvas, &frame);
    if (c->n < c->n_steps)
        mp_canvas_text(p->canvas, RIGHT, low - 33, MP_ALIGN_RIGHT, 12, false, MP_COLOR_MUTED,
                       mp_text("each column shows the fullest of %d steps", c->columns[0].last + 1));
}

/* ---- the whole picture ---- */

static mp_status draw(picture *p, mp_timeline_view view, const char *path)
{
    bool arena = view != MP_VIEW_MEMORY && p->plan && p->plan->n_places > 0, memory = view != MP_VIEW_ARENA;
    double largest = memory ? mp_largest_height(p->columns) : 0, map = arena ? mp_arena_height() : 0;
    double at = FOOT_HEIGHT + map + largest + RIBBON_HEIGHT;
    p->frame = (mp_frame){.left = LEFT, .right = RIGHT, .low = at, .high = at};
    const double height = (memory ? place_chart(p, at) : at) + HEAD_HEIGHT;
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    MP_CHECK(mp_canvas_new(WIDTH, height, &canvas, p->err));
    p->canvas = canvas;
    draw_headline(p, height);
    draw_legend(p, height - 88, memory);
    if (memory) MP_CHECK(draw_chart(p));
    draw_ribbon(p, at);
    at -= RIBBON_HEIGHT;
    mp_frame frame = {.left = LEFT, .right = RIGHT, .low = at - largest, .high = at};
    if (memory) mp_largest_draw(p->columns, p->canvas, &frame);
    frame = (mp_frame){.left = LEFT, .right = RIGHT, .low = at - largest - map, .high = at - largest};
    if (arena) MP_CHECK(mp_arena_draw(p->columns, p->plan, p->canvas, &frame, p->err));
    return mp_canvas_write(p->canvas, path, p->err);
}

mp_status mp_timeline_picture(const mp_graph *graph, const mp_plan *plan, const char *title, mp_timeline_view view,
                              const char *path, mp_error *err)
{
    MP_OWNED mp_step *early = NULL;
    size_t n = plan ? plan->n_steps : mp_graph_n_required(graph);
    MP_OWNED_BY(mp_timeline_columns_free) mp_timeline_columns *columns = NULL;
    picture p = {.plan = plan, .title = title, .budget_bytes = plan ? plan->budget_bytes : MP_NO_LIMIT, .err = err};
    MP_CHECK(mp_canvas_check_path(path, err));
    MP_ENSURE(view != MP_VIEW_ARENA || (plan && plan->n_places > 0), err, MP_INVALID,
              plan ? "the plan has no offsets, so there are no addresses to draw" : "an address map needs a plan with offsets");
    if (!plan && !mp_update_order_of(graph).keeps_inputs) MP_CHECK(mp_updates_place_early(graph, &early, &n, err));
    MP_CHECK(mp_timeline_columns_new(graph, plan ? plan->steps : early, n, COLUMNS_MAX, &columns, err));
    p.columns = columns;
    p.saves =
        plan && (columns->timeline->peak_bytes != columns->keep_all->peak_bytes || columns->n_activity[MP_ACTIVITY_RECOMPUTE]);
    if ((double)p.budget_bytes > BUDGET_SHOWN * (double)(p.saves ? columns->keep_all : columns->timeline)->peak_bytes)
        p.budget_bytes = MP_NO_LIMIT;
    return draw(&p, view, path);
}
