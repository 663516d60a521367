/* timeline.c - derives the timeline in one pass over the steps, with the current live instance per storage.
 *
 * A span is the interval of steps in which an instance is live. It ends with the last read, which is known only after the
 * last step. In-place pairs are therefore recorded during the pass and resolved afterwards. Live bytes are computed last,
 * from all spans. */
#include "memplan/makespan.h"

#include <stdlib.h>

#include "estimator/base/integers.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"

enum { NOT_LIVE = -1, ALWAYS_LIVE = -2 };

struct state {  /* the state of one storage after the steps that have been processed */
    int span;   /* index of the span of the storage's current instance; NOT_LIVE or ALWAYS_LIVE if there is none */
    int added;  /* for a sum: number of contributions in the steps so far */
    bool begun; /* true if a step of this list has produced the storage. For a carried gradient, readers must then wait for all
                   contributions */
};

struct pair { /* An in-place pair. It applies if the span of `from` ends, and the span of `to` begins, in this step. */
    int step, from, to;
};

struct hold { /* Limits from issued steps, per storage and channel: the first step at which all issued reads have ended, and the
                 first step at which all issued changes have ended. */
    int read_until, changed_until;
};

struct builder {
    const mp_graph *graph;
    mp_timeline *timeline;
    struct state *states;
    struct pair *pairs;
    int *used; /* per storage: 1 + the last step in which an in-place pair used this storage */
    size_t n_pairs;
    struct hold *holds; /* per storage and channel: the limits from issued steps; NULL: the plan issues no step */
    mp_error *err;
};

static void begin_instance(struct builder *b, int storage, int t)
{
    b->states[storage].span = (int)b->timeline->n_spans;
    b->timeline->spans[b->timeline->n_spans++] = (mp_span){storage, t, t + 1, -1};
}

/* Extends the current instance of a storage at least to step `end`. */
static void live_until(struct builder *b, int storage, int end)
{
    mp_span *span = &b->timeline->spans[b->states[storage].span];
    span->end = mp_larger(span->end, end);
}

static struct hold *holds_of(const struct builder *b, int storage)
{
    return b->holds + (size_t)storage * b->graph->n_channels;
}

/* Fails if step t must not read or change a storage because a concurrent step uses it. */
static mp_status leave_alone(struct builder *b, int t, mp_step step, int channel, int s, bool changes)
{
    const struct hold *holds = holds_of(b, s);
    for (int c = MP_CHANNEL_SECOND_STREAM; c < (int)b->graph->n_channels; c++) {
        const int until = changes ? mp_larger(holds[c].read_until, holds[c].changed_until) : holds[c].changed_until;
        const bool comes_after = step.until && channel == c && (b->states[s].span == ALWAYS_LIVE || !changes);
        MP_ENSURE(t >= until || comes_after, b->err, MP_INVALID, "step %d: %s %s %s, which %s %s uses up to step %d", t,
                  mp_node_label(b->graph, step.node).text, changes ? "changes" : "reads", mp_storage_label(b->graph, s).text,
                  c == MP_CHANNEL_SECOND_STREAM ? "an update on the" : "a step of the channel", b->graph->channels[c], until);
    }
    return MP_OK;
}

static mp_status leave_all_alone(struct builder *b, int t, mp_step step, const mp_alternative *x)
{
    for (size_t i = 0; i < x->n_reads; i++) MP_CHECK(leave_alone(b, t, step, x->channel, x->reads[i], false));
    for (size_t i = 0; i < x->n_adds; i++) MP_CHECK(leave_alone(b, t, step, x->channel, x->adds[i], true));
    for (size_t i = 0; i < x->n_writes; i++) MP_CHECK(leave_alone(b, t, step, x->channel, x->writes[i], true));
    return MP_OK;
}

static bool is_held(const struct builder *b, int t, int s)
{
    bool held = false;
    for (size_t c = 0; b->holds && c < b->graph->n_channels; c++)
        held |= t < mp_larger(holds_of(b, s)[c].read_until, holds_of(b, s)[c].changed_until);
    return held;
}

/* Marks the storages of an issued step as in use, starting with the next step. */
static void hold(struct builder *b, int until, const mp_alternative *x)
{
    for (size_t i = 0; i < x->n_reads; i++) {
        struct hold *held = &holds_of(b, x->reads[i])[x->channel];
        held->read_until = mp_larger(held->read_until, until);
    }
    for (size_t i = 0; i < x->n_writes + x->n_adds; i++) {
        const int s = i < x->n_writes ? x->writes[i] : x->adds[i - x->n_writes];
        struct hold *held = &holds_of(b, s)[x->channel];
        held->changed_until = mp_larger(held->changed_until, until);
    }
}

static int compare_storages(const void *a, const void *b)
{
    int x = ((const mp_span *)a)->storage, y = ((const mp_span *)b)->storage;
    return x < y ? -1 : x > y;
}

/* Sorts the spans that begin in one step by storage. The sort must be stable. A carried gradient may have two spans that
 * begin in step 0, and the later one must stay last, because it is the live one. */
static void order_spans(struct builder *b, size_t from)
{
    mp_span *spans = b->timeline->spans;
    size_t n = b->timeline->n_spans;
    bool ordered = true;
    for (size_t k = from + 1; k < n; k++)
        if (spans[k].storage < spans[k - 1].storage) ordered = false;
    if (ordered) return;
    if (n - from > 32 && from > 0) { /* after step 0, a storage occurs at most once among the spans that begin in a step, so the
                                        sort need not be stable */
        qsort(spans + from, n - from, sizeof *spans, compare_storages);
    } else {
        for (size_t k = from + 1; k < n; k++) {
            mp_span span = spans[k];
            size_t j = k;
            for (; j > from && spans[j - 1].storage > span.storage; j--) spans[j] = spans[j - 1];
            spans[j] = span;
        }
    }
    for (size_t k = from; k < n; k++) b->states[spans[k].storage].span = (int)k;
}

static mp_status read_storage(struct builder *b, int t, int end, int node, int s)
{
    const mp_graph *graph = b->graph;
    struct state *state = &b->states[s];
    const bool is_static = state->span == ALWAYS_LIVE;
    if (is_static && !mp_waits_for_all(graph, s, node)) return MP_OK;
    int n_adders = graph->adders_start[s + 1] - graph->adders_start[s];
    if (state->added < n_adders && (state->begun || !graph->storages[s].carried))
        return MP_FAIL(b->err, MP_INVALID, "step %d: %s reads %s, to which only %d of %d nodes have added", t,
                       mp_node_label(graph, node).text, mp_storage_label(graph, s).text, state->added, n_adders);
    MP_ENSURE(is_static ? state->begun || graph->writer[s] < 0 : state->span != NOT_LIVE, b->err, MP_INVALID,
              "step %d: %s reads %s, which no earlier step has produced", t, mp_node_label(graph, node).text,
              mp_storage_label(graph, s).text);
    if (!is_static) live_until(b, s, end);
    return MP_OK;
}

static mp_status add_to_storage(struct builder *b, int t, int end, int node, int s)
{
    const mp_graph *graph = b->graph;
    struct state *state = &b->states[s];
    int first = graph->adders_start[s], n_adders = graph->adders_start[s + 1] - first;
    if (!graph->storages[s].any_sum_order && (state->added >= n_adders || graph->adders[first + state->added] != node))
        return MP_FAIL(b->err, MP_INVALID, "step %d: %s adds to %s out of order", t, mp_node_label(graph, node).text,
                       mp_storage_label(graph, s).text);
    state->added++;
    if (state->span == ALWAYS_LIVE) return MP_OK;
    /* the first contribution begins a new instance; the instance of a carried gradient from the previous training step ends
     * here */
    if (!state->begun) begin_instance(b, s, t);
    state->begun = true;
    live_until(b, s, end);
    return MP_OK;
}

static mp_status run_step(struct builder *b, const mp_step *steps, int t)
{
    const mp_step step = steps[t];
    const mp_alternative *alternative = &b->graph->nodes[step.node].alternatives[step.alternative];
    const int end = mp_step_end(steps, t);
    size_t begun = t ? b->timeline->n_spans : 0;
    if (b->holds) MP_CHECK(leave_all_alone(b, t, step, alternative));
    for (size_t i = 0; i < alternative->n_reads; i++) MP_CHECK(read_storage(b, t, end, step.node, alternative->reads[i]));
    for (size_t i = 0; i < alternative->n_adds; i++) MP_CHECK(add_to_storage(b, t, end, step.node, alternative->adds[i]));
    for (size_t i = 0; i < alternative->n_writes; i++) {
        struct state *state = &b->states[alternative->writes[i]];
        state->begun = true;
        if (state->span == ALWAYS_LIVE) continue;
        begin_instance(b, alternative->writes[i], t);
        live_until(b, alternative->writes[i], end);
    }
    order_spans(b, begun);
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        const struct state *from = &b->states[alternative->in_place[i].from], *to = &b->states[alternative->in_place[i].to];
        if (from->span < 0 || to->span < 0 || is_held(b, t, alternative->in_place[i].from)) continue;
        b->pairs[b->n_pairs++] = (struct pair){t, from->span, to->span};
    }
    if (end > t + 1) hold(b, step.until, alternative);
    return MP_OK;
}

static void resolve_in_place(struct builder *b)
{
    mp_span *spans = b->timeline->spans;
    for (size_t k = 0; k < b->n_pairs; k++) {
        struct pair p = b->pairs[k];
        const mp_in_place pair = {spans[p.from].storage, spans[p.to].storage};
        const bool applies = spans[p.from].end == p.step + 1 && spans[p.to].begin == p.step && mp_pair_fits(b->graph, pair);
        if (applies && mp_pair_take(pair, p.step + 1, b->used)) spans[p.to].takes_over = pair.from;
    }
}

/* Adds the workspace of each step from its issue to its end. At this point live_bytes[t] still contains the difference to
 * live_bytes[t - 1]. */
static void add_workspaces(struct builder *b, const mp_step *steps)
{
    mp_timeline *tl = b->timeline;
    for (int t = 0; t < (int)tl->n_steps; t++) {
        const int64_t bytes = b->graph->nodes[steps[t].node].alternatives[steps[t].alternative].workspace_bytes;
        const int end = mp_step_end(steps, t);
        tl->live_bytes[t] += bytes;
        tl->live_bytes[end] -= bytes;
        if (end == t + 1) continue;
        tl->concurrent_bytes[t + 1] += bytes;
        tl->concurrent_bytes[end] -= bytes;
    }
    for (size_t t = 0; tl->concurrent_bytes && t < tl->n_steps; t++) tl->concurrent_bytes[t + 1] += tl->concurrent_bytes[t];
}

/* Converts a tier's differences of live bytes between neighbouring steps to live bytes, and finds the peak. */
static void find_peak(mp_tier_use *use, size_t n)
{
    int64_t live = 0, highest = 0;
    use->peak_step = n ? 0 : -1;
    for (size_t t = 0; t < n; t++) {
        live += use->live_bytes[t];
        use->live_bytes[t] = live;
        if (live <= highest) continue;
        highest = live;
        use->peak_step = (int)t;
    }
    use->peak_bytes = use->static_bytes + highest;
}

/* Adds the bytes of a tier's instances to differences[0..n_steps], either for live bytes during steps or for live bytes
 * between steps. */
static void add_spans(const mp_graph *graph, const mp_timeline *tl, int tier, bool between, int64_t *differences)
{
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *span = &tl->spans[k];
        const mp_storage *storage = &graph->storages[span->storage];
        if (storage->tier != tier) continue;
        differences[between ? span->begin + 1 : mp_span_counts_from(span)] += storage->bytes;
        differences[span->end] -= storage->bytes;
    }
}

/* Converts differences to live bytes over time, in place. live_bytes has n_steps + 1 elements. */
static void add_up(struct builder *b, const mp_step *steps)
{
    mp_timeline *tl = b->timeline;
    add_workspaces(b, steps);
    for (size_t m = 0; m < tl->n_tiers; m++) {
        add_spans(b->graph, tl, (int)m, false, tl->tiers[m].live_bytes);
        tl->tiers[m].static_bytes = mp_graph_static_bytes_in(b->graph, (int)m);
        find_peak(&tl->tiers[m], tl->n_steps);
    }
    tl->static_bytes = tl->tiers[MP_TIER_DEVICE].static_bytes;
    tl->peak_bytes = tl->tiers[MP_TIER_DEVICE].peak_bytes;
    tl->peak_step = tl->tiers[MP_TIER_DEVICE].peak_step;
}

mp_status mp_timeline_build(const mp_graph *graph, const mp_step *steps, size_t n, mp_timeline **out, mp_error *err)
{
    size_t most_spans = 0, most_pairs = 0;
    int64_t workspace_bytes =
        0; /* the sum of all workspaces, because issued steps may be concurrent and their workspaces live at the same time */
    bool concurrent = false;
    MP_ENSURE(n < INT32_MAX, err, MP_INVALID, "%zu steps are too many", n);
    for (size_t t = 0; t < n; t++) {
        MP_ENSURE(steps[t].node >= 0 && (size_t)steps[t].node < graph->n_nodes, err, MP_INVALID,
                  "step %zu runs node number %d, which does not exist", t, steps[t].node);
        const mp_node *node = &graph->nodes[steps[t].node];
        MP_ENSURE(steps[t].alternative >= 0 && (size_t)steps[t].alternative < node->n_alternatives, err, MP_INVALID,
                  "step %zu: %s has no alternative %d", t, mp_node_label(graph, steps[t].node).text, steps[t].alternative);
        const int channel = node->alternatives[steps[t].alternative].channel;
        MP_ENSURE(!steps[t].until || channel != MP_CHANNEL_COMPUTE, err, MP_INVALID,
                  "step %zu: %s is on the compute channel, where steps cannot run concurrently", t,
                  mp_node_label(graph, steps[t].node).text);
        MP_ENSURE(!steps[t].until || (steps[t].until > (int)t && steps[t].until <= (int)n), err, MP_INVALID,
                  "step %zu: %s runs on the %s, but no later step waits for it", t, mp_node_label(graph, steps[t].node).text,
                  graph->channels[channel]);
        concurrent |= steps[t].until != 0;
        const int64_t issued = steps[t].until ? node->alternatives[steps[t].alternative].workspace_bytes : 0;
        MP_ENSURE(!__builtin_add_overflow(workspace_bytes, issued, &workspace_bytes) && workspace_bytes <= INT64_MAX / 4, err,
                  MP_INVALID, "step %zu: the concurrent steps need more bytes than can be counted", t);
        most_spans += node->alternatives[steps[t].alternative].n_writes + node->alternatives[steps[t].alternative].n_adds;
        most_pairs += node->alternatives[steps[t].alternative].n_in_place;
    }
    for (size_t s = 0; s < graph->n_storages; s++) most_spans += graph->storages[s].carried;
    MP_ENSURE(most_spans < INT32_MAX, err, MP_INVALID, "%zu steps are too many", n);

    MP_OWNED_BY(mp_timeline_free) mp_timeline *tl = mp_alloc(1, sizeof *tl);
    MP_OWNED struct state *states = mp_alloc(graph->n_storages, sizeof *states);
    MP_OWNED struct pair *pairs = mp_alloc(most_pairs, sizeof *pairs);
    MP_OWNED int *used = mp_alloc(graph->n_storages, sizeof *used);
    MP_ENSURE(tl && states && pairs && used, err, MP_NOMEM, "no memory for a timeline of %zu steps", n);
    struct builder b = {.graph = graph, .timeline = tl, .states = states, .pairs = pairs, .used = used, .err = err};
    tl->n_tiers = graph->n_tiers;
    tl->tiers = mp_alloc(tl->n_tiers, sizeof *tl->tiers);
    bool enough = tl->tiers != NULL;
    for (size_t m = 0; enough && m < tl->n_tiers; m++)
        enough = (tl->tiers[m].live_bytes = mp_alloc(n + 1, sizeof *tl->tiers[m].live_bytes)) != NULL;
    tl->live_bytes = enough ? tl->tiers[MP_TIER_DEVICE].live_bytes : NULL;
    MP_OWNED struct hold *holds = concurrent ? mp_alloc(graph->n_storages * graph->n_channels, sizeof *holds) : NULL;
    tl->concurrent_bytes = concurrent ? mp_alloc(n + 1, sizeof *tl->concurrent_bytes) : NULL;
    tl->spans = mp_alloc(most_spans, sizeof *tl->spans);
    MP_ENSURE(enough && (!concurrent || (tl->concurrent_bytes && holds)) && tl->spans, err, MP_NOMEM,
              "no memory for a timeline of %zu steps", n);
    tl->n_steps = n;
    b.holds = holds;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        b.states[s].span = mp_storage_is_static(storage) ? ALWAYS_LIVE : NOT_LIVE;
        if (storage->carried && n) begin_instance(&b, s, 0);
    }
    for (size_t t = 0; t < n; t++) MP_CHECK(run_step(&b, steps, (int)t));
    for (int s = 0; s < (int)graph->n_storages; s++)
        if (graph->storages[s].carried && b.states[s].begun) tl->spans[b.states[s].span].end = (int)n;
    resolve_in_place(&b);
    add_up(&b, steps);
    MP_CHECK(mp_makespan(graph, steps, n, NULL, &tl->ticks, err));
    *out = tl;
    tl = NULL;
    return MP_OK;
}

void mp_timeline_free(mp_timeline *timeline)
{
    if (!timeline) return;
    for (size_t m = 0; timeline->tiers && m < timeline->n_tiers; m++) mp_free(timeline->tiers[m].live_bytes);
    mp_free(timeline->tiers);
    mp_free(timeline->concurrent_bytes);
    mp_free(timeline->spans);
    mp_free(timeline);
}

size_t mp_timeline_holders(const mp_graph *graph, const mp_timeline *timeline, int step, int *spans, size_t most)
{
    size_t n = 0;
    for (size_t k = 0; k < timeline->n_spans && timeline->spans[k].begin <= step; k++) {
        const mp_span *span = &timeline->spans[k];
        if (graph->storages[span->storage].tier != MP_TIER_DEVICE) continue;
        if (span->end <= step || step < mp_span_counts_from(span)) continue;
        size_t j =
            n < most ? n : most; /* spans[0..j) are sorted by size; if this list is full, its smallest instance is removed */
        for (; j > 0; j--) {
            const mp_span *other = &timeline->spans[spans[j - 1]];
            int64_t bytes = graph->storages[span->storage].bytes, theirs = graph->storages[other->storage].bytes;
            if (theirs > bytes || (theirs == bytes && other->storage < span->storage)) break;
            if (j < most) spans[j] = spans[j - 1];
        }
        if (j < most) spans[j] = (int)k;
        n++;
    }
    return n;
}

void mp_timeline_between(const mp_graph *graph, const mp_timeline *timeline, int64_t *between_bytes)
{
    int64_t live = timeline->static_bytes;
    for (size_t t = 0; t <= timeline->n_steps; t++) between_bytes[t] = 0;
    add_spans(graph, timeline, MP_TIER_DEVICE, true, between_bytes);
    for (size_t t = 0; t <= timeline->n_steps; t++) between_bytes[t] = live += between_bytes[t];
    for (size_t t = 0; timeline->concurrent_bytes && t < timeline->n_steps; t++)
        between_bytes[t] += timeline->concurrent_bytes[t];
}

/* Issues the collectives of keep-all, so that they run beside compute. Each is issued at its position in the list, and the
 * first step that needs its result waits for it. Copies are already issued. */
static void issue_beside(const mp_graph *graph, mp_step *steps, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        const int node = steps[t].node, awaiter = graph->awaiter[node];
        const bool is_beside = graph->nodes[node].alternatives[0].channel > MP_CHANNEL_SECOND_STREAM;
        if (!is_beside || mp_copy_way_of(graph, node, 0) != MP_COPY_NONE) continue;
        size_t until = t + 1;
        while (until < n && steps[until].node != awaiter) until++;
        if (until > t + 1) mp_steps_issue(steps, (int)t, (int)t + 1, (int)until);
    }
}

size_t mp_keep_all(const mp_graph *graph, mp_step *steps)
{
    const size_t n_copies = mp_graph_n_state_copies(graph), n_listed = graph->n_nodes - n_copies;
    const int end = n_copies ? (int)mp_graph_n_required(graph) : 0;
    size_t n = 0, n_awaited = 0;
    for (size_t i = 0; n_copies && i < n_listed; i++) n += mp_state_copies_of(graph, (int)i, true, &steps[n]);
    for (int round = 0; round < 2; round++) {
        const bool updates = (round == 1) == mp_update_order_of(graph).after_readers;
        for (size_t i = 0; i < n_listed; i++) {
            if ((graph->nodes[i].phase == MP_PHASE_UPDATE) != updates || graph->nodes[i].flags & MP_NODE_OPTIONAL) continue;
            const size_t n_in = updates && n_copies ? mp_state_copies_of(graph, (int)i, true, &steps[n]) : 0;
            mp_steps_issue(steps, (int)n_awaited, (int)(n_awaited + n_in), (int)n);
            n_awaited += n_in;
            steps[n++] = (mp_step){.node = (int)i};
            const size_t n_out = n_in ? mp_state_copies_of(graph, (int)i, false, &steps[n]) : 0;
            mp_steps_issue(steps, (int)n, (int)(n + n_out), end);
            n += n_out;
        }
    }
    if (graph->awaiter) issue_beside(graph, steps, n);
    return n;
}
