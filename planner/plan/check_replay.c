/* check_replay.c - the checker's own derivation of lifetimes and bytes.
 *
 * The timeline walks over the steps and tracks all storages at once. The checker deliberately works in another way, so that an
 * error in one of them is not repeated in the other. It first collects the uses of each storage. Then it replays the history of
 * one storage after the other.
 */
#include "planner/plan/check.h"

#include <stdio.h>

enum use_kind { READ, ADD, WRITE };

/* One use of a storage by a step. If a step uses a storage in several ways, it first reads, then adds, then writes */
struct use {
    int step;
    enum use_kind kind;
};

struct busy;

struct history {
    const mp_graph *graph;
    const mp_step *steps;
    mp_replay *replay;
    struct use *uses;
    struct busy *busy; /* scratch: uses of the current storage by issued steps that may still be running */
    int *uses_start;   /* the uses of storage s by steps: uses[uses_start[s] .. uses_start[s+1]) */
    mp_error *err;
};

static const int *alternative_list(const mp_alternative *alternative, enum use_kind kind, size_t *n)
{
    *n = kind == READ ? alternative->n_reads : kind == ADD ? alternative->n_adds : alternative->n_writes;
    return kind == READ ? alternative->reads : kind == ADD ? alternative->adds : alternative->writes;
}

static mp_status collect_uses(struct history *h)
{
    size_t n_storages = h->graph->n_storages, total = 0, n;
    MP_ENSURE(h->uses_start = mp_alloc(n_storages + 2, sizeof *h->uses_start), h->err, MP_NOMEM, "no memory to check a plan");
    /* next[s]: index at which the next use of s is stored. When all uses are stored, it is the start of the uses of s + 1 */
    int *next = h->uses_start + 1;
    for (size_t t = 0; t < h->replay->n_steps; t++) {
        for (int kind = READ; kind <= WRITE; kind++) {
            const int *list = alternative_list(h->replay->alternatives[t], (enum use_kind)kind, &n);
            for (size_t i = 0; i < n; i++) next[list[i] + 1]++;
            total += n;
        }
    }
    MP_ENSURE(total < INT32_MAX, h->err, MP_REFUTED, "the plan's %zu steps are too many", h->replay->n_steps);
    MP_ENSURE(h->uses = mp_alloc(total, sizeof *h->uses), h->err, MP_NOMEM, "no memory to check a plan");
    for (size_t s = 0; s < n_storages; s++) next[s + 1] += next[s];
    for (size_t t = 0; t < h->replay->n_steps; t++) {
        for (int kind = READ; kind <= WRITE; kind++) {
            const int *list = alternative_list(h->replay->alternatives[t], (enum use_kind)kind, &n);
            for (size_t i = 0; i < n; i++) h->uses[next[list[i]]++] = (struct use){(int)t, (enum use_kind)kind};
        }
    }
    return MP_OK;
}

static mp_status refute(const struct history *h, int step, const char *does, int storage, const char *why)
{
    return MP_FAIL(h->err, MP_REFUTED, "step %d: %s %s %s%s", step, mp_node_label(h->graph, h->steps[step].node).text, does,
                   mp_storage_label(h->graph, storage).text, why);
}

/* True if contribution number k to a sum may come from this node. If the order of additions is fixed, only one node may be the
 * k-th. */
static bool in_turn(const struct history *h, int storage, int k, int step)
{
    const mp_graph *graph = h->graph;
    int adder = graph->adders_start[storage] + k;
    return graph->storages[storage].any_sum_order ||
           (adder < graph->adders_start[storage + 1] && graph->adders[adder] == h->steps[step].node);
}

/* A use of a storage by an issued step that may still be running. */
struct busy {
    int step, until, channel;
    bool changes;
};

/* Appends the next use of a storage to the list `busy` of n entries, which contains the uses by issued steps that may still be
 * running. MP_REFUTED: the use conflicts with one of these uses. */
static mp_status use_next(const struct history *h, struct busy *busy, int *n, struct use use, int s)
{
    const mp_step step = h->steps[use.step];
    const int channel = step.until ? h->replay->alternatives[use.step]->channel : MP_CHANNEL_COMPUTE;
    const bool changes = use.kind != READ;
    int left = 0;
    for (int k = 0; k < *n; k++) {
        const struct busy x = busy[k];
        char why[128];
        if (x.until <= use.step) continue;
        busy[left++] = x;
        if (x.step == use.step || (!changes && !x.changes)) continue;
        /* two uses on the same channel do not conflict, because the steps of a channel run one after the other */
        if (x.channel == channel && (!changes || mp_storage_is_static(&h->graph->storages[s]))) continue;
        snprintf(why, sizeof why, ", which %s %s concurrently; the wait is at step %d",
                 x.channel == MP_CHANNEL_SECOND_STREAM ? "an update" : h->graph->channels[x.channel],
                 x.changes ? "changes" : "still reads", x.until);
        return refute(h, use.step, changes ? "changes" : "reads", s, why);
    }
    *n = left;
    if (step.until) busy[(*n)++] = (struct busy){use.step, step.until, channel, changes};
    return MP_OK;
}

/* Replays the history of one storage, use by use, and appends its instances. */
static mp_status replay_storage(struct history *h, int s)
{
    const mp_graph *graph = h->graph;
    const mp_storage *storage = &graph->storages[s];
    mp_replay *r = h->replay;
    /* produced: a step has written the storage or added to it; a gradient carried in from the previous training step does not
     * count */
    bool is_static = mp_storage_is_static(storage), produced = false;
    int n_adders = graph->adders_start[s + 1] - graph->adders_start[s], n_added = 0, n_before = (int)r->n_instances;
    mp_instance *now = NULL; /* the instance of the storage that is live now; NULL: none */
    int n_busy = 0;
    mp_status st;

    r->start[s] = n_before;
    if (storage->carried && r->n_steps) {
        now = &r->instances[r->n_instances++];
        *now = (mp_instance){s, 0, 1, -1, false};
    }
    for (int u = h->uses_start[s]; u < h->uses_start[s + 1]; u++) {
        int t = h->uses[u].step;
        bool starts = false;
        if ((st = use_next(h, h->busy, &n_busy, h->uses[u], s)) != MP_OK) return st;
        switch (h->uses[u].kind) {
        case READ:
            if (is_static && graph->fuse == MP_FUSE_FORWARD && graph->nodes[h->steps[t].node].phase == MP_PHASE_UPDATE)
                continue; /* the update at the start of the step uses the gradients of the previous step */
            if (n_added < n_adders && (produced || !storage->carried))
                return refute(h, t, "reads", s, " before all nodes have added to it");
            if (is_static ? graph->writer[s] >= 0 && !produced : !now)
                return refute(h, t, "reads", s, ", which no earlier step has produced");
            if (is_static) continue;
            if (graph->nodes[h->steps[t].node].phase == MP_PHASE_BACKWARD && (int)r->n_instances == n_before + 1)
                r->checkpoint[s] = true;
            break;
        case ADD:
            if (!in_turn(h, s, n_added++, t)) return refute(h, t, "adds to", s, " out of order");
            starts = !produced;
            break;
        case WRITE:
            starts = true;
            break;
        }
        produced |= starts && is_static;
        if (is_static) continue;
        if (starts) {
            now = &r->instances[r->n_instances++];
            *now = (mp_instance){s, t, t + 1, -1, false};
            produced = true;
        }
        if (r->ends[t] >= now->end) {
            now->is_locked = r->ends[t] > t + 1 || (now->is_locked && now->end == t + 1);
            now->end = r->ends[t];
        }
    }
    if (storage->carried && produced) {
        now->is_locked = now->is_locked && now->end == (int)r->n_steps;
        now->end = (int)r->n_steps;
    }
    r->checkpoint[s] = r->checkpoint[s] && !storage->carried && storage->kind != MP_KIND_SAVED && graph->producer[s] >= 0 &&
                       graph->nodes[graph->producer[s]].phase == MP_PHASE_FORWARD;
    return MP_OK;
}

/* Returns the instance of s that begins at step `at`, or with `ends` the instance that ends there; -1: none. Begins and ends of
 * a storage's instances ascend. */
static int instance_at(const mp_replay *r, int s, int at, bool ends)
{
    int low = r->start[s], high = r->start[s + 1];
    /* binary search: the last instance whose begin (or end) is at most `at` has an index in [low - 1, high) */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((ends ? r->instances[middle].end : r->instances[middle].begin) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == r->start[s]) return -1;
    const mp_instance *found = &r->instances[low - 1];
    return (ends ? found->end : found->begin) == at ? low - 1 : -1;
}

/* Applies the in-place pairs of each step's alternative in the order listed, as far as they fit. In one step, a storage is in
 * at most one applied pair. */
static mp_status take_over(struct history *h)
{
    mp_replay *r = h->replay;
    MP_OWNED size_t *taken =
        /* per storage: 1 + the last step in which an applied pair contained it */
        mp_alloc(h->graph->n_storages, sizeof *taken);
    if (!taken) return MP_FAIL(h->err, MP_NOMEM, "no memory to check a plan");
    for (size_t t = 0; t < r->n_steps; t++) {
        for (size_t i = 0; i < r->alternatives[t]->n_in_place; i++) {
            mp_in_place pair = r->alternatives[t]->in_place[i];
            int to = instance_at(r, pair.to, (int)t, false);
            if (taken[pair.from] == t + 1 || taken[pair.to] == t + 1) continue;
            int from = instance_at(r, pair.from, (int)t + 1, true);
            if (to < 0 || from < 0 || r->instances[from].is_locked) continue;
            if (h->graph->storages[pair.from].bytes < h->graph->storages[pair.to].bytes) continue;
            taken[pair.from] = taken[pair.to] = t + 1;
            r->instances[to].takes_over = pair.from;
        }
    }
    return MP_OK;
}

/* Computes the live bytes of a tier at each step. Workspaces count on the device. `begins` and `ends` are scratch arrays with
 * one number per step, and one more for the end. */
static void add_up_tier(struct history *h, int tier, int64_t *begins, int64_t *ends)
{
    mp_replay *r = h->replay;
    int64_t live = 0, highest = 0;
    for (size_t t = 0; t <= r->n_steps; t++) begins[t] = ends[t] = 0;
    for (size_t k = 0; k < r->n_instances; k++) {
        const mp_instance *x = &r->instances[k];
        if (h->graph->storages[x->storage].tier != tier) continue;
        /* an instance that takes over an input's memory counts from its second step on; in its first step the memory still
         * counts for the input */
        begins[x->takes_over < 0 ? x->begin : x->begin + 1] += h->graph->storages[x->storage].bytes;
        ends[x->end] += h->graph->storages[x->storage].bytes;
    }
    for (size_t t = 0; t < r->n_steps; t++) {
        const int64_t workspace_bytes = tier == MP_TIER_DEVICE ? r->alternatives[t]->workspace_bytes : 0;
        live += begins[t] + workspace_bytes - ends[t];
        ends[r->ends[t]] += workspace_bytes;
        if (live > highest) highest = live;
    }
    for (size_t s = 0; s < h->graph->n_storages; s++)
        if (h->graph->storages[s].tier == tier && mp_storage_is_static(&h->graph->storages[s]))
            r->tiers[tier].static_bytes += h->graph->storages[s].bytes;
    r->tiers[tier].peak_bytes = r->tiers[tier].static_bytes + highest;
}

/* Step t and the earlier steps wait for issued steps. Returns the time at which all of these issued steps have ended. `order`
 * lists the steps, sorted by the step that waits for them. *next is the first entry of `order` with a later wait. `over` is the
 * result for step t - 1. */
static int64_t over_by(const mp_replay *r, int t, const int *order, size_t *next, const int64_t *end, int64_t over)
{
    for (; *next < r->n_steps && r->ends[order[*next]] <= t; ++*next)
        if (end[order[*next]] > over) over = end[order[*next]];
    return over;
}

/* Computes the makespan. A step begins when the previous step of its channel and all steps for which it waits have ended. The
 * steps are sorted by the step that waits for them, so that each is visited once. */
static mp_status find_ticks(struct history *h)
{
    mp_replay *r = h->replay;
    int newest[MP_MAX_CHANNELS];
    int64_t over = 0;
    size_t next = 0;
    MP_OWNED int64_t *end = mp_alloc(r->n_steps, sizeof *end);
    MP_OWNED int *order = mp_alloc(r->n_steps, sizeof *order), *start = mp_alloc(r->n_steps + 2, sizeof *start);
    MP_ENSURE(end && order && start, h->err, MP_NOMEM, "no memory to check a plan");
    for (int c = 0; c < MP_MAX_CHANNELS; c++) newest[c] = -1;
    for (size_t t = 0; t < r->n_steps; t++) start[r->ends[t] + 1]++;
    for (size_t t = 0; t < r->n_steps; t++) start[t + 1] += start[t];
    for (size_t t = 0; t < r->n_steps; t++) order[start[r->ends[t]]++] = (int)t;
    for (size_t t = 0; t < r->n_steps; t++) {
        const int channel = r->alternatives[t]->channel, clock = channel == MP_CHANNEL_SECOND_STREAM ? 0 : channel;
        int64_t begin = over = over_by(r, (int)t, order, &next, end, over);
        if (newest[0] >= 0 && end[newest[0]] > begin) begin = end[newest[0]];
        if (newest[clock] >= 0 && end[newest[clock]] > begin) begin = end[newest[clock]];
        MP_ENSURE(!__builtin_add_overflow(begin, r->alternatives[t]->ticks, &end[t]), h->err, MP_REFUTED,
                  "step %zu: the steps take more time than can be counted", t);
        newest[clock] = (int)t;
        if (end[t] > r->ticks) r->ticks = end[t];
    }
    return MP_OK;
}

/* Checks that the sum of the workspaces of all issued steps does not overflow, because all of them may be live at the same
 * time. */
static mp_status check_workspaces(const struct history *h)
{
    int64_t total = 0;
    for (size_t t = 0; t < h->replay->n_steps; t++)
        if (h->steps[t].until &&
            (__builtin_add_overflow(total, h->replay->alternatives[t]->workspace_bytes, &total) || total > INT64_MAX / 4))
            return MP_FAIL(h->err, MP_REFUTED, "step %zu: the concurrent steps need more bytes than can be counted", t);
    return MP_OK;
}

static mp_status add_up(struct history *h)
{
    mp_replay *r = h->replay;
    MP_OWNED int64_t *begins = mp_alloc(2 * (r->n_steps + 1), sizeof *begins); /* bytes per step */
    MP_ENSURE(begins, h->err, MP_NOMEM, "no memory to check a plan");
    MP_CHECK(check_workspaces(h));
    for (int m = 0; m < (int)h->graph->n_tiers; m++) add_up_tier(h, m, begins, begins + r->n_steps + 1);
    r->static_bytes = r->tiers[MP_TIER_DEVICE].static_bytes;
    r->peak_bytes = r->tiers[MP_TIER_DEVICE].peak_bytes;
    return find_ticks(h);
}

static void clear(struct history *h)
{
    mp_free(h->uses);
    mp_free(h->uses_start);
    mp_free(h->busy);
}

mp_status mp_replay_new(const mp_graph *graph, const mp_step *steps, size_t n, mp_replay **out, mp_error *err)
{
    MP_OWNED_BY(mp_replay_free) mp_replay *r = mp_alloc(1, sizeof *r);
    MP_CLEARED_BY(clear) struct history h = {.replay = r, .graph = graph, .steps = steps, .err = err};
    MP_ENSURE(r, err, MP_NOMEM, "no memory to check a plan");
    r->pool = mp_pool_new();
    r->alternatives = mp_pool_alloc(r->pool, n, sizeof *r->alternatives);
    r->ends = mp_pool_alloc(r->pool, n, sizeof *r->ends);
    r->start = mp_pool_alloc(r->pool, graph->n_storages + 1, sizeof *r->start);
    r->checkpoint = mp_pool_alloc(r->pool, graph->n_storages, sizeof *r->checkpoint);
    MP_ENSURE(!mp_pool_failed(r->pool), err, MP_NOMEM, "no memory to check a plan");
    r->n_steps = n;
    for (size_t t = 0; t < n; t++) {
        r->alternatives[t] = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        r->ends[t] = steps[t].until ? steps[t].until : (int)t + 1;
    }
    MP_CHECK(collect_uses(&h));
    MP_ENSURE(h.busy = mp_alloc(2 * n, sizeof *h.busy), err, MP_NOMEM,
              "no memory to check a plan"); /* twice the number of steps, because a step may both read and write a storage */
    /* most: largest number of instances. Each use begins at most one instance, and each storage may have one that the previous
     * training step carries in */
    size_t most = (size_t)h.uses_start[graph->n_storages] + graph->n_storages;
    MP_ENSURE(r->instances = mp_pool_alloc(r->pool, most, sizeof *r->instances), err, MP_NOMEM, "no memory to check a plan");
    for (size_t s = 0; s < graph->n_storages; s++) MP_CHECK(replay_storage(&h, (int)s));
    r->start[graph->n_storages] = (int)r->n_instances;
    MP_CHECK(take_over(&h));
    MP_CHECK(add_up(&h));
    *out = r;
    r = NULL;
    return MP_OK;
}

void mp_replay_free(mp_replay *replay)
{
    if (!replay) return;
    mp_pool_free(replay->pool);
    mp_free(replay);
}
