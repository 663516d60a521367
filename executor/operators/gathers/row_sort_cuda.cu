/* row_sort_cuda.cu - entries sorted by the row that they name, the lowest digit first. Each pass counts the digits of every
 * block of entries, sums the counts up, and places the entries; those of one digit keep their order.
 */
#include "executor/operators/gathers/gather.cuh"

#include "executor/operators/gathers/row_sort_cuda.h"

namespace
{

enum { DIGIT = 6, DIGITS = 1 << DIGIT, PER_THREAD = 8, BLOCK = MP_GRID_THREADS * PER_THREAD };

static int64_t blocks_of(const mp_row_entries *rows)
{
    return (rows->n_entries + BLOCK - 1) / BLOCK;
}

struct list_of {
    mp_row_reader reader;
    int64_t n_rows;
    uint64_t *list;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t row = reader.row(k);
        list[k] = (uint64_t)(row < 0 ? n_rows : row) << 32 | (uint64_t)k;
    }
};

/* What counting and placing share: a thread's own entries, and how many it has of each digit. */
struct pass {
    const uint64_t *from;
    int64_t n, n_blocks;
    int shift;
    uint32_t *counts; /* by digit, then block; once summed up, where the first of them goes */

    typedef uint16_t columns[DIGITS][MP_GRID_THREADS];
    MP_BODY int digit(uint64_t entry) const { return (int)(entry >> shift & (DIGITS - 1)); }
    MP_BODY void count(int64_t block, int thread, columns &of) const
    {
        const int64_t first = block * BLOCK + (int64_t)thread * PER_THREAD;
        for (int d = 0; d < DIGITS; d++) of[d][thread] = 0;
        for (int64_t k = first; k < first + PER_THREAD && k < n; k++) of[digit(from[k])][thread]++;
    }
};

struct counts_of {
    enum { PHASES = 2 };
    struct room {
        pass::columns of;
    };
    pass p;
    MP_BODY void operator()(int phase, int64_t block, int thread, room &shared) const
    {
        if (phase == 0) {
            p.count(block, thread, shared.of);
        } else if (thread < DIGITS) {
            uint32_t sum = 0;
            for (int t = 0; t < MP_GRID_THREADS; t++) sum += shared.of[thread][t];
            p.counts[thread * p.n_blocks + block] = sum;
        }
    }
};

/* One block turns counts into the sums of those before each. */
struct sums_of {
    enum { PHASES = 3 };
    struct room {
        uint32_t sum[MP_GRID_THREADS];
    };
    uint32_t *counts;
    int64_t n;
    MP_BODY void operator()(int phase, int64_t, int thread, room &shared) const
    {
        const int64_t length = (n + MP_GRID_THREADS - 1) / MP_GRID_THREADS, first = thread * length;
        const int64_t end = first + length < n ? first + length : n;
        if (phase == 0) {
            uint32_t sum = 0;
            for (int64_t k = first; k < end; k++) sum += counts[k];
            shared.sum[thread] = sum;
        } else if (phase == 1) {
            uint32_t sum = 0;
            for (int t = 0; thread == 0 && t < MP_GRID_THREADS; t++) {
                const uint32_t own = shared.sum[t];
                shared.sum[t] = sum;
                sum += own;
            }
        } else {
            uint32_t sum = shared.sum[thread];
            for (int64_t k = first; k < end; k++) {
                const uint32_t own = counts[k];
                counts[k] = sum;
                sum += own;
            }
        }
    }
};

struct places_of {
    enum { PHASES = 3 };
    struct room {
        pass::columns of;
    };
    pass p;
    uint64_t *to;
    MP_BODY void operator()(int phase, int64_t block, int thread, room &shared) const
    {
        if (phase == 0) {
            p.count(block, thread, shared.of);
        } else if (phase == 1) {
            uint16_t sum = 0;
            for (int t = 0; thread < DIGITS && t < MP_GRID_THREADS; t++) {
                const uint16_t own = shared.of[thread][t];
                shared.of[thread][t] = sum;
                sum = (uint16_t)(sum + own);
            }
        } else {
            const int64_t first = block * BLOCK + (int64_t)thread * PER_THREAD;
            for (int64_t k = first; k < first + PER_THREAD && k < p.n; k++) {
                const uint64_t entry = p.from[k];
                const int d = p.digit(entry);
                to[p.counts[d * p.n_blocks + block] + shared.of[d][thread]++] = entry;
            }
        }
    }
};

} // namespace

int64_t mp_cuda_rows_sort_room(const mp_row_entries *rows)
{
    return 2 * mp_rows_list_bytes(rows) + DIGITS * blocks_of(rows) * (int64_t)sizeof(uint32_t);
}

const uint64_t *mp_cuda_rows_sort(const mp_row_entries *rows, const mp_array *indices, void *room)
{
    uint64_t *from = (uint64_t *)room, *to = from + rows->n_entries;
    uint32_t *counts = (uint32_t *)(to + rows->n_entries);
    const int64_t n_blocks = blocks_of(rows);
    mp_each(rows->n_entries, list_of{mp_row_reader(rows, indices), rows->n_rows, from});
    for (int shift = 0; (uint64_t)rows->n_rows >> shift; shift += DIGIT) {
        const pass p = {from, rows->n_entries, n_blocks, 32 + shift, counts};
        mp_each_block(n_blocks, counts_of{p});
        mp_each_block(1, sums_of{counts, DIGITS * n_blocks});
        mp_each_block(n_blocks, places_of{p, to});
        uint64_t *t = from;
        from = to;
        to = t;
    }
    return from;
}
