/* exact_states.c - a hash table of stages, each with the list of its states that no other dominates. */
#include "planner/exact/exact_states.h"

#include <limits.h>

#include "estimator/base/memory.h"
#include "planner/math/splitmix.h"
#include "planner/math/tuning.h"

void mp_exact_states_free(mp_exact_states *t)
{
    mp_free(t->states);
    mp_free(t->stages);
    mp_free(t->entries);
    mp_free(t->slots);
    mp_free(t->open.items);
}

/* Where the stage is, or would be. */
static size_t slot_of(const mp_exact_states *t, mp_exact_set ran)
{
    size_t slot = (size_t)mp_splitmix_mix(ran) & (t->n_slots - 1);
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
    if (2 * (t->n_stages + 1) > t->n_slots) MP_CHECK(widen(t, err));
    const size_t slot = slot_of(t, ran);
    if (!t->slots[slot]) {
        MP_ENSURE(mp_grow(&t->stages, &t->stages_capacity, t->n_stages + 1, sizeof *t->stages), err, MP_NOMEM,
                  "out of memory for %zu stages", t->n_stages);
        mp_exact_stage_of(x, ran, &t->stages[t->n_stages]);
        t->slots[slot] = (int)++t->n_stages;
    }
    *out = t->slots[slot] - 1;
    return MP_OK;
}

/* Whether a state of the stage dominates this one: all that this one has live, at no more ticks; those that it dominates leave
 * the stage. */
static bool is_dominated(mp_exact_states *t, const mp_exact_state *s)
{
    mp_exact_stage *stage = &t->stages[s->stage];
    if (!stage->n) return false;
    mp_exact_entry *entries = t->entries + stage->first;
    t->n_work += (int64_t)(stage->n / MP_EXACT_ENTRIES_PER_WORK);
    for (size_t i = 0; i < stage->n; i++)
        if (!(s->live & ~entries[i].live) && entries[i].extra_ticks <= s->extra_ticks) return true;
    for (size_t i = 0; i < stage->n;) {
        if ((entries[i].live & ~s->live) || s->extra_ticks > entries[i].extra_ticks) {
            i++;
            continue;
        }
        t->states[entries[i].state].dominated = true;
        entries[i] = entries[--stage->n];
    }
    return false;
}

/* Space for one more entry: a block twice as large, at the end of all blocks. */
static mp_status lengthen(mp_exact_states *t, mp_exact_stage *stage, mp_error *err)
{
    enum { LEAST = 4 };
    const size_t capacity = stage->capacity ? 2 * stage->capacity : LEAST;
    if (stage->n < stage->capacity) return MP_OK;
    if (!mp_grow(&t->entries, &t->entries_capacity, t->n_entries + capacity, sizeof *t->entries))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %zu states", t->n);
    for (size_t i = 0; i < stage->n; i++) t->entries[t->n_entries + i] = t->entries[stage->first + i];
    stage->first = t->n_entries;
    stage->capacity = capacity;
    t->n_entries += capacity;
    return MP_OK;
}

mp_status mp_exact_reach(mp_exact_states *t, const mp_exact_graph *x, const mp_exact_state *state, int64_t least_extra,
                         mp_error *err)
{
    mp_exact_stage *stage = &t->stages[state->stage];
    const int k = (int)t->n, left = __builtin_popcountll(x->all & ~stage->ran);
    if (is_dominated(t, state)) return MP_OK;
    MP_CHECK(lengthen(t, stage, err));
    MP_ENSURE(mp_grow(&t->states, &t->capacity, t->n + 1, sizeof *t->states) &&
                  mp_grow(&t->open.items, &t->open_capacity, t->open.n + 1, sizeof *t->open.items),
              err, MP_NOMEM, "out of memory for %zu states", t->n);
    t->states[t->n++] = *state;
    t->entries[stage->first + stage->n++] = (mp_exact_entry){state->live, state->extra_ticks, k};
    /* at equal ticks the one that is nearest to the end, then the newest */
    mp_heap_push(&t->open, (state->extra_ticks + least_extra) * (MP_EXACT_BITS + 1) + left, INT_MAX - k);
    return MP_OK;
}

int mp_exact_pop(mp_exact_states *t)
{
    while (t->open.n) {
        const int k = INT_MAX - mp_heap_pop(&t->open);
        if (!t->states[k].dominated) return k;
    }
    return -1;
}
