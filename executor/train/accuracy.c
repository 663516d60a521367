/* accuracy.c - runs batches of held-out samples forward, adds up what they give, and puts together what ranks have of it. */
#include "executor/train/accuracy.h"

#include "executor/data/inputs.h"
#include "executor/ranks/exchanges.h"
#include "executor/run/held.h"
#include "executor/run/parts.h"
#include "executor/run/program_split.h"
#include "executor/run/rank_results.h"
#include "executor/train/evaluate.h"
#include "executor/train/scores.h"

/* What all batches have given so far. */
typedef struct tally {
    double loss; /* the mean over the batches, or what they have added to it */
    mp_labels_count labels;
} tally;

typedef struct examiner {
    const mp_program *program;
    mp_execution *execution;
    mp_evaluation how;
    mp_array *values; /* per tensor: in the execution's memory, or wanted here */
    int wanted[3];    /* the loss, and for losses over classes the scores and labels */
    size_t n_wanted;
    const mp_tensor *scores; /* those among the wanted; NULL: the loss is not over classes */
    mp_array host[3];        /* row-major copies of them on the host */
    void *rooms[3];          /* the backend's memory for them; NULL: it lies in the execution */
    void **wholes;           /* per tensor: the backend's memory for what ranks have parts of; NULL: it lies in the execution */
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

/* Brings a tensor together that ranks share out, in memory of its own; of one that operators split, what this rank has of it.
 */
static mp_status bring_together(examiner *e, int tensor, mp_error *err)
{
    const mp_program *p = e->program;
    const mp_tensor *t = &p->model->tensors[tensor];
    mp_array whole = mp_array_plain(MP_DTYPE_FLOAT, t->rank, mp_tensor_whole_dims(t)),
             host = mp_array_plain(MP_DTYPE_FLOAT, t->rank, t->dims);
    MP_OWNED void *values = whole.data = mp_alloc((size_t)mp_array_elements(&whole), sizeof(float));
    MP_OWNED void *own = host.data = mp_alloc((size_t)mp_tensor_elements(t), sizeof(float));
    e->wholes[tensor] = p->backend->allocate(p->backend, mp_stored_elements(t) * (int64_t)sizeof(float));
    MP_ENSURE(values && own && e->wholes[tensor], err, MP_NOMEM, "there is no memory for the whole of '%s'", t->name);
    MP_CHECK(mp_held_read(p, e->execution, tensor, MP_HELD_VALUES, -1, &whole, err));
    mp_part_take(t, mp_execution_place(e->execution)->part_index, sizeof(float), whole.data, host.data);
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
    bool *adds_zeros = mp_pool_alloc(e->pool, p->model->n_operators, sizeof *adds_zeros);
    MP_ENSURE(e->values && e->wholes && adds_zeros, err, MP_NOMEM, "out of memory");
    if (mp_execution_place(e->execution)->part_index) mp_split_list_added_once(p, adds_zeros);
    e->how.adds_zeros = adds_zeros;
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
    e->scores = &p->model->tensors[p->model->operators[classes].in[0]];
    MP_CHECK(want(e, p->model->operators[classes].in[0], err));
    return want(e, p->model->operators[classes].in[1], err);
}

static mp_status run_batches(examiner *e, mp_feed *feed, int64_t n, tally *out, mp_error *err)
{
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler filler = {0};
    const bool has_own_classes = e->scores && e->scores->part && e->scores->part->dim == 1;
    MP_CHECK(mp_input_filler_new(e->program, feed, &filler, err));
    for (int64_t k = 0; k < n; k++) {
        MP_CHECK(mp_inputs_fill(&filler, k, e->execution, err));
        MP_CHECK(mp_evaluate(e->program->model, &e->how, e->values, e->wanted, e->n_wanted, err));
        for (size_t w = 0; w < e->n_wanted; w++)
            MP_CHECK(e->program->backend->download(e->program->backend, &e->values[e->wanted[w]], &e->host[w], err));
        out->loss += (double)*(const float *)e->host[0].data / (double)n;
        if (e->scores)
            MP_CHECK(mp_scores_count(&e->host[1], &e->host[2], has_own_classes ? e->how.run.team : NULL, &out->labels, err));
    }
    return MP_OK;
}

/* Puts together what the ranks have of the results, so that all of them say the same. */
static mp_status share(const examiner *e, const tally *own, tally *out, mp_error *err)
{
    const mp_program *p = e->program;
    const mp_company company = mp_execution_company(e->execution);
    const bool has_own_positions = e->scores && e->scores->part && e->scores->part->dim != 1;
    MP_OWNED tally *all = mp_alloc((size_t)company.world->n, sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_communicator_exchange(company.world, own, sizeof *own, all, company.timeout, "the results of a test", err));
    *out = all[0]; /* the ranks that split operators follow each other */
    for (int k = 1; k < p->loss_parts; k++) out->loss += all[k].loss;
    out->loss = mp_loss_of_sum(p, out->loss);
    for (int k = 1; k < mp_execution_place(e->execution)->n_parts && has_own_positions; k++) {
        out->labels.n_right += all[k].labels.n_right;
        out->labels.n_labels += all[k].labels.n_labels;
    }
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
    const mp_kernel_team *team = mp_crossing_team(&mp_execution_ranks(execution)->of_parts);
    MP_CLEARED_BY(examiner_free)
    examiner e = {.program = program,
                  .execution = execution,
                  .how = {.backend = program->backend,
                          .mode = MP_MODE_EVALUATE,
                          .run = {.seed = seed, .first_run = true, .team = team},
                          .dtype = program->options.dtype}};
    const int64_t n = mp_feed_batches(feed);
    tally own = {0}, all = {0};
    *out = (mp_accuracy){.n_samples = n * mp_feed_batch_size(feed), .accuracy = -1};
    program->backend->enter(program->backend);
    MP_CHECK(prepare(&e, err));
    MP_CHECK(run_batches(&e, feed, n, &own, err));
    MP_CHECK(share(&e, &own, &all, err));
    out->loss = all.loss;
    if (all.labels.n_labels) out->accuracy = (double)all.labels.n_right / (double)all.labels.n_labels;
    return MP_OK;
}
