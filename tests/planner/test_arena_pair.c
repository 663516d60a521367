/* test_arena_pair.c - planner/arena: two plans in one arena, compared with a simulation of every tick. */
#include "estimator/base/memory.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "planner/math/splitmix.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

typedef unsigned long long number; /* type to print a seed on failure */

enum { MOST_STEPS = 4096 };

/* A plan of a random graph. Steps take 0 to 3 ticks; for every other seed 1 to 3. */
typedef struct half {
    mp_graph *graph;
    mp_plan *plan;
    int64_t starts[MOST_STEPS];
} half;

static void draw(half *h, uint64_t seed, int64_t least)
{
    mp_error err = {0};
    size_t n;
    h->graph = random_graph(seed, 2 + (int)(seed % 7), MP_FUSE_NONE, false);
    mp_step *steps = random_schedule(h->graph, seed, (int)(seed % 3) * 4, &n);
    assert_true(n < MOST_STEPS);
    if (mp_plan_new(h->graph, "test", steps, n, &h->plan, &err) != MP_OK) fail_msg("seed %llu: %s", (number)seed, err.message);
    mp_free(steps);
    h->starts[0] = 0;
    for (size_t t = 0; t < n; t++)
        h->starts[t + 1] = h->starts[t] + least + (int64_t)(mp_splitmix_next(&seed) % (uint64_t)(4 - least));
}

static void release(half *h)
{
    mp_plan_free(h->plan);
    mp_graph_free(h->graph);
}

/* True if a place is live in the tick that begins at `now`, if its plan is delayed by `delay`. */
static bool is_live(const half *h, const mp_place *p, int64_t delay, int64_t period, int64_t now)
{
    const int64_t own = ((now - delay) % period + period) % period;
    return h->starts[p->begin] <= own && own < h->starts[p->end];
}

/* Checks every tick of the period: live places of both plans must not overlap. Returns the maximum of the live bytes. */
static int64_t look(const half halves[2], const mp_arena_pair *pair, int64_t delay, int64_t period, uint64_t seed)
{
    int64_t most = 0;
    for (int64_t now = 0; now < period; now++) {
        for (size_t i = 0; i < pair->layouts[0].n_places; i++) {
            const mp_place *p = &pair->layouts[0].places[i];
            if (!is_live(&halves[0], p, 0, period, now)) continue;
            for (size_t k = 0; k < pair->layouts[1].n_places; k++) {
                const mp_place *q = &pair->layouts[1].places[k];
                if (!is_live(&halves[1], q, delay, period, now)) continue;
                if (p->offset < q->offset + q->bytes && q->offset < p->offset + p->bytes)
                    fail_msg("seed %llu: storages %d and %d lie in one place at %lld", (number)seed, p->storage, q->storage,
                             (long long)now);
            }
        }
        int64_t live = 0;
        for (int j = 0; j < 2; j++) {
            MP_OWNED_BY(mp_timeline_free) mp_timeline *tl = NULL;
            mp_error err = {0};
            const mp_plan *plan = halves[j].plan;
            assert_int_equal(mp_timeline_build(halves[j].graph, plan->steps, plan->n_steps, &tl, &err), MP_OK);
            const int64_t own = ((now - j * delay) % period + period) % period;
            for (size_t t = 0; t < plan->n_steps; t++)
                if (halves[j].starts[t] <= own && own < halves[j].starts[t + 1]) live += tl->live_bytes[t];
        }
        if (live > most) most = live;
    }
    return most;
}

/* Checks a plan with its places in the common arena: the checker must accept them. */
static void check_alone(const half *h, const mp_tier_layout *layout, uint64_t seed)
{
    mp_error err = {0};
    mp_plan own = *h->plan;
    own.places = layout->places;
    own.n_places = layout->n_places;
    own.arena_bytes = layout->arena_bytes;
    own.budget_bytes = own.static_bytes + own.arena_bytes;
    if (mp_plan_check(h->graph, &own, &err) != MP_OK) fail_msg("seed %llu: %s", (number)seed, err.message);
}

TEST(two_plans_in_one_arena_never_meet_at_any_tick)
{
    int n_tight = 0, n_even = 0, n_proved = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        half halves[2];
        mp_error err = {0};
        mp_arena_pair pair;
        uint64_t chance = seed;
        for (int j = 0; j < 2; j++) draw(&halves[j], seed * 2 + (uint64_t)j, (int64_t)(seed % 2));
        int64_t period = 1;
        for (int j = 0; j < 2; j++) {
            const int64_t end = halves[j].starts[halves[j].plan->n_steps];
            period = end > period ? end : period;
        }
        if (seed % 3 == 0) period += 2;
        const int64_t delay = seed % 5 == 0 ? 0 : (int64_t)(mp_splitmix_next(&chance) % (uint64_t)period);
        const mp_arena_half both[2] = {{halves[0].graph, halves[0].plan, halves[0].starts},
                                       {halves[1].graph, halves[1].plan, halves[1].starts}};
        if (mp_arena_layout_pair(both, period, delay, 0, &pair, &err) != MP_OK)
            fail_msg("seed %llu: %s", (number)seed, err.message);
        const int64_t most = look(halves, &pair, delay, period, seed);
        assert_true(pair.arena_bytes >= most && pair.bound_bytes <= pair.arena_bytes && pair.bound_bytes >= most);
        for (int j = 0; j < 2; j++) check_alone(&halves[j], &pair.layouts[j], seed);
        const bool is_even =
            seed % 2 && halves[0].graph->alignment == halves[1].graph->alignment; /* then no size is rounded up */
        n_even += is_even;
        n_tight += is_even && pair.arena_bytes == most;
        n_proved += pair.arena_bytes == pair.bound_bytes;
        mp_arena_pair_free(&pair);
        for (int j = 0; j < 2; j++) release(&halves[j]);
    }
    assert_true(n_proved >= 115 && n_even >= 20 && n_tight == n_even);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(what_is_no_clock_is_refused)
{
    half halves[2];
    mp_error err = {0};
    mp_arena_pair pair;
    for (int j = 0; j < 2; j++) draw(&halves[j], 3 + (uint64_t)j, 0);
    const mp_arena_half both[2] = {{halves[0].graph, halves[0].plan, halves[0].starts},
                                   {halves[1].graph, halves[1].plan, halves[1].starts}};
    assert_int_equal(mp_arena_layout_pair(both, 1000, 1000, 0, &pair, &err), MP_INVALID);
    assert_int_equal(mp_arena_layout_pair(both, 1000, -1, 0, &pair, &err), MP_INVALID);
    assert_int_equal(mp_arena_layout_pair(both, 2, 1, 0, &pair, &err), MP_INVALID);
    halves[1].starts[1] = 900;
    assert_int_equal(mp_arena_layout_pair(both, 1000, 1, 0, &pair, &err), MP_INVALID);
    for (int j = 0; j < 2; j++) release(&halves[j]);
    assert_int_equal(mp_alloc_live, 0);
}
