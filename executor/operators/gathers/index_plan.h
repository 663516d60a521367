/* index_plan.h - describes reads and writes of a table's elements by index, for every backend. The values of the indices are
 * known only at run time.
 *
 * Two kinds of description (mp_index_plan) cover all operators. Rows: entry k of a list selects a row of a table (Gather,
 * GatherND, ScatterND, Compress, MaxUnpool). Elements: every element of the array `other` has its own index along one axis of
 * the table (GatherElements, ScatterElements). `other` contains the gathered elements, or the updates. Picking copies the
 * selected elements from the table to `other`. Reducing combines each selected element of the table with the elements of
 * `other` that select it. The order of these elements is fixed, so results do not depend on the number of threads. */
#pragma once

#include "executor/kernel/body.h"
#include "executor/operators/copies/box.h"

/* The operation that combines an element of the table with an element of `other` (an update). */
typedef enum mp_index_reduction {
    MP_INDEX_SET,
    MP_INDEX_ADD,
    MP_INDEX_MULTIPLY,
    MP_INDEX_MAX,
    MP_INDEX_MIN
} mp_index_reduction;

/* Returns the combination of a, an element of the table of type T, and b. For integers, U is the unsigned type of the same
 * size, so that sums and products wrap around; otherwise U is T. A NaN on either side gives a NaN, except that SET returns b.
 */
#define MP_INDEX_REDUCE(how, T, U, a, b)                                  \
    ((how) == MP_INDEX_SET        ? (b)                                   \
     : (how) == MP_INDEX_ADD      ? (T)((U)(a) + (U)(b))                  \
     : (how) == MP_INDEX_MULTIPLY ? (T)((U)(a) * (U)(b))                  \
     : (how) == MP_INDEX_MAX      ? ((a) > (b) || (a) != (a) ? (a) : (b)) \
                                  : ((a) < (b) || (a) != (a) ? (a) : (b)))

/* Returns index k of a dense list of INT64 or INT32. */
MP_INLINE int64_t mp_index_of(const void *indices, mp_dtype dtype, int64_t k)
{
    return dtype == MP_DTYPE_INT64 ? ((const int64_t *)indices)[k] : ((const int32_t *)indices)[k];
}
static inline int64_t mp_index_at(const mp_array *indices, int64_t k)
{
    return mp_index_of(indices->data, indices->dtype, k);
}

/* Dimensions and strides of one array. mp_grid_offset returns the offset of an element, counted row-major. */
typedef struct mp_grid {
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
} mp_grid;

MP_INLINE int64_t mp_grid_offset(const mp_grid *g, int64_t index)
{
    return mp_strided_offset(g->rank, g->dims, g->strides, index);
}

typedef struct mp_row_entries {
    mp_grid named; /* the dimensions of the table whose coordinates select a row */
    /* the dimensions of the array `other` (gathered rows or updates) whose coordinates number the index entries */
    mp_grid entries;
    /* number of leading coordinates of a row that equal the batch coordinates of the index entry; all further coordinates are
     * read from the indices */
    int first;
    int64_t n_rows, n_entries;
    /* if > 1: number of ranks that hold parts of equal size of the table's rows. An index entry for another rank's row picks
     * zeros and adds nothing */
    int ranks;
    int64_t per_batch; /* number of index entries per combination of batch coordinates */
    int read_rank;     /* number of indices read per index entry; read_dims: the sizes of the indexed dimensions */
    int64_t read_dims[MP_ARRAY_RANK];
    /* the elements of one row as a box: from[] has the strides of the table, to[] the strides of `other` */
    mp_box frame;
} mp_row_entries;

/* Flags: a function copies rows from the table (PICKS), combines rows into it (REDUCES), or sets elements to zero (CLEARS). */
enum { MP_INDEX_PICKS = 1, MP_INDEX_REDUCES = 2, MP_INDEX_CLEARS = 4 };

typedef struct mp_indexer mp_indexer;
typedef struct mp_index_plan {
    const mp_indexer *by;
    bool by_rows;      /* true: indices select rows of the table; false: indices select elements */
    bool by_condition; /* true: the index entries are the rows whose condition is true */
    bool puts_back;    /* true: forward reduces and backward picks; false: forward picks and backward reduces */
    int axis;          /* for plans by elements: the axis of the table along which the indices count */
    int uses;          /* the uses of the table: a combination of MP_INDEX_PICKS, ... */
    mp_index_reduction how;
    int64_t sums_bytes; /* bytes of a FLOAT copy of a BFLOAT16 table, in which sums are computed before rounding once; else 0 */
    mp_row_entries rows;
} mp_index_plan;

/* One execution of a call whose state is an mp_index_plan. */
typedef struct mp_indexing {
    const mp_index_plan *plan;
    const mp_operands *x;
    mp_array indices;
    /* memory in the workspace for the backend's indexer; its size is the result of the indexer's function `room` */
    void *room;
    const uint64_t *sorted; /* the CPU's list of index entries after sorting by row; NULL: not sorted yet */
    mp_row_entries read;    /* a copy of plan->rows, in which n_entries is the number of entries in the CPU's list */
} mp_indexing;

/* The functions with which a backend runs an mp_index_plan. The indexed tensor must have the
 * dimensions and strides of the mp_index_plan; its element type may differ. */
struct mp_indexer {
    int64_t (*room)(const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype);
    /* Called before all other functions. MP_INVALID: an index is outside of its axis. The GPU does not check this; such an
     * index then reads zero and writes nothing. */
    mp_status (*read)(mp_indexing *r, mp_error *err);
    /* pick: other = table[index]; reduce: combines table[index] with other; clear: table[index] = 0. In plans by elements,
     * `other` has the shape of the indices. */
    void (*pick)(const mp_indexing *r, const mp_array *table, const mp_array *other);
    void (*reduce)(mp_indexing *r, mp_index_reduction how, const mp_array *table, const mp_array *other);
    void (*clear)(mp_indexing *r, const mp_array *table);
    /* copy: copies all elements to an array of the same type and shape; zero: sets all elements to zero. */
    void (*copy)(const mp_array *from, const mp_array *to);
    void (*zero)(const mp_array *to);
    mp_body_loop step;                /* loop over mp_scatter_step_item (scatters.h) */
    mp_status (*done)(mp_error *err); /* called after all other functions of an execution of the call. MP_IO: a launch failed */
    bool reduces_doubles;
};

/* Checks the operands of an operator with indices. MP_UNSUPPORTED: an operand is packed or has elements of less than a byte,
 * the indices (input `indices`; -1: none) are not INT64 or INT32 and row-major, or a gradient is neither FLOAT nor BFLOAT16. */
mp_status mp_indices_check(const mp_operands *x, int indices, mp_error *err);
/* Describes the rows of a table that indices select along one axis. Dimensions [axis, axis + n_entry_dims) of `other` number
 * the entries. MP_UNSUPPORTED: more than UINT32_MAX rows or entries. */
mp_status mp_rows_along(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, int n_entry_dims,
                        mp_row_entries *rows, mp_error *err);
/* As mp_rows_along, for rows selected by tuples of `length` indices, after the first `batch` dimensions of the table. */
mp_status mp_rows_by_tuple(const mp_operands *x, const mp_array *table, const mp_array *other, int batch, int length,
                           int n_entry_dims, mp_row_entries *rows, mp_error *err);

/* Changes the rows so that each index entry selects its row by a single index over all rows. */
static inline void mp_rows_by_number(mp_row_entries *rows)
{
    rows->first = 0;
    rows->read_rank = 1;
    rows->read_dims[0] = rows->n_rows;
    rows->per_batch = rows->n_entries;
}

/* Returns the bytes of a list of index entries, one 64-bit word each: row << 32 | entry. */
static inline int64_t mp_rows_list_bytes(const mp_row_entries *rows)
{
    return rows->n_entries * (int64_t)sizeof(uint64_t);
}

/* Checks the operands of a plan by elements. MP_INVALID: `other` does not have the shape of the indices, or the indices differ
 * from the table in rank or exceed it in a dimension other than the axis. */
mp_status mp_index_elements_check(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, mp_error *err);

/* Extends the call's workspace by the memory that the indexer needs, and sets *at to the offset of this memory. MP_INVALID:
 * the workspace is too large. */
mp_status mp_index_plan_workspace(const mp_operands *x, const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype,
                                  mp_call *call, int64_t *at, mp_error *err);

/* X(name) for each operator of gathers.h and scatters.h. With MP_INDEX_KERNEL, it defines the prepare functions of a backend
 * that has an `indexer`. MP_INDEX_ROWS are the rows of the backend's table. */
#define MP_INDEX_KERNELS(X) \
    X(gather)               \
    X(gather_nd)            \
    X(gather_elements)      \
    X(compress)             \
    X(max_unpool)           \
    X(scatter_elements)     \
    X(scatter_nd)
#define MP_INDEX_KERNEL(name)                                                 \
    static mp_status name(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                         \
        return mp_##name##_prepare(x, call, &indexer, err);                   \
    }
#define MP_INDEX_ROWS                                                                                           \
    {"Gather", "", gather, gather}, {"GatherND", "", gather_nd, gather_nd},                                     \
        {"GatherElements", "", gather_elements, gather_elements}, {"Compress", "", compress, compress},         \
        {"MaxUnpool", "", max_unpool, max_unpool}, {"Scatter", "", scatter_elements, scatter_elements},         \
        {"ScatterElements", "", scatter_elements, scatter_elements}, {"ScatterND", "", scatter_nd, scatter_nd}, \
        {"ScatterElements", "memplan", scatter_elements, scatter_elements}, {"ScatterND", "memplan", scatter_nd, scatter_nd},
