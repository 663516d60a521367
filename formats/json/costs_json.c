/* costs_json.c - writes measured seconds and algorithms of nodes to a file, and applies such a file to a graph. */
#include "memplan/costs_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "formats/json/json.h"

/* Returns the bytes that a node writes. If they differ from the file's, the file was measured with another batch, length or
 * type. */
static int64_t written_bytes(const mp_graph *graph, const mp_node *node)
{
    const mp_alternative *base = &node->alternatives[0];
    int64_t bytes = 0;
    for (size_t k = 0; k < base->n_writes; k++) bytes += graph->storages[base->writes[k]].bytes;
    return bytes;
}

static json_t *cost_json(const mp_graph *graph, const mp_node *node, const mp_node_cost *cost)
{
    json_t *row = json_pack("{s:o, s:f, s:I}", "name", mp_json_text(node->name), "seconds", cost->seconds, "bytes",
                            (json_int_t)written_bytes(graph, node)),
           *list = json_array();
    for (size_t k = 0; k < cost->n_algorithms; k++) {
        const mp_algorithm_cost *a = &cost->algorithms[k];
        mp_json_append(&list,
                       json_pack("{s:o, s:f, s:I, s:b}", "name", mp_json_text(a->name), "seconds", a->seconds,
                                 "workspace_bytes", (json_int_t)a->workspace_bytes, "deterministic", (int)a->is_deterministic));
    }
    if (cost->n_algorithms)
        mp_json_set(&row, "algorithms", list);
    else
        json_decref(list);
    return row;
}

mp_status mp_costs_write(const char *path, const mp_graph *graph, const mp_node_cost *costs, mp_error *err)
{
    mp_json_out out = {0};
    json_t *header =
        json_pack("{ss si ss ss}", "format", "memplan-costs", "version", 1, "name", graph->name, "target", graph->target);
    mp_json_start(&out, header);
    mp_json_begin_array(&out, "nodes");
    for (size_t k = 0; k < graph->n_nodes; k++) mp_json_row(&out, cost_json(graph, &graph->nodes[k], &costs[k]));
    mp_json_end_array(&out);
    return mp_json_finish(&out, path, err);
}

typedef struct reader {
    mp_graph *graph;
    const mp_costs_options *options;
    const json_t *rows;
    mp_names *names; /* map from the name of a node to its row in the file */
    mp_error *err;
} reader;

/* Reads the seconds of a row as ticks of the graph. `node` is the name used in messages. */
static mp_status read_ticks(const reader *r, const mp_json_record *row, const char *node, int64_t *ticks)
{
    double seconds;
    MP_CHECK(mp_json_get_real(row, "seconds", true, &seconds));
    if (!(seconds >= 0) || !isfinite(seconds)) return mp_json_record_fail(row, "\"seconds\" is not a number >= 0");
    MP_ENSURE(seconds / r->graph->tick_seconds < 9e15, r->err, MP_INVALID, "the node '%s' takes too long to be counted", node);
    *ticks = llround(seconds / r->graph->tick_seconds);
    return MP_OK;
}

/* Checks that every row of the file can be read, even if the graph lacks the row's node. */
static mp_status read_names(reader *r)
{
    for (size_t k = 0; k < json_array_size(r->rows); k++) {
        mp_json_record row;
        const char *name;
        int64_t ticks;
        MP_CHECK(mp_json_record_at(r->rows, "nodes", k, &row, r->err));
        MP_CHECK(mp_json_get_text(&row, "name", true, &name));
        MP_CHECK(read_ticks(r, &row, name, &ticks));
        MP_ENSURE(mp_names_set(r->names, name, (int)k), r->err, MP_NOMEM, "no memory for the costs");
    }
    return MP_OK;
}

static void set_ticks(mp_node *node, int64_t ticks)
{
    int64_t base = node->alternatives[0].ticks;
    for (size_t f = 0; f < node->n_alternatives; f++) {
        double part = base > 0 ? (double)node->alternatives[f].ticks / (double)base : 1;
        node->alternatives[f].ticks = f ? llround(part * (double)ticks) : ticks;
    }
}

/* Reads one algorithm of a row as an alternative of the node. If the options do not permit the algorithm, *alternative is
 * unchanged. */
static mp_status read_algorithm(const reader *r, const mp_json_record *row, const mp_node *node, const mp_alternative *others,
                                size_t n, mp_alternative *alternative, bool *permitted)
{
    const char *name;
    bool deterministic = true;
    int64_t ticks, bytes = 0;
    MP_CHECK(mp_json_get_text(row, "name", true, &name));
    MP_CHECK(read_ticks(r, row, node->name, &ticks));
    MP_CHECK(mp_json_get_int(row, "workspace_bytes", false, &bytes));
    MP_CHECK(mp_json_get_flag(row, "deterministic", &deterministic));
    if (bytes < 0 || bytes > INT64_MAX / 1024 || !mp_round_up(bytes, r->graph->alignment, &bytes))
        return mp_json_record_fail(row, "\"workspace_bytes\" cannot be");
    for (size_t k = 0; k < n; k++)
        if (!strcmp(others[k].algorithm, name)) return mp_json_record_fail(row, "the algorithm '%.60s' is there twice", name);
    *permitted = (deterministic || r->options->fast) && !(r->options->workspace_limit && bytes > r->options->workspace_limit);
    if (!*permitted) return MP_OK;
    *alternative = node->alternatives[0];
    alternative->ticks = ticks;
    alternative->workspace_bytes = bytes;
    alternative->algorithm = mp_pool_text(r->graph->pool, name, strlen(name));
    MP_ENSURE(alternative->algorithm, r->err, MP_NOMEM, "no memory for the costs");
    return MP_OK;
}

static int faster_then_smaller(const void *a, const void *b)
{
    const mp_alternative *x = a, *y = b;
    if (x->ticks != y->ticks) return x->ticks < y->ticks ? -1 : 1;
    if (x->workspace_bytes != y->workspace_bytes) return x->workspace_bytes < y->workspace_bytes ? -1 : 1;
    return strcmp(x->algorithm, y->algorithm);
}

/* Replaces the alternatives of a node by the algorithms of its row, if at least one of them is permitted. */
static mp_status read_algorithms(const reader *r, const mp_json_record *row, mp_node *node)
{
    const json_t *list = NULL;
    size_t n = 0, kept = 0;
    MP_CHECK(mp_json_get_array(row, "algorithms", false, &list));
    if (!json_array_size(list)) return MP_OK;
    MP_ENSURE(node->n_alternatives == 1, r->err, MP_INVALID, "the file has algorithms for '%s', which has alternatives already",
              node->name);
    mp_alternative *alternatives = mp_pool_alloc(r->graph->pool, json_array_size(list), sizeof *alternatives);
    MP_ENSURE(alternatives, r->err, MP_NOMEM, "no memory for the costs");
    for (size_t k = 0; k < json_array_size(list); k++) {
        mp_json_record one = *row; /* keeps the position of the node's row, so that error messages name the node */
        bool permitted;
        one.object = json_array_get(list, k);
        if (!json_is_object(one.object)) return mp_json_record_fail(row, "algorithm %zu is no object", k);
        MP_CHECK(read_algorithm(r, &one, node, alternatives, n, &alternatives[n], &permitted));
        n += permitted;
    }
    if (!n) return MP_OK;
    qsort(alternatives, n, sizeof *alternatives, faster_then_smaller);
    for (size_t k = 0; k < n; k++)
        if (!kept || alternatives[k].workspace_bytes < alternatives[kept - 1].workspace_bytes)
            alternatives[kept++] = alternatives[k];
    node->alternatives = alternatives;
    node->n_alternatives = kept;
    return MP_OK;
}

/* Checks that the node writes as many bytes as the measured node. Files written by other programs may omit these bytes. */
static mp_status check_bytes(const reader *r, const mp_json_record *row, const mp_node *node)
{
    const int64_t here = written_bytes(r->graph, node);
    int64_t there = here;
    MP_CHECK(mp_json_get_int(row, "bytes", false, &there));
    MP_ENSURE(there == here || !json_object_get(row->object, "bytes"), r->err, MP_INVALID,
              "the costs were measured with another batch, length or type: '%s' wrote %lld bytes then, and writes %lld here; "
              "measure this step with 'memplan profile'",
              node->name, (long long)there, (long long)here);
    return MP_OK;
}

static mp_status check_target(const mp_json_record *whole, const mp_graph *graph, mp_error *err)
{
    const char *target = NULL;
    MP_CHECK(mp_json_get_text(whole, "target", false, &target));
    MP_ENSURE(!target || !*target || !*graph->target || !strcmp(target, graph->target), err, MP_INVALID,
              "the costs were measured on '%s', and this step is for '%s': measure there with 'memplan profile', or plan "
              "for the device they come from with --device",
              target, graph->target);
    return MP_OK;
}

static mp_status apply_rows(const reader *r)
{
    for (size_t k = 0; k < r->graph->n_nodes; k++) {
        mp_node *node = &r->graph->nodes[k];
        int at = mp_names_find(r->names, node->name);
        int64_t ticks;
        mp_json_record row;
        MP_ENSURE(
            at >= 0, r->err, MP_INVALID,
            "the file has no cost for the node '%s'; it was measured on another model; measure this one with 'memplan profile'",
            node->name);
        MP_CHECK(mp_json_record_at(r->rows, "nodes", (size_t)at, &row, r->err));
        MP_CHECK(check_bytes(r, &row, node));
        MP_CHECK(read_ticks(r, &row, node->name, &ticks));
        set_ticks(node, ticks);
        MP_CHECK(read_algorithms(r, &row, node));
    }
    return MP_OK;
}

mp_status mp_costs_apply(const char *path, mp_graph *graph, const mp_costs_options *options, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(json_decref) json_t *file = NULL;
    MP_OWNED_BY(mp_names_free) mp_names *names = mp_names_new();
    reader r = {.graph = graph, .options = options, .names = names, .err = err};
    MP_ENSURE(names, err, MP_NOMEM, "no memory for the costs");
    MP_CHECK(mp_json_read(path, "memplan-costs", &file, err));
    mp_json_record whole = {file, NULL, 0, err};
    MP_CHECK(check_target(&whole, graph, err));
    MP_CHECK(mp_json_get_array(&whole, "nodes", true, &r.rows));
    MP_CHECK(read_names(&r));
    MP_CHECK(apply_rows(&r));
    return mp_graph_hash(graph, graph->hash, err);
}
