/* row_runs.c - finds runs of operators on independent rows, and the regions of each run that chunks make smaller. */
#include "estimator/training/row_runs.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "estimator/model/ops_rules.h"
#include "estimator/model/order.h"
#include "estimator/rules/factors/factors.h"

MP_NAMED(chunk_kind, "head", "mlp", "rows", "attention")

/* The positions between the operators of a run at which a tensor or one of its views is live: [first, last], both included. */
typedef struct range {
    int stamp; /* number of the run to which the range belongs, from 1 */
    int first, last;
} range;

typedef struct finder {
    const mp_model *model;
    mp_consumers readers;
    int *base;     /* per tensor: the tensor of which it is a view, or itself */
    range *ranges; /* indexed by tensor; only bases have a range */
    int *used;     /* bases of the current run */
    int64_t *live; /* per position of the current run: live bytes */
    size_t n_used;
    int stamp;
    mp_row_region run; /* the current run. from < 0: none */
    mp_row_region *regions;
    size_t n, capacity;
    mp_error *err;
} finder;

static void finder_clear(finder *f)
{
    mp_consumers_free(&f->readers);
    mp_free(f->base);
    mp_free(f->ranges);
    mp_free(f->used);
    mp_free(f->live);
    mp_free(f->regions);
}

mp_row_axes mp_row_axes_of(const mp_row_region *region, const mp_tensor *t)
{
    int64_t n = 1;
    if (region->is_axis) {
        const bool has = t->rank >= 2 && t->dims[t->rank - 2] == region->n_rows;
        return has ? (mp_row_axes){t->rank - 2, t->rank - 1} : (mp_row_axes){0, 0};
    }
    for (int d = 0; d + 1 < t->rank; d++) {
        n *= t->dims[d];
        if (n == region->n_rows) return (mp_row_axes){0, d + 1};
        if (n > region->n_rows) break;
    }
    return (mp_row_axes){0, 0};
}

static bool is_view(const mp_operator *op)
{
    return op->op->gradient == MP_GRADIENT_VIEW;
}

/* True if all dimensions of the rows have the same sizes in both tensors. */
static bool has_same_rows(const mp_row_region *region, const mp_tensor *a, const mp_tensor *b)
{
    const mp_row_axes x = mp_row_axes_of(region, a), y = mp_row_axes_of(region, b);
    if (!x.last || x.last - x.first != y.last - y.first) return false;
    return !memcmp(&a->dims[x.first], &b->dims[y.first], (size_t)(x.last - x.first) * sizeof *a->dims);
}

/* Decides how an operator reads operand k. *has_rows becomes true if the operand has the rows of the result, and false if it is
 * read as a whole. Returns false if the operand depends on the rows in another way. */
static bool judge_operand(const mp_model *model, const mp_row_region *region, const mp_operator *op,
                          const mp_operand_factors *f, int k, bool *has_rows)
{
    const mp_tensor *t = mp_operator_in(model, op, k), *y = mp_operator_out(model, op, 0);
    const mp_row_axes rows = mp_row_axes_of(region, y), own = t ? mp_row_axes_of(region, t) : (mp_row_axes){0, 0};
    bool any = false, all = t && has_same_rows(region, t, y);
    for (int d = rows.first; t && d < rows.last; d++) {
        if (y->dims[d] == 1) continue;
        const int at = mp_factor_of_input(model, op, f, k, f->out[0][d]);
        any |= at >= 0;
        all &= at - own.first == d - rows.first;
    }
    *has_rows = any && all;
    return !any || all;
}

static bool may_be_chunked(const mp_operator *op)
{
    const unsigned others = MP_TRAIT_LOSS | MP_TRAIT_STATISTICS | MP_TRAIT_EXPANDS | MP_TRAIT_REPLICATES;
    return op->op && !op->removed && !op->chunk && !op->control && op->n_in && op->n_out && op->n_in <= MP_OP_INPUTS &&
           op->n_out <= MP_FACTOR_OUTPUTS && !(op->op->traits & others) && !op->op->collectives[0];
}

bool mp_row_region_permits(const mp_model *model, const mp_row_region *region, const mp_operator *op, bool *reads_rows)
{
    mp_operand_factors f;
    memset(reads_rows, 0, MP_OP_INPUTS * sizeof *reads_rows);
    if (!may_be_chunked(op)) return false;
    const mp_row_axes rows = mp_row_axes_of(region, mp_operator_out(model, op, 0));
    for (int o = 0; o < op->n_out; o++) {
        const mp_tensor *y = mp_operator_out(model, op, o);
        if (!y || !rows.last || !has_same_rows(region, y, mp_operator_out(model, op, 0))) return false;
    }
    if (is_view(op)) {
        reads_rows[0] = mp_row_axes_of(region, mp_operator_in(model, op, 0)).last;
        return !region->is_axis && reads_rows[0];
    }
    if (!op->op->factors || !op->op->factors(model, op, &f) || f.is_of_batch || f.exchanged || f.rows) return false;
    for (int o = 0; o < op->n_out; o++)
        for (int d = rows.first; d < rows.last; d++)
            if (f.out[o][d] != f.out[0][d] || (!f.out[o][d] && mp_operator_out(model, op, 0)->dims[d] > 1)) return false;
    bool any = false;
    for (int k = 0; k < op->n_in; k++) {
        if (!judge_operand(model, region, op, &f, k, &reads_rows[k])) return false;
        any |= reads_rows[k];
    }
    return any;
}

/* True if the operator can be in the run. An operator that reads rows of a parameter cannot, because parameters stay whole. An
 * operand that is read as a whole must be computed before the run. */
static bool can_join(const finder *f, const mp_row_region *run, const mp_operator *op)
{
    bool reads_rows[MP_OP_INPUTS];
    if (!mp_row_region_permits(f->model, run, op, reads_rows)) return false;
    for (int k = 0; k < op->n_in; k++) {
        const mp_tensor *t = mp_operator_in(f->model, op, k);
        if (!t) continue;
        if (reads_rows[k] && t->role == MP_ROLE_PARAMETER) return false;
        if (!reads_rows[k] && t->producer >= run->from && run->from >= 0) return false;
    }
    return true;
}

/* ---- the regions of a run ---- */

static bool is_product(const mp_model *model, const mp_operator *op, bool with_matrix)
{
    return op->op && op->op->flops == mp_flops_matmul && (mp_operator_in(model, op, 1)->rank == 2) == with_matrix;
}

static mp_status add_region(finder *f, int from, int to)
{
    int n_products = 0;
    for (int k = from; k < to; k++) {
        const mp_operator *op = &f->model->operators[k];
        n_products += !op->removed && is_product(f->model, op, !f->run.is_axis);
    }
    if (f->run.is_axis && n_products < 2) return MP_OK;
    MP_ENSURE(mp_grow(&f->regions, &f->capacity, f->n + 1, sizeof *f->regions), f->err, MP_NOMEM, "out of memory");
    mp_row_region *r = &f->regions[f->n++];
    *r = f->run;
    r->from = from;
    r->to = to;
    r->kind = f->run.is_axis ? MP_CHUNK_ATTENTION : n_products > 1 ? MP_CHUNK_MLP : MP_CHUNK_ROWS;
    return MP_OK;
}

/* Extends the live range of a tensor of the run to its last reader. Inputs, parameters and constants do not count, because they
 * are always live. */
static void note_readers(finder *f, int tensor, int first)
{
    const int base = f->base[tensor], n = f->run.to - f->run.from;
    range *r = &f->ranges[base];
    if (f->model->tensors[base].role != MP_ROLE_ACTIVATION) return;
    if (r->stamp != f->stamp) {
        *r = (range){f->stamp, first, first};
        f->used[f->n_used++] = base;
    }
    for (int k = f->readers.start[tensor]; k < f->readers.start[tensor + 1]; k++) {
        const int reader = f->readers.list[k], at = reader >= f->run.to ? n : reader - f->run.from;
        if (at > r->last) r->last = at;
    }
    if (f->model->tensors[tensor].is_output) r->last = n;
}

static void count_live(finder *f)
{
    bool reads_rows[MP_OP_INPUTS];
    f->stamp++;
    f->n_used = 0;
    for (int k = f->run.from; k < f->run.to; k++) {
        const mp_operator *op = &f->model->operators[k];
        if (op->removed || !mp_row_region_permits(f->model, &f->run, op, reads_rows)) continue;
        for (int i = 0; i < op->n_in; i++)
            if (op->in[i] >= 0 && reads_rows[i]) note_readers(f, op->in[i], 0);
        for (int o = 0; o < op->n_out; o++) note_readers(f, op->out[o], k - f->run.from + 1);
    }
    memset(f->live, 0, (size_t)(f->run.to - f->run.from + 1) * sizeof *f->live);
    for (size_t k = 0; k < f->n_used; k++) {
        const range *r = &f->ranges[f->used[k]];
        for (int p = r->first; p <= r->last; p++) f->live[p] += mp_tensor_bytes(&f->model->tensors[f->used[k]]);
    }
}

/* Adds a region for each rise and fall of the live bytes, as row_runs.h defines it. */
static mp_status find_hills(finder *f)
{
    const int n = f->run.to - f->run.from;
    const int64_t *live = f->live;
    for (int low = 0, p = 1; p <= n; p++) {
        if (live[p] <= live[low]) low = p;
        if (live[p] / 2 < live[low]) continue;
        int end = -1;
        int64_t high = live[p];
        for (; p <= n; p++) {
            if (end < 0 && live[p] > high) high = live[p];
            if (end < 0 ? live[p] <= high / 2 : live[p] < live[end]) end = p;
            if (end >= 0 && live[p] / 2 >= live[end]) break;
        }
        if (end < 0) break;
        MP_CHECK(add_region(f, f->run.from + low, f->run.from + end));
        low = p = end;
    }
    return MP_OK;
}

static mp_status close_run(finder *f, int to)
{
    if (f->run.from < 0) return MP_OK;
    f->run.to = to;
    count_live(f);
    MP_CHECK(find_hills(f));
    f->run.from = -1;
    return MP_OK;
}

/* Begins a run at an operator whose rows are all leading dimensions, or the second last dimension. Otherwise no run begins. */
static void begin_run(finder *f, int index)
{
    const mp_operator *op = &f->model->operators[index];
    const mp_tensor *y = op->n_out && op->out[0] >= 0 ? mp_operator_out(f->model, op, 0) : NULL;
    if (!y || y->rank < 2 || op->removed) return;
    for (int is_axis = 0; is_axis < 2; is_axis++) {
        const int64_t n_rows = is_axis ? y->dims[y->rank - 2] : mp_product(y->dims, 0, y->rank - 1);
        const mp_row_region run = {.from = index, .is_axis = is_axis, .n_rows = n_rows};
        if (n_rows < 2 || (is_axis && !is_product(f->model, op, false)) || !can_join(f, &run, op)) continue;
        f->run = run;
        return;
    }
}

static void find_bases(finder *f)
{
    const mp_model *m = f->model;
    for (size_t t = 0; t < m->n_tensors; t++) f->base[t] = (int)t;
    for (size_t k = 0; k < m->n_operators; k++) {
        const mp_operator *op = &m->operators[k];
        if (op->removed || !op->op || !is_view(op) || op->in[0] < 0) continue;
        for (int o = 0; o < op->n_out; o++)
            if (op->out[o] >= 0) f->base[op->out[o]] = f->base[op->in[0]];
    }
}

mp_status mp_row_regions_find(const mp_model *model, mp_row_region **regions, size_t *n, mp_error *err)
{
    const size_t n_tensors = model->n_tensors;
    MP_CLEARED_BY(finder_clear) finder f = {.model = model, .run = {.from = -1}, .err = err};
    MP_CHECK(mp_model_consumers(model, &f.readers, err));
    f.base = mp_alloc(n_tensors, sizeof *f.base);
    f.ranges = mp_alloc(n_tensors, sizeof *f.ranges);
    f.used = mp_alloc(n_tensors, sizeof *f.used);
    f.live = mp_alloc(model->n_operators + 1, sizeof *f.live);
    MP_ENSURE(f.base && f.ranges && f.used && f.live, err, MP_NOMEM, "out of memory");
    find_bases(&f);
    for (int k = 0; k < (int)model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (op->removed || (f.run.from >= 0 && can_join(&f, &f.run, op))) continue;
        MP_CHECK(close_run(&f, k));
        begin_run(&f, k);
    }
    MP_CHECK(close_run(&f, (int)model->n_operators));
    *regions = f.regions;
    *n = f.n;
    f.regions = NULL;
    return MP_OK;
}
