/* inspection.c - inspects the memory of an execution: directly if it is host memory, else by copying blocks to the host. */
#include "executor/run/inspection.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "executor/ranks/exchanges.h"
#include "executor/run/rank_results.h"

enum { DEAD = 0xff };

mp_status mp_addresses_check_guards(const mp_addresses *a, int t, mp_error *err)
{
    const mp_ready_step *r = &a->steps[t];
    const mp_backend *b = a->program->backend;
    for (size_t k = 0; k < r->n_guarded; k++) {
        const mp_place *p = &a->places[r->guarded[k]];
        const char *from = a->arena + a->place_at[r->guarded[k]];
        const mp_node *node = &a->program->graph->nodes[r->node];
        bool whole = !b->touched(b, from - a->guard_bytes, MP_UNUSED_BYTE, a->guard_bytes) &&
                     !b->touched(b, from + p->bytes, MP_UNUSED_BYTE, a->guard_bytes);
        MP_ENSURE(whole, err, MP_REFUTED, "step %d, '%s' (%s), writes outside its %s of %lld bytes", t, node->name, node->op,
                  p->storage < 0 ? "workspace" : "operand", (long long)p->bytes);
    }
    return MP_OK;
}

static int tier_of(const mp_addresses *a, const mp_place *p)
{
    return p->storage < 0 ? MP_TIER_DEVICE : a->program->graph->storages[p->storage].tier;
}

void mp_addresses_poison(const mp_addresses *a, int t)
{
    const mp_ready_step *r = &a->steps[t];
    for (size_t k = 0; k < r->n_dead; k++) {
        const mp_place *p = &a->places[r->dead[k]];
        const int64_t at = a->place_at[r->dead[k]];
        const int tier = tier_of(a, p);
        char *block = tier == MP_TIER_DEVICE ? a->arena : a->tiers[tier].memory;
        bool taken = !block || a->tiers[tier].is_lent;
        for (size_t q = 0; !taken && q < a->n_places; q++) {
            const mp_place *o = &a->places[q];
            taken = o != p && o->begin <= t && o->end > t + 1 && tier_of(a, o) == tier && a->place_at[q] < at + p->bytes &&
                    at < a->place_at[q] + o->bytes;
        }
        if (!taken) a->program->backend->fill(a->program->backend, block + at, DEAD, p->bytes);
    }
}

/* Returns the hash of n bytes in the backend's memory. If that is not host memory, the bytes are copied to the host block by
 * block. */
static XXH128_hash_t hash_of(const mp_backend *b, const char *there, int64_t n)
{
    char part[1 << 16];
    XXH128_hash_t none = {0, 0};
    if (b->is_host) return XXH3_128bits(there, (size_t)n);
    XXH3_state_t *state = XXH3_createState();
    if (!state) return none;
    XXH3_128bits_reset(state);
    for (int64_t at = 0; at < n; at += (int64_t)sizeof part) {
        int64_t bytes = n - at < (int64_t)sizeof part ? n - at : (int64_t)sizeof part;
        mp_array from = mp_array_plain(MP_DTYPE_UINT8, 1, &bytes), to = from;
        from.data = (char *)there + at;
        to.data = part;
        if (b->download(b, &from, &to, NULL) != MP_OK) break;
        XXH3_128bits_update(state, part, (size_t)bytes);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

/* True if a storage holds a tensor that is split over the ranks of tp. */
static bool is_in_parts(const mp_program *p, int storage)
{
    for (size_t t = 0; p->mesh.size[MP_DIM_TP] > 1 && t < p->model->n_tensors; t++)
        if (p->bindings->storage[t] == storage && p->model->tensors[t].part) return true;
    return false;
}

/* The storages to hash. WHOLES: only tensors that are replicated over the ranks of tp. PARTS: only tensors that are split over
 * the ranks of tp. */
typedef enum hashed { ALL, WHOLES, PARTS } hashed;

static void hash_storages(const mp_addresses *a, unsigned kinds, hashed which, char hash[33])
{
    const mp_graph *g = a->program->graph;
    XXH128_hash_t h = {0, 0};
    for (size_t s = 0; s < g->n_storages; s++) {
        if (!(kinds >> g->storages[s].kind & 1)) continue;
        if (which != ALL && is_in_parts(a->program, (int)s) != (which == PARTS)) continue;
        XXH128_hash_t one = hash_of(a->program->backend, a->fixed + a->fixed_at[s], g->storages[s].payload_bytes);
        uint64_t words[4] = {h.low64, h.high64, one.low64, one.high64};
        h = XXH3_128bits(words, sizeof words);
    }
    snprintf(hash, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

void mp_addresses_hash(const mp_addresses *a, unsigned kinds, char hash[33])
{
    hash_storages(a, kinds, ALL, hash);
}

/* Compares this rank's parts of tensors split over tp with the other ranks that hold the same parts. */
static mp_status compare_parts(const mp_addresses *a, mp_communicator *world, double timeout, mp_error *err)
{
    char hash[33];
    MP_OWNED char *all = mp_alloc((size_t)world->n, sizeof hash);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    hash_storages(a, 1u << MP_KIND_PARAMETER, PARTS, hash);
    MP_CHECK(mp_communicator_exchange(world, hash, sizeof hash, all, timeout, "comparing parameters", err));
    for (int r = 0; r < world->n; r++) {
        const int first = r % a->place.n_parts;
        MP_ENSURE(!memcmp(all + (size_t)r * sizeof hash, all + (size_t)first * sizeof hash, sizeof hash), err, MP_INVALID,
                  "the parameters of rank %d of %d differ from the parameters of rank %d", r, world->n, first);
    }
    return MP_OK;
}

/* Returns a hash of a tensor's bytes, which is never 0. Returns 0 if this stage does not hold the tensor, or its kind is not
 * in `kinds`. */
static uint64_t hash_of_tensor(const mp_addresses *a, unsigned kinds, size_t tensor)
{
    const int s = a->program->bindings->storage[tensor];
    const mp_storage *storage = s < 0 ? NULL : &a->program->graph->storages[s];
    mp_range own;
    const char *part = storage && kinds >> MP_KIND_PARAMETER & 1 ? mp_addresses_part(a, (int)tensor, &own) : NULL;
    if (part) return hash_of(a->program->backend, part, own.n * (mp_dtype_bits(a->program->options.dtype) / 8)).low64 | 1;
    if (!storage || !(kinds >> storage->kind & 1) || a->fixed_at[s] < 0) return 0;
    return hash_of(a->program->backend, a->fixed + a->fixed_at[s], storage->payload_bytes).low64 | 1;
}

/* True if ranks r and q hold the same part of a tensor, or both hold the whole tensor. */
static bool have_same(const mp_addresses *a, size_t tensor, int r, int q)
{
    const mp_rank_position *at = &a->place;
    const bool is_split = a->program->model->tensors[tensor].part, is_shared_out = a->program->mesh.zero == 3;
    return (!is_split || r % at->n_parts == q % at->n_parts) &&
           (!is_shared_out || r / at->n_parts % at->n_shards == q / at->n_parts % at->n_shards);
}

/* Compares each tensor on all ranks that hold the same part of the tensor. This includes tied parameters, which several
 * pipeline stages hold. */
static mp_status compare_tensors(const mp_addresses *a, unsigned kinds, mp_communicator *world, double timeout, mp_error *err)
{
    const mp_model *model = a->program->model;
    const size_t n = model->n_tensors;
    MP_OWNED uint64_t *own = mp_alloc(n, sizeof *own), *all = mp_alloc(n * (size_t)world->n, sizeof *all);
    MP_ENSURE(own && all, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++) own[t] = hash_of_tensor(a, kinds, t);
    MP_CHECK(mp_communicator_exchange(world, own, (int64_t)(n * sizeof *own), all, timeout, "comparing parameters", err));
    for (size_t t = 0; t < n; t++)
        for (int r = 0; r < world->n; r++) {
            const uint64_t hash = all[(size_t)r * n + t];
            int first = 0;
            while (first < r && !(all[(size_t)first * n + t] && have_same(a, t, r, first))) first++;
            MP_ENSURE(!hash || hash == all[(size_t)first * n + t], err, MP_INVALID,
                      "rank %d of %d holds other values of '%s' than rank %d", r, world->n, model->tensors[t].name, first);
        }
    return MP_OK;
}

mp_status mp_addresses_compare(const mp_addresses *a, mp_communicator *world, double timeout, mp_error *err)
{
    char hash[33];
    const unsigned kinds = 1u << MP_KIND_PARAMETER | (a->program->shares_statistics ? 1u << MP_KIND_BUFFER : 0);
    if (a->program->stage || a->program->mesh.zero == 3) return compare_tensors(a, kinds, world, timeout, err);
    hash_storages(a, kinds, WHOLES, hash);
    const mp_fact fact = {"set of parameters", hash, sizeof hash};
    MP_CHECK(mp_ranks_agree(world, world->n, &fact, 1, timeout, err));
    return a->place.n_parts > 1 ? compare_parts(a, world, timeout, err) : MP_OK;
}
