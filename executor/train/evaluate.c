/* evaluate.c - runs the operators needed for the wanted tensors in order, and frees each tensor after its last reader. */
#include "executor/train/evaluate.h"

#include <string.h>

enum { ALIGNMENT = 256 }; /* alignment of allocated memory in bytes, sufficient for every device */

typedef struct room {
    void *block, *data; /* block: address as allocated, to be freed; data: the first aligned address in the block */
    int64_t bytes;      /* size of the block */
} room;

typedef struct evaluator {
    const mp_model *model;
    const mp_evaluation *how;
    mp_array *values;
    const mp_backend *away; /* the backend, if it is a device with its own memory; NULL: all memory is host memory */
    room *rooms;            /* per tensor of the model: memory allocated by the evaluation */
    room *known;  /* per tensor of the model: host copy of a constant, which kernels read when a call is prepared; used only on
                     devices */
    int *last;    /* per tensor of the model: index of the last operator that reads the tensor; -1: none */
    bool *needed; /* per operator: true if a wanted tensor depends on it */
} evaluator;

static mp_status take(const mp_backend *away, room *r, int64_t bytes, mp_error *err)
{
    *r = (room){.bytes = bytes + ALIGNMENT};
    r->block = away ? away->allocate(away, r->bytes) : mp_alloc((size_t)r->bytes, 1);
    MP_ENSURE(r->block, err, MP_NOMEM, "no memory for %lld bytes", (long long)bytes);
    r->data = (char *)r->block + (ALIGNMENT - (uintptr_t)r->block % ALIGNMENT);
    return MP_OK;
}

static void release(const mp_backend *away, room *r)
{
    if (away && r->block)
        away->release(away, r->block, r->bytes);
    else
        mp_free(r->block);
    *r = (room){0};
}

static void give_back(evaluator *e, int tensor)
{
    if (e->known) release(NULL, &e->known[tensor]);
    if (!e->rooms[tensor].block) return;
    release(e->away, &e->rooms[tensor]);
    e->values[tensor] = (mp_array){0};
}

/* Allocates memory for a tensor, if the tensor has none. */
static mp_status make_room(evaluator *e, int tensor, mp_dtype dtype, mp_error *err)
{
    const mp_tensor *t = &e->model->tensors[tensor];
    mp_array a;
    int64_t bytes;
    if (e->values[tensor].data) return MP_OK;
    MP_CHECK(mp_array_of(t, dtype, &a, err));
    MP_ENSURE(mp_multiply(mp_stored_elements(t), mp_dtype_bits(dtype), &bytes), err, MP_INVALID, "'%s' is too large", t->name);
    MP_CHECK(take(e->away, &e->rooms[tensor], bytes / 8 + 1, err));
    a.data = e->rooms[tensor].data;
    e->values[tensor] = a;
    return MP_OK;
}

static mp_dtype computed_in(const evaluator *e, const mp_tensor *t)
{
    return t->dtype == MP_DTYPE_FLOAT && e->how->dtype ? e->how->dtype : t->dtype;
}

/* Copies a constant of the model into the backend's memory, in the constant's own element type. */
static mp_status know(evaluator *e, int tensor, mp_error *err)
{
    const mp_tensor *t = &e->model->tensors[tensor];
    MP_ENSURE(t->value && t->value->n == mp_tensor_elements(t), err, MP_INVALID,
              "the tensor '%s' has neither data nor stored values", t->name);
    MP_CHECK(make_room(e, tensor, t->dtype, err));
    mp_array here = e->values[tensor];
    if (e->away) {
        MP_CHECK(take(NULL, &e->known[tensor], mp_array_bytes(&here) + 1, err));
        here.data = e->known[tensor].data;
    }
    MP_ENSURE(mp_array_is_plain(&here) && mp_array_write(&here, t->value), err, MP_UNSUPPORTED,
              "the constant '%s' of type %s cannot be written", t->name, mp_dtype_name(here.dtype));
    if (e->away) MP_CHECK(e->away->upload(e->away, &here, &e->values[tensor], err));
    return MP_OK;
}

/* Copies the data of a view into the view's own memory. */
static mp_status copy_view(const evaluator *e, const mp_operands *x, mp_error *err)
{
    const mp_array *from = &x->in[0], *to = &x->out[0];
    if (from->dtype != to->dtype || (!mp_array_same_rows(from, to) && !mp_array_same_layout(from, to)))
        return MP_NO_KERNEL(x, err, "a view in another layout");
    if (e->away)
        e->away->copy(e->away, to->data, from->data, mp_array_bytes(to));
    else
        memcpy(to->data, from->data, (size_t)mp_array_bytes(to));
    return MP_OK;
}

/* With `only`, sets the data of constant operands to their host copies, and of all other operands to NULL. A kernel reads
 * constants on the host while a call is prepared. */
static void show_known(const evaluator *e, mp_operands *x, bool only)
{
    for (int i = 0; i < x->n_in; i++)
        if (x->op->in[i] >= 0) x->in[i].data = only ? e->known[x->op->in[i]].data : e->values[x->op->in[i]].data;
}

static mp_status run_call(evaluator *e, mp_operands *x, mp_error *err)
{
    MP_CLEARED_BY(mp_call_release) mp_call call = {0};
    room workspace = {0};
    if (x->op->op->gradient == MP_GRADIENT_VIEW) return copy_view(e, x, err);
    const mp_kernel *kernel = e->how->backend->kernel(e->how->backend, x->op);
    if (!kernel) return MP_NO_KERNEL(x, err, "this operator");
    if (e->away) show_known(e, x, true);
    MP_CHECK(mp_call_prepare(e->how->backend, kernel, x, &call, err));
    if (e->away) show_known(e, x, false);
    MP_CHECK(take(e->away, &workspace, call.workspace_bytes, err));
    x->workspace = workspace.data;
    const mp_status st = mp_call_run(e->how->backend, &call, x, err);
    release(e->away, &workspace);
    return st;
}

/* Runs an operator with zeros instead of its bias, because another rank adds the bias. */
static mp_status run_without_bias(evaluator *e, mp_operands *x, mp_error *err)
{
    enum { BIAS = 2 };
    room zeros;
    MP_CHECK(take(e->away, &zeros, mp_array_bytes(&x->in[BIAS]), err));
    e->how->backend->fill(e->how->backend, zeros.data, 0, mp_array_bytes(&x->in[BIAS]));
    x->in[BIAS].data = zeros.data;
    const mp_status st = run_call(e, x, err);
    release(e->away, &zeros);
    return st;
}

static mp_status run_operator(evaluator *e, int index, mp_error *err)
{
    const mp_operator *op = &e->model->operators[index];
    mp_operands x = {.model = e->model,
                     .op = op,
                     .op_index = index,
                     .mode = e->how->mode,
                     .run = e->how->run,
                     .n_in = op->n_in,
                     .n_out = op->n_out};
    MP_OWNED mp_array *arrays = mp_alloc((size_t)op->n_in + (size_t)op->n_out + 1, sizeof *arrays);
    MP_ENSURE(arrays, err, MP_NOMEM, "no memory for the operands of '%s'", op->name);
    x.in = arrays;
    x.out = arrays + op->n_in;
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i] < 0) continue;
        if (!e->values[op->in[i]].data) MP_CHECK(know(e, op->in[i], err));
        x.in[i] = e->values[op->in[i]];
    }
    for (int o = 0; o < op->n_out; o++) {
        if (op->out[o] < 0) continue;
        MP_CHECK(make_room(e, op->out[o], computed_in(e, &e->model->tensors[op->out[o]]), err));
        x.out[o] = e->values[op->out[o]];
    }
    MP_CHECK((e->how->adds_zeros && e->how->adds_zeros[index] ? run_without_bias : run_call)(e, &x, err));
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] >= 0 && e->last[op->in[i]] <= index) give_back(e, op->in[i]);
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0 && e->last[op->out[o]] < 0) give_back(e, op->out[o]);
    return MP_OK;
}

/* Walks backwards from the wanted tensors, and finds the operators to run and the last reader of each tensor. */
static void find_needed(evaluator *e, const int *wanted, size_t n_wanted)
{
    const mp_model *model = e->model;
    for (size_t t = 0; t < model->n_tensors; t++) e->last[t] = -1;
    for (size_t k = 0; k < n_wanted; k++)
        if (model->tensors[wanted[k]].producer >= 0) e->needed[model->tensors[wanted[k]].producer] = true;
    for (int k = (int)model->n_operators - 1; k >= 0; k--) {
        const mp_operator *op = &model->operators[k];
        e->needed[k] = e->needed[k] && !op->removed;
        for (int i = 0; i < op->n_in && e->needed[k]; i++) {
            if (op->in[i] < 0) continue;
            if (e->last[op->in[i]] < 0) e->last[op->in[i]] = k;
            int producer = model->tensors[op->in[i]].producer;
            if (producer >= 0 && !e->values[op->in[i]].data) e->needed[producer] = true;
        }
    }
}

static void evaluator_free(evaluator *e)
{
    for (size_t t = 0; e->rooms && t < e->model->n_tensors; t++) give_back(e, (int)t);
    mp_free(e->rooms);
    mp_free(e->known);
    mp_free(e->last);
    mp_free(e->needed);
}

mp_status mp_evaluate(const mp_model *model, const mp_evaluation *how, mp_array *values, const int *wanted, size_t n_wanted,
                      mp_error *err)
{
    MP_CLEARED_BY(evaluator_free) evaluator e = {.model = model, .how = how, .values = values};
    if (!how->backend->is_host) e.away = how->backend;
    if (e.away) MP_ENSURE(e.known = mp_alloc(model->n_tensors + 1, sizeof *e.known), err, MP_NOMEM, "out of memory");
    MP_ENSURE(e.rooms = mp_alloc(model->n_tensors + 1, sizeof *e.rooms), err, MP_NOMEM, "out of memory");
    MP_ENSURE(e.last = mp_alloc(model->n_tensors + 1, sizeof *e.last), err, MP_NOMEM, "out of memory");
    MP_ENSURE(e.needed = mp_alloc(model->n_operators + 1, sizeof *e.needed), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n_wanted; k++)
        MP_ENSURE(values[wanted[k]].data, err, MP_INVALID, "there is no memory for the requested tensor '%s'",
                  model->tensors[wanted[k]].name);
    find_needed(&e, wanted, n_wanted);
    for (size_t k = 0; k < model->n_operators; k++)
        if (e.needed[k]) MP_CHECK(run_operator(&e, (int)k, err));
    for (size_t k = 0; k < n_wanted;
         k++) { /* a wanted tensor may be a folded constant, which no operator computes; its value is copied */
        const mp_tensor *t = &model->tensors[wanted[k]];
        if (t->value && (t->producer < 0 || model->operators[t->producer].removed)) MP_CHECK(know(&e, wanted[k], err));
    }
    return MP_OK;
}
