/* block_drawing.c - draws a block as a box whose colours show the fates of its tensors. Draws the heading and the legend. */
#include "formats/drawings/block.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"

enum {
    TOOLTIP_LINES = 24, /* maximum number of operators that a tooltip lists */
    TOOLTIP_MAX = 6000
};
#define TITLE_SIZE 18.0
#define SUBTITLE_SIZE 12.0
#define LEGEND_SIZE 11.5
#define LEGEND_LINE 20.0
#define SWATCH 12.0
#define TITLE_SPACE 50.0 /* height in points for the title, above the legend */

static const struct {
    const char *color, *text;
} fates[MP_N_FATES] = {[MP_FATE_NONE] = {MP_COLOR_STATIC, "static"},
                       [MP_FATE_FORWARD_ONLY] = {MP_COLOR_FORWARD_ONLY, "forward only"},
                       [MP_FATE_RECOMPUTED] = {MP_COLOR_RECOMPUTED, "recomputed"},
                       [MP_FATE_KEPT] = {MP_COLOR_KEPT, "kept"},
                       [MP_FATE_COPIED] = {MP_COLOR_COPIED, "copied"}};

const mp_fate mp_fate_order[MP_N_FATES] = {MP_FATE_KEPT, MP_FATE_COPIED, MP_FATE_RECOMPUTED, MP_FATE_FORWARD_ONLY,
                                           MP_FATE_NONE};

const char *mp_fate_color(mp_fate fate)
{
    return fates[fate].color;
}

/* ---- facts ---- */

void mp_block_facts_free(mp_block_facts *facts)
{
    mp_pool_free(facts->pool);
    *facts = (mp_block_facts){0};
}

/* True if a forward node of another block reads this storage. */
static bool is_read_outside(const mp_block_facts *facts, int storage, int block)
{
    const mp_graph *graph = facts->graph;
    for (int i = graph->readers_start[storage]; i < graph->readers_start[storage + 1]; i++) {
        int other = facts->blocks->block_of[graph->readers[i]];
        if (other >= 0 && other != block) return true;
    }
    return false;
}

static void add_node(mp_block_facts *facts, const bool *counted, int node)
{
    int block = facts->blocks->block_of[node];
    mp_block_fact *fact = &facts->of[block];
    const mp_alternative *alternative = &facts->graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < alternative->n_writes; i++) {
        int s = alternative->writes[i];
        if (counted[s]) continue;
        const mp_storage *storage = &facts->graph->storages[s];
        if (storage->kind == MP_KIND_BUFFER || storage->kind == MP_KIND_PARAMETER || storage->kind == MP_KIND_OPTIMIZER_STATE)
            continue;
        fact->bytes[facts->fates[s]] += storage->bytes;
        facts->total.bytes[facts->fates[s]] += storage->bytes;
        if (!facts->checkpoint[s]) continue;
        fact->n_checkpoints++;
        facts->total.n_checkpoints++;
        if (facts->blocks->blocks[block].n == 1 || is_read_outside(facts, s, block)) fact->ends_in_checkpoint = true;
    }
}

mp_status mp_block_facts_find(const mp_graph *graph, const mp_graph_blocks *blocks, const mp_plan *plan, mp_block_facts *out,
                              mp_error *err)
{
    mp_pool *pool = mp_pool_new();
    MP_CLEARED_BY(mp_block_facts_free) mp_block_facts facts = {.pool = pool, .graph = graph, .blocks = blocks, .plan = plan};
    bool *counted = mp_pool_alloc(pool, graph->n_storages, sizeof *counted);
    mp_step *keep_all = mp_pool_alloc(pool, graph->n_nodes, sizeof *keep_all);
    facts.fates = mp_pool_alloc(pool, graph->n_storages, sizeof *facts.fates);
    facts.checkpoint = mp_pool_alloc(pool, graph->n_storages, sizeof *facts.checkpoint);
    facts.of = mp_pool_alloc(pool, blocks->n, sizeof *facts.of);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a picture");
    const size_t n_all = mp_keep_all(graph, keep_all);
    MP_CHECK(mp_fates(graph, plan ? plan->steps : keep_all, plan ? plan->n_steps : n_all, facts.fates, err));
    for (size_t k = 0; plan && k < plan->n_checkpoints; k++) facts.checkpoint[plan->checkpoints[k]] = true;
    for (size_t k = 0; k < blocks->n_nodes; k++) {
        const mp_alternative *alternative = &graph->nodes[blocks->nodes[k]].alternatives[0];
        add_node(&facts, counted, blocks->nodes[k]);
        for (size_t i = 0; i < alternative->n_writes; i++) counted[alternative->writes[i]] = true;
    }
    *out = facts;
    facts = (mp_block_facts){0};
    return MP_OK;
}

int64_t mp_block_bytes(const mp_block_fact *fact)
{
    int64_t bytes = 0;
    for (int k = 0; k < MP_N_FATES; k++) bytes += fact->bytes[k];
    return bytes;
}

/* ---- boxes ---- */

/* Lists the operators of a block, with the bytes that they produce and the fates of these bytes. */
static void tooltip_text(const mp_block_facts *facts, const mp_graph_block *block, char *text)
{
    const mp_graph *graph = facts->graph;
    size_t n = 0, shown = block->n <= TOOLTIP_LINES ? block->n : TOOLTIP_LINES - 1;
    text[0] = '\0';
    if (block->n > 1) n += (size_t)snprintf(text, TOOLTIP_MAX, "%.200s: %.200s", block->title, block->subtitle);
    for (size_t k = 0; k < shown && n < TOOLTIP_MAX - 400; k++) {
        const mp_node *node = &graph->nodes[facts->blocks->nodes[block->first + k]];
        const mp_alternative *alternative = &node->alternatives[0];
        n += (size_t)snprintf(text + n, TOOLTIP_MAX - n, "%s%.120s%s%.40s%s", n ? "\n" : "", node->name, *node->op ? " (" : "",
                              node->op, *node->op ? ")" : "");
        for (size_t i = 0; i < alternative->n_writes && i < 2; i++) {
            const mp_storage *s = &graph->storages[alternative->writes[i]];
            if (s->kind == MP_KIND_BUFFER) continue;
            n += (size_t)snprintf(text + n, TOOLTIP_MAX - n, "%s%s %s", i ? ", " : ": ", mp_bytes_text(s->bytes),
                                  facts->checkpoint[alternative->writes[i]] ? "checkpoint"
                                                                            : fates[facts->fates[alternative->writes[i]]].text);
        }
    }
    const char *source = graph->nodes[facts->blocks->nodes[block->first]].source;
    if (source && n < TOOLTIP_MAX - 200)
        n += (size_t)snprintf(text + n, TOOLTIP_MAX - n, "\n%.150s%s", source, block->n > 1 ? " ..." : "");
    if (shown < block->n) snprintf(text + n, TOOLTIP_MAX - n, "\n... and %zu more", block->n - shown);
}

static void outline(mp_canvas *canvas, double x, double y, double width, double height, const char *color, double pen)
{
    const double xy[] = {x, y, x + width, y, x + width, y + height, x, y + height, x, y};
    mp_canvas_line(canvas, xy, 5, color, pen, false);
}

/* Fills a box with the colours of the fates, in proportion to their bytes. */
static void fill_shares(mp_canvas *canvas, const mp_block_fact *fact, double x, double y)
{
    double total = (double)mp_block_bytes(fact), at = 0;
    if (total <= 0) {
        mp_canvas_box(canvas, x, y, MP_BLOCK_WIDTH, MP_BLOCK_HEIGHT, MP_COLOR_GRID, NULL, NULL);
        return;
    }
    for (size_t k = 0; k < MP_N_FATES; k++) {
        double share = (double)fact->bytes[mp_fate_order[k]] / total;
        if (share <= 0) continue;
        mp_canvas_box(canvas, x + at * MP_BLOCK_WIDTH, y, share * MP_BLOCK_WIDTH, MP_BLOCK_HEIGHT,
                      fates[mp_fate_order[k]].color, NULL, NULL);
        at += share;
    }
}

/* Writes text in the middle of a box. If the text is too wide, it is written in a smaller font, and shortened if necessary. */
static void line_of_text(mp_canvas *canvas, double x, double y, double size, bool bold, const char *text)
{
    const double space = MP_BLOCK_WIDTH - 8;
    size = mp_canvas_fitting_size(text, size, 0.8 * size, bold, space);
    mp_canvas_text(canvas, x + MP_BLOCK_WIDTH / 2, y, MP_ALIGN_CENTER, size, bold, MP_COLOR_TEXT,
                   mp_canvas_distinct(mp_canvas_names(canvas), text, text, size, bold, space));
}

void mp_box_finish(mp_canvas *canvas, double x, double y, bool bold, const char *title, const char *subtitle, const char *bytes,
                   const char *tooltip)
{
    outline(canvas, x, y, MP_BLOCK_WIDTH, MP_BLOCK_HEIGHT, bold ? MP_COLOR_TEXT : MP_COLOR_WIRE, bold ? 2.5 : 0.75);
    bool three = *subtitle != '\0';
    line_of_text(canvas, x, y + (three ? 33 : 27.5), 11, true, title);
    line_of_text(canvas, x, y + 20, 9.5, false, subtitle);
    line_of_text(canvas, x, y + (three ? 7.5 : 12), 9.5, false, bytes);
    if (tooltip) mp_canvas_box(canvas, x, y, MP_BLOCK_WIDTH, MP_BLOCK_HEIGHT, MP_COLOR_CLEAR, NULL, tooltip);
}

void mp_block_draw(mp_canvas *canvas, const mp_block_facts *facts, size_t k, double x, double y, bool tooltip)
{
    const mp_graph_block *block = &facts->blocks->blocks[k];
    const mp_block_fact *fact = &facts->of[k];
    char tip[TOOLTIP_MAX];
    if (tooltip) tooltip_text(facts, block, tip);
    const char *bytes = mp_bytes_text(mp_block_bytes(fact));
    if (block->n > 1 && fact->n_checkpoints)
        bytes = mp_text("%s, %zu checkpoint%s", bytes, fact->n_checkpoints, fact->n_checkpoints > 1 ? "s" : "");
    fill_shares(canvas, fact, x, y);
    mp_box_finish(canvas, x, y, fact->ends_in_checkpoint, block->title, block->subtitle, bytes, tooltip ? tip : NULL);
}

/* ---- the heading ---- */

const char *mp_plan_subtitle(const mp_plan *plan)
{
    if (!plan || plan->peak_bytes < 0) return "";
    const bool has_time = plan->seconds >= 0 && plan->baseline_seconds > 0;
    return mp_text("peak %s%s%s", mp_bytes_text(plan->peak_bytes),
                   plan->budget_bytes < MP_NO_LIMIT ? mp_text(" of a budget of %s", mp_bytes_text(plan->budget_bytes)) : "",
                   has_time ? mp_text(", %.1f %% more time", 100 * (plan->seconds / plan->baseline_seconds - 1)) : "");
}

const char *mp_saving_title(const char *title, const mp_plan *plan)
{
    if (!plan || plan->peak_bytes < 0 || plan->baseline_peak_bytes <= 0 || plan->peak_bytes > plan->baseline_peak_bytes)
        return title;
    return mp_text("%s: %s instead of %s, %.0f %% less", title, mp_bytes_text(plan->peak_bytes),
                   mp_bytes_text(plan->baseline_peak_bytes),
                   100 * (double)(plan->baseline_peak_bytes - plan->peak_bytes) / (double)plan->baseline_peak_bytes);
}

static double entry_width(const mp_legend_row *row)
{
    return SWATCH + 6 + mp_canvas_text_width(row->text, LEGEND_SIZE, false) + 20;
}

/* Computes the position of legend entry k. Entries fill lines from left to right. */
static void entry_place(const mp_legend_row *rows, size_t k, double width, double *x, double *line)
{
    *x = *line = 0;
    for (size_t i = 0; i <= k; i++) {
        if (*x > 0 && *x + entry_width(&rows[i]) - 20 > width) {
            *x = 0;
            ++*line;
        }
        if (i < k) *x += entry_width(&rows[i]);
    }
}

double mp_heading_height(const mp_legend_row *rows, size_t n, double width)
{
    double x, line = -1;
    if (n) entry_place(rows, n - 1, width, &x, &line);
    return TITLE_SPACE + (line + 1) * LEGEND_LINE + 14;
}

double mp_heading_width(const char *title, const char *subtitle)
{
    return fmax(mp_canvas_text_width(title, TITLE_SIZE, true), mp_canvas_text_width(subtitle, SUBTITLE_SIZE, false)) + 4;
}

void mp_heading_draw(mp_canvas *canvas, double x, double y, double width, const char *title, const char *subtitle,
                     const mp_legend_row *rows, size_t n)
{
    mp_canvas_heading(canvas, x, y - 15, TITLE_SIZE, title);
    mp_canvas_text(canvas, x, y - 35, MP_ALIGN_LEFT, SUBTITLE_SIZE, false, MP_COLOR_MUTED, subtitle);
    for (size_t k = 0; k < n; k++) {
        double at, row;
        entry_place(rows, k, width, &at, &row);
        double left = x + at, bottom = y - TITLE_SPACE - row * LEGEND_LINE - SWATCH;
        const double middle = bottom + SWATCH / 2;
        if (rows[k].line > 0)
            mp_canvas_line(canvas, (double[]){left, middle, left + SWATCH, middle}, 2, rows[k].color, rows[k].line, false);
        else
            mp_canvas_box(canvas, left, bottom, SWATCH, SWATCH, rows[k].color, NULL, NULL);
        if (rows[k].bold) outline(canvas, left, bottom, SWATCH, SWATCH, MP_COLOR_TEXT, 2);
        mp_canvas_text(canvas, left + SWATCH + 6, bottom + 2, MP_ALIGN_LEFT, LEGEND_SIZE, false, MP_COLOR_TEXT, rows[k].text);
    }
}
