/* rows_cuda.cu - picks, clears and reduces rows of a table by index, sorts entries by row, and lists the true elements of a
 * condition. */

#include "executor/operators/gathers/gather.cuh"

extern "C" {
#include "executor/operators/gathers/rows_cuda.h"
}

namespace
{

/* mp_row_entries in the form that kernels receive. Sizes and strides count copy units (the 1, 2, 4, ... bytes that one
 * thread copies at a time) instead of elements. */
struct rows_as {
    mp_grid named, entries;
    mp_boxed frame;
    int64_t n_entries;
    /* order of the work items. true: one element of all entries' rows, then the next element; false: all elements of one
     * entry's row, then the next entry */
    bool by_place;

    explicit rows_as(const mp_row_entries *rows) : named(rows->named), entries(rows->entries), frame(&rows->frame)
    {
        n_entries = rows->n_entries;
        by_place = rows->frame.to[rows->frame.rank - 1] != 1;
    }
    MP_BODY void split(int64_t k, int64_t *entry, int64_t *place) const
    {
        *entry = by_place ? k % n_entries : k / frame.n;
        *place = by_place ? k / n_entries : k % frame.n;
    }
};

template <class T> struct gathered {
    rows_as rows;
    mp_row_reader reader;
    const T *table;
    T *other;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t entry, place, table_at, other_at;
        rows.split(k, &entry, &place);
        rows.frame.find(place, &table_at, &other_at);
        const int64_t row = reader.row(entry);
        other_at += mp_grid_offset(&rows.entries, entry);
        other[other_at] = row < 0 ? T{} : table[table_at + mp_grid_offset(&rows.named, row)];
    }
};

template <class T> struct cleared {
    rows_as rows;
    mp_row_reader reader;
    T *table;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t entry, place, table_at, other_at;
        rows.split(k, &entry, &place);
        rows.frame.find(place, &table_at, &other_at);
        const int64_t row = reader.row(entry);
        if (row >= 0) table[table_at + mp_grid_offset(&rows.named, row)] = T{};
    }
};

/* Merges the elements of a row to the largest elements (up to 16 bytes) that sizes, strides and addresses permit. Returns
 * their size in bytes. */
static int widen(mp_row_entries *rows, int size, const void *table, const void *other)
{
    mp_box all = {}, *frame = &rows->frame;
    if (rows->named.rank + rows->entries.rank + frame->rank > MP_BOX_RANK) return size;
    for (int d = 0; d < rows->named.rank; d++, all.rank++) all.from[all.rank] = rows->named.strides[d];
    for (int d = 0; d < rows->entries.rank; d++, all.rank++) all.to[all.rank] = rows->entries.strides[d];
    const int first = all.rank;
    for (int d = 0; d < frame->rank; d++, all.rank++) {
        all.dims[all.rank] = frame->dims[d];
        all.from[all.rank] = frame->from[d];
        all.to[all.rank] = frame->to[d];
    }
    const int unit = mp_box_widen(&all, size, table, other), f = unit / size;
    for (int d = 0; d < rows->named.rank; d++) rows->named.strides[d] /= f;
    for (int d = 0; d < rows->entries.rank; d++) rows->entries.strides[d] /= f;
    for (int d = 0; d < frame->rank; d++) {
        frame->dims[d] = all.dims[first + d];
        frame->from[d] = all.from[first + d];
        frame->to[d] = all.to[first + d];
    }
    return unit;
}

} // namespace

void mp_cuda_rows_pick(const mp_row_entries *described, const mp_array *indices, int size, const void *table, void *other)
{
    mp_row_entries rows = *described;
    const mp_row_reader reader(&rows, indices);
    size = widen(&rows, size, table, other);
    const rows_as as(&rows);
    MP_BY_SIZE(size, (mp_each(as.n_entries * as.frame.n, gathered<T>{as, reader, (const T *)table, (T *)other})));
}

void mp_cuda_rows_clear(const mp_row_entries *rows, const mp_array *indices, int size, void *table)
{
    const mp_row_reader reader(rows, indices);
    const rows_as as(rows);
    MP_BY_SIZE(size, (mp_each(as.n_entries * as.frame.n, cleared<T>{as, reader, (T *)table})));
}

namespace
{

/* ---- reducing over the sorted list of index entries */

struct reducing {
    rows_as rows;
    int64_t n_rows;
    const uint64_t *list;
    mp_index_reduction how;
    mp_dtype dtype;
    int size;
    void *table;
    const void *other;
    /* per piece (MP_CUDA_PIECE index entries): the sums of its first row, if the row began in an earlier piece, and of its last
     * row, if the row continues in the next piece */
    float *partial;

    MP_BODY int64_t row(int64_t k) const { return (int64_t)(list[k] >> 32); }
    MP_BODY int64_t entry_at(int64_t k) const { return mp_grid_offset(&rows.entries, (int64_t)(uint32_t)list[k]); }
};

/* If entry k of the sorted index list is the first entry of its row, combines one element of the row with all entries of the
 * row. */
struct row_reduced {
    reducing x;
    MP_BODY void operator()(int64_t index) const
    {
        int64_t k, place, table_at, other_at;
        x.rows.split(index, &k, &place);
        const int64_t row = x.row(k);
        if (row >= x.n_rows || (k > 0 && x.row(k - 1) == row)) return;
        x.rows.frame.find(place, &table_at, &other_at);
        table_at += mp_grid_offset(&x.rows.named, row);
        if (x.how == MP_INDEX_SET) {
            while (k + 1 < x.rows.n_entries && x.row(k + 1) == row) k++;
            mp_element_copy(x.table, table_at, x.other, other_at + x.entry_at(k), x.size);
        } else {
            for (; k < x.rows.n_entries && x.row(k) == row; k++)
                mp_element_reduce(x.how, x.table, x.dtype, table_at, x.other, x.dtype, other_at + x.entry_at(k));
        }
    }
};

/* Sums one element of all index entries of a piece (MP_CUDA_PIECE entries), row by row. If all entries of a row are in the
 * piece, their sum is added to the table; otherwise it is stored in `partial`. */
struct piece_summed {
    reducing x;
    MP_BODY void operator()(int64_t index) const
    {
        const int64_t piece = index / x.rows.frame.n, place = index % x.rows.frame.n, first = piece * MP_CUDA_PIECE;
        const int64_t end = first + MP_CUDA_PIECE < x.rows.n_entries ? first + MP_CUDA_PIECE : x.rows.n_entries;
        int64_t table_at, other_at;
        x.rows.frame.find(place, &table_at, &other_at);
        float *partial = x.partial + 2 * piece * x.rows.frame.n + place;
        for (int64_t k = first; k < end;) {
            const int64_t row = x.row(k), begin = k;
            float sum = 0;
            if (row >= x.n_rows) break;
            for (; k < end && x.row(k) == row; k++) sum += mp_load_any(x.other, x.dtype, other_at + x.entry_at(k));
            if (begin == first && begin > 0 && x.row(begin - 1) == row) {
                partial[0] = sum;
            } else if (k == end && end < x.rows.n_entries && x.row(end) == row) {
                partial[x.rows.frame.n] = sum;
            } else {
                const int64_t at = table_at + mp_grid_offset(&x.rows.named, row);
                mp_store_any(x.table, x.dtype, at, mp_load_any(x.table, x.dtype, at) + sum);
            }
        }
    }
};

/* Joins the partial sums of a row that begins in one piece of the index list and continues in the next, and adds them to the
 * table. */
struct pieces_joined {
    reducing x;
    MP_BODY void operator()(int64_t index) const
    {
        const int64_t n = x.rows.frame.n, piece = index / n, place = index % n, first = piece * MP_CUDA_PIECE;
        int64_t end = first + MP_CUDA_PIECE, table_at, other_at;
        if (end >= x.rows.n_entries) return;
        const int64_t row = x.row(end);
        if (row >= x.n_rows || x.row(end - 1) != row || (first > 0 && x.row(first - 1) == row)) return;
        float sum = x.partial[(2 * piece + 1) * n + place];
        for (int64_t next = piece + 1; end < x.rows.n_entries && x.row(end) == row; next++, end += MP_CUDA_PIECE)
            sum += x.partial[2 * next * n + place];
        x.rows.frame.find(place, &table_at, &other_at);
        table_at += mp_grid_offset(&x.rows.named, row);
        mp_store_any(x.table, x.dtype, table_at, mp_load_any(x.table, x.dtype, table_at) + sum);
    }
};

static bool sums_floats(mp_index_reduction how, mp_dtype dtype)
{
    return how == MP_INDEX_ADD && (dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16);
}

static int64_t pieces_of(const mp_row_entries *rows)
{
    return (rows->n_entries + MP_CUDA_PIECE - 1) / MP_CUDA_PIECE;
}

/* Returns the offset of the partial sums, which are stored after the memory that the sort uses. */
static int64_t partial_at(const mp_row_entries *rows)
{
    return (mp_cuda_rows_sort_workspace_bytes(rows) + 15) / 16 * 16;
}

} // namespace

int64_t mp_cuda_rows_workspace_bytes(const mp_row_entries *rows, mp_index_reduction how, mp_dtype dtype)
{
    const int64_t partial = sums_floats(how, dtype) ? 2 * pieces_of(rows) * mp_box_elements(&rows->frame) : 0;
    return partial_at(rows) + partial * (int64_t)sizeof(float);
}

void mp_cuda_rows_reduce(const mp_row_entries *rows, const mp_array *indices, mp_index_reduction how, mp_dtype dtype,
                         void *table, const void *other, void *room)
{
    if (!rows->n_entries || !mp_box_elements(&rows->frame)) return;
    reducing x = {rows_as(rows), rows->n_rows, mp_cuda_rows_sort(rows, indices, room),    how, dtype, mp_dtype_bits(dtype) / 8,
                  table,         other,        (float *)((char *)room + partial_at(rows))};
    if (sums_floats(how, dtype)) {
        mp_each(pieces_of(rows) * x.rows.frame.n, piece_summed{x});
        mp_each(pieces_of(rows) * x.rows.frame.n, pieces_joined{x});
    } else {
        mp_each(rows->n_entries * x.rows.frame.n, row_reduced{x});
    }
}

namespace
{

/* Lists the true elements of a condition in one thread block. Every thread counts the true elements in its range, then lists
 * them. */
struct true_ones {
    enum { PHASES = 3 };
    struct room {
        /* number of true elements before the range of each thread; the last element is the total */
        int64_t begin[MP_GRID_THREADS + 1];
    };
    const uint8_t *condition;
    int64_t n, n_wanted, *list;

    MP_BODY void operator()(int phase, int64_t, int thread, room &shared) const
    {
        const int64_t length = (n + MP_GRID_THREADS - 1) / MP_GRID_THREADS, first = thread * length;
        const int64_t end = first + length < n ? first + length : n;
        if (phase == 0) {
            int64_t count = 0;
            for (int64_t k = first; k < end; k++) count += condition[k] != 0;
            shared.begin[thread] = count;
        } else if (phase == 1) {
            if (thread) return;
            int64_t sum = 0;
            for (int t = 0; t < MP_GRID_THREADS; t++) {
                const int64_t own = shared.begin[t];
                shared.begin[t] = sum;
                sum += own;
            }
            shared.begin[MP_GRID_THREADS] = sum;
        } else {
            int64_t at = shared.begin[thread];
            for (int64_t k = first; k < end && at < n_wanted; k++)
                if (condition[k]) list[at++] = k;
            for (int64_t k = shared.begin[MP_GRID_THREADS] + thread; k < n_wanted; k += MP_GRID_THREADS) list[k] = INT64_MIN;
        }
    }
};

} // namespace

void mp_cuda_list_true(const mp_array *condition, int64_t n, const mp_array *list)
{
    const int64_t there = mp_array_elements(condition);
    mp_each_block(
        1, true_ones{(const uint8_t *)condition->data, there < n ? there : n, mp_array_elements(list), (int64_t *)list->data});
}

/* ---- radix sort of index entries by row, starting with the lowest digit. Each pass counts the entries of each digit per
 * block, computes prefix sums of the counts, and moves the entries. Entries with equal digits keep their order. */

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

/* One pass of the radix sort over one digit. `count` counts a thread's entries by their digit; the kernels counts_of and
 * places_of use it. */
struct pass {
    const uint64_t *from;
    int64_t n, n_blocks;
    int shift;
    /* per digit and block: number of index entries with this digit; after the kernel sums_of, the position of the first of
     * them */
    uint32_t *counts;

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

/* Replaces each count by the sum of all previous counts, in one thread block. */
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

int64_t mp_cuda_rows_sort_workspace_bytes(const mp_row_entries *rows)
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
