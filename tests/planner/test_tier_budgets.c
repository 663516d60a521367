/* test_tier_budgets.c - tiers besides the device: offsets, their check, budgets, and JSON. On graphs small enough to try
 * everything: the value of more memory and of faster copies, the sufficient size of a tier, and the slab of a plan. Also the
 * three curves of a graph with copies. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/planning.h"
#include "memplan/solver.h"
#include "memplan/studies/sweep.h"
#include "memplan/studies/worth.h"
#include "memplan/training.h"
#include "planner/offload/copies.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

/* Returns a plan with offsets for an order of random_copies; NULL: the order breaks a rule. */
static mp_plan *laid_out(const mp_graph *graph, uint64_t seed, uint64_t order)
{
    mp_plan *plan = NULL;
    size_t n;
    mp_step *steps = random_copies_schedule(graph, seed, order, &n);
    const mp_status st = mp_plan_new(graph, "", steps, n, &plan, NULL);
    mp_free(steps);
    if (st != MP_OK) return NULL;
    assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
    if (mp_plan_check(graph, plan, NULL) == MP_OK) return plan;
    mp_plan_free(plan);
    return NULL;
}

/* Corrupts the tier's offsets in one way. Returns the expected message of the checker; NULL: this corruption is not possible
 * for the plan. */
static const char *spoil(mp_plan *plan, int how, int64_t alignment)
{
    mp_tier_claim *t = &plan->tiers[1];
    mp_place *last = &t->places[t->n_places - 1];
    switch (how) {
    case 0:
        t->budget_bytes = t->static_bytes + t->arena_bytes - 1;
        return "over its budget";
    case 1:
        t->n_places--;
        return last->bytes ? "has no offset" : NULL;
    case 2:
        t->arena_bytes += alignment;
        return "an arena_bytes of tier 'host'";
    case 3:
        last->bytes++;
        return "claims";
    case 4:
        last->end++;
        return "claims that it ends";
    case 5:
        last->offset += alignment - 1;
        return alignment > 1 ? "is not a multiple" : NULL;
    case 6:
        for (size_t k = 0; k + 1 < t->n_places; k++)
            if (t->places[k].begin < last->end && last->begin < t->places[k].end && t->places[k].begin + 1 < t->places[k].end) {
                last->offset = t->places[k].offset; /* if one place begins in the other's last step, they may share memory */
                return last->begin + 1 < t->places[k].end ? "overlap" : NULL;
            }
        return NULL;
    default:
        t->n_places = 0;
        return "has no offset";
    }
}

TEST(the_checker_finds_what_is_wrong_with_offsets_in_a_tier)
{
    enum { WAYS = 8 };
    int n[WAYS] = {0}, n_plans = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        mp_graph *graph = random_copies(seed);
        for (uint64_t order = 0; order < WAYS; order++) {
            mp_error err = {0};
            mp_plan *plan = laid_out(graph, seed, order);
            n_plans += plan != NULL;
            const char *says = plan && plan->tiers[1].n_places && plan->tiers[1].arena_bytes
                                   ? spoil(plan, (int)order, graph->alignment)
                                   : NULL;
            if (says) {
                assert_int_equal(mp_plan_check(graph, plan, &err), MP_REFUTED);
                if (!strstr(err.message, says)) fail_msg("'%s' does not say '%s'", err.message, says);
                n[order]++;
            }
            mp_plan_free(plan);
        }
        mp_graph_free(graph);
    }
    assert_true(n_plans > 500);
    for (int k = 0; k < WAYS; k++)
        if (n[k] < (k == 6 ? 1 : 5)) fail_msg("way %d: %d", k, n[k]);
}

typedef struct small {
    mp_graph *graph;
    int64_t floor_bytes, plain_floor, keep_all_bytes, least_ticks;
} small;

/* A graph with copies to a host or a disk, over a link that transfers keep-all's peak once per step. */
static small small_graph(uint64_t seed, int n_forward, bool is_disk)
{
    small x = {.graph = random_graph(seed, n_forward, (mp_fuse)(seed % 3), false)};
    mp_step *steps = mp_alloc(x.graph->n_nodes, sizeof *steps);
    mp_timeline *timeline;
    int node;
    assert_int_equal(mp_timeline_build(x.graph, steps, mp_keep_all(x.graph, steps), &timeline, NULL), MP_OK);
    assert_int_equal(mp_floor(x.graph, &x.plain_floor, &node, NULL), MP_OK);
    x.keep_all_bytes = timeline->peak_bytes;
    x.least_ticks = timeline->ticks;
    const double rate = (double)timeline->peak_bytes / ((double)timeline->ticks * x.graph->tick_seconds);
    const mp_link link = {.name = "near", .out_bytes_per_second = rate, .in_bytes_per_second = rate};
    mp_timeline_free(timeline);
    mp_free(steps);
    const mp_offload offload = {.host = is_disk ? NULL : &link, .disk = is_disk ? &link : NULL, .least_bytes = 1};
    assert_int_equal(mp_graph_offload(x.graph, &offload, NULL, NULL), MP_OK);
    assert_int_equal(mp_floor(x.graph, &x.floor_bytes, &node, NULL), MP_OK);
    return x;
}

/* On a disk each copy takes whole blocks, many times its bytes in this test. The live bytes fit long before the arena does. */
TEST(the_arena_of_a_tier_keeps_to_its_budget)
{
    enum { BLOCK = MP_DISK_BLOCK_BYTES };
    int n = 0, n_over = 0, n_used = 0;
    double live_ticks = 0, ticks = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        small x = small_graph(seed, 8 + (int)(seed % 8), true);
        mp_graph *graph = x.graph;
        mp_answer live = {0}, answer = {0};
        const mp_request request = {.graph = graph,
                                    .solver = "copy-only",
                                    .budget_bytes = x.floor_bytes + (x.keep_all_bytes - x.floor_bytes) / 2,
                                    .tier_bytes = {0, BLOCK * (int64_t)(2 + seed % 3)},
                                    .moves = 60};
        assert_int_equal(mp_solve(&request, &live, NULL), MP_OK);
        if (live.plan) {
            assert_int_equal(mp_arena_layout(graph, live.plan, NULL), MP_OK);
            n_over += mp_plan_tier_need(graph, live.plan, 1) > request.tier_bytes[1];
        }
        assert_int_equal(mp_solve_with_arena(&request, &answer, NULL), MP_OK);
        if (answer.plan) {
            n++;
            n_used += answer.plan->tiers[1].n_places > 0;
            live_ticks += live.plan ? (double)live.plan->ticks : 0;
            ticks += live.plan ? (double)answer.plan->ticks : 0;
            assert_true(mp_plan_need(answer.plan) <= request.budget_bytes);
            assert_true(mp_plan_tier_need(graph, answer.plan, 1) <= request.tier_bytes[1]);
            assert_int_equal(answer.plan->tiers[1].budget_bytes, request.tier_bytes[1]);
            assert_int_equal(answer.plan->tiers[1].arena_bytes % BLOCK, 0);
        }
        mp_answer_free(&live);
        mp_answer_free(&answer);
        mp_graph_free(graph);
    }
    printf("%d plans, %d use the disk, %d were over, %.3f of the time\n", n, n_used, n_over, ticks / live_ticks);
    assert_true(n >= 25 && n_over > 5 && n_used > 5 && ticks < 1.015 * live_ticks); /* with the smallest plans: 23 and 1.022 */
}

TEST(offsets_in_a_tier_are_written_and_read)
{
    char path[] = "/tmp/memplan-tier-places-XXXXXX";
    const int file = mkstemp(path);
    int n_places = 0;
    assert_true(file >= 0);
    close(file);
    for (uint64_t seed = 0; seed < 40; seed++) {
        mp_graph *graph = random_copies(seed);
        mp_plan *plan = laid_out(graph, seed, 0), *read = NULL;
        if (plan) {
            const mp_tier_claim *a = &plan->tiers[1];
            assert_int_equal(mp_plan_write(plan, graph, path, NULL), MP_OK);
            assert_int_equal(mp_plan_read(path, graph, &read, NULL), MP_OK);
            assert_int_equal(mp_plan_check(graph, read, NULL), MP_OK);
            const mp_tier_claim *b = &read->tiers[1];
            assert_true(a->n_places == b->n_places && a->arena_bytes == b->arena_bytes && a->peak_bytes == b->peak_bytes);
            if (a->n_places) assert_memory_equal(a->places, b->places, a->n_places * sizeof *a->places);
            n_places += (int)a->n_places;
        }
        mp_plan_free(plan);
        mp_plan_free(read);
        mp_graph_free(graph);
    }
    unlink(path);
    assert_true(n_places > 40);
}

/* One GiB is enough for all of these graphs. */
TEST(with_all_the_memory_a_plan_takes_no_extra_time)
{
    int n = 0, n_extra = 0, n_whole = 0, n_tier = 0, n_links = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        small x = small_graph(seed, 6 + (int)(seed % 6), false);
        mp_answer answer = {0};
        mp_worth worth, again;
        const mp_request request = {.graph = x.graph,
                                    .budget_bytes = (x.floor_bytes + 2 * x.plain_floor + x.keep_all_bytes) / 4,
                                    .tier_bytes = {0, (x.keep_all_bytes - x.floor_bytes) / 4 + 1},
                                    .moves = 400};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        if (answer.plan) {
            const int64_t extra = answer.plan->ticks - x.least_ticks;
            assert_int_equal(mp_worth_of(&request, answer.plan, &worth, NULL), MP_OK);
            assert_int_equal(mp_worth_of(&request, answer.plan, &again, NULL), MP_OK);
            assert_memory_equal(&worth, &again, sizeof worth);
            mp_tier_study study;
            assert_int_equal(mp_tier_study_of(&request, &answer, false, true, &study, NULL), MP_OK);
            assert_true(study.has_worth && worth.device_ticks == study.worth.device_ticks);
            assert_int_equal(mp_tier_study_too_small(&study, x.graph, request.tier_bytes), 0); /* there is a plan */
            assert_true(worth.device_ticks >= 0 && worth.device_ticks <= extra);
            assert_true(worth.tier_ticks[1] >= 0 && worth.tier_ticks[1] <= extra);
            assert_true(worth.link_ticks >= 0 && worth.link_ticks <= extra);
            n++;
            n_extra += extra > 0;
            n_whole += extra > 0 && worth.device_ticks == extra;
            n_tier += worth.tier_ticks[1] > 0;
            n_links += worth.link_ticks > 0;
        }
        mp_answer_free(&answer);
        mp_graph_free(x.graph);
    }
    printf("%d plans, %d with extra time, %d of it all, %d tiers, %d links\n", n, n_extra, n_whole, n_tier, n_links);
    assert_true(n_extra > 5 && n_whole > n_extra / 3 && n_tier > 0 && n_links > 0);
}

TEST(what_is_enough_of_a_tier_is_enough_and_nearly_the_least)
{
    int n = 0, n_least = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        small x = small_graph(seed, 3 + (int)(seed % 2), false);
        const int64_t budget = x.floor_bytes + (x.plain_floor - x.floor_bytes) / 2;
        int64_t bytes, floors[MP_MAX_TIERS], ticks;
        const mp_request request = {.graph = x.graph, .budget_bytes = budget, .tier_bytes = {0, 1}, .moves = 100};
        assert_int_equal(mp_tier_floors(x.graph, budget, request.tier_bytes, floors, NULL), MP_OK);
        if (x.plain_floor > budget && x.graph->n_nodes <= 18) {
            assert_int_equal(mp_tier_enough(&request, 1, floors[1] - 1, false, &bytes, NULL), MP_OK);
            mp_answer answer;
            mp_tier_study study;
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            assert_int_equal(mp_tier_study_of(&request, &answer, false, true, &study, NULL), MP_OK);
            assert_int_equal(study.floor_bytes[1], floors[1]);
            assert_false(study.has_worth && !answer.plan);
            /* a tier that is proved to be too small has no plan by brute force */
            if (mp_tier_study_too_small(&study, x.graph, request.tier_bytes) &&
                oracle_exact_beside(x.graph, budget, request.tier_bytes[1], true, &ticks))
                assert_true(ticks < 0 && !answer.plan);
            mp_answer_free(&answer);
            if (bytes && oracle_exact_beside(x.graph, budget, bytes, true, &ticks)) {
                n++;
                assert_true(bytes >= floors[1]);
                if (ticks < 0) fail_msg("seed %llu: %lld bytes are not enough", (unsigned long long)seed, (long long)bytes);
                n_least += oracle_exact_beside(x.graph, budget, bytes - 1, true, &ticks) && ticks < 0;
            }
        }
        mp_graph_free(x.graph);
    }
    printf("%d budgets, %d of them the least\n", n, n_least);
    assert_true(n >= 8 && n_least > n / 3);
}

TEST(a_graph_with_copies_has_three_curves_and_both_is_the_lowest)
{
    static const char *const names[] = {"recompute only", "offload only", "both"};
    int n_less[2] = {0};
    for (uint64_t seed = 0; seed < 8; seed++) {
        small x = small_graph(seed, 10, false);
        mp_sweep found;
        const mp_sweep_request request = {.graph = x.graph, .n_budgets = 5, .moves = 200};
        assert_int_equal(mp_sweep_budgets(&request, &found, NULL), MP_OK);
        assert_int_equal(found.n_curves, 3);
        for (size_t k = 0; k < 3; k++) assert_string_equal(found.curves[k].solver, names[k]);
        for (size_t k = 0; k < 2; k++) {
            const mp_sweep_curve *one = &found.curves[k], *both = &found.curves[2];
            assert_true(both->smallest_bytes <= one->smallest_bytes);
            for (size_t i = 0; i < one->n; i++)
                for (size_t j = 0; j < both->n; j++) {
                    if (!one->points[i].feasible || both->points[j].budget_bytes != one->points[i].budget_bytes) continue;
                    assert_true(both->points[j].ticks <= one->points[i].ticks);
                    n_less[k] += both->points[j].ticks < one->points[i].ticks;
                }
        }
        for (size_t i = 0; i < found.curves[1].n; i++) assert_int_equal(found.curves[1].points[i].n_recomputed, 0);
        for (size_t b = 0; b < found.n_bounds; b++)
            for (size_t i = 0; i < found.curves[2].n; i++)
                if (found.curves[2].points[i].feasible &&
                    found.curves[2].points[i].budget_bytes == found.bounds[b].budget_bytes)
                    assert_true(found.bounds[b].ticks <= found.curves[2].points[i].ticks);
        mp_sweep_free(&found);
        mp_graph_free(x.graph);
    }
    assert_true(n_less[0] > 0 && n_less[1] > 0);
}

/* ---- the slab: the host memory of one run of a plan ---- */

enum { LAYERS = 8, SKIPPED = 5, MOST_STEPS = 128, GRAIN = 512 };

/* Returns a chain of layers with activations of random sizes. Backward reads every second activation. The others are read by a
 * later layer of forward. The loss node has the flag "turn". */
static mp_planning *copying_chain(uint64_t seed)
{
    static const char *const forward_kind = "activation", *const backward_kind = "activation_gradient";
    int a[LAYERS + 1], g[LAYERS + 1];
    char name[16];
    mp_planning *p = mp_planning_new("chain", 1e-9);
    for (int k = 0; k <= LAYERS; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        snprintf(name, sizeof name, "a%d", k);
        a[k] = mp_planning_add_storage(p, name, k ? forward_kind : "input", 300 + (int64_t)(seed >> 33) % 2500);
        g[k] = mp_planning_add_storage(p, name, backward_kind, 100);
    }
    for (int k = 1; k <= LAYERS; k++) {
        const int f = mp_planning_add_node(p, "f", "Layer", "forward", 100000 + (int64_t)(seed >> 40) % 999 * k, 0);
        const bool skips = k > SKIPPED && k % 2;
        assert_int_equal(mp_planning_connect(p, f, "reads", (const int[]){a[k - 1], a[skips ? k - SKIPPED : 0]}, 1 + skips),
                         MP_OK);
        assert_int_equal(mp_planning_connect(p, f, "writes", &a[k], 1), MP_OK);
    }
    const int loss = mp_planning_add_node(p, "loss", "Loss", "loss", 1, 0);
    assert_int_equal(mp_planning_connect(p, loss, "reads", &a[LAYERS], 1), MP_OK);
    assert_int_equal(mp_planning_connect(p, loss, "writes", &g[LAYERS], 1), MP_OK);
    assert_int_equal(mp_planning_flag(p, loss, "turn"), MP_OK);
    for (int k = LAYERS; k > 0; k--) {
        const int b = mp_planning_add_node(p, "b", "Layer", "backward", 200000, 0);
        assert_int_equal(mp_planning_connect(p, b, "reads", (const int[]){g[k], a[k]}, 1 + k % 2), MP_OK);
        assert_int_equal(mp_planning_connect(p, b, "writes", &g[k - 1], 1), MP_OK);
    }
    assert_int_equal(mp_planning_finish(p), MP_OK);
    for (int k = 1; k <= LAYERS; k++) a[k - 1] = a[k];
    if (mp_planning_offload(p, a, LAYERS, "pcie4", 1e10) != MP_OK) fail_msg("%s", mp_planning_message(p));
    return p;
}

typedef struct slab_item {
    int64_t begin, end, bytes, offset;
} slab_item;

static bool meet(const slab_item *a, const slab_item *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Returns the lowest height over all orders of placement, in which each item gets its lowest free offset. Such an order of an
 * optimal layout, from the bottom up, finds its height. */
static int64_t lowest_slab(slab_item *items, int n, int placed, int64_t height, int64_t best)
{
    if (height >= best || placed == n) return height;
    for (int k = placed; k < n; k++) {
        slab_item next = items[k];
        items[k] = items[placed];
        next.offset = 0;
        for (int j = 0; j < placed; j++) {
            const slab_item *other = &items[j];
            if (!meet(&next, other) || next.offset + next.bytes <= other->offset || other->offset + other->bytes <= next.offset)
                continue;
            next.offset = other->offset + other->bytes;
            j = -1; /* the items below have to be compared again */
        }
        items[placed] = next;
        const int64_t top = next.offset + next.bytes;
        const int64_t found = lowest_slab(items, n, placed + 1, top > height ? top : height, best);
        if (found < best) best = found;
        items[placed] = items[k];
        items[k] = next;
    }
    return best;
}

/* Lists the time in the slab of each storage that the plan copies out and back. Checks that offsets exist for these only. */
static int slab_items(mp_planning *p, slab_item *items)
{
    int nodes[MOST_STEPS], storages[MOST_STEPS], until[MOST_STEPS], turn = 0, count = 0;
    int64_t offsets[MOST_STEPS];
    const int n = (int)mp_planning_steps(p, nodes, MOST_STEPS);
    assert_in_range(n, 1, MOST_STEPS);
    assert_int_equal(mp_planning_copies(p, storages, until, MOST_STEPS), n);
    assert_int_equal(mp_planning_offsets(p, offsets, MOST_STEPS), n);
    while (nodes[turn] != LAYERS) turn++;
    for (int out = 0; out < n; out++) {
        int64_t end = 0;
        if (storages[out] < 0) assert_int_equal(offsets[out], -1);
        if (storages[out] < 0 || nodes[out] < 2 * LAYERS + 1) continue; /* no copy out */
        for (int t = out + 1; t < n; t++) {
            if (storages[t] != storages[out]) continue;
            assert_int_equal(offsets[t], offsets[out]);
            const int64_t stop = t < turn ? (until[t] < turn ? until[t] : turn) : out < turn ? n : until[t];
            if (stop > end) end = stop;
        }
        assert_int_equal(offsets[out] >= 0, end > 0);
        if (!end) continue;
        const int64_t bytes = (mp_planning_graph(p)->storages[storages[out]].bytes + GRAIN - 1) / GRAIN * GRAIN;
        items[count++] = (slab_item){out, end, bytes, offsets[out]};
    }
    return count;
}

TEST(a_slab_holds_the_copies_of_a_plan_and_has_the_least_height)
{
    int n_copying = 0, n_again = 0, n_shared = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        mp_planning *p = copying_chain(seed);
        slab_item items[MOST_STEPS];
        char text[32];
        const int64_t keep_all = mp_planning_number(p, "keep_all_bytes"), most = GRAIN * (2 + (int64_t)seed % 14);
        const int64_t budget = keep_all * (60 + (int64_t)seed % 30) / 100;
        snprintf(text, sizeof text, "%lld", (long long)most);
        assert_int_equal(mp_planning_set(p, "moves", "2000"), MP_OK);
        assert_int_equal(mp_planning_set(p, "bound", "no"), MP_OK);
        assert_int_equal(mp_planning_set(p, "host_bytes", text), MP_OK);
        for (int with_slab = 0; with_slab < 2; with_slab++) {
            if (with_slab) assert_int_equal(mp_planning_set(p, "slab_bytes", text), MP_OK);
            if (mp_planning_solve(p, budget) != MP_OK) continue;
            const int64_t slab = mp_planning_number(p, "slab_bytes");
            const int n = slab_items(p, items);
            int64_t top = 0, sum = 0;
            for (int k = 0; k < n; k++) {
                assert_int_equal(items[k].offset % GRAIN, 0);
                sum += items[k].bytes;
                if (items[k].offset + items[k].bytes > top) top = items[k].offset + items[k].bytes;
                for (int j = 0; j < k; j++)
                    assert_true(!meet(&items[k], &items[j]) || items[k].offset + items[k].bytes <= items[j].offset ||
                                items[j].offset + items[j].bytes <= items[k].offset);
            }
            assert_int_equal(slab, top);
            assert_int_equal(slab, lowest_slab(items, n, 0, 0, INT64_MAX));
            if (with_slab && slab > most)
                fail_msg("seed %llu: a slab of %lld bytes", (unsigned long long)seed, (long long)slab);
            n_again += !with_slab && slab > most;
            n_copying += with_slab && n > 0;
            n_shared += sum > slab;
        }
        mp_planning_free(p);
    }
    printf("%d plans copy, %d needed another search, %d share memory\n", n_copying, n_again, n_shared);
    assert_true(n_copying > 30 && n_again > 3 && n_shared > 3);
    assert_int_equal(mp_alloc_live, 0);
}

/* Returns the step that copies storage s out or back. */
static mp_step copy_step(const mp_graph *graph, int s, mp_copy_way way, int until)
{
    for (int v = 0; v < (int)graph->n_nodes; v++)
        for (int k = 0; k < (int)graph->nodes[v].n_alternatives; k++) {
            const mp_alternative *a = &graph->nodes[v].alternatives[k];
            if (mp_copy_way_of(graph, v, k) != way) continue;
            if ((way == MP_COPY_OUT ? a->reads : a->writes)[0] == s) return (mp_step){v, k, until};
        }
    fail_msg("no copy of storage %d", s);
    return (mp_step){0};
}

/* Lists keep-all of copying_chain with the activations a7 and a1 copied out and back. a7 is copied out in forward, and back
 * before node `back`; if n_ahead > 0, step n_ahead after it waits for this copy. Then a1 is copied out, and back for the last
 * node. */
static int copy_two(const mp_graph *graph, int back, int n_ahead, mp_step *steps)
{
    enum { A1 = 2, A7 = 14 };
    int n = 0;
    for (int v = 0; v <= 2 * LAYERS; v++) {
        if (v == LAYERS - 1) steps[n++] = copy_step(graph, A7, MP_COPY_OUT, 0);
        if (v == back) steps[n] = copy_step(graph, A7, MP_COPY_IN, n_ahead ? n + n_ahead : 0), n++;
        if (v == back + 1) steps[n++] = copy_step(graph, A1, MP_COPY_OUT, 0);
        if (v == 2 * LAYERS) steps[n++] = copy_step(graph, A1, MP_COPY_IN, 0);
        steps[n++] = (mp_step){.node = v};
    }
    return n;
}

/* a1 has 1263 bytes, three grains. a7 has 2205 bytes, five grains. A copy back of a7 in backward keeps its place until the end,
 * beside a1. A copy back that begins in forward ends at the turn, so a1 takes its place. */
TEST(a_slab_keeps_a_place_of_forward_until_the_turn_or_the_end)
{
    static const struct {
        int back, n_ahead;
        int64_t slab_bytes;
    } cases[] = {{LAYERS + 2, 0, 8 * GRAIN}, {LAYERS, 4, 5 * GRAIN}};
    for (int k = 0; k < 2; k++) {
        mp_planning *p = copying_chain(3);
        mp_step steps[MOST_STEPS];
        mp_plan *plan;
        mp_error err = {0};
        const int n = copy_two(mp_planning_graph(p), cases[k].back, cases[k].n_ahead, steps);
        if (mp_plan_new(mp_planning_graph(p), "", steps, (size_t)n, &plan, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(mp_planning_take(p, mp_planning_number(p, "keep_all_bytes"), plan), MP_OK);
        assert_int_equal(mp_planning_number(p, "slab_bytes"), cases[k].slab_bytes);
        mp_plan_free(plan);
        mp_planning_free(p);
    }
    assert_int_equal(mp_alloc_live, 0);
}

TEST(a_supplied_plan_must_fit_the_slab)
{
    mp_planning *p = copying_chain(3);
    mp_plan *plan;
    char text[32];
    const int64_t budget = mp_planning_number(p, "keep_all_bytes") * 75 / 100;
    assert_int_equal(mp_planning_offsets(p, NULL, 0), 0);
    assert_int_equal(mp_planning_solve(p, budget), MP_OK);
    const int64_t slab = mp_planning_number(p, "slab_bytes");
    assert_true(slab > GRAIN);
    const mp_plan *found = mp_planning_plan(p);
    assert_int_equal(mp_plan_new(mp_planning_graph(p), "", found->steps, found->n_steps, &plan, NULL), MP_OK);
    snprintf(text, sizeof text, "%lld", (long long)slab - 1);
    assert_int_equal(mp_planning_set(p, "slab_bytes", text), MP_OK);
    assert_int_equal(mp_planning_take(p, budget, plan), MP_INVALID);
    snprintf(text, sizeof text, "the plan needs %lld bytes on", (long long)slab);
    assert_non_null(strstr(mp_planning_message(p), text));
    assert_int_equal(mp_planning_number(p, "slab_bytes"), slab); /* the earlier answer remains */
    snprintf(text, sizeof text, "%lld", (long long)slab);
    assert_int_equal(mp_planning_set(p, "slab_bytes", text), MP_OK);
    int n_failed = 0; /* memory may run out at any allocation, and the earlier answer remains */
    for (mp_status st = MP_NOMEM; st != MP_OK; n_failed += st != MP_OK) {
        mp_alloc_budget = n_failed;
        st = mp_planning_take(p, budget, plan);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        assert_int_equal(mp_planning_number(p, "slab_bytes"), slab);
    }
    assert_true(n_failed > 5);
    mp_plan_free(plan);
    mp_planning_free(p);
    assert_int_equal(mp_alloc_live, 0);
}
