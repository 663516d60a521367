/* runs_change.c - inserts and removes runs, shifts runs to make space, and records changes for undo. */
#include "planner/anneal/runs/runs.h"

#include <string.h>

static void note(mp_runs *x, mp_change_kind kind, int run, int position)
{
    if (!mp_grow(&x->changes, &x->changes_capacity, x->n_changes + 1, sizeof *x->changes)) {
        x->failed = true;
        return;
    }
    x->changes[x->n_changes++] = (mp_change){kind, {run}, {position}};
}

/* ---- changes that are not recorded for undo ---- */

static void place(mp_runs *x, int run, int position)
{
    x->runs[run].position = position;
    x->run_at[position] = run;
    mp_runs_occupy(x, run, true);
}

static void displace(mp_runs *x, int run)
{
    const int position = x->runs[run].position;
    mp_runs_occupy(x, run, false);
    x->run_at[position] = -1;
    x->runs[run].position = -1;
}

static void turn_on(mp_runs *x, int run)
{
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    mp_run_list *of_node = &x->of_node[x->runs[run].node];
    if (x->runs[run].mate >= 0) mp_run_list_insert(x, &x->queue, run);
    x->n_issued += x->runs[run].is_wait;
    if (x->runs[run].mate < 0) {
        x->ticks += alternative->ticks;
        mp_runs_add_ticks(x, x->runs[run].position, alternative->ticks);
    }
    x->n_on++;
    for (size_t k = 0; k < alternative->n_reads; k++) mp_lifetime_add_reader(x, alternative->reads[k], run);
    for (size_t k = 0; k < alternative->n_adds; k++) mp_lifetime_add_reader(x, alternative->adds[k], run);
    for (size_t k = 0; k < alternative->n_writes; k++)
        if (!mp_storage_is_static(&x->graph->storages[alternative->writes[k]]))
            mp_lifetime_add_producer(x, alternative->writes[k], run);
    /* while is_on is false, the calls above skip in-place pairs; mp_lifetime_pair then examines the run's pairs once, and not
     * once per storage */
    x->runs[run].is_on = true;
    mp_lifetime_workspace(x, run, 1);
    mp_lifetime_pair(x, run);
    if (!x->runs[run].is_wait) mp_run_list_insert(x, of_node, run);
}

static void turn_off(mp_runs *x, int run)
{
    const mp_alternative *alternative = mp_runs_alternative(x, run);
    mp_run_list *of_node = &x->of_node[x->runs[run].node];
    if (!x->runs[run].is_wait) mp_run_list_remove(x, of_node, run);
    mp_lifetime_workspace(x, run, -1);
    x->runs[run].is_on = false;
    for (size_t k = 0; k < alternative->n_writes; k++)
        if (!mp_storage_is_static(&x->graph->storages[alternative->writes[k]]))
            mp_lifetime_remove_producer(x, alternative->writes[k], run);
    for (size_t k = 0; k < alternative->n_adds; k++) mp_lifetime_remove_reader(x, alternative->adds[k], run);
    for (size_t k = 0; k < alternative->n_reads; k++) mp_lifetime_remove_reader(x, alternative->reads[k], run);
    if (x->runs[run].mate >= 0) mp_run_list_remove(x, &x->queue, run);
    x->n_issued -= x->runs[run].is_wait;
    if (x->runs[run].mate < 0) {
        x->ticks -= alternative->ticks;
        mp_runs_add_ticks(x, x->runs[run].position, -alternative->ticks);
    }
    x->n_on--;
    mp_profile_add(x->profile, x->runs[run].position, x->runs[run].position + 1, x->runs[run].in_place_bytes);
    x->runs[run].in_place_bytes = 0;
}

/* Returns the bytes of a tier that are live at a run's position without the storages that become live with this run. */
static int64_t level_before(const mp_runs *x, int run, int tier)
{
    const mp_node_run *r = &x->runs[run];
    return mp_profile_excess(x->profile + tier, r->position) + mp_runs_limit(x, run, tier) + (tier ? 0 : r->in_place_bytes) -
           mp_lifetimes_begun(x, run, tier);
}

/* Moves the runs at positions [begin, end), with their live bytes, by one position into the adjacent empty position. The
 * position that becomes empty gets the bytes that are live between its two neighbours. */
static void shift(mp_runs *x, int begin, int end, int by)
{
    const int next = x->run_at[end];
    for (int m = 0; m < (int)x->graph->n_tiers; m++) {
        if (!x->has_limit[m]) continue;
        const int64_t left = by > 0     ? level_before(x, x->run_at[begin], m)
                             : next < 0 ? mp_profile_level(x->profile + m, end)
                                        : level_before(x, next, m);
        mp_profile_shift(x->profile + m, begin, end, by, left);
    }
    memmove(&x->run_at[begin + by], &x->run_at[begin], (size_t)(end - begin) * sizeof *x->run_at);
    x->run_at[by < 0 ? end - 1 : begin] = -1;
    for (int p = begin + by; p < end + by; p++) {
        mp_node_run *r = &x->runs[x->run_at[p]];
        r->position = p;
        if (!x->sums || !r->is_on || r->mate >= 0) continue;
        mp_runs_add_ticks(x, p - by, -r->does->ticks);
        mp_runs_add_ticks(x, p, r->does->ticks);
    }
    x->n_shifted += end - begin;
}

/* ---- changes recorded for undo ---- */

static void make_space(mp_runs *x, int begin, int end, int by)
{
    if (begin >= end) return;
    note(x, by < 0 ? MP_SHIFTED_LEFT : MP_SHIFTED_RIGHT, begin, end);
    if (!x->failed) shift(x, begin, end, by);
}

/* Finds a position for a run that must execute just before the run before_run. It takes an empty position between before_run
 * and the run before it. The position is close to before_run, because the inputs of the new run may be inserted before the new
 * run. If there is no such gap, shifts neighbours to the nearest empty position. Returns -1 if no position is free. */
static int find_position(mp_runs *x, int before_run)
{
    const int position = x->runs[before_run].position, end = x->profile->n_positions - 1;
    int from = position - 1, to = position + 1;
    while (from >= 0 && x->run_at[from] < 0) from--;
    if (position - from > 1) return position - (position - from + 2) / 4;
    while (from >= 0 && x->run_at[from] >= 0 && (to >= end || x->run_at[to] >= 0)) {
        from--;
        if (to < end) to++;
    }
    if (from >= 0 && x->run_at[from] < 0) {
        make_space(x, from + 1, position, -1);
        return position - 1;
    }
    while (to < end && x->run_at[to] >= 0) to++;
    if (to >= end) return -1;
    make_space(x, position, to, 1);
    return position;
}

static int reserve(mp_runs *x, int node, int alternative, const mp_alternative *does, int before_run)
{
    const int position = x->failed ? -1 : find_position(x, before_run);
    if (position < 0 || x->failed) return -1;
    if (!x->n_spare && !mp_grow(&x->runs, &x->runs_capacity, (size_t)x->n_runs + 1, sizeof *x->runs)) {
        x->failed = true;
        return -1;
    }
    const int run = x->n_spare ? x->spare[--x->n_spare] : x->n_runs++;
    x->runs[run] = (mp_node_run){.node = node, .alternative = alternative, .does = does, .mate = -1, .position = -1};
    place(x, run, position);
    note(x, MP_RESERVED, run, position);
    return run;
}

int mp_runs_issue(mp_runs *x, int node, int alternative, int before_run, int wait_before)
{
    const mp_alternative *does = &x->graph->nodes[node].alternatives[alternative];
    const int run = reserve(x, node, alternative, does, before_run);
    if (run < 0 || !mp_runs_is_issued(x, run)) return run;
    const int wait = reserve(x, node, alternative, &x->waits[node][alternative], wait_before);
    if (wait < 0) {
        mp_runs_remove(x, run);
        return -1;
    }
    x->runs[wait].is_wait = true;
    x->runs[wait].mate = run;
    x->runs[run].mate = wait;
    return run;
}

int mp_runs_reserve(mp_runs *x, int node, int alternative, int before_run)
{
    return mp_runs_issue(x, node, alternative, before_run, before_run);
}

void mp_runs_turn_on(mp_runs *x, int run)
{
    if (x->failed) return;
    turn_on(x, run);
    note(x, MP_TURNED_ON, run, -1);
    if (x->runs[run].mate >= 0 && !x->runs[run].is_wait) mp_runs_turn_on(x, x->runs[run].mate);
}

static void push(mp_runs *x, int **list, int *n, size_t *capacity, int run)
{
    if (mp_grow(list, capacity, (size_t)*n + 1, sizeof **list))
        (*list)[(*n)++] = run;
    else
        x->failed = true;
}

static void remove_one(mp_runs *x, int run)
{
    if (x->failed) return;
    if (x->runs[run].is_on) {
        turn_off(x, run);
        note(x, MP_TURNED_OFF, run, -1);
    }
    note(x, MP_RELEASED, run, x->runs[run].position);
    displace(x, run);
    push(x, &x->removed, &x->n_removed, &x->removed_capacity, run);
}

void mp_runs_remove(mp_runs *x, int run)
{
    if (x->runs[run].mate >= 0) remove_one(x, x->runs[run].mate);
    remove_one(x, run);
}

void mp_runs_keep(mp_runs *x)
{
    x->n_changes = 0;
    while (x->n_removed) push(x, &x->spare, &x->n_spare, &x->spare_capacity, x->removed[--x->n_removed]);
}

void mp_runs_undo(mp_runs *x)
{
    while (x->n_changes && !x->failed) {
        const mp_change c = x->changes[--x->n_changes];
        switch (c.kind) {
        case MP_RESERVED:
            displace(x, c.run);
            push(x, &x->spare, &x->n_spare, &x->spare_capacity, c.run);
            break;
        /* the run is the last element of `removed`, because undo has already restored the runs that were removed after it */
        case MP_RELEASED:
            x->n_removed--;
            place(x, c.run, c.position);
            break;
        case MP_TURNED_ON:
            turn_off(x, c.run);
            break;
        case MP_TURNED_OFF:
            turn_on(x, c.run);
            break;
        case MP_SHIFTED_LEFT:
            shift(x, c.begin - 1, c.end - 1, 1);
            break;
        case MP_SHIFTED_RIGHT:
            shift(x, c.begin + 1, c.end + 1, -1);
            break;
        }
    }
}
