/* memory_profile.c - the live bytes per position of an order of runs, stored as a segment tree with two levels: positions, and
 * chunks of positions. Each chunk stores bytes that are still to be added to all of its positions. */
#include "planner/anneal/runs/memory_profile.h"

#include <string.h>

#include "estimator/base/vector.h"

enum { CHUNK = 64 /* positions in a chunk */ };

/* The limit of an empty position. It exceeds every memory size, and is so small that sums with it do not overflow. */
#define NO_LIMIT (INT64_C(1) << 60)

mp_status mp_profile_new(int n_positions, mp_profile *out, mp_error *err)
{
    const int n_chunks = (n_positions + CHUNK - 1) / CHUNK;
    *out = (mp_profile){.pool = mp_pool_new(), .n_positions = n_chunks * CHUNK};
    out->excess = mp_pool_alloc(out->pool, (size_t)out->n_positions, sizeof *out->excess);
    out->pending = mp_pool_alloc(out->pool, (size_t)n_chunks, sizeof *out->pending);
    out->highest = mp_pool_alloc(out->pool, (size_t)n_chunks, sizeof *out->highest);
    out->over = mp_pool_alloc(out->pool, (size_t)n_chunks, sizeof *out->over);
    if (mp_pool_failed(out->pool)) {
        mp_profile_free(out);
        return MP_FAIL(err, MP_NOMEM, "out of memory for %d positions", n_positions);
    }
    mp_profile_clear(out);
    return MP_OK;
}

void mp_profile_free(mp_profile *profile)
{
    mp_pool_free(profile->pool);
    *profile = (mp_profile){0};
}

void mp_profile_clear(mp_profile *profile)
{
    const int n_chunks = profile->n_positions / CHUNK;
    for (int s = 0; s < profile->n_positions; s++) profile->excess[s] = -NO_LIMIT;
    for (int c = 0; c < n_chunks; c++) {
        profile->pending[c] = profile->over[c] = 0;
        profile->highest[c] = -NO_LIMIT;
    }
    profile->total_over = 0;
}

static inline int64_t sum_over(const int64_t *excess, int64_t pending)
{
    int64_t over = 0;
    for (int k = 0; k < CHUNK; k++) {
        const int64_t x = excess[k] + pending;
        over += x > 0 ? x : 0;
    }
    return over;
}

/* Recomputes the chunk's highest excess and the sum of its positive excesses, after the bytes of its positions have changed. */
static inline void recompute_chunk(mp_profile *profile, int chunk)
{
    const int64_t *excess = profile->excess + (ptrdiff_t)chunk * CHUNK, pending = profile->pending[chunk];
    int64_t top = excess[0], over = 0;
    for (int k = 1; k < CHUNK; k++) top = excess[k] > top ? excess[k] : top;
    if (top + pending > 0) over = sum_over(excess, pending);
    profile->highest[chunk] = top;
    profile->total_over += over - profile->over[chunk];
    profile->over[chunk] = over;
}

MP_VECTOR static void add_within(mp_profile *profile, int begin, int end, int64_t bytes)
{
    for (int p = begin; p < end; p++) profile->excess[p] += bytes;
    recompute_chunk(profile, begin / CHUNK);
}

MP_VECTOR static void add_across(mp_profile *profile, int begin_chunk, int end_chunk, int64_t bytes)
{
    for (int c = begin_chunk; c < end_chunk; c++) {
        const int64_t pending = profile->pending[c] += bytes;
        int64_t over = 0;
        if (profile->highest[c] + pending > 0) over = sum_over(profile->excess + (ptrdiff_t)c * CHUNK, pending);
        profile->total_over += over - profile->over[c];
        profile->over[c] = over;
    }
}

void mp_profile_add(mp_profile *profile, int begin, int end, int64_t bytes)
{
    if (begin >= end || !bytes) return;
    const int from = begin / CHUNK, to = (end - 1) / CHUNK;
    if (from == to) {
        add_within(profile, begin, end, bytes);
        return;
    }
    add_within(profile, begin, (from + 1) * CHUNK, bytes);
    add_across(profile, from + 1, to, bytes);
    add_within(profile, to * CHUNK, end, bytes);
}

void mp_profile_occupy(mp_profile *profile, int position, int64_t limit)
{
    add_within(profile, position, position + 1, NO_LIMIT - limit);
}

void mp_profile_vacate(mp_profile *profile, int position, int64_t limit)
{
    add_within(profile, position, position + 1, limit - NO_LIMIT);
}

MP_VECTOR void mp_profile_shift(mp_profile *profile, int begin, int end, int by, int64_t left_bytes)
{
    const int left = by < 0 ? end - 1 : begin, low = by < 0 ? begin - 1 : begin, high = by < 0 ? end : end + 1;
    const int from = low / CHUNK, to = (high - 1) / CHUNK;
    /* entries move between chunks, so each chunk's pending addition is first added to its positions */
    for (int c = from; c <= to && from < to; c++) {
        for (int p = c * CHUNK; p < (c + 1) * CHUNK; p++) profile->excess[p] += profile->pending[c];
        profile->pending[c] = 0;
    }
    memmove(&profile->excess[begin + by], &profile->excess[begin], (size_t)(end - begin) * sizeof *profile->excess);
    profile->excess[left] = left_bytes - NO_LIMIT - profile->pending[left / CHUNK];
    for (int c = from; c <= to; c++) recompute_chunk(profile, c);
}

int64_t mp_profile_level(const mp_profile *profile, int position)
{
    return mp_profile_excess(profile, position) + NO_LIMIT;
}

int64_t mp_profile_excess(const mp_profile *profile, int position)
{
    return profile->excess[position] + profile->pending[position / CHUNK];
}

int64_t mp_profile_highest(const mp_profile *profile)
{
    int64_t most = -NO_LIMIT;
    for (int c = 0; c < profile->n_positions / CHUNK; c++)
        if (profile->highest[c] + profile->pending[c] > most) most = profile->highest[c] + profile->pending[c];
    return most;
}

int mp_profile_find_over(const mp_profile *profile, int64_t at)
{
    int chunk = 0;
    while (at >= profile->over[chunk]) at -= profile->over[chunk++];
    for (int s = chunk * CHUNK;; s++) {
        const int64_t x = mp_profile_excess(profile, s);
        if (x <= 0) continue;
        if (at < x) return s;
        at -= x;
    }
}
