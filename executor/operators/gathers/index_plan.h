/* index_plan.h - elements that are picked or placed by indices which are known when a step runs: what the indices name, and
 * what becomes of it, for every backend.
 *
 * Two plans cover all operators. Rows: entry k of a list names a row of a table (Gather, GatherND, ScatterND, Compress,
 * MaxUnpool). Elements: every element of another array has its own index along one axis of the table (GatherElements,
 * ScatterElements). Picking copies what is named out of the table; reducing brings the other array's elements into it, where
 * several that name one place are reduced in their order; so results do not depend on the number of threads.
 */
#pragma once

#include "executor/kernel/body.h"
#include "executor/operators/copies/box.h"

/* What an element of the table becomes where another is brought to it. */
typedef enum mp_index_reduction {
    MP_INDEX_SET,
    MP_INDEX_ADD,
    MP_INDEX_MULTIPLY,
    MP_INDEX_MAX,
    MP_INDEX_MIN
} mp_index_reduction;

/* a: the table's element; U: unsigned where sums may wrap. What is not a number on either side stays so. */
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

/* Dimensions of one side, and their strides; an index over all of them is unravelled to a place. */
typedef struct mp_grid {
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
} mp_grid;

MP_INLINE int64_t mp_grid_place(const mp_grid *g, int64_t index)
{
    return mp_strided_place(g->rank, g->dims, g->strides, index);
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

/* What a run does by its indices. */
enum { MP_INDEX_PICKS = 1, MP_INDEX_REDUCES = 2, MP_INDEX_CLEARS = 4 };

typedef struct mp_indexer mp_indexer;
typedef struct mp_index_plan {
    const mp_indexer *by;
    bool by_rows;      /* false: by elements */
    bool by_condition; /* the rows are those of which a condition is true */
    bool puts_back;    /* forward reduces and backward picks, instead of the other way round */
    int axis;          /* of elements: along which they have an index */
    int uses;          /* MP_INDEX_PICKS ... */
    mp_index_reduction how;
    int64_t sums_bytes; /* of the table as FLOAT, where it is of BFLOAT16 and sums are rounded once; else 0 */
    mp_row_entries rows;
} mp_index_plan;

/* A plan at work in a run. */
typedef struct mp_indexing {
    const mp_index_plan *plan;
    const mp_operands *x;
    mp_array indices;
    void *room;             /* as many bytes as the indexer says */
    const uint64_t *sorted; /* the backend's; NULL at first */
} mp_indexing;

/* What a backend does with plans. Tables lie as the plan was made for, but for their type. */
struct mp_indexer {
    int64_t (*room)(const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype);
    /* Before all others. MP_INVALID: an index outside, where the backend can see it: elsewhere such an index reads zero, and
     * what it would write goes nowhere. */
    mp_status (*read)(mp_indexing *r, mp_error *err);
    /* other = table[index]; table[index] is reduced with other; table[index] = 0, where `other` has the shape of the indices.
     */
    void (*pick)(const mp_indexing *r, const mp_array *table, const mp_array *other);
    void (*reduce)(mp_indexing *r, mp_index_reduction how, const mp_array *table, const mp_array *other);
    void (*clear)(mp_indexing *r, const mp_array *table);
    /* All elements, to the same place of another array of this type; all become zero. */
    void (*copy)(const mp_array *from, const mp_array *to);
    void (*zero)(const mp_array *to);
    mp_body_loop step;                /* over mp_scatter_step_item (scatters.h) */
    mp_status (*done)(mp_error *err); /* at the end of a run */
    bool reduces_doubles;
};

/* MP_UNSUPPORTED: operands that are packed or of less than a byte per element, indices (input `indices`; -1: there are none)
 * that are not INT64 or INT32 and dense, gradients that are not FLOAT or BFLOAT16. */
mp_status mp_indices_check(const mp_operands *x, int indices, mp_error *err);
/* Rows that indices name along one axis: dimensions [axis, axis + rank of indices) of `other` are the entries. */
mp_status mp_rows_along(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, int n_entry_dims,
                        mp_row_entries *rows, mp_error *err);
/* Rows that tuples of `length` indices name behind `batch` dimensions of the table. */
mp_status mp_rows_by_tuple(const mp_operands *x, const mp_array *table, const mp_array *other, int batch, int length,
                           int n_entry_dims, mp_row_entries *rows, mp_error *err);

/* From then on entries name their row by one index, which counts all rows. */
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

/* Besides the axis, indices by elements are inside the table, and `other` has their shape. MP_INVALID. */
mp_status mp_index_elements_check(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, mp_error *err);

/* What the plan uses of the indexer becomes possible: room for it behind the workspace there is; returns where it lies. */
mp_status mp_index_plan_room(const mp_operands *x, const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype,
                             mp_call *call, int64_t *at, mp_error *err);

/* X(name) for each operator of gathers.h and scatters.h; the rows of a backend's table that has an `indexer`. */
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
