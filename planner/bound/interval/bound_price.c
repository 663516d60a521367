/* bound_price.c - the Lagrangian relaxation of an interval: the closure problem with a multiplier on memory.
 *
 * A labelling states which storages are live at the start and which nodes run. At a multiplier of p ticks per byte, the value
 * of the minimum cut is at most p * (bytes live at the start) + ticks, for every labelling. If the labelling fits in the free
 * memory, its ticks are therefore at least the value of the cut - p * (free memory). This bound is a concave function of p, to
 * which each labelling contributes a line. At the best p, the line of a labelling that fits crosses the line of a labelling
 * that does not fit. Capacities are rounded down, so that the bound remains valid.
 */
#include "planner/bound/interval/bound_interval.h"

#include <string.h>

#include "estimator/graph/liveness.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_CUTS = 24, /* most minimum cuts that search the multiplier of one interval */
};

/* A labelling (which storages are live at the start and which nodes run) as a line over the multiplier: its ticks, its scaled
 * ticks, and its bytes live at the start. */
struct line {
    int64_t ticks, scaled, bytes;
};

int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks)
{
    return (int64_t)((__int128)ticks * x->scale_num / x->scale_den);
}

/* Returns a cost for a barred storage. It exceeds the cost of every labelling without barred live storages. The sum of this
 * cost over all storages fits into an int64_t. */
static int64_t forbidden_cost(const mp_bound_interval *x)
{
    return (INT64_C(1) << 60) / (x->cut->n + 1);
}

/* Sets the capacities of the network for a multiplier of numerator / denominator scaled ticks per byte. Denominator 0: ticks
 * cost nothing, so that the cut minimises bytes. */
static void set_capacities(mp_bound_interval *x, int64_t numerator, int64_t denominator)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int vertex = x->storage_vertex[s];
        int64_t price = x->bytes[s];
        if (vertex < 0) continue;
        if (denominator) {
            const __int128 exact = (__int128)price * numerator / denominator;
            price = exact > x->ticks_bound ? x->ticks_bound + 1 : (int64_t)exact;
        }
        if (denominator && x->live_multiplier && !x->covers_two[s]) price += x->live_multiplier[s];
        if (!x->bytes[s]) price = 0;
        if (x->barred[s]) price = forbidden_cost(x);
        x->cut->drain[vertex] = x->can_be_made[s] ? 0 : price;
        if (x->storage_arc[s] >= 0) x->cut->capacity[x->storage_arc[s]] = x->can_be_made[s] ? price : 0;
        if (x->is_required[s]) /* a required storage is available in every labelling, so only its cost of being live counts */
            x->cut->supply[vertex] = price;
        else
            x->cut->supply[vertex] = denominator && x->reward ? x->reward[s] : 0;
    }
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const int vertex = x->node_vertex[v];
        if (vertex < 0) continue;
        const int64_t price = !denominator ? 0 : x->run_ticks ? x->run_ticks[v] : mp_bound_interval_scale(x, x->ticks[v]);
        x->cut->drain[vertex] = price > 0 ? price : 0;
        /* a node with a negative cost gets supply instead of drain, which shifts all costs by a constant (all_rewards) */
        x->cut->supply[vertex] = price < 0 ? -price : 0;
    }
}

/* Marks the inputs of v as available and pushes them on the stack. Returns the new number of entries of the stack. */
static size_t add_reads(mp_bound_interval *x, int v, struct mp_bound_labels *labels, size_t n)
{
    const mp_precedence *o = x->order;
    for (int r = o->reads_start[v]; r < o->reads_start[v + 1]; r++) {
        const int s = o->reads[r];
        if (x->storage_vertex[s] < 0 || labels->available[s] || mp_storage_outlives_step(&o->graph->storages[s])) continue;
        labels->available[s] = true;
        x->stack[n++] = s;
    }
    return n;
}

/* Reads the labelling of the last minimum cut. It starts from the storages that are required or whose reward exceeds their
 * cost. A storage is produced if its producer is on the source's side, and live otherwise. `all_live`: starts from the required
 * storages only, which are then all live. */
static struct line read_line(mp_bound_interval *x, bool all_live, struct mp_bound_labels *labels)
{
    const mp_graph *graph = x->order->graph;
    struct line line = {0, 0, 0};
    size_t n = 0;
    memset(x->runs, 0, graph->n_nodes * sizeof *x->runs);
    memset(labels->live, 0, graph->n_storages * sizeof *labels->live);
    memset(labels->available, 0, graph->n_storages * sizeof *labels->available);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const bool rewarded = x->reward && x->reward[s] && x->storage_vertex[s] >= 0 && !all_live;
        if (!x->is_required[s] && !(rewarded && x->cut->source_side[x->storage_vertex[s]])) continue;
        labels->available[s] = true;
        x->stack[n++] = s;
    }
    while (n) {
        const int s = x->stack[--n];
        if (x->reward) line.scaled -= x->reward[s];
        if (!x->bytes[s]) continue;
        if (all_live || !x->can_be_made[s] || !x->cut->source_side[x->producer_vertex[s]]) {
            labels->live[s] = true;
            line.bytes += x->barred[s] ? forbidden_cost(x) : x->bytes[s];
            if (x->live_multiplier && !x->covers_two[s]) line.scaled += x->live_multiplier[s];
            continue;
        }
        for (int k = x->producers_start[s]; k < x->producers_start[s + 1]; k++) {
            const int v = x->producers[k];
            if (x->runs[v] || (x->producer_arc[k] >= 0 && !x->cut->capacity[x->producer_arc[k]])) continue;
            x->runs[v] = true; /* the ticks of a node count once, even if several of its outputs are needed */
            n = add_reads(x, v, labels, n);
            line.ticks += x->ticks[v];
            line.scaled += mp_bound_interval_scale(x, x->ticks[v]);
        }
    }
    return line;
}

static int64_t all_rewards(const mp_bound_interval *x)
{
    int64_t sum = 0;
    for (size_t s = 0; x->reward && s < x->order->graph->n_storages; s++) sum += x->reward[s];
    for (size_t v = 0; x->run_ticks && v < x->order->graph->n_nodes; v++)
        if (x->node_vertex[v] >= 0 && x->run_ticks[v] < 0) sum -= x->run_ticks[v];
    return sum;
}

static int64_t run_cut(mp_bound_interval *x)
{
    x->work.n_cuts++;
    return mp_mincut_run(x->cut);
}

/* Computes the bound for a multiplier of numerator / denominator scaled ticks per byte. */
static int64_t bound_at(mp_bound_interval *x, int64_t numerator, int64_t denominator, int64_t free_bytes)
{
    set_capacities(x, numerator, denominator);
    return run_cut(x) - all_rewards(x) - (int64_t)((__int128)numerator * free_bytes / denominator);
}

int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x)
{
    return bound_at(x, 0, 1, 0);
}

enum { OVER, FITS };

/* Searches for the best multiplier. lines[OVER] is a labelling that exceeds the free memory, lines[FITS] one that fits. Each
 * round computes the bound at the crossing of the two lines, and replaces one of them by the labelling found there. Returns the
 * best bound and its multiplier. */
static int64_t close_in(mp_bound_interval *x, struct line lines[2], int64_t free_bytes, int64_t best, double *multiplier)
{
    for (int k = 0; k < BOUND_CUTS; k++) {
        const int64_t numerator = lines[FITS].scaled - lines[OVER].scaled;
        const int64_t denominator = lines[OVER].bytes - lines[FITS].bytes;
        if (numerator <= 0 || denominator <= 0) break;
        const int64_t bound = bound_at(x, numerator, denominator, free_bytes);
        if (bound > best) {
            best = bound;
            *multiplier = (double)numerator / (double)denominator * (double)x->scale_den / (double)x->scale_num;
        }
        const struct line line = read_line(x, false, &x->spare);
        const __int128 cost = (__int128)line.scaled * denominator + (__int128)line.bytes * numerator;
        const __int128 before = (__int128)lines[OVER].scaled * denominator + (__int128)lines[OVER].bytes * numerator;
        if (cost >= before) break;
        const int replaced = line.bytes > free_bytes ? OVER : FITS;
        const struct mp_bound_labels labels = x->labels[replaced];
        lines[replaced] = line;
        x->labels[replaced] = x->spare;
        x->spare = labels;
    }
    return best;
}

mp_bound_value mp_bound_interval_solve(mp_bound_interval *x)
{
    mp_bound_value value = {.share = 1};
    const bool priced = x->live_multiplier || x->reward;
    const int64_t free_bytes = x->free_bytes;
    int64_t best = 0;
    struct line lines[2];
    value.infeasible = free_bytes < 0;
    if (value.infeasible) return value;
    if (priced) best = bound_at(x, 0, 1, free_bytes);
    lines[OVER] = read_line(x, !priced, &x->labels[OVER]);
    if (lines[OVER].bytes <= free_bytes) {
        value.scaled = best;
        return value;
    }
    set_capacities(x, 1, 0);
    value.infeasible =
        run_cut(x) > free_bytes; /* infeasible: even the labelling with the fewest live bytes exceeds the free memory */
    if (value.infeasible) return value;
    lines[FITS] = read_line(x, false, &x->labels[FITS]);
    if (lines[FITS].bytes <= free_bytes) best = close_in(x, lines, free_bytes, best, &value.multiplier);
    value.scaled = best;
    value.ticks = best > 0 ? mp_bound_interval_ticks(x, best) : 0;
    if (lines[FITS].bytes <= free_bytes)
        value.share = (double)(free_bytes - lines[FITS].bytes) / (double)(lines[OVER].bytes - lines[FITS].bytes);
    return value;
}

int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled)
{
    return (int64_t)(((__int128)scaled * x->scale_den + x->scale_num - 1) / x->scale_num);
}
