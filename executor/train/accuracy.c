/* accuracy.c - runs batches of held-out samples forward, and counts correctly classified ones. */
#include "executor/train/accuracy.h"

#include "executor/data/inputs.h"
#include "executor/run/held.h"
#include "executor/train/evaluate.h"

typedef struct examiner {
    const mp_program *program;
    mp_execution *execution;
    mp_evaluation how;
    mp_array *values; /* per tensor: in the execution's memory, or wanted here */
    int wanted[3];    /* the loss, and for losses over classes the scores and labels */
    size_t n_wanted;
    mp_array host[3]; /* row-major copies of them on the host */
    void *rooms[3];   /* the backend's memory for them; NULL: it lies in the execution */
    void **wholes;    /* per tensor: the backend's memory for what ranks have parts of; NULL: it lies in the execution */
    mp_pool *pool;
} examiner;

/* Returns the operator that compares scores with labels; -1: there is none. */
static int find_classes(const mp_model *model)
{
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if ((op->op->traits & MP_TRAIT_CLASSES) && !op->removed && model->tensors[op->in[0]].rank > 1) return (int)k;
    }
    return -1;
}

/* Allocates memory for a wanted tensor, on the backend and on the host. */
static mp_status want(examiner *e, int tensor, mp_error *err)
{
    const mp_tensor *t = &e->program->model->tensors[tensor];
    mp_array *there = &e->values[tensor], *host = &e->host[e->n_wanted];
    mp_dtype dtype = t->dtype == MP_DTYPE_FLOAT ? e->how.dtype : t->dtype;
    *host = mp_array_plain(t->dtype, t->rank, t->dims);
    host->data = mp_pool_alloc(e->pool, (size_t)mp_array_bytes(host) + 1, 1);
    MP_ENSURE(host->data, err, MP_NOMEM, "there is no memory for '%s'", t->name);
    if (!there->data) {
        MP_CHECK(mp_array_of(t, dtype, there, err));
        there->data = e->rooms[e->n_wanted] = e->program->backend->allocate(e->program->backend, mp_array_bytes(host) + 1);
        MP_ENSURE(there->data, err, MP_NOMEM, "there is no memory for '%s'", t->name);
    }
    e->wanted[e->n_wanted++] = tensor;
    return MP_OK;
}

/* Brings a tensor together of which each rank has a part, in memory of its own. */
static mp_status bring_together(examiner *e, int tensor, mp_error *err)
{
    const mp_program *p = e->program;
    const mp_tensor *t = &p->model->tensors[tensor];
    mp_array host = mp_array_plain(MP_DTYPE_FLOAT, t->rank, t->dims);
    MP_OWNED void *values = host.data = mp_alloc((size_t)mp_tensor_elements(t), sizeof(float));
    e->wholes[tensor] = p->backend->allocate(p->backend, mp_stored_elements(t) * (int64_t)sizeof(float));
    MP_ENSURE(values && e->wholes[tensor], err, MP_NOMEM, "there is no memory for the whole of '%s'", t->name);
    MP_CHECK(mp_held_read(p, e->execution, tensor, MP_HELD_VALUES, -1, &host, err));
    MP_CHECK(mp_program_array(p, tensor, &e->values[tensor], err));
    e->values[tensor].data = e->wholes[tensor];
    return p->backend->upload(p->backend, &host, &e->values[tensor], err);
}

static mp_status prepare(examiner *e, mp_error *err)
{
    const mp_program *p = e->program;
    int classes = find_classes(p->model);
    MP_ENSURE(e->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    e->values = mp_pool_alloc(e->pool, p->model->n_tensors, sizeof *e->values);
    e->wholes = mp_pool_alloc(e->pool, p->model->n_tensors, sizeof *e->wholes);
    MP_ENSURE(e->values && e->wholes, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < p->model->n_tensors; t++) {
        const int storage = p->bindings->storage[t];
        if (p->model->tensors[t].producer >= 0 || storage < 0) continue;
        if (mp_storage_is_static(&p->graph->storages[storage]))
            MP_CHECK(mp_execution_tensor(e->execution, (int)t, &e->values[t], err));
        else if (mp_is_held(p, e->execution, (int)t))
            MP_CHECK(bring_together(e, (int)t, err));
    }
    MP_CHECK(want(e, p->bindings->loss, err));
    if (classes < 0) return MP_OK;
    MP_CHECK(want(e, p->model->operators[classes].in[0], err));
    return want(e, p->model->operators[classes].in[1], err);
}

static double label_at(const mp_array *labels, int64_t k)
{
    return labels->dtype == MP_DTYPE_INT32 ? ((const int32_t *)labels->data)[k] : (double)((const int64_t *)labels->data)[k];
}

/* Counts the labels that have the highest score. Labels that name no class (the loss ignores them) are not counted. */
static void count_right(const mp_array *scores, const mp_array *labels, int64_t *n_right, int64_t *n_labels)
{
    int64_t inner = 1, classes = scores->dims[1];
    for (int d = 2; d < scores->rank; d++) inner *= scores->dims[d];
    for (int64_t k = 0; k < scores->dims[0] * inner; k++) {
        const float *of = (const float *)scores->data + k / inner * classes * inner + k % inner;
        double label = label_at(labels, k);
        int64_t best = 0;
        if (!(label >= 0 && label < (double)classes)) continue;
        for (int64_t c = 1; c < classes; c++)
            if (of[c * inner] > of[best * inner]) best = c;
        *n_right += (double)best == label;
        (*n_labels)++;
    }
}

static mp_status run_batches(examiner *e, mp_feed *feed, int64_t n, mp_accuracy *out, mp_error *err)
{
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler filler = {0};
    int64_t n_right = 0, n_labels = 0;
    MP_CHECK(mp_input_filler_new(e->program, feed, &filler, err));
    for (int64_t k = 0; k < n; k++) {
        MP_CHECK(mp_inputs_fill(&filler, k, e->execution, err));
        MP_CHECK(mp_evaluate(e->program->model, &e->how, e->values, e->wanted, e->n_wanted, err));
        for (size_t w = 0; w < e->n_wanted; w++)
            MP_CHECK(e->program->backend->download(e->program->backend, &e->values[e->wanted[w]], &e->host[w], err));
        out->loss += (double)*(const float *)e->host[0].data / (double)n;
        if (e->n_wanted > 1) count_right(&e->host[1], &e->host[2], &n_right, &n_labels);
    }
    if (n_labels) out->accuracy = (double)n_right / (double)n_labels;
    return MP_OK;
}

static void examiner_free(examiner *e)
{
    const mp_backend *b = e->program->backend;
    b->leave(b);
    for (size_t w = 0; w < e->n_wanted; w++)
        if (e->rooms[w]) b->release(b, e->rooms[w], mp_array_bytes(&e->host[w]) + 1);
    for (size_t t = 0; e->wholes && t < e->program->model->n_tensors; t++)
        if (e->wholes[t])
            b->release(b, e->wholes[t], mp_stored_elements(&e->program->model->tensors[t]) * (int64_t)sizeof(float));
    mp_pool_free(e->pool);
}

mp_status mp_accuracy_measure(mp_execution *execution, const mp_program *program, mp_feed *feed, uint64_t seed,
                              mp_accuracy *out, mp_error *err)
{
    MP_CLEARED_BY(examiner_free)
    examiner e = {.program = program,
                  .execution = execution,
                  .how = {.backend = program->backend,
                          .mode = MP_MODE_EVALUATE,
                          .run = {.seed = seed, .first_run = true},
                          .dtype = program->options.dtype}};
    int64_t n = mp_feed_batches(feed);
    *out = (mp_accuracy){.n_samples = n * mp_feed_batch_size(feed), .accuracy = -1};
    program->backend->enter(program->backend);
    MP_CHECK(prepare(&e, err));
    return run_batches(&e, feed, n, out, err);
}
