/* gathers.h - picking and placing elements by indices that are known when a step runs. The descriptions are the same
 * for every backend. Private to backends.
 *
 * Two forms cover all of it. Rows: entry k of a list belongs to a row of a table (Gather, GatherND, ScatterND, Compress); where
 * several entries meet in one row they are sorted by row and then entry, and each row is brought up to date in that order by
 * one thread. Lines: every element has its own index along one axis (GatherElements, ScatterElements); each line along the axis
 * belongs to one thread, which walks it from its beginning. Sums of bfloat16 are made in float. So neither depends on the
 * number of threads.
 */
#ifndef EXECUTOR_CPU_GATHERS_H
#define EXECUTOR_CPU_GATHERS_H

#include "executor/cpu/moves/strided_copy.h"
#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* What happens where an entry meets an element of the table. */
typedef enum mp_meeting { MP_MEET_SET, MP_MEET_ADD, MP_MEET_MULTIPLY, MP_MEET_MAX, MP_MEET_MIN } mp_meeting;

/* Dimensions of one side, and their strides; an index over all of them is unravelled to a place. */
typedef struct mp_grid {
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
} mp_grid;

MP_INLINE int64_t mp_grid_place(const mp_grid *g, int64_t index)
{
    int64_t at = 0;
    for (int d = g->rank - 1; d > 0; d--) {
        at += index % g->dims[d] * g->strides[d];
        index /= g->dims[d];
    }
    return g->rank ? at + index * g->strides[0] : 0;
}

typedef struct mp_row_entries {
    mp_grid named;   /* of the table: an index over it is a row */
    mp_grid entries; /* of the other array */
    int first;       /* coordinates that an entry's place in its batch gives; the rest are read */
    int64_t n_rows, n_entries;
    int64_t per_batch; /* entries */
    int read_rank;     /* how many coordinates are read per entry */
    int64_t read_dims[MP_ARRAY_RANK];
    mp_box frame; /* one row, settled; from: the table, to: the other array */
} mp_row_entries;

/* Rows that indices name along one axis: dimensions [axis, axis + rank of indices) of `other` are the entries. */
mp_status mp_rows_along(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, int n_entry_dims,
                        mp_row_entries *rows, mp_error *err);
/* Rows that tuples of `length` indices name behind `batch` dimensions of the table. */
mp_status mp_rows_by_tuple(const mp_operands *x, const mp_array *table, const mp_array *other, int batch, int length,
                           int n_entry_dims, mp_row_entries *rows, mp_error *err);

/* Entries then name their row by one index, which counts all rows. */
static inline void mp_rows_by_number(mp_row_entries *rows)
{
    rows->first = 0;
    rows->read_rank = 1;
    rows->read_dims[0] = rows->n_rows;
    rows->per_batch = rows->n_entries;
}

/* A list of entries, packed: row << 32 | entry. */
int64_t mp_rows_list_bytes(const mp_row_entries *rows);   /* in the order of entries */
int64_t mp_rows_sorted_bytes(const mp_row_entries *rows); /* sorted by row: twice the room */
/* Reads the indices (INT64 or INT32, dense). MP_INVALID names the index that lies outside. */
mp_status mp_rows_read(const mp_row_entries *rows, const mp_operands *x, const mp_array *indices, uint64_t *list,
                       mp_error *err);
/* Sorts a list that has room behind it; the sorted list, in one of the two places. */
const uint64_t *mp_rows_sort(const mp_row_entries *rows, uint64_t *list);

/* other[entry] = table[row]. */
void mp_rows_gather(const mp_row_entries *rows, const uint64_t *list, int size, const void *table, void *other);
/* table[row] meets other[entry], over a sorted list. With `other` NULL rows are set to zero. */
void mp_rows_meet(const mp_row_entries *rows, const uint64_t *sorted, mp_meeting how, mp_dtype dtype, void *table,
                  const void *other);

/* Lines: every element of `other`, which has the dims of the indices, has its own index into the table along the axis. */
typedef struct mp_index_lines {
    const mp_array *table, *other, *indices;
    int axis;
} mp_index_lines;
/* Whether all indices lie inside; MP_INVALID. */
mp_status mp_lines_check(const mp_index_lines *lines, const mp_operands *x, mp_error *err);
void mp_lines_gather(const mp_index_lines *lines);               /* other = table[index] */
void mp_lines_meet(const mp_index_lines *lines, mp_meeting how); /* table[index] meets other */
void mp_lines_clear(const mp_index_lines *lines);                /* table[index] = 0; other only gives the shape */

/* "none", "add", ... of a scatter operator. False: no such word. */
bool mp_meeting_of(const mp_operator *op, mp_meeting *how);
/* Whether entries of this type can meet so. */
bool mp_meeting_knows(mp_meeting how, mp_dtype dtype);
/* into[k * stride] meets values[k], for k < n; any type that can meet, of any stride. */
void mp_meet(mp_meeting how, mp_dtype dtype, int64_t n, void *into, int64_t into_at, int64_t into_stride, const void *values,
             int64_t at, int64_t stride);

/* What an update makes of an element; U: unsigned where sums may wrap. A not-a-number on either side stays one. */
#define MP_MEET(how, T, U, a, b)                                         \
    ((how) == MP_MEET_SET        ? (b)                                   \
     : (how) == MP_MEET_ADD      ? (T)((U)(a) + (U)(b))                  \
     : (how) == MP_MEET_MULTIPLY ? (T)((U)(a) * (U)(b))                  \
     : (how) == MP_MEET_MAX      ? ((a) > (b) || (a) != (a) ? (a) : (b)) \
                                 : ((a) < (b) || (a) != (a) ? (a) : (b)))

/* Index k of a dense list of INT64 or INT32. */
MP_INLINE int64_t mp_index_of(const void *indices, mp_dtype dtype, int64_t k)
{
    return dtype == MP_DTYPE_INT64 ? ((const int64_t *)indices)[k] : ((const int32_t *)indices)[k];
}
static inline int64_t mp_index_at(const mp_array *indices, int64_t k)
{
    return mp_index_of(indices->data, indices->dtype, k);
}

/* What the rows below prepare: `state` of their calls. Gather, GatherND, Compress, MaxUnpool: */
typedef struct mp_pick {
    mp_row_entries rows;
    bool by_condition;
} mp_pick;

/* Scatter, ScatterElements, ScatterND: */
typedef struct mp_scatter {
    mp_meeting how;
    int axis; /* of lines */
    bool by_rows;
    mp_row_entries rows;
    int64_t rescue_at[3]; /* where in the workspace an operand is saved that may lie where the output will; -1: it cannot */
} mp_scatter;

/* Operand i; its data lies in the workspace, where the caller copies it to, if the output is about to overwrite it. */
static inline mp_array mp_scatter_operand(const mp_scatter *s, const mp_operands *x, int i)
{
    mp_array a = x->in[i];
    if (s->rescue_at[i] >= 0 && a.data == x->out[0].data) a.data = (char *)x->workspace + s->rescue_at[i];
    return a;
}

mp_status mp_prepare_gather(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_gather_nd(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_compress(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_gather_elements(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_scatter_nd(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_scatter_elements(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_one_hot(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_reverse_sequence(const mp_operands *x, mp_call *call, mp_error *err);

/* What all of them ask of their operands: whole bytes, strides, indices of a type that can be read (input `indices`; -1: none),
 * float gradients. */
mp_status mp_check_picking(const mp_operands *x, int indices, mp_error *err);

#endif
