/* anneal.c - simulated annealing over whole schedules: what is recomputed, how often, where, and, unless the order is to be
 * kept, when everything runs. Starts from the best that the searchers before it have found.
 *
 * Two chains, always, each in a thread of its own: one that leaves first runs where they are, and one that moves them too;
 * where there is no backward phase and that one is ahead after a round, order is all, and both do. After each round both go on
 * from the better of their results. Energy is ticks, and a price on every byte over the budget in every step; the price rises
 * while the budget is exceeded for long. Kirkpatrick, Gelatt, Vecchi 1983.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "planner/moves.h"
#include "planner/schedule.h"
#include "planner/solver.h"

enum { CHAINS = 2, LOOK = 512, LEAST_MOVES = 2000, N_ROUNDS = 3, REFINING = 2 /* a round */ };

/* Temperatures are in units, the ticks of a common operator: a first cool round does what can be done near the start, a hot one
 * finds another valley, and a last cool one goes down to its bottom. */
static const struct {
    double share, hot, cold;
} rounds[N_ROUNDS] = {{0.15, 1.5, 0.1}, {0.60, 4, 0.15}, {0.25, 1.3, 0.1}};

/* An order without updates. */
typedef struct order {
    mp_step *steps;
    size_t n, capacity;
    int64_t ticks; /* INT64_MAX: nothing within the budget yet */
} order;

typedef struct chain {
    mp_search *search;
    bool leads;       /* asks the search whether to stop; one chain does */
    double from, end; /* of the round, in shares of the time limit */
    atomic_bool *stop;
    const mp_graph *graph;
    int64_t budget_bytes;
    uint64_t seed;
    bool keeps_order;
    double unit;
    int64_t enough;     /* ticks, without updates, below which nothing can be */
    const order *start; /* of the round */
    order best;
    order
        smallest; /* while there is no best one: of those over the budget the one that is least so; its ticks are those bytes */
    int64_t n_moves;
    double hot, cold;
    mp_status status;
    mp_error err;
    long n_live; /* of mp_alloc_live, from a thread of its own */
} chain;

static mp_status copy_order(order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err)
{
    if (!mp_grow(&to->steps, &to->capacity, n + 1, sizeof *to->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %zu steps", n);
    for (size_t t = 0; t < n; t++) to->steps[t] = steps[t];
    to->n = n;
    to->ticks = ticks;
    return MP_OK;
}

static mp_status keep_order_of(order *to, const mp_runs *x, int64_t ticks, mp_error *err)
{
    if (!mp_grow(&to->steps, &to->capacity, (size_t)x->n_on + 1, sizeof *to->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %d steps", x->n_on);
    to->n = mp_runs_steps(x, to->steps);
    to->ticks = ticks;
    return MP_OK;
}

static mp_status keep_smallest(chain *c, const mp_runs *x, mp_error *err)
{
    if (c->best.ticks < INT64_MAX) return MP_OK;
    const int64_t most = mp_axis_most(&x->axis);
    return most < c->smallest.ticks ? keep_order_of(&c->smallest, x, most, err) : MP_OK;
}

static mp_status keep_best(chain *c, const mp_runs *x, mp_error *err)
{
    return x->axis.total_over > 0 || x->ticks >= c->best.ticks ? MP_OK : keep_order_of(&c->best, x, x->ticks, err);
}

static bool stopped(chain *c)
{
    if (c->leads) mp_search_count_moves(c->search, LOOK);
    if (c->leads && mp_search_stopped(c->search)) atomic_store(c->stop, true);
    if (c->best.ticks <= c->enough) { /* the first chain's result counts then, wherever the other one stands */
        if (c->leads) atomic_store(c->stop, true);
        return true;
    }
    return atomic_load(c->stop);
}

/* How much of a round is over after k moves: what a time limit leaves for it, if that is less than its moves take. */
static double progress_of(const chain *c, int64_t k)
{
    const double by_moves = (double)k / (double)c->n_moves, elapsed = mp_search_elapsed(c->search);
    const double by_time = elapsed > c->from ? (elapsed - c->from) / (c->end - c->from) : 0;
    return by_moves > by_time ? by_moves : by_time;
}

/* The moves of a round, while the temperature falls from hot to cold. */
static mp_status walk(chain *c, mp_runs *x, mp_mover *mover, mp_error *err)
{
    mp_status st = MP_OK;
    enum { PRICE = 20, PATIENCE = 8 };
    const double least = PRICE * c->unit / (double)(x->limit_bytes > 0 ? x->limit_bytes : 1);
    double price = least, t = 0, now = 0;
    int n_over = 0; /* looks in a row that found the budget exceeded */
    for (int64_t k = 0; k < c->n_moves; k++) {
        if (k % LOOK == 0) {
            const double progress = progress_of(c, k);
            if (stopped(c) || progress >= 1) break;
            if (x->n_shifted > x->n_on) mp_runs_spread(x);
            MP_TRY(keep_smallest(c, x, err));
            n_over = x->axis.total_over > 0 ? n_over + 1 : 0;
            if (n_over > PATIENCE && price < 1000 * least) price *= 1.05;
            if (!n_over && price > least) price *= 0.95;
            now = (double)x->ticks + price * (double)x->axis.total_over;
            t = c->unit * c->hot * pow(c->cold / c->hot, progress);
        }
        const bool done = mp_move(mover);
        MP_REQUIRE(!x->failed, err, MP_NOMEM, "out of memory for %d runs", x->n_on);
        const double then = (double)x->ticks + price * (double)x->axis.total_over;
        if (done && (then <= now || then - now <= -t * log(1 - mp_mover_uniform(mover)))) {
            mp_runs_keep(x);
            now = then;
            MP_TRY(keep_best(c, x, err));
        } else {
            mp_runs_undo(x);
            mp_runs_keep(x);
        }
    }
done:
    return st;
}

static mp_status run_round(chain *c, mp_error *err)
{
    mp_status st = MP_OK;
    mp_runs *x = NULL;
    mp_mover mover = {0};
    MP_TRY(mp_runs_new(c->graph, c->budget_bytes, c->start->steps, c->start->n, &x, err));
    MP_TRY(mp_mover_new(x, c->seed, c->keeps_order, &mover, err));
    MP_TRY(keep_best(c, x, err));
    MP_TRY(walk(c, x, &mover, err));
done:
    mp_mover_free(&mover);
    mp_runs_free(x);
    return st;
}

static void *run_chain(void *data)
{
    chain *c = data;
    const long before = mp_alloc_live;
    c->status = run_round(c, &c->err);
    c->n_live = mp_alloc_live - before;
    return NULL;
}

/* The chains' rounds, side by side where a thread can be had. */
static mp_status run_chains(chain *chains, mp_error *err)
{
    pthread_t threads[CHAINS];
    bool is_apart[CHAINS] = {false};
    for (int k = 1; k < CHAINS; k++) is_apart[k] = !pthread_create(&threads[k], NULL, run_chain, &chains[k]);
    run_chain(&chains[0]);
    for (int k = 1; k < CHAINS; k++) {
        if (is_apart[k]) {
            pthread_join(threads[k], NULL);
            mp_alloc_live += chains[k].n_live;
        } else {
            run_chain(&chains[k]);
        }
    }
    for (int k = 0; k < CHAINS; k++) {
        if (chains[k].status == MP_OK) continue;
        if (err && err->code == MP_OK) *err = chains[k].err;
        return chains[k].status;
    }
    return MP_OK;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of what forward nodes take. */
static mp_status find_unit(const mp_graph *g, double *unit, mp_error *err)
{
    mp_status st = MP_OK;
    size_t n = 0;
    int64_t *ticks = mp_alloc(g->n_nodes, sizeof *ticks);
    MP_REQUIRE(ticks, err, MP_NOMEM, "out of memory for %zu nodes", g->n_nodes);
    for (size_t k = 0; k < g->n_nodes; k++)
        if (g->nodes[k].phase == MP_PHASE_FORWARD && g->nodes[k].forms[0].ticks > 0) ticks[n++] = g->nodes[k].forms[0].ticks;
    qsort(ticks, n, sizeof *ticks, by_value);
    *unit = n ? (double)ticks[n / 2] : 1;
done:
    mp_free(ticks);
    return st;
}

static mp_status offer(mp_search *search, const order *found, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(search);
    mp_step *steps = NULL;
    size_t n;
    if (found->ticks == INT64_MAX) return MP_OK;
    MP_TRY(mp_schedule_updates_within(request->graph, found->steps, found->n, request->budget_bytes, &steps, &n, err));
    MP_TRY(mp_search_offer(search, steps, n, NULL, NULL, err));
done:
    mp_free(steps);
    return st;
}

/* On large graphs there is time for a cool round only. */
static bool is_large(const mp_request *request)
{
    enum { LARGE = 6000 };
    return request->graph->n_nodes > LARGE;
}

/* Whether the rounds that are left are not worth their seconds: in a graph of some size what is found is within a thousandth of
 * a step, and a thirtieth of the extra time, of the bound. */
static bool is_close(const mp_search *search)
{
    enum { MIDDLE = 400, OF_STEP = 1000, OF_EXTRA = 30 };
    const int64_t enough = mp_search_enough(search), ticks = mp_search_best_ticks(search);
    if (mp_search_request(search)->graph->n_nodes <= MIDDLE || ticks == INT64_MAX) return false;
    const int64_t gap = ticks - enough;
    return gap <= enough / OF_STEP && gap <= (ticks - mp_search_baseline_ticks(search)) / OF_EXTRA;
}

/* Moves of each chain: many for their price on small graphs; on large ones, where a move touches more, as many as a second or
 * two allow. */
static int64_t count_moves(const mp_search *search)
{
    enum { WORK = 200000000 /* moves by nodes */ };
    const mp_request *request = mp_search_request(search);
    const int64_t n_nodes = (int64_t)request->graph->n_nodes, per_offer = n_nodes / 2;
    int64_t n = mp_search_moves(search) * (per_offer < 200 ? per_offer : 200);
    if (request->moves <= 0 && is_large(request) && n > WORK / n_nodes) n = WORK / n_nodes;
    return n < LEAST_MOVES ? LEAST_MOVES : n;
}

mp_status mp_run_anneal(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(search);
    atomic_bool stop = false;
    chain chains[CHAINS] = {0};
    order best = {.ticks = INT64_MAX};
    const mp_step *start;
    size_t n_start;
    bool goes_back = false, order_is_all = false;
    double unit = 1;
    const int64_t n_moves = count_moves(search);
    int64_t enough = mp_search_enough(search);
    double shares = 0; /* of the rounds to come */
    const int first = request->refine || is_large(request) ? REFINING : 0;
    if (request->budget_bytes == INT64_MAX || mp_search_settled(search)) return MP_OK;
    MP_TRY(find_unit(request->graph, &unit, err));
    for (size_t k = 0; k < request->graph->n_nodes; k++) {
        const mp_node *node = &request->graph->nodes[k];
        if (node->phase == MP_PHASE_UPDATE) enough -= node->forms[0].ticks;
        goes_back = goes_back || node->phase == MP_PHASE_BACKWARD;
    }
    mp_search_best(search, &start, &n_start);
    MP_TRY(copy_order(&best, start, n_start, INT64_MAX, err));
    for (int r = first; r < N_ROUNDS; r++) shares += rounds[r].share;
    for (int r = first; r < N_ROUNDS && !atomic_load(&stop) && !mp_search_settled(search) && !is_close(search); r++) {
        const double elapsed = mp_search_elapsed(search);
        for (int k = 0; k < CHAINS; k++) {
            chain *c = &chains[k];
            c->search = search;
            c->leads = !k;
            c->from = elapsed;
            c->end = elapsed + (1 - elapsed) * rounds[r].share / shares;
            c->stop = &stop;
            c->graph = request->graph;
            c->budget_bytes = request->budget_bytes;
            c->seed = (request->seed * CHAINS + (uint64_t)k) * N_ROUNDS + (uint64_t)r;
            c->keeps_order = request->keep_order || (!k && !order_is_all);
            c->unit = unit;
            c->enough = enough;
            c->start = &best;
            c->best.ticks = best.ticks;
            c->smallest.ticks = INT64_MAX;
            c->n_moves = (int64_t)(rounds[r].share * (double)n_moves);
            c->hot = rounds[r].hot;
            c->cold = rounds[r].cold;
            c->err = (mp_error){0};
        }
        shares -= rounds[r].share;
        MP_TRY(run_chains(chains, err));
        order_is_all = order_is_all || (!goes_back && chains[1].best.ticks < chains[0].best.ticks);
        for (int k = 0; k < CHAINS; k++)
            if (chains[k].best.ticks < best.ticks)
                MP_TRY(copy_order(&best, chains[k].best.steps, chains[k].best.n, chains[k].best.ticks, err));
        MP_TRY(offer(search, &best, err));
        for (int k = 0; k < CHAINS && best.ticks == INT64_MAX; k++) MP_TRY(offer(search, &chains[k].smallest, err));
    }
done:
    for (int k = 0; k < CHAINS; k++) {
        mp_free(chains[k].best.steps);
        mp_free(chains[k].smallest.steps);
    }
    mp_free(best.steps);
    return st;
}
