#include "planner/arena.h"

#include <stdlib.h>
#include <string.h>

#include "planner/arena_fit.h"

/* The item that each span belongs to; *n_items counts them. */
static mp_status group_spans(const mp_graph *graph, const mp_timeline *tl, int *item, size_t *n_items, mp_error *err)
{
    mp_status st = MP_OK;
    int *newest = mp_alloc(graph->n_storages, sizeof *newest);
    size_t n = 0;
    MP_REQUIRE(newest, err, MP_NOMEM, "no memory for the arena of %zu instances", tl->n_spans);
    for (size_t s = 0; s < graph->n_storages; s++) newest[s] = -1;
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *span = &tl->spans[k];
        bool stays = graph->storages[span->storage].carried && newest[span->storage] >= 0;
        int from = stays ? newest[span->storage] : span->takes_room_of >= 0 ? newest[span->takes_room_of] : -1;
        item[k] = from >= 0 ? item[from] : (int)n++;
        newest[span->storage] = (int)k;
    }
    *n_items = n;
done:
    mp_free(newest);
    return st;
}

/* Enters the life of a span into its item. A carried gradient has two lives apart; all others follow each other without a gap.
 */
static void extend(mp_item *item, const mp_span *span, int64_t bytes)
{
    if (bytes > item->bytes) item->bytes = bytes;
    if (item->first < 0) {
        item->first = span->first;
        item->last = span->last;
    } else if (span->first <= item->last && span->first >= item->first) {
        if (span->last > item->last) item->last = span->last;
    } else if (item->again < 0) {
        item->again = span->first;
        item->end = span->last;
    } else if (span->last > item->end) {
        item->end = span->last;
    }
}

static mp_status write_places(const mp_graph *graph, mp_plan *plan, const mp_timeline *tl, const int *item,
                              const mp_item *items, size_t n_items, mp_error *err)
{
    mp_status st = MP_OK;
    size_t n = 0, next = n_items;
    mp_place *places = mp_alloc(tl->n_spans + tl->n_steps, sizeof *places);
    MP_REQUIRE(places, err, MP_NOMEM, "no memory for %zu offsets", tl->n_spans);
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *s = &tl->spans[k];
        int64_t bytes = graph->storages[s->storage].bytes;
        if (bytes) places[n++] = (mp_place){s->storage, s->first, s->last, items[item[k]].offset, bytes};
    }
    plan->arena_bytes = 0;
    for (size_t t = 0; t < tl->n_steps; t++) {
        const mp_step *step = &plan->steps[t];
        int64_t bytes = graph->nodes[step->node].forms[step->form].workspace_bytes;
        if (bytes) places[n++] = (mp_place){-1, (int)t, (int)t, items[next++].offset, bytes};
    }
    for (size_t k = 0; k < n; k++)
        if (places[k].offset + places[k].bytes > plan->arena_bytes) plan->arena_bytes = places[k].offset + places[k].bytes;
    mp_free(plan->places);
    plan->places = places;
    plan->n_places = n;
done:
    return st;
}

mp_status mp_arena_layout(const mp_graph *graph, mp_plan *plan, mp_error *err)
{
    mp_status st = MP_OK;
    mp_timeline *tl = NULL;
    int *item = NULL;
    mp_item *items = NULL;
    size_t n = 0, n_items = 0;
    MP_TRY(mp_timeline_build(graph, plan->steps, plan->n_steps, &tl, err));
    item = mp_alloc(tl->n_spans, sizeof *item);
    items = mp_alloc(tl->n_spans + tl->n_steps, sizeof *items);
    MP_REQUIRE(item && items, err, MP_NOMEM, "no memory for the arena of %zu instances", tl->n_spans);
    MP_TRY(group_spans(graph, tl, item, &n_items, err));
    for (size_t k = 0; k < tl->n_spans + tl->n_steps; k++) items[k] = (mp_item){.first = -1, .again = -1, .end = -1};
    for (size_t k = 0; k < tl->n_spans; k++)
        extend(&items[item[k]], &tl->spans[k], graph->storages[tl->spans[k].storage].bytes);
    n = n_items;
    for (size_t t = 0; t < tl->n_steps; t++) {
        const mp_step *step = &plan->steps[t];
        int64_t bytes = graph->nodes[step->node].forms[step->form].workspace_bytes;
        if (bytes) items[n++] = (mp_item){.bytes = bytes, .first = (int)t, .last = (int)t, .again = -1, .end = -1};
    }
    MP_TRY(mp_fit_items(items, n, tl->n_steps, graph->alignment, err));
    MP_TRY(write_places(graph, plan, tl, item, items, n_items, err));
done:
    mp_timeline_free(tl);
    mp_free(item);
    mp_free(items);
    return st;
}
