/* control_loops.c - unrolls Loop and Scan: one copy of the body per iteration, named NODE#0, NODE#1 and so on.
 *
 * The loop returns two kinds of results: the carried values after the last iteration, and stacks of the values that each
 * iteration returns. A Scan first splits its inputs along their axes. Before operator set 9 it does so for each sample of a
 * batch, with names NODE#SAMPLE.ITERATION. */
#include "estimator/simplify/control/control.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "estimator/model/model.h"

/* Fails if all iterations of a loop, with `each` operators per iteration, exceed the limit of operators. */
static mp_status check_count(const mp_inference *w, const mp_operator *op, int64_t iterations, int64_t each)
{
    int64_t needed;
    if (!mp_multiply(iterations, each, &needed)) needed = INT64_MAX;
    if (needed <= MP_UNROLLED_MAX - w->n_unrolled) return MP_OK;
    return MP_FAIL(w->err, MP_UNSUPPORTED,
                   "unrolling %s '%s' takes %" PRId64 " operators (%" PRId64 " iterations of %" PRId64
                   "), but a model may contain at most %d unrolled operators (MP_UNROLLED_MAX)",
                   op->kind, op->name, needed, iterations, each, MP_UNROLLED_MAX);
}

static int64_t region_size(const mp_inference *w, int region)
{
    return (int64_t)w->of[region].n;
}

/* The state of unrolling one loop. */
typedef struct unrolling {
    mp_operator op;
    /* n_carried: number of carried results; n_stacked: number of stacked results of each iteration */
    int region, n_carried, n_stacked;
    int *actual, *results;
    int *items; /* the value for stacked result k in iteration i is items[i * n_stacked + k] */
    size_t items_capacity;
    int64_t n_iterations;
} unrolling;

static mp_status start(mp_inference *w, int index, int n_carried, unrolling *u)
{
    const mp_operator *op = &w->model->operators[index];
    const mp_region *r = &w->model->regions[op->regions[0]];
    const int first =
        op->control ==
        MP_CONTROL_LOOP; /* 1 for a Loop, whose body first returns the condition for the next iteration; 0 for a Scan */
    *u =
        (unrolling){.op = *op, .region = op->regions[0], .n_carried = n_carried, .n_stacked = r->n_results - n_carried - first};
    MP_ENSURE(u->n_stacked >= 0 && op->n_out <= n_carried + u->n_stacked, w->err, MP_PARSE,
              "the subgraph '%s' of %s '%s' has %d outputs, but it carries %d values and the operator has %d outputs",
              r->prefix, op->kind, op->name, r->n_results, n_carried, op->n_out);
    MP_ENSURE((u->actual = mp_alloc((size_t)r->n_formals, sizeof *u->actual)) &&
                  (u->results = mp_alloc((size_t)r->n_results, sizeof *u->results)),
              w->err, MP_NOMEM, "no memory to unroll '%s'", op->name);
    return MP_OK;
}

static void end(unrolling *u)
{
    mp_free(u->actual);
    mp_free(u->results);
    mp_free(u->items);
}

/* Runs one iteration: copies the body. Its results from index `first` on are the carried values, followed by the values to
 * stack. */
static mp_status iterate(mp_inference *w, unrolling *u, const char *number, int first)
{
    const char *prefix = mp_pool_format(w->model->pool, "%s%s", w->model->regions[u->region].prefix, number);
    const size_t n = (size_t)u->n_iterations * (size_t)u->n_stacked;
    MP_ENSURE(prefix && mp_grow(&u->items, &u->items_capacity, n + (size_t)u->n_stacked, sizeof *u->items), w->err, MP_NOMEM,
              "no memory to unroll '%s'", u->op.name);
    /* each iteration counts as at least this number of operators. So a loop whose body has no operators, or many carried
     * values, also reaches the limit */
    MP_CHECK(mp_inference_count(w, 1 + u->n_stacked + u->n_carried / 16, u->op.name));
    MP_CHECK(mp_control_run(w, u->region, u->actual, prefix, u->results));
    for (int k = 0; k < u->n_stacked; k++) u->items[n + (size_t)k] = u->results[first + u->n_carried + k];
    u->n_iterations++;
    return MP_OK;
}

/* Stacks the values of result k over all iterations, in forward or reverse order, into tensor `to`. */
static mp_status stack(mp_inference *w, const unrolling *u, int k, int64_t axis, bool backwards, int to, int *out)
{
    const int n = (int)u->n_iterations;
    MP_OWNED int *items = mp_alloc((size_t)n, sizeof *items);
    MP_ENSURE(items, w->err, MP_NOMEM, "no memory to unroll '%s'", u->op.name);
    MP_ENSURE(n > 0, w->err, MP_UNSUPPORTED, "%s '%s' runs no iteration, so the shape of its stacked outputs is unknown",
              u->op.kind, u->op.name);
    for (int i = 0; i < n; i++) items[backwards ? n - 1 - i : i] = u->items[i * u->n_stacked + k];
    return mp_control_join(w, items, n, axis, true, u->op.name, to, out);
}

/* Reads a tensor that must contain a single known integer or boolean. */
static mp_status known_number(const mp_inference *w, const mp_operator *op, const char *what, int tensor, int64_t *number)
{
    const mp_value *value = w->model->tensors[tensor].value;
    if (!value) return mp_inference_dynamic(w, op, what, tensor);
    MP_ENSURE(value->n == 1 && !value->is_real, w->err, MP_PARSE, "%s of %s '%s', '%s', is not a single number", what, op->kind,
              op->name, w->model->tensors[tensor].name);
    *number = value->i[0];
    return MP_OK;
}

/* How a Loop ends: by its trip count, its condition, or both. */
typedef struct ending {
    bool counts, asks; /* counts: the Loop has a trip count. asks: the Loop has a condition */
    int64_t trips, holds;
} ending;

static mp_status read_ending(mp_inference *w, const mp_operator *op, ending *e)
{
    *e = (ending){.counts = op->in[0] >= 0, .asks = op->in[1] >= 0, .holds = 1};
    if (e->counts) MP_CHECK(known_number(w, op, "its trip count", op->in[0], &e->trips));
    if (e->asks) MP_CHECK(known_number(w, op, "its condition", op->in[1], &e->holds));
    MP_ENSURE(e->counts || e->asks, w->err, MP_UNSUPPORTED,
              "Loop '%s' has neither a trip count nor a condition, so it never ends", op->name);
    return MP_OK;
}

/* Runs all iterations of a Loop. If a loop ends by its condition, exporters write a huge trip count. */
static mp_status run_loop(mp_inference *w, unrolling *u, ending *e)
{
    int always;
    char number[32];
    const char *prefix = w->model->regions[u->region].prefix;
    MP_CHECK(mp_control_number(w, prefix, MP_DTYPE_BOOL, 1, &always));
    u->actual[1] = always;
    for (int k = 0; k < u->n_carried; k++) u->actual[2 + k] = u->op.in[2 + k];
    if (e->counts && !e->asks && e->trips > 0) MP_CHECK(check_count(w, &u->op, e->trips, region_size(w, u->region) + 1));
    for (int64_t before = w->n_unrolled; e->holds && (!e->counts || u->n_iterations < e->trips);) {
        MP_CHECK(mp_control_number(w, prefix, MP_DTYPE_INT64, u->n_iterations, &u->actual[0]));
        snprintf(number, sizeof number, "%" PRId64, u->n_iterations);
        MP_CHECK(iterate(w, u, number, 1));
        if (e->asks) MP_CHECK(known_number(w, &u->op, "the condition that its body computes", u->results[0], &e->holds));
        if (e->holds && u->n_iterations == 1 && e->counts && e->trips <= INT_MAX)
            MP_CHECK(check_count(w, &u->op, e->trips - 1, w->n_unrolled - before));
        for (int k = 0; k < u->n_carried; k++) u->actual[2 + k] = u->results[1 + k];
    }
    return MP_OK;
}

mp_status mp_control_loop(mp_inference *w, int index)
{
    const mp_operator *op = &w->model->operators[index];
    const int n = mp_operator_explicit_inputs(w->model, op), n_formals = w->model->regions[op->regions[0]].n_formals;
    MP_CLEARED_BY(end) unrolling u = {0};
    ending e;
    int made;
    MP_ENSURE(n >= 2 && n_formals == n, w->err, MP_PARSE, "Loop '%s' has %d inputs, but its body has %d", op->name, n,
              n_formals);
    for (int k = 2; k < n; k++) MP_ENSURE(op->in[k] >= 0, w->err, MP_PARSE, "Loop '%s' lacks its input %d", op->name, k);
    MP_CHECK(start(w, index, n - 2, &u));
    MP_CHECK(read_ending(w, &u.op, &e));
    MP_CHECK(run_loop(w, &u, &e));
    mp_control_drop(w, u.region);
    mp_inference_remove(w, index);
    for (int k = 0; k < u.op.n_out; k++) {
        if (u.op.out[k] < 0) continue;
        if (k < u.n_carried)
            MP_CHECK(mp_inference_alias(w, u.actual[2 + k], u.op.out[k]));
        else
            MP_CHECK(stack(w, &u, k - u.n_carried, 0, false, u.op.out[k], &made));
    }
    return MP_OK;
}

/* The axes and directions along which a Scan splits its inputs and stacks its outputs. */
typedef struct scanning {
    int n_states, n_scanned;
    const char *in_axes, *in_directions;
    bool by_sample; /* true before operator set 9: the Scan runs separately for each sample of the batch */
} scanning;

/* Returns entry k of an attribute list; 0 if the list is omitted. */
static int64_t entry(const mp_operator *op, const char *attribute, int k)
{
    size_t n;
    const int64_t *list = mp_operator_ints(op, attribute, &n);
    return (size_t)k < n ? list[k] : 0;
}

static mp_status check_axis(const mp_inference *w, const mp_operator *op, int64_t axis, int rank, int *out)
{
    MP_ENSURE(axis >= -rank && axis < rank, w->err, MP_PARSE, "Scan '%s' scans axis %" PRId64 " of a tensor with %d dimensions",
              op->name, axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return MP_OK;
}

/* Splits all tensors inputs[0..n), each along its own axis. The k-th piece of tensor i is parts[k * *count + i]. Release *parts
 * with mp_free. */
static mp_status cut(mp_inference *w, const unrolling *u, const int *inputs, int n, const char *axes, int64_t each, int **parts,
                     int *count)
{
    MP_OWNED int *made = NULL;
    int axis = 0;
    int64_t size = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < n; k++) {
            const mp_tensor *t = &w->model->tensors[inputs[k]];
            MP_ENSURE(t->rank >= 0, w->err, MP_UNSUPPORTED, "Scan '%s' reads '%s', whose shape is unknown", u->op.name,
                      t->name);
            MP_CHECK(check_axis(w, &u->op, axes ? entry(&u->op, axes, k) : 0, t->rank, &axis));
            if (pass) {
                MP_CHECK(mp_control_part(w, inputs[k], axis, NULL, *count, true, made + (size_t)k * (size_t)*count));
                continue;
            }
            MP_ENSURE(!k || t->dims[axis] == size, w->err, MP_PARSE,
                      "Scan '%s' iterates over %" PRId64 " elements of one input, but over %" PRId64 " of '%s'", u->op.name,
                      size, t->dims[axis], t->name);
            size = t->dims[axis];
        }
        if (pass) continue;
        MP_ENSURE(size > 0, w->err, MP_UNSUPPORTED,
                  "Scan '%s' runs no iteration, so the shape of its stacked outputs is unknown", u->op.name);
        MP_CHECK(check_count(w, &u->op, size, each + n));
        *count = (int)size;
        MP_ENSURE(made = mp_alloc((size_t)n * (size_t)size, sizeof *made), w->err, MP_NOMEM, "no memory to unroll '%s'",
                  u->op.name);
    }
    *parts = made;
    made = NULL;
    return MP_OK;
}

/* Unrolls one Scan over inputs[0..n_states + n_scanned). Results are written to the tensors out[]; -1: to a new tensor. */
static mp_status scan_once(mp_inference *w, unrolling *u, const scanning *s, const int *inputs, const char *sample, int *out)
{
    MP_OWNED int *parts = NULL;
    int count = 0;
    char number[64];
    MP_CHECK(cut(w, u, inputs + s->n_states, s->n_scanned, s->in_axes, region_size(w, u->region) + 1, &parts, &count));
    for (int k = 0; k < s->n_states; k++) u->actual[k] = inputs[k];
    u->n_iterations = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < s->n_scanned; k++) {
            bool backwards = entry(&u->op, s->in_directions, k) == 1;
            u->actual[s->n_states + k] = parts[k * count + (backwards ? count - 1 - i : i)];
        }
        snprintf(number, sizeof number, "%s%s%d", sample ? sample : "", sample ? "." : "", i);
        MP_CHECK(iterate(w, u, number, 0));
        for (int k = 0; k < s->n_states; k++) u->actual[k] = u->results[k];
    }
    for (int k = 0; k < u->op.n_out; k++) {
        if (u->op.out[k] < 0) continue;
        if (k >= s->n_states) {
            const int j = k - s->n_states;
            int64_t axis = s->by_sample ? 0 : entry(&u->op, "scan_output_axes", j);
            MP_CHECK(stack(w, u, j, axis, entry(&u->op, "scan_output_directions", j) == 1, out[k], &out[k]));
        } else if (out[k] >= 0) {
            MP_CHECK(mp_inference_alias(w, u->actual[k], out[k]));
        } else {
            out[k] = u->actual[k];
        }
    }
    return MP_OK;
}

/* Unrolls a Scan before operator set 9: once per sample of the batch, which is the first dimension of every input. */
static mp_status scan_samples(mp_inference *w, unrolling *u, const scanning *s, const int *inputs)
{
    const int n = s->n_states + s->n_scanned, n_out = u->op.n_out;
    MP_OWNED int *parts = NULL, *one = NULL, *outs = NULL, *items = NULL;
    int n_samples = 0, made;
    char sample[32];
    MP_CHECK(cut(w, u, inputs, n, NULL, 1, &parts, &n_samples));
    MP_ENSURE((one = mp_alloc((size_t)n, sizeof *one)) && (outs = mp_alloc((size_t)n_out * (size_t)n_samples, sizeof *outs)) &&
                  (items = mp_alloc((size_t)n_samples, sizeof *items)),
              w->err, MP_NOMEM, "no memory to unroll '%s'", u->op.name);
    for (int b = 0; b < n_samples; b++) {
        int *own = outs + (size_t)b * (size_t)n_out;
        for (int k = 0; k < n; k++) one[k] = parts[(size_t)k * (size_t)n_samples + (size_t)b];
        for (int k = 0; k < n_out; k++) own[k] = -1;
        snprintf(sample, sizeof sample, "%d", b);
        MP_CHECK(scan_once(w, u, s, one, sample, own));
    }
    for (int k = 0; k < n_out; k++) {
        for (int b = 0; b < n_samples; b++) items[b] = outs[(size_t)b * (size_t)n_out + (size_t)k];
        if (u->op.out[k] >= 0) MP_CHECK(mp_control_join(w, items, n_samples, 0, true, u->op.name, u->op.out[k], &made));
    }
    return MP_OK;
}

mp_status mp_control_scan(mp_inference *w, int index)
{
    const mp_operator *op = &w->model->operators[index];
    scanning s = {.by_sample = op->version < 9};
    MP_CLEARED_BY(end) unrolling u = {0};
    MP_OWNED int *outs = NULL;
    const int first = s.by_sample, n = mp_operator_explicit_inputs(w->model, op) - first;
    const int n_formals = w->model->regions[op->regions[0]].n_formals;
    const int64_t n_scanned = mp_operator_int(op, "num_scan_inputs", 0);
    MP_ENSURE(n_scanned >= 1 && n_scanned <= n && n_formals == n, w->err, MP_PARSE,
              "Scan '%s' has %d inputs, of which it scans %" PRId64 ", but its body has %d", op->name, n, n_scanned, n_formals);
    MP_ENSURE(!first || op->in[0] < 0, w->err, MP_UNSUPPORTED,
              "Scan '%s' has sequences of different lengths ('%s'), which is not supported", op->name,
              w->model->tensors[op->in[0]].name);
    for (int k = 0; k < n; k++)
        MP_ENSURE(op->in[first + k] >= 0, w->err, MP_PARSE, "Scan '%s' lacks its input %d", op->name, first + k);
    s.n_scanned = (int)n_scanned;
    s.n_states = n - s.n_scanned;
    s.in_axes = s.by_sample ? NULL : "scan_input_axes";
    s.in_directions = s.by_sample ? "directions" : "scan_input_directions";
    MP_CHECK(start(w, index, s.n_states, &u));
    MP_ENSURE(outs = mp_alloc((size_t)u.op.n_out, sizeof *outs), w->err, MP_NOMEM, "no memory to unroll '%s'", u.op.name);
    for (int k = 0; k < u.op.n_out; k++) outs[k] = u.op.out[k];
    mp_inference_remove(w, index);
    if (s.by_sample)
        MP_CHECK(scan_samples(w, &u, &s, u.op.in + 1));
    else
        MP_CHECK(scan_once(w, &u, &s, u.op.in, NULL, outs));
    mp_control_drop(w, u.region);
    return MP_OK;
}
