/* offload.c - rules that choose which tensors are offloaded and which are recomputed. Three rules are published; the fourth,
 * pooled-memory, is our own. Their plans serve as baselines and as starting points. A rule decides about tensors only.
 * choices.h turns the choices of every rule into a plan in the same way. The timeline judges each choice (trials.h). A choice
 * is kept only if it lowers the bytes over the budget. The publications use estimates instead of a timeline. So memplan's
 * versions of the rules find better plans. */
#include "planner/search/searchers.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/graph/without_copies.h"
#include "planner/math/tuning.h"
#include "planner/offload/trials.h"
#include "planner/order/variant.h"
#include "planner/search/search.h"

typedef mp_trials rule;
typedef mp_trial_candidate candidate;

/* Returns the ticks of a node's base alternative. */
static int64_t ticks_of(const rule *x, int node)
{
    return x->graph->nodes[node].alternatives[0].ticks;
}

/* True while the rule may try another choice: the search is not stopped, and the rule has moves left. */
static bool goes_on(const rule *x)
{
    return x->n_tries < MP_OFFLOAD_WORK / (int64_t)x->graph->n_nodes && !mp_search_stopped(x->search);
}

/* Tries the choice `wanted` for storage s. Keeps it if the plan takes at most `most_ticks`, and its bytes over the budget are
 * zero or have fallen. */
static mp_status attempt(rule *x, int s, mp_choice wanted, int64_t most_ticks, mp_error *err)
{
    const mp_choice before = x->choices.of[s];
    int64_t ticks, over;
    if (!goes_on(x)) return MP_OK;
    x->choices.of[s] = wanted;
    MP_CHECK(mp_trials_judge(x, &ticks, &over, err));
    if (ticks > most_ticks || (over > 0 && over >= x->over)) {
        x->choices.of[s] = before;
        return MP_OK;
    }
    x->ticks = ticks;
    x->over = over;
    return MP_OK;
}

/* ---- the rules ---- */

static int by_rank(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank) - (x->rank > y->rank)
                              : (x->storage > y->storage) - (x->storage < y->storage);
}

/* Sorts the candidates by rank_of, the largest first. */
static void rank(rule *x, double (*rank_of)(const rule *x, int s))
{
    for (size_t k = 0; k < x->n_candidates; k++) x->candidates[k].rank = rank_of(x, x->candidates[k].storage);
    qsort(x->candidates, x->n_candidates, sizeof *x->candidates, by_rank);
}

static double bytes_of(const rule *x, int s)
{
    return (double)x->graph->storages[s].bytes;
}

static double ticks_per_byte(const rule *x, int s)
{
    return (double)ticks_of(x, x->graph->producer[s]) / bytes_of(x, s);
}

/* Returns the ticks between the last use of a storage in forward and its first use in backward, less the ticks of copying it
 * out and back. */
static double free_ticks(const rule *x, int s)
{
    if (!mp_choices_may_copy(&x->choices, s)) return -1;
    const mp_way *way = mp_choices_way(&x->choices, s);
    const int64_t copying = ticks_of(x, way->out) + x->graph->nodes[way->node].alternatives[way->alternative].ticks;
    return (double)(x->choices.begins[x->choices.life[s].late] - x->choices.begins[x->choices.life[s].early + 1] - copying);
}

/* Offloads candidates (activations) in the order of their rank, until compute has to wait for a copy. */
static mp_status copy_hidden(rule *x, mp_error *err)
{
    for (size_t k = 0; k < x->n_candidates && x->over > 0; k++)
        if (mp_choices_may_copy(&x->choices, x->candidates[k].storage))
            MP_CHECK(attempt(x, x->candidates[k].storage, MP_CHOICE_COPIED, x->ticks, err));
    return MP_OK;
}

/* First offloads storages with the most recomputation ticks per byte, as long as compute hides the copies. Then recomputes
 * storages with the fewest recomputation ticks per byte, until the plan fits. */
static mp_status choose_greedily(rule *x, mp_error *err)
{
    rank(x, ticks_per_byte);
    MP_CHECK(copy_hidden(x, err));
    /* a choice that was rejected may lower the excess after other choices have freed memory, so all candidates are tried
     * again */
    for (int64_t before = INT64_MAX; x->over < before;) {
        before = x->over;
        for (size_t k = x->n_candidates; k-- > 0 && x->over > 0;) {
            const int s = x->candidates[k].storage;
            if (x->choices.of[s] == MP_CHOICE_KEPT && mp_trials_may_rerun(x, s))
                MP_CHECK(attempt(x, s, MP_CHOICE_RECOMPUTED, INT64_MAX, err));
        }
    }
    return MP_OK;
}

static double readers_first(const rule *x, int s)
{
    return -x->choices.life[s].late;
}

/* Considers the copies back for which a step waits. Moves them to an earlier place, in the order of their readers, as long as
 * the plan fits. */
static mp_status bring_ahead(rule *x, mp_error *err)
{
    rank(x, readers_first);
    for (size_t k = 0; k < x->n_candidates && !x->over; k++)
        if (x->choices.of[x->candidates[k].storage] == MP_CHOICE_WAITED_FOR)
            MP_CHECK(attempt(x, x->candidates[k].storage, MP_CHOICE_AHEAD, x->ticks, err));
    return MP_OK;
}

static bool is_offloaded(mp_choice choice)
{
    return choice != MP_CHOICE_KEPT && choice != MP_CHOICE_RECOMPUTED;
}

/* Returns the tier that a storage is copied to. Precondition: mp_choices_may_copy is true. */
static int tier_of(const rule *x, int s)
{
    return x->graph->storages[x->graph->nodes[mp_choices_way(&x->choices, s)->out].alternatives->writes[0]].tier;
}

/* Returns the bytes of a tier that copies of activations may occupy; INT64_MAX: no limit. */
static int64_t room_in(const rule *x, int tier)
{
    const int64_t limit = mp_search_request(x->search)->tier_bytes[tier];
    return limit ? limit - mp_graph_static_bytes_in(x->graph, tier) : INT64_MAX;
}

/* Changes the choice of kept candidates to `copied`, the largest first, as long as their tier has room for them. A candidate
 * that runs again stays kept. Preconditions: the candidates are ranked by bytes_of, and an order has been built since the
 * schedule was set. */
static void offload_kept(rule *x, mp_choice copied)
{
    int64_t room[MP_MAX_TIERS];
    for (int m = 0; m < MP_MAX_TIERS; m++) room[m] = room_in(x, m);
    for (size_t k = 0; k < x->n_candidates; k++) {
        const int s = x->candidates[k].storage;
        if (x->choices.of[s] != MP_CHOICE_KEPT || x->choices.reruns[x->graph->producer[s]] ||
            !mp_choices_may_copy(&x->choices, s))
            continue;
        const int tier = tier_of(x, s);
        if (x->graph->storages[s].bytes > room[tier]) continue;
        room[tier] -= x->graph->storages[s].bytes;
        x->choices.of[s] = copied;
    }
}

/* Keeps offloaded candidates on the device again, the largest first, as long as the plan fits. */
static mp_status keep_again(rule *x, mp_error *err)
{
    for (size_t k = 0; k < x->n_candidates && !x->over; k++)
        if (is_offloaded(x->choices.of[x->candidates[k].storage]))
            MP_CHECK(attempt(x, x->candidates[k].storage, MP_CHOICE_KEPT, INT64_MAX, err));
    return bring_ahead(x, err);
}

static mp_status choose_largest(rule *x, mp_error *err)
{
    rank(x, bytes_of);
    offload_kept(x, MP_CHOICE_WAITED_FOR);
    MP_CHECK(mp_trials_judge(x, &x->ticks, &x->over, err));
    return keep_again(x, err);
}

/* Returns the remaining seconds of the rule pooled-memory; 0: no limit; negative: no time is left. The rule ends when a quarter
 * of the search's time limit has passed. */
static double pooled_seconds(const rule *x)
{
    static const double SHARE = 0.25;
    const double limit = mp_search_request(x->search)->time_limit, left = SHARE - mp_search_elapsed(x->search);
    return limit <= 0 ? 0 : left <= 0 ? -1 : left * limit;
}

/* The progress function of the inner search that plans recomputation. Stops the inner search if the outer search is stopped. */
static bool goes_on_within(const mp_progress *progress, void *search)
{
    (void)progress;
    return !mp_search_stopped(search);
}

/* Runs the searcher lagrange. On large graphs it starts from a plan of halved segments. */
static mp_status run_lagrange(mp_search *search, mp_error *err)
{
    if (mp_search_request(search)->graph->n_nodes > MP_LARGE_GRAPH_NODES) MP_CHECK(mp_run_lagrange_first(search, err));
    return mp_run_lagrange(search, err);
}

/* Finds a plan without copies for a device with `budget_bytes`. On this device, storages that the choices offload need no
 * memory. The compute steps of x->choices then follow this plan. If no plan is found, *found is false. `without_copies` is the
 * graph without its copies; this function changes only the bytes of its storages. */
static mp_status plan_recomputation(rule *x, const mp_without_copies *without_copies, int64_t budget_bytes, bool *found,
                                    mp_error *err)
{
    mp_request asked = *mp_search_request(x->search);
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    for (size_t s = 0; s < x->graph->n_storages; s++) {
        const mp_storage *whole = &x->graph->storages[s];
        const bool is_away = whole->tier != MP_TIER_DEVICE || is_offloaded(x->choices.of[s]);
        without_copies->graph->storages[s].bytes = is_away ? 0 : whole->bytes;
        without_copies->graph->storages[s].payload_bytes = is_away ? 0 : whole->payload_bytes;
    }
    asked.graph = without_copies->graph;
    asked.problem = NULL;
    asked.budget_bytes = budget_bytes;
    asked.effort = MP_EFFORT_QUICK;
    asked.time_limit = pooled_seconds(x);
    asked.on_offer = NULL;
    asked.progress = goes_on_within;
    asked.progress_data = x->search;
    *found = false;
    if (asked.time_limit < 0) return MP_OK;
    const mp_status st = mp_search_within(x->search, &asked, run_lagrange, &steps, &n, err);
    if (st != MP_OK || !steps) return st == MP_NOT_APPLICABLE ? MP_OK : st;
    mp_without_copies_to_original(without_copies, steps, n);
    *found = mp_choices_follow(&x->choices, steps, n);
    if (*found) mp_choices_order(&x->choices, &n); /* finds the nodes that run again */
    return MP_OK;
}

/* Tries three ways to copy the offloaded storages, and keeps the first way that fits. If none fits, keeps the last way. */
static mp_status choose_way(rule *x, mp_error *err)
{
    static const mp_choice ways[] = {MP_CHOICE_COPIED, MP_CHOICE_AHEAD, MP_CHOICE_WAITED_FOR};
    x->over = INT64_MAX;
    for (size_t w = 0; w < sizeof ways / sizeof *ways && x->over > 0; w++) {
        for (size_t s = 0; s < x->graph->n_storages; s++)
            if (is_offloaded(x->choices.of[s])) x->choices.of[s] = ways[w];
        MP_CHECK(mp_trials_judge(x, &x->ticks, &x->over, err));
    }
    return MP_OK;
}

/* Returns the total bytes that copies of activations may occupy in the other tiers; at most `most`. */
static int64_t bytes_elsewhere(const rule *x, int64_t most)
{
    bool is_tier[MP_MAX_TIERS] = {false};
    int64_t sum = 0;
    for (size_t k = 0; k < x->n_candidates; k++)
        if (mp_choices_may_copy(&x->choices, x->candidates[k].storage)) is_tier[tier_of(x, x->candidates[k].storage)] = true;
    for (int m = 0; m < MP_MAX_TIERS; m++)
        if (is_tier[m]) sum += mp_smaller(room_in(x, m), most - sum);
    return sum;
}

/* Plans recomputation on a device with `elsewhere_bytes` more than the budget, and then offloads the kept storages. If this
 * plan does not fit, plans recomputation again. The offloaded storages then need no device memory, but the budget is smaller by
 * one or two times the largest of them: offloaded storages are on the device during their copies and uses. Offers a plan that
 * fits, and sets *fits. */
static mp_status try_pooled(rule *x, const mp_without_copies *without_copies, int64_t elsewhere_bytes, bool *fits,
                            mp_error *err)
{
    enum { MOST_AT_ONCE = 2 };
    const int64_t budget = mp_search_request(x->search)->budget_bytes;
    int64_t largest = 0;
    bool found;
    *fits = false;
    memset(x->choices.of, 0, x->graph->n_storages * sizeof *x->choices.of);
    MP_CHECK(plan_recomputation(x, without_copies, budget + elsewhere_bytes, &found, err));
    if (!found) return MP_OK;
    offload_kept(x, MP_CHOICE_COPIED);
    MP_CHECK(choose_way(x, err));
    for (size_t s = 0; s < x->graph->n_storages; s++)
        if (is_offloaded(x->choices.of[s])) largest = mp_larger(largest, x->graph->storages[s].bytes);
    for (int n = 1; n <= MOST_AT_ONCE && found && x->over > 0 && budget > n * largest && goes_on(x); n *= 2) {
        MP_CHECK(plan_recomputation(x, without_copies, budget - n * largest, &found, err));
        if (found) MP_CHECK(choose_way(x, err));
    }
    *fits = x->over == 0;
    if (!*fits) return MP_OK;
    MP_CHECK(keep_again(x, err));
    return mp_trials_offer(x, err);
}

/* The rule pooled-memory. It plans recomputation as if the device also had a part of the other tiers' memory. The smaller the
 * part, the more the plan recomputes and the less it copies. The rule halves the part until a plan fits. Then it bisects
 * towards the largest part that fits. */
static mp_status choose_pooled(rule *x, mp_error *err)
{
    enum { TRIALS = 4 };
    const int64_t lacking = x->peak_bytes - mp_search_request(x->search)->budget_bytes;
    const int64_t elsewhere = bytes_elsewhere(x, lacking);
    int64_t fitting = 0, failing = elsewhere;
    MP_CLEARED_BY(mp_without_copies_free) mp_without_copies without_copies = {0};
    MP_CHECK(mp_graph_without_copies(x->graph, &without_copies, err));
    /* if the other tiers held all missing bytes, the plan would recompute nothing, as the plan of largest-first does */
    int64_t part = elsewhere < lacking ? elsewhere : lacking / 2;
    rank(x, bytes_of);
    for (int k = 0; k < TRIALS && part > fitting && goes_on(x); k++) {
        bool fits;
        MP_CHECK(try_pooled(x, &without_copies, part, &fits, err));
        *(fits ? &fitting : &failing) = part;
        part = fitting + (failing - fitting) / 2;
    }
    return MP_OK;
}

/* Computes the ticks to recompute each node, including the recomputation of its missing inputs. */
static void sum_reruns(const rule *x, double *ticks)
{
    for (size_t v = 0; v < x->graph->n_nodes; v++) {
        const mp_alternative *base = &x->graph->nodes[v].alternatives[0];
        ticks[v] = (double)base->ticks;
        if (x->graph->nodes[v].phase != MP_PHASE_FORWARD) continue;
        for (size_t k = 0; k < base->n_reads; k++)
            if (x->choices.of[base->reads[k]] == MP_CHOICE_RECOMPUTED) ticks[v] += ticks[x->graph->producer[base->reads[k]]];
    }
}

/* Recomputes a storage or offloads it, whichever takes less time. */
static mp_status choose_cheaper(rule *x, int s, double rerun_ticks, mp_error *err)
{
    const int64_t ticks = x->ticks, over = x->over;
    if (mp_choices_may_copy(&x->choices, s)) MP_CHECK(attempt(x, s, MP_CHOICE_WAITED_FOR, ticks + (int64_t)rerun_ticks, err));
    const bool is_copied = x->choices.of[s] == MP_CHOICE_WAITED_FOR;
    const int64_t copied_ticks = x->ticks, copied_over = x->over;
    if (!mp_trials_may_rerun(x, s)) return MP_OK;
    x->ticks = ticks;
    x->over = over;
    MP_CHECK(attempt(x, s, MP_CHOICE_RECOMPUTED, is_copied ? copied_ticks - 1 : INT64_MAX, err));
    if (x->choices.of[s] == MP_CHOICE_RECOMPUTED || !is_copied) return MP_OK;
    x->ticks = copied_ticks;
    x->over = copied_over;
    return MP_OK;
}

/* First offloads the storages that are unused for the longest time, as long as compute hides the copies. Then recomputes the
 * storages that save the most bytes per second of recomputation, or offloads them if that takes less time. If the plan still
 * exceeds the budget, offloads more storages regardless of the time. */
static mp_status choose_by_saving(rule *x, mp_error *err)
{
    MP_OWNED double *ticks = mp_alloc(x->graph->n_nodes, sizeof *ticks);
    MP_ENSURE(ticks, err, MP_NOMEM, "out of memory for %zu nodes", x->graph->n_nodes);
    rank(x, free_ticks);
    MP_CHECK(copy_hidden(x, err));
    for (int64_t before = INT64_MAX; x->over < before;) {
        before = x->over;
        for (size_t n = x->n_candidates; n > 0 && x->over > 0; n--) {
            size_t best = 0;
            sum_reruns(x, ticks);
            for (size_t k = 0; k < n; k++) {
                candidate *c = &x->candidates[k];
                c->rank = mp_trials_may_rerun(x, c->storage)
                              ? bytes_of(x, c->storage) / (1 + ticks[x->graph->producer[c->storage]])
                              : 0;
                if (c->rank > x->candidates[best].rank) best = k;
            }
            const candidate chosen = x->candidates[best];
            /* each candidate is tried once per round: the chosen one is moved behind those that are still to be tried */
            x->candidates[best] = x->candidates[n - 1];
            x->candidates[n - 1] = chosen;
            if (x->choices.of[chosen.storage] != MP_CHOICE_KEPT) continue;
            MP_CHECK(choose_cheaper(x, chosen.storage, ticks[x->graph->producer[chosen.storage]], err));
        }
    }
    rank(x, free_ticks);
    for (size_t k = 0; k < x->n_candidates && x->over > 0; k++)
        if (mp_choices_may_copy(&x->choices, x->candidates[k].storage))
            MP_CHECK(attempt(x, x->candidates[k].storage, MP_CHOICE_WAITED_FOR, INT64_MAX, err));
    return bring_ahead(x, err);
}

/* ---- searchers ---- */

mp_status mp_run_cheapest_first(mp_search *search, mp_error *err)
{
    return mp_trials_run(search, choose_greedily, err);
}

mp_status mp_run_largest_first(mp_search *search, mp_error *err)
{
    return mp_trials_run(search, choose_largest, err);
}

mp_status mp_run_saved_per_second(mp_search *search, mp_error *err)
{
    return mp_trials_run(search, choose_by_saving, err);
}

mp_status mp_run_pooled_memory(mp_search *search, mp_error *err)
{
    return mp_trials_run(search, choose_pooled, err);
}

mp_status mp_run_copy_only(mp_search *search, mp_error *err)
{
    MP_CLEARED_BY(mp_variant_free) mp_variant once = {0};
    const mp_graph *graph = search->seen.graph;
    MP_CHECK(mp_run_largest_first(search, err));
    MP_CHECK(mp_variant_of(graph, &once, err));
    for (size_t v = 0; v < graph->n_nodes; v++) mp_node_forbid_rerun(&once.graph.nodes[v]);
    search->seen.graph = &once.graph;
    const mp_status st = mp_run_anneal(search, err);
    search->seen.graph = graph;
    return st;
}
