/* exact_states.c - the states of an exact search by stage, with those that are not dominated in a list, and the open ones. */
#include "planner/exact.h"

#include <limits.h>

void mp_exact_states_free(mp_exact_states *t)
{
    mp_free(t->states);
    mp_free(t->stages);
    mp_free(t->slots);
    mp_free(t->open.items);
}

/* Where the stage is, or would be. */
static size_t slot_of(const mp_exact_states *t, mp_exact_set ran)
{
    mp_exact_set hash = ran * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
    size_t slot = (size_t)hash & (t->n_slots - 1);
    while (t->slots[slot] && t->stages[t->slots[slot] - 1].ran != ran) slot = (slot + 1) & (t->n_slots - 1);
    return slot;
}

static mp_status widen(mp_exact_states *t, mp_error *err)
{
    enum { LEAST = 1024 };
    const size_t n = t->n_slots ? 2 * t->n_slots : LEAST;
    int *slots = mp_alloc(n, sizeof *slots);
    if (!slots) return MP_FAIL(err, MP_NOMEM, "out of memory for %zu stages", n / 2);
    mp_free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (size_t k = 0; k < t->n_stages; k++) slots[slot_of(t, t->stages[k].ran)] = (int)k + 1;
    return MP_OK;
}

mp_status mp_exact_find_stage(mp_exact_states *t, const mp_exact_graph *x, mp_exact_set ran, int *out, mp_error *err)
{
    mp_status st = MP_OK;
    if (2 * (t->n_stages + 1) > t->n_slots) MP_TRY(widen(t, err));
    const size_t slot = slot_of(t, ran);
    if (!t->slots[slot]) {
        MP_REQUIRE(mp_grow(&t->stages, &t->stages_capacity, t->n_stages + 1, sizeof *t->stages), err, MP_NOMEM,
                   "out of memory for %zu stages", t->n_stages);
        mp_exact_stage_of(x, ran, &t->stages[t->n_stages]);
        t->slots[slot] = (int)++t->n_stages;
    }
    *out = t->slots[slot] - 1;
done:
    return st;
}

/* Whether a state of the stage is as good; those that the new one is as good as leave the list. */
static bool is_dominated(mp_exact_states *t, const mp_exact_state *s)
{
    int *link = &t->stages[s->stage].newest;
    for (int k = *link; k >= 0; k = t->states[k].next) {
        const mp_exact_state *other = &t->states[k];
        if (!(s->held & ~other->held) && other->extra_ticks <= s->extra_ticks) return true;
    }
    while (*link >= 0) {
        mp_exact_state *other = &t->states[*link];
        other->dominated = !(other->held & ~s->held) && s->extra_ticks <= other->extra_ticks;
        if (other->dominated)
            *link = other->next;
        else
            link = &other->next;
    }
    return false;
}

mp_status mp_exact_reach(mp_exact_states *t, const mp_exact_graph *x, const mp_exact_state *state, int64_t least_extra,
                         mp_error *err)
{
    mp_status st = MP_OK;
    const int k = (int)t->n;
    if (is_dominated(t, state)) goto done;
    MP_REQUIRE(mp_grow(&t->states, &t->capacity, t->n + 1, sizeof *t->states) &&
                   mp_grow(&t->open.items, &t->open_capacity, t->open.n + 1, sizeof *t->open.items),
               err, MP_NOMEM, "out of memory for %zu states", t->n);
    mp_exact_stage *stage = &t->stages[state->stage];
    t->states[t->n++] = *state;
    t->states[k].next = stage->newest;
    stage->newest = k;
    const int left = __builtin_popcountll(x->all & ~stage->ran);
    /* at equal ticks the one that is nearest to the end, then the newest */
    mp_heap_push(&t->open, (state->extra_ticks + least_extra) * (MP_EXACT_BITS + 1) + left, INT_MAX - k);
done:
    return st;
}

int mp_exact_pop(mp_exact_states *t)
{
    while (t->open.n) {
        const int k = INT_MAX - mp_heap_pop(&t->open);
        if (!t->states[k].dominated) return k;
    }
    return -1;
}
