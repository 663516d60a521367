/* scatters.c - plans and runs scatters: saves inputs that the output would overwrite, copies the data, reduces the copy with
 * the updates, and computes the gradients. */
#include "executor/operators/gathers/scatters.h"

#include <string.h>

typedef struct scatter {
    mp_index_plan plan;
    int64_t rescue_at[3]; /* workspace offset for a copy of input i, if the output may overwrite the input's memory; -1: it
                             cannot */
    int64_t parts_at;     /* workspace offset of the intermediate arrays of gradients (`parts`) */
    int64_t room_at;      /* workspace offset of the memory that the indexer needs */
} scatter;

static mp_indexing indexing_of(const scatter *s, const mp_operands *x)
{
    return (mp_indexing){.plan = &s->plan, .x = x, .indices = x->in[1], .room = (char *)x->workspace + s->room_at};
}

/* Returns input i. If the output has the same address, copies the input to the workspace first and returns the copy. */
static mp_array rescued(const scatter *s, const mp_operands *x, int i)
{
    mp_array a = x->in[i];
    if (s->rescue_at[i] < 0 || a.data != x->out[0].data) return a;
    a.data = (char *)x->workspace + s->rescue_at[i];
    s->plan.by->copy(&x->in[i], &a);
    return a;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const scatter *s = call->state;
    const mp_indexer *by = s->plan.by;
    mp_array data = rescued(s, x, 0), indices = rescued(s, x, 1), updates = rescued(s, x, 2);
    mp_indexing r = indexing_of(s, x);
    r.indices = indices;
    MP_CHECK(by->read(&r, err));
    by->copy(&data, &x->out[0]);
    by->reduce(&r, s->plan.how, &x->out[0], &updates);
    return by->done(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const scatter *s = call->state;
    const mp_indexer *by = s->plan.by;
    mp_indexing r = indexing_of(s, x);
    MP_CHECK(by->read(&r, err));
    if (mp_operands_wants(x, 2)) by->pick(&r, &x->d_out[0], &x->d_in[2]);
    if (mp_operands_wants(x, 0)) by->copy(&x->d_out[0], &x->d_in[0]);
    if (mp_operands_wants(x, 0) && s->plan.how == MP_INDEX_SET) by->clear(&r, &x->d_in[0]);
    return by->done(err);
}

/* Intermediate arrays of the gradients of maximum, minimum and product (run_shares), in the workspace. All are FLOAT, except
 * update_dy, which has the type of the output's gradient. */
typedef struct parts {
    /* for each element of the table, whose factors are its data element and the updates that select it. results: the factors
     * combined; marks: number of relevant factors */
    mp_array results, marks;
    mp_array update_results, update_marks, update_parts, update_dy; /* per element of the updates */
} parts;

static parts parts_of(const scatter *s, const mp_operands *x)
{
    parts p = {x->in[0], x->in[0], x->in[2], x->in[2], x->in[2], x->in[2]};
    mp_array *const all[] = {&p.results, &p.marks, &p.update_results, &p.update_marks, &p.update_parts, &p.update_dy};
    float *at = (float *)((char *)x->workspace + s->parts_at);
    for (int k = 0; k < 6; k++) {
        all[k]->dtype = MP_DTYPE_FLOAT;
        all[k]->data = at;
        at += mp_array_elements(all[k]);
    }
    p.update_dy.dtype = x->d_out[0].dtype;
    return p;
}

static mp_status step(const scatter *s, mp_scatter_step step, mp_error *err)
{
    step.how = s->plan.how;
    return s->plan.by->step(&step, mp_array_elements(&step.factors), 1, err);
}

static mp_status run_shares(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const scatter *s = call->state;
    const mp_indexer *by = s->plan.by;
    const mp_array *data = &x->in[0], *updates = &x->in[2], *dy = &x->d_out[0];
    const parts p = parts_of(s, x);
    const float *results = p.results.data, *marks = p.marks.data;
    const float *update_results = p.update_results.data, *update_marks = p.update_marks.data;
    mp_indexing r = indexing_of(s, x);
    MP_CHECK(by->read(&r, err));
    MP_CHECK(step(s, (mp_scatter_step){.step = MP_SCATTER_PART, .factors = *data, .to = p.results}, err));
    MP_CHECK(step(s, (mp_scatter_step){.step = MP_SCATTER_PART, .factors = *updates, .to = p.update_parts}, err));
    by->reduce(&r, s->plan.how, &p.results, &p.update_parts);
    by->pick(&r, &p.results, &p.update_results);
    MP_CHECK(step(s, (mp_scatter_step){MP_SCATTER_MARK, .factors = *data, .results = results, .to = p.marks}, err));
    MP_CHECK(
        step(s, (mp_scatter_step){MP_SCATTER_MARK, .factors = *updates, .results = update_results, .to = p.update_marks}, err));
    by->reduce(&r, MP_INDEX_ADD, &p.marks, &p.update_marks);
    if (mp_operands_wants(x, 0))
        MP_CHECK(step(s, (mp_scatter_step){MP_SCATTER_SHARE, 0, *data, *dy, x->d_in[0], results, marks}, err));
    if (mp_operands_wants(x, 2)) {
        by->pick(&r, dy, &p.update_dy);
        by->pick(&r, &p.marks, &p.update_marks);
        MP_CHECK(step(
            s, (mp_scatter_step){MP_SCATTER_SHARE, 0, *updates, p.update_dy, x->d_in[2], update_results, update_marks}, err));
    }
    return by->done(err);
}

/* Reserves workspace for a copy of each input that has as many bytes as the output, because the output may overwrite this
 * input. */
static mp_status plan_rescues(const mp_operands *x, scatter *s, mp_call *call, mp_error *err)
{
    for (int i = 0; i < 3; i++) {
        s->rescue_at[i] = -1;
        if (x->is_backward || mp_array_bytes(&x->in[i]) != mp_array_bytes(&x->out[0])) continue;
        if (i == 0 && mp_array_same_layout(&x->in[0], &x->out[0])) continue;
        MP_ENSURE(mp_round_up(call->workspace_bytes, 64, &s->rescue_at[i]) &&
                      mp_add(s->rescue_at[i], mp_array_bytes(&x->in[i]), &call->workspace_bytes),
                  err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    }
    return MP_OK;
}

/* True if gradients have the layouts of their operands. mp_scatter_step requires this, because the step processes all arrays
 * in memory order. */
static bool shares_fit(const mp_operands *x)
{
    const mp_array *table = &x->in[0], *updates = &x->in[2];
    return mp_array_same_layout(&x->d_out[0], table) && (!x->d_in[0].dtype || mp_array_same_layout(&x->d_in[0], table)) &&
           (!x->d_in[2].dtype || mp_array_same_layout(&x->d_in[2], updates));
}

static mp_status plan_shares(const mp_operands *x, scatter *s, mp_call *call, mp_error *err)
{
    int64_t table, updates;
    MP_ENSURE(mp_multiply(mp_array_elements(&x->in[0]), 2 * (int64_t)sizeof(float), &table) &&
                  mp_multiply(mp_array_elements(&x->in[2]), 4 * (int64_t)sizeof(float), &updates) &&
                  mp_round_up(call->workspace_bytes, 64, &s->parts_at) && mp_add(table, updates, &call->workspace_bytes) &&
                  mp_add(call->workspace_bytes, s->parts_at, &call->workspace_bytes),
              err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    return MP_OK;
}

/* Reads the attribute `reduction`; returns false if its value is unknown. */
static bool reduction_of(const mp_operator *op, mp_index_reduction *how)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *name = mp_operator_text(op, "reduction", "none");
    for (int k = 0; k < (int)(sizeof names / sizeof *names); k++)
        if (!strcmp(names[k], name)) {
            *how = (mp_index_reduction)k;
            return true;
        }
    return false;
}

static bool reduces(const mp_indexer *by, mp_index_reduction how, mp_dtype dtype)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT:
    case MP_DTYPE_BFLOAT16:
    case MP_DTYPE_INT64:
    case MP_DTYPE_INT32:
    case MP_DTYPE_INT8:
    case MP_DTYPE_UINT8:
        return true;
    default:
        return how == MP_INDEX_SET || (dtype == MP_DTYPE_DOUBLE && by->reduces_doubles);
    }
}

static mp_status prepare(const mp_operands *x, const mp_index_plan *plan, mp_call *call, mp_error *err)
{
    mp_index_reduction how;
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_ENSURE(reduction_of(x->op, &how), err, MP_UNSUPPORTED, "%s ('%s'): reduction '%s' is not supported here", x->op->kind,
              x->op->name, mp_operator_text(x->op, "reduction", ""));
    if (x->in[0].dtype != x->in[2].dtype || !reduces(plan->by, how, x->in[0].dtype))
        return MP_NO_KERNEL(x, err, "a reduction of this type");
    const bool shares = x->is_backward && how != MP_INDEX_SET && how != MP_INDEX_ADD;
    /* backward of this reduction reads the data and the updates; only operators of the domain "memplan" keep them */
    if (shares && !*x->op->domain) return MP_NO_KERNEL(x, err, "the gradient of this reduction");
    if (shares && !shares_fit(x)) return MP_NO_KERNEL(x, err, "a gradient in another layout");
    MP_STATE(scatter, s, call, err);
    call->run = !x->is_backward ? run_forward : shares ? run_shares : run_backward;
    s->plan = *plan;
    s->plan.how = how;
    s->plan.uses = !x->is_backward ? MP_INDEX_REDUCES : MP_INDEX_PICKS | (shares ? MP_INDEX_REDUCES : MP_INDEX_CLEARS);
    MP_CHECK(plan_rescues(x, s, call, err));
    if (shares) MP_CHECK(plan_shares(x, s, call, err));
    return mp_index_plan_workspace(x, &s->plan, shares ? MP_INDEX_ADD : how, shares ? MP_DTYPE_FLOAT : x->in[0].dtype, call,
                                   &s->room_at, err);
}

mp_status mp_scatter_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    const mp_index_plan p = {.by = by, .axis = mp_operands_axis(x, 0, x->in[0].rank)};
    MP_CHECK(mp_index_elements_check(x, &x->in[0], &x->in[2], p.axis, err));
    return prepare(x, &p, call, err);
}

/* In forward, the table that indices select from is the output. In backward it is the output's gradient; the gradient of the
 * data must have the same layout. */
mp_status mp_scatter_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    const mp_array *indices = &x->in[1], *updates = &x->in[2], *table = mp_operands_out(x, 0);
    int tuple = indices->rank - 1;
    mp_index_plan p = {.by = by, .by_rows = true};
    MP_ENSURE(tuple >= 0 && indices->dims[tuple] <= table->rank && updates->rank == tuple + table->rank - indices->dims[tuple],
              err, MP_INVALID, "%s ('%s'): the shapes of data, indices and updates do not match", x->op->kind, x->op->name);
    for (int d = 0; d < updates->rank; d++)
        MP_ENSURE(updates->dims[d] == (d < tuple ? indices->dims[d] : table->dims[d - tuple + indices->dims[tuple]]), err,
                  MP_INVALID, "%s ('%s'): dimension %d of the updates does not match the data", x->op->kind, x->op->name, d);
    if (x->is_backward && x->d_in[0].dtype && !mp_array_same_layout(&x->d_in[0], table))
        return MP_NO_KERNEL(x, err, "a gradient in another layout");
    MP_CHECK(mp_rows_by_tuple(x, table, updates, 0, (int)indices->dims[tuple], tuple, &p.rows, err));
    return prepare(x, &p, call, err);
}
