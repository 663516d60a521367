/* graph_json.c - reads and writes training graphs as JSON.
 *
 * The JSON object of an alternative contains only its differences from the base alternative, and inherits all other fields.
 * An in-place pair is inherited only if the alternative still reads its first storage and writes its second. */
#include "memplan/graph_json.h"

#include <math.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"
#include "formats/base/ids.h"
#include "formats/base/ticks.h"
#include "formats/json/collective_json.h"
#include "formats/json/json.h"

static const struct {
    const char *name;
    unsigned flag;
} flag_names[] = {{"once", MP_NODE_ONCE}, {"random", MP_NODE_RANDOM}, {"view", MP_NODE_VIEW}, {"optional", MP_NODE_OPTIONAL}};
enum { N_FLAGS = sizeof flag_names / sizeof *flag_names };

/* ---- reading ---- */

struct reader {
    mp_graph *graph;
    mp_ids ids;   /* ids of the file's storages */
    size_t *seen; /* per storage: number of the last list that contained it; detects repetitions within a list */
    size_t n_lists;
    double *seconds; /* seconds of all alternatives of all nodes, in file order */
    size_t n_seconds, seconds_capacity;
    int64_t sent_total; /* as in mp_collective_read */
    mp_error *err;
};

static mp_status copy_text(struct reader *r, const mp_json_record *row, const char *key, const char **text)
{
    const char *found = NULL;
    mp_status st = mp_json_get_text(row, key, false, &found);
    if (st != MP_OK || !found) return st;
    *text = mp_pool_text(r->graph->pool, found, strlen(found));
    return *text ? MP_OK : MP_NO_MEMORY(r->err);
}

/* Sets *number to the index of the name that the row's field `key` contains, in a list of names. If the field is missing,
 * *number is unchanged. */
static mp_status read_name(const mp_json_record *row, const char *key, const char *const *names, size_t n, int *number)
{
    const char *name = NULL;
    MP_CHECK(mp_json_get_text(row, key, false, &name));
    if (!name) return MP_OK;
    for (size_t k = 0; k < n; k++)
        if (!strcmp(names[k], name)) {
            *number = (int)k;
            return MP_OK;
        }
    return mp_json_record_fail(row, "\"%s\" is \"%.60s\", which the graph does not list", key, name);
}

static mp_status read_storage(struct reader *r, const mp_json_record *row)
{
    mp_storage *s;
    const char *kind = NULL, *order = NULL;
    const json_t *tensors = NULL;
    MP_CHECK(mp_graph_storage(r->graph, &s, r->err));
    MP_CHECK(mp_json_get_int(row, "id", false, &s->id));
    MP_CHECK(copy_text(r, row, "name", &s->name));
    MP_CHECK(mp_json_get_int(row, "bytes", true, &s->bytes));
    if (s->bytes < 0) return mp_json_record_fail(row, "\"bytes\" is negative");
    s->payload_bytes = s->bytes;
    MP_CHECK(mp_json_get_text(row, "kind", true, &kind));
    int found = mp_kind_find(kind);
    if (found < 0) return mp_json_record_fail(row, "\"kind\" is the unknown \"%.60s\"", kind);
    s->kind = (mp_kind)found;
    MP_CHECK(read_name(row, "tier", r->graph->tiers, r->graph->n_tiers, &s->tier));
    MP_CHECK(mp_json_get_flag(row, "carried", &s->carried));
    MP_CHECK(mp_json_get_flag(row, "persistent", &s->persistent));
    MP_CHECK(mp_json_get_flag(row, "output", &s->is_output));
    MP_CHECK(mp_json_get_text(row, "sum_order", false, &order));
    if (order && strcmp(order, "any")) return mp_json_record_fail(row, "\"sum_order\" may only be \"any\"");
    s->any_sum_order = order != NULL;
    MP_CHECK(mp_json_get_array(row, "tensors", false, &tensors));
    s->n_tensors = json_array_size(tensors);
    s->tensors = mp_pool_alloc(r->graph->pool, s->n_tensors, sizeof *s->tensors);
    if (!s->tensors) return MP_NO_MEMORY(r->err);
    for (size_t i = 0; i < s->n_tensors; i++) {
        const char *text;
        MP_CHECK(mp_json_element_text(row, "tensors", tensors, i, &text));
        s->tensors[i] = mp_pool_text(r->graph->pool, text, strlen(text));
        if (!s->tensors[i]) return MP_NO_MEMORY(r->err);
    }
    return MP_OK;
}

/* Reads a field with a list of storage ids. If the field is missing, the list is unchanged (MP_PARSE if it is `required`).
 * If a storage is repeated, it counts once. */
static mp_status read_list(struct reader *r, const mp_json_record *row, const char *key, bool required, int **list, size_t *n)
{
    const json_t *array = NULL;
    MP_CHECK(mp_json_get_array(row, key, required, &array));
    if (!array) return MP_OK;
    size_t size = json_array_size(array), count = 0;
    *list = mp_pool_alloc(r->graph->pool, size, sizeof **list);
    if (!*list) return MP_NO_MEMORY(r->err);
    r->n_lists++;
    for (size_t i = 0; i < size; i++) {
        int64_t id;
        MP_CHECK(mp_json_element_int(row, key, array, i, &id));
        int s = mp_ids_find(&r->ids, id);
        if (s < 0) return mp_json_record_fail(row, "\"%s\" names storage %lld, which does not exist", key, (long long)id);
        if (r->seen[s] == r->n_lists && !strcmp(key, "reads")) continue;
        r->seen[s] = r->n_lists;
        (*list)[count++] = s;
    }
    *n = count;
    return MP_OK;
}

static mp_status read_pairs(struct reader *r, const mp_json_record *row, const mp_alternative *base,
                            mp_alternative *alternative)
{
    const json_t *array = NULL;
    MP_CHECK(mp_json_get_array(row, "in_place", false, &array));
    const size_t n_inherited = base && !array ? base->n_in_place : 0;
    size_t n = json_array_size(array);
    mp_in_place *pairs = mp_pool_alloc(r->graph->pool, n + n_inherited, sizeof *pairs);
    if (!pairs) return MP_NO_MEMORY(r->err);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(array, i);
        int64_t from, to;
        if (json_array_size(pair) != 2) return mp_json_record_fail(row, "\"in_place\"[%zu] is no pair", i);
        MP_CHECK(mp_json_element_int(row, "in_place", pair, 0, &from));
        MP_CHECK(mp_json_element_int(row, "in_place", pair, 1, &to));
        pairs[i] = (mp_in_place){mp_ids_find(&r->ids, from), mp_ids_find(&r->ids, to)};
        if (pairs[i].from < 0 || pairs[i].to < 0)
            return mp_json_record_fail(row, "\"in_place\"[%zu] names a storage that does not exist", i);
    }
    for (size_t i = 0; i < n_inherited; i++)
        if (mp_pair_is_inherited(alternative, base->in_place[i])) pairs[n++] = base->in_place[i];
    alternative->in_place = pairs;
    alternative->n_in_place = n;
    return MP_OK;
}

/* Reads the object of an alternative. `base` is the alternative whose fields it inherits; NULL for the base alternative
 * itself. */
static mp_status read_alternative(struct reader *r, const mp_json_record *row, const mp_alternative *base, double base_seconds,
                                  mp_alternative *alternative)
{
    double seconds = base_seconds;
    const char *algorithm = "";
    if (base) *alternative = *base;
    MP_CHECK(read_list(r, row, "reads", !base, &alternative->reads, &alternative->n_reads));
    MP_CHECK(read_list(r, row, "writes", !base, &alternative->writes, &alternative->n_writes));
    MP_CHECK(read_list(r, row, "adds", false, &alternative->adds, &alternative->n_adds));
    MP_CHECK(read_pairs(r, row, base, alternative));
    MP_CHECK(mp_json_get_int(row, "workspace_bytes", false, &alternative->workspace_bytes));
    if (alternative->workspace_bytes < 0) return mp_json_record_fail(row, "\"workspace_bytes\" is negative");
    MP_CHECK(mp_json_get_real(row, "seconds", !base, &seconds));
    MP_CHECK(copy_text(r, row, "algorithm", &algorithm));
    alternative->algorithm = algorithm[0] ? algorithm : NULL;
    MP_CHECK(read_name(row, "channel", r->graph->channels, r->graph->n_channels, &alternative->channel));
    MP_CHECK(mp_json_get_flag(row, "returns", &alternative->returns));
    if (!mp_grow(&r->seconds, &r->seconds_capacity, r->n_seconds + 1, sizeof *r->seconds)) return MP_NO_MEMORY(r->err);
    r->seconds[r->n_seconds++] = seconds;
    return MP_OK;
}

static mp_status read_flags(const mp_json_record *row, unsigned *flags)
{
    const json_t *array = NULL;
    MP_CHECK(mp_json_get_array(row, "flags", false, &array));
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *name;
        MP_CHECK(mp_json_element_text(row, "flags", array, i, &name));
        for (int k = 0; k < N_FLAGS; k++) /* unknown flags belong to other programs and are ignored */
            if (!strcmp(name, flag_names[k].name)) *flags |= flag_names[k].flag;
    }
    return MP_OK;
}

static mp_status read_node(struct reader *r, const mp_json_record *row)
{
    mp_node *node;
    const char *phase = NULL;
    const json_t *listed = NULL;
    MP_CHECK(mp_graph_node(r->graph, &node, r->err));
    MP_CHECK(mp_json_get_int(row, "id", false, &node->id));
    MP_CHECK(copy_text(r, row, "name", &node->name));
    MP_CHECK(copy_text(r, row, "op", &node->op));
    MP_CHECK(copy_text(r, row, "source", &node->source));
    MP_CHECK(mp_json_get_text(row, "phase", true, &phase));
    int found = mp_phase_find(phase);
    if (found < 0) return mp_json_record_fail(row, "\"phase\" is the unknown \"%.60s\"", phase);
    node->phase = (mp_phase)found;
    MP_CHECK(mp_json_get_real(row, "flops", false, &node->flops));
    MP_CHECK(read_flags(row, &node->flags));
    MP_CHECK(mp_collective_read(r->graph, row, &r->sent_total, node));
    MP_CHECK(mp_json_get_array(row, "alternatives", false, &listed));
    size_t n = json_array_size(listed) + 1, first = r->n_seconds;
    mp_alternative *alternatives = mp_pool_alloc(r->graph->pool, n, sizeof *alternatives);
    if (!alternatives) return MP_NO_MEMORY(r->err);
    node->alternatives = alternatives;
    node->n_alternatives = n;
    MP_CHECK(read_alternative(r, row, NULL, 0, &alternatives[0]));
    for (size_t k = 1; k < n; k++) {
        mp_json_record alternative = *row; /* keeps the position of the node's row, so that error messages name the node */
        alternative.object = json_array_get(listed, k - 1);
        if (!json_is_object(alternative.object)) return mp_json_record_fail(row, "alternative %zu is no object", k);
        MP_CHECK(read_alternative(r, &alternative, &alternatives[0], r->seconds[first], &alternatives[k]));
    }
    return MP_OK;
}

static mp_status read_forward_of(struct reader *r, const json_t *nodes)
{
    MP_CLEARED_BY(mp_ids_free) mp_ids ids = {0};
    mp_json_record row;
    MP_CHECK(mp_ids_of_nodes(r->graph, &ids, r->err));
    for (size_t i = 0; i < r->graph->n_nodes; i++) {
        int64_t id;
        if (json_is_null(json_object_get(json_array_get(nodes, i), "forward_of"))) continue;
        if (!json_object_get(json_array_get(nodes, i), "forward_of")) continue;
        MP_CHECK(mp_json_record_at(nodes, "nodes", i, &row, r->err));
        MP_CHECK(mp_json_get_int(&row, "forward_of", true, &id));
        r->graph->nodes[i].forward_of = mp_ids_find(&ids, id);
        if (r->graph->nodes[i].forward_of < 0)
            MP_CHECK(mp_json_record_fail(&row, "\"forward_of\" names node %lld, which does not exist", (long long)id));
    }
    return MP_OK;
}

/* Returns the node of alternative number k, counted over all nodes. */
static int node_of_alternative(const mp_graph *graph, size_t number)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (number < graph->nodes[i].n_alternatives) return (int)i;
        number -= graph->nodes[i].n_alternatives;
    }
    return 0;
}

static mp_status set_ticks(struct reader *r, const mp_json_record *top)
{
    mp_graph *graph = r->graph;
    MP_OWNED int64_t *ticks = NULL;
    size_t culprit = 0, k = 0;
    double chosen, given = 0;
    mp_error fault = {0};
    if (mp_ticks_choose(r->seconds, r->n_seconds, &chosen, &culprit, &fault) != MP_OK)
        MP_ENSURE(false, r->err, MP_PARSE, "%s: %s", mp_node_label(graph, node_of_alternative(graph, culprit)).text,
                  fault.message);
    MP_CHECK(mp_json_get_real(top, "tick_seconds", false, &given));
    MP_ENSURE(isfinite(given) && given >= 0, r->err, MP_PARSE, "\"tick_seconds\" is %g", given);
    graph->tick_seconds = given > 0 ? given : chosen;
    MP_ENSURE(ticks = mp_alloc(r->n_seconds, sizeof *ticks), r->err, MP_NOMEM, "no memory for the graph '%s'", graph->name);
    MP_CHECK(mp_ticks_convert(r->seconds, r->n_seconds, graph->tick_seconds, ticks, r->err));
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t f = 0; f < graph->nodes[i].n_alternatives; f++) graph->nodes[i].alternatives[f].ticks = ticks[k++];
    return MP_OK;
}

typedef mp_status (*list_name)(mp_graph *graph, const char *name, int *number, mp_error *err);

/* Adds the channels or tiers that the file states in addition to the default ones. */
static mp_status read_names(struct reader *r, const mp_json_record *top, const char *key, list_name add)
{
    const json_t *array = NULL;
    const char *name;
    int number;
    MP_CHECK(mp_json_get_array(top, key, false, &array));
    for (size_t i = 0; i < json_array_size(array); i++) {
        MP_CHECK(mp_json_element_text(top, key, array, i, &name));
        MP_CHECK(add(r->graph, name, &number, r->err));
    }
    return MP_OK;
}

static mp_status read_header(struct reader *r, const mp_json_record *top)
{
    mp_graph *graph = r->graph;
    const char *fuse = NULL;
    const json_t *options = NULL;
    MP_OWNED char *text = NULL;
    MP_CHECK(copy_text(r, top, "name", &graph->name));
    MP_CHECK(copy_text(r, top, "target", &graph->target));
    MP_CHECK(mp_json_get_int(top, "alignment", false, &graph->alignment));
    MP_ENSURE(graph->alignment >= 1, r->err, MP_PARSE, "\"alignment\" is %lld", (long long)graph->alignment);
    MP_CHECK(mp_json_get_text(top, "fuse", false, &fuse));
    int found = fuse ? mp_fuse_find(fuse) : MP_FUSE_BACKWARD;
    MP_ENSURE(found >= 0, r->err, MP_PARSE, "\"fuse\" is the unknown \"%.60s\"", fuse);
    graph->fuse = (mp_fuse)found;
    MP_CHECK(read_names(r, top, "channels", mp_graph_channel));
    MP_CHECK(read_names(r, top, "tiers", mp_graph_tier));
    MP_CHECK(mp_json_get_object(top, "options", &options));
    if (options) {
        text = mp_json_print(options, 0);
        graph->options = text ? mp_pool_text(graph->pool, text, strlen(text)) : NULL;
        if (!graph->options) return MP_NO_MEMORY(r->err);
    }
    return MP_OK;
}

static void reader_free(struct reader *r)
{
    mp_graph_free(r->graph);
    mp_ids_free(&r->ids);
    mp_free(r->seen);
    mp_free(r->seconds);
}

mp_status mp_graph_read(const char *path, mp_graph **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(reader_free) struct reader r = {.err = err};
    MP_OWNED_BY(json_decref) json_t *json = NULL;
    const json_t *storages = NULL, *nodes = NULL;
    mp_json_record top = {.err = err}, row;
    MP_CHECK(mp_json_read(path, "memplan-graph", &json, err));
    top.object = json;
    MP_CHECK(mp_graph_new("", &r.graph, err));
    MP_CHECK(read_header(&r, &top));
    MP_CHECK(mp_json_get_array(&top, "storages", true, &storages));
    MP_CHECK(mp_json_get_array(&top, "nodes", true, &nodes));
    for (size_t i = 0; i < json_array_size(storages); i++) {
        MP_CHECK(mp_json_record_at(storages, "storages", i, &row, err));
        MP_CHECK(read_storage(&r, &row));
    }
    MP_CHECK(mp_ids_of_storages(r.graph, &r.ids, err));
    r.seen = mp_alloc(r.graph->n_storages, sizeof *r.seen);
    if (!r.seen) return MP_NO_MEMORY(r.err);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        MP_CHECK(mp_json_record_at(nodes, "nodes", i, &row, err));
        MP_CHECK(read_node(&r, &row));
    }
    MP_CHECK(read_forward_of(&r, nodes));
    MP_CHECK(set_ticks(&r, &top));
    MP_CHECK(mp_graph_finish(r.graph, err));
    *out = r.graph;
    r.graph = NULL;
    return MP_OK;
}

/* ---- writing ---- */

static bool same_list(const int *a, size_t n_a, const int *b, size_t n_b)
{
    return n_a == n_b && (!n_a || !memcmp(a, b, n_a * sizeof *a));
}

/* True if a reader of the file would derive the same in-place pairs for the alternative. */
static bool same_pairs(const mp_alternative *base, const mp_alternative *alternative)
{
    size_t k = 0;
    for (size_t i = 0; i < base->n_in_place; i++) {
        const mp_in_place p = base->in_place[i];
        if (!mp_pair_is_inherited(alternative, p)) continue;
        if (k == alternative->n_in_place || alternative->in_place[k].from != p.from || alternative->in_place[k].to != p.to)
            return false;
        k++;
    }
    return k == alternative->n_in_place;
}

static json_t *list_json(const mp_graph *graph, const int *list, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) mp_json_append(&array, json_integer(graph->storages[list[i]].id));
    return array;
}

static json_t *pairs_json(const mp_graph *graph, const mp_alternative *alternative)
{
    json_t *array = json_array();
    for (size_t i = 0; i < alternative->n_in_place; i++)
        mp_json_append(&array, list_json(graph, (int[]){alternative->in_place[i].from, alternative->in_place[i].to}, 2));
    return array;
}

/* Writes the fields of an alternative to its JSON object. For the base alternative (`base` NULL) these are all fields that
 * are not empty. For any other alternative they are the differences from the base. */
static void set_alternative(json_t **row, const mp_graph *graph, const mp_alternative *alternative, const mp_alternative *base)
{
    if (!base || alternative->ticks != base->ticks)
        mp_json_set(row, "seconds", json_real((double)alternative->ticks * graph->tick_seconds));
    if (base ? alternative->workspace_bytes != base->workspace_bytes : alternative->workspace_bytes != 0)
        mp_json_set(row, "workspace_bytes", json_integer(alternative->workspace_bytes));
    if (!base || !same_list(alternative->reads, alternative->n_reads, base->reads, base->n_reads))
        mp_json_set(row, "reads", list_json(graph, alternative->reads, alternative->n_reads));
    if (!base || !same_list(alternative->writes, alternative->n_writes, base->writes, base->n_writes))
        mp_json_set(row, "writes", list_json(graph, alternative->writes, alternative->n_writes));
    if (base ? !same_list(alternative->adds, alternative->n_adds, base->adds, base->n_adds) : alternative->n_adds > 0)
        mp_json_set(row, "adds", list_json(graph, alternative->adds, alternative->n_adds));
    if (alternative->algorithm) mp_json_set(row, "algorithm", mp_json_text(alternative->algorithm));
    if (alternative->channel > MP_CHANNEL_SECOND_STREAM && (!base || alternative->channel != base->channel))
        mp_json_set(row, "channel", mp_json_text(graph->channels[alternative->channel]));
    if (alternative->returns) mp_json_set(row, "returns", json_true());
    if (base ? !same_pairs(base, alternative) : alternative->n_in_place > 0)
        mp_json_set(row, "in_place", pairs_json(graph, alternative));
}

static json_t *tensors_json(const mp_storage *s)
{
    json_t *tensors = json_array();
    for (size_t i = 0; i < s->n_tensors; i++) mp_json_append(&tensors, mp_json_text(s->tensors[i]));
    return tensors;
}

static json_t *storage_json(const mp_graph *graph, const mp_storage *s)
{
    json_t *row = json_pack("{s:I}", "id", (json_int_t)s->id);
    if (s->name[0]) mp_json_set(&row, "name", mp_json_text(s->name));
    mp_json_set(&row, "bytes", json_integer(s->bytes));
    mp_json_set(&row, "kind", json_string(mp_kind_name(s->kind)));
    if (s->tier) mp_json_set(&row, "tier", mp_json_text(graph->tiers[s->tier]));
    if (s->n_tensors) mp_json_set(&row, "tensors", tensors_json(s));
    if (s->carried) mp_json_set(&row, "carried", json_true());
    if (s->persistent) mp_json_set(&row, "persistent", json_true());
    if (s->is_output) mp_json_set(&row, "output", json_true());
    if (s->any_sum_order) mp_json_set(&row, "sum_order", json_string("any"));
    return row;
}

static json_t *flags_json(const mp_node *node)
{
    json_t *list = json_array();
    for (int k = 0; k < N_FLAGS; k++)
        if (node->flags & flag_names[k].flag) mp_json_append(&list, json_string(flag_names[k].name));
    return list;
}

static json_t *alternatives_json(const mp_graph *graph, const mp_node *node)
{
    json_t *list = json_array();
    for (size_t k = 1; k < node->n_alternatives; k++) {
        json_t *alternative = json_object();
        set_alternative(&alternative, graph, &node->alternatives[k], &node->alternatives[0]);
        mp_json_append(&list, alternative);
    }
    return list;
}

static json_t *node_json(const mp_graph *graph, const mp_node *node)
{
    json_t *row = json_pack("{s:I}", "id", (json_int_t)node->id);
    if (node->name[0]) mp_json_set(&row, "name", mp_json_text(node->name));
    if (node->op[0]) mp_json_set(&row, "op", mp_json_text(node->op));
    if (node->source) mp_json_set(&row, "source", mp_json_text(node->source));
    mp_json_set(&row, "phase", json_string(mp_phase_name(node->phase)));
    if (node->flops != 0) mp_json_set(&row, "flops", json_real(node->flops));
    set_alternative(&row, graph, &node->alternatives[0], NULL);
    if (node->forward_of >= 0) mp_json_set(&row, "forward_of", json_integer(graph->nodes[node->forward_of].id));
    if (node->flags) mp_json_set(&row, "flags", flags_json(node));
    if (node->collective) mp_json_set(&row, "collective", mp_collective_json(node->collective));
    if (node->n_alternatives > 1) mp_json_set(&row, "alternatives", alternatives_json(graph, node));
    return row;
}

static json_t *names_json(const char *const *names, size_t n)
{
    json_t *array = json_array();
    for (size_t k = 0; k < n; k++) mp_json_append(&array, mp_json_text(names[k]));
    return array;
}

static json_t *header_json(const mp_graph *graph)
{
    const size_t channels = MP_CHANNEL_SECOND_STREAM + 1,
                 tiers = MP_TIER_DEVICE +
                         1; /* every graph has the default channels and the default tier, so only additional ones are written */
    json_t *header = json_pack("{s:s, s:i, s:o, s:o, s:o, s:I, s:f, s:s, s:s}", "format", "memplan-graph", "version", 1, "name",
                               mp_json_text(graph->name), "options", mp_json_parse(graph->options), "target",
                               mp_json_text(graph->target), "alignment", (json_int_t)graph->alignment, "tick_seconds",
                               graph->tick_seconds, "fuse", mp_fuse_name(graph->fuse), "hash", graph->hash);
    if (graph->n_channels > channels)
        mp_json_set(&header, "channels", names_json(graph->channels + channels, graph->n_channels - channels));
    if (graph->n_tiers > tiers) mp_json_set(&header, "tiers", names_json(graph->tiers + tiers, graph->n_tiers - tiers));
    return header;
}

mp_status mp_graph_write(const mp_graph *graph, const char *path, mp_error *err)
{
    mp_json_out out;
    mp_json_start(&out, header_json(graph));
    mp_json_begin_array(&out, "storages");
    for (size_t i = 0; i < graph->n_storages; i++) mp_json_row(&out, storage_json(graph, &graph->storages[i]));
    mp_json_end_array(&out);
    mp_json_begin_array(&out, "nodes");
    for (size_t i = 0; i < graph->n_nodes; i++) mp_json_row(&out, node_json(graph, &graph->nodes[i]));
    mp_json_end_array(&out);
    return mp_json_finish(&out, path, err);
}
