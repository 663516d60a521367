/* test_arena_index.c - planner/arena_index: its offsets equal the offsets of a search over all placed items, and layouts of
 * many items. */
#include "estimator/base/memory.h"
#include "planner/arena/arena.h"
#include "planner/math/tuning.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

typedef struct drawn {
    mp_arena_problem problem;
    mp_arena_item *items;
    mp_pack_piece *pieces;
} drawn;

/* Draws items with one piece, some with two or three, often of equal sizes. */
static drawn draw(uint64_t seed, size_t n, int n_steps, int longest)
{
    random_source random = {seed};
    drawn d = {.items = mp_alloc(n, sizeof *d.items), .pieces = mp_alloc(3 * n, sizeof *d.pieces)};
    int n_pieces = 0;
    for (size_t k = 0; k < n; k++) {
        mp_arena_item *item = &d.items[k];
        int step = random_below(&random, n_steps);
        *item = (mp_arena_item){.piece = n_pieces, .begin = step};
        for (int left = random_chance(&random, 20) ? 3 : 1; left > 0 && step < n_steps; left--) {
            int end = step + random_below(&random, longest) + 1;
            if (end > n_steps) end = n_steps;
            const int64_t size = random_chance(&random, 50) ? 8 : 1 + random_below(&random, 30);
            d.pieces[n_pieces++] = (mp_pack_piece){step, end, size};
            if (size > item->size) item->size = size;
            item->end = end;
            item->n_pieces++;
            step = end + random_below(&random, 3);
        }
    }
    d.problem = (mp_arena_problem){
        .items = d.items, .n = n, .pieces = d.pieces, .n_pieces = (size_t)n_pieces, .n_steps = (size_t)n_steps};
    return d;
}

static void drawn_free(drawn *d)
{
    mp_free(d->items);
    mp_free(d->pieces);
}

/* True if pieces of two placed items overlap; *top is then the end of the piece of y. */
static bool collide(const drawn *d, const mp_arena_item *x, int64_t at, const mp_arena_item *y, int64_t *top)
{
    if (x->begin >= y->end || y->begin >= x->end) return false;
    for (int p = x->piece; p < x->piece + x->n_pieces; p++)
        for (int q = y->piece; q < y->piece + y->n_pieces; q++) {
            const mp_pack_piece *a = &d->pieces[p], *b = &d->pieces[q];
            if (a->begin >= b->end || b->begin >= a->end) continue;
            if (at >= y->offset + b->size || y->offset >= at + a->size) continue;
            *top = y->offset + b->size;
            return true;
        }
    return false;
}

/* Raises x above every item that it overlaps, until no overlap remains; returns the offset. */
static int64_t lowest_gap(const drawn *d, const int *order, size_t n_placed, const mp_arena_item *x)
{
    int64_t at = 0;
    for (size_t k = 0; k < n_placed; k++)
        if (collide(d, x, at, &d->items[order[k]], &at)) k = (size_t)-1;
    return at;
}

TEST(offsets_are_those_of_looking_at_everything)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        const size_t n = 1 + seed % 60;
        drawn d = draw(seed, n, 1 + (int)(seed * 7 % 90), 1 + (int)(seed % 40));
        int *order = mp_alloc(n, sizeof *order);
        mp_arena_index *index = mp_arena_index_new(&d.problem);
        random_source random = {seed};
        int64_t work = 0;
        assert_non_null(index);
        for (int round = 0; round < 3; round++) {
            for (size_t k = 0; k < n; k++) order[k] = (int)k;
            for (size_t k = n; k-- > 1;) {
                const size_t other = (size_t)random_below(&random, (int)k + 1);
                const int item = order[k];
                order[k] = order[other];
                order[other] = item;
            }
            for (size_t k = 1; k < n && round == 2; k++) /* largest items first; small gaps then count as full */
                for (size_t at = k; at > 0 && d.items[order[at - 1]].size < d.items[order[at]].size; at--) {
                    const int item = order[at];
                    order[at] = order[at - 1];
                    order[at - 1] = item;
                }
            mp_arena_index_clear(index);
            for (size_t k = 0; k < n; k++) {
                mp_arena_item *x = &d.items[order[k]];
                mp_arena_index_place(index, x, &work);
                if (x->offset != lowest_gap(&d, order, k, x)) fail_msg("seed %d, item %d", (int)seed, order[k]);
            }
        }
        assert_true(work > 0);
        mp_arena_index_free(index);
        mp_free(order);
        drawn_free(&d);
    }
    assert_int_equal(mp_alloc_live, 0);
}

TEST(many_items_lie_apart)
{
    const size_t n = MP_ARENA_UNINDEXED + 500;
    drawn d = draw(3, n, 3000, 12);
    assert_int_equal(mp_arena_search(&d.problem, NULL), MP_OK);
    for (size_t k = 0; k < n; k++) {
        int64_t top;
        assert_true(d.items[k].offset >= 0 && d.items[k].offset + d.items[k].size <= d.problem.height);
        for (size_t other = 0; other < k; other++)
            if (collide(&d, &d.items[k], d.items[k].offset, &d.items[other], &top)) fail_msg("%zu and %zu", k, other);
    }
    assert_true(d.problem.height >= d.problem.bound);
    assert_true(d.problem.height <= d.problem.bound + d.problem.bound / 10);
    drawn_free(&d);
}

/* Lifetimes as in forward and backward: each is nested within the previous one. */
TEST(many_nested_lives_need_no_more_than_the_fullest_step)
{
    const int n = MP_ARENA_UNINDEXED + 1;
    drawn d = {.items = mp_alloc((size_t)n, sizeof *d.items), .pieces = mp_alloc((size_t)n, sizeof *d.pieces)};
    for (int k = 0; k < n; k++) {
        d.pieces[k] = (mp_pack_piece){k, 2 * n - k + 1, 1 + k % 5};
        d.items[k] = (mp_arena_item){.size = 1 + k % 5, .begin = k, .end = 2 * n - k + 1, .piece = k, .n_pieces = 1};
    }
    d.problem = (mp_arena_problem){
        .items = d.items, .n = (size_t)n, .pieces = d.pieces, .n_pieces = (size_t)n, .n_steps = 2 * (size_t)n + 1};
    assert_int_equal(mp_arena_search(&d.problem, NULL), MP_OK);
    assert_int_equal(d.problem.height, d.problem.bound);
    drawn_free(&d);
}

TEST(every_allocation_may_fail)
{
    drawn d = draw(1, 20, 50, 9);
    const long live = mp_alloc_live;
    mp_arena_index *index = NULL;
    for (long k = 0; !index; k++) {
        mp_alloc_budget = k;
        index = mp_arena_index_new(&d.problem);
        mp_alloc_budget = -1;
        assert_true(index || mp_alloc_live == live);
        assert_true(k < 100);
    }
    mp_arena_index_free(index);
    drawn_free(&d);
}
