/* test_tier_places.c - offsets in tiers besides the device: laid out, checked by the checker alone, within budgets, and as
 * JSON. */
#include <unistd.h>

#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/training.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

/* A plan with offsets of an order of random_copies; NULL: the order breaks a rule. */
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

/* Spoils the tier's offsets in one way; returns what the checker has to say, NULL: this plan cannot be spoilt so. */
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
        return "says";
    case 4:
        last->end++;
        return "says it ends";
    case 5:
        last->offset += alignment - 1;
        return alignment > 1 ? "is no multiple" : NULL;
    case 6:
        for (size_t k = 0; k + 1 < t->n_places; k++)
            if (t->places[k].begin < last->end && last->begin < t->places[k].end && t->places[k].begin + 1 < t->places[k].end) {
                last->offset = t->places[k].offset; /* a place that begins in the other's last step could share it */
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

/* To a disk each copy takes whole blocks, many times its bytes here: what the search counts fits long before the arena does. */
TEST(the_arena_of_a_tier_keeps_to_its_budget)
{
    enum { BLOCK = MP_DISK_BLOCK_BYTES };
    int n = 0, n_over = 0, n_used = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        const mp_link link = {.name = "near", .out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9};
        mp_graph *graph = random_graph(seed, 8 + (int)(seed % 8), (mp_fuse)(seed % 3), false);
        mp_answer live = {0}, answer = {0};
        assert_int_equal(mp_graph_offload(graph, &(mp_offload){.disk = &link, .least_bytes = 1}, NULL, NULL), MP_OK);
        mp_request request = {.graph = graph, .solver = "none", .budget_bytes = MP_NO_LIMIT};
        assert_int_equal(mp_solve(&request, &live, NULL), MP_OK);
        request = (mp_request){.graph = graph,
                               .solver = "copy-only",
                               .budget_bytes = live.floor_bytes + (live.plan->peak_bytes - live.floor_bytes) / 2,
                               .tier_bytes = {0, BLOCK * (int64_t)(2 + seed % 3)},
                               .moves = 60};
        mp_answer_free(&live);
        assert_int_equal(mp_solve(&request, &live, NULL), MP_OK);
        if (live.plan) {
            assert_int_equal(mp_arena_layout(graph, live.plan, NULL), MP_OK);
            n_over += mp_plan_tier_need(graph, live.plan, 1) > request.tier_bytes[1];
        }
        assert_int_equal(mp_solve_with_arena(&request, &answer, NULL), MP_OK);
        if (answer.plan) {
            n++;
            n_used += answer.plan->tiers[1].n_places > 0;
            assert_true(mp_plan_need(answer.plan) <= request.budget_bytes);
            assert_true(mp_plan_tier_need(graph, answer.plan, 1) <= request.tier_bytes[1]);
            assert_int_equal(answer.plan->tiers[1].budget_bytes, request.tier_bytes[1]);
            assert_int_equal(answer.plan->tiers[1].arena_bytes % BLOCK, 0);
        }
        mp_answer_free(&live);
        mp_answer_free(&answer);
        mp_graph_free(graph);
    }
    printf("%d plans, %d use the disk, %d were over\n", n, n_used, n_over);
    assert_true(n > 15 && n_over > 5 && n_used > 5);
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
