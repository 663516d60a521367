/* watch.c - inspects the operands of a step before and after it runs. */
#include "executor/run/watch.h"

#include "executor/program/program_nodes.h"

#include <math.h>
#include <string.h>

enum { NANS = 1, INFINITIES = 2 };

void mp_watch_begin(mp_watch *w, const mp_program *program)
{
    *w = (mp_watch){.program = program, .first = {.node = -1}, .first_nan = {.node = -1}};
}

void mp_watch_end(mp_watch *w)
{
    mp_free(w->room);
    *w = (mp_watch){0};
}

mp_status mp_watch_count(mp_watch *w, const mp_array *there, int64_t *n_bad, bool *has_nan, mp_error *err)
{
    const mp_backend *b = w->program->backend;
    *n_bad = 0;
    *has_nan = false;
    if (!there->data || !mp_is_real(there->dtype)) return MP_OK;
    mp_array host = mp_array_plain(MP_DTYPE_FLOAT, there->rank, there->dims);
    const int64_t n = mp_array_elements(&host);
    if (n > w->n_room) {
        mp_free(w->room);
        w->n_room = 0;
        MP_ENSURE(w->room = mp_alloc((size_t)n, sizeof *w->room), err, MP_NOMEM, "out of memory");
        w->n_room = n;
    }
    host.data = w->room;
    if (n) MP_CHECK(b->download(b, there, &host, err));
    for (int64_t k = 0; k < n; k++) {
        *n_bad += !isfinite(w->room[k]);
        *has_nan |= isnan(w->room[k]);
    }
    return MP_OK;
}

static mp_status look(mp_watch *w, const mp_array *there, unsigned *kinds, int64_t *n_bad, mp_error *err)
{
    bool has_nan;
    mp_status st = mp_watch_count(w, there, n_bad, &has_nan, err);
    *kinds = st != MP_OK || !*n_bad ? 0 : has_nan ? NANS | INFINITIES : INFINITIES;
    return st;
}

/* Returns the index of an array in a list of n arrays; -1: the array is not in the list. */
static int place(const mp_array *a, const mp_array *list, int n)
{
    return list && a >= list && a < list + n ? (int)(a - list) : -1;
}

/* Returns the tensor whose value or gradient a step of an operator writes into an array; -1: the step only reads it, or
 * saves it for backward. */
static int written(const mp_program *p, const mp_ready_step *r, const mp_array *a)
{
    const mp_operands *x = &mp_program_node_at(p, r->node)->operands;
    const int o = place(a, x->out, x->n_out), i = place(a, x->d_in, x->n_in);
    if (!x->is_backward) return o >= 0 ? x->op->out[o] : -1;
    return i >= 0 ? x->op->in[i] : -1;
}

static bool is_read(const mp_program *p, const mp_ready_step *r, const mp_array *a)
{
    const mp_operands *x = &mp_program_node_at(p, r->node)->operands;
    const int i = place(a, x->d_in, x->n_in);
    if (!x->is_backward) return place(a, x->in, x->n_in) >= 0;
    return i < 0 || (mp_program_binding(p, r->node)->adds >> i & 1);
}

mp_status mp_watch_before(mp_watch *w, const mp_ready_step *r, mp_error *err)
{
    const mp_program_node *node = mp_program_node_at(w->program, r->node);
    w->read = 0;
    for (size_t k = 0; k < r->n_slots; k++) {
        unsigned kinds;
        int64_t n_bad;
        mp_array a = *node->slots[k].array;
        a.data = r->slots[k];
        if (!is_read(w->program, r, node->slots[k].array)) continue;
        MP_CHECK(look(w, &a, &kinds, &n_bad, err));
        w->read |= kinds;
    }
    return MP_OK;
}

/* For a step that wrote values that are not finite: records the step as an origin of NaNs if it read no NaN, and as the first
 * origin if all values that it read were finite. */
static void note(mp_watch *w, const mp_ready_step *r, int tensor, bool is_gradient, const mp_array *a, unsigned kinds,
                 int64_t n_bad)
{
    const mp_origin origin = {.node = r->node,
                              .tensor = tensor,
                              .is_gradient = is_gradient,
                              .is_nan = kinds & NANS,
                              .n_bad = n_bad,
                              .n = mp_array_elements(a),
                              .pass = w->pass};
    if (w->first.node < 0 && kinds && !w->read) w->first = origin;
    if (w->first_nan.node < 0 && (kinds & NANS) && !(w->read & NANS)) w->first_nan = origin;
}

/* Inspects the result of a step without an operator: accumulation and clipping change a gradient, an update changes a
 * parameter. */
static mp_status after_others(mp_watch *w, const mp_ready_step *r, const mp_binding *b, mp_error *err)
{
    const mp_program *p = w->program;
    unsigned kinds;
    int64_t n_bad;
    mp_array a;
    int tensor = b->parameter;
    for (size_t t = 0; b->task == MP_TASK_ACCUMULATE && t < p->model->n_tensors; t++)
        if (p->bindings->gradient[t] == b->target && p->bindings->gradient_offset[t] == b->target_offset &&
            (!b->bytes || mp_tensor_elements(&p->model->tensors[t]) * (mp_dtype_bits(p->bindings->dtype[t]) / 8) == b->bytes))
            tensor = (int)t;
    if (tensor < 0) return MP_OK;
    MP_CHECK(mp_program_array(p, tensor, &a, err));
    a.data = r->target;
    /* if a gradient has values that are not finite, they were already recorded for the step that wrote the gradient */
    w->read = 0;
    MP_CHECK(look(w, &a, &kinds, &n_bad, err));
    note(w, r, tensor, b->task == MP_TASK_ACCUMULATE, &a, kinds, n_bad);
    return MP_OK;
}

mp_status mp_watch_after(mp_watch *w, const mp_ready_step *r, mp_error *err)
{
    const mp_program *p = w->program;
    const mp_program_node *node = mp_program_node_at(p, r->node);
    const mp_binding *b = mp_program_binding(p, r->node);
    if (b->task != MP_TASK_FORWARD && b->task != MP_TASK_BACKWARD) return after_others(w, r, b, err);
    for (size_t k = 0; k < r->n_slots; k++) {
        unsigned kinds;
        int64_t n_bad;
        mp_array a = *node->slots[k].array;
        const int tensor = written(p, r, node->slots[k].array);
        a.data = r->slots[k];
        if (tensor < 0) continue;
        MP_CHECK(look(w, &a, &kinds, &n_bad, err));
        note(w, r, tensor, b->task == MP_TASK_BACKWARD, &a, kinds, n_bad);
    }
    return MP_OK;
}
