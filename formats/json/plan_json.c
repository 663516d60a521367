/* plan_json.c - reads plans from JSON. If a plan does not state a value, the header contains null. */
#include "formats/json/plan_json.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "estimator/graph/without_state_copies.h"
#include "formats/base/ids.h"
#include "formats/json/json.h"
#include "memplan/makespan.h"

struct reader {
    const mp_graph *graph;
    mp_plan *plan;
    mp_ids nodes, storages;
    mp_error *err;
};

/* Reads a field with a number of bytes; -1: the plan does not state it. */
static mp_status read_bytes(const mp_json_record *top, const char *key, int64_t *bytes)
{
    *bytes = -1;
    MP_CHECK(mp_json_get_int(top, key, false, bytes));
    const bool is_wrong = *bytes < 0 && json_is_integer(json_object_get(top->object, key));
    return is_wrong ? mp_json_record_fail(top, "\"%s\" is negative", key) : MP_OK;
}

static mp_status read_seconds(const mp_json_record *top, const char *key, double *seconds)
{
    *seconds = -1;
    MP_CHECK(mp_json_get_real(top, key, false, seconds));
    const bool is_wrong = *seconds < 0 && json_is_number(json_object_get(top->object, key));
    return is_wrong ? mp_json_record_fail(top, "\"%s\" is negative", key) : MP_OK;
}

static mp_status read_text(struct reader *r, const mp_json_record *row, const char *key, char **text)
{
    const char *found = "";
    MP_CHECK(mp_json_get_text(row, key, false, &found));
    *text = mp_plan_text(found);
    return *text ? MP_OK : MP_NO_MEMORY(r->err);
}

/* Fails if the plan was made for a graph with another hash. The message names the options that differ. */
static mp_status refuse_hash(const struct reader *r, const mp_json_record *top, const char *hash)
{
    enum { LONGEST = 300 };
    char why[LONGEST] = "";
    size_t used = 0;
    const char *key;
    json_t *here, *graph = mp_json_parse(r->graph->options);
    json_object_foreach(graph, key, here)
    {
        const json_t *there = json_object_get(json_object_get(top->object, "options"), key);
        if (!there || json_equal(there, here)) continue;
        char *a = mp_json_print(there, 0), *b = mp_json_print(here, 0);
        const int n = snprintf(why + used, LONGEST - used, "%s%s %.60s, here %.60s", used ? "; " : ": made with ", key,
                               a ? a : "", b ? b : "");
        mp_free(a);
        mp_free(b);
        if (n < 0 || (size_t)n >= LONGEST - used) {
            why[used] = 0;
            break;
        }
        used += (size_t)n;
    }
    json_decref(graph);
    return MP_FAIL(r->err, MP_INVALID, "the plan is for the graph '%.60s' with hash %.60s, but this is '%.60s' with hash %s%s",
                   r->plan->graph_name, hash, r->graph->name, r->graph->hash, why);
}

static mp_status read_graph(struct reader *r, const mp_json_record *top)
{
    const json_t *object = NULL;
    const char *hash = "";
    mp_json_record row = *top;
    MP_CHECK(mp_json_get_object(top, "graph", &object));
    row.object = object;
    MP_CHECK(read_text(r, &row, "name", &r->plan->graph_name));
    MP_CHECK(mp_json_get_text(&row, "hash", false, &hash));
    if (hash[0] && strcmp(hash, r->graph->hash) != 0) MP_CHECK(refuse_hash(r, top, hash));
    memcpy(r->plan->graph_hash, hash, strlen(hash) + 1);
    return MP_OK;
}

/* Reads the plan's claims about the tiers other than the device. The file lists them by name of the tier. */
static mp_status read_tiers(struct reader *r, const mp_json_record *top)
{
    const mp_graph *graph = r->graph;
    const json_t *array = NULL;
    for (size_t m = 1; m < graph->n_tiers; m++) r->plan->tiers[m] = (mp_tier_claim){MP_NO_LIMIT, -1, -1, -1, 0, NULL};
    MP_CHECK(mp_json_get_array(top, "tiers", false, &array));
    for (size_t i = 0; i < json_array_size(array); i++) {
        mp_json_record row;
        const char *name = NULL;
        size_t m = 1;
        MP_CHECK(mp_json_record_at(array, "tiers", i, &row, r->err));
        MP_CHECK(mp_json_get_text(&row, "name", true, &name));
        while (m < graph->n_tiers && strcmp(graph->tiers[m], name) != 0) m++;
        if (m == graph->n_tiers) return mp_json_record_fail(&row, "the graph has no tier '%.60s' besides the device", name);
        mp_tier_claim *claim = &r->plan->tiers[m];
        MP_CHECK(read_bytes(&row, "budget_bytes", &claim->budget_bytes));
        if (claim->budget_bytes < 0) claim->budget_bytes = MP_NO_LIMIT;
        MP_CHECK(read_bytes(&row, "static_bytes", &claim->static_bytes));
        MP_CHECK(read_bytes(&row, "peak_bytes", &claim->peak_bytes));
        MP_CHECK(read_bytes(&row, "arena_bytes", &claim->arena_bytes));
    }
    return MP_OK;
}

static mp_status read_header(struct reader *r, const mp_json_record *top)
{
    mp_plan *plan = r->plan;
    const json_t *options = NULL;
    int64_t seed = 0;
    MP_CHECK(read_graph(r, top));
    MP_CHECK(mp_json_get_object(top, "options", &options));
    plan->options = options ? mp_json_print(options, 0) : mp_plan_text("{}");
    if (!plan->options) return MP_NO_MEMORY(r->err);
    MP_CHECK(read_text(r, top, "solver", &plan->solver));
    MP_CHECK(mp_json_get_int(top, "seed", false, &seed));
    plan->seed = (uint64_t)seed;
    MP_CHECK(mp_json_get_flag(top, "cut_short", &plan->cut_short));
    MP_CHECK(read_bytes(top, "budget_bytes", &plan->budget_bytes));
    if (plan->budget_bytes < 0) plan->budget_bytes = MP_NO_LIMIT;
    MP_CHECK(read_bytes(top, "static_bytes", &plan->static_bytes));
    MP_CHECK(read_bytes(top, "peak_bytes", &plan->peak_bytes));
    MP_CHECK(read_bytes(top, "arena_bytes", &plan->arena_bytes));
    MP_CHECK(read_bytes(top, "baseline_peak_bytes", &plan->baseline_peak_bytes));
    MP_CHECK(read_bytes(top, "floor_bytes", &plan->floor_bytes));
    MP_CHECK(read_tiers(r, top));
    MP_CHECK(read_seconds(top, "seconds", &plan->seconds));
    MP_CHECK(read_seconds(top, "baseline_seconds", &plan->baseline_seconds));
    MP_CHECK(read_seconds(top, "lower_bound_seconds", &plan->lower_bound_seconds));
    return read_text(r, top, "bound_covers", &plan->bound_covers);
}

mp_names *mp_plan_checkpoint_names(const mp_graph *graph)
{
    mp_names *names = mp_names_new();
    bool ok = names != NULL;
    for (size_t s = graph->n_storages; s-- > 0;)
        for (size_t i = 0; i < graph->storages[s].n_tensors && ok; i++)
            ok = mp_names_set(names, graph->storages[s].tensors[i], (int)s);
    for (size_t s = graph->n_storages; s-- > 0 && ok;) ok = mp_names_set(names, graph->storages[s].name, (int)s);
    if (ok) return names;
    mp_names_free(names);
    return NULL;
}

static mp_status read_checkpoints(struct reader *r, const mp_json_record *top)
{
    const json_t *array = NULL;
    MP_OWNED_BY(mp_names_free) mp_names *names = NULL;
    MP_CHECK(mp_json_get_array(top, "checkpoints", false, &array));
    size_t n = json_array_size(array);
    r->plan->checkpoints = mp_alloc(n, sizeof *r->plan->checkpoints);
    names = mp_plan_checkpoint_names(r->graph);
    if (!r->plan->checkpoints || !names) return MP_NO_MEMORY(r->err);
    for (size_t i = 0; i < n; i++) {
        const char *name;
        MP_CHECK(mp_json_element_text(top, "checkpoints", array, i, &name));
        int s = mp_names_find(names, name);
        MP_ENSURE(s >= 0, r->err, MP_PARSE, "checkpoint \"%.100s\" is no storage or tensor of the graph", name);
        r->plan->checkpoints[r->plan->n_checkpoints++] = s;
    }
    return MP_OK;
}

/* Reads a field with an integer that must fit into an int. If the field is missing, the value is -1. */
static mp_status read_small(const mp_json_record *row, const char *key, bool required, int *value)
{
    int64_t found = -1;
    mp_status st = mp_json_get_int(row, key, required, &found);
    if (st == MP_OK && (found > INT32_MAX || found < INT32_MIN)) return mp_json_record_fail(row, "\"%s\" is too large", key);
    *value = (int)found;
    return st;
}

static mp_status read_node(struct reader *r, const mp_json_record *row, int *node)
{
    int64_t id;
    MP_CHECK(mp_json_get_int(row, "node", true, &id));
    *node = mp_ids_find(&r->nodes, id);
    return *node >= 0 ? MP_OK : mp_json_record_fail(row, "the graph has no node %lld", (long long)id);
}

static mp_status read_frees(struct reader *r, const mp_json_record *row, size_t t, size_t *capacity)
{
    mp_plan *plan = r->plan;
    const json_t *frees = NULL;
    MP_CHECK(mp_json_get_array(row, "frees", false, &frees));
    size_t n = (size_t)plan->frees_start[t], more = json_array_size(frees);
    MP_ENSURE(more < INT32_MAX - n, r->err, MP_PARSE, "the plan frees too much");
    if (!mp_grow(&plan->frees, capacity, n + more, sizeof *plan->frees)) return MP_NO_MEMORY(r->err);
    for (size_t i = 0; i < more; i++) {
        int64_t id;
        MP_CHECK(mp_json_element_int(row, "frees", frees, i, &id));
        int s = mp_ids_find(&r->storages, id);
        if (s < 0) return mp_json_record_fail(row, "the graph has no storage %lld", (long long)id);
        plan->frees[n + i] = s;
    }
    plan->frees_start[t + 1] = (int)(n + more);
    return MP_OK;
}

static mp_status read_steps(struct reader *r, const json_t *steps)
{
    mp_plan *plan = r->plan;
    size_t n = json_array_size(steps), frees_capacity = 0;
    bool claims_frees = false, is_timed = true;
    MP_OWNED bool *ran = NULL;
    mp_json_record row;
    plan->steps = mp_alloc(n, sizeof *plan->steps);
    plan->recompute = mp_alloc(n, sizeof *plan->recompute);
    plan->frees_start = mp_alloc(n + 1, sizeof *plan->frees_start);
    ran = mp_alloc(r->graph->n_nodes, sizeof *ran);
    if (!plan->steps || !plan->recompute || !plan->frees_start || !ran) return MP_NO_MEMORY(r->err);
    for (size_t t = 0; t < n; t++) {
        mp_step *step = &plan->steps[t];
        MP_CHECK(mp_json_record_at(steps, "steps", t, &row, r->err));
        MP_CHECK(read_node(r, &row, &step->node));
        MP_CHECK(read_small(&row, "alternative", false, &step->alternative));
        if (!json_is_integer(json_object_get(row.object, "alternative"))) step->alternative = 0;
        MP_CHECK(read_small(&row, "until", false, &step->until));
        if (!json_is_integer(json_object_get(row.object, "until")))
            step->until = 0;
        else if (step->until <= (int)t)
            MP_CHECK(mp_json_record_fail(&row, "\"until\" is %d, but the waiting step must come after this one", step->until));
        plan->recompute[t] = ran[step->node]; /* if the file does not state whether the step is a recomputation: it is one if
                                                 the node has run before */
        MP_CHECK(mp_json_get_flag(&row, "recompute", &plan->recompute[t]));
        ran[step->node] = true;
        MP_CHECK(read_frees(r, &row, t, &frees_capacity));
        claims_frees = claims_frees || json_object_get(row.object, "frees");
        is_timed &= step->alternative >= 0 && (size_t)step->alternative < r->graph->nodes[step->node].n_alternatives &&
                    step->until <= (int)n;
    }
    plan->n_steps = n;
    if (is_timed)
        MP_CHECK(mp_makespan(r->graph, plan->steps, n, NULL, &plan->ticks,
                             r->err)); /* if the steps are invalid, the plan has no makespan; the checker will refuse it */
    if (!claims_frees) {
        mp_free(plan->frees_start);
        mp_free(plan->frees);
        plan->frees_start = plan->frees = NULL;
    }
    return MP_OK;
}

static mp_status read_place(struct reader *r, const mp_json_record *row, mp_place *place)
{
    const mp_plan *plan = r->plan;
    int64_t id;
    int node, last = 0;
    MP_CHECK(read_small(row, "first_step", true, &place->begin));
    MP_CHECK(read_small(row, "last_step", true, &last));
    if (last == INT32_MAX) return mp_json_record_fail(row, "\"last_step\" is too large");
    place->end = last + 1;
    MP_CHECK(mp_json_get_int(row, "offset", true, &place->offset));
    MP_CHECK(mp_json_get_int(row, "bytes", true, &place->bytes));
    place->storage = -1;
    if (json_object_get(row->object, "storage")) {
        MP_CHECK(mp_json_get_int(row, "storage", true, &id));
        place->storage = mp_ids_find(&r->storages, id);
        return place->storage < 0 ? mp_json_record_fail(row, "the graph has no storage %lld", (long long)id) : MP_OK;
    }
    MP_CHECK(read_node(r, row, &node));
    if (place->begin < 0 || (size_t)place->begin >= plan->n_steps || plan->steps[place->begin].node != node)
        return mp_json_record_fail(row, "%s does not run in step %d", mp_node_label(r->graph, node).text, place->begin);
    return MP_OK;
}

static mp_status read_offsets(struct reader *r, const mp_json_record *top)
{
    mp_plan *plan = r->plan;
    const json_t *offsets = NULL;
    mp_json_record row;
    MP_CHECK(mp_json_get_array(top, "offsets", false, &offsets));
    const size_t n = json_array_size(offsets);
    if (!n) return MP_OK;
    plan->places = mp_alloc(n, sizeof *plan->places);
    if (!plan->places) return MP_NO_MEMORY(r->err);
    for (; plan->n_places < n; plan->n_places++) {
        MP_CHECK(mp_json_record_at(offsets, "offsets", plan->n_places, &row, r->err));
        MP_CHECK(read_place(r, &row, &plan->places[plan->n_places]));
    }
    return MP_OK;
}

/* Reads the offsets in tiers other than the device. The tier of an offset is the tier of its storage. */
static mp_status read_tier_offsets(struct reader *r, const mp_json_record *top)
{
    const json_t *offsets = NULL;
    size_t capacity[MP_MAX_TIERS] = {0};
    mp_json_record row;
    mp_place place;
    MP_CHECK(mp_json_get_array(top, "tier_offsets", false, &offsets));
    for (size_t i = 0; i < json_array_size(offsets); i++) {
        MP_CHECK(mp_json_record_at(offsets, "tier_offsets", i, &row, r->err));
        MP_CHECK(read_place(r, &row, &place));
        const int tier = place.storage < 0 ? MP_TIER_DEVICE : r->graph->storages[place.storage].tier;
        if (tier == MP_TIER_DEVICE) return mp_json_record_fail(&row, "it is of the device, whose offsets are in \"offsets\"");
        mp_tier_claim *claim = &r->plan->tiers[tier];
        if (!mp_grow(&claim->places, &capacity[tier], claim->n_places + 1, sizeof place)) return MP_NO_MEMORY(r->err);
        claim->places[claim->n_places++] = place;
    }
    return MP_OK;
}

static void reader_free(struct reader *r)
{
    mp_plan_free(r->plan);
    mp_ids_free(&r->nodes);
    mp_ids_free(&r->storages);
}

static mp_status read_plan(const json_t *json, const mp_graph *graph, mp_plan **out, mp_error *err)
{
    MP_CLEARED_BY(reader_free) struct reader r = {.graph = graph, .err = err};
    const json_t *steps = NULL;
    const mp_json_record top = {.object = json, .err = err};
    r.plan = mp_alloc(1, sizeof *r.plan);
    if (!r.plan) return MP_NO_MEMORY(r.err);
    MP_CHECK(mp_ids_of_nodes(graph, &r.nodes, err));
    MP_CHECK(mp_ids_of_storages(graph, &r.storages, err));
    MP_CHECK(read_header(&r, &top));
    MP_CHECK(read_checkpoints(&r, &top));
    MP_CHECK(mp_json_get_array(&top, "steps", true, &steps));
    MP_CHECK(read_steps(&r, steps));
    MP_CHECK(read_offsets(&r, &top));
    MP_CHECK(read_tier_offsets(&r, &top));
    MP_CHECK(mp_keep_all_ticks(graph, &r.plan->baseline_ticks, err));
    *out = r.plan;
    r.plan = NULL;
    return MP_OK;
}

mp_status mp_plan_read(const char *path, const mp_graph *graph, mp_plan **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(json_decref) json_t *json = NULL;
    MP_CHECK(mp_json_read(path, "memplan-plan", &json, err));
    return read_plan(json, graph, out, err);
}

mp_status mp_plan_read_text(const char *text, const char *name, const mp_graph *graph, mp_plan **out, mp_error *err)
{
    MP_ABOUT(err, name);
    MP_OWNED_BY(json_decref) json_t *json = NULL;
    MP_CHECK(mp_json_read_text(text, strlen(text), name, "memplan-plan", &json, err));
    return read_plan(json, graph, out, err);
}
