/* priced_labels.c - the network of a priced problem, and its cut.
 *
 * A vertex on the side of the source means: of a storage, that it is there after the turn; of a stage, that its node runs
 * again. A storage there costs what it costs from its second making on (its drain), and the rest of the price of storing it
 * where its maker does not run again (the arc to that stage). A stage that runs again has its ticks for a drain, and arcs to
 * what it reads. Whatever stages after the turn read has a supply, one more than the price of storing it, which therefore
 * never pays to be cut; likewise the arcs to what is read.
 *
 * Where a storage would be made again and how long it would then live depends on what else is made again: the labels of the cut
 * before tell.
 */
#include <math.h>

#include "planner/math/tuning.h"
#include "planner/priced/cut_labels.h"

static bool is_late(const mp_priced *x, int stage)
{
    return stage >= x->turn;
}

static const mp_form *form_of(const mp_priced *x, int stage)
{
    return &x->graph->nodes[x->node[stage]].forms[0];
}

static mp_status find_turn(mp_priced *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = x->graph;
    mp_step *steps = NULL;
    mp_timeline *timeline = NULL;
    for (int k = 0; k < x->n; k++) {
        if (graph->nodes[x->node[k]].phase == MP_PHASE_FORWARD) continue;
        x->turn = k;
        return MP_OK;
    }
    MP_REQUIRE(steps = mp_alloc((size_t)x->n, sizeof *steps), err, MP_NOMEM, "out of memory for %d steps", x->n);
    for (int k = 0; k < x->n; k++) steps[k].node = x->node[k];
    MP_TRY(mp_timeline_build(graph, steps, (size_t)x->n, &timeline, err));
    x->turn = timeline->peak_step > 0 ? timeline->peak_step : 0;
done:
    mp_free(steps);
    mp_timeline_free(timeline);
    return st;
}

/* Which storages there is a choice about, and when they are read. */
static void find_uses(mp_priced *x)
{
    const mp_graph *graph = x->graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        x->maker[s] = x->early[s] = x->last[s] = -1;
        x->first[s] = x->n;
    }
    for (int k = 0; k < x->n; k++) {
        const mp_form *form = form_of(x, k);
        for (size_t i = 0; i < form->n_writes && !is_late(x, k); i++) {
            const int s = form->writes[i];
            if (!mp_storage_is_static(&graph->storages[s])) x->maker[s] = x->early[s] = k;
        }
        for (size_t i = 0; i < form->n_reads; i++) {
            const int s = form->reads[i];
            if (!is_late(x, k)) {
                x->early[s] = k;
                continue;
            }
            x->last[s] = k;
            if (x->first[s] == x->n) x->first[s] = k;
        }
    }
    for (size_t v = 0; v < graph->n_nodes; v++) /* no stage makes again what an update reads */
        for (size_t i = 0; i < graph->nodes[v].forms[0].n_reads && graph->nodes[v].phase == MP_PHASE_UPDATE; i++)
            x->maker[graph->nodes[v].forms[0].reads[i]] = -1;
}

static void need(mp_priced *x, int s, int by, int run)
{
    if (run < x->needed[s]) {
        x->next_needed[s] = x->needed[s];
        x->needed[s] = run;
        x->needed_by[s] = by;
    } else if (run < x->next_needed[s]) {
        x->next_needed[s] = run;
    }
}

/* For every stage before the turn where it would run again if it did, and for what is made there how long it would live, given
 * which others run again; with `all`, if all did, and then also which stages can be of use at all. */
static void find_runs(mp_priced *x, bool all)
{
    const mp_graph *graph = x->graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        x->needed[s] = x->first[s];
        x->next_needed[s] = x->n;
        x->needed_by[s] = -1;
        x->end[s] = x->last[s];
    }
    for (int k = x->turn - 1; k >= 0; k--) {
        const mp_form *form = form_of(x, k);
        int run = x->n;
        for (size_t i = 0; i < form->n_writes; i++)
            if (x->maker[form->writes[i]] == k && x->needed[form->writes[i]] < run) run = x->needed[form->writes[i]];
        if (all) x->repeatable[k] &= run < x->n;
        x->run[k] = run;
        for (size_t i = 0; i < form->n_writes && run == x->n; i++) { /* nothing calls for it now: the last that could */
            const int s = form->writes[i];
            if (x->maker[s] == k && x->end[s] >= 0 && x->end[s] < x->run[k]) x->run[k] = x->end[s];
        }
        if (!x->repeatable[k]) continue;
        const bool is_again = !all && x->again[k] && run < x->n;
        for (size_t i = 0; i < form->n_reads; i++) {
            const int s = form->reads[i];
            if (all || is_again) need(x, s, k, run);
            if ((is_again || x->last[s] < 0) && x->run[k] > x->end[s]) x->end[s] = x->run[k];
        }
    }
}

static void number_vertices(mp_priced *x, int *n)
{
    const mp_graph *graph = x->graph;
    for (int k = 0; k < x->turn; k++) x->stage_vertex[k] = x->repeatable[k] ? (*n)++ : -1;
    for (size_t s = 0; s < graph->n_storages; s++) {
        const int k = x->maker[s];
        const bool is_asked = x->last[s] >= 0, is_choice = k >= 0 && (x->repeatable[k] || !is_asked);
        x->storage_vertex[s] = is_choice && x->end[s] >= 0 ? (*n)++ : -1;
    }
}

static mp_status build_network(mp_priced *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = x->graph;
    int n = 0, *from = NULL, *to = NULL;
    size_t most = graph->n_storages;
    number_vertices(x, &n);
    for (int k = 0; k < x->turn; k++) most += form_of(x, k)->n_reads;
    x->arc_from = mp_alloc(most, sizeof *x->arc_from);
    x->arc_to = mp_alloc(most, sizeof *x->arc_to);
    from = mp_alloc(most, sizeof *from);
    to = mp_alloc(most, sizeof *to);
    MP_REQUIRE(x->arc_from && x->arc_to && from && to, err, MP_NOMEM, "out of memory for a network of %s", graph->name);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        if (x->storage_vertex[s] < 0 || !x->repeatable[x->maker[s]]) continue;
        x->arc_from[x->n_arcs] = s;
        x->arc_to[x->n_arcs] = x->maker[s];
        from[x->n_arcs] = x->storage_vertex[s];
        to[x->n_arcs++] = x->stage_vertex[x->maker[s]];
    }
    x->n_making = x->n_arcs;
    for (int k = 0; k < x->turn; k++) {
        const mp_form *form = form_of(x, k);
        for (size_t i = 0; i < form->n_reads && x->repeatable[k]; i++) {
            if (x->storage_vertex[form->reads[i]] < 0) continue;
            x->arc_from[x->n_arcs] = k;
            x->arc_to[x->n_arcs] = form->reads[i];
            from[x->n_arcs] = x->stage_vertex[k];
            to[x->n_arcs++] = x->storage_vertex[form->reads[i]];
        }
    }
    MP_TRY(mp_mincut_new(n > 0 ? n : 1, from, to, x->n_arcs, &x->cut, err));
done:
    mp_free(from);
    mp_free(to);
    return st;
}

/* Ticks for the cut: their sum is about 2^MP_PRICED_TICK_BITS, so that sums with prices keep clear of overflow. */
static void scale_ticks(mp_priced *x)
{
    double total = 1;
    for (int k = 0; k < x->turn; k++) total += (double)form_of(x, k)->ticks;
    x->scale = ldexp(1, MP_PRICED_TICK_BITS) / total;
    for (int k = 0; k < x->turn; k++) {
        const double tilt = 1 + MP_PRICED_TILT * ((double)k / (double)x->turn - 0.5);
        x->scaled_ticks[k] = 1 + (int64_t)(x->scale * tilt * (double)form_of(x, k)->ticks);
    }
    x->most = INT64_C(1) << MP_PRICED_TICK_BITS;
    while (x->most > (INT64_C(1) << MP_PRICED_SUM_BITS) / (int64_t)(x->graph->n_storages + 1)) x->most /= 2;
}

static bool allocate(mp_priced *x)
{
    const size_t n_storages = x->graph->n_storages, n_nodes = x->graph->n_nodes;
    x->node = mp_alloc(n_nodes, sizeof *x->node);
    x->maker = mp_alloc(n_storages, sizeof *x->maker);
    x->early = mp_alloc(n_storages, sizeof *x->early);
    x->first = mp_alloc(n_storages, sizeof *x->first);
    x->last = mp_alloc(n_storages, sizeof *x->last);
    x->end = mp_alloc(n_storages, sizeof *x->end);
    x->needed = mp_alloc(n_storages, sizeof *x->needed);
    x->next_needed = mp_alloc(n_storages, sizeof *x->next_needed);
    x->needed_by = mp_alloc(n_storages, sizeof *x->needed_by);
    x->storage_vertex = mp_alloc(n_storages, sizeof *x->storage_vertex);
    x->repeatable = mp_alloc(n_nodes, sizeof *x->repeatable);
    x->held = mp_alloc(n_nodes, sizeof *x->held);
    x->run = mp_alloc(n_nodes, sizeof *x->run);
    x->stage_vertex = mp_alloc(n_nodes, sizeof *x->stage_vertex);
    x->scaled_ticks = mp_alloc(n_nodes, sizeof *x->scaled_ticks);
    x->again = mp_alloc(n_nodes, sizeof *x->again);
    x->price_before = mp_alloc(n_nodes + 1, sizeof *x->price_before);
    return x->node && x->maker && x->early && x->first && x->last && x->end && x->needed && x->next_needed && x->needed_by &&
           x->storage_vertex && x->repeatable && x->held && x->run && x->stage_vertex && x->scaled_ticks && x->again &&
           x->price_before;
}

mp_status mp_priced_new(const mp_graph *graph, mp_priced **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_priced *x = mp_alloc(1, sizeof *x);
    MP_REQUIRE(x, err, MP_NOMEM, "out of memory for the outputs of %s", graph->name);
    x->graph = graph;
    MP_REQUIRE(allocate(x), err, MP_NOMEM, "out of memory for the outputs of %s", graph->name);
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase != MP_PHASE_UPDATE) x->node[x->n++] = (int)v;
    MP_TRY(find_turn(x, err));
    find_uses(x);
    for (int k = 0; k < x->turn; k++) x->repeatable[k] = !(graph->nodes[x->node[k]].flags & MP_NODE_ONCE);
    find_runs(x, true);
    find_runs(x, false);
    MP_TRY(build_network(x, err));
    scale_ticks(x);
    *out = x;
    x = NULL;
done:
    mp_priced_free(x);
    return st;
}

void mp_priced_free(mp_priced *x)
{
    if (!x) return;
    void *blocks[] = {x->node, x->maker,        x->early,        x->first,        x->last,      x->repeatable,
                      x->run,  x->end,          x->needed,       x->next_needed,  x->needed_by, x->storage_vertex,
                      x->held, x->stage_vertex, x->scaled_ticks, x->price_before, x->arc_from,  x->arc_to,
                      x->again};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mp_free(blocks[i]);
    mp_mincut_free(x->cut);
    mp_free(x);
}

/* What storage s costs, scaled, while it lies from stage `from` until before stage `to`. */
static int64_t price_of(const mp_priced *x, int s, int from, int to)
{
    if (from >= to) return 0;
    const double sum = x->price_before[to] - x->price_before[from];
    const double price = sum * x->scale * (double)x->graph->storages[s].bytes;
    return price >= (double)x->most ? x->most : (int64_t)price;
}

static int64_t stored_price(const mp_priced *x, int s)
{
    return price_of(x, s, x->early[s] + 1, x->end[s] + 1);
}

/* Where what is made again is needed early for one stage only, half of the price of that is the stage's. */
static int64_t making_price(const mp_priced *x, int s)
{
    const int k = x->maker[s];
    const int64_t whole = price_of(x, s, x->run[k], x->end[s] + 1);
    if (x->last[s] < 0 || x->needed_by[s] < 0 || !x->again[k]) return whole;
    return whole - price_of(x, s, x->needed[s], x->next_needed[s]) / 2;
}

static int64_t running_price(const mp_priced *x, int k)
{
    const mp_form *form = form_of(x, k);
    int64_t price = x->scaled_ticks[k];
    if (x->held[k]) return x->most;
    for (size_t i = 0; i < form->n_reads; i++) {
        const int s = form->reads[i];
        if (x->storage_vertex[s] < 0 || x->last[s] < 0 || !x->again[x->maker[s]]) continue;
        price += price_of(x, s, x->run[k], x->needed_by[s] == k ? x->next_needed[s] : x->needed[s]) / 2;
    }
    return price;
}

void mp_priced_label(mp_priced *x, const double *price)
{
    const mp_graph *graph = x->graph;
    mp_mincut *cut = x->cut;
    for (int k = 0; k < x->n; k++) x->price_before[k + 1] = x->price_before[k] + price[k];
    for (int k = 0; k < x->turn; k++)
        if (x->stage_vertex[k] >= 0) cut->drain[x->stage_vertex[k]] = running_price(x, k);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int v = x->storage_vertex[s];
        if (v < 0) continue;
        const int64_t stored = stored_price(x, s);
        cut->supply[v] = x->last[s] >= 0 ? stored + 1 : 0;
        cut->drain[v] = x->repeatable[x->maker[s]] ? making_price(x, s) : stored;
        if (cut->drain[v] > stored) cut->drain[v] = stored;
    }
    for (size_t a = 0; a < x->n_arcs; a++) {
        const int s = a < x->n_making ? x->arc_from[a] : x->arc_to[a];
        const int64_t stored = stored_price(x, s);
        cut->capacity[a] = a < x->n_making ? stored - cut->drain[x->storage_vertex[s]] : stored + 1;
    }
    mp_mincut_run(cut);
    for (int k = 0; k < x->turn; k++) x->again[k] = x->stage_vertex[k] >= 0 && cut->source_side[x->stage_vertex[k]];
    find_runs(x, false);
}
