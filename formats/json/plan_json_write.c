/* plan_json_write.c - writes plans as JSON: a header, then the steps and the offsets row by row. */
#include <string.h>

#include "estimator/base/memory.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"
#include "planner/segments/module_schedule.h"

static json_t *name_json(const char *name)
{
    return name && name[0] ? mp_json_text(name) : json_null();
}

const char *mp_plan_checkpoint_name(const mp_storage *storage)
{
    if (storage->name[0]) return storage->name;
    return storage->n_tensors ? storage->tensors[0] : "";
}

static json_t *checkpoints_json(const mp_plan *plan, const mp_graph *graph)
{
    json_t *array = json_array();
    for (size_t i = 0; i < plan->n_checkpoints; i++) {
        const char *name = mp_plan_checkpoint_name(&graph->storages[plan->checkpoints[i]]);
        if (name[0]) mp_json_append(&array, mp_json_text(name));
    }
    return array;
}

/* Returns the names of the modules that the plan keeps as checkpoints; an empty list if the plan does not consist of
 * checkpointed modules. */
static json_t *modules_json(const mp_plan *plan, const mp_graph *graph)
{
    json_t *array = json_array();
    mp_modules *modules = NULL;
    bool is_one = false, *chosen = NULL;
    if (mp_modules_new(graph, &modules, NULL) != MP_OK || !(chosen = mp_alloc((size_t)modules->n, sizeof *chosen)) ||
        mp_module_schedule_read(modules, plan->steps, plan->n_steps, chosen, &is_one, NULL) == MP_NOMEM) {
        json_decref(array);
        array = NULL;
    }
    for (int m = 0; array && is_one && m < modules->n; m++)
        if (chosen[m]) mp_json_append(&array, mp_json_text(modules->modules[m].name));
    mp_free(chosen);
    mp_modules_free(modules);
    return array;
}

static json_t *tiers_json(const mp_plan *plan, const mp_graph *graph)
{
    json_t *array = json_array();
    for (size_t m = 1; m < graph->n_tiers; m++) {
        const mp_tier_claim *claim = &plan->tiers[m];
        json_t *row = json_pack("{s:o}", "name", mp_json_text(graph->tiers[m]));
        mp_json_set(&row, "budget_bytes", mp_json_integer_if(claim->budget_bytes < MP_NO_LIMIT, claim->budget_bytes));
        mp_json_set(&row, "static_bytes", mp_json_integer_if(claim->static_bytes >= 0, claim->static_bytes));
        mp_json_set(&row, "peak_bytes", mp_json_integer_if(claim->peak_bytes >= 0, claim->peak_bytes));
        mp_json_set(&row, "arena_bytes", mp_json_integer_if(claim->arena_bytes >= 0, claim->arena_bytes));
        mp_json_append(&array, row);
    }
    return array;
}

json_t *mp_plan_header_json(const mp_plan *plan, const mp_graph *graph)
{
    const struct {
        const char *key;
        int64_t bytes;
    } bytes[] = {{"budget_bytes", plan->budget_bytes < MP_NO_LIMIT ? plan->budget_bytes : -1},
                 {"static_bytes", plan->static_bytes},
                 {"peak_bytes", plan->peak_bytes},
                 {"arena_bytes", plan->arena_bytes},
                 {"baseline_peak_bytes", plan->baseline_peak_bytes},
                 {"floor_bytes", plan->floor_bytes}};
    const struct {
        const char *key;
        double seconds;
    } times[] = {{"seconds", plan->seconds},
                 {"baseline_seconds", plan->baseline_seconds},
                 {"lower_bound_seconds", plan->lower_bound_seconds}};
    json_t *header = json_pack("{s:s, s:i, s:{s:o, s:s}, s:o, s:o, s:I}", "format", "memplan-plan", "version", 1, "graph",
                               "name", mp_json_text(plan->graph_name ? plan->graph_name : ""), "hash", plan->graph_hash,
                               "options", mp_json_parse(plan->options ? plan->options : "{}"), "solver",
                               name_json(plan->solver), "seed", (json_int_t)plan->seed);
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
        mp_json_set(&header, bytes[k].key, mp_json_integer_if(bytes[k].bytes >= 0, bytes[k].bytes));
    for (size_t k = 0; k < sizeof times / sizeof *times; k++)
        mp_json_set(&header, times[k].key, mp_json_real_if(times[k].seconds >= 0, times[k].seconds));
    if (plan->cut_short) mp_json_set(&header, "cut_short", json_true());
    if (graph->n_tiers > 1) mp_json_set(&header, "tiers", tiers_json(plan, graph));
    mp_json_set(&header, "bound_covers", name_json(plan->bound_covers));
    mp_json_set(&header, "checkpoints", checkpoints_json(plan, graph));
    if (plan->solver && !strcmp(plan->solver, "modules")) mp_json_set(&header, "modules", modules_json(plan, graph));
    return header;
}

static json_t *frees_json(const mp_plan *plan, const mp_graph *graph, size_t t)
{
    json_t *frees = json_array();
    for (int i = plan->frees_start[t]; i < plan->frees_start[t + 1]; i++)
        mp_json_append(&frees, json_integer(graph->storages[plan->frees[i]].id));
    return frees;
}

static json_t *step_json(const mp_plan *plan, const mp_graph *graph, size_t t)
{
    const mp_step *step = &plan->steps[t];
    json_t *row = json_pack("{s:I}", "node", (json_int_t)graph->nodes[step->node].id);
    if (graph->nodes[step->node].name[0]) mp_json_set(&row, "name", mp_json_text(graph->nodes[step->node].name));
    if (plan->recompute) mp_json_set(&row, "recompute", json_boolean(plan->recompute[t]));
    if (step->alternative) mp_json_set(&row, "alternative", json_integer(step->alternative));
    if (step->until) mp_json_set(&row, "until", json_integer(step->until));
    if (plan->frees_start) mp_json_set(&row, "frees", frees_json(plan, graph, t));
    return row;
}

static json_t *place_json(const mp_plan *plan, const mp_graph *graph, const mp_place *place)
{
    const bool is_storage = place->storage >= 0;
    const int64_t id = is_storage ? graph->storages[place->storage].id : graph->nodes[plan->steps[place->begin].node].id;
    return json_pack("{s:I, s:I, s:I, s:i, s:i}", is_storage ? "storage" : "node", (json_int_t)id, "offset",
                     (json_int_t)place->offset, "bytes", (json_int_t)place->bytes, "first_step", place->begin, "last_step",
                     place->end - 1);
}

static mp_json_out write_plan(const mp_plan *plan, const mp_graph *graph)
{
    mp_json_out out;
    mp_json_start(&out, mp_plan_header_json(plan, graph));
    mp_json_begin_array(&out, "steps");
    for (size_t t = 0; t < plan->n_steps; t++) mp_json_row(&out, step_json(plan, graph, t));
    mp_json_end_array(&out);
    if (plan->n_places) {
        mp_json_begin_array(&out, "offsets");
        for (size_t i = 0; i < plan->n_places; i++) mp_json_row(&out, place_json(plan, graph, &plan->places[i]));
        mp_json_end_array(&out);
    }
    size_t n_beside = 0;
    for (size_t m = 1; m < graph->n_tiers; m++)
        for (size_t i = 0; i < plan->tiers[m].n_places; i++) {
            if (!n_beside++) mp_json_begin_array(&out, "tier_offsets");
            mp_json_row(&out, place_json(plan, graph, &plan->tiers[m].places[i]));
        }
    if (n_beside) mp_json_end_array(&out);
    return out;
}

mp_status mp_plan_write(const mp_plan *plan, const mp_graph *graph, const char *path, mp_error *err)
{
    mp_json_out out = write_plan(plan, graph);
    return mp_json_finish(&out, path, err);
}

mp_status mp_plan_write_text(const mp_plan *plan, const mp_graph *graph, char **text, mp_error *err)
{
    mp_json_out out = write_plan(plan, graph);
    return mp_json_finish_text(&out, text, err);
}
