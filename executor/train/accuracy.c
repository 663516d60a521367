/* accuracy.c - runs batches of held-out samples forward through all stages, sums the losses and counts correct labels, and
 * combines the results of all ranks. */
#include "executor/train/accuracy.h"

#include <math.h>
#include <stdio.h>

#include "executor/data/inputs.h"
#include "executor/program/parts.h"
#include "executor/program/program_split.h"
#include "executor/program/stage.h"
#include "executor/ranks/exchanges.h"
#include "executor/run/held.h"
#include "executor/run/rank_results.h"
#include "executor/train/evaluate.h"
#include "executor/train/stage_relay.h"

typedef struct labels_count {
    int64_t n_right, n_labels;
} labels_count;

/* The results of all batches evaluated so far. */
typedef struct tally {
    double loss; /* sum of the losses of the evaluated batches, each divided by the number of batches */
    labels_count labels;
} tally;

/* A block of memory on the backend that holds a tensor of the evaluation. */
typedef struct room {
    void *data; /* address; NULL: no memory is allocated */
    int64_t bytes;
} room;

typedef struct examiner {
    const mp_program *program;
    mp_execution *execution;
    mp_evaluation how;
    mp_array *values; /* per tensor of the model: its array, in the execution's memory or in `rooms` */
    room *rooms;      /* per tensor of the model: memory allocated for the evaluation, if the tensor is a gathered parameter, a
                         message between stages, or a result */
    /* tensors to read after each batch: the loss; for losses over classes then the scores and labels, of each chunk of rows if
     * the loss is cut into chunks */
    int *results;
    size_t n_results;        /* number of entries in `results`; 0 on all pipeline stages except the last */
    const mp_tensor *scores; /* the tensor of class scores (logits); NULL: the loss is not over classes */
    mp_array *host;          /* for each result: its row-major copy on the host */
    mp_relay relay;
    int *wanted; /* tensors that this pipeline stage must compute, for the next stage or as results */
    size_t n_wanted;
    mp_pool *pool;
} examiner;

/* The highest score of a position (a sample or token) among the classes that one rank holds, and the class with this score. */
typedef struct best {
    double score;
    int64_t class;
} best;

static double label_at(const mp_array *labels, int64_t k)
{
    return labels->dtype == MP_DTYPE_INT32 ? ((const int32_t *)labels->data)[k] : (double)((const int64_t *)labels->data)[k];
}

/* Finds the highest score of each position (sample or token) among this rank's classes; `first` is the number of this rank's
 * first class. `inner` positions are adjacent in memory; n is the number of positions. */
static void find_best(const mp_array *scores, int64_t first, int64_t inner, int64_t n, best *out)
{
    const int64_t classes = scores->dims[1];
    for (int64_t k = 0; k < n; k++) {
        const float *of = (const float *)scores->data + k / inner * classes * inner + k % inner;
        int64_t highest = 0;
        for (int64_t c = 1; c < classes; c++)
            if (of[c * inner] > of[highest * inner]) highest = c;
        out[k] = (best){of[highest * inner], first + highest};
    }
}

/* Adds the number of correct labels of a batch to *count: labels whose class has the highest score. Scores are row-major
 * floats, and dimension 1 is the class. If several classes share the highest score, the first one counts. Labels that the loss
 * ignores are not counted. `classes`: the ranks over which the classes are split, in order; these ranks have the same labels
 * and get the same counts. NULL: this rank has all classes. */
static mp_status count_right(const mp_array *scores, const mp_array *labels, const mp_kernel_group *classes,
                             labels_count *count, mp_error *err)
{
    const int64_t ranks = classes ? classes->n : 1, index = classes ? classes->index : 0, n_classes = ranks * scores->dims[1];
    int64_t inner = 1;
    for (int d = 2; d < scores->rank; d++) inner *= scores->dims[d];
    const int64_t n = scores->dims[0] * inner;
    MP_OWNED best *all = mp_alloc((size_t)(ranks * n), sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "there is no memory for the best scores of %lld positions", (long long)n);
    best *own = all + index * n;
    find_best(scores, index * scores->dims[1], inner, n, own);
    if (classes) MP_CHECK(classes->gather(classes, own, n * (int64_t)sizeof *own, all, err));
    for (int64_t k = 0; k < n; k++) {
        const double label = label_at(labels, k);
        const best *highest = &all[k];
        if (!(label >= 0 && label < (double)n_classes)) continue;
        for (int64_t r = 1; r < ranks; r++)
            if (all[r * n + k].score > highest->score) highest = &all[r * n + k];
        count->n_right += (double)highest->class == label;
        count->n_labels++;
    }
    return MP_OK;
}

/* Returns the index of the loss operator that compares class scores with labels; -1: none. */
static int find_classes(const mp_model *model)
{
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if ((op->op->traits & MP_TRAIT_CLASSES) && !op->removed && model->tensors[op->in[0]].rank > 1) return (int)k;
    }
    return -1;
}

static mp_status take(examiner *e, int tensor, int64_t bytes, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    e->rooms[tensor] = (room){b->allocate(b, bytes), bytes};
    MP_ENSURE(e->rooms[tensor].data, err, MP_NOMEM, "there is no memory for '%s'", e->program->model->tensors[tensor].name);
    return MP_OK;
}

/* Allocates memory for a tensor on the backend, if the tensor has none. */
static mp_status make_room(examiner *e, int tensor, mp_error *err)
{
    const mp_tensor *t = &e->program->model->tensors[tensor];
    mp_array *there = &e->values[tensor];
    if (there->data) return MP_OK;
    MP_CHECK(mp_array_of(t, t->dtype == MP_DTYPE_FLOAT ? e->how.dtype : t->dtype, there, err));
    MP_CHECK(take(e, tensor, mp_stored_elements(t) * (mp_dtype_bits(there->dtype) / 8) + 1, err));
    there->data = e->rooms[tensor].data;
    return MP_OK;
}

/* Adds a tensor to the results and allocates its copy on the host. */
static mp_status want(examiner *e, int tensor, mp_error *err)
{
    const mp_tensor *t = &e->program->model->tensors[tensor];
    mp_array *host = &e->host[e->n_results];
    *host = mp_array_plain(t->dtype, t->rank, t->dims);
    host->data = mp_pool_alloc(e->pool, (size_t)mp_array_bytes(host) + 1, 1);
    MP_ENSURE(host->data, err, MP_NOMEM, "there is no memory for '%s'", t->name);
    e->results[e->n_results++] = tensor;
    return make_room(e, tensor, err);
}

/* Gathers a sharded parameter in newly allocated memory. For a tensor split by tp, the result is this rank's tp part. */
static mp_status bring_together(examiner *e, int tensor, mp_error *err)
{
    const mp_program *p = e->program;
    const mp_tensor *t = &p->model->tensors[tensor];
    mp_array whole = mp_array_plain(MP_DTYPE_FLOAT, t->rank, mp_tensor_whole_dims(t)),
             host = mp_array_plain(MP_DTYPE_FLOAT, t->rank, t->dims);
    MP_OWNED void *values = whole.data = mp_alloc((size_t)mp_array_elements(&whole), sizeof(float));
    MP_OWNED void *own = host.data = mp_alloc((size_t)mp_tensor_elements(t), sizeof(float));
    MP_ENSURE(values && own, err, MP_NOMEM, "there is no memory for all elements of '%s'", t->name);
    MP_CHECK(take(e, tensor, mp_stored_elements(t) * (int64_t)sizeof(float), err));
    MP_CHECK(mp_held_read(p, e->execution, tensor, MP_HELD_VALUES, -1, &whole, err));
    mp_part_take(t, mp_execution_position(e->execution)->part_index, sizeof(float), whole.data, host.data);
    MP_CHECK(mp_program_array(p, tensor, &e->values[tensor], err));
    e->values[tensor].data = e->rooms[tensor].data;
    return p->backend->upload(p->backend, &host, &e->values[tensor], err);
}

/* Finds the tensors that are always in memory, and gathers sharded ones. */
static mp_status find_values(examiner *e, mp_error *err)
{
    const mp_program *p = e->program;
    for (size_t t = 0; t < p->model->n_tensors; t++) {
        const int storage = p->bindings->storage[t];
        if (p->model->tensors[t].producer >= 0 || storage < 0) continue;
        if (mp_storage_is_static(&p->graph->storages[storage]))
            MP_CHECK(mp_execution_tensor(e->execution, (int)t, &e->values[t], err));
        else if (mp_is_held(p, e->execution, (int)t))
            MP_CHECK(bring_together(e, (int)t, err));
    }
    return MP_OK;
}

/* Finds the tensors that this pipeline stage computes, receives from the previous stage, and sends to the next one. */
static mp_status find_wanted(examiner *e, const int *results, size_t n, mp_error *err)
{
    const mp_program *p = e->program;
    const bool is_last = !p->stage || p->stage->index + 1 == p->stage->shape.n_ranks;
    mp_relay *r = &e->relay;
    MP_CHECK(mp_relay_open(p, e->execution, results, n, e->pool, r, err));
    for (size_t k = 0; k < r->in.n; k++) MP_CHECK(make_room(e, r->in.tensors[k], err));
    for (size_t k = 0; k < r->out.n; k++) MP_CHECK(make_room(e, r->out.tensors[k], err));
    for (size_t k = 0; k < n && is_last; k++) MP_CHECK(want(e, results[k], err));
    e->wanted = is_last ? e->results : r->made;
    e->n_wanted = is_last ? e->n_results : r->n_made;
    return MP_OK;
}

/* Lists the loss, and the scores and labels of operator `classes`. If it belongs to a chunk, those of all chunks are listed. */
static size_t list_results(const examiner *e, int classes, int *results)
{
    const mp_model *model = e->program->model;
    const int chunk = classes < 0 ? 0 : model->operators[classes].chunk;
    size_t n = 0;
    results[n++] = e->program->bindings->loss;
    for (int k = classes; k >= 0 && k < (int)model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (k != classes && !(chunk && op->chunk > 0 && (op->op->traits & MP_TRAIT_CLASSES))) continue;
        results[n++] = op->in[0];
        results[n++] = op->in[1];
    }
    return n;
}

static mp_status prepare(examiner *e, mp_error *err)
{
    const mp_model *model = e->program->model;
    const int classes = find_classes(model);
    MP_ENSURE(e->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    int *results = mp_pool_alloc(e->pool, 2 * model->n_operators + 1, sizeof *results);
    MP_ENSURE(results, err, MP_NOMEM, "out of memory");
    const size_t n_results = list_results(e, classes, results);
    e->results = mp_pool_alloc(e->pool, n_results, sizeof *e->results);
    e->host = mp_pool_alloc(e->pool, n_results, sizeof *e->host);
    e->values = mp_pool_alloc(e->pool, model->n_tensors, sizeof *e->values);
    e->rooms = mp_pool_alloc(e->pool, model->n_tensors, sizeof *e->rooms);
    bool *adds_zeros = mp_pool_alloc(e->pool, model->n_operators, sizeof *adds_zeros);
    MP_ENSURE(e->results && e->host && e->values && e->rooms && adds_zeros, err, MP_NOMEM, "out of memory");
    if (mp_execution_position(e->execution)->part_index) mp_split_list_added_once(e->program, adds_zeros);
    e->how.adds_zeros = adds_zeros;
    MP_CHECK(find_values(e, err));
    if (classes >= 0) e->scores = &model->tensors[results[1]];
    return find_wanted(e, results, n_results, err);
}

/* Adds the loss and the number of correct labels of a batch to *sum. */
static mp_status count(examiner *e, int64_t n_batches, tally *sum, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    const bool has_own_classes = e->scores && e->scores->part && e->scores->part->dim == 1;
    for (size_t r = 0; r < e->n_results; r++) MP_CHECK(b->download(b, &e->values[e->results[r]], &e->host[r], err));
    sum->loss += (double)*(const float *)e->host[0].data / (double)n_batches;
    const mp_kernel_group *group = has_own_classes ? e->how.run.group : NULL;
    for (size_t r = 1; r + 1 < e->n_results; r += 2)
        MP_CHECK(count_right(&e->host[r], &e->host[r + 1], group, &sum->labels, err));
    return MP_OK;
}

static mp_status run_batches(examiner *e, mp_feed *feed, int64_t n, tally *out, mp_error *err)
{
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler filler = {0};
    MP_CHECK(mp_input_filler_new(e->program, feed, &filler, err));
    for (int64_t k = 0; k < n; k++) {
        MP_CHECK(mp_inputs_fill(&filler, k, e->execution, err));
        MP_CHECK(mp_relay_run(&e->relay, &e->relay.in, e->values, err));
        MP_CHECK(mp_evaluate(e->program->model, &e->how, e->values, e->wanted, e->n_wanted, err));
        MP_CHECK(mp_relay_run(&e->relay, &e->relay.out, e->values, err));
        if (e->n_results) MP_CHECK(count(e, n, out, err));
    }
    return MP_OK;
}

/* Combines the results of all ranks; all ranks get the same totals. */
static mp_status share(const examiner *e, const tally *own, tally *out, mp_error *err)
{
    const mp_program *p = e->program;
    const mp_company company = mp_execution_company(e->execution);
    const mp_rank_position *place = mp_execution_position(e->execution);
    const bool has_own_positions = e->scores && e->scores->part && e->scores->part->dim != 1;
    MP_OWNED tally *all = mp_alloc((size_t)company.world->n, sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_communicator_exchange(company.world, own, sizeof *own, all, company.timeout, "the results of a test", err));
    const tally *last = &all[(place->n_stages - 1) * place->stage_stride]; /* the last pipeline stage has the results; the ranks
                                                                              of one tp group have consecutive numbers */
    *out = last[0];
    for (int k = 1; k < p->loss_parts; k++) out->loss += last[k].loss;
    out->loss = mp_loss_of_sum(p, out->loss);
    for (int k = 1; k < place->n_parts && has_own_positions; k++) {
        out->labels.n_right += last[k].labels.n_right;
        out->labels.n_labels += last[k].labels.n_labels;
    }
    return MP_OK;
}

static void examiner_free(examiner *e)
{
    const mp_backend *b = e->program->backend;
    b->leave(b);
    for (size_t t = 0; e->rooms && t < e->program->model->n_tensors; t++)
        if (e->rooms[t].data) b->release(b, e->rooms[t].data, e->rooms[t].bytes);
    mp_pool_free(e->pool);
}

mp_status mp_accuracy_measure(mp_execution *execution, const mp_program *program, mp_feed *feed, uint64_t seed,
                              mp_accuracy *out, mp_error *err)
{
    const mp_kernel_group *group = mp_kernel_ranks_group(&mp_execution_ranks(execution)->of_parts);
    MP_CLEARED_BY(examiner_free)
    examiner e = {.program = program,
                  .execution = execution,
                  .how = {.backend = program->backend,
                          .mode = MP_MODE_EVALUATE,
                          .run = {.seed = seed, .first_run = true, .group = group},
                          .dtype = program->options.dtype}};
    const int64_t n = mp_feed_batches(feed);
    tally own = {0}, all = {0};
    char fault[MP_FEED_FAULT_TEXT] = "";
    *out = (mp_accuracy){.n_samples = n * mp_feed_batch_size(feed), .accuracy = -1};
    program->backend->enter(program->backend);
    MP_CHECK(prepare(&e, err));
    MP_CHECK(run_batches(&e, feed, n, &own, err));
    MP_CHECK(share(&e, &own, &all, err));
    out->loss = all.loss;
    for (int64_t k = 0; !isfinite(out->loss) && !fault[0] && k < n; k++) (void)mp_feed_find_fault(feed, k, fault);
    snprintf(out->fault, sizeof out->fault, "%s", fault);
    if (all.labels.n_labels) out->accuracy = (double)all.labels.n_right / (double)all.labels.n_labels;
    return MP_OK;
}
