/* test_arena.c - planner/arena: every layout passes the checker, items that share memory have one offset, and small cases reach
 * the lowest arena of all placement orders. */
#include "estimator/base/memory.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "planner/arena/arena.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

typedef unsigned long long number; /* type to print a seed on failure */

static mp_plan *random_plan(uint64_t seed, mp_graph **graph)
{
    mp_plan *plan = NULL;
    mp_error err = {0};
    size_t n;
    *graph = random_graph(seed, 2 + (int)(seed % 17), (mp_fuse)(seed % MP_N_FUSES), seed % 7 == 0);
    mp_step *steps = random_schedule(*graph, seed, (int)(seed % 4) * 6, &n);
    if (mp_plan_new(*graph, "test", steps, n, &plan, &err) != MP_OK) fail_msg("seed %llu: %s", (number)seed, err.message);
    mp_free(steps);
    return plan;
}

static const mp_place *place_of(const mp_plan *plan, int storage, int step, bool end)
{
    for (size_t k = 0; k < plan->n_places; k++) {
        const mp_place *p = &plan->places[k];
        if (p->storage == storage && (end ? p->end - 1 : p->begin) == step) return p;
    }
    return NULL;
}

TEST(every_layout_passes_the_checker)
{
    int n_tight = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *graph;
        mp_error err = {0};
        mp_plan *plan = random_plan(seed, &graph);
        if (mp_arena_layout(graph, plan, &err) != MP_OK) fail_msg("seed %llu: %s", (number)seed, err.message);
        plan->budget_bytes = plan->static_bytes + plan->arena_bytes;
        if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %llu: %s", (number)seed, err.message);
        if (plan->arena_bytes < plan->peak_bytes - plan->static_bytes) fail_msg("seed %llu: below the peak", (number)seed);
        n_tight += plan->arena_bytes == plan->peak_bytes - plan->static_bytes;
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
    assert_true(n_tight >= 275);
    assert_int_equal(mp_alloc_live, 0);
}

/* True if two spans may overlap in the arena: they are not live together, or one takes over the other's memory. */
static bool may_share(const mp_span *a, const mp_span *b)
{
    if (a->begin >= b->end || b->begin >= a->end || a->storage == b->storage) return true;
    return (a->takes_over == b->storage && a->begin == b->end - 1) || (b->takes_over == a->storage && b->begin == a->end - 1);
}

static const mp_span *span_of(const mp_timeline *tl, const mp_place *p)
{
    for (size_t i = 0; i < tl->n_spans; i++) {
        const mp_span *s = &tl->spans[i];
        if (s->storage == p->storage && s->begin == p->begin && s->end == p->end) return s;
    }
    fail_msg("a place of storage %d from step %d is no instance's", p->storage, p->begin);
    return NULL;
}

static bool are_apart(const mp_place *lower, const mp_place *upper, int64_t block)
{
    return upper->offset >= (lower->offset + lower->bytes + block - 1) / block * block;
}

static void check_blocks(const mp_graph *graph, const mp_timeline *tl, int64_t block, const mp_tier_layout *layout)
{
    for (size_t k = 0; k < layout->n_places; k++) {
        const mp_place *p = &layout->places[k];
        assert_true(p->offset >= 0 && p->offset % block == 0 && p->offset + p->bytes <= layout->arena_bytes);
        assert_true(graph->storages[p->storage].tier == 1 && p->bytes == graph->storages[p->storage].bytes);
        for (size_t j = 0; j < k; j++) {
            const mp_place *q = &layout->places[j];
            const bool apart = are_apart(p, q, block) || are_apart(q, p, block);
            if (!apart && !may_share(span_of(tl, p), span_of(tl, q)))
                fail_msg("storages %d and %d overlap", p->storage, q->storage);
        }
    }
}

TEST(what_is_live_together_in_a_tier_has_blocks_of_its_own)
{
    int n_places = 0, n_tight = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        mp_graph *graph = random_copies(seed);
        mp_timeline *tl = NULL;
        size_t n;
        mp_step *steps = random_copies_schedule(graph, seed, 0, &n);
        mp_plan plan = {.steps = steps, .n_steps = n};
        const bool is_plan = mp_timeline_build(graph, steps, n, &tl, NULL) == MP_OK;
        for (int64_t block = graph->alignment; is_plan && block <= 32 * graph->alignment; block *= 32) {
            mp_tier_layout layout;
            assert_int_equal(mp_arena_layout_tier(graph, &plan, 1, block, &layout, NULL), MP_OK);
            check_blocks(graph, tl, block, &layout);
            n_places += (int)layout.n_places;
            const int64_t live = tl->tiers[1].peak_bytes - tl->tiers[1].static_bytes;
            assert_true(layout.arena_bytes >= live && layout.arena_bytes % block == 0);
            n_tight += block == graph->alignment && layout.arena_bytes == live;
            mp_free(layout.places);
        }
        assert_int_equal(plan.n_places, 0);
        mp_timeline_free(tl);
        mp_free(steps);
        mp_graph_free(graph);
    }
    assert_true(n_places > 400 && n_tight > 150);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(what_takes_a_room_lies_where_this_was)
{
    int n_pairs = 0, n_apart = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *graph;
        mp_timeline *tl;
        mp_plan *plan = random_plan(seed, &graph);
        assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
        assert_int_equal(mp_timeline_build(graph, plan->steps, plan->n_steps, &tl, NULL), MP_OK);
        for (size_t k = 0; k < tl->n_spans; k++) {
            const mp_span *span = &tl->spans[k];
            if (span->takes_over < 0 || !graph->storages[span->storage].bytes) continue;
            const mp_place *from = place_of(plan, span->takes_over, span->begin, true);
            const mp_place *to = place_of(plan, span->storage, span->begin, false);
            assert_true(from && to);
            n_pairs++;
            n_apart += from->offset != to->offset;
            /* only a gradient that must return to its original place may have another offset */
            if (from->offset != to->offset && !graph->storages[span->storage].carried)
                fail_msg("seed %llu: storage %d", (number)seed, span->storage);
        }
        mp_timeline_free(tl);
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
    assert_true(n_pairs > 100);
    assert_true(n_apart < n_pairs / 10);
}

TEST(a_carried_gradient_stays_where_it_is)
{
    int n_twice = 0;
    for (uint64_t seed = MP_FUSE_FORWARD; seed <= 300; seed += MP_N_FUSES) {
        mp_graph *graph;
        mp_plan *plan = random_plan(seed, &graph);
        assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
        for (size_t s = 0; s < graph->n_storages; s++) {
            const mp_place *in = NULL;
            if (!graph->storages[s].carried) continue;
            for (size_t k = 0; k < plan->n_places; k++) {
                if (plan->places[k].storage != (int)s) continue;
                if (in && in->offset != plan->places[k].offset) fail_msg("seed %llu: storage %zu", (number)seed, s);
                n_twice += in != NULL;
                in = &plan->places[k];
            }
        }
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
    assert_true(n_twice > 10);
}

/* A parameter 0 with a carried gradient 1, and an activation 2. Forward computes the activation. Backward computes the gradient
 * from it, in the same memory. The update reads the gradient. */
static mp_plan *carried_plan(const int *order, size_t n, mp_graph **graph)
{
    static const mp_kind kinds[] = {MP_KIND_PARAMETER, MP_KIND_GRADIENT, MP_KIND_ACTIVATION};
    static const struct {
        mp_phase phase;
        int reads, writes;
    } nodes[] = {{MP_PHASE_FORWARD, -1, 2}, {MP_PHASE_BACKWARD, 2, 1}, {MP_PHASE_UPDATE, 1, 0}, {MP_PHASE_BACKWARD, -1, 1}};
    mp_graph *g;
    mp_plan *plan = NULL;
    mp_error err = {0};
    mp_step steps[3] = {{0}};
    const bool without = n == 2; /* without the activation: backward reads nothing */
    assert_int_equal(mp_graph_new("carried", &g, NULL), MP_OK);
    g->fuse = MP_FUSE_FORWARD;
    for (int s = 0; s < 3; s++) {
        mp_storage *storage;
        assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
        storage->kind = kinds[s];
        storage->bytes = 8;
        storage->carried = s == 1;
    }
    for (int k = without ? 2 : 0; k < (without ? 4 : 3); k++) {
        mp_node *node;
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        mp_alternative *alternative = &node->alternatives[0];
        node->phase = nodes[k].phase;
        alternative->reads = mp_graph_list(g, &nodes[k].reads, alternative->n_reads = nodes[k].reads >= 0);
        alternative->writes = mp_graph_list(g, &nodes[k].writes, alternative->n_writes = 1);
        if (k != 1) continue;
        alternative->in_place = mp_pool_alloc(g->pool, alternative->n_in_place = 1, sizeof *alternative->in_place);
        alternative->in_place[0] = (mp_in_place){2, 1};
    }
    for (size_t t = 0; t < n; t++) steps[t].node = order[t];
    if (mp_graph_finish(g, &err) != MP_OK || mp_plan_new(g, "test", steps, n, &plan, &err) != MP_OK)
        fail_msg("%s", err.message);
    *graph = g;
    return plan;
}

static void expect_arena(const int *order, size_t n, int64_t arena_bytes, size_t n_places)
{
    mp_graph *graph;
    mp_error err = {0};
    mp_plan *plan = carried_plan(order, n, &graph);
    assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
    if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(plan->arena_bytes, arena_bytes);
    assert_int_equal(plan->n_places, n_places);
    mp_plan_free(plan);
    mp_graph_free(graph);
}

TEST(a_carried_gradient_takes_a_room_only_where_it_was_before)
{
    expect_arena((const int[]){2, 0, 1}, 3, 8,
                 3); /* the update is first: the activation and both instances of the gradient share one place */
    expect_arena((const int[]){0, 2, 1}, 3, 16, 3); /* the activation and the old gradient are live together */
    expect_arena((const int[]){1, 0}, 2, 8, 1);     /* written anew in step 0, so the checker counts one instance */
}

/* ---- compared with all placement orders ---- */

enum { ITEMS = 7, STEPS = 9 };

typedef struct puzzle {
    int n;
    int64_t sizes[ITEMS][STEPS]; /* size per item and step; 0: not live */
    int order[ITEMS];
    int64_t offsets[ITEMS], lowest;
} puzzle;

/* Tries every order, and places each item above all earlier items that are live with it. The order by offset of an optimal
 * layout gives that layout, so the search finds the lowest arena. */
static void try_all(puzzle *p, int k, int64_t height)
{
    if (height >= p->lowest) return;
    if (k == p->n) p->lowest = height;
    for (int x = 0; x < p->n; x++) {
        int64_t at = 0, size = 0;
        bool used = false;
        for (int j = 0; j < k; j++) used |= p->order[j] == x;
        if (used) continue;
        for (int t = 0; t < STEPS; t++) {
            if (p->sizes[x][t] > size) size = p->sizes[x][t];
            for (int j = 0; j < k && p->sizes[x][t]; j++) {
                const int y = p->order[j];
                if (p->sizes[y][t] && p->offsets[y] + p->sizes[y][t] > at) at = p->offsets[y] + p->sizes[y][t];
            }
        }
        p->order[k] = x;
        p->offsets[x] = at;
        try_all(p, k + 1, at + size > height ? at + size : height);
    }
}

/* Draws an item with one instance of decreasing size; some items have two instances. */
static void random_item(random_source *random, int64_t *sizes)
{
    const int from = random_below(random, STEPS), to = from + random_below(random, STEPS - from);
    const bool stairs = random_chance(random, 40);
    int64_t size = 1 + random_below(random, 12);
    for (int t = from; t <= to; t++) {
        sizes[t] = size;
        if (stairs && size > 1 && random_chance(random, 40)) size -= random_below(random, (int)size);
    }
    if (from > 2 && random_chance(random, 20)) sizes[0] = sizes[1] = sizes[to];
}

static size_t pieces_of(const puzzle *p, mp_arena_item *items, mp_pack_piece *pieces)
{
    int n = 0;
    for (int x = 0; x < p->n; x++) {
        items[x] = (mp_arena_item){.piece = n, .begin = STEPS};
        for (int t = 0; t < STEPS; t++) {
            const int64_t size = p->sizes[x][t];
            if (!size) continue;
            if (t < items[x].begin) items[x].begin = t;
            items[x].end = t + 1;
            if (size > items[x].size) items[x].size = size;
            if (t && p->sizes[x][t - 1] == size)
                pieces[n - 1].end = t + 1;
            else
                pieces[n++] = (mp_pack_piece){t, t + 1, size};
        }
        items[x].n_pieces = n - items[x].piece;
    }
    return (size_t)n;
}

static bool overlap(const puzzle *p, const mp_arena_item *items)
{
    for (int t = 0; t < STEPS; t++)
        for (int x = 0; x < p->n; x++)
            for (int y = 0; y < x; y++)
                if (p->sizes[x][t] && p->sizes[y][t] && items[x].offset < items[y].offset + p->sizes[y][t] &&
                    items[y].offset < items[x].offset + p->sizes[x][t])
                    return true;
    return false;
}

static int64_t most_live(const puzzle *p)
{
    int64_t most = 0;
    for (int t = 0; t < STEPS; t++) {
        int64_t live = 0;
        for (int x = 0; x < p->n; x++) live += p->sizes[x][t];
        if (live > most) most = live;
    }
    return most;
}

TEST(small_cases_are_as_low_as_the_lowest_of_all_orders)
{
    int n_above_bound = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        random_source random = {seed};
        puzzle p = {.n = 1 + (int)(seed % ITEMS), .lowest = INT64_MAX};
        mp_arena_item items[ITEMS];
        mp_pack_piece pieces[ITEMS * STEPS];
        for (int x = 0; x < p.n; x++) random_item(&random, p.sizes[x]);
        const size_t n_pieces = pieces_of(&p, items, pieces);
        try_all(&p, 0, 0);
        mp_arena_problem x = {.items = items, .n = (size_t)p.n, .pieces = pieces, .n_pieces = n_pieces, .n_steps = STEPS};
        assert_int_equal(mp_arena_search(&x, NULL), MP_OK);
        if (overlap(&p, items)) fail_msg("seed %llu: two overlap", (number)seed);
        if (x.height != p.lowest || x.bound != p.lowest)
            fail_msg("seed %llu: height %lld, the lowest is %lld, bound %lld", (number)seed, (long long)x.height,
                     (long long)p.lowest, (long long)x.bound);
        n_above_bound += p.lowest > most_live(&p);
    }
    assert_true(n_above_bound > 5); /* fewer would mean that the cases are too easy */
}

/* Lifetimes are nested if backward frees activations in the opposite order of forward. Then the arena needs no more than the
 * peak of live bytes. */
TEST(nested_lives_need_no_more_than_the_fullest_step)
{
    enum { N = 500 };
    static mp_arena_item items[2 * N];
    static mp_pack_piece pieces[2 * N];
    random_source random = {7};
    for (int k = 0; k < 2 * N; k++) {
        const int t = k / 2;
        pieces[k] = k % 2 ? (mp_pack_piece){t, t + 1, 1 + random_below(&random, 5)}
                          : (mp_pack_piece){t, 2 * N - t, 1 + random_below(&random, 1000)};
        items[k] = (mp_arena_item){
            .size = pieces[k].size, .begin = (int)pieces[k].begin, .end = (int)pieces[k].end, .piece = k, .n_pieces = 1};
    }
    mp_arena_problem x = {.items = items, .n = 2 * N, .pieces = pieces, .n_pieces = 2 * N, .n_steps = 2 * N};
    assert_int_equal(mp_arena_search(&x, NULL), MP_OK);
    assert_true(x.height == x.bound);
}

/* A network without recomputation: activations have nested lifetimes, and gradients live to the end. Each comes with so many
 * small items that no search could place all of them within its node limit. */
TEST(gradients_that_live_to_the_end_leave_no_holes)
{
    enum { N = 40, END = 2 * N, SMALL = 20, EACH = 3 + 2 * SMALL, UNIT = 1000, LONG = 80 };
    static mp_arena_item items[EACH * N];
    static mp_pack_piece pieces[EACH * N];
    random_source random = {1};
    size_t n = 0;
    for (int k = 0; k < N; k++) {
        const int64_t kept = 1 + random_below(&random, 1000), passed = 1 + random_below(&random, 1000);
        const int64_t gradient = 1 + random_below(&random, 1000);
        pieces[n++] = (mp_pack_piece){k, END - k, UNIT * kept};           /* an activation */
        pieces[n++] = (mp_pack_piece){END - k - 1, END, UNIT * gradient}; /* the gradient of its parameter */
        pieces[n++] =
            (mp_pack_piece){END - k - 1, END - k + (k > 0), UNIT * passed}; /* the gradient passed to the previous layer */
        for (int j = 0; j < SMALL; j++) pieces[n++] = (mp_pack_piece){k, END - k, 1};       /* statistics ... */
        for (int j = 0; j < SMALL; j++) pieces[n++] = (mp_pack_piece){END - k - 1, END, 1}; /* ... and biases */
    }
    for (size_t k = 0; k < n; k++) {
        const int begin = LONG * (int)pieces[k].begin, end = LONG * (int)pieces[k].end;
        pieces[k].begin = begin;
        pieces[k].end = end;
        items[k] = (mp_arena_item){.size = pieces[k].size, .begin = begin, .end = end, .piece = (int)k, .n_pieces = 1};
    }
    mp_arena_problem x = {.items = items, .n = n, .pieces = pieces, .n_pieces = n, .n_steps = LONG * (END + 1)};
    assert_int_equal(mp_arena_search(&x, NULL), MP_OK);
    if (x.height > x.bound + x.bound / 1000) fail_msg("height %lld, bound %lld", (long long)x.height, (long long)x.bound);
}

static bool stop_at_once(void *n_asked)
{
    ++*(int *)n_asked;
    return true;
}

/* A layout that is stopped at once is still valid. If the first arena is low enough, the stop function is not even called. */
TEST(a_layout_that_is_stopped_is_still_one)
{
    int n_higher = 0, n_asked = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        mp_graph *graph;
        mp_error err = {0};
        mp_plan *plan = random_plan(seed, &graph);
        assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
        const int64_t lowest = plan->arena_bytes;
        mp_arena_options options = {.stop = stop_at_once, .data = &n_asked};
        assert_int_equal(mp_arena_layout_within(graph, plan, &options, NULL), MP_OK);
        plan->budget_bytes = mp_plan_need(plan);
        if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %llu: %s", (number)seed, err.message);
        n_higher += plan->arena_bytes > lowest;
        options.capacity_bytes =
            plan->arena_bytes + graph->alignment; /* capacities are rounded to multiples of the alignment */
        n_asked = 0;
        assert_int_equal(mp_arena_layout_within(graph, plan, &options, NULL), MP_OK);
        assert_int_equal(n_asked, 0);
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
    assert_true(n_higher > 0);
}

TEST(layouts_are_the_same_every_time)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph;
        mp_plan *plan = random_plan(seed, &graph);
        assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
        const size_t n = plan->n_places;
        mp_place *before = plan->places;
        plan->places = NULL;
        assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
        assert_int_equal(plan->n_places, n);
        if (n) assert_memory_equal(before, plan->places, n * sizeof *before);
        mp_pack_result result; /* packed again, the plan keeps offsets of at most the same height */
        const int64_t bytes = plan->arena_bytes;
        assert_int_equal(mp_arena_repack(graph, plan, NULL, &result, NULL), MP_OK);
        assert_true(plan->arena_bytes <= bytes && result.height == plan->arena_bytes && result.bound <= result.height);
        plan->budget_bytes = mp_plan_need(plan);
        assert_int_equal(mp_plan_check(graph, plan, NULL), MP_OK);
        mp_free(before);
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
}

TEST(more_than_can_be_counted_names_its_node)
{
    mp_graph *graph;
    mp_plan *plan;
    mp_error err = {0};
    assert_int_equal(chain_graph(3, INT64_C(1) << 58, 0, false, &graph, NULL), MP_OK);
    mp_step steps[3];
    mp_keep_all(graph, steps);
    graph->nodes[1].alternatives->workspace_bytes = INT64_C(1)
                                                    << 62; /* set after mp_graph_finish, which would report the overflow */
    assert_int_equal(mp_plan_new(graph, "none", steps, 3, &plan, &err), MP_OK);
    assert_int_equal(mp_arena_layout(graph, plan, &err), MP_INVALID);
    assert_string_equal(err.message, "the steps need more bytes than can be counted, most of them from node 1 (forward2) on");
    graph->alignment = INT64_C(1) << 61;
    graph->nodes[1].alternatives->workspace_bytes = INT64_MAX - (INT64_C(1) << 60);
    err = (mp_error){0};
    assert_int_equal(mp_arena_layout(graph, plan, &err), MP_INVALID);
    assert_string_equal(err.message, "8070450532247928831 bytes of node 1 (forward2) are too many for an arena");
    mp_plan_free(plan);
    mp_graph_free(graph);
}

TEST(every_allocation_may_fail)
{
    mp_graph *graph;
    mp_plan *plan = random_plan(11, &graph);
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        const long live = mp_alloc_live;
        mp_error err = {0};
        mp_alloc_budget = k;
        st = mp_arena_layout(graph, plan, &err);
        mp_alloc_budget = -1;
        if (st == MP_OK) break;
        assert_int_equal(st, MP_NOMEM);
        assert_true(err.message[0] && mp_alloc_live == live && !plan->places && plan->arena_bytes == -1);
    }
    mp_plan_free(plan);
    mp_graph_free(graph);
}
