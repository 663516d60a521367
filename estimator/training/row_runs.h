/* row_runs.h - finds regions of a model whose operators compute each row independently of the other rows.
 *
 * A run is a sequence of operators that follow each other. Each operand is either read row by row, or it is a whole tensor that
 * does not depend on the rows, such as a weight. The splitting factors (factors.h) state whether rows are independent. Rows
 * are either the elements of all leading dimensions (batch and position of a transformer) or one dimension (the queries of
 * attention).
 *
 * Within a run, the bytes of the tensors that are live between two operators rise and fall. A region begins at a minimum, and
 * ends at the next minimum after the bytes have risen to twice the first minimum and fallen to half of the maximum. Computed
 * in chunks of rows, a region never stores its widest tensors as a whole. Example: in a transformer, each MLP is a region, from
 * one residual addition to the next. */
#pragma once

#include "estimator/model/model.h"

typedef enum mp_chunk_kind {
    MP_CHUNK_HEAD,     /* the logits and their loss (loss_chunks.h) */
    MP_CHUNK_MLP,      /* a region with at least two products with a matrix */
    MP_CHUNK_ROWS,     /* another region along leading dimensions */
    MP_CHUNK_ATTENTION /* a region along one dimension: scores of queries */
} mp_chunk_kind;
enum { MP_N_CHUNK_KINDS = 4 };
const char *mp_chunk_kind_name(mp_chunk_kind kind);
int mp_chunk_kind_find(const char *name); /* returns -1 if no kind has this name */

/* The rows of a run: dimensions [first, last) of a tensor. */
typedef struct mp_row_axes {
    int first, last;
} mp_row_axes;

typedef struct mp_row_region {
    int from, to; /* the operators [from, to) of the model; some of them may be removed */
    mp_chunk_kind kind;
    bool is_axis; /* true: the rows are the second last dimension; false: they are all leading dimensions */
    int64_t n_rows;
} mp_row_region;

/* Finds all regions of a sorted model, in order. No operator belongs to two regions. The caller releases *regions with
 * mp_free. MP_NOMEM. O(operands). */
mp_status mp_row_regions_find(const mp_model *model, mp_row_region **regions, size_t *n, mp_error *err);

/* Returns the dimensions of a tensor that are the rows of a region; {0, 0}: the tensor does not have these rows. */
mp_row_axes mp_row_axes_of(const mp_row_region *region, const mp_tensor *t);
/* True if the operator computes each row of the region independently. Then reads_rows[i] tells for each of its first
 * MP_OP_INPUTS inputs whether it has these rows (true), or is read as a whole. */
bool mp_row_region_permits(const mp_model *model, const mp_row_region *region, const mp_operator *op, bool *reads_rows);
