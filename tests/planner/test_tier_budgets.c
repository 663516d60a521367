/* test_tier_budgets.c - tiers besides the device: offsets, their check, budgets, and JSON. On graphs small enough to try
 * everything: the value of more memory and of faster copies, and the sufficient size of a tier. Also the three curves of a
 * graph with copies. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/floor.h"
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
