/* stage_relay.c - traces the wanted tensors back through the stages, and transfers the tensors that cross stage boundaries. */
#include "executor/train/stage_relay.h"

#include "executor/program/program_nodes.h"
#include "executor/program/stage.h"
#include "executor/ranks/exchanges.h"

enum { TAG = 1 };

/* The transfers of a tensor between stages. from: the stage that computes it; to: the last stage that receives it. 0 and 0:
 * the tensor is not transferred. */
typedef struct way {
    int from, to;
} way;

typedef struct finder {
    const mp_program *program;
    mp_process_group stages;
    unsigned char *runs; /* per stage and operator: 1 if the stage's graph has a node of the operator */
    bool *needs;         /* per tensor and stage: true if the stage needs the tensor */
    way *ways;           /* for each tensor: the stages between which it is transferred */
    mp_pool *pool;
} finder;

static mp_status list_operators(const finder *f, mp_company company, mp_error *err)
{
    const mp_program *p = f->program;
    const size_t n = p->model->n_operators;
    unsigned char *own = &f->runs[(size_t)f->stages.index * n];
    for (size_t k = 0; k < p->n_nodes; k++)
        if (mp_program_does(p, (int)k, MP_TASK_FORWARD)) own[mp_program_binding(p, (int)k)->op] = 1;
    const mp_shard_view piece = {(char *)f->runs, (char *)own, (int64_t)n * f->stages.n};
    return mp_communicator_gather(company.world, &f->stages, -1, &piece, 1, company.timeout, "the exchange of stage programs",
                                  err);
}

static bool *needs_of(const finder *f, int tensor, int stage)
{
    return &f->needs[(size_t)tensor * (size_t)f->stages.n + (size_t)stage];
}

/* Returns the first stage whose graph has a node of the operator; -1: no stage has one. */
static int first_of(const finder *f, size_t op)
{
    for (int q = 0; q < f->stages.n; q++)
        if (f->runs[(size_t)q * f->program->model->n_operators + op]) return q;
    return -1;
}

/* Returns the stage in which operator k must run so that `stage` gets its results, and records the transfers; -1: the results
 * are not needed. */
static int stage_for(const finder *f, size_t k, int stage)
{
    const mp_operator *op = &f->program->model->operators[k];
    const int first = first_of(f, k);
    bool is_needed = false;
    for (int o = 0; o < op->n_out; o++) is_needed |= op->out[o] >= 0 && *needs_of(f, op->out[o], stage);
    if (!is_needed) return -1;
    if (first < 0 || first >= stage || f->runs[(size_t)stage * f->program->model->n_operators + k]) return stage;
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0 && *needs_of(f, op->out[o], stage)) f->ways[op->out[o]] = (way){first, stage};
    return first;
}

/* Walks backwards from the tensors wanted on the last stage. Operators are in topological order, so all readers of a tensor are
 * visited before its producer. */
static void find_ways(const finder *f, const int *wanted, size_t n_wanted)
{
    const mp_model *model = f->program->model;
    for (size_t w = 0; w < n_wanted; w++) *needs_of(f, wanted[w], f->stages.n - 1) = true;
    for (size_t k = model->n_operators; k-- > 0;) {
        const mp_operator *op = &model->operators[k];
        for (int q = 0; q < f->stages.n && !op->removed; q++) {
            const int runs_in = stage_for(f, k, q);
            for (int i = 0; i < op->n_in && runs_in >= 0; i++)
                if (op->in[i] >= 0) *needs_of(f, op->in[i], runs_in) = true;
        }
    }
}

/* Lists the tensors that the previous stage sends to `stage`. */
static mp_status list_link(const finder *f, int stage, const mp_communicator *world, mp_relay_link *out, mp_error *err)
{
    const size_t n = f->program->model->n_tensors;
    const int before = f->stages.first + (stage - 1) * f->stages.stride;
    out->tensors = mp_pool_alloc(f->pool, n, sizeof *out->tensors);
    out->pieces = mp_pool_alloc(f->pool, n, sizeof *out->pieces);
    MP_ENSURE(out->tensors && out->pieces, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n && stage > 0 && stage < f->stages.n; t++)
        if (f->ways[t].from < stage && f->ways[t].to >= stage) out->tensors[out->n++] = (int)t;
    out->work = (mp_collective_work){.name = "an evaluation", .kind = MP_SEND, .n_legs = 1, .own_tag = TAG};
    out->work.legs[0] = (mp_leg){.kind = MP_SEND,
                                 .group = {2, world->rank != before, before, f->stages.stride},
                                 .dtype = MP_DTYPE_UINT8,
                                 .n_pieces = out->n,
                                 .pieces = out->pieces,
                                 .is_ordered = true};
    out->work.requests = mp_pool_alloc(f->pool, mp_work_requests(&out->work), sizeof *out->work.requests);
    MP_ENSURE(out->work.requests, err, MP_NOMEM, "out of memory");
    return MP_OK;
}

mp_status mp_relay_open(const mp_program *p, mp_execution *e, const int *wanted, size_t n_wanted, mp_pool *pool, mp_relay *out,
                        mp_error *err)
{
    const mp_company company = mp_execution_company(e);
    *out = (mp_relay){.collectives = {.world = company.world, .backend = p->backend, .timeout = company.timeout}};
    if (!p->stage) return MP_OK;
    finder f = {.program = p, .stages = mp_process_group_along(&p->mesh, MP_DIM_PP, company.world->rank), .pool = pool};
    const size_t n = (size_t)f.stages.n;
    f.runs = mp_pool_alloc(pool, p->model->n_operators * n, sizeof *f.runs);
    f.needs = mp_pool_alloc(pool, p->model->n_tensors * n, sizeof *f.needs);
    f.ways = mp_pool_alloc(pool, p->model->n_tensors, sizeof *f.ways);
    out->made = mp_pool_alloc(pool, p->model->n_tensors, sizeof *out->made);
    MP_ENSURE(f.runs && f.needs && f.ways && out->made, err, MP_NOMEM, "out of memory");
    MP_CHECK(list_operators(&f, company, err));
    find_ways(&f, wanted, n_wanted);
    MP_CHECK(list_link(&f, f.stages.index, company.world, &out->in, err));
    MP_CHECK(list_link(&f, f.stages.index + 1, company.world, &out->out, err));
    for (size_t k = 0; k < out->out.n; k++)
        if (f.ways[out->out.tensors[k]].from == f.stages.index) out->made[out->n_made++] = out->out.tensors[k];
    return MP_OK;
}

mp_status mp_relay_run(mp_relay *r, mp_relay_link *link, const mp_array *values, mp_error *err)
{
    for (size_t k = 0; k < link->n; k++) {
        const mp_array *a = &values[link->tensors[k]];
        link->pieces[k] = (mp_shard_view){a->data, a->data, mp_array_bytes(a)};
    }
    return link->n ? mp_collectives_run(&r->collectives, &link->work, err) : MP_OK;
}
