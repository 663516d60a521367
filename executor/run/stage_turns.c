/* stage_turns.c - the turns of a stage: the first call of the backward, and the stash of waiting micro-batches. */
#include "executor/run/stage_turns.h"

#include <string.h>

#include "executor/program/stage.h"

enum { BLOCK = 4096 }; /* bytes that one iteration of a loop exchanges between a slot of the stash and the arena */

/* True if a place (an instance in the arena) holds parameters that the first step of its lifetime gathers. */
static bool is_gathered(const mp_addresses *a, const mp_place *p)
{
    const int node = a->plan->steps[p->begin].node;
    const mp_collective_record *r = a->program->graph->nodes[node].collective;
    for (size_t k = 0; mp_program_gathers(a->program, node) && k < r->n_moved; k++)
        if (r->wholes[k] == p->storage) return true;
    return false;
}

/* Lists the places that are live across the turn-around, from forward to backward. Omits gathered parameters and inputs. `list`
 * NULL: only counts. */
static size_t list_kept(const mp_addresses *a, size_t turn_around, mp_kept_place *list)
{
    const mp_graph *g = a->program->graph;
    size_t n = 0;
    for (size_t k = 0; k < a->plan->n_places; k++) {
        const mp_place *p = &a->plan->places[k];
        if (p->storage < 0 || (size_t)p->begin >= turn_around || (size_t)p->end <= turn_around || is_gathered(a, p)) continue;
        if (list) list[n] = (mp_kept_place){a->arena + a->place_at[k], p->bytes};
        n++;
    }
    for (size_t s = 0; s < g->n_storages; s++) {
        if (g->storages[s].kind != MP_KIND_INPUT || a->fixed_at[s] < 0) continue;
        if (list) list[n] = (mp_kept_place){a->fixed + a->fixed_at[s], g->storages[s].bytes};
        n++;
    }
    return n;
}

/* Finds the memory with the activations that the forward leaves for the backward, and divides the stash into slots of this
 * size. */
static mp_status slots_of(const mp_addresses *a, size_t turn_around, mp_pool *pool, mp_stage_slots *out, mp_error *err)
{
    const mp_program_stage *stage = a->program->stage;
    const size_t n = list_kept(a, turn_around, NULL);
    *out = (mp_stage_slots){.n_kept = n,
                            .kept = mp_pool_alloc(pool, n, sizeof *out->kept),
                            .n_slots = (int)mp_schedule_in_flight(&stage->shape, stage->index) - 1,
                            .micro_batch = -1};
    out->holds = mp_pool_alloc(pool, (size_t)out->n_slots, sizeof *out->holds);
    MP_ENSURE(out->kept && out->holds, err, MP_NOMEM, "out of memory");
    for (int k = 0; k < out->n_slots; k++) out->holds[k] = -1;
    list_kept(a, turn_around, out->kept);
    for (size_t k = 0; k < n; k++) out->slot_bytes += out->kept[k].bytes;
    if (!out->n_slots) return MP_OK;
    const int64_t room = stage->held < 0 ? 0 : a->program->graph->storages[stage->held].bytes;
    MP_ENSURE(out->n_slots * out->slot_bytes <= room, err, MP_INVALID,
              "%d micro-batches wait with %lld bytes each, but only %lld bytes are reserved for them", out->n_slots,
              (long long)out->slot_bytes, (long long)room);
    out->slots = a->fixed + a->fixed_at[stage->held];
    return MP_OK;
}

/* Returns the slot of the stash that belongs to a micro-batch. For micro-batch -1, returns an empty slot. The caller ensures
 * that a slot exists. */
static int slot_of(const mp_stage_slots *s, int64_t micro_batch)
{
    int k = 0;
    while (k + 1 < s->n_slots && s->holds[k] != micro_batch) k++;
    return k;
}

static void exchange(char *a, char *b, int64_t bytes)
{
    char block[BLOCK];
    for (int64_t at = 0; at < bytes; at += BLOCK) {
        const size_t n = (size_t)(bytes - at < BLOCK ? bytes - at : BLOCK);
        memcpy(block, a + at, n);
        memcpy(a + at, b + at, n);
        memcpy(b + at, block, n);
    }
}

typedef enum way { OUT = 1, IN = 2 } way;

/* Copies the activations of a micro-batch from the arena into a slot of the stash (OUT), from a slot to the arena (IN), or
 * exchanges both (OUT | IN). */
static void move(mp_stage_slots *s, int slot, way way)
{
    char *there = s->slots + slot * s->slot_bytes;
    for (size_t k = 0; k < s->n_kept; k++) {
        const mp_kept_place *here = &s->kept[k];
        if (way == (OUT | IN))
            exchange(here->at, there, here->bytes);
        else
            memcpy(way == OUT ? there : here->at, way == OUT ? here->at : there, (size_t)here->bytes);
        there += here->bytes;
    }
    s->copied_bytes += s->slot_bytes * (way == (OUT | IN) ? 2 : 1);
}

/* Before a forward: moves the activations of another micro-batch from the arena into a slot of the stash. */
static void stash_other_micro_batch(mp_stage_slots *s, int64_t micro_batch)
{
    if (s->micro_batch >= 0) {
        const int slot = slot_of(s, -1);
        move(s, slot, OUT);
        s->holds[slot] = s->micro_batch;
    }
    s->micro_batch = micro_batch;
}

/* Before a backward: restores the activations of its micro-batch in the arena. Activations of another micro-batch that are in
 * the arena move to the freed slot of the stash. */
static void turn_back(mp_stage_slots *s, int64_t micro_batch)
{
    if (s->micro_batch != micro_batch) {
        const int slot = slot_of(s, micro_batch);
        move(s, slot, s->micro_batch >= 0 ? OUT | IN : IN);
        s->holds[slot] = s->micro_batch;
    }
    s->micro_batch = -1;
}

/* ---- turns ---- */

/* Returns the step that computes the loss; the number of steps if this stage does not compute it. */
static size_t loss_step(const mp_addresses *a)
{
    const mp_program *p = a->program;
    const int loss = p->bindings->storage[p->bindings->loss];
    for (size_t t = 0; loss >= 0 && t < a->plan->n_steps; t++) {
        const mp_alternative *f = mp_addresses_alternative(a, (int)t);
        for (size_t k = 0; k < f->n_writes; k++)
            if (f->writes[k] == loss) return t;
    }
    return a->plan->n_steps;
}

mp_status mp_stage_turns_of(const mp_addresses *a, const mp_calls *calls, mp_pool *pool, mp_stage_turns *out, mp_error *err)
{
    const mp_program *p = a->program;
    const mp_plan *plan = a->plan;
    size_t at;
    *out = (mp_stage_turns){.n = mp_schedule_turns(&p->stage->shape)};
    MP_ENSURE(out->list = mp_pool_alloc(pool, out->n, sizeof *out->list), err, MP_NOMEM, "out of memory");
    mp_schedule_order(&p->stage->shape, p->stage->index, out->list);
    MP_CHECK(mp_rank_turn_around(p->graph, plan->steps, plan->n_steps, &at, err));
    for (size_t t = at; t < plan->n_steps; t++) {
        const mp_stage_message *m = mp_program_message(p, plan->steps[t].node);
        MP_ENSURE(!m || !m->is_ahead, err, MP_INVALID,
                  "the plan sends activations to the next stage in the middle of backward");
    }
    out->turn_around = at;
    while (out->first_back < calls->n && calls->list[out->first_back].step < at) out->first_back++;
    out->loss_is_ahead = loss_step(a) < at;
    return slots_of(a, at, pool, &out->slots, err);
}

void mp_stage_turns_enter(mp_stage_turns *turns, const mp_turn *turn)
{
    if (turn->pass == MP_PASS_FORWARD)
        stash_other_micro_batch(&turns->slots, turn->micro_batch);
    else
        turn_back(&turns->slots, turn->micro_batch);
}
