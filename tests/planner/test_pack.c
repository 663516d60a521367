/* test_pack.c - planner/pack against all placement orders of small cases, with and without each of its rules; its limits; and
 * its checker. */
#include "estimator/base/memory.h"
#include "memplan/pack.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { ITEMS = 8, TIMES = 10, FEW = 4, SEEDS = 600 };

typedef unsigned long long number; /* type to print a seed on failure */

typedef struct puzzle {
    int n;
    int64_t sizes[ITEMS][TIMES]; /* size per item and time; 0: not live */
    mp_pack_item items[ITEMS];
    mp_pack_piece pieces[ITEMS * TIMES];
    mp_pack_problem packing;
    int order[ITEMS];
    int64_t offsets[ITEMS], lowest; /* lowest arena of all orders; INT64_MAX: there is no placement */
} puzzle;

static int64_t largest(const int64_t *sizes)
{
    int64_t most = 0;
    for (int t = 0; t < TIMES; t++)
        if (sizes[t] > most) most = sizes[t];
    return most;
}

/* Tries every order, and places each item directly above all earlier items that are live with it. The order by offset of an
 * optimal placement gives that placement, so the search finds the lowest arena. */
static void try_all(puzzle *p, int k, int64_t height)
{
    if (height >= p->lowest) return;
    if (k == p->n) p->lowest = height;
    for (int x = 0; x < p->n; x++) {
        const int64_t a = p->items[x].alignment, size = largest(p->sizes[x]);
        int64_t at = 0;
        bool used = false;
        for (int j = 0; j < k; j++) used |= p->order[j] == x;
        if (used) continue;
        for (int t = 0; t < TIMES; t++)
            for (int j = 0; j < k && p->sizes[x][t]; j++) {
                const int y = p->order[j];
                if (p->sizes[y][t] && p->offsets[y] + p->sizes[y][t] > at) at = p->offsets[y] + p->sizes[y][t];
            }
        at = (at + a - 1) / a * a;
        if (p->items[x].fixed >= 0 && at > p->items[x].fixed) continue;
        if (p->items[x].fixed >= 0) at = p->items[x].fixed;
        p->order[k] = x;
        p->offsets[x] = at;
        try_all(p, k + 1, at + size > height ? at + size : height);
    }
}

/* Draws items of one size, of several sizes with gaps between, identical, aligned and fixed items. */
static void make_puzzle(puzzle *p, uint64_t seed)
{
    random_source random = {seed};
    size_t n_pieces = 0;
    *p = (puzzle){.n = 1 + (int)(seed % ITEMS), .lowest = INT64_MAX};
    for (int x = 0; x < p->n; x++) {
        const int from = random_below(&random, TIMES), to = from + random_below(&random, TIMES - from);
        int64_t size = 1 + random_below(&random, 12);
        p->items[x] = (mp_pack_item){
            .alignment = random_chance(&random, 25) ? 1 + random_below(&random, 8) : 1, .fixed = -1, .offset = -7};
        const bool stairs = seed % 3 == 0 && random_chance(&random, 40), again = x && random_chance(&random, 25);
        for (int t = from; t <= to; t++) {
            p->sizes[x][t] = size;
            if (stairs && random_chance(&random, 40)) size = random_below(&random, 12);
        }
        p->sizes[x][from] += !p->sizes[x][from];
        if (again) {
            memcpy(p->sizes[x], p->sizes[x - 1], sizeof *p->sizes);
            p->items[x].alignment = p->items[x - 1].alignment;
        }
        if (seed % 4 == 1 && random_chance(&random, 25)) p->items[x].fixed = random_below(&random, 15) * p->items[x].alignment;
        p->items[x].piece = (int)n_pieces;
        for (int t = 0; t < TIMES; t++) {
            if (!p->sizes[x][t]) continue;
            if (t && p->sizes[x][t - 1] == p->sizes[x][t])
                p->pieces[n_pieces - 1].end = 3 * t + 3;
            else
                p->pieces[n_pieces++] = (mp_pack_piece){3 * t, 3 * t + 3, p->sizes[x][t]};
        }
        p->items[x].n_pieces = (int)n_pieces - p->items[x].piece;
    }
    p->packing = (mp_pack_problem){p->items, (size_t)p->n, p->pieces, n_pieces};
}

static bool overlap(const puzzle *p)
{
    for (int t = 0; t < TIMES; t++)
        for (int x = 0; x < p->n; x++)
            for (int y = 0; y < x; y++)
                if (p->sizes[x][t] && p->sizes[y][t] && p->items[x].offset < p->items[y].offset + p->sizes[y][t] &&
                    p->items[y].offset < p->items[x].offset + p->sizes[x][t])
                    return true;
    return false;
}

static void expect_lowest(puzzle *p, number seed, unsigned without, int64_t *nodes)
{
    const mp_pack_options options = {.without = without};
    mp_pack_result r;
    mp_error err = {0};
    const bool any = p->lowest < INT64_MAX;
    for (int x = 0; x < p->n; x++) p->items[x].offset = -7;
    if (mp_pack_minimize(&p->packing, -1, &options, &r, &err) != MP_OK) fail_msg("seed %llu: %s", seed, err.message);
    *nodes += r.nodes;
    if (r.verdict != (any ? MP_PACK_PLACED : MP_PACK_INFEASIBLE) || (any && (r.height != p->lowest || r.bound != p->lowest)))
        fail_msg("seed %llu without %u: verdict %d, height %lld, bound %lld, of all orders %lld", seed, without, (int)r.verdict,
                 (long long)r.height, (long long)r.bound, (long long)p->lowest);
    if (!any) return;
    if (mp_pack_check(&p->packing, p->lowest, &err) != MP_OK) fail_msg("seed %llu: %s", seed, err.message);
    assert_int_equal(mp_pack_check(&p->packing, p->lowest - 1, NULL), MP_REFUTED);
    if (overlap(p)) fail_msg("seed %llu: two overlap", seed);
}

TEST(the_lowest_is_the_lowest_of_all_orders_without_any_rule_too)
{
    static puzzle p;
    int64_t nodes = 0, without[7] = {0}, none = 0, bound = 0; /* none: without any rule */
    int n_infeasible = 0, n_above = 0;
    for (number seed = 1; seed <= SEEDS; seed++) {
        make_puzzle(&p, seed);
        try_all(&p, 0, 0);
        n_infeasible += p.lowest == INT64_MAX;
        expect_lowest(&p, seed, 0, &nodes);
        assert_int_equal(mp_pack_bound(&p.packing, &bound, NULL), MP_OK);
        n_above += p.lowest > bound;
        for (int rule = 0; 1 << rule < MP_PACK_RULES; rule++) expect_lowest(&p, seed, 1u << rule, &without[rule]);
        if (p.n <= FEW) expect_lowest(&p, seed, MP_PACK_RULES, &none);
    }
    assert_true(n_infeasible > 10 && n_above > 40); /* fewer would mean that the cases are too easy */
    for (int rule = 0; 1 << rule < MP_PACK_RULES; rule++) assert_true(without[rule] > nodes); /* each rule prunes some nodes */
    assert_int_equal(mp_alloc_live, 0);
}

TEST(a_capacity_too_small_is_refused_with_proof)
{
    static puzzle p;
    for (number seed = 1; seed <= SEEDS; seed++) {
        mp_pack_result r;
        make_puzzle(&p, seed);
        try_all(&p, 0, 0);
        if (p.lowest == INT64_MAX) continue;
        assert_int_equal(mp_pack_solve(&p.packing, p.lowest - 1, NULL, &r, NULL), MP_OK);
        if (r.verdict != MP_PACK_INFEASIBLE || r.height != -1 || r.bound != p.lowest) fail_msg("seed %llu", seed);
        for (int x = 0; x < p.n; x++) assert_int_equal(p.items[x].offset, -7);
        assert_int_equal(mp_pack_solve(&p.packing, p.lowest, NULL, &r, NULL), MP_OK);
        if (r.verdict != MP_PACK_PLACED || r.height != p.lowest || r.bound > p.lowest) fail_msg("seed %llu", seed);
        assert_int_equal(mp_pack_check(&p.packing, p.lowest, NULL), MP_OK);
        assert_int_equal(mp_pack_solve(&p.packing, p.lowest + 5, NULL, &r, NULL), MP_OK);
        assert_int_equal(r.verdict, MP_PACK_PLACED);
        assert_int_equal(mp_pack_check(&p.packing, p.lowest + 5, NULL), MP_OK);
    }
}

/* Starts from a known placement, or stops at a height that is low enough. */
TEST(it_ends_where_it_is_asked_to)
{
    static puzzle p;
    for (number seed = 1; seed <= SEEDS; seed++) {
        mp_pack_options options = {0};
        mp_pack_result r;
        int64_t sum = 0;
        make_puzzle(&p, seed);
        try_all(&p, 0, 0);
        if (seed % 4 == 1) continue; /* these cases have fixed items */
        for (int x = 0; x < p.n; x++) {
            const int64_t a = p.items[x].alignment;
            p.items[x].offset = sum = (sum + a - 1) / a * a;
            sum += largest(p.sizes[x]);
        }
        options.enough = p.lowest + (sum - p.lowest) / 2;
        assert_int_equal(mp_pack_minimize(&p.packing, sum, &options, &r, NULL), MP_OK);
        if (r.verdict != MP_PACK_PLACED || r.height > options.enough || r.bound > p.lowest) fail_msg("seed %llu", seed);
        assert_int_equal(mp_pack_check(&p.packing, r.height, NULL), MP_OK);
        options.enough = p.lowest - 1;
        assert_int_equal(mp_pack_minimize(&p.packing, r.height, &options, &r, NULL), MP_OK);
        if (options.enough && (r.height < p.lowest || r.bound != p.lowest)) fail_msg("seed %llu", seed);
        assert_int_equal(mp_pack_check(&p.packing, r.height, NULL), MP_OK);
    }
}

/* ---- a case that takes a long time ---- */

enum { MANY = 60 };

typedef struct crowd {
    mp_pack_item items[MANY];
    mp_pack_piece pieces[MANY];
    mp_pack_problem packing;
    int questions, patience;
} crowd;

static void make_crowd(crowd *c)
{
    random_source random = {3};
    *c = (crowd){.patience = 3};
    for (int k = 0; k < MANY; k++) {
        const int from = random_below(&random, 100);
        c->items[k] = (mp_pack_item){k, 1, 1, -1, -7};
        c->pieces[k] = (mp_pack_piece){from, from + 5 + random_below(&random, 40), 100 + random_below(&random, 900)};
    }
    c->packing = (mp_pack_problem){c->items, MANY, c->pieces, MANY};
}

static bool lose_patience(void *data)
{
    crowd *c = data;
    return ++c->questions > c->patience;
}

TEST(limits_end_the_search_and_are_not_mistaken_for_proofs)
{
    crowd c, d;
    int64_t bound;
    mp_pack_result r, again;
    make_crowd(&c);
    make_crowd(&d);
    assert_int_equal(mp_pack_bound(&c.packing, &bound, NULL), MP_OK);
    mp_pack_options options = {.node_limit = 20, .without = MP_PACK_RULES};
    assert_int_equal(mp_pack_solve(&c.packing, bound, &options, &r, NULL), MP_OK);
    assert_true(r.verdict == MP_PACK_LIMIT && r.height == -1 && r.bound == bound && r.nodes == 20);
    for (int k = 0; k < MANY; k++) assert_int_equal(c.items[k].offset, -7);
    options = (mp_pack_options){.stop = lose_patience, .data = &c, .without = MP_PACK_RULES & ~MP_PACK_SECTIONS};
    assert_int_equal(mp_pack_solve(&c.packing, bound, &options, &r, NULL), MP_OK);
    assert_true(r.verdict == MP_PACK_LIMIT && c.questions == 4);
    /* the search returns the best placement so far and its bound; repeated runs give the same result */
    options = (mp_pack_options){.node_limit = 3000};
    assert_int_equal(mp_pack_minimize(&c.packing, -1, &options, &r, NULL), MP_OK);
    assert_int_equal(mp_pack_minimize(&d.packing, -1, &options, &again, NULL), MP_OK);
    assert_true(r.height >= r.bound && r.bound >= bound && r.nodes <= 3000);
    assert_true(r.verdict == (r.height == r.bound ? MP_PACK_PLACED : MP_PACK_LIMIT));
    assert_int_equal(mp_pack_check(&c.packing, r.height, NULL), MP_OK);
    assert_true(again.height == r.height && again.bound == r.bound && again.nodes == r.nodes);
    assert_memory_equal(c.items, d.items, sizeof c.items);
}

/* If every first branch is right, twice as many nodes as items are enough for any number of items. */
TEST(the_shortest_run_may_place_every_item)
{
    enum { N = 1500 };
    static mp_pack_item items[N];
    static mp_pack_piece pieces[N];
    for (int k = 0; k < N; k++) {
        items[k] = (mp_pack_item){k, 1, 1, -1, -1};
        pieces[k] = (mp_pack_piece){k / 2, N - k / 2, 1 + k % 7};
    }
    mp_pack_problem problem = {items, N, pieces, N};
    const mp_pack_options options = {.node_limit = 2 * N};
    mp_pack_result r;
    int64_t bound;
    assert_int_equal(mp_pack_bound(&problem, &bound, NULL), MP_OK);
    assert_int_equal(mp_pack_solve(&problem, bound, &options, &r, NULL), MP_OK);
    assert_true(r.verdict == MP_PACK_PLACED && r.height == bound);
    assert_int_equal(mp_pack_check(&problem, bound, NULL), MP_OK);
}

/* An item that rests on another at one time leaves free memory below it at another time; later items may use it. */
TEST(there_is_room_below_what_lies_high)
{
    const mp_pack_piece pieces[] = {{0, 1, 5}, {0, 1, 2}, {2, 3, 2}, {2, 3, 5}, {1, 2, 7}};
    mp_pack_item items[] = {{0, 1, 1, 0, 0}, {1, 2, 1, -1, 0}, {3, 1, 1, -1, 0}, {4, 1, 1, -1, 0}};
    mp_pack_problem packing = {items, 4, pieces, 5};
    mp_pack_result r;
    assert_int_equal(mp_pack_solve(&packing, 7, NULL, &r, NULL), MP_OK);
    assert_int_equal(r.verdict, MP_PACK_PLACED);
    assert_true(items[0].offset == 0 && items[1].offset == 5 && items[2].offset == 0);
}

/* Items that are not connected in time are placed one group after the other, for any number of groups. */
TEST(a_long_row_of_parts_is_no_deep_recursion)
{
    enum { PARTS = 30000 };
    mp_pack_item *items = mp_alloc(2 * PARTS, sizeof *items);
    mp_pack_piece *pieces = mp_alloc(2 * PARTS, sizeof *pieces);
    mp_pack_result r;
    for (int k = 0; k < 2 * PARTS; k++) {
        items[k] = (mp_pack_item){k, 1, 1, -1, 0};
        pieces[k] = (mp_pack_piece){k / 2, k / 2 + 1, 1 + k % 5};
    }
    mp_pack_problem packing = {items, 2 * PARTS, pieces, 2 * PARTS};
    assert_int_equal(mp_pack_minimize(&packing, -1, NULL, &r, NULL), MP_OK);
    assert_true(r.verdict == MP_PACK_PLACED && r.height == 9);
    assert_int_equal(mp_pack_check(&packing, 9, NULL), MP_OK);
    mp_free(items);
    mp_free(pieces);
}

TEST(nothing_needs_nothing)
{
    mp_pack_problem packing = {0};
    mp_pack_result r;
    assert_int_equal(mp_pack_solve(&packing, 0, NULL, &r, NULL), MP_OK);
    assert_true(r.verdict == MP_PACK_PLACED && r.height == 0 && r.bound == 0);
    assert_int_equal(mp_pack_minimize(&packing, -1, NULL, &r, NULL), MP_OK);
    assert_true(r.verdict == MP_PACK_PLACED && r.height == 0);
    assert_int_equal(mp_pack_check(&packing, 0, NULL), MP_OK);
}

/* ---- invalid placements ---- */

static void expect_refuted(mp_pack_item a, mp_pack_item b, int64_t capacity, const char *why)
{
    const mp_pack_piece pieces[] = {{0, 4, 8}, {3, 9, 8}};
    mp_pack_item items[] = {a, b};
    mp_pack_problem packing = {items, 2, pieces, 2};
    mp_error err = {0};
    assert_int_equal(mp_pack_check(&packing, capacity, &err), why ? MP_REFUTED : MP_OK);
    if (why && !strstr(err.message, why)) fail_msg("'%s' instead of '%s'", err.message, why);
}

TEST(the_checker_sees_every_fault)
{
    const mp_pack_item low = {0, 1, 4, -1, 0};
    expect_refuted(low, (mp_pack_item){1, 1, 4, -1, 8}, 16, NULL);
    expect_refuted(low, (mp_pack_item){1, 1, 4, 8, 8}, 16, NULL);
    expect_refuted(low, (mp_pack_item){1, 1, 4, -1, 4}, 16, "overlap at time 3");
    expect_refuted(low, (mp_pack_item){1, 1, 1, -1, 7}, 16, "overlap at time 3");
    expect_refuted((mp_pack_item){0, 1, 1, -1, 7}, (mp_pack_item){1, 1, 1, -1, 0}, 16, "overlap at time 3");
    expect_refuted(low, (mp_pack_item){1, 1, 4, -1, 9}, 18, "not a multiple of 4");
    expect_refuted(low, (mp_pack_item){1, 1, 4, -1, -8}, 16, "not a multiple");
    expect_refuted(low, (mp_pack_item){1, 1, 4, 12, 8}, 16, "instead of 12");
    expect_refuted(low, (mp_pack_item){1, 1, 4, -1, 8}, 15, "above 15");
}

static void expect_invalid(mp_pack_item item, mp_pack_piece piece, mp_pack_piece next)
{
    mp_pack_item items[] = {item, {0, 1, 1, -1, 0}};
    const mp_pack_piece pieces[] = {piece, next};
    mp_pack_problem packing = {items, 2, pieces, 2};
    mp_pack_result r;
    mp_error err = {0};
    assert_int_equal(mp_pack_solve(&packing, 100, NULL, &r, &err), MP_INVALID);
    assert_true(err.message[0]);
    assert_int_equal(mp_pack_minimize(&packing, -1, NULL, &r, NULL), MP_INVALID);
}

TEST(what_makes_no_sense_is_refused)
{
    const mp_pack_piece a = {0, 2, 5}, b = {2, 4, 5};
    const mp_pack_item item = {0, 1, 1, -1, 0};
    expect_invalid((mp_pack_item){0, 0, 1, -1, 0}, a, b);
    expect_invalid((mp_pack_item){1, 2, 1, -1, 0}, a, b);
    expect_invalid((mp_pack_item){-1, 1, 1, -1, 0}, a, b);
    expect_invalid((mp_pack_item){0, 1, 0, -1, 0}, a, b);
    expect_invalid((mp_pack_item){0, 1, 1, -2, 0}, a, b);
    expect_invalid((mp_pack_item){0, 1, 4, 6, 0}, a, b);
    expect_invalid((mp_pack_item){0, 2, 1, -1, 0}, a, (mp_pack_piece){1, 3, 5});
    expect_invalid(item, (mp_pack_piece){2, 2, 5}, b);
    expect_invalid(item, (mp_pack_piece){0, 2, 0}, b);
    expect_invalid(item, (mp_pack_piece){0, 2, INT64_MAX / 2}, b);
    expect_invalid((mp_pack_item){0, 1, INT64_MAX / 2, -1, 0}, a, b);
    expect_invalid((mp_pack_item){0, 1, 1, INT64_MAX - 2, 0}, a, b);
}

TEST(every_allocation_may_fail)
{
    static puzzle p;
    mp_status st = MP_NOMEM;
    make_puzzle(&p, 7);
    for (long k = 0; st != MP_OK; k++) {
        const long live = mp_alloc_live;
        mp_error err = {0};
        mp_pack_result r;
        mp_alloc_budget = k;
        st = mp_pack_minimize(&p.packing, -1, NULL, &r, &err);
        if (st == MP_OK) st = mp_pack_check(&p.packing, r.height, &err);
        mp_alloc_budget = -1;
        assert_true(mp_alloc_live == live);
        if (st != MP_OK) assert_true(st == MP_NOMEM && err.message[0]);
    }
}
