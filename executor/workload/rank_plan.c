/* rank_plan.c - finds the plan of a workload. If the workload is a pipeline rank, its stash depends on the plan.
 *
 * The stash of a rank holds the other micro-batches in flight. Its bytes count in the budget, and they are a multiple of the
 * bytes that the rank's plan keeps. So the plan depends on the stash, and the stash on the plan. A plan is searched with a
 * guess of the stash's bytes. If the plan found needs a larger stash, the next guess is larger. If it needs a smaller stash,
 * the next guess may be smaller. The result is the plan found with the smallest sufficient guess. Its stash is then set to
 * exactly the bytes that it needs.
 *
 * Each chunk has its own stash. The guessed stashes of the chunks have the same proportions as the stashes in keep-all. So a
 * guess is a single number: the bytes of the largest stash. */
#include "memplan/ranks/rank_plan.h"

#include <math.h>
#include <string.h>

#include "executor/workload/searches.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/smallest.h"

/* GUESSES: maximum number of guesses per rank. Guessing also ends when two guesses differ by less than budget / FINENESS */
enum { GUESSES = 8, FINENESS = 100 };

typedef struct rank_search {
    mp_searches searches;
    bool with_offsets;
    int64_t budget_bytes;
    int n_chunks;
    int64_t *keep_all; /* per chunk: bytes of its stash in keep-all */
    int64_t *guessed;  /* per chunk: bytes of its stash in the present guess */
    int64_t *found;    /* per chunk: bytes of its stash with the plan found last */
    int64_t *held;     /* per chunk: bytes of its stash with the best plan */
    mp_plan *best;     /* the fastest plan that fits with exactly its own stash; NULL: none */
    int64_t most_held; /* bytes of the largest stash with the best plan */
    mp_pool *pool;     /* owns keep_all, guessed, found and held */
} rank_search;

static void rank_search_clear(rank_search *x)
{
    mp_plan_free(x->best);
    mp_pool_free(x->pool);
}

static int64_t most_of(const rank_search *x, const int64_t *bytes)
{
    int64_t most = 0;
    for (int c = 0; c < x->n_chunks; c++)
        if (bytes[c] > most) most = bytes[c];
    return most;
}

/* Returns number * part / whole, rounded up. If `part` is larger than `whole`, returns `number`. */
static int64_t share_of(int64_t number, int64_t part, int64_t whole)
{
    return part >= whole ? number : (int64_t)ceil((double)number * ((double)part / (double)whole));
}

/* Returns the smallest guess (bytes of the largest stash) with which every chunk's stash is at least as large as the plan found
 * last requires. If some chunk requires more than in keep-all, returns one byte more than keep-all's largest stash. */
static int64_t guess_for(const rank_search *x)
{
    const int64_t most = most_of(x, x->keep_all);
    int64_t guess = 0;
    for (int c = 0; c < x->n_chunks; c++) {
        const int64_t enough = x->found[c] > x->keep_all[c] ? most + 1 : share_of(most, x->found[c], x->keep_all[c]);
        if (x->found[c] && enough > guess) guess = enough;
    }
    return guess;
}

/* Builds *out, a plan with the steps of `plan` whose stash has exactly the bytes that these steps need. Stores these bytes in
 * x->found, per chunk. */
static mp_status with_exact_stash(rank_search *x, const mp_plan *plan, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *made = NULL;
    MP_CHECK(mp_rank_held_bytes(&x->searches.workload->rank, plan->steps, plan->n_steps, x->found, err));
    MP_CHECK(mp_workload_hold(x->searches.workload, x->found, err));
    MP_CHECK(mp_plan_new(x->searches.workload->graph, plan->solver, plan->steps, plan->n_steps, &made, err));
    made->seed = plan->seed;
    if (x->with_offsets) {
        const mp_arena_options options = {.capacity_bytes = x->budget_bytes - made->static_bytes,
                                          .tier_bytes = x->searches.workload->tier_bytes};
        MP_CHECK(mp_arena_layout_within(x->searches.workload->graph, made, &options, err));
    }
    *out = made;
    made = NULL;
    return MP_OK;
}

/* Stores a plan if it fits with its own stash, and is faster than the best plan, or equally fast with a smaller stash. */
static mp_status remember(rank_search *x, const mp_plan *plan, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *made = NULL;
    MP_CHECK(with_exact_stash(x, plan, &made, err));
    const int64_t most = most_of(x, x->found);
    const bool is_worse = x->best && (made->ticks > x->best->ticks || (made->ticks == x->best->ticks && most >= x->most_held));
    if (mp_plan_need(made) > x->budget_bytes || is_worse) return MP_OK;
    mp_plan_free(x->best);
    x->best = made;
    x->most_held = most;
    memcpy(x->held, x->found, (size_t)x->n_chunks * sizeof *x->found);
    made = NULL;
    return MP_OK;
}

/* Searches for a plan with the guessed stash. *needed is the smallest guess that is sufficient for the plan found; -1: no plan
 * was found. */
static mp_status search_with(rank_search *x, int64_t guess, int64_t *needed, mp_error *err)
{
    const int64_t most = most_of(x, x->keep_all);
    for (int c = 0; c < x->n_chunks; c++) x->guessed[c] = share_of(x->keep_all[c], guess, most);
    MP_CHECK(mp_workload_hold(x->searches.workload, x->guessed, err));
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    int64_t floor_bytes;
    *needed = -1;
    MP_CHECK(mp_problem_floor(x->searches.workload->problem, &floor_bytes, NULL, err));
    if (floor_bytes > x->budget_bytes) return MP_OK;
    const mp_status st = mp_searches_solve(&x->searches, x->budget_bytes, x->with_offsets, &answer, err);
    if (st == MP_LIMIT) return MP_OK;
    MP_CHECK(st);
    const mp_plan *plan = answer.plan;
    if (!plan) return MP_OK;
    MP_CHECK(mp_rank_held_bytes(&x->searches.workload->rank, plan->steps, plan->n_steps, x->found, err));
    int64_t lacks = 0;
    for (int c = 0; c < x->n_chunks; c++)
        if (x->found[c] - x->guessed[c] > lacks) lacks = x->found[c] - x->guessed[c];
    *needed = guess_for(x);
    return !lacks || mp_plan_need(plan) + lacks <= x->budget_bytes ? remember(x, plan, err) : MP_OK;
}

/* A rank with everything kept. */
typedef struct keep_all_rank {
    int64_t held_bytes; /* bytes of the largest stash */
    int64_t in_flight;  /* number of micro-batches in flight, the running one included */
    int64_t peak_bytes;
} keep_all_rank;

/* Returns the first guess: the largest stash with which the rank still fits if everything is kept. */
static int64_t first_guess(const rank_search *x, int64_t keep_all_held, int64_t in_flight, int64_t keep_all_peak)
{
    const int64_t over = keep_all_peak - x->budget_bytes;
    const int64_t less = over / in_flight * (in_flight - 1);
    return less < keep_all_held ? keep_all_held - less : keep_all_held / 2;
}

/* Finds the smallest plan of a rank, and sets the stash to the bytes that it needs. */
static mp_status find_smallest(rank_search *x, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *smallest = NULL;
    memset(x->guessed, 0, (size_t)x->n_chunks * sizeof *x->guessed);
    MP_CHECK(mp_workload_hold(x->searches.workload, x->guessed, err));
    const mp_request request = mp_searches_next(&x->searches, x->budget_bytes);
    MP_CHECK(mp_smallest_plan(&request, x->with_offsets, &smallest, err));
    return with_exact_stash(x, smallest, out, err);
}

/* Uses the smallest plan as the result if it fits with its stash. Therefore every budget from mp_workload_smallest on has a
 * plan. */
static mp_status try_smallest(rank_search *x, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_CHECK(find_smallest(x, &plan, err));
    return remember(x, plan, err);
}

/* Searches with guesses between `low`, which is too small, and `high`, which is sufficient or too large. If a plan keeps less
 * than guessed, the next guess is the stash of that plan. Otherwise it is half-way between the limits. If no guess yields a
 * plan, tries the stash of keep-all, which suffices for every plan. */
static mp_status search(rank_search *x, const keep_all_rank *rank, mp_error *err)
{
    int64_t low = 0, high = rank->held_bytes, needed;
    const bool fits = rank->peak_bytes <= x->budget_bytes;
    int64_t guess = fits || !high ? high : first_guess(x, high, rank->in_flight, rank->peak_bytes);
    for (int k = 0; k < GUESSES && !x->searches.is_stopped; k++) {
        MP_CHECK(search_with(x, guess, &needed, err));
        /* the search ends if the rank needs no stash, or if keep-all fits and nothing has to be recomputed */
        if (!high || (fits && x->best)) break;
        if (needed > guess)
            low = guess;
        else
            high = guess;
        if (needed >= 0 && needed <= guess && guess - needed <= x->budget_bytes / FINENESS) break;
        if (high - low <= x->budget_bytes / FINENESS) break;
        guess = needed > low && needed < high ? needed : low + (high - low) / 2;
    }
    if (!x->best && !x->searches.is_stopped) MP_CHECK(search_with(x, rank->held_bytes, &needed, err));
    return x->best || x->searches.is_stopped ? MP_OK : try_smallest(x, err);
}

/* Moves the best plan to *out, and sets the stash to exactly the bytes that it needs. */
static mp_status take_best(rank_search *x, mp_plan **out, mp_error *err)
{
    MP_CHECK(mp_workload_hold(x->searches.workload, x->held, err));
    x->best->budget_bytes = x->budget_bytes;
    MP_CHECK(mp_problem_floor(x->searches.workload->problem, &x->best->floor_bytes, NULL, err));
    MP_CHECK(mp_plan_check(x->searches.workload->graph, x->best, err));
    MP_CHECK(mp_workload_check_held(x->searches.workload, x->best->steps, x->best->n_steps, err));
    *out = x->best;
    x->best = NULL;
    return MP_OK;
}

static mp_status start(rank_search *x, mp_workload *w, const mp_request *asked, bool with_offsets, mp_error *err)
{
    *x = (rank_search){.searches = mp_searches_begin(w, asked),
                       .with_offsets = with_offsets,
                       .budget_bytes = asked->budget_bytes,
                       .n_chunks = w->rank.shape.n_chunks,
                       .pool = mp_pool_new()};
    int64_t **const amounts[] = {&x->keep_all, &x->guessed, &x->found, &x->held};
    for (size_t k = 0; k < sizeof amounts / sizeof *amounts; k++)
        *amounts[k] = mp_pool_alloc(x->pool, (size_t)x->n_chunks, sizeof **amounts[k]);
    if (mp_pool_failed(x->pool)) return MP_NO_MEMORY(err);
    memcpy(x->keep_all, w->rank.held_bytes, (size_t)x->n_chunks * sizeof *x->keep_all);
    return MP_OK;
}

/* Searches for a plan of a graph without a stash. */
static mp_status plan_alone(mp_workload *w, const mp_request *asked, bool with_offsets, mp_plan **out, mp_error *err)
{
    mp_searches x = mp_searches_begin(w, asked);
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_CHECK(mp_searches_solve(&x, asked->budget_bytes, with_offsets, &answer, err));
    *out = answer.plan;
    answer.plan = NULL;
    return MP_OK;
}

mp_status mp_workload_plan(mp_workload *w, const mp_request *request, bool with_offsets, mp_plan **out, mp_error *err)
{
    MP_CLEARED_BY(rank_search_clear) rank_search x = {0};
    const mp_step *steps;
    const mp_timeline *keep_all;
    if (!w->rank.shape.n_ranks) return plan_alone(w, request, with_offsets, out, err);
    MP_CHECK(mp_problem_keep_all(w->problem, &steps, &keep_all, err));
    MP_CHECK(start(&x, w, request, with_offsets, err));
    const keep_all_rank rank = {.held_bytes = mp_rank_most_held(&w->rank),
                                .in_flight = mp_schedule_in_flight(&w->rank.shape, w->rank.rank),
                                .peak_bytes = keep_all->peak_bytes};
    /* keep-all fits, so it is the first plan. A plan that copies or recomputes may still be faster, because compute may wait
     * less */
    if (rank.peak_bytes <= x.budget_bytes) {
        MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
        MP_CHECK(mp_plan_new(w->graph, "none", steps, keep_all->n_steps, &plan, err));
        MP_CHECK(remember(&x, plan, err));
    }
    MP_CHECK(search(&x, &rank, err));
    if (x.best) return take_best(&x, out, err);
    *out = NULL;
    return MP_OK;
}

mp_status mp_workload_smallest(mp_workload *w, const mp_request *request, bool with_offsets, int64_t *bytes, mp_error *err)
{
    MP_CLEARED_BY(rank_search_clear) rank_search x = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_CHECK(start(&x, w, request, with_offsets, err));
    MP_CHECK(find_smallest(&x, &plan, err));
    *bytes = mp_plan_need(plan);
    return MP_OK;
}

mp_status mp_workload_floor(mp_workload *w, int64_t *floor_bytes, mp_error *err)
{
    const size_t n = (size_t)w->rank.shape.n_chunks;
    MP_OWNED int64_t *none = mp_alloc(n + 1, sizeof *none);
    if (!none) return MP_NO_MEMORY(err);
    MP_CHECK(mp_workload_hold(w, none, err));
    return mp_problem_floor(w->problem, floor_bytes, NULL, err);
}
