/* bound_interval.c - the closure problem of an interval, with memory priced.
 *
 * A vertex per repeatable node (it runs in the interval) and per storage that one of them reads or makes (it is there when it
 * is read). On the side of the source is what is true. Who runs needs what it reads: unbounded arcs. What is needed is made
 * again or held, at the price of its bytes: an arc to its maker. Who runs takes ticks: its capacity to the sink.
 *
 * With a price of p ticks a byte the cut is at least p * (bytes held) + ticks for every true labelling, so ticks are at least
 * cut - p * room. That is concave in p: each labelling is a line, and the best p lies where the lines of a labelling that fits
 * and of one that does not cross. Prices of storages are rounded down, which keeps the bound.
 */
#include "planner/bound_interval.h"

#include <string.h>

#include "estimator/memory.h"

static const int64_t UNBOUNDED = INT64_MAX / 8 * 3;
static const int64_t MOST_TICKS = INT64_C(1) << 40; /* of all nodes together, scaled */
enum { MOST_CUTS = 24 };

/* A labelling: its ticks, as they are and scaled, and the bytes it holds. */
struct line {
    int64_t ticks, scaled, bytes;
};

static int64_t scale(const mp_bound_interval *x, int64_t ticks)
{
    return (int64_t)((__int128)ticks * x->up / x->down);
}

/* Vertices and arcs, the same for all intervals. */
static mp_status build_network(mp_bound_interval *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_bound_order *o = x->order;
    const mp_graph *graph = o->graph;
    size_t n_arcs = 0, most = graph->n_storages;
    int n = 0;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (o->repeatable[v]) most += (size_t)(o->reads_start[v + 1] - o->reads_start[v]);
    int *from = mp_alloc(most, sizeof *from), *to = mp_alloc(most, sizeof *to);
    MP_REQUIRE(from && to, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (size_t s = 0; s < graph->n_storages; s++) x->storage_vertex[s] = o->remade[s] ? n++ : -1;
    for (size_t v = 0; v < graph->n_nodes; v++) {
        x->node_vertex[v] = o->repeatable[v] ? n++ : -1;
        for (int r = o->reads_start[v]; o->repeatable[v] && r < o->reads_start[v + 1]; r++) {
            int s = o->reads[r];
            if (graph->producer[s] < 0 || graph->storages[s].carried) continue;
            if (x->storage_vertex[s] < 0) x->storage_vertex[s] = n++;
            from[n_arcs] = x->node_vertex[v];
            to[n_arcs++] = x->storage_vertex[s];
        }
    }
    x->n_unbounded = n_arcs;
    for (size_t s = 0; s < graph->n_storages; s++) {
        x->make_arc[s] = o->remade[s] ? (int)n_arcs : -1;
        if (!o->remade[s]) continue;
        from[n_arcs] = x->storage_vertex[s];
        to[n_arcs++] = x->node_vertex[graph->producer[s]];
    }
    MP_TRY(mp_mincut_new(n, from, to, n_arcs, &x->cut, err));
    for (size_t k = 0; k < x->n_unbounded; k++) x->cut->capacity[k] = UNBOUNDED;
done:
    mp_free(from);
    mp_free(to);
    return st;
}

mp_status mp_bound_interval_new(const mp_bound_order *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = order->graph;
    const size_t n = graph->n_nodes, m = graph->n_storages;
    int64_t sum = 0;
    mp_bound_interval *x = mp_alloc(1, sizeof *x);
    MP_REQUIRE(x, err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    x->order = order;
    x->available_bytes = budget_bytes - mp_graph_static_bytes(graph);
    x->node_vertex = mp_alloc(n, sizeof *x->node_vertex);
    x->storage_vertex = mp_alloc(m, sizeof *x->storage_vertex);
    x->make_arc = mp_alloc(m, sizeof *x->make_arc);
    x->bytes = mp_alloc(m, sizeof *x->bytes);
    x->ticks = mp_alloc(n, sizeof *x->ticks);
    x->kept = mp_alloc(m, sizeof *x->kept);
    x->required = mp_alloc(m, sizeof *x->required);
    x->is_required = mp_alloc(m, sizeof *x->is_required);
    x->for_two = mp_alloc(m, sizeof *x->for_two);
    x->fate = mp_alloc(m, sizeof *x->fate);
    x->stack = mp_alloc(m, sizeof *x->stack);
    x->runs = mp_alloc(n, sizeof *x->runs);
    MP_REQUIRE(x->node_vertex && x->storage_vertex && x->make_arc && x->bytes && x->ticks && x->kept && x->required &&
                   x->is_required && x->for_two && x->fate && x->stack && x->runs,
               err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    for (int k = 0; k < 3; k++) {
        struct mp_bound_labels *labels = k < 2 ? &x->labels[k] : &x->spare;
        labels->held = mp_alloc(m, sizeof *labels->held);
        labels->there = mp_alloc(m, sizeof *labels->there);
        MP_REQUIRE(labels->held && labels->there, err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    }
    for (size_t v = 0; v < n; v++) sum += order->ticks[v];
    x->up = x->down = 1;
    while (sum && sum * x->up < MOST_TICKS / 2) x->up *= 2;
    while (sum / x->down > MOST_TICKS) x->down *= 2;
    x->most = scale(x, sum);
    MP_TRY(build_network(x, err));
    *out = x;
    x = NULL;
done:
    mp_bound_interval_free(x);
    return st;
}

void mp_bound_interval_free(mp_bound_interval *x)
{
    if (!x) return;
    mp_mincut_free(x->cut);
    mp_free(x->node_vertex);
    mp_free(x->storage_vertex);
    mp_free(x->make_arc);
    mp_free(x->bytes);
    mp_free(x->ticks);
    mp_free(x->kept);
    mp_free(x->required);
    mp_free(x->is_required);
    mp_free(x->for_two);
    mp_free(x->fate);
    mp_free(x->stack);
    mp_free(x->runs);
    for (int k = 0; k < 3; k++) {
        mp_free(k < 2 ? x->labels[k].held : x->spare.held);
        mp_free(k < 2 ? x->labels[k].there : x->spare.there);
    }
    mp_free(x);
}

/* Whether s, which cannot be made again, certainly lives while `node` first runs: made before, and read or added to later. */
static bool certainly_kept(const mp_bound_order *o, int node, int s)
{
    const mp_graph *graph = o->graph;
    const bool carried = graph->storages[s].carried;
    bool made = false;
    int p = graph->producer[s];
    if (p >= 0 && mp_bound_before(o, p, node)) made = !carried || mp_bound_writes(o, p, s);
    for (int a = graph->adders_start[s]; !made && a < graph->adders_start[s + 1]; a++)
        made = mp_bound_before(o, graph->adders[a], node) && mp_bound_adds(o, graph->adders[a], s);
    if (!made || carried) return made; /* a carried gradient lives to the end */
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
        if (mp_bound_before(o, node, graph->adders[a]) && mp_bound_adds(o, graph->adders[a], s)) return true;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
        if (mp_bound_before(o, node, graph->readers[r]) && mp_bound_reads(o, graph->readers[r], s)) return true;
    return false;
}

/* The bytes of a list that are not counted otherwise: not always live, not kept anyway, not read in every form. */
static int64_t own_bytes(const mp_bound_interval *x, const int *list, size_t n)
{
    const mp_bound_order *o = x->order;
    const mp_graph *graph = x->order->graph;
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        int s = list[i];
        if (mp_storage_is_static(&graph->storages[s]) || x->kept[s]) continue;
        if (o->remade[s] && mp_bound_reads(o, x->at, s)) continue;
        bytes += graph->storages[s].bytes;
    }
    return bytes;
}

/* The most that in-place pairs save: each output once. */
static int64_t most_saved(const mp_bound_interval *x, const mp_form *form)
{
    const mp_storage *storages = x->order->graph->storages;
    int64_t bytes = 0;
    for (size_t i = 0; i < form->n_in_place; i++) {
        const mp_in_place p = form->in_place[i];
        bool fits = false;
        for (size_t k = 0; k < i && !fits; k++) fits = form->in_place[k].to == p.to;
        if (fits) continue; /* looked at already */
        for (size_t k = i; k < form->n_in_place && !fits; k++) {
            const int from = form->in_place[k].from;
            fits = form->in_place[k].to == p.to && !mp_storage_is_static(&storages[from]) && !x->kept[from] &&
                   storages[from].bytes >= storages[p.to].bytes;
        }
        if (fits && !mp_storage_is_static(&storages[p.to]) && !x->kept[p.to]) bytes += storages[p.to].bytes;
    }
    return bytes;
}

/* What a form of the node has beside what is kept, and beside what can be made again and every form reads. */
static int64_t form_bytes(const mp_bound_interval *x, const mp_form *form)
{
    return form->workspace_bytes + own_bytes(x, form->reads, form->n_reads) + own_bytes(x, form->writes, form->n_writes) +
           own_bytes(x, form->adds, form->n_adds) - most_saved(x, form);
}

void mp_bound_interval_start(mp_bound_interval *x, int node)
{
    const mp_bound_order *o = x->order;
    const mp_graph *graph = o->graph;
    const mp_node *start = &graph->nodes[node];
    int64_t least = INT64_MAX;
    x->at = node;
    x->room_bytes = x->available_bytes;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        x->kept[s] = !mp_storage_is_static(storage) && !o->remade[s] && certainly_kept(o, node, s);
        if (x->kept[s]) x->room_bytes -= storage->bytes;
        x->bytes[s] = 0;
        if (o->remade[s] || (x->storage_vertex[s] >= 0 && !x->kept[s] && mp_bound_before(o, graph->producer[s], node)))
            x->bytes[s] = storage->bytes;
    }
    for (size_t k = 0; k < start->n_forms; k++) {
        const mp_form *form = &start->forms[k];
        const int64_t bytes = form_bytes(x, form);
        if (bytes < least) least = bytes;
        for (size_t i = 0; i < form->n_writes; i++) x->bytes[form->writes[i]] = 0;
        for (size_t i = 0; i < form->n_reads; i++) x->bytes[form->reads[i]] = 0;
    }
    x->room_bytes -= least;
    for (int r = o->reads_start[node]; r < o->reads_start[node + 1]; r++) {
        const int s = o->reads[r];
        if (!o->remade[s]) continue;
        x->room_bytes -= graph->storages[s].bytes;
        x->bytes[s] = 0;
    }
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        if (o->repeatable[v]) x->ticks[v] = v == node || mp_bound_before(o, v, node) ? o->ticks[v] : 0;
    }
}

static void require(mp_bound_interval *x, int s)
{
    if (!x->order->remade[s] || x->is_required[s]) return;
    x->is_required[s] = true;
    x->required[x->n_required++] = s;
}

/* One of two storages has to be there, and neither has to for another reason. The second is made from the first: so either the
 * first is there, or the second is held. Let the first, at the lower price of the two, stand for both, and the second be there
 * for nothing: no plan takes more by that. */
static void require_either(mp_bound_interval *x, int first, int second)
{
    if (x->is_required[first] || x->is_required[second] || !x->bytes[first] || !x->bytes[second]) return;
    if (x->bytes[second] < x->bytes[first]) x->bytes[first] = x->bytes[second];
    x->bytes[second] = 0;
    x->for_two[first] = true;
    require(x, first);
}

/* What the nodes between the start and `node`, that one counted, read in every form; or what they can choose between. */
static void require_of_nodes(mp_bound_interval *x, int node, bool choices)
{
    const mp_bound_order *o = x->order;
    for (size_t w = 0; w < o->words; w++) {
        uint64_t inside = o->later[(size_t)x->at * o->words + w];
        if (node >= 0) {
            uint64_t until = o->earlier[(size_t)node * o->words + w];
            if ((size_t)node / 64 == w) until |= UINT64_C(1) << node % 64;
            inside &= until;
        }
        for (; inside; inside &= inside - 1) {
            const int v = (int)(w * 64) + __builtin_ctzll(inside);
            if (v == o->n - 1) continue; /* the end of backward reads nothing */
            if (choices && o->either[v] >= 0) require_either(x, o->either[v], o->made_of_it[v]);
            for (int r = o->reads_start[v]; !choices && r < o->reads_start[v + 1]; r++) require(x, o->reads[r]);
        }
    }
}

void mp_bound_interval_end(mp_bound_interval *x, int node)
{
    for (size_t i = 0; i < x->n_required; i++) x->is_required[x->required[i]] = x->for_two[x->required[i]] = false;
    x->n_required = 0;
    require_of_nodes(x, node, false);
    require_of_nodes(x, node, true);
}

int64_t mp_bound_interval_demand(const mp_bound_interval *x)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < x->n_required; i++) bytes += x->bytes[x->required[i]];
    return bytes;
}

/* More than any labelling that holds nothing forbidden costs; all of them together leave room in an int64_t. */
static int64_t forbidden_price(const mp_bound_interval *x)
{
    return (INT64_C(1) << 60) / (x->cut->n + 1);
}

/* Prices of numerator / denominator scaled ticks a byte; denominator 0: bytes themselves are minimised, and ticks are none. */
static void set_prices(mp_bound_interval *x, int64_t numerator, int64_t denominator)
{
    const mp_bound_order *o = x->order;
    const mp_graph *graph = o->graph;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int vertex = x->storage_vertex[s];
        int64_t price = x->bytes[s];
        if (vertex < 0) continue;
        if (denominator) {
            const __int128 exact = (__int128)price * numerator / denominator;
            price = exact > x->most ? x->most + 1 : (int64_t)exact;
        }
        if (denominator && x->held_price && !x->for_two[s]) price += x->held_price[s];
        if (x->fate[s] == MP_BOUND_HELD || !x->bytes[s]) price = 0;
        if (x->fate[s] == MP_BOUND_NOT_HELD) price = forbidden_price(x);
        if (x->make_arc[s] >= 0)
            x->cut->capacity[x->make_arc[s]] = price;
        else
            x->cut->drain[vertex] = price;
        if (x->is_required[s]) /* there in any case: what that costs is all that matters */
            x->cut->supply[vertex] = price;
        else
            x->cut->supply[vertex] = denominator && x->reward ? x->reward[s] : 0;
    }
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (o->repeatable[v]) x->cut->drain[x->node_vertex[v]] = denominator ? scale(x, x->ticks[v]) : 0;
}

/* The labelling of the last cut: what is needed, from what is required or worth its reward on, is made again where its maker is
 * on the side of the source, and else held. `all_held`: only what is required is needed, and nothing is made again. */
static struct line read_line(mp_bound_interval *x, bool all_held, struct mp_bound_labels *labels)
{
    const mp_bound_order *o = x->order;
    const mp_graph *graph = o->graph;
    struct line line = {0, 0, 0};
    size_t n = 0;
    memset(x->runs, 0, graph->n_nodes * sizeof *x->runs);
    memset(labels->held, 0, graph->n_storages * sizeof *labels->held);
    memset(labels->there, 0, graph->n_storages * sizeof *labels->there);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const bool rewarded = x->reward && x->reward[s] && x->storage_vertex[s] >= 0 && !all_held;
        if (!x->is_required[s] && !(rewarded && x->cut->source_side[x->storage_vertex[s]])) continue;
        labels->there[s] = true;
        x->stack[n++] = s;
    }
    while (n) {
        const int s = x->stack[--n], p = graph->producer[s];
        if (x->reward) line.scaled -= x->reward[s];
        if (x->fate[s] == MP_BOUND_HELD || !x->bytes[s]) continue;
        if (all_held || !o->repeatable[p] || !x->cut->source_side[x->node_vertex[p]]) {
            labels->held[s] = true;
            line.bytes += x->fate[s] == MP_BOUND_NOT_HELD ? forbidden_price(x) : x->bytes[s];
            if (x->held_price && !x->for_two[s]) line.scaled += x->held_price[s];
            continue;
        }
        if (x->runs[p]) continue; /* for another of its outputs */
        x->runs[p] = true;
        for (int r = o->reads_start[p]; r < o->reads_start[p + 1]; r++) {
            const int u = o->reads[r];
            if (x->storage_vertex[u] < 0 || labels->there[u]) continue;
            labels->there[u] = true;
            x->stack[n++] = u;
        }
        line.ticks += x->ticks[p];
        line.scaled += scale(x, x->ticks[p]);
    }
    return line;
}

/* The open storage that takes the most of those that one of the two solutions holds and the other does not. */
static int choose_open(const mp_bound_interval *x)
{
    int best = -1;
    for (int s = 0; s < (int)x->order->graph->n_storages; s++)
        if (x->labels[0].held[s] != x->labels[1].held[s] && x->fate[s] == MP_BOUND_OPEN &&
            (best < 0 || x->bytes[s] > x->bytes[best]))
            best = s;
    return best;
}

static int64_t all_rewards(const mp_bound_interval *x)
{
    int64_t sum = 0;
    for (size_t s = 0; x->reward && s < x->order->graph->n_storages; s++) sum += x->reward[s];
    return sum;
}

/* The bound at a price of numerator / denominator a byte. */
static int64_t bound_at(mp_bound_interval *x, int64_t numerator, int64_t denominator, int64_t room_bytes)
{
    set_prices(x, numerator, denominator);
    return mp_mincut_run(x->cut) - all_rewards(x) - (int64_t)((__int128)numerator * room_bytes / denominator);
}

enum { OVER, FITS };

/* Closes in on the best price between the lines of two labellings; the best bound on the way. */
static int64_t close_in(mp_bound_interval *x, struct line lines[2], int64_t room_bytes, int64_t best)
{
    for (int k = 0; k < MOST_CUTS; k++) {
        const int64_t numerator = lines[FITS].scaled - lines[OVER].scaled;
        const int64_t denominator = lines[OVER].bytes - lines[FITS].bytes;
        if (numerator <= 0 || denominator <= 0) break;
        const int64_t bound = bound_at(x, numerator, denominator, room_bytes);
        if (bound > best) best = bound;
        const struct line line = read_line(x, false, &x->spare);
        const __int128 cost = (__int128)line.scaled * denominator + (__int128)line.bytes * numerator;
        const __int128 before = (__int128)lines[OVER].scaled * denominator + (__int128)lines[OVER].bytes * numerator;
        if (cost >= before) break;
        const int replaced = line.bytes > room_bytes ? OVER : FITS;
        const struct mp_bound_labels labels = x->labels[replaced];
        lines[replaced] = line;
        x->labels[replaced] = x->spare;
        x->spare = labels;
    }
    return best;
}

mp_bound_value mp_bound_interval_solve(mp_bound_interval *x)
{
    mp_bound_value value = {.found = INT64_MAX, .open = -1, .share = 1};
    const bool priced = x->held_price || x->reward;
    int64_t room_bytes = x->room_bytes, best = 0;
    struct line lines[2];
    for (size_t s = 0; s < x->order->graph->n_storages; s++)
        if (x->fate[s] == MP_BOUND_HELD) room_bytes -= x->bytes[s];
    value.infeasible = room_bytes < 0;
    if (value.infeasible) return value;
    if (priced) best = bound_at(x, 0, 1, room_bytes);
    lines[OVER] = read_line(x, !priced, &x->labels[OVER]);
    if (lines[OVER].bytes <= room_bytes) {
        value.found = lines[OVER].ticks;
        value.scaled = best;
        return value;
    }
    set_prices(x, 1, 0);
    value.infeasible = mp_mincut_run(x->cut) > room_bytes; /* even the least that can be held */
    if (value.infeasible) return value;
    lines[FITS] = read_line(x, false, &x->labels[FITS]);
    if (lines[FITS].bytes <= room_bytes) best = close_in(x, lines, room_bytes, best);
    value.scaled = best;
    value.ticks = best > 0 ? mp_bound_interval_ticks(x, best) : 0;
    if (lines[FITS].bytes <= room_bytes) {
        value.found = lines[FITS].ticks;
        value.share = (double)(room_bytes - lines[FITS].bytes) / (double)(lines[OVER].bytes - lines[FITS].bytes);
    }
    if (value.found > value.ticks) value.open = choose_open(x);
    return value;
}

int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled)
{
    return (int64_t)(((__int128)scaled * x->down + x->up - 1) / x->up);
}
