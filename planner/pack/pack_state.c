/* pack_state.c - the state of the packer's search: divides time into sections, raises floors as boxes are placed, and records
 * changes for undo. */
#include "planner/pack/pack.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"

enum change_of { OF_FLOOR, OF_LOWEST, OF_PUT, OF_N_LOW, OF_LEAST_TOP };

struct mp_pack_change {
    enum change_of of;
    int index;
    int64_t before;
};

/* ---- sections ---- */

typedef struct event {
    int64_t time;
    bool begins;
    int item, piece;
} event;

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->begins != y->begins) return x->begins ? 1 : -1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int by_begin(const void *a, const void *b)
{
    const mp_pack_box *x = a, *y = b;
    if (x->begin != y->begin) return x->begin - y->begin;
    if (x->end != y->end) return y->end - x->end;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->item - y->item;
}

static mp_status check_item(const mp_pack_problem *problem, size_t k, int64_t *sum, mp_error *err)
{
    const mp_pack_item *item = &problem->items[k];
    MP_ENSURE(item->piece >= 0 && item->n_pieces > 0 && (size_t)item->piece + (size_t)item->n_pieces <= problem->n_pieces, err,
              MP_INVALID, "item %zu has no pieces", k);
    MP_ENSURE(item->alignment >= 1 && item->fixed >= -1, err, MP_INVALID,
              "item %zu: the alignment must be 1 or more, and the offset 0 or more", k);
    MP_ENSURE(item->fixed < 0 || item->fixed % item->alignment == 0, err, MP_INVALID,
              "item %zu: the offset %lld is not a multiple of %lld", k, (long long)item->fixed, (long long)item->alignment);
    int64_t largest = 0;
    for (int p = 0; p < item->n_pieces; p++) {
        const mp_pack_piece *piece = &problem->pieces[item->piece + p];
        MP_ENSURE(piece->begin < piece->end && piece->size > 0 && (!p || piece[-1].end <= piece->begin), err, MP_INVALID,
                  "item %zu: a lifetime from %lld to %lld with %lld bytes is invalid", k, (long long)piece->begin,
                  (long long)piece->end, (long long)piece->size);
        if (piece->size > largest) largest = piece->size;
    }
    MP_ENSURE(mp_add(*sum, largest, sum) && mp_add(*sum, item->alignment, sum) &&
                  mp_add(*sum, item->fixed > 0 ? item->fixed : 0, sum) && *sum < INT64_MAX / 4,
              err, MP_INVALID, "the sizes of all items are more than can be counted");
    return MP_OK;
}

/* Divides time into sections. A section ends right before an item ends, provided that some item has begun since the previous
 * section ended. So no section has a set of live items that is contained in the set of another section. */
static mp_status cut_time(mp_pack_state *s, const mp_pack_problem *problem, mp_error *err)
{
    size_t n = 0;
    int64_t sum = 0;
    MP_OWNED event *events = mp_alloc(2 * problem->n_pieces, sizeof *events);
    MP_ENSURE(events && problem->n_items < INT32_MAX / 4 && problem->n_pieces < INT32_MAX / 4, err, MP_NOMEM,
              "no memory for the offsets of %zu items", problem->n_items);
    for (size_t k = 0; k < problem->n_items; k++) {
        const mp_pack_item *item = &problem->items[k];
        MP_CHECK(check_item(problem, k, &sum, err));
        s->boxes[k] = (mp_pack_box){.item = (int)k,
                                    .begin = -1,
                                    .run = item->piece,
                                    .n_runs = item->n_pieces,
                                    .alignment = item->alignment,
                                    .fixed = item->fixed};
        for (int p = item->piece; p < item->piece + item->n_pieces; p++) {
            events[n++] = (event){problem->pieces[p].begin, true, (int)k, p};
            events[n++] = (event){problem->pieces[p].end, false, (int)k, p};
            s->runs[p].size = problem->pieces[p].size;
            if (s->runs[p].size > s->boxes[k].size) s->boxes[k].size = s->runs[p].size;
        }
    }
    qsort(events, n, sizeof *events, by_time);
    bool began = false;
    for (size_t k = 0; k < n; k++) {
        mp_pack_box *box = &s->boxes[events[k].item];
        mp_pack_run *run = &s->runs[events[k].piece];
        if (!events[k].begins && began) s->n_sections++;
        began = events[k].begins;
        if (began)
            run->begin = s->n_sections;
        else
            run->end = box->end = s->n_sections;
        if (began && box->begin < 0) box->begin = s->n_sections;
    }
    qsort(s->boxes, (size_t)s->n_boxes, sizeof *s->boxes, by_begin);
    return MP_OK;
}

static bool alike(const mp_pack_state *s, const mp_pack_box *a, const mp_pack_box *b)
{
    if (a->begin != b->begin || a->end != b->end || a->n_runs != b->n_runs || a->alignment != b->alignment) return false;
    if (a->fixed >= 0 || b->fixed >= 0) return false;
    for (int r = 0; r < a->n_runs; r++) {
        const mp_pack_run *x = &s->runs[a->run + r], *y = &s->runs[b->run + r];
        if (x->begin != y->begin || x->end != y->end || x->size != y->size) return false;
    }
    return true;
}

static mp_status list_live(mp_pack_state *s, mp_error *err)
{
    size_t n = 0;
    for (int b = 0; b < s->n_boxes; b++) {
        mp_pack_box *box = &s->boxes[b];
        box->twin = -1;
        s->has_pieces |= box->n_runs > 1;
        for (int a = b - 1; a >= 0 && box->twin < 0; a--) {
            if (s->boxes[a].begin != box->begin || s->boxes[a].end != box->end || s->boxes[a].size != box->size) break;
            if (alike(s, &s->boxes[a], box)) box->twin = a;
        }
        for (int r = box->run; r < box->run + box->n_runs; r++) {
            s->runs[r].slot = (int)n;
            n += (size_t)(s->runs[r].end - s->runs[r].begin);
            MP_ENSURE(n < INT32_MAX / 4, err, MP_NOMEM, "no memory for the offsets of %d items", s->n_boxes);
            for (int t = s->runs[r].begin; t < s->runs[r].end; t++) s->n_live[t]++;
        }
    }
    s->slots = mp_pool_alloc(s->pool, n, sizeof *s->slots);
    s->live = mp_pool_alloc(s->pool, n, sizeof *s->live);
    MP_ENSURE(!mp_pool_failed(s->pool), err, MP_NOMEM, "no memory for the offsets of %d items", s->n_boxes);
    for (int t = 0; t < s->n_sections; t++) s->live_start[t + 1] = s->live_start[t] + s->n_live[t];
    memset(s->n_live, 0, (size_t)s->n_sections * sizeof *s->n_live);
    for (int b = 0; b < s->n_boxes; b++)
        for (int r = s->boxes[b].run; r < s->boxes[b].run + s->boxes[b].n_runs; r++)
            for (int t = s->runs[r].begin; t < s->runs[r].end; t++) {
                const int slot = s->runs[r].slot + t - s->runs[r].begin, at = s->live_start[t] + s->n_live[t]++;
                s->live[at] = (mp_pack_live){b, slot, s->runs[r].size};
                s->slots[slot] = at;
            }
    return MP_OK;
}

/* True if two boxes with fixed offsets overlap. */
static bool find_clash(const mp_pack_state *s)
{
    for (int t = 0; t < s->n_sections; t++) {
        const mp_pack_live *live = &s->live[s->live_start[t]];
        for (int k = 0; k < s->n_live[t]; k++) {
            const int64_t at = s->boxes[live[k].box].fixed;
            for (int j = 0; at >= 0 && j < k; j++) {
                const int64_t other = s->boxes[live[j].box].fixed;
                if (other >= 0 && at < other + live[j].size && other < at + live[k].size) return true;
            }
        }
    }
    return false;
}

mp_status mp_pack_state_make(mp_pack_state *s, const mp_pack_problem *problem, mp_error *err)
{
    const size_t n = problem->n_items, n_sections = problem->n_pieces + 1;
    *s = (mp_pack_state){.n_boxes = (int)n, .pool = mp_pool_new()};
    s->boxes = mp_pool_alloc(s->pool, n, sizeof *s->boxes);
    s->runs = mp_pool_alloc(s->pool, problem->n_pieces, sizeof *s->runs);
    s->live_start = mp_pool_alloc(s->pool, n_sections + 1, sizeof *s->live_start);
    s->n_live = mp_pool_alloc(s->pool, n_sections, sizeof *s->n_live);
    s->floor = mp_pool_alloc(s->pool, n_sections, sizeof *s->floor);
    s->total = mp_pool_alloc(s->pool, n_sections, sizeof *s->total);
    s->crossing = mp_pool_alloc(s->pool, n_sections + 1, sizeof *s->crossing);
    s->n_low = mp_pool_alloc(s->pool, n_sections, sizeof *s->n_low);
    s->least_top = mp_pool_alloc(s->pool, n_sections, sizeof *s->least_top);
    s->lowest = mp_pool_alloc(s->pool, n, sizeof *s->lowest);
    s->placed = mp_pool_alloc(s->pool, n, sizeof *s->placed);
    s->dirty = mp_pool_alloc(s->pool, n_sections, sizeof *s->dirty);
    s->is_dirty = mp_pool_alloc(s->pool, n_sections, sizeof *s->is_dirty);
    MP_ENSURE(!mp_pool_failed(s->pool), err, MP_NOMEM, "no memory for the offsets of %zu items", n);
    MP_CHECK(cut_time(s, problem, err));
    MP_CHECK(list_live(s, err));
    s->clashes = find_clash(s);
    return MP_OK;
}

void mp_pack_state_free(mp_pack_state *s)
{
    mp_pool_free(s->pool);
    mp_free(s->trail);
}

/* ---- changes ---- */

static bool note(mp_pack_state *s, enum change_of of, int index, int64_t before)
{
    if (!mp_grow(&s->trail, &s->trail_capacity, s->n_trail + 1, sizeof *s->trail)) {
        s->no_memory = true;
        return false;
    }
    s->trail[s->n_trail++] = (struct mp_pack_change){of, index, before};
    return true;
}

static void mark(mp_pack_state *s, int section)
{
    if (s->is_dirty[section]) return;
    s->is_dirty[section] = true;
    s->dirty[s->n_dirty++] = section;
}

static int64_t aligned(const mp_pack_box *box, int64_t offset)
{
    return box->alignment == 1 ? offset : (offset + box->alignment - 1) / box->alignment * box->alignment;
}

/* Raises the floor of a section. The offsets of all unplaced boxes that are live in the section become at least `floor`. */
static bool raise_floor(mp_pack_state *s, int section, int64_t floor)
{
    if (!note(s, OF_FLOOR, section, s->floor[section])) return false;
    s->floor[section] = floor;
    for (int k = s->live_start[section]; k < s->live_start[section] + s->n_live[section]; k++) {
        const int b = s->live[k].box;
        const mp_pack_box *box = &s->boxes[b];
        if (s->lowest[b] >= floor) continue;
        s->conflict = section;
        if (box->fixed >= 0) return false;
        if (!note(s, OF_LOWEST, b, s->lowest[b])) return false;
        s->lowest[b] = aligned(box, floor);
        if (s->lowest[b] + box->size > s->capacity) return false;
        for (int r = box->run; r < box->run + box->n_runs; r++)
            for (int t = s->runs[r].begin; t < s->runs[r].end; t++) mark(s, t);
    }
    mark(s, section);
    return true;
}

/* Recomputes the values of a section that the search reads. Called after the section's unplaced boxes or their lowest offsets
 * have changed. */
static bool refresh(mp_pack_state *s, int t)
{
    const mp_pack_live *live = &s->live[s->live_start[t]];
    int64_t least = INT64_MAX, top = INT64_MAX;
    int n_low = 0;
    for (int k = 0; k < s->n_live[t]; k++) {
        const int64_t lowest = s->lowest[live[k].box];
        if (lowest < least) least = lowest;
        if (lowest + live[k].size < top) top = lowest + live[k].size;
    }
    if (s->raises_floors && least > s->floor[t] && s->n_live[t]) {
        if (!note(s, OF_FLOOR, t, s->floor[t])) return false;
        s->floor[t] = least;
    }
    for (int k = 0; k < s->n_live[t]; k++) {
        const int twin = s->boxes[live[k].box].twin;
        n_low += s->lowest[live[k].box] <= s->floor[t] && (twin < 0 || s->placed[twin] || !s->tells_twins);
    }
    if (n_low != s->n_low[t] && !note(s, OF_N_LOW, t, s->n_low[t])) return false;
    if (top != s->least_top[t] && !note(s, OF_LEAST_TOP, t, s->least_top[t])) return false;
    s->n_low[t] = n_low;
    s->least_top[t] = top;
    return true;
}

/* Raises the floor of each changed section in which no box can be placed at the present floor. Returns false if in some section
 * the unplaced boxes do not fit between floor and capacity. */
static bool propagate(mp_pack_state *s)
{
    bool fits = true;
    for (int d = 0; d < s->n_dirty; d++) {
        const int t = s->dirty[d];
        s->is_dirty[t] = false;
        if (!fits) continue;
        fits = refresh(s, t);
        if (s->n_live[t] && s->counts_sections && s->floor[t] + s->total[t] > s->capacity) {
            fits = false;
            s->conflict = t;
        }
    }
    s->n_dirty = 0;
    return fits;
}

bool mp_pack_put(mp_pack_state *s, int b)
{
    const mp_pack_box *box = &s->boxes[b];
    const int64_t offset = s->lowest[b];
    bool fits = note(s, OF_PUT, b, 0);
    if (!fits) return false;
    s->placed[b] = 1;
    for (int t = box->begin + 1; t < box->end; t++) s->crossing[t]--;
    for (int r = box->run; r < box->run + box->n_runs; r++) {
        const mp_pack_run *run = &s->runs[r];
        for (int t = run->begin; t < run->end; t++) {
            const int from = s->slots[run->slot + t - run->begin], to = s->live_start[t] + --s->n_live[t];
            const mp_pack_live moved = s->live[to];
            s->live[to] = s->live[from];
            s->live[from] = moved;
            s->slots[moved.slot] = from;
            s->slots[run->slot + t - run->begin] = to;
            s->total[t] -= run->size;
        }
    }
    for (int r = box->run; fits && r < box->run + box->n_runs; r++)
        for (int t = s->runs[r].begin; fits && t < s->runs[r].end; t++) fits = raise_floor(s, t, offset + s->runs[r].size);
    return propagate(s) && fits;
}

bool mp_pack_raise(mp_pack_state *s, int section, int64_t floor)
{
    const bool fits = raise_floor(s, section, floor);
    return propagate(s) && fits;
}

void mp_pack_undo(mp_pack_state *s, size_t n_trail)
{
    while (s->n_trail > n_trail) {
        const struct mp_pack_change *c = &s->trail[--s->n_trail];
        if (c->of == OF_FLOOR) {
            s->floor[c->index] = c->before;
        } else if (c->of == OF_N_LOW) {
            s->n_low[c->index] = (int)c->before;
        } else if (c->of == OF_LEAST_TOP) {
            s->least_top[c->index] = c->before;
        } else if (c->of == OF_LOWEST) {
            s->lowest[c->index] = c->before;
        } else {
            const mp_pack_box *box = &s->boxes[c->index];
            s->placed[c->index] = 0;
            for (int t = box->begin + 1; t < box->end; t++) s->crossing[t]++;
            for (int r = box->run; r < box->run + box->n_runs; r++)
                for (int t = s->runs[r].begin; t < s->runs[r].end; t++) {
                    s->n_live[t]++; /* in each section of its lifetime, the box counts as unplaced again */
                    s->total[t] += s->runs[r].size;
                }
        }
    }
}

bool mp_pack_start(mp_pack_state *s, int64_t capacity, unsigned without)
{
    mp_pack_undo(s, 0);
    s->capacity = capacity;
    s->raises_floors = !(without & MP_PACK_FLOORS);
    s->tells_twins = !(without & MP_PACK_TWINS);
    s->counts_sections = !(without & MP_PACK_SECTIONS);
    memset(s->placed, 0, (size_t)s->n_boxes);
    memset(s->crossing, 0, ((size_t)s->n_sections + 1) * sizeof *s->crossing);
    bool fits = !s->clashes;
    for (int b = 0; b < s->n_boxes; b++) {
        const mp_pack_box *box = &s->boxes[b];
        s->lowest[b] = box->fixed < 0 ? 0 : box->fixed;
        if (s->lowest[b] + box->size > capacity) fits = false;
        for (int t = box->begin + 1; t < box->end; t++) s->crossing[t]++;
    }
    for (int t = 0; t < s->n_sections; t++) {
        s->floor[t] = s->total[t] = 0;
        for (int k = 0; k < s->n_live[t]; k++) s->total[t] += s->live[s->live_start[t] + k].size;
        mark(s, t);
    }
    return propagate(s) && fits;
}
