/* row_regions.c - copies the operators of a region once per chunk of rows. */
#include "estimator/training/row_regions.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/model/ops_rules.h"
#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"
#include "estimator/training/builder.h"

typedef struct cutter {
    mp_model *model;
    mp_consumers readers; /* of the model before any region is cut */
    const mp_row_region *region;
    int n;            /* number of chunks of the region */
    int64_t *sizes;   /* rows per chunk */
    int **parts;      /* per tensor of the model before the cut: its tensors in the chunks; NULL: the tensor is not cut */
    size_t n_tensors; /* number of tensors before the cut */
    mp_pool *pool;    /* owns the lists of the region */
    mp_error *err;
} cutter;

static mp_tensor *tensor_of(const cutter *c, int tensor)
{
    return &c->model->tensors[tensor];
}

static int rows_end(const cutter *c, int tensor)
{
    return mp_row_axes_of(c->region, tensor_of(c, tensor)).last;
}

/* Adds an operator. Its outputs without a tensor (-1) become new tensors named after `stem`. */
static mp_status add(cutter *c, mp_operator_draft draft, const char *stem, int *out, int n_out)
{
    int index;
    for (int o = 0; o < n_out; o++)
        if (out[o] < 0) MP_CHECK(mp_model_fresh_tensor(c->model, stem, &out[o], c->err));
    draft.out = out;
    draft.n_out = n_out;
    MP_CHECK(mp_model_operator(c->model, &draft, &index, c->err));
    return mp_operator_infer(c->model, index, c->err);
}

/* Adds a view of tensor `from` with other dimensions. If *out < 0, the view is a new tensor; else *out is the view. */
static mp_status add_view(cutter *c, int from, const int64_t *dims, int rank, int *out)
{
    const mp_attribute shape = mp_attribute_ints("shape", dims, (size_t)rank);
    return add(c, mp_draft("Reshape", "memplan", 1, &from, 1, &shape, 1), tensor_of(c, from)->name, out, 1);
}

/* Writes to `dims` the dimensions of a tensor with n_rows rows. If the rows are all leading dimensions, these become 1, ..., 1,
 * n_rows. */
static void dims_with_rows(const cutter *c, int tensor, int64_t n_rows, int64_t *dims)
{
    const mp_tensor *t = tensor_of(c, tensor);
    const int end = rows_end(c, tensor);
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    for (int d = 0; !c->region->is_axis && d < end; d++) dims[d] = 1;
    dims[end - 1] = n_rows;
}

static bool has_flat_rows(const cutter *c, int tensor)
{
    int64_t dims[MP_RANK_MAX];
    dims_with_rows(c, tensor, c->region->n_rows, dims);
    return !memcmp(dims, tensor_of(c, tensor)->dims, (size_t)tensor_of(c, tensor)->rank * sizeof *dims);
}

/* True if the tensor has a storage, and each block of its rows is contiguous in memory. */
static bool is_in_blocks(const cutter *c, int tensor)
{
    const mp_tensor *t = tensor_of(c, tensor);
    if (t->value && mp_tensor_elements(t) <= MP_ARGUMENT_ELEMENTS) return false;
    return !c->region->is_axis || mp_product(tensor_of(c, tensor)->dims, 0, rows_end(c, tensor) - 1) == 1;
}

static mp_operator *last_operator(const cutter *c)
{
    return &c->model->operators[c->model->n_operators - 1];
}

static mp_status make_list(cutter *c, int tensor)
{
    MP_ENSURE(c->parts[tensor] = mp_pool_alloc(c->pool, (size_t)c->n, sizeof *c->parts[tensor]), c->err, MP_NOMEM,
              "out of memory");
    for (int k = 0; k < c->n; k++) c->parts[tensor][k] = -1;
    return MP_OK;
}

/* Splits a tensor that the region reads. */
static mp_status split(cutter *c, int tensor)
{
    int flat = tensor;
    int64_t dims[MP_RANK_MAX];
    if (c->parts[tensor]) return MP_OK;
    const int rank = tensor_of(c, tensor)->rank, axis = rows_end(c, tensor) - 1;
    const bool is_shared = is_in_blocks(c, tensor);
    MP_CHECK(make_list(c, tensor));
    if (!has_flat_rows(c, tensor)) {
        flat = -1;
        dims_with_rows(c, tensor, c->region->n_rows, dims);
        MP_CHECK(add_view(c, tensor, dims, rank, &flat));
    }
    MP_CHECK(mp_operator_split(c->model, flat, axis, c->sizes, c->n, c->parts[tensor], c->err));
    last_operator(c)->shares_rows = is_shared;
    return MP_OK;
}

/* Adds the copy of an operator for chunk k. */
static mp_status add_copy(cutter *c, const mp_operator *op, int k)
{
    int in[MP_OP_INPUTS], out[MP_OP_INPUTS];
    const char *name = mp_pool_format(c->model->pool, "%s:%d", op->name, k);
    const char *stem = mp_pool_format(c->model->pool, "%s:%d", tensor_of(c, op->out[0])->name, k);
    MP_ENSURE(name && stem, c->err, MP_NOMEM, "out of memory");
    bool reads_rows[MP_OP_INPUTS];
    if (!mp_row_region_permits(c->model, c->region, op, reads_rows)) return MP_OK;
    for (int i = 0; i < op->n_in; i++) in[i] = op->in[i] >= 0 && reads_rows[i] ? c->parts[op->in[i]][k] : op->in[i];
    for (int o = 0; o < op->n_out; o++) out[o] = -1;
    if (op->op->gradient == MP_GRADIENT_VIEW) {
        int64_t dims[MP_RANK_MAX];
        dims_with_rows(c, op->out[0], c->sizes[k], dims);
        MP_CHECK(add_view(c, in[0], dims, tensor_of(c, op->out[0])->rank, out));
    } else {
        mp_operator_draft draft = mp_draft_like(op, in, op->n_in);
        draft.name = name;
        MP_CHECK(add(c, draft, stem, out, op->n_out));
    }
    for (int o = 0; o < op->n_out; o++) {
        c->parts[op->out[o]][k] = out[o];
        tensor_of(c, out[o])->source = tensor_of(c, op->out[o])->source;
    }
    return MP_OK;
}

static bool is_read_outside(const cutter *c, int tensor)
{
    bool any = tensor_of(c, tensor)->is_output;
    for (int k = c->readers.start[tensor]; k < c->readers.start[tensor + 1]; k++)
        any |= c->readers.list[k] < c->region->from || c->readers.list[k] >= c->region->to;
    return any;
}

static bool is_read_inside(const cutter *c, int tensor)
{
    bool any = false;
    for (int k = c->readers.start[tensor]; k < c->readers.start[tensor + 1]; k++)
        any |= c->readers.list[k] >= c->region->from && c->readers.list[k] < c->region->to;
    return any;
}

/* Concatenates the parts of a tensor that is read outside of the region. The gradients of the parts become views of the
 * tensor's gradient, unless an operator of the region reads the parts or they are views themselves. */
static mp_status join(cutter *c, int tensor, bool is_view)
{
    const bool is_flat = has_flat_rows(c, tensor);
    const int axis = rows_end(c, tensor) - 1;
    const bool is_shared = is_in_blocks(c, tensor) && !is_view && !is_read_inside(c, tensor);
    const mp_attribute attribute = mp_attribute_int("axis", axis);
    int joined = is_flat ? tensor : -1;
    MP_CHECK(add(c, mp_draft("Concat", "", 13, c->parts[tensor], c->n, &attribute, 1), tensor_of(c, tensor)->name, &joined, 1));
    last_operator(c)->shares_rows = is_shared;
    if (is_flat) return MP_OK;
    int64_t dims[MP_RANK_MAX];
    const int rank = tensor_of(c, tensor)->rank;
    memcpy(dims, tensor_of(c, tensor)->dims, (size_t)rank * sizeof *dims);
    return add_view(c, joined, dims, rank, &tensor);
}

/* Returns the smallest number of rows, a power of two, whose multiples are aligned positions in all tensors of the region. A
 * float tensor may be stored in 16 bits, so half of its bytes count. */
static int64_t rows_per_unit(const cutter *c, int64_t alignment)
{
    int64_t unit = 1;
    bool reads_rows[MP_OP_INPUTS];
    for (int k = c->region->from; !c->region->is_axis && k < c->region->to; k++) {
        const mp_operator *op = &c->model->operators[k];
        if (op->removed || !mp_row_region_permits(c->model, c->region, op, reads_rows)) continue;
        for (int i = 0; i < op->n_in + op->n_out; i++) {
            const mp_tensor *t = i < op->n_in ? mp_operator_in(c->model, op, i) : mp_operator_out(c->model, op, i - op->n_in);
            if (!t || (i < op->n_in && !reads_rows[i])) continue;
            const int64_t bytes = mp_tensor_bytes(t) / c->region->n_rows / (t->dtype == MP_DTYPE_FLOAT ? 2 : 1);
            while (unit < alignment && unit * bytes % alignment) unit *= 2;
        }
    }
    return unit;
}

/* Sets the number of chunks of the region and their sizes. Raises *n_most to the number of chunks that the region permits. The
 * first chunks may be one unit longer than the others. The last chunk also contains the remaining rows. */
static mp_status set_sizes(cutter *c, int n_wanted, int64_t alignment, int64_t *n_most)
{
    const int64_t unit = rows_per_unit(c, alignment), units = c->region->n_rows / unit;
    *n_most = mp_larger(*n_most, units);
    c->n = (int)(n_wanted < units ? n_wanted : units);
    if (c->n < 2) return MP_OK;
    MP_ENSURE(c->sizes = mp_pool_alloc(c->pool, (size_t)c->n, sizeof *c->sizes), c->err, MP_NOMEM, "out of memory");
    for (int k = 0; k < c->n; k++) c->sizes[k] = unit * (units / c->n + (k < units % c->n));
    c->sizes[c->n - 1] += c->region->n_rows % unit;
    return MP_OK;
}

static mp_status cut(cutter *c)
{
    bool reads_rows[MP_OP_INPUTS];
    const int from = c->region->from, to = c->region->to;
    for (int k = from; k < to; k++) {
        const mp_operator op = c->model->operators[k]; /* a copy, because adding operators may reallocate the array */
        if (op.removed || !mp_row_region_permits(c->model, c->region, &op, reads_rows)) continue;
        for (int o = 0; o < op.n_out; o++) MP_CHECK(make_list(c, op.out[o]));
        for (int i = 0; i < op.n_in; i++)
            if (op.in[i] >= 0 && reads_rows[i]) MP_CHECK(split(c, op.in[i]));
    }
    for (int chunk = 0; chunk < c->n; chunk++)
        for (int k = from; k < to; k++) {
            const mp_operator op = c->model->operators[k];
            if (!op.removed) MP_CHECK(add_copy(c, &op, chunk));
        }
    for (int k = from; k < to; k++) {
        const mp_operator op = c->model->operators[k];
        c->model->operators[k].removed = true;
        for (int o = 0; !op.removed && o < op.n_out; o++) {
            tensor_of(c, op.out[o])->producer = -1;
            if (is_read_outside(c, op.out[o])) MP_CHECK(join(c, op.out[o], op.op->gradient == MP_GRADIENT_VIEW));
        }
    }
    return MP_OK;
}

static void note(const mp_model *model, const mp_row_region *r, mp_chunked_kind *kind)
{
    if (!kind->n_regions++) {
        kind->n_rows = r->n_rows;
        kind->first = model->operators[r->from].name;
    }
}

static void cutter_clear(cutter *c)
{
    mp_consumers_free(&c->readers);
    mp_free(c->parts);
    mp_pool_free(c->pool);
}

/* Cuts all regions. The chunks of region r become the operators [begin[r], begin[r + 1]), appended after all old operators. The
 * caller moves them to the position of the region. */
static mp_status cut_all(mp_model *model, const mp_row_region *regions, size_t n_regions, const int n[MP_N_CHUNK_KINDS],
                         int64_t alignment, int *begin, mp_row_regions *out, mp_error *err)
{
    MP_CLEARED_BY(cutter_clear) cutter c = {.model = model, .n_tensors = model->n_tensors, .err = err};
    MP_CHECK(mp_model_consumers(model, &c.readers, err));
    MP_ENSURE(c.parts = mp_alloc(c.n_tensors, sizeof *c.parts), err, MP_NOMEM, "out of memory");
    for (size_t r = 0; r < n_regions; r++) {
        mp_chunked_kind *kind = &out->kinds[regions[r].kind];
        begin[r] = begin[r + 1] = (int)model->n_operators;
        note(model, &regions[r], kind);
        mp_pool_free(c.pool);
        MP_ENSURE(c.pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
        memset(c.parts, 0, c.n_tensors * sizeof *c.parts);
        c.region = &regions[r];
        MP_CHECK(set_sizes(&c, n[regions[r].kind], alignment, &kind->n_most));
        if (c.n < 2) continue;
        if (c.n > kind->n) kind->n = c.n;
        MP_CHECK(cut(&c));
        begin[r + 1] = (int)model->n_operators;
    }
    return MP_OK;
}

static mp_status put_in_order(mp_model *model, const mp_row_region *regions, size_t n_regions, const int *begin, int n_old,
                              mp_error *err)
{
    MP_OWNED int *order = mp_alloc(model->n_operators, sizeof *order);
    size_t n = 0;
    MP_ENSURE(order, err, MP_NOMEM, "out of memory");
    for (int k = 0, r = 0; k < n_old; k++) {
        for (; (size_t)r < n_regions && regions[r].from == k; r++)
            for (int j = begin[r]; j < begin[r + 1]; j++) order[n++] = j;
        if (!model->operators[k].removed) order[n++] = k;
    }
    return mp_model_reorder(model, order, n, err);
}

/* Gives each new operator a number. Random operators derive their streams from this number, so later changes of the model, such
 * as a split over ranks, do not change the streams. */
static void number_new(mp_model *model)
{
    int last = 0;
    for (size_t k = 0; k < model->n_operators; k++)
        last = model->operators[k].number > last ? model->operators[k].number : last;
    for (size_t k = 0; k < model->n_operators; k++)
        if (!model->operators[k].number) model->operators[k].number = ++last;
}

mp_status mp_model_chunk_rows(mp_model *model, const int n[MP_N_CHUNK_KINDS], int64_t alignment, mp_row_regions *out,
                              mp_error *err)
{
    MP_OWNED mp_row_region *regions = NULL;
    const int n_old = (int)model->n_operators;
    size_t n_regions = 0;
    *out = (mp_row_regions){0};
    MP_CHECK(mp_row_regions_find(model, &regions, &n_regions, err));
    if (!n_regions) return MP_OK;
    MP_OWNED int *begin = mp_alloc(n_regions + 1, sizeof *begin);
    MP_ENSURE(begin, err, MP_NOMEM, "out of memory");
    MP_CHECK(cut_all(model, regions, n_regions, n, alignment, begin, out, err));
    if ((int)model->n_operators > n_old) MP_CHECK(put_in_order(model, regions, n_regions, begin, n_old, err));
    number_new(model);
    return MP_OK;
}
