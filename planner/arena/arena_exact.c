/* arena_exact.c - the items of an arena as those of the packer, which shares their pieces. */
#include "planner/arena/arena_exact.h"

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

/* The sum over all steps of the number of live items above the size `dust`, but no more than `most`. */
static int64_t count_live(const mp_arena_problem *x, int64_t dust, int64_t most)
{
    int64_t n = 0;
    for (size_t k = 0; k < x->n && n < most; k++)
        for (int p = x->items[k].piece; x->items[k].size > dust && p < x->items[k].piece + x->items[k].n_pieces; p++)
            n += x->pieces[p].end - x->pieces[p].begin;
    return n < most ? n : most;
}

/* The nodes of a search. */
static int64_t count_nodes(const mp_arena_problem *x, int64_t dust)
{
    const int64_t n = MP_ARENA_EXACT_WORK / (count_live(x, dust, MP_ARENA_EXACT_WORK) + 1);
    return n < MP_ARENA_EXACT_NODES ? n : MP_ARENA_EXACT_NODES;
}

/* The items above the size `dust`. */
static mp_status open_problem(const mp_arena_problem *x, int64_t dust, mp_pack_problem *problem, mp_error *err)
{
    *problem = (mp_pack_problem){.pieces = x->pieces, .n_pieces = x->n_pieces};
    problem->items = mp_alloc(x->n, sizeof *problem->items);
    MP_ENSURE(problem->items, err, MP_NOMEM, "no memory for the arena of %zu instances", x->n);
    for (size_t k = 0; k < x->n; k++)
        if (x->items[k].size > dust)
            problem->items[problem->n_items++] =
                (mp_pack_item){x->items[k].piece, x->items[k].n_pieces, 1, -1, x->items[k].offset};
    return MP_OK;
}

static void take(mp_arena_problem *x, int64_t dust, const mp_pack_problem *problem)
{
    for (size_t k = 0, j = 0; k < x->n; k++)
        if (x->items[k].size > dust) x->items[k].offset = problem->items[j++].offset;
}

mp_status mp_arena_exact(mp_arena_problem *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pack_options bounded = {.node_limit = count_nodes(x, 0), .stop = x->stop, .data = x->data};
    mp_pack_problem problem = {0};
    mp_pack_result result;
    if (!x->exact && bounded.node_limit < 1) return MP_OK;
    MP_TRY(open_problem(x, 0, &problem, err));
    MP_TRY(mp_pack_minimize(&problem, x->height, x->exact ? x->exact : &bounded, &result, err));
    take(x, 0, &problem);
    x->height = result.height;
    x->bound = result.bound;
    x->nodes += result.nodes;
done:
    mp_free(problem.items);
    return st;
}

mp_status mp_arena_exact_within(mp_arena_problem *x, int64_t dust, int64_t capacity, int part, bool *placed, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pack_options bounded = {
        .node_limit = MP_ARENA_NEAR_TIMES * count_nodes(x, dust) / part, .stop = x->stop, .data = x->data};
    mp_pack_problem problem = {0};
    mp_pack_result result;
    *placed = false;
    MP_TRY(open_problem(x, dust, &problem, err));
    if (bounded.node_limit < (int64_t)problem.n_items) goto done; /* it could not even place every item once */
    MP_TRY(mp_pack_solve(&problem, capacity, &bounded, &result, err));
    *placed = result.verdict == MP_PACK_PLACED;
    if (*placed) take(x, dust, &problem);
    if (result.bound > x->bound) x->bound = result.bound;
    x->nodes += result.nodes;
done:
    mp_free(problem.items);
    return st;
}
