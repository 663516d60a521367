/* guards.c - looks at the bytes between places, and overwrites those of places that are over. */
#include "executor/run/guards.h"

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
        MP_ENSURE(whole, err, MP_REFUTED, "step %d, '%s' (%s), writes beside its %s of %lld bytes", t, node->name, node->op,
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
