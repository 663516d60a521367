/* plan.c - converts an order of steps to a plan, and computes all claims of the plan. */
#include "memplan/plan.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/without_state_copies.h"

int64_t mp_plan_live_bytes(const mp_plan *plan)
{
    return plan->peak_bytes - plan->static_bytes;
}

char *mp_plan_text(const char *text)
{
    size_t length = strlen(text);
    char *copy = mp_alloc(length + 1, 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

void mp_plan_free(mp_plan *plan)
{
    if (!plan) return;
    mp_free(plan->graph_name);
    mp_free(plan->options);
    mp_free(plan->solver);
    mp_free(plan->bound_covers);
    mp_free(plan->checkpoints);
    mp_free(plan->steps);
    mp_free(plan->recompute);
    mp_free(plan->frees_start);
    mp_free(plan->frees);
    mp_free(plan->places);
    for (int m = 1; m < MP_MAX_TIERS; m++) mp_free(plan->tiers[m].places);
    mp_free(plan);
}

/* True if a storage can be a checkpoint. A gradient carried in from the previous training step cannot, because it is not
 * produced before its first use. A storage saved for backward only (a mask, statistics) cannot either, because the user has no
 * name for it. */
static bool may_be_checkpoint(const mp_storage *storage)
{
    return !mp_storage_outlives_step(storage) && storage->kind != MP_KIND_SAVED;
}

mp_status mp_plan_checkpoints(const mp_graph *graph, const mp_step *steps, size_t n, int *storages, size_t *n_out,
                              mp_error *err)
{
    struct seen { /* per storage, from the steps visited so far: the number of its forward productions, and whether backward
                     reads the first of them */
        int productions, first;
        bool kept;
    } *seen = mp_alloc(graph->n_storages, sizeof *seen);
    if (!seen) return MP_FAIL(err, MP_NOMEM, "no memory for the checkpoints of %zu steps", n);
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const mp_alternative *alternative = &node->alternatives[steps[t].alternative];
        if (node->phase == MP_PHASE_BACKWARD)
            for (size_t i = 0; i < alternative->n_reads; i++)
                if (seen[alternative->reads[i]].productions == 1) seen[alternative->reads[i]].kept = true;
        if (node->phase == MP_PHASE_FORWARD)
            for (size_t i = 0; i < alternative->n_writes; i++)
                if (may_be_checkpoint(&graph->storages[alternative->writes[i]])) seen[alternative->writes[i]].productions++;
    }
    /* this second pass over the steps lists the checkpoints in the order in which they are produced */
    size_t n_found = 0;
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        for (size_t i = 0; i < alternative->n_writes; i++) {
            struct seen *s = &seen[alternative->writes[i]];
            if (s->kept) storages[n_found++] = alternative->writes[i];
            s->kept = false;
        }
    }
    *n_out = n_found;
    mp_free(seen);
    return MP_OK;
}

/* Sets the plan's claims about recomputations and freed storages, from the timeline. */
static mp_status claim_steps(mp_plan *plan, const mp_graph *graph, const mp_timeline *timeline, mp_error *err)
{
    MP_OWNED bool *ran = NULL;
    MP_ENSURE(ran = mp_alloc(graph->n_nodes, sizeof *ran), err, MP_NOMEM, "no memory for a plan of %zu steps", plan->n_steps);
    MP_ENSURE(plan->recompute = mp_alloc(plan->n_steps, sizeof *plan->recompute), err, MP_NOMEM,
              "no memory for a plan of %zu steps", plan->n_steps);
    MP_ENSURE(plan->frees_start = mp_alloc(plan->n_steps + 2, sizeof *plan->frees_start), err, MP_NOMEM,
              "no memory for a plan of %zu steps", plan->n_steps);
    MP_ENSURE(plan->frees = mp_alloc(timeline->n_spans, sizeof *plan->frees), err, MP_NOMEM,
              "no memory for a plan of %zu steps", plan->n_steps);
    for (size_t t = 0; t < plan->n_steps; t++) {
        plan->recompute[t] = ran[plan->steps[t].node];
        ran[plan->steps[t].node] = true;
    }
    int *start = plan->frees_start; /* while the lists are written, start[t + 1] is the next free index for step t */
    for (size_t k = 0; k < timeline->n_spans; k++) start[timeline->spans[k].end + 1]++;
    for (size_t t = 0; t < plan->n_steps; t++) start[t + 2] += start[t + 1];
    for (size_t k = 0; k < timeline->n_spans; k++) plan->frees[start[timeline->spans[k].end]++] = timeline->spans[k].storage;
    return MP_OK;
}

static mp_status claim_baseline(mp_plan *plan, const mp_graph *graph, mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "no memory for the baseline of '%s'", graph->name);
    MP_CHECK(mp_timeline_build(graph, steps, mp_keep_all(graph, steps), &timeline, err));
    plan->baseline_peak_bytes = timeline->peak_bytes;
    plan->baseline_ticks = timeline->ticks;
    if (mp_graph_n_state_copies(graph)) MP_CHECK(mp_keep_all_ticks(graph, &plan->baseline_ticks, err));
    plan->baseline_seconds = (double)plan->baseline_ticks * graph->tick_seconds;
    return MP_OK;
}

mp_status mp_plan_new(const mp_graph *graph, const char *solver, const mp_step *steps, size_t n, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
    MP_ENSURE(plan = mp_alloc(1, sizeof *plan), err, MP_NOMEM, "no memory for a plan of %zu steps", n);
    MP_ENSURE((plan->graph_name = mp_plan_text(graph->name)) && (plan->options = mp_plan_text(graph->options)) &&
                  (plan->solver = mp_plan_text(solver)) && (plan->bound_covers = mp_plan_text("")),
              err, MP_NOMEM, "no memory for a plan of %zu steps", n);
    MP_ENSURE(plan->steps = mp_alloc(n, sizeof *plan->steps), err, MP_NOMEM, "no memory for a plan of %zu steps", n);
    MP_ENSURE(plan->checkpoints = mp_alloc(graph->n_storages, sizeof *plan->checkpoints), err, MP_NOMEM,
              "no memory for a plan of %zu steps", n);
    memcpy(plan->graph_hash, graph->hash, sizeof plan->graph_hash);
    if (n) memcpy(plan->steps, steps, n * sizeof *steps);
    plan->n_steps = n;
    plan->budget_bytes = MP_NO_LIMIT;
    plan->arena_bytes = plan->floor_bytes = -1;
    plan->lower_bound_seconds = -1;
    plan->static_bytes = timeline->static_bytes;
    plan->peak_bytes = timeline->peak_bytes;
    for (size_t m = 1; m < graph->n_tiers; m++)
        plan->tiers[m] =
            (mp_tier_claim){MP_NO_LIMIT, timeline->tiers[m].static_bytes, timeline->tiers[m].peak_bytes, -1, 0, NULL};
    plan->ticks = timeline->ticks;
    plan->seconds = (double)timeline->ticks * graph->tick_seconds;
    MP_CHECK(claim_steps(plan, graph, timeline, err));
    MP_CHECK(claim_baseline(plan, graph, err));
    MP_CHECK(mp_plan_checkpoints(graph, steps, n, plan->checkpoints, &plan->n_checkpoints, err));
    *out = plan;
    plan = NULL;
    return MP_OK;
}

mp_status mp_fates(const mp_graph *graph, const mp_step *steps, size_t n, mp_fate *fates, mp_error *err)
{
    /* per storage: how often it was produced up to the present step */
    MP_OWNED size_t *productions = mp_alloc(graph->n_storages, sizeof *productions);
    if (!productions) return MP_FAIL(err, MP_NOMEM, "no memory for the fates of %zu storages", graph->n_storages);
    for (size_t s = 0; s < graph->n_storages; s++) fates[s] = MP_FATE_NONE;
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const mp_alternative *alternative = &node->alternatives[steps[t].alternative];
        if (node->phase == MP_PHASE_BACKWARD)
            for (size_t i = 0; i < alternative->n_reads; i++)
                if (productions[alternative->reads[i]] == 1) fates[alternative->reads[i]] = MP_FATE_KEPT;
        if (node->phase != MP_PHASE_FORWARD && node->phase != MP_PHASE_LOSS) continue;
        for (size_t i = 0; i < alternative->n_writes; i++) {
            const int s = alternative->writes[i];
            if (mp_storage_is_static(&graph->storages[s]) || graph->storages[s].tier != MP_TIER_DEVICE) continue;
            productions[s]++;
            if (fates[s] == MP_FATE_NONE) fates[s] = MP_FATE_FORWARD_ONLY;
            if (productions[s] > 1 && fates[s] == MP_FATE_FORWARD_ONLY) fates[s] = MP_FATE_RECOMPUTED;
            if (alternative->returns && fates[s] == MP_FATE_RECOMPUTED) fates[s] = MP_FATE_COPIED;
        }
    }
    return MP_OK;
}

mp_status mp_plan_fate_bytes(const mp_graph *graph, const mp_plan *plan, int64_t bytes[MP_N_KINDS][MP_N_FATES], mp_error *err)
{
    MP_OWNED mp_fate *fates = mp_alloc(graph->n_storages, sizeof *fates);
    MP_ENSURE(fates, err, MP_NOMEM, "the fates of %zu storages", graph->n_storages);
    MP_CHECK(mp_fates(graph, plan->steps, plan->n_steps, fates, err));
    memset(bytes, 0, MP_N_KINDS * sizeof *bytes);
    for (size_t s = 0; s < graph->n_storages; s++) bytes[graph->storages[s].kind][fates[s]] += graph->storages[s].bytes;
    return MP_OK;
}

int64_t mp_plan_need(const mp_plan *plan)
{
    return plan->arena_bytes < 0 ? plan->peak_bytes : plan->static_bytes + plan->arena_bytes;
}

int64_t mp_plan_tier_need(const mp_graph *graph, const mp_plan *plan, int tier)
{
    const mp_tier_claim *claim = &plan->tiers[tier];
    const int64_t alignment = mp_graph_tier_alignment(graph, tier);
    int64_t need = claim->arena_bytes, bytes;
    if (need < 0) return claim->peak_bytes;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].tier == tier && mp_storage_is_static(&graph->storages[s]) &&
            !(mp_round_up(graph->storages[s].bytes, alignment, &bytes) && mp_add(need, bytes, &need)))
            return INT64_MAX;
    return need;
}
