/* pipeline_smallest.c - finds the smallest budget with which every rank of a pipeline has a plan.
 *
 * The stage boundaries depend on the budget, and the smallest plan of a rank depends on the boundaries. So the budget is found
 * by bisection: a budget suffices if the smallest plan of each rank fits, with the boundaries of this budget. For ranks with
 * the same blocks, the smallest plan is computed once. A search may find a plan that, together with its stash, needs less
 * memory than the smallest plan. So slightly smaller budgets are searched at the end. */
#include "memplan/ranks/pipeline_smallest.h"

#include <stdio.h>
#include <string.h>

#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "memplan/floor.h"
#include "memplan/ranks/rank_plan.h"

/* constants of the search. Bisection ends at a relative distance below 1 / FINENESS. Afterwards budgets are lowered in steps of
 * 1 / STEP, at most LOWER times. The arena of keep-all may exceed its live bytes by 1 / FRAGMENTS */
enum { FINENESS = 100, STEP = 100, LOWER = 8, FRAGMENTS = 50 };

/* The smallest plan of a rank with certain stage boundaries. */
typedef struct rank_need {
    int rank, *begins;
    int64_t bytes;
} rank_need;

typedef struct smallest_search {
    const char *path;
    const mp_workload_options *options;
    const mp_request *asked; /* without a budget */
    bool with_offsets, is_stopped;
    mp_pipeline_shape shape;
    rank_need *needs;
    size_t n_needs, capacity;
    mp_pool *pool; /* owns the boundaries in `needs` */
} smallest_search;

static void smallest_search_clear(smallest_search *x)
{
    mp_free(x->needs);
    mp_pool_free(x->pool);
}

/* Returns a budget that is a whole number of MiB, KiB or bytes, rounded up, so that the printed budget is exact. */
static int64_t round_up(int64_t bytes)
{
    const int64_t kib = 1024, mib = kib * kib, least = 256, unit = bytes >= least * mib ? mib : bytes >= least * kib ? kib : 1;
    return (bytes + unit - 1) / unit * unit;
}

static const rank_need *find_need(const smallest_search *x, int rank, const int *begins)
{
    const size_t n = (size_t)(x->shape.n_ranks * x->shape.n_chunks);
    for (size_t k = 0; k < x->n_needs; k++) {
        const rank_need *known = &x->needs[k];
        bool is_same = known->rank == rank;
        for (size_t q = (size_t)rank; q < n && is_same; q += (size_t)x->shape.n_ranks)
            is_same = known->begins[q] == begins[q] && (q + 1 == n || known->begins[q + 1] == begins[q + 1]);
        if (is_same) return known;
    }
    return NULL;
}

static mp_status add_need(smallest_search *x, int rank, const mp_workload *s, int64_t bytes, mp_error *err)
{
    const size_t n = (size_t)(x->shape.n_ranks * x->shape.n_chunks);
    int *begins = mp_pool_alloc(x->pool, n, sizeof *begins);
    if (!begins || !mp_grow(&x->needs, &x->capacity, x->n_needs + 1, sizeof *x->needs)) return MP_NO_MEMORY(err);
    memcpy(begins, s->begins, n * sizeof *begins);
    x->needs[x->n_needs++] = (rank_need){rank, begins, bytes};
    return MP_OK;
}

static bool pass_on(const mp_progress *now, void *data)
{
    smallest_search *x = data;
    if (x->asked->progress && !x->asked->progress(now, x->asked->progress_data)) x->is_stopped = true;
    return !x->is_stopped;
}

static mp_request request_of(smallest_search *x, int64_t budget_bytes)
{
    mp_request request = *x->asked;
    request.budget_bytes = budget_bytes;
    request.progress = pass_on;
    request.progress_data = x;
    return request;
}

/* Loads the workload of a rank, with the stage boundaries of a budget. */
static mp_status load_rank(const smallest_search *x, int rank, int64_t budget_bytes, mp_workload *out, mp_error *err)
{
    char text[16];
    mp_workload_options o = *x->options;
    snprintf(text, sizeof text, "%d", rank);
    o.rank = text;
    o.rank_bytes = budget_bytes;
    return mp_workload_load(x->path, &o, out, err);
}

/* Returns in *bytes the memory of a rank's smallest plan, with the stage boundaries that belong to this budget. Returns
 * keep-all's peak if keep-all fits, and the floor if the floor does not fit. */
static mp_status need_of_rank(smallest_search *x, int rank, int64_t budget_bytes, int64_t *bytes, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    const mp_request request = request_of(x, MP_NO_LIMIT);
    const mp_step *steps;
    const mp_timeline *keep_all;
    MP_CHECK(load_rank(x, rank, budget_bytes, &s, err));
    const rank_need *known = find_need(x, rank, s.begins);
    if (known) {
        *bytes = known->bytes;
        return MP_OK;
    }
    MP_CHECK(mp_problem_keep_all(s.problem, &steps, &keep_all, err));
    *bytes = keep_all->peak_bytes;
    if (*bytes + *bytes / FRAGMENTS <= budget_bytes) return MP_OK;
    MP_CHECK(mp_workload_floor(&s, bytes, err));
    if (*bytes > budget_bytes) return MP_OK;
    MP_CHECK(mp_workload_smallest(&s, &request, x->with_offsets, bytes, err));
    return add_need(x, rank, &s, *bytes, err);
}

/* Computes the memory of every rank. Returns in *bytes the largest of these numbers, and in *fullest the rank that has it.
 * Ends at the first rank that does not fit. */
static mp_status need_of_all(smallest_search *x, int64_t budget_bytes, int *fullest, int64_t *bytes, mp_error *err)
{
    const int first = *fullest, n = x->shape.n_ranks;
    *bytes = 0;
    for (int k = 0; k < n && *bytes <= budget_bytes; k++) {
        const int rank = (first + k) % n;
        int64_t need;
        MP_CHECK(need_of_rank(x, rank, budget_bytes, &need, err));
        if (need > *bytes) *fullest = rank;
        if (need > *bytes) *bytes = need;
    }
    return MP_OK;
}

/* Searches by bisection for the smallest sufficient budget up to *bytes, which is sufficient. If the search is stopped, *bytes
 * is still sufficient. */
static mp_status bisect(smallest_search *x, int *fullest, int64_t *bytes, mp_error *err)
{
    int64_t low = 0, guess = *bytes, need;
    while (*bytes - low > *bytes / FINENESS && !x->is_stopped) {
        MP_CHECK(need_of_all(x, guess, fullest, &need, err));
        if (x->is_stopped) break;
        const bool fits = need <= guess;
        if (fits)
            *bytes = guess;
        else
            low = guess;
        if (fits && round_up(need) < guess && round_up(need) > low)
            guess = round_up(need); /* a budget of `need` suffices too, unless the stage boundaries change with the budget */
        else
            guess = round_up(low + (*bytes - low) / 2);
        if (guess >= *bytes) break;
    }
    return MP_OK;
}

/* Sets *fits to true if a search finds a plan for every rank within these bytes. */
static mp_status plan_all(smallest_search *x, int fullest, int64_t bytes, bool *fits, mp_error *err)
{
    const mp_request request = request_of(x, bytes);
    const int n = x->shape.n_ranks;
    *fits = true;
    for (int k = 0; k < n && *fits; k++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
        MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
        MP_CHECK(load_rank(x, (fullest + k) % n, bytes, &s, err));
        MP_CHECK(mp_workload_plan(&s, &request, x->with_offsets, &plan, err));
        *fits = plan;
    }
    return MP_OK;
}

mp_status mp_pipeline_smallest_budget(const char *path, const mp_workload_options *o, const mp_request *request,
                                      bool with_offsets, int64_t peak_bytes, int64_t *bytes, mp_error *err)
{
    MP_CLEARED_BY(smallest_search_clear)
    smallest_search x = {.path = path, .options = o, .asked = request, .with_offsets = with_offsets, .pool = mp_pool_new()};
    int fullest = 0;
    if (!x.pool) return MP_NO_MEMORY(err);
    MP_CHECK(mp_workload_pipeline(o, &x.shape, err));
    const int64_t most =
        round_up(peak_bytes + peak_bytes / 2); /* the smallest plan, with its arena, may exceed keep-all's peak */
    int64_t found = most;
    MP_CHECK(bisect(&x, &fullest, &found, err));
    for (int k = 0; k < LOWER && !x.is_stopped && found < most; k++) {
        const int64_t lower = found - found / STEP;
        bool fits;
        /* a time limit covers the plans of all ranks, so no time is spent on smaller budgets */
        if (request->time_limit > 0) break;
        MP_CHECK(plan_all(&x, fullest, lower, &fits, err));
        if (!fits || x.is_stopped) break;
        found = lower;
    }
    *bytes = found == most ? -1 : found;
    return MP_OK;
}
