/* addresses.c - allocates the memory of an execution: a block of storages that are always live, an arena, and the memory of
 * other tiers. Assigns an address to every operand of every step. */
#include "executor/run/addresses.h"

#include <string.h>

#include "estimator/graph/liveness.h"
#include "executor/program/program_nodes.h"
#include "executor/program/stage.h"
#include "memplan/arena.h"

enum { GUARD = 256 };

bool mp_ready_step_does(const mp_ready_step *r, const mp_program *p, mp_task task)
{
    return !r->is_copy && mp_program_does(p, r->node, task);
}

/* Lays out all instances one after the other, in the order of the plan's list of instances, with guard bytes between them.
 * Both instances of a carried gradient have the same offset. */
static mp_status spread_out(mp_addresses *a, mp_error *err)
{
    const mp_graph *g = a->program->graph;
    MP_OWNED int64_t *carried_at = mp_alloc(
        g->n_storages, sizeof *carried_at); /* per storage of a carried gradient: its offset + 1; 0: not placed so far */
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

/* Fails with MP_NOMEM and the requested bytes. If the backend knows the free memory of its device, the message states it too.
 */
static mp_status no_memory(const mp_backend *b, const char *what, int64_t bytes, mp_error *err)
{
    mp_backend_memory now;
    if (!b->memory || b->memory(b, &now, NULL) != MP_OK)
        return MP_FAIL(err, MP_NOMEM, "there is no memory for %s of %lld bytes", what, (long long)bytes);
    return MP_FAIL(err, MP_NOMEM, "there is no memory for %s of %lld bytes: %lld of the device's %lld are free", what,
                   (long long)bytes, (long long)now.free_bytes, (long long)now.total_bytes);
}

/* Appends the instances in a tier to a->places. `from` is the byte of the tier's memory at which its arena begins. */
static mp_status append_places(mp_addresses *a, const mp_tier_layout *layout, int64_t from, mp_pool *pool, mp_error *err)
{
    const size_t n = a->n_places + layout->n_places;
    mp_place *places = mp_pool_alloc(pool, n, sizeof *places);
    int64_t *at = mp_pool_alloc(pool, n, sizeof *at);
    MP_ENSURE(places && at, err, MP_NOMEM, "out of memory");
    if (a->n_places) memcpy(places, a->places, a->n_places * sizeof *places);
    if (a->n_places) memcpy(at, a->place_at, a->n_places * sizeof *at);
    for (size_t k = a->n_places; k < n; k++) {
        places[k] = layout->places[k - a->n_places];
        at[k] = from + places[k].offset;
    }
    a->n_places = n;
    a->places = places;
    a->place_at = at;
    return MP_OK;
}

static void layout_free(mp_tier_layout *layout)
{
    mp_free(layout->places);
}

/* Allocates the memory of a tier. The streams of a GPU need pinned host memory, which the backend allocates. */
static mp_status open_tier(mp_addresses *a, int tier, const mp_tier_memory *wanted, int64_t bytes, mp_error *err)
{
    const mp_backend *b = a->program->backend;
    const char *name = a->program->graph->tiers[tier];
    if (!b->side_begin) return mp_tier_open(name, wanted->folder, bytes, wanted->locked, &a->tiers[tier], err);
    MP_ENSURE(!wanted->folder, err, MP_UNSUPPORTED, "the %s backend copies to memory, not to the folder %.300s", b->name,
              wanted->folder);
    if (b->is_host || !b->pin) return mp_tier_open(name, NULL, bytes, wanted->locked, &a->tiers[tier], err);
    char *memory = b->pin(b, bytes);
    MP_ENSURE(memory, err, MP_NOMEM, "there is no memory of %lld bytes for the tier '%.60s' that the device can access",
              (long long)bytes, name);
    memset(memory, 0, (size_t)bytes); /* storages that are always live start as zeros, as in memory from mp_tier_open */
    mp_tier_over(name, memory, bytes, &a->tiers[tier]);
    return MP_OK;
}

/* Allocates the memory of a tier other than the device: the storages that are always live, followed by an arena. The arena
 * uses the plan's offsets. If the plan has no offsets for the tier, or its offsets are not aligned for a file, this function
 * lays out the arena. */
static mp_status take_tier(mp_addresses *a, int tier, const mp_tier_memory *wanted, mp_pool *pool, mp_error *err)
{
    const mp_graph *g = a->program->graph;
    const int64_t block = wanted->folder ? MP_TIER_ALIGNMENT : a->program->backend->alignment;
    const mp_tier_claim *claim = &a->plan->tiers[tier];
    int64_t fixed = 0, bytes;
    MP_CLEARED_BY(layout_free) mp_tier_layout own = {0};
    mp_tier_layout layout = {claim->places, claim->n_places, claim->arena_bytes};
    for (size_t s = 0; s < g->n_storages; s++) {
        if (g->storages[s].tier != tier || !mp_storage_is_static(&g->storages[s])) continue;
        a->fixed_at[s] = fixed;
        MP_ENSURE(mp_round_up(g->storages[s].bytes, block, &bytes) && mp_add(fixed, bytes, &fixed), err, MP_INVALID,
                  "the tier '%.60s' has too many bytes", g->tiers[tier]);
    }
    if (claim->arena_bytes < 0 || mp_graph_tier_alignment(g, tier) % block != 0) {
        MP_CHECK(mp_arena_layout_tier(g, a->plan, tier, block, &own, err));
        layout = own;
    }
    MP_CHECK(append_places(a, &layout, fixed, pool, err));
    MP_ENSURE(mp_add(fixed, layout.arena_bytes, &bytes), err, MP_INVALID, "the tier '%.60s' has too many bytes",
              g->tiers[tier]);
    MP_ENSURE(!wanted->capacity_bytes || bytes <= wanted->capacity_bytes, err, MP_INFEASIBLE,
              "the plan needs %lld bytes of the tier '%.60s'%s%s, which has %lld", (long long)bytes, g->tiers[tier],
              wanted->folder ? " in " : "", wanted->folder ? wanted->folder : "", (long long)wanted->capacity_bytes);
    MP_CHECK(open_tier(a, tier, wanted, bytes, err));
    if (a->tiers[tier].memory) memset(a->tiers[tier].memory + fixed, MP_UNUSED_BYTE, (size_t)layout.arena_bytes);
    return MP_OK;
}

/* Provides the arena: the caller's memory if options->arena is set, else a new block. A new block is filled with
 * MP_UNUSED_BYTE, so that the touched bytes can be counted later. */
static mp_status take_arena(mp_addresses *a, const mp_execution_options *options, mp_error *err)
{
    const mp_graph *g = a->program->graph;
    const mp_backend *b = a->program->backend;
    a->is_lent = options->arena;
    if (!a->is_lent) {
        a->arena = b->allocate(b, a->arena_bytes);
        if (!a->arena) MP_CHECK(no_memory(b, "an arena", a->arena_bytes, err));
        b->fill(b, a->arena, MP_UNUSED_BYTE, a->arena_bytes);
        return MP_OK;
    }
    MP_ENSURE(!options->guards && a->arena_bytes <= options->arena_bytes, err, MP_INVALID,
              "an arena of %lld bytes is needed, but the given one has %lld", (long long)a->arena_bytes,
              (long long)options->arena_bytes);
    for (size_t s = 0; s < g->n_storages; s++)
        MP_ENSURE(!mp_storage_outlives_step(&g->storages[s]) || mp_storage_is_static(&g->storages[s]), err, MP_INVALID,
                  "%s is carried to the next step, but other trainings use the same arena in between",
                  mp_storage_label(g, (int)s).text);
    a->arena = options->arena;
    return MP_OK;
}

static mp_status take_blocks(mp_addresses *a, const mp_execution_options *options, mp_pool *pool, mp_error *err)
{
    const mp_graph *g = a->program->graph;
    const mp_backend *b = a->program->backend;
    a->fixed_at = mp_pool_alloc(pool, g->n_storages, sizeof *a->fixed_at);
    a->place_at = mp_pool_alloc(pool, a->plan->n_places, sizeof *a->place_at);
    a->constant_at = mp_pool_alloc(pool, a->program->n_constants, sizeof *a->constant_at);
    MP_ENSURE(a->fixed_at && a->place_at && a->constant_at, err, MP_NOMEM, "out of memory");
    for (size_t s = 0; s < g->n_storages; s++) {
        bool fixed = mp_storage_is_static(&g->storages[s]) && g->storages[s].tier == MP_TIER_DEVICE;
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
    a->places = a->plan->places;
    a->n_places = a->plan->n_places;
    if (options->guards) MP_CHECK(spread_out(a, err));
    a->fixed = b->allocate(b, a->fixed_bytes);
    if (!a->fixed) MP_CHECK(no_memory(b, "parameters, optimizer state and inputs", a->fixed_bytes, err));
    MP_CHECK(take_arena(a, options, err));
    for (int m = 1; m < (int)g->n_tiers; m++) MP_CHECK(take_tier(a, m, &options->tiers[m], pool, err));
    return put_constants(a, err);
}

typedef struct walker {
    mp_addresses *a;
    mp_pool *pool;
    int *place;    /* per storage: index in places[] of its live instance; -1: no instance is live at the current step */
    int *by_start; /* indices in places[], sorted by the first step of the lifetime */
    size_t next;   /* index in by_start of the next instance whose lifetime begins */
    bool *has_run; /* for each node: true if an earlier step has run it */
} walker;

/* Returns the offset of a storage in its block or tier; -1: the storage is not live. */
static int64_t offset_of(const walker *w, int storage)
{
    const mp_addresses *a = w->a;
    if (a->fixed_at[storage] >= 0) return a->fixed_at[storage];
    return w->place[storage] < 0 ? -1 : a->place_at[w->place[storage]];
}

/* Returns the address of a storage or constant at the current step; NULL: it is not live, or is in a file. */
static char *address_of(const walker *w, int storage)
{
    const mp_addresses *a = w->a;
    if (storage < -1) return a->fixed + a->constant_at[MP_SLOT_CONSTANT(storage)];
    if (storage < 0 || offset_of(w, storage) < 0) return NULL;
    const int tier = a->program->graph->storages[storage].tier;
    char *block = tier != MP_TIER_DEVICE ? a->tiers[tier].memory : a->fixed_at[storage] >= 0 ? a->fixed : a->arena;
    return block ? block + offset_of(w, storage) : NULL;
}

/* Fails if a step other than a copy uses a storage outside of the device tier. */
static mp_status check_on_device(const mp_graph *g, int node, const int *storages, size_t n, mp_error *err)
{
    for (size_t i = 0; i < n; i++)
        MP_ENSURE(g->storages[storages[i]].tier == MP_TIER_DEVICE, err, MP_UNSUPPORTED,
                  "%s computes with %s, but only copies may use the tier '%.60s'", mp_node_label(g, node).text,
                  mp_storage_label(g, storages[i]).text, g->tiers[g->storages[storages[i]].tier]);
    return MP_OK;
}

static mp_range own_range(const mp_addresses *a, int parameter)
{
    return mp_range_of(mp_stored_elements(&a->program->model->tensors[parameter]), a->place.n_shards, a->place.shard_index);
}

char *mp_addresses_part(const mp_addresses *a, int tensor, mp_range *own)
{
    const mp_program *p = a->program;
    const int part = p->mesh.zero == 3 ? mp_program_part(p, p->bindings->storage[tensor]) : -1;
    if (part < 0) return NULL;
    *own = own_range(a, tensor);
    return a->fixed + a->fixed_at[part];
}

/* Follows chains of copies back to the original storage; returns the storage itself if it is not a copy. */
static int original_of(const mp_graph *g, int storage)
{
    storage = mp_state_home(g, storage);
    for (int k = g->producer[storage]; k >= 0 && (g->nodes[k].flags & MP_NODE_OPTIONAL); k = g->producer[storage]) {
        const mp_alternative *f = &g->nodes[k].alternatives[0];
        size_t i = 0;
        while (i < f->n_writes && f->writes[i] != storage) i++;
        if (i >= f->n_writes || i >= f->n_reads) break;
        storage = f->reads[i];
    }
    return storage;
}

/* Describes the copy of storage `from` to storage `to`. The copy pairs a memory address with an offset in a tier. If one of
 * the two storages is in a file, the file is the tier. */
static mp_status ready_copy(const walker *w, int from, int to, mp_copy *out, mp_error *err)
{
    const mp_addresses *a = w->a;
    const mp_graph *g = a->program->graph;
    const mp_storage *read = &g->storages[from], *written = &g->storages[to];
    mp_label label;
    const int original = original_of(g, from);
    const char *title = mp_storage_title(g, original, &label);
    out->is_out = written->tier != MP_TIER_DEVICE && (read->tier == MP_TIER_DEVICE || a->tiers[read->tier].memory);
    const int there = out->is_out ? to : from;
    out->tier = &a->tiers[g->storages[there].tier];
    out->offset = offset_of(w, there);
    out->memory = address_of(w, out->is_out ? from : to);
    out->bytes = read->bytes < written->bytes ? read->bytes : written->bytes;
    MP_ENSURE(out->tier->is_open && out->offset >= 0 && out->memory && original == original_of(g, to), err, MP_UNSUPPORTED,
              "%s cannot be copied to %s", mp_storage_label(g, from).text, mp_storage_label(g, to).text);
    MP_ENSURE(read->payload_bytes <= out->bytes && written->payload_bytes <= out->bytes, err, MP_UNSUPPORTED,
              "%s and its copy, %s, have different sizes", mp_storage_label(g, from).text, mp_storage_label(g, to).text);
    out->label = mp_pool_text(w->pool, title, strlen(title));
    return out->label ? MP_OK : MP_NO_MEMORY(err);
}

/* Prepares the copies of a step: storage reads[k] of the step's alternative is copied to storage writes[k]. */
static mp_status ready_copies(const walker *w, const mp_step *step, mp_ready_step *r, mp_error *err)
{
    const mp_graph *g = w->a->program->graph;
    const mp_alternative *f = &g->nodes[step->node].alternatives[step->alternative];
    r->is_copy = mp_copy_way_of(g, step->node, step->alternative) != MP_COPY_NONE;
    r->is_of_state = mp_node_copies_state(g, step->node);
    if (!r->is_copy) {
        MP_CHECK(check_on_device(g, step->node, f->reads, f->n_reads, err));
        MP_CHECK(check_on_device(g, step->node, f->writes, f->n_writes, err));
        return check_on_device(g, step->node, f->adds, f->n_adds, err);
    }
    MP_ENSURE(f->n_reads == f->n_writes && !f->n_adds, err, MP_UNSUPPORTED,
              "%s is not a copy: it reads %zu storages and writes %zu", mp_node_label(g, step->node).text, f->n_reads,
              f->n_writes);
    MP_ENSURE(w->a->program->backend->is_host || w->a->program->backend->side_begin, err, MP_UNSUPPORTED,
              "the %s backend does not copy to other tiers", w->a->program->backend->name);
    MP_ENSURE(r->copies = mp_pool_alloc(w->pool, f->n_reads, sizeof *r->copies), err, MP_NOMEM, "out of memory");
    for (size_t i = 0; i < f->n_reads; i++)
        if (g->storages[f->writes[i]].bytes) MP_CHECK(ready_copy(w, f->reads[i], f->writes[i], &r->copies[r->n_copies++], err));
    return MP_OK;
}

/* Returns the storage with the state before an update, if the update writes the new state to a different storage; -1: the
 * update is in place. */
static int state_before(const mp_graph *g, int update, int state)
{
    const mp_alternative *a = &g->nodes[update].alternatives[0];
    for (size_t k = 0; state >= 0 && k < a->n_reads; k++)
        if (a->reads[k] != state && mp_state_home(g, a->reads[k]) == mp_state_home(g, state)) return a->reads[k];
    return -1;
}

/* Restricts an update to this rank's part of the parameter, if the state is sharded. */
static void share_update(const walker *w, const mp_binding *b, mp_ready_step *r)
{
    const mp_addresses *a = w->a;
    const mp_range own = own_range(a, b->parameter);
    const int64_t at = own.from * (mp_dtype_bits(a->program->options.dtype) / 8);
    r->n_updated = own.n;
    if (a->program->mesh.zero == 1) r->source += at;
    if (a->program->mesh.zero == 1 || a->program->mesh.zero == 2)
        r->old_target = address_of(w, a->program->bindings->storage[b->parameter]) + at;
}

/* Sets the addresses of a node's operands. */
static mp_status ready_operands(const walker *w, const mp_step *step, int workspace, mp_ready_step *r, mp_error *err)
{
    const mp_addresses *a = w->a;
    const mp_program_node *node = mp_program_node_at(a->program, step->node);
    const mp_binding *b = mp_program_binding(a->program, step->node);
    r->n_slots = node->n_slots;
    if (workspace >= 0) r->workspace = a->arena + a->place_at[workspace];
    MP_ENSURE(r->slots = mp_pool_alloc(w->pool, node->n_slots + 1, sizeof *r->slots), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < node->n_slots; k++) {
        const mp_slot *slot = &node->slots[k];
        const bool is_zero = slot->zeros && a->place.part_index;
        char *begin = address_of(w, is_zero ? MP_SLOT_CONSTANT(slot->zeros) : slot->storage);
        r->slots[k] = begin && !is_zero ? begin + slot->offset : begin;
    }
    r->source = address_of(w, b->source);
    r->target = address_of(w, b->target);
    if (b->bytes) r->source += b->source_offset;
    if (b->bytes) r->target += b->target_offset;
    r->state = address_of(w, b->state);
    if (b->task == MP_TASK_UPDATE) r->old_state = address_of(w, state_before(a->program->graph, step->node, b->state));
    r->clip = address_of(w, a->program->bindings->clip);
    if (b->task == MP_TASK_UPDATE) share_update(w, b, r);
    return MP_OK;
}

static mp_status list_addresses(const walker *w, const int *storages, size_t n, char ***out, mp_error *err)
{
    MP_ENSURE(*out = mp_pool_alloc(w->pool, n, sizeof **out), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) (*out)[k] = address_of(w, storages[k]);
    return MP_OK;
}

/* Sets the addresses of the tensors that a collective sums, gathers or sends, and of its workspace. */
static mp_status ready_collective(const walker *w, int workspace, mp_ready_step *r, mp_error *err)
{
    const mp_addresses *a = w->a;
    const mp_collective_record *moved = a->program->graph->nodes[r->node].collective;
    r->n_moved = moved->n_moved;
    if (workspace >= 0) r->workspace = a->arena + a->place_at[workspace];
    MP_CHECK(list_addresses(w, moved->wholes, r->n_moved, &r->wholes, err));
    return moved->parts ? list_addresses(w, moved->parts, r->n_moved, &r->parts, err) : MP_OK;
}

/* Lists the entries of places[] whose guard bytes are checked after a step: the step's workspace and operands. */
static mp_status list_guarded(const walker *w, mp_ready_step *r, int workspace, mp_error *err)
{
    const mp_program_node *node = mp_program_node_at(w->a->program, r->node);
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
    mp_ready_step *r = &a->steps[t];
    const mp_step *step = &a->plan->steps[t];
    int workspace = -1;
    *r = (mp_ready_step){.node = step->node, .alternative = step->alternative, .first_run = !w->has_run[step->node]};
    w->has_run[step->node] = true;
    for (; w->next < a->n_places && a->places[w->by_start[w->next]].begin <= t; w->next++) {
        const mp_place *p = &a->places[w->by_start[w->next]];
        if (p->storage < 0)
            workspace = w->by_start[w->next];
        else
            w->place[p->storage] = w->by_start[w->next];
    }
    MP_CHECK(ready_copies(w, step, r, err));
    if (r->is_copy) return MP_OK;
    r->is_collective = mp_program_does(a->program, r->node, MP_TASK_COLLECTIVE);
    if (r->is_collective) return ready_collective(w, workspace, r, err);
    MP_CHECK(ready_operands(w, step, workspace, r, err));
    if (a->guard_bytes) MP_CHECK(list_guarded(w, r, workspace, err));
    return MP_OK;
}

/* Lists for every step the instances whose lifetime ends with the step. */
static mp_status find_dead(walker *w, mp_error *err)
{
    const mp_addresses *a = w->a;
    const mp_graph *g = a->program->graph;
    mp_ready_step *steps = a->steps;
    int *list = mp_pool_alloc(w->pool, a->n_places, sizeof *list), *at = list;
    MP_ENSURE(list, err, MP_NOMEM, "out of memory");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < a->n_places; k++) {
            const mp_place *p = &a->places[k];
            mp_ready_step *r = &steps[p->end - 1];
            if (p->storage >= 0 && mp_storage_outlives_step(&g->storages[p->storage])) continue;
            if (pass) list[r->dead - list + (ptrdiff_t)r->n_dead] = (int)k;
            r->n_dead++;
        }
        for (size_t t = 0; !pass && t < a->plan->n_steps; t++) {
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
    w.by_start = mp_alloc(a->n_places, sizeof *w.by_start);
    w.has_run = mp_alloc(g->n_nodes, sizeof *w.has_run);
    a->steps = mp_pool_alloc(pool, plan->n_steps, sizeof *a->steps);
    MP_ENSURE(w.place && w.by_start && w.has_run && start && a->steps, err, MP_NOMEM, "out of memory");
    memset(w.place, -1, g->n_storages * sizeof *w.place);
    for (size_t k = 0; k < a->n_places; k++) start[a->places[k].begin + 1]++;
    for (size_t t = 0; t < plan->n_steps; t++) start[t + 1] += start[t];
    for (size_t k = 0; k < a->n_places; k++) w.by_start[start[a->places[k].begin]++] = (int)k;
    for (size_t t = 0; t < plan->n_steps; t++) MP_CHECK(ready(&w, (int)t, err));
    return find_dead(&w, err);
}

mp_status mp_addresses_of(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_pool *pool,
                          mp_addresses *out, mp_error *err)
{
    *out = (mp_addresses){.program = program, .plan = plan};
    MP_ENSURE(plan->n_places || !plan->n_steps || plan->arena_bytes == 0, err, MP_INVALID, "the plan has no offsets");
    MP_CHECK(mp_rank_position_of(program, options->world, &out->place, err));
    const int passes = program->options.accumulate > 1 ? program->options.accumulate : 1,
              parts = program->adds_losses ? 1 : program->loss_parts;
    program->one_value = 1.0f / (float)(passes * out->place.n_data * parts);
    MP_CHECK(take_blocks(out, options, pool, err));
    return ready_steps(out, pool, err);
}

void mp_addresses_free(mp_addresses *a)
{
    if (!a->program) return;
    const mp_backend *b = a->program->backend;
    b->release(b, a->fixed, a->fixed_bytes);
    if (!a->is_lent) b->release(b, a->arena, a->arena_bytes);
    for (int m = 1; m < MP_MAX_TIERS; m++) {
        if (a->tiers[m].is_lent) b->unpin(b, a->tiers[m].memory);
        mp_tier_close(&a->tiers[m]);
    }
    *a = (mp_addresses){0};
}
