/* anneal.c - simulated annealing over whole schedules: what is recomputed, how often, where, and, unless the order is to be
 * kept, when everything runs. Starts from the best that the searchers before it have found. */
#include <math.h>
#include <stdlib.h>

#include "planner/moves.h"
#include "planner/schedule.h"
#include "planner/solver.h"

typedef struct annealer {
    mp_search *search;
    const mp_graph *graph;
    mp_runs *runs;
    mp_mover mover;
    double unit;   /* ticks of a cheap operator */
    double weight; /* of bytes over the budget, in ticks per byte */
    mp_step *best; /* without updates */
    size_t n_best, capacity;
    int64_t best_ticks; /* of what is within the budget; INT64_MAX: nothing yet */
} annealer;

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of what forward nodes take that can run again. */
static mp_status find_unit(annealer *a, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *g = a->graph;
    size_t n = 0;
    int64_t *ticks = mp_alloc(g->n_nodes, sizeof *ticks);
    MP_REQUIRE(ticks, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < g->n_nodes; k++)
        if (g->nodes[k].phase == MP_PHASE_FORWARD && g->nodes[k].forms[0].ticks > 0) ticks[n++] = g->nodes[k].forms[0].ticks;
    qsort(ticks, n, sizeof *ticks, by_value);
    a->unit = n ? (double)ticks[n / 2] : 1;
done:
    mp_free(ticks);
    return st;
}

static double energy(const annealer *a)
{
    return (double)a->runs->ticks + a->weight * (double)a->runs->axis.total_over;
}

static mp_status keep_best(annealer *a, mp_error *err)
{
    if (a->runs->axis.total_over > 0 || a->runs->ticks >= a->best_ticks) return MP_OK;
    if (!mp_grow(&a->best, &a->capacity, (size_t)a->runs->n_on + 1, sizeof *a->best))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %d steps", a->runs->n_on);
    a->n_best = mp_runs_steps(a->runs, a->best);
    a->best_ticks = a->runs->ticks;
    return MP_OK;
}

/* n moves, while the temperature falls from `hot` to `cold` (in units). */
static mp_status anneal(annealer *a, int64_t n, double hot, double cold, mp_error *err)
{
    mp_status st = MP_OK;
    enum { LOOK = 1024, PENALTY = 20 };
    const double least = PENALTY * a->unit / (double)(a->runs->limit_bytes > 0 ? a->runs->limit_bytes : 1);
    int64_t long_over = 0;
    double now;
    a->weight = least;
    now = energy(a);
    for (int64_t k = 0; k < n; k++) {
        if (k % LOOK == 0) {
            if (mp_search_stopped(a->search)) break;
            if (a->runs->n_crowded > 500) mp_runs_spread(a->runs);
            long_over = a->runs->axis.total_over > 0 ? long_over + 1 : 0; /* bytes over cost more the longer it lasts */
            if (long_over > 4) a->weight *= 1.05;
            if (!long_over && a->weight > least) a->weight *= 0.99;
            now = energy(a);
        }
        const double t = a->unit * hot * pow(cold / hot, (double)k / (double)n);
        const bool done = mp_move(&a->mover);
        MP_REQUIRE(!a->runs->failed, err, MP_NOMEM, "out of memory for %d runs", a->runs->n_on);
        const double then = done ? energy(a) : HUGE_VAL;
        if (done && then - now <= -t * log(1 - mp_mover_uniform(&a->mover))) {
            mp_runs_keep(a->runs);
            now = then;
            MP_TRY(keep_best(a, err));
        } else {
            mp_runs_undo(a->runs);
            mp_runs_keep(a->runs);
        }
    }
done:
    return st;
}

static mp_status load(annealer *a, const mp_step *steps, size_t n, bool keeps_order, uint64_t seed, mp_error *err)
{
    mp_status st = MP_OK;
    mp_mover_free(&a->mover);
    mp_runs_free(a->runs);
    a->runs = NULL;
    MP_TRY(mp_runs_new(a->graph, mp_search_request(a->search)->budget_bytes, steps, n, &a->runs, err));
    MP_TRY(mp_mover_new(a->runs, seed, keeps_order, &a->mover, err));
done:
    return st;
}

static mp_status offer(annealer *a, mp_error *err)
{
    mp_status st = MP_OK;
    mp_step *steps = NULL;
    size_t n;
    if (a->best_ticks == INT64_MAX) return MP_OK;
    MP_TRY(mp_schedule_updates(a->graph, a->best, a->n_best, &steps, &n, err));
    MP_TRY(mp_search_offer(a->search, steps, n, NULL, NULL, err));
done:
    mp_free(steps);
    return st;
}

mp_status mp_run_anneal(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(search);
    annealer a = {.search = search, .graph = request->graph, .best_ticks = INT64_MAX};
    const mp_step *start;
    size_t n;
    if (request->budget_bytes == INT64_MAX || mp_search_settled(search)) return MP_OK;
    const double share = getenv("HOT") ? atof(getenv("HOT")) : 4;
    const double cold = getenv("COLD") ? atof(getenv("COLD")) : 0.45;
    const int64_t moves = getenv("MOVES") ? atoll(getenv("MOVES")) : 500000;
    mp_search_best(search, &start, &n);
    MP_TRY(find_unit(&a, err));
    MP_TRY(load(&a, start, n, getenv("KEEP") != NULL, request->seed + 1, err));
    MP_TRY(keep_best(&a, err));
    MP_TRY(anneal(&a, moves, share, cold, err));
    MP_TRY(offer(&a, err));
done:
    mp_mover_free(&a.mover);
    mp_runs_free(a.runs);
    mp_free(a.best);
    return st;
}
