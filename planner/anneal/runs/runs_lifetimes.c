/* runs_lifetimes.c - computes the lifetimes of storages from their lists of producers and readers, and updates the memory
 * profile where lifetimes change. */
#include "planner/anneal/runs/runs.h"

#include <limits.h>

#include "estimator/graph/liveness.h"

static int64_t bytes_of(const mp_runs *x, int s)
{
    return x->graph->storages[s].bytes;
}

/* Adds the storage's bytes to positions [begin, end) of its tier, or subtracts them. Does nothing if begin >= end. */
static void add(mp_runs *x, int s, int begin, int end, int sign)
{
    const int tier = x->graph->storages[s].tier;
    if (x->has_limit[tier]) mp_profile_add(x->profile + tier, begin, end, sign * bytes_of(x, s));
}

int mp_lifetime_end(const mp_runs *x, int s, int producer)
{
    const mp_run_list *producers = &x->producers[s], *readers = &x->readers[s];
    const bool is_last = producer + 1 == producers->n;
    const int next = is_last ? INT_MAX : mp_runs_position(x, producers->runs[producer + 1]);
    const int n_before = mp_run_list_find(x, readers, next);
    int last = mp_runs_position(x, producers->runs[producer]);
    if (n_before > 0 && mp_runs_position(x, readers->runs[n_before - 1]) > last)
        last = mp_runs_position(x, readers->runs[n_before - 1]);
    if (is_last && x->update_run[s] >= 0 && mp_runs_position(x, x->update_run[s]) > last)
        last = mp_runs_position(x, x->update_run[s]);
    return last + 1;
}

bool mp_lifetime_of_sum(const mp_runs *x, int s, int *begin, int *end)
{
    const mp_run_list *readers = &x->readers[s];
    if (!readers->n) return false;
    *begin = mp_runs_position(x, readers->runs[0]);
    *end = mp_runs_position(x, readers->runs[readers->n - 1]) + 1;
    if (x->update_run[s] >= 0 && mp_runs_position(x, x->update_run[s]) >= *end)
        *end = mp_runs_position(x, x->update_run[s]) + 1;
    return true;
}

/* ---- in-place pairs ---- */

/* True if a run at this position reads an instance of s, and the instance ends with this read. Static storages never end. */
static bool ends_at(const mp_runs *x, int s, int position)
{
    int begin, end;
    if (mp_storage_is_sum(x->graph, s)) return mp_lifetime_of_sum(x, s, &begin, &end) && end == position + 1;
    const int producer = mp_run_list_find(x, &x->producers[s], position) - 1;
    return producer >= 0 && mp_lifetime_end(x, s, producer) == position + 1;
}

/* True if an instance of storage s begins with the run at this position. */
static bool begins_at(const mp_runs *x, int s, int position)
{
    int begin, end;
    if (mp_storage_is_static(&x->graph->storages[s])) return false;
    if (mp_storage_is_sum(x->graph, s)) return mp_lifetime_of_sum(x, s, &begin, &end) && begin == position;
    const mp_run_list *producers = &x->producers[s];
    const int at = mp_run_list_find(x, producers, position);
    return at < producers->n && mp_runs_position(x, producers->runs[at]) == position;
}

void mp_lifetime_pair(mp_runs *x, int run)
{
    if (x->failed) return;
    mp_node_run *r = &x->runs[run];
    if (run == x->end || r->position < 0) return;
    int64_t spared = 0;
    mp_in_place p;
    for (size_t at = 0; r->is_on && mp_pair_next(x->graph, r->does, &at, &p);) {
        if (x->graph->storages[p.to].tier || !ends_at(x, p.from, r->position) || !begins_at(x, p.to, r->position)) continue;
        if (mp_pair_take(p, 1, x->pair_used)) spared += bytes_of(x, p.to);
    }
    for (size_t at = 0; r->is_on && mp_pair_next(x->graph, r->does, &at, &p);) x->pair_used[p.from] = x->pair_used[p.to] = 0;
    if (spared == r->in_place_bytes) return;
    mp_profile_add(x->profile, r->position, r->position + 1, r->in_place_bytes - spared);
    r->in_place_bytes = spared;
}

static void pair_at(mp_runs *x, int position)
{
    if (x->run_at[position] >= 0) mp_lifetime_pair(x, x->run_at[position]);
}

/* ---- workspaces of issued runs ---- */

/* True if the order contains the run, and the run is issued or is a wait. An issued run and its wait are turned on and off one
 * after the other. */
static bool is_pair_on(const mp_runs *x, int run)
{
    return x->runs[run].mate >= 0 && x->runs[run].is_on && x->runs[x->runs[run].mate].is_on;
}

void mp_lifetime_workspace(mp_runs *x, int run, int sign)
{
    if (!is_pair_on(x, run)) return;
    const int issued = x->runs[run].is_wait ? x->runs[run].mate : run, wait = x->runs[issued].mate;
    mp_profile_add(x->profile, mp_runs_position(x, issued), mp_runs_position(x, wait) + 1,
                   sign * x->runs[issued].does->workspace_bytes);
}

/* ---- lists ---- */

/* Updates the memory profile when the end of an instance of s moves between two positions. */
static void move_end(mp_runs *x, int s, int from, int to)
{
    if (from < to) add(x, s, from, to, 1);
    if (from > to) add(x, s, to, from, -1);
    if (from == to) return;
    pair_at(x, from - 1);
    pair_at(x, to - 1);
}

void mp_lifetime_add_producer(mp_runs *x, int s, int run)
{
    if (x->failed) return;
    mp_run_list *producers = &x->producers[s];
    const int position = mp_runs_position(x, run), before = mp_run_list_find(x, producers, position) - 1;
    const int old_end = before >= 0 ? mp_lifetime_end(x, s, before) : -1;
    mp_run_list_insert(x, producers, run);
    if (x->failed) return;
    const int end = mp_lifetime_end(x, s, before + 1);
    /* a new producer splits an instance in two, and the storage is no longer live between the two instances */
    if (old_end > position + 1) {
        const int new_end = mp_lifetime_end(x, s, before);
        add(x, s, new_end, position, -1);
        pair_at(x, new_end - 1);
    } else {
        add(x, s, position, end, 1);
        pair_at(x, end - 1);
        if (before >= 0 && x->update_run[s] >= 0) move_end(x, s, old_end, mp_lifetime_end(x, s, before));
    }
}

void mp_lifetime_remove_producer(mp_runs *x, int s, int run)
{
    if (x->failed) return;
    mp_run_list *producers = &x->producers[s];
    const int position = mp_runs_position(x, run), before = mp_run_list_find(x, producers, position) - 1;
    const int end = mp_lifetime_end(x, s, before + 1), old_end = before >= 0 ? mp_lifetime_end(x, s, before) : -1;
    mp_run_list_remove(x, producers, run);
    if (before >= 0 && end > position + 1) {
        add(x, s, old_end, position, 1);
        pair_at(x, old_end - 1);
    } else {
        add(x, s, position, end, -1);
        pair_at(x, end - 1);
        if (before >= 0 && x->update_run[s] >= 0) move_end(x, s, old_end, mp_lifetime_end(x, s, before));
    }
}

/* A storage has gained or lost a reader. Updates the lifetime of each gradient whose update overwrites this storage. */
static void move_updates(mp_runs *x, int s)
{
    for (int k = x->gradients_start[s]; k < x->gradients_start[s + 1]; k++) {
        const int g = x->gradients[k], old = x->update_run[g];
        const mp_run_list *readers = &x->readers[s];
        const int now = readers->n ? readers->runs[readers->n - 1] : -1;
        int begin = 0, from, to;
        if (now == old) continue;
        if (mp_storage_is_sum(x->graph, g)) {
            const bool lives = mp_lifetime_of_sum(x, g, &begin, &from);
            x->update_run[g] = now;
            if (lives && mp_lifetime_of_sum(x, g, &begin, &to)) move_end(x, g, from, to);
        } else {
            const int last = x->producers[g].n - 1;
            from = last >= 0 ? mp_lifetime_end(x, g, last) : -1;
            x->update_run[g] = now;
            if (last >= 0) move_end(x, g, from, mp_lifetime_end(x, g, last));
        }
    }
}

static bool skips(const mp_runs *x, int s)
{
    return mp_storage_is_static(&x->graph->storages[s]) && x->graph->writer[s] < 0 &&
           x->gradients_start[s] == x->gradients_start[s + 1];
}

static void change_sum(mp_runs *x, int s, int run, bool adds)
{
    int begin = 0, end = 0, new_begin = 0, new_end = 0;
    const bool lived = mp_lifetime_of_sum(x, s, &begin, &end);
    if (adds)
        mp_run_list_insert(x, &x->readers[s], run);
    else
        mp_run_list_remove(x, &x->readers[s], run);
    const bool lives = mp_lifetime_of_sum(x, s, &new_begin, &new_end);
    /* a range [a, b) with a >= b is empty, and an addition to an empty range has no effect. So at most two of the four
     * additions change the memory profile */
    if (lived && lives) {
        add(x, s, new_begin, begin, 1);
        add(x, s, begin, new_begin, -1);
        add(x, s, end, new_end, 1);
        add(x, s, new_end, end, -1);
    } else {
        if (lived) add(x, s, begin, end, -1);
        if (lives) add(x, s, new_begin, new_end, 1);
    }
    if (lived) pair_at(x, begin);
    if (lived) pair_at(x, end - 1);
    if (lives) pair_at(x, new_begin);
    if (lives) pair_at(x, new_end - 1);
}

static void change_reader(mp_runs *x, int s, int run, bool adds)
{
    if (x->failed) return;
    mp_run_list *readers = &x->readers[s];
    if (skips(x, s)) return;
    if (mp_storage_is_sum(x->graph, s)) {
        change_sum(x, s, run, adds);
        return;
    }
    const bool is_static = mp_storage_is_static(&x->graph->storages[s]);
    const int producer = is_static ? -1 : mp_run_list_find(x, &x->producers[s], mp_runs_position(x, run)) - 1;
    const int from = producer >= 0 ? mp_lifetime_end(x, s, producer) : -1;
    if (adds)
        mp_run_list_insert(x, readers, run);
    else
        mp_run_list_remove(x, readers, run);
    if (producer >= 0) move_end(x, s, from, mp_lifetime_end(x, s, producer));
    if (is_static) move_updates(x, s);
}

void mp_lifetime_add_reader(mp_runs *x, int s, int run)
{
    change_reader(x, s, run, true);
}

void mp_lifetime_remove_reader(mp_runs *x, int s, int run)
{
    change_reader(x, s, run, false);
}

/* ---- at one position ---- */

int64_t mp_lifetimes_begun(const mp_runs *x, int run, int tier)
{
    const mp_node_run *r = &x->runs[run];
    const mp_storage *storages = x->graph->storages;
    int64_t bytes = 0;
    if (run == x->end || !r->is_on) return 0;
    for (size_t k = 0; k < r->does->n_writes; k++) {
        const int s = r->does->writes[k];
        if (storages[s].tier == tier && !mp_storage_is_static(&storages[s])) bytes += storages[s].bytes;
    }
    for (size_t k = 0; k < r->does->n_adds; k++) {
        const int s = r->does->adds[k];
        if (storages[s].tier == tier && begins_at(x, s, r->position)) bytes += storages[s].bytes;
    }
    if (!tier && mp_runs_is_issued(x, run) && is_pair_on(x, run)) bytes += r->does->workspace_bytes;
    return bytes;
}
