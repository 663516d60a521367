/* execution.c - memory and addresses of a plan, and the loop over its steps. */
#include "executor/execution.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "estimator/timeline.h"

enum { PATTERN = 0xa5, DEAD = 0xff };

/* One step made ready: addresses of its operands, and what ends behind it. */
typedef struct ready_step {
    int node, form;
    bool first_run; /* of its node within a pass */
    size_t n_slots, n_dead;
    char **slots; /* per slot of the node, NULL: not at hand */
    char *workspace;
    char *source, *target; /* accumulate, update */
    char *state, *clip;
    const mp_place **dead; /* instances that end here (poisoned if asked for) */
} ready_step;

struct mp_execution {
    mp_program *program;
    const mp_plan *plan;
    mp_execution_options options;
    char *fixed, *arena; /* blocks of fixed_bytes and arena_bytes */
    int64_t fixed_bytes, arena_bytes;
    int64_t *fixed_at; /* per storage: offset in the block of what is always live, -1: it is not */
    ready_step *steps;
    mp_update *clipped; /* per trained parameter: its gradient, for the norm */
    size_t n_clipped;
    int64_t pending; /* forward-fused: the step whose gradients wait for their update, -1: none */
    double *seconds;
    mp_pool *pool;
};

static mp_status lay_out_fixed(mp_execution *e, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *g = e->program->graph;
    MP_REQUIRE(e->fixed_at = mp_pool_alloc(e->pool, g->n_storages, sizeof *e->fixed_at), err, MP_NOMEM, "out of memory");
    for (size_t s = 0; s < g->n_storages; s++) {
        bool fixed = mp_storage_is_static(&g->storages[s]);
        e->fixed_at[s] = fixed ? e->fixed_bytes : -1;
        if (fixed) e->fixed_bytes += g->storages[s].bytes;
    }
    e->arena_bytes = e->plan->arena_bytes;
    const mp_backend *b = e->program->backend;
    e->fixed = b->allocate(e->fixed_bytes);
    MP_REQUIRE(e->fixed, err, MP_NOMEM, "there is no memory for %lld bytes of parameters, optimizer state and inputs",
               (long long)e->fixed_bytes);
    e->arena = b->allocate(e->arena_bytes);
    MP_REQUIRE(e->arena, err, MP_NOMEM, "there is no memory for an arena of %lld bytes", (long long)e->arena_bytes);
    b->fill(e->arena, PATTERN, e->arena_bytes);
done:
    return st;
}

typedef struct walker {
    mp_execution *e;
    int *place;    /* per storage: the instance that is live, -1: none */
    int *by_start; /* places by first step */
    bool *has_run; /* per node */
} walker;

static char *address_of(const walker *w, int storage)
{
    if (storage < 0) return NULL;
    if (w->e->fixed_at[storage] >= 0) return w->e->fixed + w->e->fixed_at[storage];
    return w->place[storage] < 0 ? NULL : w->e->arena + w->e->plan->places[w->place[storage]].offset;
}

static mp_status ready(walker *w, int t, size_t *next_place, mp_error *err)
{
    mp_status st = MP_OK;
    mp_execution *e = w->e;
    const mp_plan *plan = e->plan;
    ready_step *r = &e->steps[t];
    const mp_step *step = &plan->steps[t];
    const mp_program_node *node = &e->program->nodes[step->node];
    const mp_binding *b = &e->program->bindings->nodes[step->node];
    *r = (ready_step){.node = step->node, .form = step->form, .first_run = !w->has_run[step->node], .n_slots = node->n_slots};
    w->has_run[step->node] = true;
    for (; *next_place < plan->n_places && plan->places[w->by_start[*next_place]].first_step <= t; (*next_place)++) {
        const mp_place *p = &plan->places[w->by_start[*next_place]];
        if (p->storage < 0)
            r->workspace = e->arena + p->offset;
        else
            w->place[p->storage] = w->by_start[*next_place];
    }
    MP_REQUIRE(r->slots = mp_pool_alloc(e->pool, node->n_slots + 1, sizeof *r->slots), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < node->n_slots; k++) r->slots[k] = address_of(w, node->slots[k].storage);
    r->source = address_of(w, b->source);
    r->target = address_of(w, b->target);
    r->state = address_of(w, b->state);
    r->clip = address_of(w, e->program->bindings->clip);
done:
    return st;
}

/* Which instances end at which step, without those whose room another one takes over at that step. */
static mp_status find_dead(mp_execution *e, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_plan *plan = e->plan;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < plan->n_places; k++) {
            const mp_place *p = &plan->places[k];
            ready_step *r = &e->steps[p->last_step];
            if (p->storage >= 0 && e->program->graph->storages[p->storage].carried) continue;
            if (pass) r->dead[r->n_dead] = p;
            r->n_dead++;
        }
        for (size_t t = 0; !pass && t < plan->n_steps; t++) {
            e->steps[t].dead = mp_pool_alloc(e->pool, e->steps[t].n_dead + 1, sizeof *e->steps[t].dead);
            MP_REQUIRE(e->steps[t].dead, err, MP_NOMEM, "out of memory");
            e->steps[t].n_dead = 0;
        }
    }
done:
    return st;
}

static mp_status ready_steps(mp_execution *e, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_plan *plan = e->plan;
    const mp_graph *g = e->program->graph;
    walker w = {.e = e};
    size_t next = 0, *start = NULL;
    w.place = mp_alloc(g->n_storages, sizeof *w.place);
    w.by_start = mp_alloc(plan->n_places, sizeof *w.by_start);
    w.has_run = mp_alloc(g->n_nodes, sizeof *w.has_run);
    start = mp_alloc(plan->n_steps + 2, sizeof *start);
    e->steps = mp_pool_alloc(e->pool, plan->n_steps, sizeof *e->steps);
    MP_REQUIRE(w.place && w.by_start && w.has_run && start && e->steps, err, MP_NOMEM, "out of memory");
    memset(w.place, -1, g->n_storages * sizeof *w.place);
    for (size_t k = 0; k < plan->n_places; k++) start[plan->places[k].first_step + 1]++;
    for (size_t t = 0; t < plan->n_steps; t++) start[t + 1] += start[t];
    for (size_t k = 0; k < plan->n_places; k++) w.by_start[start[plan->places[k].first_step]++] = (int)k;
    for (size_t t = 0; t < plan->n_steps; t++) MP_TRY(ready(&w, (int)t, &next, err));
    if (e->options.poison) MP_TRY(find_dead(e, err));
done:
    mp_free(w.place);
    mp_free(w.by_start);
    mp_free(w.has_run);
    mp_free(start);
    return st;
}

/* The gradients that the norm is over, in the order of the parameters; their addresses are set when the node runs. */
static mp_status list_gradients(mp_execution *e, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_program *p = e->program;
    MP_REQUIRE(e->clipped = mp_pool_alloc(e->pool, p->model->n_tensors, sizeof *e->clipped), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_binding *b = &p->bindings->nodes[k];
        if (b->task != MP_TASK_UPDATE) continue;
        e->clipped[e->n_clipped++] =
            (mp_update){.dtype = p->bindings->dtype[b->parameter], .n = mp_tensor_room(&p->model->tensors[b->parameter])};
    }
done:
    return st;
}

mp_status mp_execution_new(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_execution **out,
                           mp_error *err)
{
    mp_status st = MP_OK;
    mp_execution *e = mp_alloc(1, sizeof *e);
    MP_REQUIRE(e, err, MP_NOMEM, "out of memory");
    *e = (mp_execution){.program = program, .plan = plan, .options = *options, .pending = -1};
    MP_REQUIRE(plan->n_places || !plan->n_steps || plan->arena_bytes == 0, err, MP_INVALID, "the plan has no offsets");
    MP_REQUIRE(e->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    e->seconds = mp_pool_alloc(e->pool, program->n_nodes, sizeof *e->seconds);
    MP_REQUIRE(e->seconds, err, MP_NOMEM, "out of memory");
    MP_TRY(lay_out_fixed(e, err));
    MP_TRY(ready_steps(e, err));
    MP_TRY(list_gradients(e, err));
    *out = e;
    e = NULL;
done:
    mp_execution_free(e);
    return st;
}

void mp_execution_free(mp_execution *e)
{
    if (!e) return;
    const mp_backend *b = e->program->backend;
    b->release(e->fixed, e->fixed_bytes);
    b->release(e->arena, e->arena_bytes);
    mp_pool_free(e->pool);
    mp_free(e);
}

mp_status mp_execution_tensor(mp_execution *e, int tensor, mp_array *out, mp_error *err)
{
    mp_status st = MP_OK;
    int storage = e->program->bindings->storage[tensor];
    MP_REQUIRE(storage >= 0 && e->fixed_at[storage] >= 0, err, MP_INVALID, "'%s' is not always in memory",
               e->program->model->tensors[tensor].name);
    MP_TRY(mp_program_array(e->program, tensor, out, err));
    out->data = e->fixed + e->fixed_at[storage];
done:
    return st;
}

mp_status mp_execution_gradient(mp_execution *e, int tensor, mp_array *out, mp_error *err)
{
    mp_status st = MP_OK;
    int storage = e->program->bindings->gradient[tensor];
    MP_REQUIRE(storage >= 0 && e->fixed_at[storage] >= 0, err, MP_INVALID, "the gradient of '%s' is not always in memory",
               e->program->model->tensors[tensor].name);
    MP_TRY(mp_program_array(e->program, tensor, out, err));
    out->data = e->fixed + e->fixed_at[storage];
done:
    return st;
}

float *mp_execution_state(mp_execution *e, int tensor, int64_t *n_floats)
{
    const mp_program *p = e->program;
    *n_floats = 0;
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_binding *b = &p->bindings->nodes[k];
        if (b->task != MP_TASK_UPDATE || b->parameter != tensor || b->state < 0) continue;
        *n_floats = p->graph->storages[b->state].payload_bytes / 4;
        return (float *)(e->fixed + e->fixed_at[b->state]);
    }
    return NULL;
}

static void run_update(mp_execution *e, const ready_step *r, int64_t step)
{
    const mp_program *p = e->program;
    const mp_binding *b = &p->bindings->nodes[r->node];
    mp_update_factors f = mp_update_factors_at(&e->options.hyper, step);
    mp_update u = {.dtype = p->bindings->dtype[b->parameter],
                   .n = mp_tensor_room(&p->model->tensors[b->parameter]),
                   .parameter = r->target,
                   .gradient = r->source,
                   .state = (float *)r->state,
                   .clip = (const float *)r->clip};
    p->backend->update(&u, &f);
}

static void run_clip(mp_execution *e, const ready_step *r)
{
    const mp_program *p = e->program;
    size_t n = 0;
    for (size_t t = 0; t < e->plan->n_steps; t++) {
        const ready_step *u = &e->steps[t];
        if (p->bindings->nodes[u->node].task == MP_TASK_UPDATE) e->clipped[n++].gradient = u->source;
    }
    p->backend->clip(e->clipped, e->n_clipped, p->options.clip_norm, r->workspace, (float *)r->state);
}

static mp_status run_operator(mp_execution *e, const ready_step *r, int64_t pass, bool added, mp_error *err)
{
    mp_status st = MP_OK;
    mp_program_node *node = &e->program->nodes[r->node];
    const mp_binding *b = &e->program->bindings->nodes[r->node];
    mp_operands *x = &node->operands;
    mp_run run = {.seed = e->options.seed, .step = (uint32_t)pass, .first_run = r->first_run};
    uint64_t all = x->adds;
    for (size_t k = 0; k < r->n_slots; k++) node->slots[k].array->data = r->slots[k];
    x->workspace = r->workspace;
    x->alternative = r->form;
    if (!added) x->adds = b->adds;
    st = mp_call_run(&node->call, x, &run, e->program->backend->add, err);
    x->adds = all;
    return st;
}

static void run_accumulate(mp_execution *e, const ready_step *r)
{
    const mp_program *p = e->program;
    const mp_binding *b = &p->bindings->nodes[r->node];
    const mp_storage *s = &p->graph->storages[b->target];
    mp_dtype dtype = p->options.dtype;
    if (b->adds)
        p->backend->add(dtype, s->payload_bytes / (mp_dtype_bits(dtype) / 8), r->source, r->target);
    else if (r->source != r->target)
        p->backend->copy(r->target, r->source, s->payload_bytes);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Overwrites what has ended with step t, except where something live lies by now. */
static void poison(mp_execution *e, int t)
{
    const ready_step *r = &e->steps[t];
    const mp_plan *plan = e->plan;
    for (size_t k = 0; k < r->n_dead; k++) {
        const mp_place *p = r->dead[k];
        bool taken = false;
        for (size_t q = 0; !taken && q < plan->n_places; q++) {
            const mp_place *o = &plan->places[q];
            taken = o != p && o->first_step <= t && o->last_step > t && o->offset < p->offset + p->bytes &&
                    p->offset < o->offset + o->bytes;
        }
        if (!taken) e->program->backend->fill(e->arena + p->offset, DEAD, p->bytes);
    }
}

/* One pass over the plan's steps. `update` < 0: without updates; else they belong to this step. */
static mp_status run_pass(mp_execution *e, int64_t pass, bool added, int64_t update, mp_error *err)
{
    mp_status st = MP_OK;
    for (size_t t = 0; t < e->plan->n_steps; t++) {
        const ready_step *r = &e->steps[t];
        double from = e->options.profile ? now() : 0;
        switch (e->program->bindings->nodes[r->node].task) {
        case MP_TASK_FORWARD:
        case MP_TASK_BACKWARD:
            MP_TRY(run_operator(e, r, pass, added, err));
            break;
        case MP_TASK_ACCUMULATE:
            run_accumulate(e, r);
            break;
        case MP_TASK_CLIP:
            if (update >= 0) run_clip(e, r);
            break;
        case MP_TASK_UPDATE:
            if (update >= 0) run_update(e, r, update);
            break;
        }
        if (e->options.profile) e->seconds[r->node] += now() - from;
        if (e->options.poison) poison(e, (int)t);
    }
done:
    return st;
}

static double read_loss(mp_execution *e)
{
    const mp_program *p = e->program;
    int storage = p->bindings->storage[p->bindings->loss];
    float loss = 0;
    mp_array there = mp_array_plain(MP_DTYPE_FLOAT, 0, NULL), host = there;
    there.data = e->fixed + e->fixed_at[storage];
    host.data = &loss;
    return p->backend->download(&there, &host, NULL) == MP_OK ? (double)loss : 0;
}

mp_status mp_execution_step(mp_execution *e, int64_t step, mp_fill_inputs fill, void *data, double *loss, mp_error *err)
{
    mp_status st = MP_OK;
    int n = e->program->options.accumulate > 1 ? e->program->options.accumulate : 1;
    bool forward = e->program->options.fuse == MP_FUSE_FORWARD;
    double sum = 0;
    e->program->backend->enter();
    for (int k = 0; k < n; k++) {
        int64_t pass = step * n + k, update = k == n - 1 ? step : -1;
        if (forward) update = k == 0 ? e->pending : -1;
        MP_TRY(fill(data, pass, e, err));
        MP_TRY(run_pass(e, pass, k > 0, update, err));
        if (forward) e->pending = k == n - 1 ? step : update >= 0 ? -1 : e->pending;
        sum += read_loss(e);
    }
    *loss = sum / n;
done:
    e->program->backend->leave();
    return st;
}

mp_status mp_execution_flush(mp_execution *e, mp_error *err)
{
    (void)err;
    e->program->backend->enter();
    for (size_t t = 0; e->pending >= 0 && t < e->plan->n_steps; t++) {
        const ready_step *r = &e->steps[t];
        mp_task task = e->program->bindings->nodes[r->node].task;
        if (task == MP_TASK_CLIP) run_clip(e, r);
        if (task == MP_TASK_UPDATE) run_update(e, r, e->pending);
    }
    e->pending = -1;
    e->program->backend->leave();
    return MP_OK;
}

int64_t mp_execution_arena_bytes(const mp_execution *e)
{
    return e->arena_bytes;
}

int64_t mp_execution_touched_bytes(const mp_execution *e)
{
    int64_t bytes = e->program->backend->touched(e->arena, PATTERN, e->arena_bytes);
    return mp_round_up(bytes, e->program->backend->alignment, &bytes) ? bytes : e->arena_bytes;
}

const double *mp_execution_seconds(const mp_execution *e)
{
    return e->options.profile ? e->seconds : NULL;
}

void mp_execution_forget_seconds(mp_execution *e)
{
    memset(e->seconds, 0, e->program->n_nodes * sizeof *e->seconds);
}

void mp_execution_hash(const mp_execution *e, char hash[33])
{
    const mp_graph *g = e->program->graph;
    XXH128_hash_t h = {0, 0};
    for (size_t s = 0; s < g->n_storages; s++) {
        if (g->storages[s].kind != MP_KIND_PARAMETER && g->storages[s].kind != MP_KIND_BUFFER) continue;
        XXH128_hash_t one = XXH3_128bits(e->fixed + e->fixed_at[s], (size_t)g->storages[s].payload_bytes);
        uint64_t words[4] = {h.low64, h.high64, one.low64, one.high64};
        h = XXH3_128bits(words, sizeof words);
    }
    snprintf(hash, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}
