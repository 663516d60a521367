/* test_ilp.c - the integer programme for recomputation, against all plans of the same form, evaluated by the timeline. */
#include "estimator/base/memory.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "planner/ilp/ilp.h"
#include "planner/math/linear.h"
#include "planner/order/updates.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { MANY_COLUMNS = 100000, MANY_NODES = 20000, MOST_FRONT = 4096, MOST_SLOTS = 512, MOST_STAGES = 128 };

/* ---- brute force ---- */

typedef struct slot {
    int stage, node;
} slot;

/* The plans that no other plan dominates in both peak and ticks. */
typedef struct front {
    size_t n;
    int64_t peak_bytes[MOST_FRONT], ticks[MOST_FRONT];
} front;

typedef struct brute {
    const mp_graph *graph;
    int n_stages, *first; /* list of nodes by stage, as in the model */
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

static void judge(brute *b)
{
    mp_step *all = NULL;
    mp_timeline *timeline = NULL;
    size_t n = 0, n_all = 0;
    for (int i = 0, k = 0; i < b->n_stages; i++) {
        for (; k < b->n_chosen && b->slots[b->chosen[k]].stage == i; k++)
            b->steps[n++] = (mp_step){.node = b->slots[b->chosen[k]].node};
        for (int p = b->first[i]; p < b->first[i + 1]; p++) b->steps[n++] = (mp_step){.node = b->node[p]};
    }
    assert_int_equal(mp_updates_place(b->graph, b->steps, n, &all, &n_all, NULL), MP_OK);
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

/* Enumerates all plans of the stages with at most `most` recomputations. */
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

/* ---- the integer programme ---- */

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
    int cases, proved, feasible, dearer; /* dearer: plans with more ticks than keep-all */
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

/* Compares results at every peak of a plan, and one byte below. */
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

TEST(chains_equal_brute_force)
{
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

TEST(small_graphs_equal_brute_force)
{
    counts count = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const int n = 2 + (int)(seed % 5);
        mp_graph *graph = random_graph(seed, n, (mp_fuse)(seed / 5 % 3), false);
        compare_graph(graph, 0, n > 4 ? 2 : 4, seed, &count);
        mp_graph_free(graph);
    }
    assert_true(count.dearer > 100);
    assert_int_equal(count.proved, count.cases); /* also asserts that the timeline agreed in every case */
}

TEST(few_stages_equal_brute_force)
{
    counts count = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = random_graph(seed, 6, (mp_fuse)(seed % 3), false);
        compare_graph(graph, 3, 5, seed, &count);
        mp_graph_free(graph);
    }
    assert_true(count.dearer > 100);
    assert_int_equal(count.proved, count.cases); /* also asserts that the timeline agreed in every case */
}

static int new_storage(mp_graph *graph, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    s->name = "s";
    return (int)graph->n_storages - 1;
}

/* A node that reads up to three storages (-1: none) and writes one. */
static mp_alternative *new_node(mp_graph *graph, mp_phase phase, int a, int b, int c, int writes)
{
    mp_node *n;
    const int all[] = {a, b, c};
    int reads[3];
    assert_int_equal(mp_graph_node(graph, &n, NULL), MP_OK);
    n->name = n->op = "n";
    n->phase = phase;
    n->forward_of = -1;
    mp_alternative *alternative = n->alternatives;
    for (int k = 0; k < 3; k++)
        if (all[k] >= 0) reads[alternative->n_reads++] = all[k];
    alternative->reads = mp_graph_list(graph, reads, alternative->n_reads);
    alternative->n_writes = 1;
    alternative->writes = mp_graph_list(graph, &writes, 1);
    alternative->ticks = 1 + (int64_t)graph->n_nodes % 3;
    return alternative;
}

/* Layers whose parameter gradients are computed before the data gradients, which still read the parameters. Each layer also
 * reads the next layer's parameter, so recomputation reads parameters late. Updates are fused and need memory of their own. */
static mp_graph *late_updates(int n)
{
    mp_graph *graph = NULL;
    int a[8], w[8], g[8], dw[8];
    assert_int_equal(mp_graph_new("late", &graph, NULL), MP_OK);
    graph->fuse = MP_FUSE_BACKWARD;
    a[0] = new_storage(graph, MP_KIND_INPUT, 0);
    for (int k = 1; k <= n; k++) {
        a[k] = new_storage(graph, MP_KIND_ACTIVATION, 20 + 3 * k);
        w[k] = new_storage(graph, MP_KIND_PARAMETER, 0);
        g[k] = new_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 20 + 3 * k);
        dw[k] = new_storage(graph, MP_KIND_GRADIENT, 15);
    }
    g[0] = new_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 1);
    for (int k = 1; k <= n; k++) /* layer k also reads the parameter of the next layer */
        new_node(graph, MP_PHASE_FORWARD, a[k - 1], w[k], k < n ? w[k + 1] : -1, a[k]);
    new_node(graph, MP_PHASE_LOSS, a[n], -1, -1, g[n]);
    for (int k = n; k >= 1; k--) {
        new_node(graph, MP_PHASE_BACKWARD, a[k - 1], g[k], -1, dw[k]);
        new_node(graph, MP_PHASE_BACKWARD, a[k], g[k], w[k], g[k - 1]);
    }
    for (int k = 1; k <= n; k++) new_node(graph, MP_PHASE_UPDATE, dw[k], w[k], -1, w[k])->workspace_bytes = 25;
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

TEST(fused_updates_hold_their_gradients)
{
    counts count = {0};
    for (int n = 2; n <= 5; n++) {
        mp_graph *graph = late_updates(n);
        compare_graph(graph, 0, 4, (uint64_t)n, &count);
        mp_graph_free(graph);
    }
    assert_true(count.proved >= count.cases * 5 / 6); /* the programme's rows omit the memory of some updates */
    assert_true(count.dearer > 5);
}

/* ---- limits and errors ---- */

typedef struct fixture {
    mp_graph *graph;
    mp_ilp_model *model;
    int64_t budget_bytes; /* halfway between floor and keep-all */
} fixture;

static void set_up(fixture *x, uint64_t seed, int n_forward)
{
    mp_step *steps;
    mp_timeline *timeline = NULL;
    int64_t floor_bytes;
    int node;
    x->graph = random_graph(seed, n_forward, MP_FUSE_NONE, false);
    x->model = model_of(x->graph, 0);
    assert_non_null(steps = mp_alloc(x->graph->n_nodes, sizeof *steps));
    mp_keep_all(x->graph, steps);
    assert_int_equal(mp_timeline_build(x->graph, steps, x->graph->n_nodes, &timeline, NULL), MP_OK);
    assert_int_equal(mp_floor(x->graph, &floor_bytes, &node, NULL), MP_OK);
    x->budget_bytes = floor_bytes + (timeline->peak_bytes - floor_bytes) / 2;
    mp_timeline_free(timeline);
    mp_free(steps);
}

static void tear_down(fixture *x)
{
    mp_ilp_model_free(x->model);
    mp_graph_free(x->graph);
}

static bool stop_after(void *data)
{
    return (*(int *)data)-- <= 0;
}

/* With seed 2 and 16 layers, the search visits over 200 nodes. */
TEST(limits_end_the_search_with_what_it_has)
{
    fixture x;
    mp_ilp_result found = {0};
    set_up(&x, 2, 16);
    for (int most = 1; most <= 64; most *= 4) {
        const mp_ilp_limits limits = {.most_nodes = most, .good_ticks = INT64_MAX};
        assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &found, NULL), MP_OK);
        assert_int_equal(found.n_nodes, most + 1);
        assert_false(found.proved);
        assert_false(found.stopped);
        mp_free(found.steps);
    }
    for (int calls = 0; calls < 100; calls += 9) {
        int left = calls;
        const mp_ilp_limits limits = {.most_nodes = MANY_NODES, .good_ticks = INT64_MAX, .stopped = stop_after, .data = &left};
        assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &found, NULL), MP_OK);
        assert_true(found.stopped && !found.proved && found.n_nodes <= calls);
        mp_free(found.steps);
    }
    const mp_ilp_limits limits = {.most_nodes = MANY_NODES, .good_ticks = INT64_MAX, .seconds = 0.05};
    assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &found, NULL), MP_OK);
    assert_true(found.stopped && !found.proved);
    mp_free(found.steps);
    tear_down(&x);
}

/* Plans that are not shorter than a known plan are not searched. */
TEST(known_plan_cuts_the_search)
{
    fixture x;
    mp_ilp_result all = {0}, none = {0}, one = {0};
    set_up(&x, 1, 12);
    mp_ilp_limits limits = {.most_nodes = MANY_NODES, .good_ticks = INT64_MAX};
    assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &all, NULL), MP_OK);
    assert_true(all.proved && all.steps);
    limits.good_ticks = all.ticks;
    assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &none, NULL), MP_OK);
    assert_true(none.proved && none.n_nodes <= all.n_nodes);
    limits.good_ticks = all.ticks + 1;
    assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &one, NULL), MP_OK);
    assert_true(one.proved && one.steps);
    assert_int_equal(one.ticks, all.ticks);
    mp_free(all.steps);
    mp_free(none.steps);
    mp_free(one.steps);
    tear_down(&x);
}

TEST(errors_of_glpk_come_back)
{
    fixture x;
    set_up(&x, 2, 12);
    const long live = mp_alloc_live;
    for (int calls = 0; calls < 200; calls += 40) {
        const mp_ilp_limits limits = {.most_nodes = 30, .good_ticks = INT64_MAX};
        mp_ilp_result found = {0};
        mp_error err = {0};
        mp_glpk_fail_after = calls;
        const mp_status st = mp_ilp_search(x.model, x.budget_bytes, &limits, &found, &err);
        const bool failed = mp_glpk_fail_after < 0;
        mp_glpk_fail_after = -1;
        assert_true(failed || calls > 0);
        assert_int_equal(st, failed ? MP_LIMIT : MP_OK);
        if (failed) assert_non_null(strstr(err.message, "GLPK"));
        mp_free(found.steps);
        assert_int_equal(mp_ilp_search(x.model, x.budget_bytes, &limits, &found, &err), MP_OK); /* a second call succeeds */
        mp_free(found.steps);
        assert_int_equal(mp_alloc_live, live);
    }
    tear_down(&x);
}

/* ---- the searcher ---- */

static int64_t solve_ticks(const mp_graph *graph, const char *solver, int64_t budget_bytes)
{
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = solver, .moves = 800};
    mp_answer answer = {0};
    mp_error err = {0};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = answer.plan ? answer.plan->ticks : INT64_MAX;
    mp_answer_free(&answer);
    return ticks;
}

TEST(searcher_is_no_worse_than_lower_sets)
{
    int n_better = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        fixture x;
        set_up(&x, seed, 6 + (int)(seed % 5));
        const int64_t ours = solve_ticks(x.graph, "ilp", x.budget_bytes);
        const int64_t theirs = solve_ticks(x.graph, "lower-set", x.budget_bytes);
        assert_true(ours <= theirs);
        n_better += ours < theirs;
        tear_down(&x);
    }
    assert_true(n_better >= 3);
}

/* With few different sizes, the searcher tries every peak as a limit. It therefore finds the best plan of its form at every
 * budget. */
TEST(searcher_finds_the_best_plan_of_a_chain)
{
    mp_graph *graph = NULL;
    assert_int_equal(chain_graph(5, 7, 100, true, &graph, NULL), MP_OK);
    mp_ilp_model *m = model_of(graph, 0);
    brute *b = mp_alloc(1, sizeof *b);
    assert_non_null(b);
    enumerate_plans(b, m, 6);
    for (size_t k = 0; k < b->front.n; k++) {
        assert_int_equal(solve_ticks(graph, "ilp", b->front.peak_bytes[k]), b->front.ticks[k]);
        assert_int_equal(solve_ticks(graph, "ilp", b->front.peak_bytes[k] + 6), b->front.ticks[k]);
    }
    mp_free(b);
    mp_ilp_model_free(m);
    mp_graph_free(graph);
}

TEST(what_is_too_large_is_refused)
{
    mp_graph *large = NULL, *plain = random_graph(3, 6, MP_FUSE_NONE, true);
    mp_answer answer = {0};
    mp_error err = {0};
    assert_int_equal(chain_graph(400, 8, 0, true, &large, NULL), MP_OK);
    const long live = mp_alloc_live;
    mp_request request = {.graph = large, .budget_bytes = 100, .solver = "ilp"};
    assert_int_equal(mp_solve(&request, &answer, &err), MP_NOT_APPLICABLE);
    assert_non_null(strstr(err.message, "too large"));
    request.graph = plain;
    err = (mp_error){0};
    assert_int_equal(mp_solve(&request, &answer, &err), MP_NOT_APPLICABLE);
    assert_non_null(strstr(err.message, "no backward phase"));
    assert_null(answer.plan);
    assert_int_equal(mp_alloc_live, live);
    mp_graph_free(large);
    mp_graph_free(plain);
}
