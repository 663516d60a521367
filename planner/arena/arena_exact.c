/* arena_exact.c - the items of an arena as those of the packer, which shares their pieces. */
#include "planner/arena/arena_exact.h"

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

/* The sum over all steps of the number of live items, but no more than `most`. */
static int64_t count_live(const mp_arena_problem *x, int64_t most)
{
    int64_t n = 0;
    for (size_t p = 0; p < x->n_pieces && n < most; p++) n += x->pieces[p].end - x->pieces[p].begin;
    return n < most ? n : most;
}

/* The nodes of a search. */
static int64_t count_nodes(const mp_arena_problem *x)
{
    const int64_t n = MP_ARENA_EXACT_WORK / (count_live(x, MP_ARENA_EXACT_WORK) + 1);
    return n < MP_ARENA_EXACT_NODES ? n : MP_ARENA_EXACT_NODES;
}

static mp_status open_problem(const mp_arena_problem *x, mp_pack_problem *problem, mp_error *err)
{
    mp_status st = MP_OK;
    *problem = (mp_pack_problem){.n_items = x->n, .pieces = x->pieces, .n_pieces = x->n_pieces};
    problem->items = mp_alloc(x->n, sizeof *problem->items);
    MP_REQUIRE(problem->items, err, MP_NOMEM, "no memory for the arena of %zu instances", x->n);
    for (size_t k = 0; k < x->n; k++)
        problem->items[k] = (mp_pack_item){x->items[k].piece, x->items[k].n_pieces, 1, -1, x->items[k].offset};
done:
    return st;
}

static void take(mp_arena_problem *x, const mp_pack_problem *problem, const mp_pack_result *result)
{
    for (size_t k = 0; k < x->n; k++) x->items[k].offset = problem->items[k].offset;
    x->height = result->height;
}

mp_status mp_arena_exact(mp_arena_problem *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pack_options bounded = {.node_limit = count_nodes(x), .stop = x->stop, .data = x->data};
    mp_pack_problem problem = {0};
    mp_pack_result result;
    if (!x->exact && bounded.node_limit < 1) return MP_OK;
    MP_TRY(open_problem(x, &problem, err));
    MP_TRY(mp_pack_minimize(&problem, x->height, x->exact ? x->exact : &bounded, &result, err));
    take(x, &problem, &result);
    x->bound = result.bound;
    x->nodes += result.nodes;
done:
    mp_free(problem.items);
    return st;
}

mp_status mp_arena_exact_within(mp_arena_problem *x, int64_t capacity, int part, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pack_options bounded = {
        .node_limit = MP_ARENA_NEAR_TIMES * count_nodes(x) / part, .stop = x->stop, .data = x->data};
    mp_pack_problem problem = {0};
    mp_pack_result result;
    if (bounded.node_limit < (int64_t)x->n) return MP_OK; /* it could not even place every item once */
    MP_TRY(open_problem(x, &problem, err));
    MP_TRY(mp_pack_solve(&problem, capacity, &bounded, &result, err));
    if (result.verdict == MP_PACK_PLACED) take(x, &problem, &result);
    if (result.bound > x->bound) x->bound = result.bound;
    x->nodes += result.nodes;
done:
    mp_free(problem.items);
    return st;
}
