/* addresses.c - allocates the two blocks of an execution, and walks the plan to give every operand of every step its
 * address. */
#include "executor/run/addresses.h"

#include <string.h>

#include "estimator/graph/liveness.h"

enum { GUARD = 256, DEAD = 0xff };

/* Places instances side by side, in the order of the plan's list; both instances of a carried gradient share one place. */
static mp_status spread_out(mp_addresses *a, mp_error *err)
{
    const mp_graph *g = a->program->graph;
    MP_OWNED int64_t *carried_at = mp_alloc(g->n_storages, sizeof *carried_at); /* + 1 */
    MP_ENSURE(carried_at, err, MP_NOMEM, "out of memory");
    a->guard_bytes = GUARD;
    a->arena_bytes = GUARD;
    for (size_t k = 0; k < a->plan->n_places; k++) {
        const mp_place *p = &a->plan->places[k];
        bool carried = p->storage >= 0 && mp_storage_outlives_step(&g->storages[p->storage]);
        if (carried && carried_at[p->storage]) {
            a->place_at[k] = carried_at[p->storage] - 1;
            continue;
        }
        a->place_at[k] = a->arena_bytes;
        a->arena_bytes += p->bytes + GUARD;
        if (carried) carried_at[p->storage] = a->place_at[k] + 1;
    }
    return MP_OK;
}

/* Copies the program's constants to their addresses. */
static mp_status put_constants(const mp_addresses *a, mp_error *err)
{
    const mp_backend *b = a->program->backend;
    for (size_t k = 0; k < a->program->n_constants; k++) {
        const mp_constant *c = &a->program->constants[k];
        mp_array host = mp_array_plain(MP_DTYPE_UINT8, 1, &c->n_bytes), there = host;
        host.data = (void *)c->bytes;
        there.data = a->fixed + a->constant_at[k];
        MP_CHECK(b->upload(b, &host, &there, err));
    }
    return MP_OK;
}

/* Fails with "there is no memory for ... of 8 bytes"; on a device the message also says how much memory is free. */
static mp_status no_memory(const mp_backend *b, const char *what, int64_t bytes, mp_error *err)
{
    mp_backend_memory now;
    if (!b->memory || b->memory(b, &now, NULL) != MP_OK)
        return MP_FAIL(err, MP_NOMEM, "there is no memory for %s of %lld bytes", what, (long long)bytes);
    return MP_FAIL(err, MP_NOMEM, "there is no memory for %s of %lld bytes: %lld of the device's %lld are free", what,
                   (long long)bytes, (long long)now.free_bytes, (long long)now.total_bytes);
}

static mp_status take_blocks(mp_addresses *a, bool guards, mp_pool *pool, mp_error *err)
{
    const mp_graph *g = a->program->graph;
    const mp_backend *b = a->program->backend;
    a->fixed_at = mp_pool_alloc(pool, g->n_storages, sizeof *a->fixed_at);
    a->place_at = mp_pool_alloc(pool, a->plan->n_places, sizeof *a->place_at);
    a->constant_at = mp_pool_alloc(pool, a->program->n_constants, sizeof *a->constant_at);
    MP_ENSURE(a->fixed_at && a->place_at && a->constant_at, err, MP_NOMEM, "out of memory");
    for (size_t s = 0; s < g->n_storages; s++) {
        bool fixed = mp_storage_is_static(&g->storages[s]);
        a->fixed_at[s] = fixed ? a->fixed_bytes : -1;
        if (fixed) a->fixed_bytes += g->storages[s].bytes;
    }
    for (size_t k = 0; k < a->program->n_constants; k++) {
        int64_t bytes = a->program->constants[k].n_bytes;
        a->constant_at[k] = a->fixed_bytes;
        MP_ENSURE(mp_round_up(bytes, b->alignment, &bytes) && mp_add(a->fixed_bytes, bytes, &a->fixed_bytes), err, MP_INVALID,
                  "the constants are too large");
    }
    a->arena_bytes = a->plan->arena_bytes;
    for (size_t k = 0; k < a->plan->n_places; k++) a->place_at[k] = a->plan->places[k].offset;
    if (guards) MP_CHECK(spread_out(a, err));
    a->fixed = b->allocate(b, a->fixed_bytes);
    if (!a->fixed) MP_CHECK(no_memory(b, "parameters, optimizer state and inputs", a->fixed_bytes, err));
    a->arena = b->allocate(b, a->arena_bytes);
    if (!a->arena) MP_CHECK(no_memory(b, "an arena", a->arena_bytes, err));
    b->fill(b, a->arena, MP_UNUSED_BYTE, a->arena_bytes);
    return put_constants(a, err);
}

typedef struct walker {
    mp_addresses *a;
    mp_pool *pool;
    int *place;    /* per storage: place of the instance that is live, -1: none */
    int *by_start; /* places, sorted by first step */
    size_t next;   /* next index in by_start */
    bool *has_run; /* per node */
} walker;

static char *address_of(const walker *w, int storage)
{
    const mp_addresses *a = w->a;
    if (storage < -1) return a->fixed + a->constant_at[MP_SLOT_CONSTANT(storage)];
    if (storage < 0) return NULL;
    if (a->fixed_at[storage] >= 0) return a->fixed + a->fixed_at[storage];
    return w->place[storage] < 0 ? NULL : a->arena + a->place_at[w->place[storage]];
}

/* Lists the places of a step whose guard bytes are checked: its workspace and slots. */
static mp_status list_guarded(const walker *w, mp_ready_step *r, int workspace, mp_error *err)
{
    const mp_program_node *node = &w->a->program->nodes[r->node];
    int *list = mp_pool_alloc(w->pool, r->n_slots + 1, sizeof *list);
    MP_ENSURE(list, err, MP_NOMEM, "out of memory");
    if (workspace >= 0) list[r->n_guarded++] = workspace;
    for (size_t k = 0; k < r->n_slots; k++)
        if (node->slots[k].storage >= 0 && w->place[node->slots[k].storage] >= 0)
            list[r->n_guarded++] = w->place[node->slots[k].storage];
    r->guarded = list;
    return MP_OK;
}

static mp_status ready(walker *w, int t, mp_error *err)
{
    const mp_addresses *a = w->a;
    const mp_plan *plan = a->plan;
    mp_ready_step *r = &a->steps[t];
    const mp_step *step = &plan->steps[t];
    const mp_program_node *node = &a->program->nodes[step->node];
    const mp_binding *b = &a->program->bindings->nodes[step->node];
    int workspace = -1;
    *r = (mp_ready_step){
        .node = step->node, .alternative = step->alternative, .first_run = !w->has_run[step->node], .n_slots = node->n_slots};
    w->has_run[step->node] = true;
    for (; w->next < plan->n_places && plan->places[w->by_start[w->next]].begin <= t; w->next++) {
        const mp_place *p = &plan->places[w->by_start[w->next]];
        if (p->storage < 0)
            workspace = w->by_start[w->next];
        else
            w->place[p->storage] = w->by_start[w->next];
    }
    if (workspace >= 0) r->workspace = a->arena + a->place_at[workspace];
    MP_ENSURE(r->slots = mp_pool_alloc(w->pool, node->n_slots + 1, sizeof *r->slots), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < node->n_slots; k++) r->slots[k] = address_of(w, node->slots[k].storage);
    r->source = address_of(w, b->source);
    r->target = address_of(w, b->target);
    r->state = address_of(w, b->state);
    r->clip = address_of(w, a->program->bindings->clip);
    if (a->guard_bytes) MP_CHECK(list_guarded(w, r, workspace, err));
    return MP_OK;
}

/* Lists for every step the instances that end there. */
static mp_status find_dead(walker *w, mp_error *err)
{
    const mp_plan *plan = w->a->plan;
    const mp_graph *g = w->a->program->graph;
    mp_ready_step *steps = w->a->steps;
    int *list = mp_pool_alloc(w->pool, plan->n_places, sizeof *list), *at = list;
    MP_ENSURE(list, err, MP_NOMEM, "out of memory");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < plan->n_places; k++) {
            const mp_place *p = &plan->places[k];
            mp_ready_step *r = &steps[p->end - 1];
            if (p->storage >= 0 && mp_storage_outlives_step(&g->storages[p->storage])) continue;
            if (pass) list[r->dead - list + (ptrdiff_t)r->n_dead] = (int)k;
            r->n_dead++;
        }
        for (size_t t = 0; !pass && t < plan->n_steps; t++) {
            steps[t].dead = at;
            at += steps[t].n_dead;
            steps[t].n_dead = 0;
        }
    }
    return MP_OK;
}

static void walker_free(walker *w)
{
    mp_free(w->place);
    mp_free(w->by_start);
    mp_free(w->has_run);
}

static mp_status ready_steps(mp_addresses *a, mp_pool *pool, mp_error *err)
{
    const mp_plan *plan = a->plan;
    const mp_graph *g = a->program->graph;
    MP_CLEARED_BY(walker_free) walker w = {.a = a, .pool = pool};
    MP_OWNED size_t *start = mp_alloc(plan->n_steps + 2, sizeof *start);
    w.place = mp_alloc(g->n_storages, sizeof *w.place);
    w.by_start = mp_alloc(plan->n_places, sizeof *w.by_start);
    w.has_run = mp_alloc(g->n_nodes, sizeof *w.has_run);
    a->steps = mp_pool_alloc(pool, plan->n_steps, sizeof *a->steps);
    MP_ENSURE(w.place && w.by_start && w.has_run && start && a->steps, err, MP_NOMEM, "out of memory");
    memset(w.place, -1, g->n_storages * sizeof *w.place);
    for (size_t k = 0; k < plan->n_places; k++) start[plan->places[k].begin + 1]++;
    for (size_t t = 0; t < plan->n_steps; t++) start[t + 1] += start[t];
    for (size_t k = 0; k < plan->n_places; k++) w.by_start[start[plan->places[k].begin]++] = (int)k;
    for (size_t t = 0; t < plan->n_steps; t++) MP_CHECK(ready(&w, (int)t, err));
    return find_dead(&w, err);
}

mp_status mp_addresses_of(const mp_program *program, const mp_plan *plan, bool guards, mp_pool *pool, mp_addresses *out,
                          mp_error *err)
{
    *out = (mp_addresses){.program = program, .plan = plan};
    MP_ENSURE(plan->n_places || !plan->n_steps || plan->arena_bytes == 0, err, MP_INVALID, "the plan has no offsets");
    MP_CHECK(take_blocks(out, guards, pool, err));
    return ready_steps(out, pool, err);
}

void mp_addresses_free(mp_addresses *a)
{
    if (!a->program) return;
    const mp_backend *b = a->program->backend;
    b->release(b, a->fixed, a->fixed_bytes);
    b->release(b, a->arena, a->arena_bytes);
    *a = (mp_addresses){0};
}

mp_status mp_addresses_check_guards(const mp_addresses *a, int t, mp_error *err)
{
    const mp_ready_step *r = &a->steps[t];
    const mp_backend *b = a->program->backend;
    for (size_t k = 0; k < r->n_guarded; k++) {
        const mp_place *p = &a->plan->places[r->guarded[k]];
        const char *from = a->arena + a->place_at[r->guarded[k]];
        const mp_node *node = &a->program->graph->nodes[r->node];
        bool whole = !b->touched(b, from - a->guard_bytes, MP_UNUSED_BYTE, a->guard_bytes) &&
                     !b->touched(b, from + p->bytes, MP_UNUSED_BYTE, a->guard_bytes);
        MP_ENSURE(whole, err, MP_REFUTED, "step %d, '%s' (%s), writes beside its %s of %lld bytes", t, node->name, node->op,
                  p->storage < 0 ? "workspace" : "operand", (long long)p->bytes);
    }
    return MP_OK;
}

void mp_addresses_poison(const mp_addresses *a, int t)
{
    const mp_ready_step *r = &a->steps[t];
    const mp_plan *plan = a->plan;
    const mp_backend *b = a->program->backend;
    for (size_t k = 0; k < r->n_dead; k++) {
        const mp_place *p = &plan->places[r->dead[k]];
        bool taken = false;
        for (size_t q = 0; !taken && !a->guard_bytes && q < plan->n_places; q++) {
            const mp_place *o = &plan->places[q];
            taken = o != p && o->begin <= t && o->end > t + 1 && o->offset < p->offset + p->bytes &&
                    p->offset < o->offset + o->bytes;
        }
        if (!taken) b->fill(b, a->arena + a->place_at[r->dead[k]], DEAD, p->bytes);
    }
}
