#include "planner/anneal/runs/memory_profile.h"

#include <string.h>

#include "estimator/base/vector.h"

/* The limit of an empty slot: more than any memory, little enough that sums do not overflow. */
#define NO_LIMIT (INT64_C(1) << 60)

mp_status mp_axis_new(int n_slots, mp_axis *out, mp_error *err)
{
    mp_status st = MP_OK;
    const int n_chunks = (n_slots + MP_AXIS_CHUNK - 1) / MP_AXIS_CHUNK;
    *out = (mp_axis){.n_slots = n_chunks * MP_AXIS_CHUNK};
    out->excess = mp_alloc((size_t)out->n_slots, sizeof *out->excess);
    out->pending = mp_alloc((size_t)n_chunks, sizeof *out->pending);
    out->top = mp_alloc((size_t)n_chunks, sizeof *out->top);
    out->over = mp_alloc((size_t)n_chunks, sizeof *out->over);
    MP_REQUIRE(out->excess && out->pending && out->top && out->over, err, MP_NOMEM, "out of memory for %d slots", n_slots);
    mp_axis_clear(out);
done:
    if (st != MP_OK) mp_axis_free(out);
    return st;
}

void mp_axis_free(mp_axis *axis)
{
    mp_free(axis->excess);
    mp_free(axis->pending);
    mp_free(axis->top);
    mp_free(axis->over);
    *axis = (mp_axis){0};
}

void mp_axis_clear(mp_axis *axis)
{
    const int n_chunks = axis->n_slots / MP_AXIS_CHUNK;
    for (int s = 0; s < axis->n_slots; s++) axis->excess[s] = -NO_LIMIT;
    for (int c = 0; c < n_chunks; c++) {
        axis->pending[c] = axis->over[c] = 0;
        axis->top[c] = -NO_LIMIT;
    }
    axis->total_over = 0;
}

static inline int64_t sum_over(const int64_t *excess, int64_t pending)
{
    int64_t over = 0;
    for (int k = 0; k < MP_AXIS_CHUNK; k++) {
        const int64_t x = excess[k] + pending;
        over += x > 0 ? x : 0;
    }
    return over;
}

/* After slots of a chunk have changed. */
static inline void settle(mp_axis *axis, int chunk)
{
    const int64_t *excess = axis->excess + chunk * MP_AXIS_CHUNK, pending = axis->pending[chunk];
    int64_t top = excess[0], over = 0;
    for (int k = 1; k < MP_AXIS_CHUNK; k++) top = excess[k] > top ? excess[k] : top;
    if (top + pending > 0) over = sum_over(excess, pending);
    axis->top[chunk] = top;
    axis->total_over += over - axis->over[chunk];
    axis->over[chunk] = over;
}

MP_VECTOR static void add_within(mp_axis *axis, int first, int last, int64_t bytes)
{
    for (int s = first; s <= last; s++) axis->excess[s] += bytes;
    settle(axis, first / MP_AXIS_CHUNK);
}

MP_VECTOR static void add_across(mp_axis *axis, int from, int to, int64_t bytes)
{
    for (int c = from; c <= to; c++) {
        const int64_t pending = axis->pending[c] += bytes;
        int64_t over = 0;
        if (axis->top[c] + pending > 0) over = sum_over(axis->excess + c * MP_AXIS_CHUNK, pending);
        axis->total_over += over - axis->over[c];
        axis->over[c] = over;
    }
}

void mp_axis_add(mp_axis *axis, int first, int last, int64_t bytes)
{
    if (first > last || !bytes) return;
    const int from = first / MP_AXIS_CHUNK, to = last / MP_AXIS_CHUNK;
    if (from == to) {
        add_within(axis, first, last, bytes);
        return;
    }
    add_within(axis, first, (from + 1) * MP_AXIS_CHUNK - 1, bytes);
    add_across(axis, from + 1, to - 1, bytes);
    add_within(axis, to * MP_AXIS_CHUNK, last, bytes);
}

void mp_axis_occupy(mp_axis *axis, int slot, int64_t limit)
{
    add_within(axis, slot, slot, NO_LIMIT - limit);
}

void mp_axis_vacate(mp_axis *axis, int slot, int64_t limit)
{
    add_within(axis, slot, slot, limit - NO_LIMIT);
}

MP_VECTOR void mp_axis_shift(mp_axis *axis, int first, int last, int by, int64_t left_bytes)
{
    const int n = last - first + 1, left = by < 0 ? last : first, to = by < 0 ? first - 1 : last + 1;
    const int from_chunk = (by < 0 ? to : first) / MP_AXIS_CHUNK, to_chunk = (by < 0 ? last : to) / MP_AXIS_CHUNK;
    for (int c = from_chunk; c <= to_chunk && from_chunk < to_chunk; c++) { /* across chunks only whole numbers can move */
        for (int s = c * MP_AXIS_CHUNK; s < (c + 1) * MP_AXIS_CHUNK; s++) axis->excess[s] += axis->pending[c];
        axis->pending[c] = 0;
    }
    memmove(&axis->excess[first + by], &axis->excess[first], (size_t)n * sizeof *axis->excess);
    axis->excess[left] = left_bytes - NO_LIMIT - axis->pending[left / MP_AXIS_CHUNK];
    for (int c = from_chunk; c <= to_chunk; c++) settle(axis, c);
}

int64_t mp_axis_level(const mp_axis *axis, int slot)
{
    return mp_axis_excess(axis, slot) + NO_LIMIT;
}

int64_t mp_axis_excess(const mp_axis *axis, int slot)
{
    return axis->excess[slot] + axis->pending[slot / MP_AXIS_CHUNK];
}

int64_t mp_axis_most(const mp_axis *axis)
{
    int64_t most = -NO_LIMIT;
    for (int c = 0; c < axis->n_slots / MP_AXIS_CHUNK; c++)
        if (axis->top[c] + axis->pending[c] > most) most = axis->top[c] + axis->pending[c];
    return most;
}

int mp_axis_find_over(const mp_axis *axis, int64_t at)
{
    int chunk = 0;
    while (at >= axis->over[chunk]) at -= axis->over[chunk++];
    for (int s = chunk * MP_AXIS_CHUNK;; s++) {
        const int64_t x = mp_axis_excess(axis, s);
        if (x <= 0) continue;
        if (at < x) return s;
        at -= x;
    }
}
