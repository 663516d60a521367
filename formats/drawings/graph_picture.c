/* graph_picture.c - draws the forward pass of a model: blocks are boxes, and tensors are wires between them. */
#include "memplan/pictures/graph_picture.h"

#include <math.h>

#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "formats/drawings/block.h"
#include "formats/drawings/graph_blocks.h"
#include "formats/drawings/placement.h"

#define MARGIN 24.0
#define ASPECT 1.45
#define LEAST_WIDTH 420.0
#define TRUNK 2.2 /* width of the line for a wire that carries the outputs of several boxes, in points */
enum { TOOLTIPS_MAX = 2000 };

static size_t write_legend(const mp_block_facts *facts, const mp_placement *placed, mp_legend_row *rows)
{
    static const char *const names[] = {
        "kept for backward: ", "copied and brought back: ", "recomputed: ", "forward only: ", "static"};
    size_t n = 0;
    for (size_t k = 0; k < MP_N_FATES; k++) {
        if (!facts->total.bytes[mp_fate_order[k]]) continue;
        rows[n].color = mp_fate_color(mp_fate_order[k]);
        rows[n++].text = mp_text("%s%s", names[k],
                                 mp_fate_order[k] == MP_FATE_NONE ? "" : mp_bytes_text(facts->total.bytes[mp_fate_order[k]]));
    }
    if (facts->total.n_checkpoints)
        rows[n++] = (mp_legend_row){
            .color = MP_COLOR_PAPER, .bold = true, .text = mp_text("output is a checkpoint (%zu)", facts->total.n_checkpoints)};
    for (size_t k = 0; k < placed->n_wires; k++) {
        if (placed->wires[k].end != MP_WIRE_TRUNK) continue;
        rows[n++] =
            (mp_legend_row){.color = MP_COLOR_WIRE, .line = TRUNK, .text = "thick wire: all outputs that joined it above"};
        break;
    }
    return n;
}

/* Gives each wire that passes over rows a colour of its own, so that it can be followed where wires cross. */
static const char *wire_color(const mp_wire *wire)
{
    static const char *const colors[] = {"#0f766e", "#be123c", "#4d7c0f", "#86198f", "#0369a1", "#92400e"};
    return wire->skip < 0 ? MP_COLOR_WIRE : colors[(size_t)wire->skip % (sizeof colors / sizeof *colors)];
}

static void draw_wires(mp_canvas *canvas, const mp_placement *placed, double top)
{
    for (size_t k = 0; k < placed->n_wires; k++) {
        const mp_wire *wire = &placed->wires[k];
        const char *color = wire_color(wire);
        double xy[8];
        for (size_t i = 0; i < wire->n; i++) {
            xy[2 * i] = MARGIN + wire->xy[2 * i];
            xy[2 * i + 1] = top - wire->xy[2 * i + 1];
        }
        if (wire->end == MP_WIRE_ARROW)
            mp_canvas_arrow(canvas, xy, wire->n, color, 1);
        else
            mp_canvas_line(canvas, xy, wire->n, color, wire->end == MP_WIRE_TRUNK ? TRUNK : 1, false);
        if (wire->end == MP_WIRE_JOINT) mp_canvas_dot(canvas, xy[2 * wire->n - 2], xy[2 * wire->n - 1], TRUNK, color);
    }
}

mp_status mp_graph_picture(const mp_picture_request *request, const char *path, mp_error *err)
{
    MP_OWNED_BY(mp_graph_blocks_free) mp_graph_blocks *blocks = NULL;
    MP_CLEARED_BY(mp_block_facts_free) mp_block_facts facts = {0};
    MP_OWNED_BY(mp_placement_free) mp_placement *placed = NULL;
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    mp_legend_row legend[MP_N_FATES + 2] = {0};
    MP_CHECK(mp_graph_blocks_build(request->graph, request->depth, MP_PICTURE_BOXES, &blocks, err));
    MP_ENSURE(blocks->n <= MP_PICTURE_BOXES_MAX, err, MP_LIMIT,
              "a picture of %zu boxes would not be readable; give a smaller depth", blocks->n);
    MP_ENSURE(blocks->n > 0, err, MP_INVALID, "the graph has no forward pass to draw");
    MP_CHECK(mp_block_facts_find(request->graph, blocks, request->plan, &facts, err));
    const char *about = mp_plan_subtitle(request->plan), *title = mp_saving_title(request->title, request->plan);
    const char *subtitle = mp_text("%zu operators in %zu boxes%s%s", blocks->n_nodes, blocks->n, *about ? "; " : "", about);
    if (mp_is_dot_path(path)) return mp_block_dot_write(&facts, title, subtitle, path, err);
    MP_CHECK(
        mp_placement_new(blocks->n, blocks->edges, blocks->n_edges, MP_BLOCK_WIDTH, MP_BLOCK_HEIGHT, ASPECT, &placed, err));
    size_t n_legend = write_legend(&facts, placed, legend);
    double width = fmax(fmax(placed->width, LEAST_WIDTH), mp_heading_width(title, subtitle));
    double heading = mp_heading_height(legend, n_legend, width), height = placed->height + heading + 2 * MARGIN;
    MP_CHECK(mp_canvas_new(width + 2 * MARGIN, height, &canvas, err));
    mp_heading_draw(canvas, MARGIN, height - MARGIN, width, title, subtitle, legend, n_legend);
    double top = height - MARGIN - heading;
    draw_wires(canvas, placed, top);
    for (size_t k = 0; k < blocks->n; k++)
        mp_block_draw(canvas, &facts, k, MARGIN + placed->x[k], top - placed->y[k] - MP_BLOCK_HEIGHT,
                      blocks->n <= TOOLTIPS_MAX);
    return mp_canvas_write(canvas, path, err);
}
