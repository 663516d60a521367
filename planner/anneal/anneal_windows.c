/* anneal_windows.c - cuts a large graph into windows, anneals the windows in which keep-all exceeds the budget, and joins their
 * orders. */
#include "planner/anneal/anneal.h"

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"
#include "planner/order/part.h"
#include "planner/order/turn_around.h"

enum { WALKS = MP_ANNEAL_WALKS };

/* A window: the nodes [begin, end) of the node list, which one walk anneals. */
typedef struct window {
    size_t begin, end;
    bool is_over; /* true if keep-all exceeds the budget in this window */
    mp_step *steps;
    size_t n_steps; /* number of steps of the order found for the window; 0: its nodes run in list order */
} window;

/* The data of a walk that is searching one window. */
typedef struct place {
    mp_part part;
    mp_anneal_order list; /* the order in which each node of the window runs once, in list order (keep-all) */
    _Atomic int64_t enough;
} place;

typedef struct cutting {
    mp_search *search;
    const mp_graph *graph;
    /* limit on the live bytes of each window, without static bytes. If the best order of a window exceeds the limit, the limit
     * rises to the peak of that order */
    int64_t budget_bytes;
    double unit;
    int *number; /* scratch for mp_part_init, with one element per storage */
    window *windows;
    /* n: number of windows; n_over: number of windows in which keep-all exceeds the budget; n_done: number of windows already
     * searched */
    size_t n, n_over, n_done;
    /* true if some window has no plan within the budget; a walk in a later window then ends at its first order within
     * budget_bytes */
    bool is_lost;
    place places[WALKS];
    mp_anneal_walk walks[WALKS];
    atomic_bool stop;
} cutting;

bool mp_anneal_has_windows(const mp_graph *graph)
{
    return !graph->has_copies && mp_graph_is_local(graph) && mp_graph_has_parts(graph);
}

/* Chooses the first node of each window. Every window after the first begins in the second half of the longest range that the
 * window before it may cover. In this half, it begins at the position that the fewest bytes cross. */
static mp_status find_windows(cutting *c, mp_error *err)
{
    const size_t n = c->graph->n_nodes;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *keep_all = NULL;
    MP_OWNED mp_step *steps = mp_alloc(n, sizeof *steps);
    MP_OWNED int64_t *crosses = mp_alloc(n + 1, sizeof *crosses);
    c->windows = mp_alloc(2 * n / MP_ANNEAL_WINDOW_NODES + 2, sizeof *c->windows);
    MP_ENSURE(steps && crosses && c->windows, err, MP_NOMEM, "out of memory for %zu nodes", n);
    mp_keep_all(c->graph, steps);
    MP_CHECK(mp_timeline_build(c->graph, steps, n, &keep_all, err));
    mp_timeline_between(c->graph, keep_all, crosses);
    for (size_t begin = 0, end; begin < n; begin = end) {
        end = begin + MP_ANNEAL_WINDOW_NODES;
        if (end > n) end = n;
        for (size_t v = begin + MP_ANNEAL_WINDOW_NODES / 2; end < n && v < begin + MP_ANNEAL_WINDOW_NODES; v++)
            if (crosses[v] < crosses[end]) end = v;
        window *w = &c->windows[c->n++];
        *w = (window){.begin = begin, .end = end};
        for (size_t v = begin; v < end; v++) w->is_over = w->is_over || keep_all->live_bytes[v] > c->budget_bytes;
        c->n_over += w->is_over;
    }
    return MP_OK;
}

/* ---- one window ---- */

static mp_status take_place(cutting *c, int k, const window *w, double from, double end, mp_error *err)
{
    const mp_request *request = mp_search_request(c->search);
    place *p = &c->places[k];
    int64_t ticks = 0;
    mp_part_clear(&p->part);
    MP_CHECK(mp_part_init(&p->part, c->graph, w->begin, w->end, true, c->number, err));
    const mp_graph *graph = p->part.graph;
    MP_ENSURE(mp_grow(&p->list.steps, &p->list.capacity, graph->n_nodes, sizeof *p->list.steps), err, MP_NOMEM,
              "out of memory for %zu steps", graph->n_nodes);
    mp_keep_all(graph, p->list.steps);
    p->list.n = graph->n_nodes;
    for (size_t v = 0; v < graph->n_nodes; v++) ticks += graph->nodes[v].alternatives[0].ticks;
    atomic_store(&p->enough, ticks);
    const mp_anneal_walk before = c->walks[k];
    c->walks[k] = (mp_anneal_walk){
        .search = c->search,
        .graph = graph,
        .budget_bytes = c->budget_bytes,
        .is_apart = true,
        .ends_at_first = c->is_lost,
        .leads = !k,
        .from = from,
        .end = end,
        .stop = &c->stop,
        .seed = request->seed * c->n + c->n_done,
        .keeps_order = request->keep_order,
        .draws_near = true,
        .unit = c->unit,
        .hot = MP_ANNEAL_LOCAL_HOT,
        .cold = MP_ANNEAL_LOCAL_COLD,
        .n_moves = (int64_t)graph->n_nodes * MP_ANNEAL_LOCAL_MOVES,
        .enough = &p->enough,
        .start = &p->list,
        .best = {before.best.steps, 0, before.best.capacity, INT64_MAX},
        .smallest = {before.smallest.steps, 0, before.smallest.capacity, INT64_MAX},
    };
    c->n_done++;
    return MP_OK;
}

/* Stores the result of a window's walk: its best order, or the order with the smallest peak if the walk found no plan. */
static mp_status take_found(cutting *c, int k, window *w, mp_error *err)
{
    const mp_anneal_walk *walk = &c->walks[k];
    const bool is_within = walk->best.ticks < INT64_MAX;
    const mp_anneal_order *found = is_within ? &walk->best : &walk->smallest;
    c->is_lost = c->is_lost || !is_within;
    if (!is_within && walk->smallest_bytes > c->budget_bytes) c->budget_bytes = walk->smallest_bytes;
    MP_ENSURE(w->steps = mp_alloc(found->n, sizeof *w->steps), err, MP_NOMEM, "out of memory for %zu steps", found->n);
    for (size_t t = 0; t < found->n; t++) {
        const int node = mp_part_node(&c->places[k].part, found->steps[t].node);
        if (node >= 0) w->steps[w->n_steps++] = (mp_step){.node = node, .alternative = found->steps[t].alternative};
    }
    return MP_OK;
}

/* ---- all windows ---- */

/* Searches as many windows as walks can run in parallel. It takes the windows over the budget from index *next on, and advances
 * *next. */
static mp_status search_some(cutting *c, size_t *next, mp_error *err)
{
    window *now[WALKS];
    int n = 0;
    const double elapsed = mp_search_elapsed(c->search), left = (double)(c->n_over - c->n_done) / WALKS;
    for (; *next < c->n && n < WALKS; ++*next) {
        if (!c->windows[*next].is_over) continue;
        now[n] = &c->windows[*next];
        MP_CHECK(take_place(c, n, now[n], elapsed, elapsed + (1 - elapsed) / (left > 1 ? left : 1), err));
        n++;
    }
    if (n) MP_CHECK(mp_anneal_walk_all(c->walks, n, err));
    for (int k = 0; k < n; k++) MP_CHECK(take_found(c, k, now[k], err));
    return MP_OK;
}

static mp_status offer_all(const cutting *c, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    size_t n = 0, most = 0;
    for (size_t k = 0; k < c->n; k++)
        most += c->windows[k].n_steps ? c->windows[k].n_steps : c->windows[k].end - c->windows[k].begin;
    MP_ENSURE(steps = mp_alloc(most, sizeof *steps), err, MP_NOMEM, "out of memory for %zu steps", most);
    for (size_t k = 0; k < c->n; k++) {
        const window *w = &c->windows[k];
        for (size_t t = 0; t < w->n_steps; t++) steps[n++] = w->steps[t];
        for (size_t v = w->begin; !w->n_steps && v < w->end; v++) steps[n++] = (mp_step){.node = (int)v};
    }
    return mp_search_offer(c->search, steps, n, NULL, NULL, err);
}

static void clear(cutting *c)
{
    for (size_t k = 0; k < c->n; k++) mp_free(c->windows[k].steps);
    for (int k = 0; k < WALKS; k++) {
        mp_part_clear(&c->places[k].part);
        mp_free(c->places[k].list.steps);
        mp_free(c->walks[k].best.steps);
        mp_free(c->walks[k].smallest.steps);
    }
    mp_free(c->windows);
    mp_free(c->number);
}

mp_status mp_anneal_windows(mp_search *search, double unit, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    MP_CLEARED_BY(clear) cutting c = {.search = search, .graph = request->graph, .unit = unit};
    c.budget_bytes = request->budget_bytes - mp_graph_static_bytes(request->graph);
    MP_ENSURE(c.number = mp_alloc(c.graph->n_storages, sizeof *c.number), err, MP_NOMEM, "out of memory for %zu storages",
              c.graph->n_storages);
    MP_CHECK(find_windows(&c, err));
    for (size_t next = 0; next < c.n && !atomic_load(&c.stop);) MP_CHECK(search_some(&c, &next, err));
    return offer_all(&c, err);
}
