/* chart_panels.c - panels of single tensors: the largest ones at the peak, and the address map of an arena.
 *
 * Visible shapes are drawn into the background. Transparent boxes above them carry the tooltips. */
#include "formats/curves/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/canvas/plot.h"

#define BUDGET_SHOWN 1.25 /* if the budget exceeds the arena by more than this factor, it is not drawn */
#define ROW_HEIGHT 20.0
#define PANEL_HEAD 30.0
#define ARENA_HEIGHT 330.0
#define ARENA_GAP 16.0   /* space above the heading of the address map, in points */
#define AXIS_HEIGHT 24.0 /* height of the step numbers below the address map, in points */
#define NAME_SIZE 12
#define PLACE_SIZE 10 /* font size of names in the address map, in points */

enum { ROWS_MAX = 12, TOOLTIPS_MAX = 1500, NAMES_MAX = 400 };

double mp_step_x(const mp_timeline_columns *columns, const mp_frame *frame, double step)
{
    return frame->left + (frame->right - frame->left) * step / (double)columns->n_steps;
}

const char *mp_node_title(const mp_graph *graph, int node)
{
    const mp_node *n = &graph->nodes[node];
    const mp_label label = mp_node_label(graph, node);
    const char *phase = mp_phase_name(n->phase), *name = n->name && *n->name ? n->name : label.text;
    const char *op = n->op && *n->op ? n->op : NULL;
    const bool said = strstr(name, phase) != NULL;
    if (op && strstr(name, op)) op = NULL;
    if (!op && said) return mp_text("%.255s", name);
    return mp_text("%.255s (%s%s%s)", name, op ? op : "", op && !said ? ", " : "", said ? "" : phase);
}

void mp_step_axis(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame)
{
    double step = mp_plot_step(fmax((double)columns->n_steps / 13, 1));
    for (double t = 0; t <= (double)columns->n_steps; t += step) {
        double x = mp_step_x(columns, frame, t);
        mp_canvas_line(canvas, (double[]){x, frame->low, x, frame->low - 4}, 2, MP_COLOR_MUTED, 0.75, false);
        mp_canvas_text(canvas, x, frame->low - 15, MP_ALIGN_CENTER, 12, false, MP_COLOR_MUTED, mp_text("%.0f", t));
    }
    mp_canvas_text(canvas, frame->left - 8, frame->low - 15, MP_ALIGN_RIGHT, 12, false, MP_COLOR_MUTED, "step");
}

/* Returns the text of the tooltip for an instance of a storage. */
static const char *describe(const mp_timeline_columns *c, int storage, mp_layer layer, int first, int last)
{
    mp_label label;
    const char *source = c->graph->nodes[c->steps[first].node].source;
    return mp_text("%s\n%s, %s\nin memory from step %d to %d of %zu\nmade by %.255s%s%.150s",
                   mp_canvas_shorten(mp_storage_title(c->graph, storage, &label), 1, false, INFINITY),
                   mp_bytes_text(c->graph->storages[storage].bytes), mp_layer_name(layer), first + 1, last + 1, c->n_steps,
                   mp_node_title(c->graph, c->steps[first].node), source ? "\n" : "", source ? source : "");
}

/* ---- the largest tensors ---- */

static size_t n_rows(const mp_timeline_columns *c)
{
    size_t n = mp_timeline_holders(c->graph, c->timeline, c->timeline->peak_step, NULL, 0);
    return n < ROWS_MAX ? n : ROWS_MAX;
}

double mp_largest_height(const mp_timeline_columns *columns)
{
    size_t rows = n_rows(columns);
    return rows ? PANEL_HEAD + ROW_HEIGHT * (double)rows : 0;
}

/* Writes the name of a tensor in its row where there is space. The first choice is after all bars, which end at x1. The
 * second choice is before the longest bar [in0, in1], where free0 is the first free x. The third is inside that bar, beside
 * the line at the peak. */
static void place_name(mp_canvas *canvas, const mp_frame *frame, const char *title, double free0, double x1, double in0,
                       double in1, double line, mp_layer layer, double y)
{
    const double space = fmax(fmax(frame->right - x1, in0 - free0), in1 - in0) - 14;
    const char *text =
        mp_canvas_distinct(mp_canvas_names(canvas), title, mp_short_name(title), NAME_SIZE, false, fmax(space, 40));
    const double width = mp_canvas_text_width(text, NAME_SIZE, false) + 6;
    if (frame->right - x1 >= width + 6) {
        mp_canvas_text(canvas, x1 + 6, y, MP_ALIGN_LEFT, NAME_SIZE, false, MP_COLOR_TEXT, text);
        return;
    }
    if (in0 - free0 >= width + 6) {
        mp_canvas_text(canvas, in0 - 6, y, MP_ALIGN_RIGHT, NAME_SIZE, false, MP_COLOR_TEXT, text);
        return;
    }
    in0 += 7;
    if (in0 < line + 4 && line - 4 < in0 + width && line + 7 + width < in1) in0 = line + 7;
    mp_canvas_text(canvas, in0, y, MP_ALIGN_LEFT, NAME_SIZE, false, layer == MP_LAYER_KEPT ? MP_COLOR_PAPER : MP_COLOR_TEXT,
                   text);
}

static void draw_row(const mp_timeline_columns *c, mp_canvas *canvas, const mp_frame *frame, int storage, double y)
{
    const mp_timeline *tl = c->timeline;
    double free0 = frame->left, x1 = frame->left, in0 = 0, in1 = 0;
    mp_layer layer = MP_LAYER_KEPT;
    mp_label label;
    mp_canvas_text(canvas, frame->left - 8, y + 4, MP_ALIGN_RIGHT, 12, false, MP_COLOR_MUTED,
                   mp_bytes_text(c->graph->storages[storage].bytes));
    mp_canvas_line(canvas, (double[]){frame->left, y - 1.5, frame->right, y - 1.5}, 2, MP_COLOR_GRID, 0.5, false);
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *span = &tl->spans[k];
        if (span->storage != storage) continue;
        double from = mp_step_x(c, frame, span->begin), to = fmax(mp_step_x(c, frame, span->end), from + 1.5);
        mp_canvas_box(canvas, from, y, to - from, ROW_HEIGHT - 4, mp_layer_color(c->layer[k]), NULL, NULL);
        mp_canvas_box(canvas, from, y, to - from, ROW_HEIGHT - 4, MP_COLOR_CLEAR, NULL,
                      describe(c, storage, c->layer[k], span->begin, span->end - 1));
        if (to - from > in1 - in0) {
            free0 = x1;
            in0 = from;
            in1 = to;
            layer = c->layer[k];
        }
        x1 = fmax(x1, to);
    }
    place_name(canvas, frame, mp_storage_title(c->graph, storage, &label), free0, x1, in0, in1,
               mp_step_x(c, frame, tl->peak_step + 0.5), layer, y + 4);
}

void mp_largest_draw(const mp_timeline_columns *columns, mp_canvas *canvas, const mp_frame *frame)
{
    int spans[ROWS_MAX];
    size_t rows = n_rows(columns);
    double x = mp_step_x(columns, frame, columns->timeline->peak_step + 0.5);
    if (!rows) return;
    mp_timeline_holders(columns->graph, columns->timeline, columns->timeline->peak_step, spans, rows);
    mp_canvas_text(canvas, frame->left, frame->high - 16, MP_ALIGN_LEFT, 14, true, MP_COLOR_TEXT,
                   "The largest tensors at the peak");
    mp_canvas_text(canvas, frame->left + 272, frame->high - 16, MP_ALIGN_LEFT, 12, false, MP_COLOR_MUTED,
                   "each bar spans the steps during which the tensor is in memory");
    for (size_t k = 0; k < rows; k++)
        draw_row(columns, canvas, frame, columns->timeline->spans[spans[k]].storage,
                 frame->high - PANEL_HEAD - ROW_HEIGHT * (double)(k + 1) + 2);
    mp_canvas_line(canvas, (double[]){x, frame->low, x, frame->high - PANEL_HEAD + 6}, 2, MP_COLOR_TEXT, 0.75, true);
}

/* ---- the address map ---- */

double mp_arena_height(void)
{
    return ARENA_GAP + PANEL_HEAD + ARENA_HEIGHT + AXIS_HEIGHT;
}

static int compare_spans(const void *a, const void *b)
{
    const mp_span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

static mp_layer layer_of_place(const mp_timeline_columns *c, const mp_place *place)
{
    mp_span key = {.storage = place->storage, .begin = place->begin};
    if (place->storage < 0) return MP_LAYER_WORKSPACE;
    const mp_span *span = bsearch(&key, c->timeline->spans, c->timeline->n_spans, sizeof key, compare_spans);
    return span ? c->layer[span - c->timeline->spans] : mp_layer_of_kind(c->graph->storages[place->storage].kind);
}

static double area_of(const mp_place *place)
{
    return (double)place->bytes * (place->end - place->begin);
}

static int compare_areas(const void *a, const void *b)
{
    double x = area_of(*(const mp_place *const *)a), y = area_of(*(const mp_place *const *)b);
    if (x != y) return x > y ? -1 : 1;
    return *(const mp_place *const *)a < *(const mp_place *const *)b
               ? -1
               : 1; /* comparing the pointers keeps the order of the array for equal elements */
}

static void draw_place(const mp_timeline_columns *c, mp_canvas *canvas, const mp_frame *frame, const mp_byte_scale *scale,
                       const mp_place *place, size_t rank)
{
    double x = mp_step_x(c, frame, place->begin), width = mp_step_x(c, frame, place->end) - x;
    double y = mp_byte_scale_y(scale, (double)place->offset),
           height = mp_byte_scale_y(scale, (double)(place->offset + place->bytes)) - y;
    bool gap = width > 4 && height > 4; /* true if the rectangle of this place is large enough for a thin white outline */
    mp_layer layer = layer_of_place(c, place);
    mp_canvas_box(canvas, x, y, width, height, mp_layer_color(layer), gap ? MP_COLOR_PAPER : NULL, NULL);
    if (rank >= TOOLTIPS_MAX) return;
    const char *text = place->storage >= 0 ? describe(c, place->storage, layer, place->begin, place->end - 1)
                                           : mp_text("workspace of %.255s\n%s, step %d of %zu",
                                                     mp_node_title(c->graph, c->steps[place->begin].node),
                                                     mp_bytes_text(place->bytes), place->begin + 1, c->n_steps);
    mp_canvas_box(canvas, x, y, width, height, MP_COLOR_CLEAR, NULL, text);
}

/* Draws the name of a storage in the middle of its rectangle on the address map, if the rectangle is large enough. Names are
 * drawn after all rectangles, because the rectangles of an in-place pair overlap in one step. */
static void draw_name(const mp_timeline_columns *c, mp_canvas *canvas, const mp_frame *frame, const mp_byte_scale *scale,
                      const mp_place *place)
{
    const double x = mp_step_x(c, frame, place->begin), width = mp_step_x(c, frame, place->end) - x;
    const double y = mp_byte_scale_y(scale, (double)place->offset);
    const double height = mp_byte_scale_y(scale, (double)(place->offset + place->bytes)) - y;
    mp_label label;
    if (height < PLACE_SIZE + 2 || width < 60) return;
    const char *title = place->storage < 0 ? "workspace" : mp_storage_title(c->graph, place->storage, &label);
    mp_canvas_text(canvas, x + width / 2, y + height / 2 - 3.5, MP_ALIGN_CENTER, PLACE_SIZE, false,
                   layer_of_place(c, place) == MP_LAYER_KEPT ? MP_COLOR_PAPER : MP_COLOR_TEXT,
                   mp_canvas_distinct(mp_canvas_names(canvas), title, mp_short_name(title), PLACE_SIZE, false, width - 8));
}

/* Draws a horizontal line across the address map, with a name at its right end, above or below the line. */
static void draw_level(mp_canvas *canvas, const mp_frame *frame, double y, const char *color, bool dashed, bool above,
                       const char *const *lines, size_t n)
{
    const double first = above ? y + 3 + 14 * (double)(n - 1) : y - 12;
    mp_canvas_line(canvas, (double[]){frame->left, y, frame->right, y}, 2, color, 1.4, dashed);
    for (size_t k = 0; k < n; k++)
        mp_canvas_text(canvas, frame->right + 7, first - 14 * (double)k, MP_ALIGN_LEFT, NAME_SIZE, true, color, lines[k]);
}

/* Draws two lines across the address map: the upper end of the arena, and the part of the budget that remains for the arena
 * after static bytes. */
static void draw_levels(const mp_plan *plan, double arena, double budget, mp_canvas *canvas, const mp_frame *frame,
                        const mp_byte_scale *scale)
{
    draw_level(canvas, frame, mp_byte_scale_y(scale, arena), MP_COLOR_TEXT, true, false,
               (const char *const[]){"arena", mp_bytes_text((int64_t)arena)}, 2);
    if (budget >= 0)
        draw_level(
            canvas, frame, mp_byte_scale_y(scale, budget), MP_COLOR_LIMIT, false, true,
            (const char *const[]){"budget less", "static memory:", mp_bytes_text(plan->budget_bytes - plan->static_bytes)}, 3);
}

mp_status mp_arena_draw(const mp_timeline_columns *columns, const mp_plan *plan, mp_canvas *canvas, const mp_frame *frame,
                        mp_error *err)
{
    double arena = (double)plan->arena_bytes, budget = -1;
    mp_byte_scale scale;
    const mp_frame map = {frame->left, frame->right, frame->low + AXIS_HEIGHT, frame->high - ARENA_GAP - PANEL_HEAD};
    const double title_y = frame->high - ARENA_GAP - 12;
    MP_OWNED const mp_place **order = mp_alloc(plan->n_places, sizeof *order);
    MP_ENSURE(order, err, MP_NOMEM, "no memory for a picture of %zu places", plan->n_places);
    for (size_t k = 0; k < plan->n_places; k++) {
        const mp_place *place = order[k] = &plan->places[k];
        MP_ENSURE(place->begin >= 0 && place->begin < place->end && (size_t)place->end <= columns->n_steps &&
                      place->offset >= 0 && place->bytes >= 0,
                  err, MP_INVALID, "the place number %zu of the arena makes no sense", k);
        arena = fmax(arena, (double)place->offset + (double)place->bytes);
    }
    qsort(order, plan->n_places, sizeof *order, compare_areas);
    if (plan->budget_bytes < MP_NO_LIMIT && plan->static_bytes >= 0 && plan->budget_bytes >= plan->static_bytes)
        budget = (double)(plan->budget_bytes - plan->static_bytes);
    if (budget > BUDGET_SHOWN * arena) budget = -1;
    scale = mp_byte_scale_choose(0, fmax(arena, budget), 0, map.low, map.high);
    mp_canvas_text(canvas, frame->left, title_y, MP_ALIGN_LEFT, 14, true, MP_COLOR_TEXT, "Address map");
    mp_canvas_text(canvas, frame->left + 108, title_y, MP_ALIGN_LEFT, 12, false, MP_COLOR_MUTED,
                   mp_text("the arena of %s%s%s, without static memory: lifetime across, address upwards",
                           mp_bytes_text((int64_t)arena), plan->peak_bytes < 0 ? "" : ", ",
                           plan->peak_bytes < 0 ? "" : mp_arena_text(plan->arena_bytes, mp_plan_live_bytes(plan))));
    mp_byte_scale_grid(&scale, canvas, frame->left, frame->right);
    mp_step_axis(columns, canvas, &map);
    for (size_t k = 0; k < plan->n_places; k++) draw_place(columns, canvas, &map, &scale, order[k], k);
    for (size_t k = 0; k < plan->n_places && k < NAMES_MAX; k++) draw_name(columns, canvas, &map, &scale, order[k]);
    draw_levels(plan, arena, budget, canvas, &map, &scale);
    return MP_OK;
}
