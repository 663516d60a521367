/* index_plan.h - plans how elements of a table are read or written by indices whose values are known only when a step runs,
 * for every backend.
 *
 * Two plans cover all operators. Rows: entry k of a list names a row of a table (Gather, GatherND, ScatterND, Compress,
 * MaxUnpool). Elements: every element of another array has its own index along one axis of the table (GatherElements,
 * ScatterElements). Picking copies named elements from the table to the other array. Reducing combines the other array's
 * elements with those that they name, in their order, so results do not depend on the number of threads.
 */
#pragma once

#include "executor/kernel/body.h"
#include "executor/operators/copies/box.h"

/* How an element of the table is combined with an element of the other array that names it. */
typedef enum mp_index_reduction {
    MP_INDEX_SET,
    MP_INDEX_ADD,
    MP_INDEX_MULTIPLY,
    MP_INDEX_MAX,
    MP_INDEX_MIN
} mp_index_reduction;

/* Returns a, the table's element of type T, reduced with b. U: the unsigned type in which sums and products of integers wrap,
 * else T. A NaN on either side gives a NaN, except that SET takes b. */
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

/* Dimensions and strides of one array. mp_grid_place returns the offset of an element, counted row-major over them. */
typedef struct mp_grid {
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
} mp_grid;

MP_INLINE int64_t mp_grid_place(const mp_grid *g, int64_t index)
{
    return mp_strided_place(g->rank, g->dims, g->strides, index);
}

typedef struct mp_row_entries {
    mp_grid named;   /* dimensions of the table that count rows */
    mp_grid entries; /* dimensions of the other array that count entries */
    int first;       /* number of leading coordinates of a row that are those of the entry's batch; the others are read */
    int64_t n_rows, n_entries;
    int ranks; /* > 1: that have as many rows of the table each; what names another's row picks zeros, and adds nothing */
    int64_t per_batch; /* entries of a batch */
    int read_rank;     /* number of coordinates that are read per entry */
    int64_t read_dims[MP_ARRAY_RANK];
    mp_box frame; /* the elements of one row, settled; from: the table, to: the other array */
} mp_row_entries;

/* Flags: what a run does with the table. */
enum { MP_INDEX_PICKS = 1, MP_INDEX_REDUCES = 2, MP_INDEX_CLEARS = 4 };

typedef struct mp_indexer mp_indexer;
typedef struct mp_index_plan {
    const mp_indexer *by;
    bool by_rows;      /* true: indices name rows; false: elements */
    bool by_condition; /* true: the entries are the rows for which a condition is true */
    bool puts_back;    /* true: forward reduces and backward picks; false: the other way round */
    int axis;          /* by elements: the axis along which indices count */
    int uses;          /* flags MP_INDEX_PICKS, ... */
    mp_index_reduction how;
    int64_t sums_bytes; /* bytes of a BFLOAT16 table as FLOAT, in which sums are computed and rounded once; else 0 */
    mp_row_entries rows;
} mp_index_plan;

/* One run of a plan. */
typedef struct mp_indexing {
    const mp_index_plan *plan;
    const mp_operands *x;
    mp_array indices;
    void *room;             /* workspace of as many bytes as mp_indexer.room returns */
    const uint64_t *sorted; /* the CPU's list of entries sorted by row; NULL: not sorted yet */
    mp_row_entries read;    /* the plan's, with as many entries as the CPU's list has */
} mp_indexing;

/* A backend's functions that run a plan. A table must have the layout that the plan was made for; its type may differ. */
struct mp_indexer {
    int64_t (*room)(const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype);
    /* Called before all others. MP_INVALID: an index is outside of its axis. The GPU does not check it: there such an index
     * reads zero and writes nothing. */
    mp_status (*read)(mp_indexing *r, mp_error *err);
    /* pick: other = table[index]; reduce: reduces table[index] with other; clear: table[index] = 0. By elements, `other`
     * has the shape of the indices. */
    void (*pick)(const mp_indexing *r, const mp_array *table, const mp_array *other);
    void (*reduce)(mp_indexing *r, mp_index_reduction how, const mp_array *table, const mp_array *other);
    void (*clear)(mp_indexing *r, const mp_array *table);
    /* copy: copies all elements to the same indices of an array of the same type; zero: sets all elements to zero. */
    void (*copy)(const mp_array *from, const mp_array *to);
    void (*zero)(const mp_array *to);
    mp_body_loop step;                /* over mp_scatter_step_item (scatters.h) */
    mp_status (*done)(mp_error *err); /* called at the end of a run. MP_IO: a launch failed */
    bool reduces_doubles;
};

/* MP_UNSUPPORTED: an operand is packed or has elements of less than a byte, the indices (input `indices`; -1: there are none)
 * are not INT64 or INT32 and row-major, or a gradient is neither FLOAT nor BFLOAT16. */
mp_status mp_indices_check(const mp_operands *x, int indices, mp_error *err);
/* Describes the rows of a table that indices name along one axis; dimensions [axis, axis + n_entry_dims) of `other` count the
 * entries. MP_UNSUPPORTED: more than UINT32_MAX rows or entries. */
mp_status mp_rows_along(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, int n_entry_dims,
                        mp_row_entries *rows, mp_error *err);
/* The same for rows that tuples of `length` indices name, behind the first `batch` dimensions of the table. */
mp_status mp_rows_by_tuple(const mp_operands *x, const mp_array *table, const mp_array *other, int batch, int length,
                           int n_entry_dims, mp_row_entries *rows, mp_error *err);

/* Changes the rows so that each entry names its row by one index, which counts all rows. */
static inline void mp_rows_by_number(mp_row_entries *rows)
{
    rows->first = 0;
    rows->read_rank = 1;
    rows->read_dims[0] = rows->n_rows;
    rows->per_batch = rows->n_entries;
}

/* Returns the bytes of a list of entries, one 64-bit word each: row << 32 | entry. */
static inline int64_t mp_rows_list_bytes(const mp_row_entries *rows)
{
    return rows->n_entries * (int64_t)sizeof(uint64_t);
}

/* Checks operands of a plan by elements. MP_INVALID: `other` does not have the shape of the indices, or the indices differ
 * from the table in rank, or exceed it in a dimension other than the axis. */
mp_status mp_index_elements_check(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, mp_error *err);

/* Reserves the indexer's memory behind the call's workspace so far, and sets *at to its offset. MP_INVALID: too much. */
mp_status mp_index_plan_room(const mp_operands *x, const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype,
                             mp_call *call, int64_t *at, mp_error *err);

/* X(name) for each operator of gathers.h and scatters.h; with MP_INDEX_KERNEL it defines the prepare functions of a backend
 * that has an `indexer`. MP_INDEX_ROWS is their rows of its table. */
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
