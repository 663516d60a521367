/* test_share.c - the split of a card's memory among jobs, against all splits of small step functions and of planned chains. */
#include "estimator/base/memory.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/studies/share.h"
#include "planner/math/splitmix.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"

enum { JOBS = 4, OPTIONS = 5 };

/* Randomly drawn jobs. */
typedef struct drawn {
    mp_share_option options[JOBS][OPTIONS];
    mp_share_job jobs[JOBS];
    size_t n;
} drawn;

static int64_t up_to(uint64_t *seed, int64_t most)
{
    return (int64_t)(mp_splitmix_next(seed) % (uint64_t)(most + 1));
}

static void draw(uint64_t *seed, int64_t largest, drawn *out)
{
    out->n = (size_t)(2 + up_to(seed, JOBS - 2));
    for (size_t i = 0; i < out->n; i++) {
        mp_share_option *o = out->options[i];
        const size_t n = (size_t)(1 + up_to(seed, OPTIONS - 1));
        o[0] = (mp_share_option){up_to(seed, largest), largest * OPTIONS + up_to(seed, largest)};
        for (size_t k = 1; k < n; k++)
            o[k] = (mp_share_option){o[k - 1].bytes + 1 + up_to(seed, largest), o[k - 1].ticks - 1 - up_to(seed, largest - 1)};
        out->jobs[i] = (mp_share_job){.options = o, .n = n, .static_bytes = up_to(seed, o[0].bytes)};
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Computes the bytes and ticks of a split by the formulas of share.h; `total` is the sum of the ticks for any goal. */
static void take(const mp_share_request *r, const size_t *chosen, int64_t *bytes, int64_t *ticks, int64_t *total)
{
    int64_t turn = 0;
    *bytes = *ticks = *total = 0;
    for (size_t i = 0; i < r->n_jobs; i++) {
        const mp_share_job *job = &r->jobs[i];
        const mp_share_option *o = &job->options[chosen[i]];
        *bytes += r->way == MP_SHARE_TURNS ? job->static_bytes : o->bytes;
        turn = larger(turn, o->bytes - job->static_bytes);
        *total += o->ticks;
        *ticks = r->goal == MP_SHARE_TOTAL ? *total : larger(*ticks, o->ticks);
    }
    if (r->way == MP_SHARE_TURNS) *bytes += turn;
}

/* Finds the same answer by trying every split. *total is the minimum over all best splits. */
static mp_share_split by_trying(const mp_share_request *r, int64_t *total)
{
    mp_share_split best = {.least_bytes = INT64_MAX, .ticks = INT64_MAX, .next_bytes = -1, .next_ticks = -1};
    for (int round = 0; round < 2; round++) { /* the second round knows the best ticks */
        size_t k[JOBS] = {0};
        for (bool is_over = false; !is_over;) {
            int64_t bytes, ticks, all;
            take(r, k, &bytes, &ticks, &all);
            if (bytes < best.least_bytes) best.least_bytes = bytes;
            const bool fits = bytes <= r->capacity_bytes;
            if (!round && fits && (ticks < best.ticks || (ticks == best.ticks && bytes < best.bytes))) {
                best.fits = true;
                best.bytes = bytes;
                best.ticks = ticks;
                *total = INT64_MAX;
            }
            if (round && fits && ticks == best.ticks && all < *total) *total = all;
            const bool is_sooner =
                best.next_bytes < 0 || bytes < best.next_bytes || (bytes == best.next_bytes && ticks < best.next_ticks);
            if (round && best.fits && ticks < best.ticks && is_sooner) {
                best.next_bytes = bytes;
                best.next_ticks = ticks;
            }
            size_t i = 0;
            while (i < r->n_jobs && ++k[i] == r->jobs[i].n) k[i++] = 0;
            is_over = i == r->n_jobs;
        }
    }
    return best;
}

static mp_share_split split(const mp_share_request *r)
{
    mp_share_split found;
    mp_error err = {0};
    if (mp_share_split_of(r, &found, &err) != MP_OK) fail_msg("%s", err.message);
    return found;
}

static void compare(const mp_share_request *r)
{
    int64_t total = 0, bytes, ticks, all;
    const mp_share_split expected = by_trying(r, &total);
    mp_share_split found = split(r);
    assert_int_equal(found.fits, expected.fits);
    assert_int_equal(found.least_bytes, expected.least_bytes);
    if (found.fits) {
        take(r, found.chosen, &bytes, &ticks, &all);
        assert_int_equal(found.ticks, expected.ticks);
        assert_int_equal(ticks, found.ticks);
        assert_int_equal(all, total);
        assert_int_equal(bytes, found.bytes);
        assert_true(bytes <= r->capacity_bytes);
        if (r->goal == MP_SHARE_TOTAL) assert_int_equal(found.bytes, expected.bytes);
        assert_int_equal(found.next_bytes, expected.next_bytes);
        assert_int_equal(found.next_ticks, expected.next_ticks);
        assert_true(found.hull_ticks <= found.ticks);
    }
    mp_share_split_free(&found);
}

TEST(every_split_is_the_best_of_all)
{
    uint64_t seed = 41;
    for (int round = 0; round < 3000; round++) {
        drawn x;
        draw(&seed, round % 2 ? 6 : 1000, &x); /* small numbers give ties */
        for (int way = 0; way <= MP_SHARE_TURNS; way++)
            for (int goal = 0; goal < MP_N_SHARE_GOALS; goal++)
                compare(&(mp_share_request){.jobs = x.jobs,
                                            .n_jobs = x.n,
                                            .way = (mp_share_way)way,
                                            .goal = (mp_share_goal)goal,
                                            .capacity_bytes = up_to(&seed, round % 2 ? 60 : 10000)});
    }
}

/* The certificate, job by job as stated in share.h, in integers: the price is price_ticks / price_bytes. */
TEST(the_price_of_a_byte_proves_the_bound_job_by_job)
{
    uint64_t seed = 7;
    int n_tight = 0;
    for (int round = 0; round < 3000; round++) {
        drawn x;
        draw(&seed, 100, &x);
        const mp_share_request r = {.jobs = x.jobs, .n_jobs = x.n, .capacity_bytes = up_to(&seed, 1500)};
        mp_share_split found = split(&r);
        int64_t sum = -found.price_ticks * r.capacity_bytes;
        for (size_t i = 0; i < x.n && found.fits; i++) {
            int64_t least = INT64_MAX;
            for (size_t k = 0; k < x.jobs[i].n; k++) {
                const mp_share_option *o = &x.jobs[i].options[k];
                const int64_t paid = o->ticks * found.price_bytes + found.price_ticks * o->bytes;
                if (paid < least) least = paid;
            }
            sum += least;
        }
        if (found.fits) {
            assert_true(found.hull_ticks * found.price_bytes >= sum && (found.hull_ticks - 1) * found.price_bytes < sum);
            n_tight += found.hull_ticks == found.ticks && found.price_ticks;
        }
        mp_share_split_free(&found);
    }
    assert_in_range(n_tight, 1, 3000); /* for some prices the bound equals the ticks of the split */
}

TEST(the_example_of_the_header_is_so)
{
    const mp_share_option a[] = {{10, 9}, {20, 5}}, b[] = {{10, 4}, {15, 3}};
    const mp_share_job jobs[] = {{.options = a, .n = 2}, {.options = b, .n = 2}};
    mp_share_split found = split(&(mp_share_request){.jobs = jobs, .n_jobs = 2, .capacity_bytes = 30});
    assert_int_equal(found.ticks, 9);
    assert_int_equal(found.hull_ticks, 9);
    assert_int_equal(found.chosen[0], 1);
    assert_int_equal(found.chosen[1], 0);
    assert_int_equal(found.next_bytes, 35);
    assert_int_equal(found.next_ticks, 8);
    mp_share_split_free(&found);
}

TEST(what_is_no_step_function_is_refused)
{
    const mp_share_option slower[] = {{10, 5}, {20, 5}}, large[] = {{INT64_MAX - 1, 5}}, *const bad[] = {slower, large};
    for (size_t k = 0; k < 2; k++) {
        const mp_share_job jobs[] = {{.options = bad[k], .n = 2 - k}, {.options = bad[k], .n = 2 - k}};
        mp_share_split found = {0};
        mp_error err = {0};
        const mp_share_request r = {.jobs = jobs, .n_jobs = 2, .capacity_bytes = 100};
        assert_int_equal(mp_share_split_of(&r, &found, &err), k ? MP_LIMIT : MP_INVALID);
        assert_non_null(strstr(err.message, k ? "63 bits" : "option 2 of job 1"));
    }
    mp_share_split found;
    assert_int_equal(mp_share_split_of(&(mp_share_request){.capacity_bytes = 1}, &found, NULL), MP_INVALID);
}

/* ---- plans ---- */

enum { LAYERS = 16, BYTES = 1000, STATIC = 5000, STEPS = 3, UNITS = 2 };

static mp_graph *chain(void)
{
    mp_graph *graph;
    assert_int_equal(chain_graph(LAYERS, BYTES, STATIC, true, &graph, NULL), MP_OK);
    return graph;
}

/* Checks that plans are valid, that options match their plans, and that both step functions are sorted. */
static void compare_plans(const mp_graph *graph, const mp_share_plans *found)
{
    for (size_t k = 0; k < found->n; k++) {
        const mp_share_option *o = &found->options[k];
        assert_int_equal(mp_plan_check(graph, found->plans[k], NULL), MP_OK);
        assert_int_equal(mp_plan_need(found->plans[k]), o->bytes);
        assert_int_equal(o->ticks, found->plans[k]->ticks * STEPS * UNITS);
        if (k) assert_true(o->bytes > o[-1].bytes && o->ticks < o[-1].ticks);
        assert_true(o->bytes >= found->bounds[0].bytes);
        for (size_t b = 0; b < found->n_bounds; b++)
            if (found->bounds[b].bytes <= o->bytes && (b + 1 == found->n_bounds || o->bytes < found->bounds[b + 1].bytes))
                assert_true(found->bounds[b].ticks <= o->ticks);
    }
    for (size_t b = 1; b < found->n_bounds; b++)
        assert_true(found->bounds[b].bytes > found->bounds[b - 1].bytes && found->bounds[b].ticks < found->bounds[b - 1].ticks);
    assert_int_equal(found->bounds[found->n_bounds - 1].ticks, found->keep_all_ticks);
    assert_int_equal(found->options[found->n - 1].bytes, chain_keep_all_bytes(LAYERS, BYTES, STATIC));
}

/* For each budget, the step functions give the same plan and bound as a search for that budget. */
TEST(plans_and_bounds_are_those_of_the_budgets_whatever_their_order)
{
    mp_graph *graph = chain();
    mp_share_plans found;
    mp_error err = {0};
    const mp_share_plans_request request = {
        .graph = graph, .n_budgets = 4, .n_steps = STEPS, .unit_seconds = 1.0 / UNITS}; /* a tick of the graph is one second */
    if (mp_share_plans_of(&request, &found, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(found.static_bytes, STATIC);
    assert_true(found.n >= 3 && found.n_bounds >= 3);
    compare_plans(graph, &found);
    const int64_t from = found.options[0].bytes, to = found.keep_all_bytes;
    const int64_t budgets[] = {(from + to) / 2,     from + 1, to - 1,      (from + to) / 2,
                               (from + 2 * to) / 3, from,     from + 1000, to + 1000};
    for (size_t k = 0; k < sizeof budgets / sizeof *budgets; k++) {
        mp_answer answer;
        const mp_request one = {.graph = graph, .budget_bytes = budgets[k], .wants_bound = true};
        assert_int_equal(mp_share_plans_add(&request, budgets[k], &found, NULL), MP_OK);
        compare_plans(graph, &found);
        assert_int_equal(mp_solve_with_arena(&one, &answer, NULL), MP_OK);
        size_t o = found.n, b = found.n_bounds;
        while (found.options[o - 1].bytes > budgets[k]) o--;
        while (found.bounds[b - 1].bytes > budgets[k]) b--;
        assert_true(found.options[o - 1].ticks <= answer.plan->ticks * STEPS * UNITS);
        assert_true(found.bounds[b - 1].ticks >= answer.bound.ticks * STEPS * UNITS);
        mp_answer_free(&answer);
    }
    mp_share_plans_free(&found);
    mp_graph_free(graph);
}

/* If all jobs fit with keep-all, the split of keep-all alone takes no more time than the split of all plans. Both parts
 * together find the plans of the whole. */
TEST(keep_all_is_enough_where_all_of_it_fits)
{
    mp_graph *graph = chain();
    mp_share_plans whole, parts;
    const mp_share_plans_request request = {.graph = graph, .n_budgets = 4};
    assert_int_equal(mp_share_plans_of(&request, &whole, NULL), MP_OK);
    assert_int_equal(mp_share_plans_keep_all(&request, &parts, NULL), MP_OK);
    assert_int_equal(parts.n, 1);
    const mp_share_job all = {.options = whole.options, .n = whole.n, .static_bytes = whole.static_bytes},
                       one = {.options = parts.options, .n = parts.n, .static_bytes = parts.static_bytes};
    const mp_share_job pairs[2][2] = {{all, all}, {one, one}};
    mp_share_split splits[2];
    for (int k = 0; k < 2; k++)
        assert_int_equal(
            mp_share_split_of(&(mp_share_request){.jobs = pairs[k], .n_jobs = 2, .capacity_bytes = 2 * whole.keep_all_bytes},
                              &splits[k], NULL),
            MP_OK);
    assert_true(splits[0].fits && splits[1].fits && splits[0].ticks == splits[1].ticks && splits[1].next_bytes < 0);
    assert_int_equal(mp_share_plans_more(&request, &parts, NULL), MP_OK);
    assert_int_equal(parts.n, whole.n);
    for (size_t k = 0; k < whole.n; k++)
        assert_true(parts.options[k].bytes == whole.options[k].bytes && parts.options[k].ticks == whole.options[k].ticks);
    for (int k = 0; k < 2; k++) mp_share_split_free(&splits[k]);
    mp_share_plans_free(&whole);
    mp_share_plans_free(&parts);
    mp_graph_free(graph);
}

static bool stops_at_once(size_t k, size_t n, const mp_progress *search, void *data)
{
    (void)k, (void)n, (void)search, (void)data;
    return false;
}

TEST(a_job_that_is_stopped_still_has_keep_all)
{
    mp_graph *graph = chain();
    mp_share_plans found;
    assert_int_equal(mp_share_plans_of(&(mp_share_plans_request){.graph = graph, .progress = stops_at_once}, &found, NULL),
                     MP_OK);
    assert_true(found.stopped);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.options[0].bytes, chain_keep_all_bytes(LAYERS, BYTES, STATIC));
    mp_share_plans_free(&found);
    mp_graph_free(graph);
}
