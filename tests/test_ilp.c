/* The integer programme of recomputation: against all plans of its shape, judged by the timeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "planner/floor.h"
#include "planner/ilp.h"
#include "planner/schedule.h"
#include "tests/chain_graph.h"
#include "tests/random_graph.h"

enum { MANY_COLUMNS = 100000, MANY_NODES = 20000, MOST_FRONT = 4096, MOST_SLOTS = 512, MOST_STAGES = 128 };

/* ---- brute force ---- */

typedef struct slot {
    int stage, node;
} slot;

/* Plans that no other beats in both peak and ticks. */
typedef struct front {
    size_t n;
    int64_t peak_bytes[MOST_FRONT], ticks[MOST_FRONT];
} front;

typedef struct brute {
    const mp_graph *graph;
    int n_stages, *first; /* places, as in the model */
    int n_places, *node;
    slot slots[MOST_SLOTS];
    int n_slots, chosen[16], n_chosen, most_chosen;
    mp_step steps[1024];
    front front;
} brute;

static void note(front *f, int64_t peak_bytes, int64_t ticks)
{
    size_t n = 0;
    for (size_t k = 0; k < f->n; k++)
        if (f->peak_bytes[k] <= peak_bytes && f->ticks[k] <= ticks) return;
    for (size_t k = 0; k < f->n; k++) {
        if (f->peak_bytes[k] >= peak_bytes && f->ticks[k] >= ticks) continue;
        f->peak_bytes[n] = f->peak_bytes[k];
        f->ticks[n++] = f->ticks[k];
    }
    assert_true(n < MOST_FRONT);
    f->peak_bytes[n] = peak_bytes;
    f->ticks[n] = ticks;
    f->n = n + 1;
}

/* Updates as late as they have to be, by trial: each goes to the first place at which the plan is right. */
static void judge(brute *b)
{
    mp_step *all = NULL;
    mp_timeline *timeline = NULL;
    size_t n = 0, n_all = 0;
    for (int i = 0, k = 0; i < b->n_stages; i++) {
        for (; k < b->n_chosen && b->slots[b->chosen[k]].stage == i; k++)
            b->steps[n++] = (mp_step){b->slots[b->chosen[k]].node, 0};
        for (int p = b->first[i]; p < b->first[i + 1]; p++) b->steps[n++] = (mp_step){b->node[p], 0};
    }
    assert_int_equal(mp_schedule_updates(b->graph, b->steps, n, &all, &n_all, NULL), MP_OK);
    assert_int_equal(mp_timeline_build(b->graph, all, n_all, &timeline, NULL), MP_OK);
    note(&b->front, timeline->peak_bytes, timeline->ticks);
    mp_timeline_free(timeline);
    mp_free(all);
}

static void enumerate(brute *b, int next)
{
    judge(b);
    if (b->n_chosen == b->most_chosen) return;
    for (int k = next; k < b->n_slots; k++) {
        b->chosen[b->n_chosen++] = k;
        enumerate(b, k + 1);
        b->n_chosen--;
    }
}

/* All plans of the stages with at most `most` recomputations. */
static void enumerate_plans(brute *b, const mp_ilp_model *m, int most)
{
    const mp_graph *graph = m->graph;
    *b = (brute){.graph = graph, .n_stages = m->n_stages, .first = m->first, .n_places = m->n_places, .node = m->node};
    b->most_chosen = most;
    for (int i = 0; i < m->n_stages; i++)
        for (int p = 0; p < m->first[i]; p++) {
            const mp_node *node = &graph->nodes[m->node[p]];
            if (node->phase != MP_PHASE_FORWARD || (node->flags & MP_NODE_ONCE)) continue;
            assert_true(b->n_slots < MOST_SLOTS);
            b->slots[b->n_slots++] = (slot){i, m->node[p]};
        }
    enumerate(b, 0);
}

static int64_t least_ticks(const front *f, int64_t budget_bytes)
{
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < f->n; k++)
        if (f->peak_bytes[k] <= budget_bytes && f->ticks[k] < least) least = f->ticks[k];
    return least;
}

/* ---- the programme ---- */

static mp_ilp_model *model_of(const mp_graph *graph, int n_recomputing)
{
    mp_ilp_model *m = NULL;
    mp_error err = {0};
    int first[MOST_STAGES] = {0}, n_places = 0, n_forward = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        n_places += graph->nodes[i].phase != MP_PHASE_UPDATE;
        n_forward += graph->nodes[i].phase == MP_PHASE_FORWARD;
    }
    for (int i = 1; i <= n_recomputing; i++) first[i] = n_forward + (n_places - n_forward) * i / (n_recomputing + 1);
    if (mp_ilp_model_new(graph, n_recomputing ? first : NULL, n_recomputing + 1, MANY_COLUMNS, &m, &err) != MP_OK)
        fail_msg("%s", err.message);
    return m;
}

typedef struct counts {
    int cases, proved, feasible, dearer; /* dearer: more than keep-all's ticks */
} counts;

static int64_t recomputations(const mp_graph *graph, const mp_ilp_result *found)
{
    return (int64_t)found->n - (int64_t)graph->n_nodes;
}

static void compare(const mp_ilp_model *m, const brute *b, int64_t budget_bytes, uint64_t seed, counts *count)
{
    const mp_ilp_limits limits = {.most_nodes = MANY_NODES, .good_ticks = INT64_MAX};
    mp_ilp_result found = {0};
    mp_error err = {0};
    const int64_t least = least_ticks(&b->front, budget_bytes);
    if (mp_ilp_search(m, budget_bytes, &limits, &found, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = found.steps ? found.ticks : INT64_MAX;
    count->cases++;
    count->proved += found.proved;
    count->feasible += found.steps != NULL;
    count->dearer += found.steps && recomputations(m->graph, &found) > 0;
    assert_true(!found.steps || found.peak_bytes <= budget_bytes);
    if (found.proved && ticks > least)
        fail_msg("seed %llu, budget %lld: %lld ticks, brute force %lld", (unsigned long long)seed, (long long)budget_bytes,
                 (long long)ticks, (long long)least);
    if (found.steps && recomputations(m->graph, &found) <= b->most_chosen && ticks < least)
        fail_msg("seed %llu, budget %lld: %lld ticks, and brute force finds but %lld", (unsigned long long)seed,
                 (long long)budget_bytes, (long long)ticks, (long long)least);
    mp_free(found.steps);
}

/* At every peak that some plan has, and just below. */
static void compare_graph(const mp_graph *graph, int n_recomputing, int most, uint64_t seed, counts *count)
{
    mp_ilp_model *m = model_of(graph, n_recomputing);
    brute *b = mp_alloc(1, sizeof *b);
    assert_non_null(b);
    enumerate_plans(b, m, most);
    for (size_t k = 0; k < b->front.n; k++) {
        compare(m, b, b->front.peak_bytes[k], seed, count);
        compare(m, b, b->front.peak_bytes[k] - 1, seed, count);
    }
    mp_free(b);
    mp_ilp_model_free(m);
}

static void chains_equal_brute_force(void **state)
{
    (void)state;
    counts count = {0};
    for (int n = 2; n <= 5; n++) {
        mp_graph *graph = NULL;
        assert_int_equal(chain_graph(n, 7, 100, true, &graph, NULL), MP_OK);
        compare_graph(graph, 0, 4, (uint64_t)n, &count);
        compare_graph(graph, n / 2, 5, (uint64_t)n, &count);
        mp_graph_free(graph);
    }
    assert_int_equal(count.proved, count.cases);
    assert_true(count.dearer > 5);
}

static void small_graphs_equal_brute_force(void **state)
{
    (void)state;
    counts count = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const int n = 2 + (int)(seed % 5);
        mp_graph *graph = random_graph(seed, n, (mp_fuse)(seed / 5 % 3), false);
        compare_graph(graph, 0, n > 4 ? 2 : 4, seed, &count);
        mp_graph_free(graph);
    }
    print_message("%d cases, %d proved, %d feasible, %d recompute\n", count.cases, count.proved, count.feasible, count.dearer);
    assert_true(count.dearer > 100 && count.proved > count.cases * 9 / 10);
}

static void few_stages_equal_brute_force(void **state)
{
    (void)state;
    counts count = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = random_graph(seed, 6, (mp_fuse)(seed % 3), false);
        compare_graph(graph, 3, 5, seed, &count);
        mp_graph_free(graph);
    }
    print_message("%d cases, %d proved, %d feasible, %d recompute\n", count.cases, count.proved, count.feasible, count.dearer);
    assert_true(count.dearer > 100 && count.proved > count.cases * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_equal_brute_force),
        cmocka_unit_test(small_graphs_equal_brute_force),
        cmocka_unit_test(few_stages_equal_brute_force),
    };
    return cmocka_run_group_tests_name("planner/ilp", tests, NULL, NULL);
}
