/* bound_price.c - the Lagrangian relaxation of an interval: the closure problem with a multiplier on memory.
 *
 * At a multiplier of p ticks a byte the minimum cut is at most p * (bytes live at the start) + ticks, for every feasible
 * labelling. So ticks are at least cut - p * (free memory). That is concave in p: each labelling is a line, and the best p is
 * where the line of a labelling that fits crosses that of one that does not. Capacities are rounded down, which keeps the bound.
 */
#include "planner/bound/interval/bound_interval.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

/* A labelling: its ticks, as they are and scaled, and the bytes it holds. */
struct line {
    int64_t ticks, scaled, bytes;
};

int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks)
{
    return (int64_t)((__int128)ticks * x->up / x->down);
}

/* More than any labelling that holds nothing forbidden costs; all of them together leave room in an int64_t. */
static int64_t forbidden_price(const mp_bound_interval *x)
{
    return (INT64_C(1) << 60) / (x->cut->n + 1);
}

/* Prices of numerator / denominator scaled ticks a byte; denominator 0: bytes themselves are minimised, and ticks are none. */
static void set_prices(mp_bound_interval *x, int64_t numerator, int64_t denominator)
{
    const mp_precedence *o = x->order;
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
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const int vertex = x->node_vertex[v];
        if (vertex < 0) continue;
        const int64_t price = !denominator ? 0 : x->run_price ? x->run_price[v] : mp_bound_interval_scale(x, x->ticks[v]);
        x->cut->drain[vertex] = price > 0 ? price : 0;
        x->cut->supply[vertex] = price < 0 ? -price : 0; /* less than all it may earn: see all_rewards */
    }
}

/* The labelling of the last cut: what is needed, from what is required or worth its reward on, is made again where its maker is
 * on the side of the source, and else held. `all_held`: only what is required is needed, and nothing is made again. */
static struct line read_line(mp_bound_interval *x, bool all_held, struct mp_bound_labels *labels)
{
    const mp_precedence *o = x->order;
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
        line.scaled += mp_bound_interval_scale(x, x->ticks[p]);
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
    for (size_t v = 0; x->run_price && v < x->order->graph->n_nodes; v++)
        if (x->node_vertex[v] >= 0 && x->run_price[v] < 0) sum -= x->run_price[v];
    return sum;
}

static int64_t run_cut(mp_bound_interval *x)
{
    x->work.n_cuts++;
    return mp_mincut_run(x->cut);
}

/* The bound at a price of numerator / denominator a byte. */
static int64_t bound_at(mp_bound_interval *x, int64_t numerator, int64_t denominator, int64_t room_bytes)
{
    set_prices(x, numerator, denominator);
    return run_cut(x) - all_rewards(x) - (int64_t)((__int128)numerator * room_bytes / denominator);
}

int64_t mp_bound_interval_priced(mp_bound_interval *x)
{
    return bound_at(x, 0, 1, 0);
}

enum { OVER, FITS };

/* Closes in on the best price between the lines of two labellings; the best bound on the way, and its multiplier. */
static int64_t close_in(mp_bound_interval *x, struct line lines[2], int64_t room_bytes, int64_t best, double *multiplier)
{
    for (int k = 0; k < MP_BOUND_CUTS; k++) {
        const int64_t numerator = lines[FITS].scaled - lines[OVER].scaled;
        const int64_t denominator = lines[OVER].bytes - lines[FITS].bytes;
        if (numerator <= 0 || denominator <= 0) break;
        const int64_t bound = bound_at(x, numerator, denominator, room_bytes);
        if (bound > best) {
            best = bound;
            *multiplier = (double)numerator / (double)denominator * (double)x->down / (double)x->up;
        }
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
    value.infeasible = run_cut(x) > room_bytes; /* even the least that can be held */
    if (value.infeasible) return value;
    lines[FITS] = read_line(x, false, &x->labels[FITS]);
    if (lines[FITS].bytes <= room_bytes) best = close_in(x, lines, room_bytes, best, &value.multiplier);
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
