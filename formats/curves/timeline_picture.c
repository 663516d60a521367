/* timeline_picture.c - draws memory over the steps of a plan.
 *
 * From top to bottom: a headline with the saving, the legend, live memory in layers with keep-all's curve behind it, a
 * ribbon with the activity of the steps, lanes of the graph's channels, a panel for each additional tier, and a panel for
 * single tensors. Thousands of steps are drawn as a few hundred columns. Each column shows its step with the most live
 * bytes, so that the peak and every spike remain visible. */
#include "memplan/pictures/timeline_picture.h"

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/curves/timeline_picture.h"

#define WIDTH 1260.0
#define LEFT MP_PLOT_LEFT
#define RIGHT MP_PLOT_RIGHT
#define HEAD_HEIGHT 126.0 /* height in points of the headline, the second line, the legend and the unit together */
#define CHART_HEIGHT 408.0
#define TIER_HEIGHT 190.0
#define TIER_HEAD 26.0
#define AXIS_HEIGHT 32.0   /* height in points of the step numbers below the panel of an additional tier */
#define RIBBON_HEIGHT 62.0 /* height in points of the ribbon together with the step numbers */
#define FOOT_HEIGHT 16.0
#define BUDGET_SHOWN 1.25 /* a budget of more than this multiple of the largest peak is stated as text, not drawn */
#define TITLE_SIZE 21.0
#define TITLE_LEAST 14.0 /* smallest font size of the picture's title, used if the title is long */
/* maximum width of the caller's title at font size TITLE_LEAST, without the result that is printed after it */
#define TITLE_WIDTH 760.0
#define LEGEND_SIZE 12.5
#define LEGEND_ROW 18.0
#define DOT "   \xC2\xB7   "

enum { COLUMNS_MAX = 700 };

typedef struct picture {
    const mp_timeline_columns *columns;
    const mp_plan *plan; /* the plan that the picture shows; NULL: keep-all */
    const char *title;
    mp_canvas *canvas;
    mp_timeline_chart charts[MP_MAX_TIERS]; /* one chart per tier; charts[0] is the device's */
    const mp_lanes *lanes;
    bool saves; /* true if the plan differs from keep-all, so that keep-all's curve is drawn for
                   comparison */
    mp_error *err;
} picture;

/* ---- the head ---- */

static void draw_headline(const picture *p, double top)
{
    const mp_timeline_columns *c = p->columns;
    const int64_t before = c->keep_all->peak_bytes, now = c->timeline->peak_bytes;
    const char *title = mp_canvas_shorten(p->title, TITLE_LEAST, true, TITLE_WIDTH), *peak = mp_bytes_text(now),
               *other = mp_bytes_text(before);
    const char *about = mp_text("%zu steps:", c->n_steps), *between = "";
    if (!p->saves)
        title = mp_text("%s: %s with everything kept", title, peak);
    else if (now <= before)
        title = mp_text("%s: %s instead of %s, %.0f %% less", title, peak, other,
                        before > 0 ? 100 * (double)(before - now) / (double)before : 0);
    else
        title = mp_text("%s: %s, more than the %s of keeping everything", title, peak, other);
    mp_canvas_heading(p->canvas, LEFT, top - 34, mp_canvas_fitting_size(title, TITLE_SIZE, TITLE_LEAST, true, WIDTH - LEFT),
                      title);
    for (int k = 0; k < MP_N_ACTIVITIES; k++) {
        if (!c->n_activity[k]) continue;
        about = mp_text("%s%s %zu %s", about, between, c->n_activity[k], mp_activity_name((mp_activity)k));
        between = ",";
    }
    if (p->saves && c->keep_all_ticks > 0)
        about = mp_text("%s" DOT "time %+.1f %%", about, 100 * ((double)c->timeline->ticks / (double)c->keep_all_ticks - 1));
    if (c->again.hidden_ticks)
        about = mp_text("%s" DOT "%.0f %% of the recomputation hidden", about,
                        100 * (double)c->again.hidden_ticks / (double)c->again.ticks);
    if (p->plan && p->plan->budget_bytes < MP_NO_LIMIT)
        about = mp_text("%s" DOT "budget %s", about, mp_bytes_text(p->plan->budget_bytes));
    if (p->plan && p->plan->solver && *p->plan->solver) about = mp_text("%s" DOT "found by %.64s", about, p->plan->solver);
    mp_canvas_text(p->canvas, LEFT, top - 59, MP_ALIGN_LEFT, mp_canvas_fitting_size(about, 14, 8, false, WIDTH - LEFT), false,
                   MP_COLOR_MUTED, about);
}

/* Draws an entry of the legend: a swatch or a line, and its name. Advances *x. If the entry does not fit, it starts a new
 * row. */
static void draw_key(const picture *p, double *x, double *row, const char *name, const char *color, bool line, bool dashed)
{
    double width = line ? 26 : 13;
    const double end = *x + width + 6 + mp_canvas_text_width(name, LEGEND_SIZE, false);
    if (end > WIDTH) *row -= LEGEND_ROW;
    if (end > WIDTH) *x = LEFT;
    const double y = *row;
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
    for (size_t m = 0; m < p->columns->graph->n_tiers; m++)
        for (size_t k = 0; k < MP_N_LAYERS; k++) used[k] |= p->columns->tiers[m].always[k] > 0;
    for (size_t k = 0; k < p->columns->timeline->n_spans; k++) used[p->columns->layer[k]] = true;
    for (size_t k = 0; k < p->columns->n; k++) used[MP_LAYER_WORKSPACE] |= p->columns->columns[k].bytes[MP_LAYER_WORKSPACE] > 0;
    for (int k = 0; k < MP_N_LAYERS; k++)
        if (used[k]) draw_key(p, &x, &y, mp_layer_name((mp_layer)k), mp_layer_color((mp_layer)k), false, false);
    if (p->saves && lines) draw_key(p, &x, &y, "keep everything, with its own steps", MP_COLOR_MUTED, true, true);
    if (p->charts[MP_TIER_DEVICE].budget_bytes < MP_NO_LIMIT && lines)
        draw_key(p, &x, &y, "budget", MP_COLOR_LIMIT, true, false);
}

/* ---- the ribbon of activities, and the lanes of channels ---- */

static void draw_ribbon(const picture *p, double high, double lanes)
{
    const mp_timeline_columns *c = p->columns;
    double low = high - 18;
    mp_frame frame = {.left = LEFT, .right = RIGHT, .low = low - 2, .high = low - 2};
    for (size_t k = 0, end; k < c->n; k = end) {
        mp_activity activity = c->columns[k].activity;
        for (end = k + 1; end < c->n && c->columns[end].activity == activity; end++) continue;
        double from = mp_column_left(c, &frame, k), to = mp_column_left(c, &frame, end);
        mp_canvas_box(p->canvas, from, low, to - from, 18, mp_activity_color(activity), NULL, NULL);
        if (to - from > mp_canvas_text_width(mp_activity_name(activity), 12, false) + 8)
            mp_canvas_text(p->canvas, (from + to) / 2, low + 5, MP_ALIGN_CENTER, 12, false, MP_COLOR_TEXT,
                           mp_activity_name(activity));
    }
    mp_lanes_draw(c, p->lanes, p->canvas, &frame);
    frame.low -= lanes;
    mp_step_axis(c, p->canvas, &frame);
    if (c->n < c->n_steps)
        mp_canvas_text(p->canvas, RIGHT, frame.low - 31, MP_ALIGN_RIGHT, 12, false, MP_COLOR_MUTED,
                       mp_text("each column shows the fullest of %d steps", c->columns[0].last + 1));
}

/* ---- the whole picture ---- */

/* Places the panel of an additional tier above y = low. A panel without live bytes consists only of its heading. Returns the
 * y coordinate of its upper end. */
static double place_tier(mp_timeline_chart *chart, double low)
{
    chart->frame.high = low + 8;
    if (chart->columns->tiers[chart->tier].use->peak_bytes) mp_timeline_chart_place(chart, low + AXIS_HEIGHT, TIER_HEIGHT);
    return chart->frame.high + TIER_HEAD;
}

/* Draws the panel of an additional tier below its heading; step numbers are below the panel. */
static mp_status draw_tier(const picture *p, const mp_timeline_chart *chart)
{
    const int64_t peak = p->columns->tiers[chart->tier].use->peak_bytes;
    const mp_frame axis = {.left = LEFT, .right = RIGHT, .low = chart->frame.low - 3};
    const char *tier = p->columns->graph->tiers[chart->tier];
    const char *name = mp_canvas_distinct(mp_canvas_names(p->canvas), tier, tier, 14, true, 300);
    const char *about = peak ? mp_text("live bytes over the same steps, at most %s", mp_bytes_text(peak)) : "no live bytes";
    const int64_t budget = p->plan ? p->plan->tiers[chart->tier].budget_bytes : MP_NO_LIMIT;
    if (budget < MP_NO_LIMIT) about = mp_text("%s" DOT "budget %s", about, mp_bytes_text(budget));
    mp_canvas_text(p->canvas, LEFT, chart->frame.high + 4, MP_ALIGN_LEFT, 14, true, MP_COLOR_TEXT, name);
    mp_canvas_text(p->canvas, LEFT + mp_canvas_text_width(name, 14, true) + 12, chart->frame.high + 4, MP_ALIGN_LEFT, 12, false,
                   MP_COLOR_MUTED, about);
    if (!peak) return MP_OK;
    MP_CHECK(mp_timeline_chart_draw(chart, p->err));
    mp_step_axis(p->columns, p->canvas, &axis);
    return MP_OK;
}

static mp_status draw(picture *p, mp_timeline_view view, mp_canvas **out)
{
    const size_t n_tiers = p->columns->graph->n_tiers;
    bool arena = view != MP_VIEW_MEMORY && p->plan && p->plan->n_places > 0, memory = view != MP_VIEW_ARENA;
    const double largest = memory ? mp_largest_height(p->columns) : 0, map = arena ? mp_arena_height() : 0;
    const double lanes = mp_lanes_height(p->columns, p->lanes), below = FOOT_HEIGHT + map + largest;
    double at = below;
    for (size_t m = n_tiers; memory && m-- > MP_TIER_DEVICE + 1;) at = place_tier(&p->charts[m], at);
    at += RIBBON_HEIGHT + lanes;
    const double height = (memory ? mp_timeline_chart_place(&p->charts[MP_TIER_DEVICE], at, CHART_HEIGHT) : at) + HEAD_HEIGHT;
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    MP_CHECK(mp_canvas_new(WIDTH, height, &canvas, p->err));
    p->canvas = canvas;
    for (size_t m = 0; m < n_tiers; m++) p->charts[m].canvas = canvas;
    draw_headline(p, height);
    draw_legend(p, height - 88, memory);
    if (memory) MP_CHECK(mp_timeline_chart_draw(&p->charts[MP_TIER_DEVICE], p->err));
    draw_ribbon(p, at, lanes);
    for (size_t m = MP_TIER_DEVICE + 1; memory && m < n_tiers; m++) MP_CHECK(draw_tier(p, &p->charts[m]));
    mp_frame frame = {.left = LEFT, .right = RIGHT, .low = below - largest, .high = below};
    if (memory) mp_largest_draw(p->columns, p->canvas, &frame);
    frame = (mp_frame){.left = LEFT, .right = RIGHT, .low = below - largest - map, .high = below - largest};
    if (arena) MP_CHECK(mp_arena_draw(p->columns, p->plan, p->canvas, &frame, p->err));
    *out = canvas;
    canvas = NULL;
    return MP_OK;
}

/* Sets the contents of the chart of a tier. Keep-all's curve is shown for the device, and for another tier only if keep-all
 * has live bytes there. The budget is shown if it does not exceed everything else by far. */
static mp_timeline_chart chart_of(const picture *p, int tier)
{
    const mp_tier_columns *of = &p->columns->tiers[tier];
    mp_timeline_chart chart = {.columns = p->columns, .tier = tier, .frame = {.left = LEFT, .right = RIGHT}};
    chart.saves = p->saves && (tier == MP_TIER_DEVICE || of->keep_all->peak_bytes > of->keep_all->static_bytes);
    chart.budget_bytes = !p->plan                 ? MP_NO_LIMIT
                         : tier == MP_TIER_DEVICE ? p->plan->budget_bytes
                                                  : p->plan->tiers[tier].budget_bytes;
    if ((double)chart.budget_bytes > BUDGET_SHOWN * (double)(chart.saves ? of->keep_all : of->use)->peak_bytes)
        chart.budget_bytes = MP_NO_LIMIT;
    return chart;
}

/* Draws the view on a new canvas. On MP_OK release *canvas with mp_canvas_free. */
static mp_status draw_columns(const mp_timeline_columns *columns, const mp_plan *plan, const char *title, mp_timeline_view view,
                              mp_canvas **canvas, mp_error *err)
{
    MP_CLEARED_BY(mp_lanes_clear) mp_lanes lanes = {0};
    MP_CHECK(mp_lanes_find(columns, &lanes, err));
    picture p = {.columns = columns, .plan = plan, .title = title, .lanes = &lanes, .err = err};
    p.saves = plan && (columns->timeline->peak_bytes != columns->keep_all->peak_bytes ||
                       columns->n_activity[MP_ACTIVITY_RECOMPUTE] || columns->n_activity[MP_ACTIVITY_COPY]);
    for (size_t m = 0; m < columns->graph->n_tiers; m++) p.charts[m] = chart_of(&p, (int)m);
    return draw(&p, view, canvas);
}

mp_status mp_timeline_svg(const mp_timeline_columns *columns, const mp_plan *plan, const char *title, mp_text_builder *out,
                          mp_error *err)
{
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    MP_CHECK(draw_columns(columns, plan, title, MP_VIEW_MEMORY, &canvas, err));
    return mp_canvas_render(canvas, "svg", out, err);
}

mp_status mp_timeline_picture(const mp_graph *graph, const mp_plan *plan, const char *title, mp_timeline_view view,
                              const char *path, mp_error *err)
{
    MP_OWNED_BY(mp_timeline_columns_free) mp_timeline_columns *columns = NULL;
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    MP_CHECK(mp_canvas_check_path(path, err));
    MP_ENSURE(view != MP_VIEW_ARENA || (plan && plan->n_places > 0), err, MP_INVALID,
              plan ? "the plan has no offsets, so there are no addresses to draw" : "an address map needs a plan with offsets");
    MP_CHECK(mp_timeline_columns_new(graph, plan ? plan->steps : NULL, plan ? plan->n_steps : 0, COLUMNS_MAX, &columns, err));
    MP_CHECK(draw_columns(columns, plan, title, view, &canvas, err));
    return mp_canvas_write(canvas, path, err);
}
