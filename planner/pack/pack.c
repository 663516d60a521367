/* pack.c - the packer: decides whether items fit in a block of a given capacity, or finds the lowest capacity in which they
 * fit, by bisection. Also checks given offsets for overlaps. */
#include "memplan/pack.h"

#include <stdlib.h>

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "planner/math/tuning.h"
#include "planner/pack/pack.h"

static const mp_pack_options no_options = {0};

typedef struct packer {
    mp_pack_problem *problem;
    mp_pack_state state;
    mp_pack_search *search;
    mp_pack_options options;
    mp_pack_result result;
    bool stopped;
} packer;

static mp_status open_packer(packer *p, mp_pack_problem *problem, const mp_pack_options *options, mp_error *err)
{
    *p = (packer){.problem = problem, .options = options ? *options : no_options, .result = {.height = -1}};
    MP_CHECK(mp_pack_state_make(&p->state, problem, err));
    p->search = mp_pack_search_new(&p->state, &p->options);
    MP_ENSURE(p->search, err, MP_NOMEM, "no memory for the offsets of %zu items", problem->n_items);
    return mp_pack_bound(problem, &p->result.bound, err);
}

static void close_packer(packer *p)
{
    mp_pack_search_free(p->search);
    mp_pack_state_free(&p->state);
}

/* Searches for offsets within a given capacity. Stores them in the items if all items fit. */
static mp_status attempt(packer *p, int64_t capacity, int64_t node_limit, mp_error *err)
{
    MP_CHECK(mp_pack_search_run(p->search, capacity, node_limit, &p->result.verdict, &p->result.nodes, &p->stopped, err));
    if (p->result.verdict != MP_PACK_PLACED) return MP_OK;
    p->result.height = 0;
    for (int b = 0; b < p->state.n_boxes; b++) {
        const mp_pack_box *box = &p->state.boxes[b];
        const int64_t top = p->state.lowest[b] + box->size;
        p->problem->items[box->item].offset = p->state.lowest[b];
        if (top > p->result.height) p->result.height = top;
    }
    return MP_OK;
}

mp_status mp_pack_solve(mp_pack_problem *problem, int64_t capacity, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err)
{
    MP_CLEARED_BY(close_packer) packer p = {0};
    MP_CHECK(open_packer(&p, problem, options, err));
    MP_CHECK(attempt(&p, capacity, p.options.node_limit, err));
    if (p.result.verdict == MP_PACK_INFEASIBLE && p.result.bound <= capacity) p.result.bound = capacity + 1;
    *result = p.result;
    return MP_OK;
}

/* Returns a number that divides all possible heights. Every offset is a fixed offset or a sum of sizes that is rounded up to
 * alignments, so the greatest common divisor of these numbers is suitable. */
static int64_t unit_of(const mp_pack_problem *problem)
{
    int64_t unit = 0;
    for (size_t k = 0; k < problem->n_items; k++) {
        const mp_pack_item *item = &problem->items[k];
        if (item->alignment > 1) unit = mp_gcd(unit, item->alignment);
        if (item->fixed > 0) unit = mp_gcd(unit, item->fixed);
    }
    for (size_t p = 0; p < problem->n_pieces; p++) unit = mp_gcd(unit, problem->pieces[p].size);
    return unit ? unit : 1;
}

/* Finds the height of the first placement that the search visits. The search visits one node per item, and more only if items
 * with fixed offsets are in the way. */
static mp_status find_any(packer *p, mp_error *err)
{
    int64_t capacity = 0;
    for (size_t k = 0; k < p->problem->n_items; k++) {
        const mp_pack_item *item = &p->problem->items[k];
        if (item->fixed > 0) capacity += item->fixed;
    }
    for (int b = 0; b < p->state.n_boxes; b++) capacity += p->state.boxes[b].size + p->state.boxes[b].alignment;
    return attempt(p, capacity, p->options.node_limit, err);
}

static bool goes_on(const packer *p)
{
    const mp_pack_result *r = &p->result;
    if (p->stopped || r->bound >= r->height || (p->options.node_limit > 0 && r->nodes >= p->options.node_limit)) return false;
    return p->options.enough <= 0 || (r->height > p->options.enough && r->bound <= p->options.enough);
}

/* Tries capacities from the lower bound to just below the present height. The first is the lowest, and others are chosen by
 * bisection. A capacity for which the search ended at the node limit counts as too small in this round. If every capacity up to
 * just below the height is proved infeasible, the present height is the lowest possible. */
static mp_status narrow(packer *p, int64_t nodes, int64_t unit, mp_error *err)
{
    const int64_t enough = p->options.enough > 0 ? p->options.enough / unit * unit : 0;
    const int64_t lowest = p->result.bound > enough ? p->result.bound : enough;
    int64_t low = lowest, capacity = lowest;
    while (goes_on(p) && low < p->result.height) {
        const int64_t left = p->options.node_limit > 0 ? p->options.node_limit - p->result.nodes : INT64_MAX;
        const int64_t most = capacity == lowest ? nodes : nodes / MP_PACK_OTHERS;
        MP_CHECK(attempt(p, capacity, most < left ? most : left, err));
        if (p->result.verdict != MP_PACK_PLACED) low = capacity + unit;
        if (p->result.verdict == MP_PACK_INFEASIBLE && p->result.bound < low) p->result.bound = low;
        capacity = low + (p->result.height - 1 - low) / 2 / unit * unit;
    }
    return MP_OK;
}

mp_status mp_pack_minimize(mp_pack_problem *problem, int64_t known, const mp_pack_options *options, mp_pack_result *result,
                           mp_error *err)
{
    MP_CLEARED_BY(close_packer) packer p = {0};
    MP_CHECK(open_packer(&p, problem, options, err));
    const int64_t unit = unit_of(problem);
    if (known >= 0)
        p.result.height = known;
    else
        MP_CHECK(find_any(&p, err));
    if (p.result.height < 0) { /* no placement was found: either none exists, or the search was ended early */
        *result = p.result;
        return MP_OK;
    }
    p.result.bound = (p.result.bound + unit - 1) / unit * unit;
    for (int64_t nodes = MP_PACK_FIRST_NODES; goes_on(&p);
         nodes = nodes < INT64_MAX / MP_PACK_GROWTH ? nodes * MP_PACK_GROWTH : INT64_MAX)
        MP_CHECK(narrow(&p, nodes, unit, err));
    if (p.result.bound >= p.result.height || p.result.height <= p.options.enough)
        p.result.verdict = MP_PACK_PLACED;
    else
        p.result.verdict = p.options.enough > 0 && p.result.bound > p.options.enough ? MP_PACK_INFEASIBLE : MP_PACK_LIMIT;
    *result = p.result;
    return MP_OK;
}

/* ---- the checker: a sweep over time, which shares no code with the search ---- */

typedef struct event {
    int64_t time, size; /* an event of the sweep over time. size > 0: a piece of an item begins; size < 0: it ends */
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
    event *events = mp_alloc(2 * problem->n_pieces, sizeof *events);
    *n = 0;
    MP_ENSURE(events, err, MP_NOMEM, "no memory for the offsets of %zu items", problem->n_items);
    for (size_t k = 0; k < problem->n_items; k++)
        for (int p = problem->items[k].piece; p < problem->items[k].piece + problem->items[k].n_pieces; p++) {
            const mp_pack_piece *piece = &problem->pieces[p];
            events[(*n)++] = (event){piece->begin, piece->size, (int)k, p};
            events[(*n)++] = (event){piece->end, -piece->size, (int)k, p};
        }
    qsort(events, *n, sizeof *events, by_time);
    *out = events;
    return MP_OK;
}

mp_status mp_pack_bound(const mp_pack_problem *problem, int64_t *bytes, mp_error *err)
{
    MP_OWNED event *events = NULL;
    size_t n;
    int64_t live = 0, most = 0;
    MP_CHECK(make_events(problem, &events, &n, err));
    for (size_t k = 0; k < n; k++) {
        if (events[k].size < 0)
            live += events[k].size;
        else
            MP_ENSURE(mp_add(live, events[k].size, &live), err, MP_INVALID, "the sum of the sizes is more than can be counted");
        if (live > most) most = live;
    }
    *bytes = most;
    return MP_OK;
}

static mp_status check_alone(const mp_pack_problem *problem, size_t k, int64_t capacity, mp_error *err)
{
    const mp_pack_item *item = &problem->items[k];
    MP_ENSURE(item->offset >= 0 && item->offset % item->alignment == 0, err, MP_REFUTED,
              "item %zu has the offset %lld, which is not a multiple of %lld", k, (long long)item->offset,
              (long long)item->alignment);
    MP_ENSURE(item->fixed < 0 || item->offset == item->fixed, err, MP_REFUTED, "item %zu has the offset %lld instead of %lld",
              k, (long long)item->offset, (long long)item->fixed);
    for (int p = item->piece; p < item->piece + item->n_pieces; p++)
        MP_ENSURE(problem->pieces[p].size <= capacity && item->offset <= capacity - problem->pieces[p].size, err, MP_REFUTED,
                  "item %zu with the offset %lld ends above %lld", k, (long long)item->offset, (long long)capacity);
    return MP_OK;
}

/* Checks offsets: compares every item with all items that are live when it begins. */
mp_status mp_pack_check(const mp_pack_problem *problem, int64_t capacity, mp_error *err)
{
    MP_OWNED event *events = NULL, *live = mp_alloc(problem->n_pieces, sizeof *live);
    size_t n, n_live = 0;
    MP_ENSURE(live, err, MP_NOMEM, "no memory for the offsets of %zu items", problem->n_items);
    for (size_t k = 0; k < problem->n_items; k++) MP_CHECK(check_alone(problem, k, capacity, err));
    MP_CHECK(make_events(problem, &events, &n, err));
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
            MP_ENSURE(at + x->size <= other || other + y->size <= at, err, MP_REFUTED, "items %d and %d overlap at time %lld",
                      y->item, x->item, (long long)x->time);
        }
        live[n_live++] = *x;
    }
    return MP_OK;
}
