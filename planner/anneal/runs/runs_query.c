/* runs_query.c - finds the readers and producers of a storage at a position. Checks that an order is valid and has no conflict
 * with a copy in progress. */
#include "planner/anneal/runs/runs.h"

#include <limits.h>

#include "estimator/base/list.h"

/* Returns the index of the last producer of s before a position; -1: none. */
static int latest(const mp_runs *x, int s, int position)
{
    return mp_run_list_find(x, &x->producers[s], position) - 1;
}

int mp_runs_next_read(const mp_runs *x, int s, int position)
{
    const int producer = latest(x, s, position + 1);
    int at = mp_run_list_find(x, &x->readers[s], position + 1);
    while (at < x->readers[s].n && x->runs[x->readers[s].runs[at]].is_wait) at++;
    if (producer < 0 || at == x->readers[s].n) return -1;
    const int next = x->runs[x->readers[s].runs[at]].position;
    const bool is_last = producer + 1 == x->producers[s].n;
    return is_last || next < x->runs[x->producers[s].runs[producer + 1]].position ? x->readers[s].runs[at] : -1;
}

bool mp_runs_is_live(const mp_runs *x, int s, int position)
{
    const int producer = latest(x, s, position);
    return producer >= 0 && mp_lifetime_end(x, s, producer) > position;
}

int mp_runs_latest_producer(const mp_runs *x, int s, int position)
{
    const int at = latest(x, s, position);
    return at < 0 ? -1 : x->producers[s].runs[at];
}

bool mp_runs_is_extra(const mp_runs *x, int run)
{
    const int node = x->runs[run].node, first = node >= 0 && x->of_node[node].n ? x->of_node[node].runs[0] : run;
    if (node >= 0 && (x->graph->nodes[node].flags & MP_NODE_OPTIONAL)) return true;
    return first != run && (first != x->runs[run].mate || !x->runs[run].is_wait);
}

bool mp_runs_is_dead(const mp_runs *x, int run)
{
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    for (size_t k = 0; k < alternative->n_writes; k++) {
        const int s = alternative->writes[k];
        if (!mp_storage_is_static(&x->graph->storages[s]) && mp_runs_next_read(x, s, x->runs[run].position) >= 0) return false;
    }
    return true;
}

static int first_position(const mp_runs *x, const mp_run_list *list, int without_run)
{
    for (int k = 0; k < list->n; k++)
        if (list->runs[k] != without_run) return x->runs[list->runs[k]].position;
    return INT_MAX;
}

/* True if a node may add to a sum at a position. The position must be before all readers of the sum. If the order of additions
 * is fixed, the position must also be between the runs of the adders that precede and follow the node in the node list. */
static bool may_add(const mp_runs *x, int node, int s, int position, int without_run)
{
    const mp_graph *g = x->graph;
    const bool any = g->storages[s].any_sum_order;
    bool before = true; /* true as long as every adder visited by the loop precedes this node in the node list */
    for (int a = g->adders_start[s]; a < g->adders_start[s + 1]; a++) {
        const int other = g->adders[a];
        if (other == node) {
            before = false;
            continue;
        }
        if (any || !x->of_node[other].n) continue;
        const int there = x->runs[x->of_node[other].runs[0]].position;
        if (before ? there > position : there < position) return false;
    }
    for (int k = 0; k < x->readers[s].n; k++) {
        const mp_node_run *r = &x->runs[x->readers[s].runs[k]];
        bool adds = false;
        if (x->readers[s].runs[k] == without_run || r->position > position) continue;
        for (int a = g->adders_start[s]; a < g->adders_start[s + 1]; a++) adds |= g->adders[a] == r->node;
        if (!adds) return false;
    }
    return true;
}

/* Returns the list of runs that produce a storage; NULL: the storage is static and no node writes it. */
static const mp_run_list *producers_of(const mp_runs *x, int s)
{
    if (!mp_storage_is_static(&x->graph->storages[s])) return &x->producers[s];
    return x->graph->writer[s] < 0 ? NULL : &x->of_node[x->graph->writer[s]];
}

/* True if all runs that a reader of s must follow are before a position. */
static bool may_read(const mp_runs *x, int s, int position, int without_run)
{
    const mp_graph *g = x->graph;
    const mp_run_list *producers = producers_of(x, s);
    const bool is_written = producers && (mp_storage_is_static(&g->storages[s]) || !mp_storage_is_sum(g, s));
    if (is_written && first_position(x, producers, without_run) >= position) return false;
    for (int a = g->adders_start[s]; a < g->adders_start[s + 1]; a++)
        if (!x->of_node[g->adders[a]].n || x->runs[x->of_node[g->adders[a]].runs[0]].position > position) return false;
    return true;
}

bool mp_runs_allows(const mp_runs *x, int node, int alternative, int position, int without_run)
{
    const mp_alternative *f = &x->graph->nodes[node].alternatives[alternative];
    for (size_t k = 0; k < f->n_reads; k++)
        if (!may_read(x, f->reads[k], position, without_run)) return false;
    for (size_t k = 0; k < f->n_adds; k++)
        if (!may_add(x, node, f->adds[k], position, without_run)) return false;
    for (size_t k = 0; k < f->n_writes; k++) {
        const int s = f->writes[k];
        const mp_run_list *producers = producers_of(x, s);
        if (!producers) continue;
        const int produced = first_position(x, producers, without_run), read = first_position(x, &x->readers[s], -1);
        if ((produced < position ? produced : position) > read) return false;
    }
    return true;
}

/* True if every read of storage s remains valid if this run no longer produces s. */
static bool is_spare(const mp_runs *x, int s, int run)
{
    const mp_run_list *producers = producers_of(x, s);
    return !producers || !x->readers[s].n || first_position(x, producers, run) <= first_position(x, &x->readers[s], -1);
}

bool mp_runs_can_spare(const mp_runs *x, int run)
{
    const mp_node_run *r = &x->runs[run];
    if (r->is_wait) return mp_runs_can_spare(x, r->mate);
    const mp_alternative *f = r->does;
    if (x->of_node[r->node].n < 2 && !(x->graph->nodes[r->node].flags & MP_NODE_OPTIONAL)) return false;
    for (size_t k = 0; k < f->n_writes; k++)
        if (!is_spare(x, f->writes[k], run)) return false;
    return true;
}

bool mp_runs_can_change(const mp_runs *x, int run, int alternative)
{
    const mp_node_run *r = &x->runs[run];
    const mp_alternative *old = mp_runs_alternative(x, run), *new = &x->graph->nodes[r->node].alternatives[alternative];
    for (size_t k = 0; k < old->n_writes; k++)
        if (!mp_list_has(new->writes, new->n_writes, old->writes[k]) && !is_spare(x, old->writes[k], run)) return false;
    return mp_runs_allows(x, r->node, alternative, r->position, run);
}

/* ---- issued runs ---- */

/* True if an issued run is in progress at a position: it is issued before the position, and its wait is after the position. */
static bool is_under_way(const mp_runs *x, int run, int position)
{
    const mp_node_run *r = &x->runs[run];
    return r->mate >= 0 && !r->is_wait && r->position < position && mp_runs_position(x, r->mate) > position;
}

/* True if a run is issued on the given channel. A later copy on this channel can start only after the run has ended. channel
 * -1: always false. */
static bool is_behind(const mp_runs *x, int run, int channel)
{
    return x->runs[run].mate >= 0 && x->runs[run].does->channel == channel;
}

/* True if at a position a copy on another channel is still writing the instance of s. */
static bool is_incomplete(const mp_runs *x, int s, int position, int channel)
{
    const int producer = mp_runs_latest_producer(x, s, position), writer = x->graph->writer[s];
    for (int k = 0; writer >= 0 && k < x->of_node[writer].n; k++)
        if (is_under_way(x, x->of_node[writer].runs[k], position)) return true;
    return producer >= 0 && is_under_way(x, producer, position) && !is_behind(x, producer, channel);
}

/* True if an issued run that uses storage s is in progress at a position: it is issued before the position, and its wait is
 * after the position. */
static bool is_being_read(const mp_runs *x, int s, int position)
{
    const mp_graph *g = x->graph;
    for (int k = g->readers_start[s]; k < g->readers_start[s + 1]; k++) {
        const mp_run_list *runs = &x->of_node[g->readers[k]];
        if (!x->waits[g->readers[k]]) continue;
        for (int i = 0; i < runs->n; i++)
            if (is_under_way(x, runs->runs[i], position) &&
                mp_list_has(x->runs[runs->runs[i]].does->reads, x->runs[runs->runs[i]].does->n_reads, s))
                return true;
    }
    return false;
}

/* True if a list of runs contains a run between two positions. Waits, and runs issued on the given channel, do not count. */
static bool any_between(const mp_runs *x, const mp_run_list *list, int from, int to, int channel)
{
    for (int k = mp_run_list_find(x, list, from + 1); k < list->n && mp_runs_position(x, list->runs[k]) < to; k++)
        if (!x->runs[list->runs[k]].is_wait && !is_behind(x, list->runs[k], channel)) return true;
    return false;
}

/* True if a run between two positions uses the static storage s. (Static storages have no lists of producers and readers.) */
static bool any_uses(const mp_runs *x, int s, int from, int to)
{
    for (int p = from + 1; p < to; p++) {
        const mp_alternative *does = x->run_at[p] < 0 ? NULL : x->runs[x->run_at[p]].does;
        if (does && (mp_list_has(does->reads, does->n_reads, s) || mp_list_has(does->writes, does->n_writes, s))) return true;
    }
    return false;
}

static bool adds_to(const mp_runs *x, int run, int s)
{
    return mp_list_has(x->runs[run].does->adds, x->runs[run].does->n_adds, s);
}

/* True if a later run may use the sum s while the issued run is still in progress. That is so in two cases: both runs read the
 * sum, or the later run reads it on the channel of the issued run. */
static bool may_share(const mp_runs *x, int s, int issued, int later)
{
    if (adds_to(x, later, s)) return false;
    return !adds_to(x, issued, s) || is_behind(x, later, x->runs[issued].does->channel);
}

/* True if a run that uses a sum does not conflict with a copy that is in progress when the run begins. If the run itself is
 * issued, runs that begin before its wait must not conflict with it either. For a static sum, which has no lists, the order of
 * its adders is checked instead. */
static bool shares_sum(const mp_runs *x, int run, int s)
{
    const mp_node_run *r = &x->runs[run];
    for (int k = 0; k < x->readers[s].n; k++) {
        const int other = x->readers[s].runs[k], position = mp_runs_position(x, other);
        if (other == run || x->runs[other].is_wait) continue;
        if (is_under_way(x, other, r->position) && !may_share(x, s, other, run)) return false;
        if (position > r->position && is_under_way(x, run, position) && !may_share(x, s, run, other)) return false;
    }
    return true;
}

/* True if no run before the wait of an issued run changes its inputs or uses its outputs. */
static bool is_left_alone(const mp_runs *x, int run)
{
    const mp_node_run *r = &x->runs[run];
    const int end = mp_runs_position(x, r->mate);
    if (end < r->position) return false;
    for (size_t k = 0; k < r->does->n_reads; k++)
        if (any_between(x, &x->producers[r->does->reads[k]], r->position, end, -1)) return false;
    for (size_t k = 0; k < r->does->n_writes; k++) {
        const int s = r->does->writes[k];
        if (mp_storage_is_static(&x->graph->storages[s]) && any_uses(x, s, r->position, end)) return false;
        if (any_between(x, &x->producers[s], r->position, end, -1) ||
            any_between(x, &x->readers[s], r->position, end, r->does->channel))
            return false;
    }
    return true;
}

static bool leaves_alone(const mp_runs *x, int run)
{
    const mp_node_run *r = &x->runs[run];
    const int channel = r->mate >= 0 ? r->does->channel : -1;
    for (size_t k = 0; k < r->does->n_reads; k++)
        if (is_incomplete(x, r->does->reads[k], r->position, channel)) return false;
    for (size_t k = 0; k < r->does->n_writes; k++)
        if (is_incomplete(x, r->does->writes[k], r->position, -1) || is_being_read(x, r->does->writes[k], r->position))
            return false;
    for (size_t k = 0; k < r->does->n_reads; k++)
        if (mp_storage_is_sum(x->graph, r->does->reads[k]) && !shares_sum(x, run, r->does->reads[k])) return false;
    for (size_t k = 0; k < r->does->n_adds; k++)
        if (!shares_sum(x, run, r->does->adds[k])) return false;
    return r->mate < 0 || is_left_alone(x, run);
}

bool mp_runs_leave_alone(const mp_runs *x)
{
    for (size_t k = 0; x->graph->has_copies && k < x->n_changes; k++) {
        const int run = x->changes[k].kind == MP_TURNED_ON ? x->changes[k].run : -1;
        if (run >= 0 && x->runs[run].is_on && !x->runs[run].is_wait && !leaves_alone(x, run)) return false;
    }
    return true;
}
