/* check_places.c - matches the places of a plan (items with offsets) with the instances and workspaces that need them. Then
 * checks for overlaps in a sweep over the steps. */
#include "planner/plan/check.h"

#include <stdlib.h>
#include <string.h>

/* Returns a name for a place (the memory of an instance or workspace), for messages. */
static mp_label place_label(const mp_graph *graph, const mp_plan *plan, const mp_place *place)
{
    if (place->storage >= 0) return mp_storage_label(graph, place->storage);
    return mp_node_label(graph, plan->steps[place->begin].node);
}

/* A place, or an instance or workspace that needs a place. The fields (storage, begin, index) are the key by which the two are
 * matched */
struct life {
    int storage;
    int begin, end, index;
};

static int compare_keys(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->storage != y->storage) return x->storage < y->storage ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_times(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_ends(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Lists all instances and workspaces that need a place in a tier, sorted by compare_keys. `index` is the index of the instance
 * in the replay. Release with mp_free. */
static mp_status list_needs(const mp_graph *graph, int tier, const mp_replay *replay, struct life **out, size_t *n_out,
                            mp_error *err)
{
    struct life *needs = mp_alloc(replay->n_steps + replay->n_instances, sizeof *needs);
    if (!needs) return MP_FAIL(err, MP_NOMEM, "no memory to check %zu instances", replay->n_instances);
    size_t n = 0;
    for (size_t t = 0; t < replay->n_steps; t++)
        if (tier == MP_TIER_DEVICE && replay->alternatives[t]->workspace_bytes)
            needs[n++] = (struct life){-1, (int)t, replay->ends[t], -1};
    for (size_t k = 0; k < replay->n_instances; k++) {
        const mp_instance *x = &replay->instances[k];
        if (graph->storages[x->storage].tier != tier) continue;
        /* a carried gradient that is produced again in step 0 has two instances that begin in this step; only the new instance
         * needs a place */
        if (n && needs[n - 1].storage == x->storage && needs[n - 1].begin == x->begin) n--;
        needs[n++] = (struct life){x->storage, x->begin, x->end, (int)k};
    }
    *out = needs;
    *n_out = n;
    return MP_OK;
}

/* Matches places with the instances and workspaces that need them. Both lists are sorted by key. Sets `end` of every place to
 * the end of its lifetime, and `index` of every entry of `needs` to its place. Offsets must be multiples of `alignment`. */
static mp_status match(const mp_graph *graph, int64_t alignment, const mp_plan *plan, const mp_replay *replay,
                       struct life *needs, size_t n_needs, struct life *places, size_t n_places, mp_error *err)
{
    size_t i = 0;
    for (size_t j = 0; j < n_places || i < n_needs;) {
        const mp_place *place = j < n_places ? &plan->places[places[j].index] : NULL;
        struct life key = i < n_needs ? needs[i] : (struct life){0};
        key.index = place ? places[j].index : 0;
        int order = !place ? -1 : i == n_needs ? 1 : compare_keys(&key, &places[j]);
        const bool is_shifted =
            place && i < n_needs && place->storage >= 0 && place->storage == needs[i].storage && place->end == needs[i].end;
        if (order < 0 && !is_shifted) { /* needs[i], an instance or workspace, has no place in the plan; that is an error if its
                                           size is not 0 */
            int64_t bytes = needs[i].storage < 0 ? replay->alternatives[needs[i].begin]->workspace_bytes
                                                 : graph->storages[needs[i].storage].bytes;
            mp_place lacking = {.storage = needs[i].storage, .begin = needs[i].begin};
            MP_ENSURE(!bytes, err, MP_REFUTED, "%s of step %d has no offset", place_label(graph, plan, &lacking).text,
                      needs[i].begin);
            i++;
            continue;
        }
        MP_ENSURE(order == 0 || !is_shifted, err, MP_REFUTED,
                  "the offset of %s claims that it begins in step %d; it begins in step %d",
                  place_label(graph, plan, place).text, place->begin, needs[i].begin);
        MP_ENSURE(order == 0, err, MP_REFUTED, "the offset of %s from step %d belongs to no instance, or is listed twice",
                  place_label(graph, plan, place).text, place->begin);
        int64_t bytes =
            place->storage < 0 ? replay->alternatives[place->begin]->workspace_bytes : graph->storages[place->storage].bytes;
        MP_ENSURE(place->end == needs[i].end, err, MP_REFUTED,
                  "the offset of %s from step %d claims that it ends in step %d; it ends in step %d",
                  place_label(graph, plan, place).text, place->begin, place->end - 1, needs[i].end - 1);
        MP_ENSURE(place->bytes == bytes, err, MP_REFUTED, "the offset of %s from step %d claims %lld bytes; it has %lld",
                  place_label(graph, plan, place).text, place->begin, (long long)place->bytes, (long long)bytes);
        MP_ENSURE(place->offset >= 0 && place->offset % alignment == 0, err, MP_REFUTED,
                  "the offset %lld of %s from step %d is not a multiple of %lld", (long long)place->offset,
                  place_label(graph, plan, place).text, place->begin, (long long)alignment);
        MP_ENSURE(place->offset <= INT64_MAX - bytes, err, MP_REFUTED, "the offset %lld of %s from step %d is too large",
                  (long long)place->offset, place_label(graph, plan, place).text, place->begin);
        places[j].end = needs[i].end;
        i++;
        j++;
    }
    return MP_OK;
}

/* True if the places may overlap, because the output at `later` takes over the memory of `earlier` in the last step of
 * `earlier`. */
static bool shares(const mp_replay *replay, const mp_place *earlier, const mp_place *later)
{
    if (earlier->storage < 0 || later->storage < 0) return false;
    if (earlier->end != later->begin + 1 || earlier->offset != later->offset) return false;
    for (int k = replay->start[later->storage]; k < replay->start[later->storage + 1]; k++)
        if (replay->instances[k].begin == later->begin && replay->instances[k].takes_over == earlier->storage) return true;
    return false;
}

/* The places that are live at a step, sorted by offset. Two of them overlap only if one storage takes over the memory of the
 * other, at the same offset. */
typedef struct taken {
    const mp_plan *plan;
    int *list;
    size_t n;
} taken;

static const mp_place *taken_at(const taken *x, size_t i)
{
    return &x->plan->places[x->list[i]];
}

/* Returns the number of live places that are sorted before (offset, place). Places are sorted by offset, and at equal offsets
 * by index. */
static size_t count_below(const taken *x, int64_t offset, int place)
{
    size_t low = 0, high = x->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int64_t there = taken_at(x, middle)->offset;
        if (there < offset || (there == offset && x->list[middle] < place))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void leave(taken *x, int place)
{
    const size_t i = count_below(x, x->plan->places[place].offset, place);
    x->n--;
    memmove(x->list + i, x->list + i + 1, (x->n - i) * sizeof *x->list);
}

/* Returns the first live place that overlaps place p, unless one of the two takes over the memory of the other; NULL: none. */
static const mp_place *find_overlap(const taken *x, const mp_replay *replay, const mp_place *p)
{
    size_t i = count_below(x, p->offset, -1);
    for (const int64_t nearest = i ? taken_at(x, i - 1)->offset : 0; i && taken_at(x, i - 1)->offset == nearest;) i--;
    for (; i < x->n && taken_at(x, i)->offset < p->offset + p->bytes; i++) {
        const mp_place *q = taken_at(x, i);
        if (p->offset < q->offset + q->bytes && !shares(replay, q, p)) return q;
    }
    return NULL;
}

/* Checks that places do not overlap. `starting` and `ending` are the places sorted by begin and by end. */
static mp_status check_overlaps(const mp_graph *graph, const mp_plan *plan, const mp_replay *replay,
                                const struct life *starting, const struct life *ending, size_t n, mp_error *err)
{
    MP_OWNED int *list = mp_alloc(n, sizeof *list);
    taken x = {.plan = plan, .list = list};
    MP_ENSURE(list, err, MP_NOMEM, "no memory to check %zu offsets", n);
    for (size_t j = 0, ended = 0; j < n; j++) {
        const int place = starting[j].index;
        const mp_place *p = &plan->places[place];
        for (; ending[ended].end <= p->begin; ended++) leave(&x, ending[ended].index);
        const mp_place *q = find_overlap(&x, replay, p);
        MP_ENSURE(!q, err, MP_REFUTED, "%s and %s overlap in step %d", place_label(graph, plan, q).text,
                  place_label(graph, plan, p).text, p->begin);
        const size_t i = count_below(&x, p->offset, place);
        memmove(x.list + i + 1, x.list + i, (x.n - i) * sizeof *x.list);
        x.list[i] = place;
        x.n++;
    }
    return MP_OK;
}

mp_status mp_check_places(const mp_graph *graph, const mp_plan *whole, int tier, const mp_replay *replay, int64_t *arena_bytes,
                          mp_error *err)
{
    mp_plan there = *whole; /* a copy of the plan in which the tier's places replace those of the device */
    const mp_plan *plan = &there;
    const int64_t alignment = tier && graph->tier_alignment[tier] ? graph->tier_alignment[tier] : graph->alignment;
    if (tier) there.places = whole->tiers[tier].places;
    if (tier) there.n_places = whole->tiers[tier].n_places;
    MP_OWNED struct life *needs = NULL, *places = NULL, *ending = NULL;
    size_t n_needs = 0, n = plan->n_places;
    int64_t highest = 0;
    MP_ENSURE(n < INT32_MAX, err, MP_REFUTED, "%zu offsets are too many", n);
    MP_ENSURE(places = mp_alloc(n, sizeof *places), err, MP_NOMEM, "no memory to check %zu offsets", n);
    MP_ENSURE(ending = mp_alloc(n, sizeof *ending), err, MP_NOMEM, "no memory to check %zu offsets", n);
    for (size_t j = 0; j < n; j++) {
        const mp_place *p = &plan->places[j];
        MP_ENSURE(p->begin >= 0 && (size_t)p->begin < replay->n_steps, err, MP_REFUTED,
                  "offset %zu begins in step %d, which does not exist", j, p->begin);
        MP_ENSURE(p->storage >= -1 && p->storage < (int)graph->n_storages, err, MP_REFUTED,
                  "offset %zu belongs to storage number %d, which does not exist", j, p->storage);
        places[j] = (struct life){p->storage, p->begin, p->end, (int)j};
    }
    MP_CHECK(list_needs(graph, tier, replay, &needs, &n_needs, err));
    qsort(places, n, sizeof *places, compare_keys);
    MP_CHECK(match(graph, alignment, plan, replay, needs, n_needs, places, n, err));
    qsort(places, n, sizeof *places, compare_times);
    for (size_t j = 0; j < n; j++) ending[j] = places[j];
    qsort(ending, n, sizeof *ending, compare_ends);
    MP_CHECK(check_overlaps(graph, plan, replay, places, ending, n, err));
    for (size_t j = 0; j < n; j++)
        if (plan->places[j].offset + plan->places[j].bytes > highest) highest = plan->places[j].offset + plan->places[j].bytes;
    *arena_bytes = highest;
    return MP_OK;
}
