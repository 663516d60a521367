/* offload.c - published rules that choose which tensors are offloaded and which are recomputed. Their plans serve as baselines
 * and as starting points. A rule decides about tensors only. choices.h turns the choices of every rule into a plan in the same
 * way. The timeline judges each choice (trials.h). A choice is kept only if it lowers the bytes over the budget. The
 * publications use estimates instead, so the rules find better plans here. */
#include "planner/search/searchers.h"

#include <stdlib.h>

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

/* Offloads every candidate for which the other tier has memory, the largest first. Then keeps candidates on the device again,
 * the largest first, as long as the plan fits. */
static mp_status choose_largest(rule *x, mp_error *err)
{
    const mp_request *request = mp_search_request(x->search);
    int64_t copied_bytes[MP_MAX_TIERS] = {0};
    rank(x, bytes_of);
    for (size_t k = 0; k < x->n_candidates; k++) {
        const int s = x->candidates[k].storage;
        if (!mp_choices_may_copy(&x->choices, s)) continue;
        const int tier = x->graph->storages[x->graph->nodes[mp_choices_way(&x->choices, s)->out].alternatives->writes[0]].tier;
        const int64_t bytes = copied_bytes[tier] + x->graph->storages[s].bytes;
        if (request->tier_bytes[tier] && bytes > request->tier_bytes[tier]) continue;
        copied_bytes[tier] = bytes;
        x->choices.of[s] = MP_CHOICE_WAITED_FOR;
    }
    MP_CHECK(mp_trials_judge(x, &x->ticks, &x->over, err));
    for (size_t k = 0; k < x->n_candidates && !x->over; k++)
        if (mp_choices_may_copy(&x->choices, x->candidates[k].storage))
            MP_CHECK(attempt(x, x->candidates[k].storage, MP_CHOICE_KEPT, INT64_MAX, err));
    return bring_ahead(x, err);
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
