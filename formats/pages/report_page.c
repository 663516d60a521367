/* report_page.c - writes the report page. Contents that need no script are plain HTML and SVG. The script draws the list of
 * tensors and the trade-off curve from the JSON data in the page. */
#include "formats/pages/report_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/visible_text.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/curves/curve_spread.h"
#include "formats/curves/timeline_picture.h"
#include "formats/drawings/block.h"
#include "formats/json/json.h"
#include "memplan/pictures/graph_picture.h"

enum { TENSORS_MAX = 2000, COLUMNS_MAX = 2000, NAME_MAX_BYTES = 512 };

/* Returns a name or a source line with control characters escaped, for the page. */
static json_t *shown_text(const char *text)
{
    char shown[2 * NAME_MAX_BYTES];
    return mp_json_text(mp_visible_text(text, shown, sizeof shown));
}

static const char *node_name(const mp_timeline_columns *c, int step)
{
    return mp_short_name(mp_node_title(c->graph, c->steps[step].node));
}

static void set_source(json_t **object, const mp_timeline_columns *c, int step)
{
    const char *source = c->graph->nodes[c->steps[step].node].source;
    if (source) mp_json_set(object, "source", shown_text(source));
}

typedef struct ranked {
    int64_t bytes;
    size_t span;
} ranked;

static int by_bytes(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->span < y->span ? -1 : 1;
}

static json_t *tensor_list(const mp_timeline_columns *c)
{
    const mp_timeline *tl = c->timeline;
    json_t *list = json_array();
    ranked *order = mp_alloc(tl->n_spans, sizeof *order);
    if (!order) {
        json_decref(list);
        return NULL;
    }
    for (size_t k = 0; k < tl->n_spans; k++) order[k] = (ranked){c->graph->storages[tl->spans[k].storage].bytes, k};
    qsort(order, tl->n_spans, sizeof *order, by_bytes);
    for (size_t k = 0; k < tl->n_spans && k < TENSORS_MAX; k++) {
        const mp_span *span = &tl->spans[order[k].span];
        const mp_layer layer = c->layer[order[k].span];
        const int tier = c->graph->storages[span->storage].tier;
        mp_label label;
        const char *name = mp_short_name(mp_storage_title(c->graph, span->storage, &label));
        json_t *row =
            json_pack("{s:o, s:I, s:i, s:i, s:s, s:s}", "name", shown_text(name), "bytes", (json_int_t)order[k].bytes, "begin",
                      span->begin, "end", span->end, "kind", mp_layer_name(layer), "color", mp_layer_color(layer));
        if (tier != MP_TIER_DEVICE)
            mp_json_set(&row, "kind", shown_text(mp_text("%s, %s", mp_layer_name(layer), c->graph->tiers[tier])));
        mp_json_set(&row, "maker", shown_text(node_name(c, span->begin)));
        set_source(&row, c, span->begin);
        mp_json_append(&list, row);
    }
    mp_free(order);
    return list;
}

/* Returns a JSON list of bytes and per cent. If `known` is false, per cent is null. */
static json_t *point(int64_t bytes, bool known, double percent)
{
    return json_pack("[I, o]", (json_int_t)bytes, mp_json_real_if(known, percent));
}

static json_t *curve_list(const mp_sweep *sweep)
{
    json_t *list = json_array();
    for (size_t k = 0; sweep && k < sweep->n_curves; k++) {
        const mp_sweep_curve *curve = &sweep->curves[k];
        json_t *points = json_array();
        for (size_t i = 0; i < curve->n; i++)
            if (curve->points[i].feasible)
                mp_json_append(&points,
                               point(curve->points[i].peak_bytes, true, mp_curve_percent(sweep, curve->points[i].ticks)));
        mp_json_append(&list, json_pack("{s:s, s:o}", "solver", curve->solver, "points", points));
    }
    return list;
}

static json_t *bound_list(const mp_sweep *sweep)
{
    json_t *list = json_array();
    for (size_t k = 0; sweep && k < sweep->n_bounds; k++) {
        const mp_sweep_bound *bound = &sweep->bounds[k];
        mp_json_append(&list, point(bound->budget_bytes, !bound->infeasible,
                                    bound->infeasible ? 0 : mp_curve_percent(sweep, bound->ticks)));
    }
    return list;
}

/* Returns the JSON data of a page: tensors, curves. Release with json_decref. NULL: out of memory. */
static json_t *report_data(const mp_report_request *request, const mp_timeline_columns *c)
{
    return json_pack("{s:I, s:[f, f], s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "steps", (json_int_t)c->n_steps, "plot",
                     MP_PLOT_LEFT, MP_PLOT_RIGHT, "peak", (json_int_t)c->timeline->peak_bytes, "keep_all",
                     (json_int_t)c->keep_all->peak_bytes, "floor", (json_int_t)request->floor_bytes, "n_tensors",
                     (json_int_t)c->timeline->n_spans, "tensors", tensor_list(c), "curves", curve_list(request->sweep),
                     "bounds", bound_list(request->sweep), "plan_percent",
                     mp_json_real_if(request->plan && c->keep_all_ticks > 0,
                                     100 * ((double)c->timeline->ticks / fmax((double)c->keep_all_ticks, 1) - 1)));
}

static const char style[] =
#include "formats/pages/report_style.def"
    ;
static const char script[] =
#include "formats/pages/report_script.def"
    ;

/* Appends a text, escaped for HTML. */
static void put_html(mp_text_builder *out, const char *text)
{
    char shown[2 * NAME_MAX_BYTES];
    for (const char *at = mp_visible_text(text, shown, sizeof shown); *at; at++) {
        const char one[] = {*at, '\0'};
        mp_text_put(out, *at == '&' ? "&amp;" : *at == '<' ? "&lt;" : *at == '>' ? "&gt;" : *at == '"' ? "&quot;" : one);
    }
}

static void put_tile(mp_text_builder *out, const char *value, const char *name)
{
    mp_text_format(out, "<div class=\"tile\"><b>%s</b><span>%s</span></div>\n", value, name);
}

static void put_summary(mp_text_builder *out, const mp_report_request *request, const mp_timeline_columns *c)
{
    mp_text_put(out, "<h1>");
    put_html(out, mp_saving_title(request->title, request->plan));
    mp_text_put(out, "</h1>\n");
    mp_text_format(out, "<p>one training step of %zu operator runs, %s; the peak is at run %d, ", c->n_steps,
                   request->plan ? "as a plan runs it" : "everything kept", c->timeline->peak_step + 1);
    put_html(out, node_name(c, c->timeline->peak_step));
    mp_text_put(out, "</p>\n<div class=\"tiles\">\n");
    put_tile(out, mp_bytes_text(c->timeline->peak_bytes), "peak");
    if (request->plan) put_tile(out, mp_bytes_text(c->keep_all->peak_bytes), "peak with everything kept");
    if (request->plan && request->plan->budget_bytes < MP_NO_LIMIT)
        put_tile(out, mp_bytes_text(request->plan->budget_bytes), "budget");
    put_tile(out, mp_bytes_text(c->timeline->static_bytes), "static: parameters, optimizer, batch");
    put_tile(out, mp_bytes_text(request->floor_bytes), "floor: no schedule needs less");
    if (request->plan && c->keep_all_ticks > 0) {
        put_tile(out, mp_text("%+.1f %%", 100 * ((double)c->timeline->ticks / (double)c->keep_all_ticks - 1)), "extra time");
        put_tile(out, mp_text("%zu", c->n_activity[MP_ACTIVITY_RECOMPUTE]), "recomputed operators");
        put_tile(out, mp_text("%zu", request->plan->n_checkpoints), "checkpoints");
    }
    for (size_t m = MP_TIER_DEVICE + 1; m < c->graph->n_tiers; m++) {
        mp_text_format(out, "<div class=\"tile\"><b>%s</b><span>peak, ", mp_bytes_text(c->tiers[m].use->peak_bytes));
        put_html(out, c->graph->tiers[m]);
        mp_text_put(out, "</span></div>\n");
    }
    if (c->n_activity[MP_ACTIVITY_COPY]) put_tile(out, mp_text("%zu", c->n_activity[MP_ACTIVITY_COPY]), "copies, out and back");
    mp_text_put(out, "</div>\n");
}

/* The columns of bytes in the table of modules. The column of copies is shown only if the plan has copies. */
static const struct {
    mp_fate fate;
    const char *title;
} columns[] = {{MP_FATE_KEPT, "kept"},
               {MP_FATE_COPIED, "copied"},
               {MP_FATE_RECOMPUTED, "recomputed"},
               {MP_FATE_FORWARD_ONLY, "forward only"}};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static bool has_column(const mp_block_facts *facts, size_t column)
{
    return columns[column].fate != MP_FATE_COPIED || facts->total.bytes[MP_FATE_COPIED] > 0;
}

static void put_module(mp_text_builder *out, const mp_block_facts *facts, size_t k)
{
    const mp_graph_block *block = &facts->blocks->blocks[k];
    const mp_block_fact *fact = &facts->of[k];
    const double total = (double)mp_block_bytes(fact);
    mp_text_put(out, "<tr><td class=\"name\">");
    put_html(out, block->title);
    for (size_t i = 0; i < block->n; i++) { /* shows only the first source line that is known */
        const char *source = facts->graph->nodes[facts->blocks->nodes[block->first + i]].source;
        if (!source) continue;
        mp_text_put(out, "<div class=\"src\">");
        put_html(out, source);
        mp_text_put(out, "</div>");
        break;
    }
    mp_text_put(out, "</td><td>");
    put_html(out, block->subtitle);
    mp_text_put(out, "</td><td><div class=\"share\">");
    for (size_t i = 0; i < N_COLUMNS && total > 0; i++)
        if (fact->bytes[columns[i].fate] > 0)
            mp_text_format(out, "<i style=\"width:%.2f%%;background:%s\"></i>",
                           100 * (double)fact->bytes[columns[i].fate] / total, mp_fate_color(columns[i].fate));
    mp_text_put(out, "</div></td>");
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (has_column(facts, i))
            mp_text_format(out, "<td class=\"n\">%s</td>",
                           fact->bytes[columns[i].fate] ? mp_bytes_text(fact->bytes[columns[i].fate]) : "");
    if (facts->plan) mp_text_format(out, "<td class=\"n\">%zu</td>", fact->n_checkpoints);
    mp_text_put(out, "</tr>\n");
}

static void put_modules(mp_text_builder *out, const mp_block_facts *facts)
{
    mp_text_put(out,
                "<h2>Modules</h2>\n<p>bytes that forward computes in each module; equal consecutive modules share a row</p>\n"
                "<div class=\"scroll\"><table id=\"modules\"><tr><th>module</th><th></th><th></th>");
    for (size_t k = 0; k < N_COLUMNS; k++)
        if (has_column(facts, k)) mp_text_format(out, "<th class=\"n\">%s</th>", columns[k].title);
    mp_text_put(out, facts->plan ? "<th class=\"n\">checkpoints</th></tr>\n" : "</tr>\n");
    for (size_t k = 0; k < facts->blocks->n; k++) put_module(out, facts, k);
    mp_text_put(out, "</table></div>\n");
}

static void put_checkpoints(mp_text_builder *out, const mp_graph *graph, const mp_plan *plan)
{
    mp_label label;
    mp_text_put(out, "<h2>Checkpoints</h2>\n<p>forward tensors that are kept for backward; backward recomputes the other "
                     "tensors that it reads</p>\n<div class=\"scroll\"><table id=\"checkpoints\">\n");
    for (size_t k = 0; k < plan->n_checkpoints; k++) {
        const int s = plan->checkpoints[k];
        mp_text_put(out, "<tr><td class=\"name\">");
        put_html(out, mp_short_name(mp_storage_title(graph, s, &label)));
        mp_text_format(out, "</td><td class=\"n\">%s</td></tr>\n", mp_bytes_text(graph->storages[s].bytes));
    }
    mp_text_put(out, "</table></div>\n");
}

/* Appends the JSON data for the script. "<" is escaped, so that no name can end the script element. */
static void put_data(mp_text_builder *out, const char *json)
{
    mp_text_put(out, "<script type=\"application/json\" id=\"data\">");
    for (const char *at = json, *next; *at; at = next) {
        char piece[256];
        const size_t n = strcspn(at, "<");
        next = at + (n < sizeof piece ? n : sizeof piece - 1);
        snprintf(piece, sizeof piece, "%.*s", (int)(next - at), at);
        mp_text_put(out, piece);
        if (*next != '<') continue;
        mp_text_put(out, "\\u003c");
        next++;
    }
    mp_text_put(out, "</script>\n");
}

static void put_page(mp_text_builder *out, const mp_report_request *request, const mp_timeline_columns *c,
                     const mp_block_facts *facts, const char *svg, const char *json)
{
    mp_text_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n<meta http-equiv=\"Content-Security-Policy\" "
                     "content=\"default-src 'none'; style-src 'unsafe-inline'; "
                     "script-src 'unsafe-inline'\">\n<title>");
    put_html(out, mp_saving_title(request->title, request->plan));
    mp_text_put(out, "</title>\n<style>\n");
    mp_text_put(out, style);
    mp_text_put(out, "</style>\n</head>\n<body>\n");
    put_summary(out, request, c);
    mp_text_put(out, "<p><button data-zoom=\"1.5\">+</button> <button data-zoom=\"0.667\">-</button> <button "
                     "data-zoom=\"0\">whole step</button></p>\n<div class=\"box\" id=\"timeline\">\n");
    mp_text_put(out, svg);
    mp_text_put(out, "</div>\n");
    mp_text_put(out, "<h2>Tensors</h2>\n<p><input id=\"search\" placeholder=\"search: "
                     "layer3 gradients\"> <span id=\"found\"></span>; a click shows one in the picture above</p>\n<div "
                     "class=\"scroll\"><table id=\"tensor-table\"><thead><tr><th data-by=\"name\">tensor</th><th class=\"n\" "
                     "data-by=\"bytes\">size</th><th data-by=\"kind\">kind</th><th data-by=\"maker\">made by</th><th "
                     "data-by=\"begin\">in memory</th></tr></thead><tbody id=\"tensors\"></tbody></table></div>\n");
    if (request->sweep)
        mp_text_put(out, "<h2>Memory against time</h2>\n<p>each point is a plan that was found and checked</p>\n<div "
                         "class=\"legend\" id=\"curve-legend\"></div>\n<div class=\"box\" id=\"curve\"></div>\n");
    put_modules(out, facts);
    if (request->plan && request->plan->n_checkpoints) put_checkpoints(out, request->graph, request->plan);
    mp_text_put(out, "<noscript><p>The tensors and the curve need JavaScript.</p></noscript>\n");
    put_data(out, json);
    mp_text_put(out, "<script>\n");
    mp_text_put(out, script);
    mp_text_put(out, "</script>\n</body>\n</html>\n");
}

mp_status mp_report_page(const mp_report_request *request, const char *path, mp_error *err)
{
    MP_ABOUT(err, path);
    const mp_graph *graph = request->graph;
    const mp_plan *plan = request->plan;
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder out = {0};
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder svg = {0};
    MP_OWNED_BY(mp_timeline_columns_free) mp_timeline_columns *columns = NULL;
    MP_OWNED_BY(mp_graph_blocks_free) mp_graph_blocks *blocks = NULL;
    MP_CLEARED_BY(mp_block_facts_free) mp_block_facts facts = {0};
    MP_OWNED_BY(json_decref) json_t *data = NULL;
    MP_OWNED_BY(free) char *json = NULL;
    MP_CHECK(mp_timeline_columns_new(graph, plan ? plan->steps : NULL, plan ? plan->n_steps : 0, COLUMNS_MAX, &columns, err));
    MP_CHECK(mp_graph_blocks_build(graph, 0, MP_PICTURE_BOXES, &blocks, err));
    MP_CHECK(mp_block_facts_find(graph, blocks, plan, &facts, err));
    MP_CHECK(mp_timeline_svg(columns, plan, "Memory over the step", &svg, err));
    data = report_data(request, columns);
    MP_ENSURE(data, err, MP_NOMEM, "no memory for a report");
    MP_ENSURE(json = json_dumps(data, JSON_COMPACT | JSON_ENSURE_ASCII), err, MP_NOMEM, "no memory for a report");
    put_page(&out, request, columns, &facts, strstr(svg.text, "<svg"), json);
    MP_ENSURE(!out.failed, err, MP_NOMEM, "no memory for a report");
    return mp_file_write(path, out.text, out.length, err);
}
