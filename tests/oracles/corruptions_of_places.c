/* corruptions_of_places.c - plans with faults in their offsets. */
#include <string.h>

#include "tests/oracles/corruptions.h"

SPOIL(over_budget_of_the_arena)
{
    UNUSED;
    plan->budget_bytes = plan->static_bytes + plan->arena_bytes - 1;
    return plan->n_places > 0 && plan->arena_bytes > 0;
}
SPOIL(over_budget_of_the_peak)
{
    UNUSED;
    plan->n_places = 0;
    plan->arena_bytes = -1;
    plan->budget_bytes = plan->peak_bytes - 1;
    return plan->budget_bytes >= 0;
}
SPOIL(arena_wrong)
{
    UNUSED;
    plan->arena_bytes++;
    return plan->n_places > 0;
}
SPOIL(arena_without_offsets)
{
    UNUSED;
    plan->n_places = 0;
    plan->arena_bytes = plan->peak_bytes - plan->static_bytes;
    return true;
}
/* Returns a random place of more than 0 bytes, of a storage or of a workspace; NULL: none. */
static mp_place *some_place(mp_plan *plan, random_source *random, bool workspace)
{
    if (!plan->n_places) return NULL;
    size_t from = (size_t)random_below(random, (int)plan->n_places);
    for (size_t i = 0; i < plan->n_places; i++) {
        mp_place *p = &plan->places[(from + i) % plan->n_places];
        if (p->bytes && (p->storage < 0) == workspace) return p;
    }
    return NULL;
}
SPOIL(offsets_overlap)
{
    (void)graph;
    mp_place *p = some_place(plan, random, false);
    for (size_t i = 0; p && i < plan->n_places; i++) {
        mp_place *q = &plan->places[i];
        if (q == p || !q->bytes || q->begin <= p->begin || q->begin >= p->end - 1) continue;
        q->offset = p->offset;
        return true;
    }
    return false;
}
SPOIL(workspace_overlaps)
{
    (void)graph;
    mp_place *w = some_place(plan, random, true);
    for (size_t i = 0; w && i < plan->n_places; i++) {
        mp_place *q = &plan->places[i];
        if (q->storage < 0 || !q->bytes || q->begin > w->begin || q->end <= w->begin) continue;
        w->offset = q->offset;
        return true;
    }
    return false;
}
SPOIL(in_place_output_beside_its_input)
{
    (void)random;
    for (size_t i = 0; i < plan->n_places; i++) {
        for (size_t j = 0; j < plan->n_places; j++) {
            mp_place *p = &plan->places[i], *q = &plan->places[j];
            bool shared = p->end == q->begin + 1 && p->offset == q->offset && p->begin < q->begin;
            if (!shared || p->storage < 0 || q->storage < 0 || q->bytes <= graph->alignment) continue;
            q->offset += graph->alignment; /* overlaps only partly */
            return p->bytes > graph->alignment;
        }
    }
    return false;
}
SPOIL(offset_misaligned)
{
    mp_place *p = some_place(plan, random, false);
    if (p) p->offset++;
    return p && graph->alignment > 1;
}
SPOIL(offset_negative)
{
    mp_place *p = some_place(plan, random, random_chance(random, 30));
    if (p) p->offset = -graph->alignment;
    return p != NULL;
}
static void remove_place(mp_plan *plan, mp_place *p)
{
    memmove(p, p + 1, (size_t)(plan->places + --plan->n_places - p) * sizeof *p);
}
SPOIL(offset_missing)
{
    (void)graph;
    mp_place *p = some_place(plan, random, false);
    if (p) remove_place(plan, p);
    return p && plan->n_places;
}
SPOIL(workspace_offset_missing)
{
    (void)graph;
    mp_place *p = some_place(plan, random, true);
    if (p) remove_place(plan, p);
    return p && plan->n_places;
}
SPOIL(offset_twice)
{
    (void)graph;
    mp_place *p = some_place(plan, random, random_chance(random, 30)), *q = some_place(plan, random, false);
    if (!p || !q || p == q) return false;
    mp_place *longer = mp_alloc(plan->n_places + 1, sizeof *longer);
    memcpy(longer, plan->places, plan->n_places * sizeof *longer);
    longer[plan->n_places] = *p;
    longer[plan->n_places].offset = plan->arena_bytes / graph->alignment * graph->alignment + graph->alignment;
    plan->n_places++;
    mp_free(plan->places);
    plan->places = longer;
    return true;
}
SPOIL(offset_of_wrong_last_step)
{
    (void)graph;
    mp_place *p = some_place(plan, random, random_chance(random, 30));
    if (p) p->end += random_chance(random, 50) ? 1 : -1;
    return p != NULL;
}
SPOIL(offset_of_wrong_first_step)
{
    (void)graph;
    mp_place *p = some_place(plan, random, false);
    if (!p || p->end - p->begin == 1) return false;
    p->begin++;
    for (size_t i = 0; i < plan->n_places; i++) /* it may overlap another instance of its storage */
        if (&plan->places[i] != p && plan->places[i].storage == p->storage) return false;
    return true;
}
SPOIL(offset_of_wrong_bytes)
{
    (void)graph;
    mp_place *p = some_place(plan, random, random_chance(random, 30));
    if (p) p->bytes--;
    return p != NULL;
}
SPOIL(offset_of_an_always_live_storage)
{
    (void)graph;
    mp_place *p = some_place(plan, random, false);
    if (p) p->storage = 0;
    return p != NULL;
}
SPOIL(offset_of_a_workspace_that_is_none)
{
    mp_place *p = some_place(plan, random, true);
    for (size_t t = 0; p && t < plan->n_steps; t++) {
        if (graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative].workspace_bytes) continue;
        p->begin = (int)t;
        p->end = (int)t + 1;
        return true;
    }
    return false;
}
const corruption corruptions_of_places[] = {
    {"over_budget_of_the_arena", over_budget_of_the_arena, "over its budget", false},
    {"over_budget_of_the_peak", over_budget_of_the_peak, "over its budget", false},
    {"arena_wrong", arena_wrong, "an arena_bytes", false},
    {"arena_without_offsets", arena_without_offsets, "without offsets", false},
    {"offsets_overlap", offsets_overlap, "overlap", false},
    {"workspace_overlaps", workspace_overlaps, "overlap", false},
    {"in_place_output_beside_its_input", in_place_output_beside_its_input, "overlap", false},
    {"offset_misaligned", offset_misaligned, "not a multiple", false},
    {"offset_negative", offset_negative, "not a multiple", false},
    {"offset_missing", offset_missing, "has no offset", false},
    {"workspace_offset_missing", workspace_offset_missing, "has no offset", false},
    {"offset_twice", offset_twice, "is listed twice", false},
    {"offset_of_wrong_last_step", offset_of_wrong_last_step, "claims that it ends", false},
    {"offset_of_wrong_first_step", offset_of_wrong_first_step, "claims that it begins", false},
    {"offset_of_wrong_bytes", offset_of_wrong_bytes, "bytes; it has", false},
    {"offset_of_an_always_live_storage", offset_of_an_always_live_storage, "belongs to no instance", false},
    {"offset_of_a_workspace_that_is_none", offset_of_a_workspace_that_is_none, "offset", false},
};
const size_t n_corruptions_of_places = sizeof corruptions_of_places / sizeof *corruptions_of_places;
