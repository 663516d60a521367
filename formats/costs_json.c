#include "formats/costs_json.h"

#include <math.h>

#include "estimator/names.h"
#include "formats/json.h"

mp_status mp_costs_write(const char *path, const mp_graph *graph, const double *seconds, mp_error *err)
{
    mp_json_out out = {0};
    json_t *header =
        json_pack("{ss si ss ss}", "format", "memplan-costs", "version", 1, "name", graph->name, "target", graph->target);
    if (!header) return MP_FAIL(err, MP_NOMEM, "no memory for the costs");
    mp_json_start(&out, header);
    json_decref(header);
    mp_json_begin_array(&out, "nodes");
    for (size_t k = 0; k < graph->n_nodes; k++) {
        json_t *row = json_object();
        bool ok = row && mp_json_set(row, "name", mp_json_text(graph->nodes[k].name)) &&
                  mp_json_set(row, "seconds", json_real(seconds[k]));
        mp_json_row(&out, ok ? row : NULL);
    }
    mp_json_end_array(&out);
    return mp_json_finish(&out, path, err);
}

static mp_status read_rows(const json_t *file, mp_names *names, double *seconds, mp_error *err)
{
    mp_status st = MP_OK;
    const json_t *rows;
    mp_row whole = {file, NULL, 0, err};
    MP_TRY(mp_row_array(&whole, "nodes", true, &rows));
    for (size_t k = 0; k < json_array_size(rows); k++) {
        mp_row row;
        const char *name;
        MP_TRY(mp_row_at(rows, "nodes", k, &row, err));
        MP_TRY(mp_row_text(&row, "name", true, &name));
        MP_TRY(mp_row_real(&row, "seconds", true, &seconds[k]));
        if (!(seconds[k] >= 0) || !isfinite(seconds[k])) MP_TRY(mp_row_fail(&row, "\"seconds\" is not a number >= 0"));
        MP_REQUIRE(mp_names_set(names, name, (int)k), err, MP_NOMEM, "no memory for the costs");
    }
done:
    return st;
}

static void set_ticks(mp_node *node, int64_t ticks)
{
    int64_t base = node->forms[0].ticks;
    for (size_t f = 0; f < node->n_forms; f++) {
        double part = base > 0 ? (double)node->forms[f].ticks / (double)base : 1;
        node->forms[f].ticks = f ? llround(part * (double)ticks) : ticks;
    }
}

mp_status mp_costs_apply(const char *path, mp_graph *graph, mp_error *err)
{
    mp_status st = MP_OK;
    json_t *file = NULL;
    mp_names *names = mp_names_new();
    double *seconds = NULL;
    MP_REQUIRE(names, err, MP_NOMEM, "no memory for the costs");
    MP_TRY(mp_json_read(path, "memplan-costs", &file, err));
    seconds = mp_alloc(json_array_size(json_object_get(file, "nodes")) + 1, sizeof *seconds);
    MP_REQUIRE(seconds, err, MP_NOMEM, "no memory for the costs");
    MP_TRY(read_rows(file, names, seconds, err));
    for (size_t k = 0; k < graph->n_nodes; k++) {
        int row = mp_names_find(names, graph->nodes[k].name);
        MP_REQUIRE(row >= 0, err, MP_INVALID, "the file has no cost for the node '%s'; it was measured on another model",
                   graph->nodes[k].name);
        double ticks = seconds[row] / graph->tick_seconds;
        MP_REQUIRE(ticks < 9e15, err, MP_INVALID, "the node '%s' takes too long to be counted", graph->nodes[k].name);
        set_ticks(&graph->nodes[k], llround(ticks));
    }
    MP_TRY(mp_graph_hash(graph, graph->hash, err));
done:
    if (st != MP_OK) mp_error_locate(err, path, 0, 0);
    if (file) json_decref(file);
    mp_names_free(names);
    mp_free(seconds);
    return st;
}
