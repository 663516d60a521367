/* arena.c - computes the offsets of one plan, on the device and in other tiers, and proves lower bounds on the size of an
 * arena. */
#include "memplan/arena.h"

#include "planner/arena/arena.h"

/* An arena to be laid out: the tier in which it is, and the alignment of offsets. */
typedef struct target {
    const mp_graph *graph;
    int tier;
    int64_t alignment;
} target;

/* Assigns offsets to the items of the plan's steps. If `layout` is NULL, only computes a lower bound on the arena. */
static mp_status lay_out(target of, const mp_plan *plan, const mp_pack_options *exact, const mp_arena_options *options,
                         mp_tier_layout *layout, mp_pack_result *result, mp_error *err)
{
    MP_CLEARED_BY(mp_arena_items_clear) mp_arena_items items = {0};
    mp_arena_problem x = {.exact = exact, .only_bound = !layout};
    if (options) {
        x.wanted = options->capacity_bytes / of.alignment;
        x.first_fit = options->first_fit;
        x.stop = options->stop;
        x.data = options->data;
    }
    MP_CHECK(mp_arena_items_of(of.graph, plan, of.tier, of.alignment, &items, &x, err));
    MP_CHECK(mp_arena_search(&x, err));
    if (layout) MP_CHECK(mp_arena_items_place(&items, plan, x.items, layout, err));
    *result = (mp_pack_result){x.bound >= x.height ? MP_PACK_PLACED : MP_PACK_LIMIT, x.height * of.alignment,
                               x.bound * of.alignment, x.nodes};
    return MP_OK;
}

static target device(const mp_graph *graph)
{
    return (target){.graph = graph, .tier = MP_TIER_DEVICE, .alignment = graph->alignment};
}

/* Assigns offsets in the device's arena to the items of a plan. Replaces earlier offsets. */
static mp_status lay_out_device(const mp_graph *graph, mp_plan *plan, const mp_pack_options *exact,
                                const mp_arena_options *options, mp_pack_result *result, mp_error *err)
{
    mp_tier_layout layout;
    MP_CHECK(lay_out(device(graph), plan, exact, options, &layout, result, err));
    mp_free(plan->places);
    plan->places = layout.places;
    plan->n_places = layout.n_places;
    plan->arena_bytes = layout.arena_bytes;
    return MP_OK;
}

/* Assigns offsets in a tier other than the device to the items of a plan. All offsets and sizes are multiples of `alignment`.
 * The plan does not change. */
static mp_status lay_out_tier(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment,
                              const mp_arena_options *options, mp_tier_layout *out, mp_error *err)
{
    mp_pack_result result;
    mp_tier_layout found;
    const target of = {.graph = graph, .tier = tier, .alignment = alignment};
    MP_CHECK(lay_out(of, plan, NULL, options, &found, &result, err));
    *out = (mp_tier_layout){found.places, found.n_places, result.height};
    return MP_OK;
}

mp_status mp_arena_layout(const mp_graph *graph, mp_plan *plan, mp_error *err)
{
    return mp_arena_layout_within(graph, plan, &(mp_arena_options){0}, err);
}

mp_status mp_arena_layout_within(const mp_graph *graph, mp_plan *plan, const mp_arena_options *options, mp_error *err)
{
    mp_pack_result result;
    MP_CHECK(lay_out_device(graph, plan, NULL, options, &result, err));
    for (int m = 1; m < (int)graph->n_tiers; m++) {
        mp_tier_claim *claim = &plan->tiers[m];
        mp_tier_layout layout;
        mp_arena_options there = *options;
        const int64_t most = options->tier_bytes ? options->tier_bytes[m] - mp_graph_static_bytes_in(graph, m) : 0;
        there.capacity_bytes = most > 0 ? most : 0;
        MP_CHECK(lay_out_tier(graph, plan, m, mp_graph_tier_alignment(graph, m), &there, &layout, err));
        mp_free(claim->places);
        claim->places = layout.places;
        claim->n_places = layout.n_places;
        claim->arena_bytes = layout.arena_bytes;
    }
    return MP_OK;
}

mp_status mp_arena_bound(const mp_graph *graph, const mp_plan *plan, int64_t *bytes, mp_error *err)
{
    mp_pack_result result;
    MP_CHECK(lay_out(device(graph), plan, NULL, NULL, NULL, &result, err));
    *bytes = result.bound;
    return MP_OK;
}

mp_status mp_arena_pack(const mp_graph *graph, mp_plan *plan, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err)
{
    mp_pack_options in_units = {0};
    if (options) in_units = *options;
    if (in_units.enough > 0) in_units.enough /= graph->alignment;
    MP_CHECK(lay_out_device(graph, plan, options ? &in_units : NULL, NULL, result, err));
    if (options && options->enough > 0 && result->height > options->enough && result->bound > options->enough)
        result->verdict = MP_PACK_INFEASIBLE;
    return MP_OK;
}

mp_status mp_arena_repack(const mp_graph *graph, mp_plan *plan, const mp_pack_options *options, mp_pack_result *result,
                          mp_error *err)
{
    const int64_t before = plan->arena_bytes;
    const size_t n_places = plan->n_places;
    mp_place *places = plan->places;
    plan->places = NULL;
    const mp_status st = mp_arena_pack(graph, plan, options, result, err);
    const bool is_higher = st == MP_OK && before >= 0 && plan->arena_bytes > before;
    if (st != MP_OK || is_higher) {
        mp_place *higher = plan->places;
        plan->places = places;
        plan->n_places = n_places;
        plan->arena_bytes = before;
        places = higher;
    }
    if (is_higher) {
        result->height = before;
        if (result->bound > before) result->bound = plan->peak_bytes - plan->static_bytes;
    }
    mp_free(places);
    return st;
}

mp_status mp_arena_layout_tier(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_tier_layout *out,
                               mp_error *err)
{
    MP_ENSURE(mp_round_up(alignment, graph->alignment, &alignment), err, MP_INVALID,
              "the alignment is %lld bytes, but it must be 1 or more", (long long)alignment);
    return lay_out_tier(graph, plan, tier, alignment, NULL, out, err);
}

mp_status mp_keep_all_plan(const mp_graph *graph, const int *alternatives, mp_plan **out, mp_error *err)
{
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_ENSURE(steps, err, MP_NOMEM, "%zu steps", graph->n_nodes);
    const size_t n = mp_keep_all(graph, steps);
    for (size_t t = 0; alternatives && t < n; t++) steps[t].alternative = alternatives[steps[t].node];
    MP_CHECK(mp_plan_new(graph, "none", steps, n, &plan, err));
    MP_CHECK(mp_arena_layout(graph, plan, err));
    *out = plan;
    plan = NULL;
    return MP_OK;
}
