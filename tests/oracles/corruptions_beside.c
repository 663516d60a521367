/* corruptions_beside.c - plans with faults on the second stream. */
#include <string.h>

#include "tests/oracles/corruptions.h"

static const mp_alternative *taken(const mp_graph *graph, const mp_plan *plan, int t)
{
    return &graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative];
}

/* Returns a second-stream step that overlaps another step, at or after a random one (wrapping around); -1: none. */
static int some_beside(const mp_plan *plan, random_source *random)
{
    const int n = (int)plan->n_steps, from = random_below(random, n);
    for (int i = 0; i < n; i++)
        if (plan->steps[(from + i) % n].until > (from + i) % n + 1) return (from + i) % n;
    return -1;
}

SPOIL(waits_for_nothing)
{
    const int t = some_beside(plan, random);
    (void)graph;
    if (t >= 0) plan->steps[t].until = (int)plan->n_steps + 1;
    return t >= 0;
}
SPOIL(waits_before_it_is_issued)
{
    const int t = some_beside(plan, random);
    (void)graph;
    if (t > 0) plan->steps[t].until = t;
    return t > 0;
}
static bool put_beside(const mp_graph *graph, mp_plan *plan, mp_phase phase)
{
    for (int t = 0; t + 1 < (int)plan->n_steps; t++) {
        if (graph->nodes[plan->steps[t].node].phase != phase) continue;
        plan->steps[t].until = t + 2;
        return true;
    }
    return false;
}
SPOIL(forward_beside)
{
    return UNUSED, put_beside(graph, plan, MP_PHASE_FORWARD);
}
SPOIL(loss_beside)
{
    return UNUSED, put_beside(graph, plan, MP_PHASE_LOSS);
}
SPOIL(backward_beside)
{
    return UNUSED, put_beside(graph, plan, MP_PHASE_BACKWARD);
}

/* Returns whether one of `storages` is in the list. */
static bool meets(const int *storages, size_t n, const int *list, size_t n_list)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_list; k++)
            if (storages[i] == list[k]) return true;
    return false;
}
/* Moves a wait past a step that reads the parameter. */
SPOIL(waits_past_a_reader)
{
    const int t = some_beside(plan, random);
    for (int u = t < 0 ? (int)plan->n_steps : plan->steps[t].until; u < (int)plan->n_steps; u++) {
        const mp_alternative *other = taken(graph, plan, u), *update = taken(graph, plan, t);
        if (plan->steps[u].until || !meets(update->writes, update->n_writes, other->reads, other->n_reads)) continue;
        plan->steps[t].until = u + 1;
        return true;
    }
    return false;
}
/* Issues a step at its wait instead of earlier. */
SPOIL(issued_when_waited_for)
{
    const int t = some_beside(plan, random);
    if (t < 0 || graph->fuse == MP_FUSE_FORWARD || plan->steps[t].until == (int)plan->n_steps) return false;
    const mp_step step = plan->steps[t];
    drop_claims(plan);
    memmove(plan->steps + t, plan->steps + t + 1, (size_t)(step.until - t) * sizeof step);
    plan->steps[step.until] = step;
    return true;
}
/* Returns a step to in-order execution, but keeps the old offset of its workspace. */
SPOIL(place_for_a_wait_that_is_gone)
{
    const int t = some_beside(plan, random);
    mp_plan *in_order;
    if (t < 0 || !taken(graph, plan, t)->workspace_bytes) return false;
    plan->steps[t].until = 0;
    if (mp_plan_new(graph, "", plan->steps, plan->n_steps, &in_order, NULL) != MP_OK) return false;
    plan->peak_bytes = in_order->peak_bytes;
    mp_plan_free(in_order);
    mp_free(plan->frees_start);
    mp_free(plan->frees);
    plan->frees_start = plan->frees = NULL;
    return true;
}
/* Claims the peak of the same steps in order. */
SPOIL(peak_in_order)
{
    (void)random;
    mp_plan *in_order;
    const int64_t peak = plan->peak_bytes;
    mp_step *steps = mp_alloc(plan->n_steps, sizeof *steps);
    memcpy(steps, plan->steps, plan->n_steps * sizeof *steps);
    for (size_t t = 0; t < plan->n_steps; t++) steps[t].until = 0;
    if (mp_plan_new(graph, "", steps, plan->n_steps, &in_order, NULL) == MP_OK) plan->peak_bytes = in_order->peak_bytes;
    mp_plan_free(in_order);
    mp_free(steps);
    return plan->peak_bytes != peak;
}
/* Subtracts the time of an overlapping update, which the claimed time must include. */
SPOIL(seconds_without_what_is_hidden)
{
    const int t = some_beside(plan, random);
    if (t < 0 || !taken(graph, plan, t)->ticks) return false;
    plan->seconds -= (double)taken(graph, plan, t)->ticks * graph->tick_seconds;
    return plan->seconds >= 0;
}
/* Frees a storage at the issue of the overlapping update that is its last reader. */
SPOIL(freed_when_issued)
{
    const int t = some_beside(plan, random);
    if (t < 0) return false;
    const mp_alternative *update = taken(graph, plan, t);
    const int last = plan->steps[t].until - 1;
    for (int i = plan->frees_start[last]; i < plan->frees_start[last + 1]; i++) {
        const int s = plan->frees[i];
        if (!meets(&s, 1, update->reads, update->n_reads)) continue;
        for (int k = i; k > plan->frees_start[t + 1]; k--) plan->frees[k] = plan->frees[k - 1];
        plan->frees[plan->frees_start[t + 1]] = s;
        for (int u = t + 1; u <= last; u++) plan->frees_start[u]++;
        return true;
    }
    return false;
}
static mp_place *place_of(mp_plan *plan, int storage, int begin, int end)
{
    for (size_t i = 0; i < plan->n_places; i++) {
        mp_place *p = &plan->places[i];
        if (p->storage == storage && p->end == end && p->bytes && (begin < 0 || p->begin == begin)) return p;
    }
    return NULL;
}
/* Returns the place of a storage whose last reader is an overlapping update; NULL: none. */
static mp_place *place_read(const mp_graph *graph, mp_plan *plan, int t)
{
    const mp_alternative *update = taken(graph, plan, t);
    mp_place *p = NULL;
    for (size_t i = 0; i < update->n_reads && !p; i++) p = place_of(plan, update->reads[i], -1, plan->steps[t].until);
    return p;
}
SPOIL(place_ends_when_issued)
{
    const int t = some_beside(plan, random);
    mp_place *p = t < 0 ? NULL : place_read(graph, plan, t);
    if (p) p->end = t + 1;
    return p != NULL;
}
SPOIL(workspace_ends_when_issued)
{
    const int t = some_beside(plan, random);
    mp_place *p = t < 0 ? NULL : place_of(plan, -1, t, plan->steps[t].until);
    (void)graph;
    if (p) p->end = t + 1;
    return p != NULL;
}
/* Moves another place that begins during the update to the offset of p. */
static bool put_on(mp_plan *plan, const mp_place *p, int from, int end)
{
    for (size_t i = 0; p && i < plan->n_places; i++) {
        mp_place *q = &plan->places[i];
        if (q == p || !q->bytes || q->begin <= from || q->begin >= end) continue;
        q->offset = p->offset;
        return true;
    }
    return false;
}
SPOIL(workspace_used_beside)
{
    const int t = some_beside(plan, random);
    (void)graph;
    return t >= 0 && put_on(plan, place_of(plan, -1, t, plan->steps[t].until), t, plan->steps[t].until);
}
SPOIL(gradient_overwritten_beside)
{
    const int t = some_beside(plan, random);
    return t >= 0 && put_on(plan, place_read(graph, plan, t), t, plan->steps[t].until);
}

const corruption corruptions_beside[] = {
    {"waits_for_nothing", waits_for_nothing, "but no step waits for it", false},
    {"waits_before_it_is_issued", waits_before_it_is_issued, "which is not a later step", false},
    {"forward_beside", forward_beside, "is issued asynchronously, but it runs on the compute channel", false},
    {"loss_beside", loss_beside, "is issued asynchronously, but it runs on the compute channel", false},
    {"backward_beside", backward_beside, "is issued asynchronously, but it runs on the compute channel", false},
    {"waits_past_a_reader", waits_past_a_reader, "which an update changes concurrently; the wait is at step", false},
    {"issued_when_waited_for", issued_when_waited_for, "which is not a later step", false},
    {"place_for_a_wait_that_is_gone", place_for_a_wait_that_is_gone, "claims that it ends", false},
    {"peak_in_order", peak_in_order, "a peak_bytes", false},
    {"seconds_without_what_is_hidden", seconds_without_what_is_hidden, "seconds", false},
    {"freed_when_issued", freed_when_issued, "must not free", false},
    {"place_ends_when_issued", place_ends_when_issued, "claims that it ends", false},
    {"workspace_ends_when_issued", workspace_ends_when_issued, "claims that it ends", false},
    {"workspace_used_beside", workspace_used_beside, "overlap", false},
    {"gradient_overwritten_beside", gradient_overwritten_beside, "overlap", false},
};
const size_t n_corruptions_beside = sizeof corruptions_beside / sizeof *corruptions_beside;
