/* pack_check.c - a sweep over time: what is live is added up, or compared pair by pair. */
#include "memplan/pack_check.h"

#include <stdlib.h>

#include "estimator/base/memory.h"

typedef struct event {
    int64_t time, size; /* size < 0: a piece ends */
    int item, piece;
} event;

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if ((x->size < 0) != (y->size < 0)) return x->size < 0 ? -1 : 1;
    return x->piece - y->piece;
}

static mp_status make_events(const mp_pack_problem *problem, event **out, size_t *n, mp_error *err)
{
    mp_status st = MP_OK;
    event *events = mp_alloc(2 * problem->n_pieces, sizeof *events);
    *n = 0;
    MP_REQUIRE(events, err, MP_NOMEM, "no memory for the offsets of %zu items", problem->n_items);
    for (size_t k = 0; k < problem->n_items; k++)
        for (int p = problem->items[k].piece; p < problem->items[k].piece + problem->items[k].n_pieces; p++) {
            const mp_pack_piece *piece = &problem->pieces[p];
            events[(*n)++] = (event){piece->begin, piece->size, (int)k, p};
            events[(*n)++] = (event){piece->end, -piece->size, (int)k, p};
        }
    qsort(events, *n, sizeof *events, by_time);
    *out = events;
done:
    return st;
}

mp_status mp_pack_bound(const mp_pack_problem *problem, int64_t *bytes, mp_error *err)
{
    mp_status st = MP_OK;
    event *events = NULL;
    size_t n;
    int64_t live = 0, most = 0;
    MP_TRY(make_events(problem, &events, &n, err));
    for (size_t k = 0; k < n; k++) {
        if (events[k].size < 0)
            live += events[k].size;
        else
            MP_REQUIRE(mp_add(live, events[k].size, &live), err, MP_INVALID, "the sizes are more than can be counted");
        if (live > most) most = live;
    }
    *bytes = most;
done:
    mp_free(events);
    return st;
}

static mp_status check_alone(const mp_pack_problem *problem, size_t k, int64_t capacity, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pack_item *item = &problem->items[k];
    MP_REQUIRE(item->offset >= 0 && item->offset % item->alignment == 0, err, MP_REFUTED,
               "item %zu lies at %lld, which is no multiple of %lld", k, (long long)item->offset, (long long)item->alignment);
    MP_REQUIRE(item->fixed < 0 || item->offset == item->fixed, err, MP_REFUTED, "item %zu lies at %lld instead of %lld", k,
               (long long)item->offset, (long long)item->fixed);
    for (int p = item->piece; p < item->piece + item->n_pieces; p++)
        MP_REQUIRE(problem->pieces[p].size <= capacity && item->offset <= capacity - problem->pieces[p].size, err, MP_REFUTED,
                   "item %zu at %lld ends above %lld", k, (long long)item->offset, (long long)capacity);
done:
    return st;
}

/* Every item is compared with all that are live when it begins. */
mp_status mp_pack_check(const mp_pack_problem *problem, int64_t capacity, mp_error *err)
{
    mp_status st = MP_OK;
    event *events = NULL, *live = mp_alloc(problem->n_pieces, sizeof *live);
    size_t n, n_live = 0;
    MP_REQUIRE(live, err, MP_NOMEM, "no memory for the offsets of %zu items", problem->n_items);
    for (size_t k = 0; k < problem->n_items; k++) MP_TRY(check_alone(problem, k, capacity, err));
    MP_TRY(make_events(problem, &events, &n, err));
    for (size_t e = 0; e < n; e++) {
        const event *x = &events[e];
        const int64_t at = problem->items[x->item].offset;
        size_t k = 0;
        if (x->size < 0) {
            while (live[k].piece != x->piece) k++;
            live[k] = live[--n_live];
            continue;
        }
        for (; k < n_live; k++) {
            const event *y = &live[k];
            const int64_t other = problem->items[y->item].offset;
            MP_REQUIRE(at + x->size <= other || other + y->size <= at, err, MP_REFUTED, "items %d and %d overlap at time %lld",
                       y->item, x->item, (long long)x->time);
        }
        live[n_live++] = *x;
    }
done:
    mp_free(events);
    mp_free(live);
    return st;
}
