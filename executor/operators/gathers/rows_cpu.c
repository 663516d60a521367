/* rows_cpu.c - reads and sorts a list of entries, copies the selected rows of a table, and reduces rows with entries. */
#include "executor/operators/gathers/rows_cpu.h"

#include <inttypes.h>
#include <string.h>

#include "executor/cpu/base/parallel.h"
#include "executor/operators/copies/copies_cpu.h"

enum { DIGIT = 11, ITEM = 1 << 14 };

mp_status mp_cpu_rows_read(const mp_row_entries *rows, const mp_operands *x, const mp_array *indices, uint64_t *list,
                           int64_t *n_read, mp_error *err)
{
    const int64_t ranks = rows->ranks > 1 ? rows->ranks : 1;
    *n_read = 0;
    for (int64_t k = 0; k < rows->n_entries; k++) {
        int64_t row = rows->first ? k / rows->per_batch : 0;
        for (int d = 0; d < rows->read_rank; d++) {
            int64_t index = mp_index_at(indices, k * rows->read_rank + d), n = rows->read_dims[d] * ranks;
            if (index < -n || index >= n)
                return MP_FAIL(err, MP_INVALID, "%s ('%s'): index %" PRId64 " is outside an axis of %" PRId64 " elements",
                               x->op->kind, x->op->name, index, n);
            row = row * n + (index < 0 ? index + n : index);
        }
        if (ranks > 1) row -= x->run.group->index * rows->n_rows;
        if (row >= 0 && row < rows->n_rows) list[(*n_read)++] = (uint64_t)row << 32 | (uint64_t)k;
    }
    return MP_OK;
}

/* Sorts the list by a radix sort over the digits of the row number, the lowest digit first. */
const uint64_t *mp_cpu_rows_sort(const mp_row_entries *rows, uint64_t *list)
{
    uint64_t *from = list, *to = list + rows->n_entries;
    int64_t start[1 << DIGIT];
    for (int shift = 32; (uint64_t)(rows->n_rows - 1) >> (shift - 32); shift += DIGIT) {
        const uint64_t mask = (1 << DIGIT) - 1;
        memset(start, 0, sizeof start);
        for (int64_t k = 0; k < rows->n_entries; k++) start[from[k] >> shift & mask]++;
        for (int64_t d = 0, sum = 0; d < 1 << DIGIT; d++) {
            int64_t n = start[d];
            start[d] = sum;
            sum += n;
        }
        for (int64_t k = 0; k < rows->n_entries; k++) to[start[from[k] >> shift & mask]++] = from[k];
        uint64_t *t = from;
        from = to;
        to = t;
        if (shift + DIGIT >= 64) break;
    }
    return from;
}

typedef struct copying {
    const mp_row_entries *rows;
    const uint64_t *list;
    const char *table;
    char *other;
    int size;
    int64_t per_item, run;
} copying;

static const char *row_of(const copying *x, uint64_t packed)
{
    return x->table + mp_grid_offset(&x->rows->named, (int64_t)(packed >> 32)) * x->size;
}
static char *entry_of(const copying *x, uint64_t packed)
{
    return x->other + mp_grid_offset(&x->rows->entries, (int64_t)(uint32_t)packed) * x->size;
}

/* Copies a block of index entries one after the other; each copies a whole row of the table. */
static void copy_entries(void *data, int64_t item)
{
    const copying *x = data;
    for (int64_t k = item * x->per_item; k < (item + 1) * x->per_item && k < x->rows->n_entries; k++) {
        if (x->run)
            memcpy(entry_of(x, x->list[k]), row_of(x, x->list[k]), (size_t)x->run);
        else
            mp_box_copy_settled(&x->rows->frame, x->size, row_of(x, x->list[k]), entry_of(x, x->list[k]));
    }
}

#define COPY_PICKED(T)                                                                                              \
    static void copy_picked_##T(const mp_row_entries *r, const uint64_t *list, const T *from, T *to)                \
    {                                                                                                               \
        int64_t row = r->named.rank ? r->named.strides[0] : 0, entry = r->entries.rank ? r->entries.strides[0] : 0; \
        for (int64_t k = 0; k < r->n_entries; k++)                                                                  \
            to[(int64_t)(uint32_t)list[k] * entry] = from[(int64_t)(list[k] >> 32) * row];                          \
    }
COPY_PICKED(uint8_t)
COPY_PICKED(uint16_t)
COPY_PICKED(uint32_t)
COPY_PICKED(uint64_t)

/* For tables whose rows are not contiguous: copies the first element of the rows of all index entries, then the second element,
 * and so on. */
static void copy_places(void *data, int64_t item)
{
    const copying *x = data;
    const mp_box *frame = &x->rows->frame;
    int64_t n = mp_box_elements(frame);
    for (int64_t place = item * x->per_item; place < (item + 1) * x->per_item && place < n; place++) {
        const char *table = x->table + mp_strided_offset(frame->rank, frame->dims, frame->from, place) * x->size;
        char *other = x->other + mp_strided_offset(frame->rank, frame->dims, frame->to, place) * x->size;
        switch (x->size) {
        case 1:
            copy_picked_uint8_t(x->rows, x->list, (const void *)table, (void *)other);
            break;
        case 2:
            copy_picked_uint16_t(x->rows, x->list, (const void *)table, (void *)other);
            break;
        case 4:
            copy_picked_uint32_t(x->rows, x->list, (const void *)table, (void *)other);
            break;
        default:
            copy_picked_uint64_t(x->rows, x->list, (const void *)table, (void *)other);
        }
    }
}

void mp_cpu_rows_pick(const mp_row_entries *rows, const uint64_t *list, int size, const void *table, void *other)
{
    const mp_box *frame = &rows->frame;
    int last = frame->rank - 1;
    int64_t n = mp_box_elements(frame);
    copying x = {.rows = rows, .list = list, .table = table, .other = other, .size = size};
    if (!n || !rows->n_entries) return;
    bool contiguous = n == 1 || (frame->from[last] == 1 && frame->to[last] == 1);
    if (contiguous && n == frame->dims[last]) x.run = n * size;
    if (n >= ITEM && rows->n_entries < 16) {
        for (int64_t k = 0; k < rows->n_entries; k++) mp_box_copy(frame, size, row_of(&x, list[k]), entry_of(&x, list[k]));
    } else if (contiguous || rows->named.rank > 1 || rows->entries.rank > 1) {
        x.per_item = n < ITEM ? ITEM / n : 1;
        mp_parallel((rows->n_entries + x.per_item - 1) / x.per_item, x.per_item * n, copy_entries, &x);
    } else {
        x.per_item = rows->n_entries < ITEM ? ITEM / rows->n_entries : 1;
        mp_parallel((n + x.per_item - 1) / x.per_item, x.per_item * rows->n_entries, copy_places, &x);
    }
}

#define REDUCE(T, U)                                                                                                       \
    static void reduce_##T(mp_index_reduction how, int64_t n, T *into, int64_t into_stride, const T *from, int64_t stride) \
    {                                                                                                                      \
        for (int64_t k = 0; k < n; k++) {                                                                                  \
            T *a = &into[k * into_stride], b = from[k * stride];                                                           \
            *a = MP_INDEX_REDUCE(how, T, U, *a, b);                                                                        \
        }                                                                                                                  \
    }
REDUCE(float, float)
REDUCE(double, double)
REDUCE(int64_t, uint64_t)
REDUCE(int32_t, uint32_t)
REDUCE(int8_t, uint32_t)
REDUCE(uint8_t, uint32_t)

void mp_cpu_reduce(mp_index_reduction how, mp_dtype dtype, int64_t n, void *into, int64_t into_at, int64_t into_stride,
                   const void *values, int64_t at, int64_t stride)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT:
        reduce_float(how, n, (float *)into + into_at, into_stride, (const float *)values + at, stride);
        break;
    case MP_DTYPE_DOUBLE:
        reduce_double(how, n, (double *)into + into_at, into_stride, (const double *)values + at, stride);
        break;
    case MP_DTYPE_INT64:
        reduce_int64_t(how, n, (int64_t *)into + into_at, into_stride, (const int64_t *)values + at, stride);
        break;
    case MP_DTYPE_INT32:
        reduce_int32_t(how, n, (int32_t *)into + into_at, into_stride, (const int32_t *)values + at, stride);
        break;
    case MP_DTYPE_INT8:
        reduce_int8_t(how, n, (int8_t *)into + into_at, into_stride, (const int8_t *)values + at, stride);
        break;
    case MP_DTYPE_UINT8:
        reduce_uint8_t(how, n, (uint8_t *)into + into_at, into_stride, (const uint8_t *)values + at, stride);
        break;
    default:
        for (int64_t k = 0; k < n; k++) {
            float a_room, b_room, a = *mp_floats(into, dtype, into_at + k * into_stride, 1, &a_room);
            reduce_float(how, 1, &a, 1, mp_floats(values, dtype, at + k * stride, 1, &b_room), 1);
            mp_floats_done(into, dtype, into_at + k * into_stride, 1, &a);
        }
    }
}

/* ---- reducing. The list of entries, sorted by row, is split into pieces. The thread of the piece with the first entry of a
 * row combines all entries of the row. */
enum { PIECE = 32, COLUMNS = 256 };
typedef struct reducing {
    const mp_row_entries *rows;
    const uint64_t *list;
    mp_index_reduction how;
    mp_dtype dtype;
    char *table;
    const char *other;
    int size;
    int64_t columns; /* number of blocks into which the innermost dimension of a row is divided, COLUMNS elements each */
    int64_t n_outer, pieces;
} reducing;

static float *load(const reducing *x, const void *data, int64_t at, int64_t stride, int64_t n, float *room)
{
    if (stride == 1) {
        const float *lie = mp_floats(data, x->dtype, at, n, room);
        if (lie != room) memcpy(room, lie, (size_t)n * sizeof *room);
    } else {
        for (int64_t k = 0; k < n; k++) room[k] = *mp_floats(data, x->dtype, at + k * stride, 1, &(float){0});
    }
    return room;
}

static void store(const reducing *x, int64_t at, int64_t stride, int64_t n, const float *values)
{
    if (x->dtype == MP_DTYPE_FLOAT)
        for (int64_t k = 0; k < n; k++) ((float *)x->table)[at + k * stride] = values[k];
    else if (stride == 1)
        mp_floats_done(x->table, x->dtype, at, n, values);
    else
        for (int64_t k = 0; k < n; k++) mp_floats_done(x->table, x->dtype, at + k * stride, 1, &values[k]);
}

MP_VECTOR static void add_to(const float *values, int64_t n, float *sums)
{
    for (int64_t k = 0; k < n; k++) sums[k] += values[k];
}

/* Combines n elements of a row of the table with the corresponding elements of the index entries list[first..last). Sums are
 * computed in float and rounded once. */
static void reduce_row(const reducing *x, int64_t first, int64_t last, int64_t table, int64_t other, int64_t n)
{
    static const uint64_t zero = 0;
    const mp_box *frame = &x->rows->frame;
    /* strides of the elements of a row: `to` in the table, `from` in the array of updates */
    int64_t to = frame->from[frame->rank - 1], from = frame->to[frame->rank - 1];
    float sums[COLUMNS], room[COLUMNS];
    if (x->how == MP_INDEX_SET) {
        int64_t entry = other + mp_grid_offset(&x->rows->entries, (int64_t)(uint32_t)x->list[last - 1]);
        mp_plane row = {1, n, 0, x->other ? from : 0, 0, to};
        mp_plane_copy(&row, x->size, x->other ? x->other + entry * x->size : (const char *)&zero, x->table + table * x->size);
    } else if (x->how == MP_INDEX_ADD && (x->dtype == MP_DTYPE_FLOAT || x->dtype == MP_DTYPE_BFLOAT16)) {
        /* if the row's elements are contiguous floats, they are summed in the table itself */
        bool straight = to == 1 && x->dtype == MP_DTYPE_FLOAT;
        float *row = straight ? (float *)x->table + table : load(x, x->table, table, to, n, sums);
        for (int64_t k = first; k < last; k++) {
            int64_t entry = other + mp_grid_offset(&x->rows->entries, (int64_t)(uint32_t)x->list[k]);
            if (from == 1)
                add_to(mp_floats(x->other, x->dtype, entry, n, room), n, row);
            else
                add_to(load(x, x->other, entry, from, n, room), n, row);
        }
        if (!straight) store(x, table, to, n, sums);
    } else {
        for (int64_t k = first; k < last; k++)
            mp_cpu_reduce(x->how, x->dtype, n, x->table, table, to, x->other,
                          other + mp_grid_offset(&x->rows->entries, (int64_t)(uint32_t)x->list[k]), from);
    }
}

static void reduce_piece(void *data, int64_t item)
{
    const reducing *x = data;
    const mp_box *frame = &x->rows->frame;
    int inner = frame->rank - 1;
    int64_t piece = item % x->pieces, column = item / x->pieces % x->columns * COLUMNS, rest = item / x->pieces / x->columns;
    int64_t n = frame->dims[inner] - column < COLUMNS ? frame->dims[inner] - column : COLUMNS;
    int64_t table = column * frame->from[inner], other = column * frame->to[inner], n_entries = x->rows->n_entries;
    table += mp_strided_offset(inner, frame->dims, frame->from, rest);
    other += mp_strided_offset(inner, frame->dims, frame->to, rest);
    int64_t end = (piece + 1) * PIECE < n_entries ? (piece + 1) * PIECE : n_entries, k = piece * PIECE;
    while (k > 0 && k < end && x->list[k] >> 32 == x->list[k - 1] >> 32) k++;
    while (k < end) {
        int64_t first = k++;
        while (k < n_entries && x->list[k] >> 32 == x->list[first] >> 32) k++;
        reduce_row(x, first, k, table + mp_grid_offset(&x->rows->named, (int64_t)(x->list[first] >> 32)), other, n);
    }
}

void mp_cpu_rows_reduce(const mp_row_entries *rows, const uint64_t *sorted, mp_index_reduction how, mp_dtype dtype, void *table,
                        const void *other)
{
    const mp_box *frame = &rows->frame;
    reducing x = {.rows = rows, .list = sorted, .how = how, .dtype = dtype, .table = table, .other = other};
    int64_t n = mp_box_elements(frame);
    if (!n || !rows->n_entries) return;
    x.size = mp_dtype_bits(dtype) / 8;
    x.columns = (frame->dims[frame->rank - 1] + COLUMNS - 1) / COLUMNS;
    x.n_outer = n / frame->dims[frame->rank - 1];
    x.pieces = (rows->n_entries + PIECE - 1) / PIECE;
    mp_parallel(x.n_outer * x.columns * x.pieces, PIECE * (frame->dims[frame->rank - 1] / x.columns), reduce_piece, &x);
}
