/* check.c - checks plans. It checks which nodes run and how often, and the order of updates. Then it replays the steps and
 * compares every claim of the plan with the replay. */
#include "memplan/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "estimator/graph/without_state_copies.h"
#include "planner/plan/check.h"

static mp_status check_runs(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    MP_OWNED size_t *runs = mp_alloc(graph->n_nodes, sizeof *runs);
    /* per node: number of its runs, copies back not included */
    MP_OWNED size_t *computed = mp_alloc(graph->n_nodes, sizeof *computed);
    /* per node: the alternative that its first run uses */
    MP_OWNED int *alternatives = mp_alloc(graph->n_nodes, sizeof *alternatives);
    MP_ENSURE(runs && computed && alternatives, err, MP_NOMEM, "no memory to check a plan");
    for (size_t t = 0; t < plan->n_steps; t++) {
        mp_step step = plan->steps[t];
        MP_ENSURE(step.node >= 0 && (size_t)step.node < graph->n_nodes, err, MP_REFUTED,
                  "step %zu runs node number %d, which does not exist", t, step.node);
        MP_ENSURE(step.alternative >= 0 && (size_t)step.alternative < graph->nodes[step.node].n_alternatives, err, MP_REFUTED,
                  "step %zu: %s has no alternative %d", t, mp_node_label(graph, step.node).text, step.alternative);
        bool again = runs[step.node]++ > 0;
        const bool returns = graph->nodes[step.node].alternatives[step.alternative].returns;
        computed[step.node] += !returns;
        MP_ENSURE(again || !returns, err, MP_REFUTED, "step %zu: %s returns a storage that it has not computed yet", t,
                  mp_node_label(graph, step.node).text);
        MP_ENSURE(!plan->recompute || plan->recompute[t] == again, err, MP_REFUTED,
                  "step %zu: run %zu of %s is marked %srecompute", t, runs[step.node], mp_node_label(graph, step.node).text,
                  again ? "as not a " : "as ");
        if (!again) alternatives[step.node] = step.alternative;
        const mp_alternative *taken = graph->nodes[step.node].alternatives;
        MP_ENSURE(
            step.alternative == alternatives[step.node] || returns || !mp_node_has_algorithms(&graph->nodes[step.node]), err,
            MP_REFUTED, "step %zu: %s runs with the algorithm '%s' after '%s'; all runs of a node need the same algorithm", t,
            mp_node_label(graph, step.node).text, taken[step.alternative].algorithm, taken[alternatives[step.node]].algorithm);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        const bool is_optional = node->flags & MP_NODE_OPTIONAL;
        const bool repeatable = node->phase == MP_PHASE_FORWARD && !(node->flags & MP_NODE_ONCE) && !is_optional;
        MP_ENSURE(runs[i] >= 1 || is_optional, err, MP_REFUTED, "%s never runs", mp_node_label(graph, (int)i).text);
        MP_ENSURE(computed[i] <= 1 || repeatable, err, MP_REFUTED, "%s runs %zu times, but %s once",
                  mp_node_label(graph, (int)i).text, computed[i], is_optional ? "may run at most" : "must run");
    }
    return MP_OK;
}

/* Checks that updates run where the graph's `fuse` requires. With MP_FUSE_NONE and MP_FUSE_BACKWARD, every read of a parameter
 * must precede its update. With MP_FUSE_FORWARD, every read must follow it. With MP_FUSE_NONE, all updates must also follow all
 * of backward. */
static mp_status check_updates(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    size_t last_backward = 0;
    MP_OWNED struct reading {
        /* first, last: 1 + the first step and 1 + the last step that read a parameter, without updates; 0: no step reads it */
        size_t first, last;
    } *readings = mp_alloc(graph->n_storages, sizeof *readings);
    MP_ENSURE(readings, err, MP_NOMEM, "no memory to check a plan");
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_node *node = &graph->nodes[plan->steps[t].node];
        const mp_alternative *alternative = &node->alternatives[plan->steps[t].alternative];
        if (node->phase == MP_PHASE_UPDATE) continue;
        if (node->phase != MP_PHASE_FORWARD) last_backward = t + 1;
        for (size_t i = 0; i < alternative->n_reads; i++) {
            struct reading *r = &readings[alternative->reads[i]];
            if (!r->first) r->first = t + 1;
            r->last = t + 1;
        }
    }
    for (size_t t = 0; t < plan->n_steps; t++) {
        int node = plan->steps[t].node;
        const mp_alternative *alternative = &graph->nodes[node].alternatives[plan->steps[t].alternative];
        if (graph->nodes[node].phase != MP_PHASE_UPDATE) continue;
        const bool brings_state = mp_copy_way_of(graph, node, plan->steps[t].alternative) == MP_COPY_IN;
        MP_ENSURE(graph->fuse != MP_FUSE_NONE || last_backward < t + 1 || brings_state, err, MP_REFUTED,
                  "step %zu: %s updates before the end of backward, but the graph has fuse none", t,
                  mp_node_label(graph, node).text);
        for (size_t i = 0; i < alternative->n_writes; i++) {
            int s = alternative->writes[i];
            const struct reading *r = &readings[s];
            if (graph->storages[s].kind != MP_KIND_PARAMETER || !r->first) continue;
            MP_ENSURE(graph->fuse == MP_FUSE_FORWARD || r->last < t + 1, err, MP_REFUTED,
                      "step %zu: %s updates %s, which step %zu still reads", t, mp_node_label(graph, node).text,
                      mp_storage_label(graph, s).text, r->last - 1);
            MP_ENSURE(graph->fuse != MP_FUSE_FORWARD || r->first > t + 1, err, MP_REFUTED,
                      "step %zu: %s updates %s, which step %zu has read before", t, mp_node_label(graph, node).text,
                      mp_storage_label(graph, s).text, r->first - 1);
        }
    }
    return MP_OK;
}

/* Checks that only steps on channels other than compute are issued, and that a later step or the end of the plan waits for each
 * issued step. */
static mp_status check_waits(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_step step = plan->steps[t];
        const int channel = graph->nodes[step.node].alternatives[step.alternative].channel;
        if (!step.until) continue;
        MP_ENSURE(channel != MP_CHANNEL_COMPUTE, err, MP_REFUTED,
                  "step %zu: %s is issued asynchronously, but it runs on the compute channel", t,
                  mp_node_label(graph, step.node).text);
        MP_ENSURE(step.until > (int)t, err, MP_REFUTED, "step %zu: %s runs on the %s until step %d, which is not a later step",
                  t, mp_node_label(graph, step.node).text, graph->channels[channel], step.until);
        MP_ENSURE(step.until <= (int)plan->n_steps, err, MP_REFUTED,
                  "step %zu: %s runs on the %s, but no step waits for it: there are only %zu steps", t,
                  mp_node_label(graph, step.node).text, graph->channels[channel], plan->n_steps);
    }
    return MP_OK;
}

/* Returns the first step after step t that reads storage s or adds to it; -1: none. */
static int next_user(const mp_replay *replay, int t, int s)
{
    for (int u = t + 1; u < (int)replay->n_steps; u++) {
        const mp_alternative *x = replay->alternatives[u];
        for (size_t k = 0; k < x->n_reads; k++)
            if (x->reads[k] == s) return u;
        for (size_t k = 0; k < x->n_adds; k++)
            if (x->adds[k] == s) return u;
    }
    return -1;
}

static mp_status refute_missing_free(const mp_graph *graph, const mp_replay *replay, int instance, mp_error *err)
{
    const mp_instance *x = &replay->instances[instance];
    if (x->end == x->begin + 1)
        return MP_FAIL(err, MP_REFUTED,
                       "step %d does not free %s, which it produces and no step reads before the next production", x->begin,
                       mp_storage_label(graph, x->storage).text);
    return MP_FAIL(err, MP_REFUTED, "step %d does not free %s, which ends in this step", x->end - 1,
                   mp_storage_label(graph, x->storage).text);
}

/* Fails with the reason why the plan must not free storage s in step t. Either a later step needs the storage, usually because
 * a recomputation is missing, or the storage has ended before t. `next`: the first instance of s that the plan has not freed
 * yet. */
static mp_status refute_free(const mp_graph *graph, const mp_plan *plan, const mp_replay *replay, int next, int t, int s,
                             mp_error *err)
{
    const mp_instance *at = NULL;
    const int user = next_user(replay, t, s);
    if (next < replay->start[s + 1] && replay->instances[next].end <= t) return refute_missing_free(graph, replay, next, err);
    for (int k = replay->start[s]; k < replay->start[s + 1] && replay->instances[k].begin <= t; k++) at = &replay->instances[k];
    if (at && user >= 0 && user < at->end)
        return MP_FAIL(err, MP_REFUTED, "step %d must not free %s: step %d, %s, reads it without a recomputation in between", t,
                       mp_storage_label(graph, s).text, user, mp_node_label(graph, plan->steps[user].node).text);
    if (at && at->end <= t)
        return MP_FAIL(err, MP_REFUTED, "step %d must not free %s: its last use is in step %d", t,
                       mp_storage_label(graph, s).text, at->end - 1);
    return MP_FAIL(err, MP_REFUTED, "step %d must not free %s: it does not end in this step", t,
                   mp_storage_label(graph, s).text);
}

static mp_status check_frees(const mp_graph *graph, const mp_plan *plan, const mp_replay *replay, mp_error *err)
{
    MP_OWNED int *next = NULL; /* per storage: its first instance that the plan has not freed yet */
    if (!plan->frees_start) return MP_OK;
    MP_ENSURE(next = mp_alloc(graph->n_storages, sizeof *next), err, MP_NOMEM, "no memory to check a plan");
    for (size_t s = 0; s < graph->n_storages; s++) next[s] = replay->start[s];
    for (int t = 0; t < (int)plan->n_steps; t++) {
        for (int i = plan->frees_start[t]; i < plan->frees_start[t + 1]; i++) {
            int s = plan->frees[i];
            MP_ENSURE(s >= 0 && s < (int)graph->n_storages, err, MP_REFUTED,
                      "step %d frees storage number %d, which does not exist", t, s);
            /* the plan lists frees by step, and the instances of a storage are sorted by step too, so one index per storage is
             * enough */
            if (next[s] == replay->start[s + 1] || replay->instances[next[s]].end != t + 1)
                MP_CHECK(refute_free(graph, plan, replay, next[s], t, s, err));
            next[s]++;
        }
    }
    for (int s = 0; s < (int)graph->n_storages; s++)
        if (next[s] < replay->start[s + 1]) MP_CHECK(refute_missing_free(graph, replay, next[s], err));
    return MP_OK;
}

/* Checks that the plan's list of checkpoints, if there is one, is complete and correct. A plan file names checkpoints, and
 * several storages may have the same name. So a name may occur at most as often as there are storages with it. */
static mp_status check_checkpoints(const mp_graph *graph, const mp_plan *plan, const mp_replay *replay, mp_error *err)
{
    MP_OWNED_BY(mp_names_free)
    /* maps the name of a checkpoint to one of the storages with this name, which represents the others */
    mp_names *names = mp_names_new();
    MP_OWNED struct {
        /* found: number of checkpoints with the name of the representing storage in the replay. listed: number of occurrences
         * of this name in the plan's list */
        int found, listed;
    } *counts = mp_alloc(graph->n_storages, sizeof *counts);
    if (!plan->n_checkpoints) return MP_OK;
    MP_ENSURE(counts && names, err, MP_NOMEM, "no memory to check a plan");
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const char *name = graph->storages[s].name;
        if (!replay->checkpoint[s]) continue;
        if (name[0] && mp_names_find(names, name) < 0)
            MP_ENSURE(mp_names_set(names, name, s), err, MP_NOMEM, "no memory to check a plan");
        counts[name[0] ? mp_names_find(names, name) : s].found++;
    }
    for (size_t i = 0; i < plan->n_checkpoints; i++) {
        const int s = plan->checkpoints[i];
        MP_ENSURE(s >= 0 && s < (int)graph->n_storages, err, MP_REFUTED, "checkpoint %zu is not a storage of the graph", i);
        const char *name = graph->storages[s].name;
        const int which = name[0] ? mp_names_find(names, name) : s;
        MP_ENSURE(which >= 0 && counts[which].found, err, MP_REFUTED,
                  "%s is listed as a checkpoint, but no backward node reads its first production",
                  mp_storage_label(graph, s).text);
        MP_ENSURE(counts[which].listed++ < counts[which].found, err, MP_REFUTED, "%s is listed as a checkpoint twice",
                  mp_storage_label(graph, s).text);
    }
    for (int s = 0; s < (int)graph->n_storages; s++)
        MP_ENSURE(!counts[s].found || counts[s].listed, err, MP_REFUTED,
                  "%s is kept from forward to backward, but the list of checkpoints lacks it", mp_storage_label(graph, s).text);
    return MP_OK;
}

static mp_status check_bytes(const char *what, int64_t found, int64_t claimed, mp_error *err)
{
    if (found == claimed) return MP_OK;
    return MP_FAIL(err, MP_REFUTED, "the plan claims %s of %lld; found %lld", what, (long long)claimed, (long long)found);
}

static mp_status check_seconds(const char *what, double found, double claimed, mp_error *err)
{
    if (fabs(found - claimed) <= 1e-9 * fabs(found)) return MP_OK;
    return MP_FAIL(err, MP_REFUTED, "the plan claims %s of %.17g; found %.17g", what, claimed, found);
}

/* Checks the plan's claim about the seconds of keep-all. If the graph keeps optimizer state in another tier, these are the
 * seconds without the copies of state. */
static mp_status check_baseline_seconds(const mp_graph *graph, int64_t ticks, const mp_plan *plan, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    MP_OWNED_BY(mp_replay_free) mp_replay *replay = NULL;
    MP_OWNED mp_step *steps = NULL;
    if (mp_graph_n_state_copies(graph)) {
        MP_CHECK(mp_graph_without_state_copies(graph, &without_state, err));
        MP_ENSURE(steps = mp_alloc(without_state->n_nodes, sizeof *steps), err, MP_NOMEM, "no memory to check a plan");
        MP_CHECK(mp_replay_new(without_state, steps, mp_keep_all(without_state, steps), &replay, err));
        ticks = replay->ticks;
    }
    return check_seconds("baseline_seconds", (double)ticks * graph->tick_seconds, plan->baseline_seconds, err);
}

static mp_status check_baseline(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    MP_OWNED_BY(mp_replay_free) mp_replay *replay = NULL;
    MP_OWNED mp_step *steps = NULL;
    if (plan->baseline_peak_bytes < 0 && plan->baseline_seconds < 0) return MP_OK;
    MP_ENSURE(steps = mp_alloc(graph->n_nodes, sizeof *steps), err, MP_NOMEM, "no memory to check a plan");
    MP_CHECK(mp_replay_new(graph, steps, mp_keep_all(graph, steps), &replay, err));
    if (plan->baseline_peak_bytes >= 0)
        MP_CHECK(check_bytes("a baseline_peak_bytes", replay->peak_bytes, plan->baseline_peak_bytes, err));
    return plan->baseline_seconds >= 0 ? check_baseline_seconds(graph, replay->ticks, plan, err) : MP_OK;
}

/* Checks the offsets in a tier other than the device. Computes the bytes that the plan needs in the tier: static storages and
 * arena, rounded up to blocks of the tier's alignment. */
static mp_status check_tier_places(const mp_graph *graph, const mp_plan *plan, int tier, const mp_replay *replay,
                                   int64_t *needed_bytes, mp_error *err)
{
    char what[96];
    int64_t arena_bytes;
    const int64_t block = graph->tier_alignment[tier] ? graph->tier_alignment[tier] : graph->alignment;
    snprintf(what, sizeof what, "an arena_bytes of tier '%.60s'", graph->tiers[tier]);
    MP_CHECK(mp_check_places(graph, plan, tier, replay, &arena_bytes, err));
    MP_ENSURE(arena_bytes <= INT64_MAX / 2 && block <= INT64_MAX / 4, err, MP_REFUTED, "%s is larger than can be counted",
              what);
    *needed_bytes = (arena_bytes + block - 1) / block * block;
    MP_CHECK(check_bytes(what, *needed_bytes, plan->tiers[tier].arena_bytes, err));
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].tier == tier && mp_storage_is_static(&graph->storages[s]))
            MP_ENSURE(mp_add(*needed_bytes, (graph->storages[s].bytes + block - 1) / block * block, needed_bytes), err,
                      MP_REFUTED, "%s is larger than can be counted", what);
    return MP_OK;
}

/* Checks the plan's claims about tiers other than the device, and that the plan fits their budgets. */
static mp_status check_tiers(const mp_graph *graph, const mp_plan *plan, const mp_replay *replay, mp_error *err)
{
    for (size_t m = 1; m < graph->n_tiers; m++) {
        const mp_tier_claim *claim = &plan->tiers[m];
        char what[96];
        snprintf(what, sizeof what, "a peak_bytes of tier '%.60s'", graph->tiers[m]);
        if (claim->peak_bytes >= 0) MP_CHECK(check_bytes(what, replay->tiers[m].peak_bytes, claim->peak_bytes, err));
        snprintf(what, sizeof what, "a static_bytes of tier '%.60s'", graph->tiers[m]);
        if (claim->static_bytes >= 0) MP_CHECK(check_bytes(what, replay->tiers[m].static_bytes, claim->static_bytes, err));
        int64_t needed_bytes = replay->tiers[m].peak_bytes;
        if (claim->n_places || claim->arena_bytes >= 0)
            MP_CHECK(check_tier_places(graph, plan, (int)m, replay, &needed_bytes, err));
        MP_ENSURE(needed_bytes <= claim->budget_bytes, err, MP_REFUTED,
                  "the plan needs %lld bytes of tier '%s', over its budget of %lld", (long long)needed_bytes, graph->tiers[m],
                  (long long)claim->budget_bytes);
    }
    return MP_OK;
}

static mp_status check_claims(const mp_graph *graph, const mp_plan *plan, const mp_replay *replay, mp_error *err)
{
    int64_t arena_bytes = -1, needed_bytes = replay->peak_bytes;
    double seconds = (double)replay->ticks * graph->tick_seconds;
    MP_CHECK(check_frees(graph, plan, replay, err));
    MP_CHECK(check_bytes("a peak_bytes", replay->peak_bytes, plan->peak_bytes, err));
    if (plan->static_bytes >= 0) MP_CHECK(check_bytes("a static_bytes", replay->static_bytes, plan->static_bytes, err));
    MP_CHECK(check_tiers(graph, plan, replay, err));
    MP_CHECK(check_seconds("seconds", seconds, plan->seconds, err));
    MP_ENSURE(plan->ticks == replay->ticks, err, MP_REFUTED, "the plan claims %lld ticks; found %lld", (long long)plan->ticks,
              (long long)replay->ticks);
    MP_CHECK(check_checkpoints(graph, plan, replay, err));
    MP_CHECK(check_baseline(graph, plan, err));
    MP_ENSURE(plan->floor_bytes <= replay->peak_bytes, err, MP_REFUTED,
              "the plan claims that no plan needs less than %lld bytes, but it needs %lld itself", (long long)plan->floor_bytes,
              (long long)replay->peak_bytes);
    MP_ENSURE(!(plan->lower_bound_seconds > seconds * (1 + 1e-9)), err, MP_REFUTED,
              "the plan claims that no plan takes less than %.17g seconds, but it takes %.17g itself",
              plan->lower_bound_seconds, seconds);
    if (plan->n_places) {
        MP_CHECK(mp_check_places(graph, plan, MP_TIER_DEVICE, replay, &arena_bytes, err));
        if (plan->arena_bytes >= 0) MP_CHECK(check_bytes("an arena_bytes", arena_bytes, plan->arena_bytes, err));
        MP_ENSURE(mp_add(replay->static_bytes, arena_bytes, &needed_bytes), err, MP_REFUTED,
                  "the plan's offsets are larger than can be counted");
    } else {
        MP_ENSURE(plan->arena_bytes <= 0, err, MP_REFUTED, "the plan claims an arena_bytes of %lld without offsets",
                  (long long)plan->arena_bytes);
    }
    MP_ENSURE(needed_bytes <= plan->budget_bytes, err, MP_REFUTED, "the plan needs %lld bytes, over its budget of %lld",
              (long long)needed_bytes, (long long)plan->budget_bytes);
    return MP_OK;
}

mp_status mp_plan_check(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    MP_OWNED_BY(mp_replay_free) mp_replay *replay = NULL;
    MP_ENSURE(!plan->graph_hash[0] || !strcmp(plan->graph_hash, graph->hash), err, MP_INVALID,
              "the plan is for the graph '%s' with hash %s, but this is '%s' with hash %s",
              plan->graph_name ? plan->graph_name : "", plan->graph_hash, graph->name, graph->hash);
    MP_ENSURE(plan->n_steps < INT32_MAX, err, MP_REFUTED, "the plan's %zu steps are too many", plan->n_steps);
    MP_CHECK(check_runs(graph, plan, err));
    MP_CHECK(check_updates(graph, plan, err));
    MP_CHECK(check_waits(graph, plan, err));
    MP_CHECK(mp_replay_new(graph, plan->steps, plan->n_steps, &replay, err));
    return check_claims(graph, plan, replay, err);
}
