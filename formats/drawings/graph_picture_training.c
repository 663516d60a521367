/* graph_picture_training.c - draws one training step in three panels: only forward, with the tensors kept for backward, and
 * with recomputation.
 *
 * The rows of a panel are blocks of the forward pass, from top to bottom. Its columns are forward, recomputation and
 * backward. Forward runs down, backward up, and wires of kept tensors lead from one column to another. */
#include "memplan/pictures/graph_picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "estimator/base/memory.h"
#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/drawings/block.h"
#include "formats/drawings/graph_blocks.h"

#define MARGIN 24.0
#define ROW (MP_BLOCK_HEIGHT + 22)
#define ACROSS 58.0     /* distance between the columns of a panel, in points */
#define PANEL_GAP 44.0  /* distance between panels, in points */
#define LANE_GAP 6.0    /* distance between wires beside a column, in points */
#define PANEL_HEAD 48.0 /* height above the boxes of a panel, in points; it contains the panel's title */
enum { ROWS_WANTED = 40, ROWS_MAX = 600 };

typedef enum column { FORWARD, AGAIN, BACKWARD, N_COLUMNS } column;

/* A panel: one of the three drawings of the training step, with its own columns. */
typedef struct panel {
    const char *title;
    char about[128];
    mp_block_facts facts;
    const mp_plan *plan;
    const mp_step *steps;
    size_t n_steps;
    bool present[N_COLUMNS];
    double left, x[N_COLUMNS],
        width;               /* left: x coordinate of the panel's left side. x: left side of each column, relative to `left` */
    bool *box[N_COLUMNS];    /* per column and row: true if a box is drawn */
    int64_t *gradient_bytes; /* per row: bytes of gradients that backward produces */
} panel;

typedef struct drawing {
    const mp_graph *graph;
    const mp_graph_blocks *blocks;
    mp_canvas *canvas;
    mp_pool *pool; /* memory pool that owns all arrays of the drawing */
    int *row;      /* per node of the graph: its row in every panel */
    double top;    /* y coordinate of the upper edge of the first row of boxes, in points */
    size_t n_lanes[2];
    int *lane[2]; /* per row, beside the forward column [0] and the backward column [1]: lane of the row's wire; -1: no wire
                     skips rows */
    mp_error *err;
} drawing;

/* Finds the row of every node; a backward node has the row of its forward node. If no node has forward_of, the list is
 * mirrored: the first backward node is in the row of the last forward node. */
static void find_rows(drawing *d)
{
    const mp_graph *graph = d->graph;
    size_t n_backward = 0, k = 0;
    bool told = false;
    for (size_t node = 0; node < graph->n_nodes; node++) {
        n_backward += graph->nodes[node].phase == MP_PHASE_BACKWARD;
        told |= graph->nodes[node].forward_of >= 0;
    }
    for (size_t node = 0; node < graph->n_nodes; node++) {
        const mp_node *it = &graph->nodes[node];
        d->row[node] = d->blocks->block_of[node];
        if (it->phase != MP_PHASE_BACKWARD) continue;
        if (!told)
            d->row[node] = (int)((n_backward - 1 - k++) * d->blocks->n / n_backward);
        else if (it->forward_of >= 0)
            d->row[node] = d->blocks->block_of[it->forward_of];
        if (d->row[node] < 0)
            d->row[node] = (int)d->blocks->n - 1; /* the node of the loss has no row of its own; it is shown in the last row */
    }
}

static int row_of(const drawing *d, int node) /* returns the row in which a node is drawn; -1: the node is in no row */
{
    return d->row[node];
}

static double row_y(const drawing *d, int row) /* returns the y coordinate of the middle of a row of boxes */
{
    return d->top - row * ROW - MP_BLOCK_HEIGHT / 2;
}

/* ---- the boxes of a panel ---- */

/* True if a step of the plan recomputes a tensor. A copy that is brought back computes nothing. */
static bool is_again(const drawing *d, const panel *p, size_t t)
{
    return p->plan && p->plan->recompute && p->plan->recompute[t] &&
           mp_copy_way_of(d->graph, p->steps[t].node, p->steps[t].alternative) == MP_COPY_NONE;
}

static void find_boxes(const drawing *d, panel *p)
{
    for (size_t k = 0; k < d->blocks->n; k++) p->box[FORWARD][k] = true;
    bool *ran = p->box[AGAIN]; /* the array for boxes is not yet in use here, so it serves as scratch memory */
    for (size_t t = 0; t < p->n_steps; t++) {
        const mp_node *node = &d->graph->nodes[p->steps[t].node];
        int row = row_of(d, p->steps[t].node);
        if (row < 0) continue;
        if (node->phase == MP_PHASE_BACKWARD) {
            const mp_alternative *alternative = &node->alternatives[p->steps[t].alternative];
            p->box[BACKWARD][row] = p->present[BACKWARD] = true;
            for (size_t i = 0; i < alternative->n_writes; i++)
                p->gradient_bytes[row] += d->graph->storages[alternative->writes[i]].bytes;
            for (size_t i = 0; i < alternative->n_adds; i++)
                p->gradient_bytes[row] += d->graph->storages[alternative->adds[i]].bytes;
        } else if (is_again(d, p, t)) {
            ran[row] = p->present[AGAIN] = true;
        }
    }
}

static mp_status live_text(const drawing *d, panel *p)
{
    mp_timeline *timeline = NULL;
    MP_CHECK(mp_timeline_build(d->graph, p->steps, p->n_steps, &timeline, d->err));
    const char *live = mp_bytes_text(timeline->peak_bytes - timeline->static_bytes);
    const char *kept = mp_bytes_text(p->facts.total.bytes[MP_FATE_KEPT]);
    if (!p->present[BACKWARD])
        snprintf(p->about, sizeof p->about, "keeps nothing; live: %s", live);
    else if (!p->plan)
        snprintf(p->about, sizeof p->about, "keeps %s for backward; live: %s", kept, live);
    else
        snprintf(p->about, sizeof p->about, "keeps %s for backward; live: %s; %.1f %% more time", kept, live,
                 p->plan->baseline_seconds > 0 ? 100 * (p->plan->seconds / p->plan->baseline_seconds - 1) : 0.0);
    mp_timeline_free(timeline);
    return MP_OK;
}

static mp_status panel_start(const drawing *d, panel *p)
{
    for (int c = 0; c < N_COLUMNS; c++) p->box[c] = mp_pool_alloc(d->pool, d->blocks->n, sizeof *p->box[c]);
    p->gradient_bytes = mp_pool_alloc(d->pool, d->blocks->n, sizeof *p->gradient_bytes);
    if (mp_pool_failed(d->pool)) return MP_NO_MEMORY(d->err);
    p->present[FORWARD] = true;
    MP_CHECK(mp_block_facts_find(d->graph, d->blocks, p->plan, &p->facts, d->err));
    find_boxes(d, p);
    /* a tensor whose first result backward does not use counts as forward-only: a recomputed tensor, or any kept tensor if the
     * panel has no backward */
    for (size_t k = 0; k < d->blocks->n; k++) {
        int64_t *bytes = p->facts.of[k].bytes;
        mp_fate from = p->present[BACKWARD] ? MP_FATE_RECOMPUTED : MP_FATE_KEPT;
        bytes[MP_FATE_FORWARD_ONLY] += bytes[from];
        bytes[from] = 0;
    }
    return live_text(d, p);
}

/* ---- wires ---- */

/* A run of a node that contributed to the current content of a storage: it wrote the content, or added to it. */
typedef struct maker {
    column column;
    int row, next; /* next: index of another run that added to the same storage; -1: none */
} maker;

typedef struct makers {
    maker *all;
    size_t n, capacity;
    int *last; /* per storage: index of the last run that contributed to its content; -1: no run so far */
} makers;

static mp_status makers_start(makers *m, const drawing *d)
{
    *m = (makers){.last = mp_pool_alloc(d->pool, d->graph->n_storages, sizeof *m->last)};
    if (!m->last) return MP_NO_MEMORY(d->err);
    for (size_t s = 0; s < d->graph->n_storages; s++) m->last[s] = -1;
    return MP_OK;
}

static mp_status note_maker(makers *m, int storage, column c, int row, int next, mp_error *err)
{
    if (!mp_grow(&m->all, &m->capacity, m->n + 1, sizeof *m->all)) return MP_NO_MEMORY(err);
    m->all[m->n] = (maker){c, row, next};
    m->last[storage] = (int)m->n++;
    return MP_OK;
}

static mp_status note_makers(makers *m, const mp_alternative *alternative, column c, int row, mp_error *err)
{
    for (size_t i = 0; i < alternative->n_writes; i++) MP_CHECK(note_maker(m, alternative->writes[i], c, row, -1, err));
    for (size_t i = 0; i < alternative->n_adds; i++)
        MP_CHECK(note_maker(m, alternative->adds[i], c, row, m->last[alternative->adds[i]], err));
    return MP_OK;
}

static void makers_free(makers *made)
{
    mp_free(made->all);
}

/* Assigns lanes beside a column to wires that skip rows. All wires of a row share one lane, which ends at the farthest row
 * that they reach. */
static mp_status find_lanes(drawing *d, int side)
{
    size_t n = d->blocks->n;
    int *reach =
        mp_pool_alloc(d->pool, n, sizeof *reach);      /* per row: number of rows to the farthest row that its wires reach */
    int *end = mp_pool_alloc(d->pool, n, sizeof *end); /* per lane: the row from which it is free again */
    MP_CLEARED_BY(makers_free) makers made = {0};
    if (!reach || !end) return MP_NO_MEMORY(d->err);
    MP_CHECK(makers_start(&made, d));
    for (size_t node = 0; node < d->graph->n_nodes; node++) {
        const mp_node *it = &d->graph->nodes[node];
        const mp_alternative *alternative = &it->alternatives[0];
        int row = row_of(d, (int)node);
        if (row < 0 || (it->phase == MP_PHASE_BACKWARD) != (side == 1)) continue;
        for (size_t i = 0; i < alternative->n_reads; i++)
            for (int m = made.last[alternative->reads[i]]; m >= 0; m = made.all[m].next) {
                const int from = made.all[m].row, distance = side ? from - row : row - from;
                if (distance > 1 && distance > reach[from]) reach[from] = distance;
            }
        MP_CHECK(note_makers(&made, alternative, FORWARD, row, d->err));
    }
    for (size_t k = 0; k < n;
         k++) { /* k and `end` count rows in the direction of the wires: downwards beside forward, upwards beside backward */
        int from = side ? (int)(n - 1 - k) : (int)k;
        d->lane[side][from] = -1;
        if (!reach[from]) continue;
        size_t lane = 0;
        while (lane < d->n_lanes[side] && end[lane] >= (int)k) lane++;
        if (lane == d->n_lanes[side]) d->n_lanes[side]++;
        end[lane] = (int)k + reach[from];
        d->lane[side][from] = (int)lane;
    }
    return MP_OK;
}

static void arrow(const drawing *d, const char *color, const double *xy, size_t n)
{
    mp_canvas_arrow(d->canvas, xy, n, color, 1.2);
}

/* Draws a wire within a column: downwards (forward, recomputation) or upwards (backward). If the wire skips rows, it runs in
 * a lane beside the column. */
static void wire_along(const drawing *d, const panel *p, column c, int from, int to, const char *color)
{
    double x = p->left + p->x[c], a = row_y(d, from), b = row_y(d, to), half = MP_BLOCK_HEIGHT / 2;
    bool down = to > from;
    if (abs(to - from) == 1 || c == AGAIN) {
        double middle = x + MP_BLOCK_WIDTH / 2 + (abs(to - from) > 1 ? 40 : 0);
        {
            arrow(d, color, (double[]){middle, down ? a - half : a + half, middle, down ? b + half : b - half}, 2);
            return;
        }
    }
    int lane = d->lane[c == BACKWARD][from];
    double side = c == BACKWARD ? x + MP_BLOCK_WIDTH : x, step = 9 + LANE_GAP * (lane < 0 ? 0 : lane);
    double out = c == BACKWARD ? side + step : side - step, shift = down ? -7 : 7;
    arrow(d, color, (double[]){side, a + shift, out, a + shift, out, b - shift, side, b - shift}, 4);
}

/* Draws a wire to a column further right. If a box is in the way, the wire uses the gap below the row. */
static void wire_across(const drawing *d, const panel *p, column from, int row, column to, int to_row, const char *color)
{
    double x = p->left + p->x[from] + MP_BLOCK_WIDTH, end = p->left + p->x[to], a = row_y(d, row), b = row_y(d, to_row);
    bool between = false;
    if (from == FORWARD && to == BACKWARD && p->present[AGAIN])
        for (int k = row < to_row ? row : to_row; k <= (row < to_row ? to_row : row); k++) between |= p->box[AGAIN][k];
    if (!between) {
        arrow(d, color, (double[]){x, a, end, b}, 2);
        return;
    }
    int lane = abs(to_row - row) < 5 ? abs(to_row - row) : 5;
    double gap = a - MP_BLOCK_HEIGHT / 2 - 7, turn = end - 10 - 5 * lane;
    arrow(d, color, (double[]){x, a, x + 9, a, x + 9, gap, turn, gap, turn, b, end, b}, 6);
}

/* A wire from a run that produces a storage to a run that reads it. Equal wires are drawn once per panel. */
typedef struct link {
    column from, to;
    int from_row, to_row;
} link;

static bool is_new(const link *links, size_t n, const link *one)
{
    for (size_t k = n; k-- > 0;)
        if (links[k].from == one->from && links[k].to == one->to && links[k].from_row == one->from_row &&
            links[k].to_row == one->to_row)
            return false;
    return true;
}

static void draw_link(const drawing *d, const panel *p, const link *one)
{
    static const char *const colors[] = {
        [FORWARD] = MP_COLOR_KEPT, [AGAIN] = MP_COLOR_RECOMPUTED, [BACKWARD] = MP_COLOR_GRADIENT};
    if (one->from == one->to) {
        wire_along(d, p, one->from, one->from_row, one->to_row, one->from == FORWARD ? MP_COLOR_WIRE : colors[one->from]);
        return;
    }
    wire_across(d, p, one->from, one->from_row, one->to, one->to_row, colors[one->from]);
}

/* Draws the wires of a panel: visits the steps, and connects each run with the runs that read its results. */
static mp_status draw_links(const drawing *d, const panel *p)
{
    const mp_graph *graph = d->graph;
    size_t n_links = 0, capacity = 0;
    MP_OWNED link *links = NULL;
    MP_CLEARED_BY(makers_free) makers made = {0};
    MP_CHECK(makers_start(&made, d));
    for (size_t t = 0; t < p->n_steps; t++) {
        const mp_node *node = &graph->nodes[p->steps[t].node];
        const mp_alternative *alternative = &node->alternatives[p->steps[t].alternative];
        int row = row_of(d, p->steps[t].node);
        if (row < 0 || alternative->returns)
            continue; /* if a run brings back a copy, the content was produced by the forward run, so the wire starts there */
        column c = node->phase == MP_PHASE_BACKWARD ? BACKWARD : is_again(d, p, t) ? AGAIN : FORWARD;
        for (size_t i = 0; i < alternative->n_reads; i++)
            for (int m = made.last[alternative->reads[i]]; m >= 0; m = made.all[m].next) {
                link one = {made.all[m].column, c, made.all[m].row, row};
                if ((one.from == one.to && one.from_row == row) || one.from > one.to || !is_new(links, n_links, &one)) continue;
                if (!mp_grow(&links, &capacity, n_links + 1, sizeof *links)) return MP_NO_MEMORY(d->err);
                links[n_links++] = one;
                draw_link(d, p, &one);
            }
        MP_CHECK(note_makers(&made, alternative, c, row, d->err));
    }
    return MP_OK;
}

/* ---- drawing ---- */

static void draw_boxes(const drawing *d, const panel *p)
{
    for (size_t k = 0; k < d->blocks->n; k++) {
        const mp_graph_block *block = &d->blocks->blocks[k];
        double y = row_y(d, (int)k) - MP_BLOCK_HEIGHT / 2;
        mp_block_draw(d->canvas, &p->facts, k, p->left + p->x[FORWARD], y, true);
        for (int c = AGAIN; c <= BACKWARD; c++) {
            if (!p->box[c][k]) continue;
            double x = p->left + p->x[c];
            mp_canvas_box(d->canvas, x, y, MP_BLOCK_WIDTH, MP_BLOCK_HEIGHT,
                          c == AGAIN ? mp_fate_color(MP_FATE_RECOMPUTED) : MP_COLOR_GRADIENT, NULL, NULL);
            const char *text = c == AGAIN ? "again" : mp_bytes_text(p->gradient_bytes[k]);
            const char *subtitle =
                mp_text("%s%s%s", c == AGAIN ? "" : "backward", c == AGAIN || !*block->subtitle ? "" : " of ", block->subtitle);
            mp_box_finish(d->canvas, x, y, false, block->title, subtitle, text,
                          mp_text("%s %s %s, %s", c == AGAIN ? "a second run of" : "backward of", block->title, block->subtitle,
                                  c == AGAIN ? "which had been dropped" : text));
        }
    }
}

static mp_status draw_panel(const drawing *d, const panel *p)
{
    mp_canvas_text(d->canvas, p->left, d->top + 30, MP_ALIGN_LEFT, 14, true, MP_COLOR_TEXT, p->title);
    mp_canvas_text(d->canvas, p->left, d->top + 15, MP_ALIGN_LEFT, 11, false, MP_COLOR_MUTED, p->about);
    MP_CHECK(draw_links(d, p));
    draw_boxes(d, p);
    return MP_OK;
}

/* Places the three panels side by side, and returns their total width. */
static double place_panels(const drawing *d, panel *panels, size_t n)
{
    double x = 0, lanes[2];
    for (int side = 0; side < 2; side++) lanes[side] = d->n_lanes[side] ? 9 + LANE_GAP * (double)d->n_lanes[side] : 0;
    for (size_t k = 0; k < n; k++) {
        panel *p = &panels[k];
        double at = lanes[0];
        p->left = x;
        for (int c = 0; c < N_COLUMNS; c++) {
            if (!p->present[c]) continue;
            p->x[c] = at;
            at += MP_BLOCK_WIDTH + ACROSS;
        }
        at -= ACROSS;
        if (p->present[BACKWARD]) at += lanes[1];
        p->width = fmax(at, fmax(mp_canvas_text_width(p->title, 14, true), mp_canvas_text_width(p->about, 11, false)));
        x += p->width + PANEL_GAP;
    }
    return x - PANEL_GAP;
}

static mp_status draw(drawing *d, panel *panels, size_t n, const mp_picture_request *request, const char *path)
{
    const mp_block_fact *planned = n == 3 ? &panels[2].facts.total : NULL;
    const struct {
        mp_legend_row row;
        bool is_absent;
    } all[] = {
        {{.color = MP_COLOR_KEPT, .text = "kept for backward"}, false},
        {{.color = MP_COLOR_FORWARD_ONLY, .text = "dropped at its last use"}, false},
        {{.color = MP_COLOR_GRADIENT, .text = "backward: gradients"}, false},
        {{.color = MP_COLOR_STATIC, .text = "static"}, false},
        {{.color = MP_COLOR_COPIED, .text = "copied and brought back"}, !planned || !planned->bytes[MP_FATE_COPIED]},
        {{.color = MP_COLOR_RECOMPUTED, .text = "recomputed"}, !planned || !panels[2].present[AGAIN]},
        {{.color = MP_COLOR_PAPER, .bold = true, .text = "output is a checkpoint"}, !planned || !planned->n_checkpoints}};
    mp_legend_row legend[sizeof all / sizeof *all];
    size_t n_legend = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!all[k].is_absent) legend[n_legend++] = all[k].row;
    const char *title = mp_saving_title(request->title, request->plan);
    const char *subtitle =
        mp_text("one training step, %zu operators in the forward pass; live: bytes beside parameters and batch, at most",
                d->blocks->n_nodes);
    double width = fmax(place_panels(d, panels, n), mp_heading_width(title, subtitle));
    double heading = mp_heading_height(legend, n_legend, width);
    double height = heading + PANEL_HEAD + (double)d->blocks->n * ROW + 2 * MARGIN;
    MP_CHECK(mp_canvas_new(width + 2 * MARGIN, height, &d->canvas, d->err));
    mp_heading_draw(d->canvas, MARGIN, height - MARGIN, width, title, subtitle, legend, n_legend);
    d->top = height - MARGIN - heading - PANEL_HEAD;
    for (size_t k = 0; k < n; k++) {
        panels[k].left += MARGIN;
        MP_CHECK(draw_panel(d, &panels[k]));
    }
    return mp_canvas_write(d->canvas, path, d->err);
}

static void drawing_free(drawing *d)
{
    mp_pool_free(d->pool);
    mp_canvas_free(d->canvas);
}

static void panels_free(panel (*panels)[3])
{
    for (size_t k = 0; k < 3; k++) mp_block_facts_free(&(*panels)[k].facts);
}

mp_status mp_training_picture(const mp_picture_request *request, const char *path, mp_error *err)
{
    const mp_graph *graph = request->graph;
    MP_OWNED_BY(mp_graph_blocks_free) mp_graph_blocks *blocks = NULL;
    MP_CLEARED_BY(drawing_free) drawing d = {.graph = graph, .pool = mp_pool_new(), .err = err};
    MP_CLEARED_BY(panels_free)
    panel panels[3] = {{.title = "forward"}, {.title = "forward and backward"}, {.title = "as planned", .plan = request->plan}};
    size_t n = request->plan ? 3 : 2, n_forward = 0;
    mp_step *keep_all = mp_pool_alloc(d.pool, graph->n_nodes, sizeof *keep_all);
    mp_step *forward = mp_pool_alloc(d.pool, graph->n_nodes, sizeof *forward);
    d.row = mp_pool_alloc(d.pool, graph->n_nodes, sizeof *d.row);
    if (mp_pool_failed(d.pool)) return MP_NO_MEMORY(err);
    MP_CHECK(mp_graph_blocks_build(graph, request->depth, ROWS_WANTED, &blocks, err));
    MP_ENSURE(blocks->n <= ROWS_MAX, err, MP_LIMIT, "a picture of %zu rows would not be readable; give a smaller depth",
              blocks->n);
    MP_ENSURE(blocks->n > 0, err, MP_INVALID, "the graph has no forward pass to draw");
    d.blocks = blocks;
    find_rows(&d);
    const size_t n_all = mp_keep_all(graph, keep_all);
    for (size_t t = 0; t < n_all; t++)
        if (blocks->block_of[keep_all[t].node] >= 0) forward[n_forward++] = keep_all[t];
    panels[0].steps = forward, panels[0].n_steps = n_forward;
    panels[1].steps = keep_all, panels[1].n_steps = n_all;
    if (request->plan) panels[2].steps = request->plan->steps, panels[2].n_steps = request->plan->n_steps;
    for (int side = 0; side < 2; side++) {
        if (!(d.lane[side] = mp_pool_alloc(d.pool, blocks->n, sizeof *d.lane[side]))) return MP_NO_MEMORY(err);
        MP_CHECK(find_lanes(&d, side));
    }
    for (size_t k = 0; k < n; k++) MP_CHECK(panel_start(&d, &panels[k]));
    return draw(&d, panels, n, request, path);
}
