/* arena_items.c - lists the items of a plan. Instances that share an offset form one item. Each workspace is an item. */
#include "planner/arena/arena.h"

#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"

static void join(mp_arena_items *g, int a, int b)
{
    const int after = g->next[a];
    g->next[a] = g->next[b];
    g->next[b] = after;
    if (g->outlives[a] == g->outlives[b]) return;
    for (int k = g->next[a]; k != a; k = g->next[k]) g->outlives[k] = true;
    g->outlives[a] = true;
}

/* A ring is a list of spans that share one offset. Returns true if the rings of spans `from` and `to` may be joined to one
 * ring. Apart from the pair `from` and `to`, no span of one ring may be live at the same time as a span of the other. If no
 * storage of the rings is live beyond the end of the step, one ring must end before the other begins. */
static bool may_join(const mp_arena_items *g, int from, int to)
{
    int a = from, b = to;
    if (!g->outlives[from] && !g->outlives[to]) return true;
    do {
        if (a == to) return false;
        do {
            const mp_span *u = &g->timeline->spans[a], *v = &g->timeline->spans[b];
            if (u->begin < v->end && v->begin < u->end && (a != from || b != to)) return false;
        } while ((b = g->next[b]) != to);
    } while ((a = g->next[a]) != from);
    return true;
}

/* Joins spans that share an offset in rings. The two spans of a carried gradient must share an offset, because its bytes do not
 * move between training steps. An output may share the offset of the input whose memory it takes over. */
static void make_rings(mp_arena_items *g, int *newest)
{
    const mp_timeline *tl = g->timeline;
    for (size_t s = 0; s < g->graph->n_storages; s++) newest[s] = -1;
    for (int k = 0; k < (int)tl->n_spans; k++) {
        const int s = tl->spans[k].storage;
        g->next[k] = k;
        g->outlives[k] = mp_storage_outlives_step(&g->graph->storages[s]);
        if (g->outlives[k] && newest[s] >= 0) join(g, newest[s], k);
        newest[s] = k;
    }
    for (size_t s = 0; s < g->graph->n_storages; s++) newest[s] = -1;
    for (int k = 0, done = 0; k < (int)tl->n_spans; k++) {
        const mp_span *span = &tl->spans[k];
        const int from = span->takes_over < 0 ? -1 : newest[span->takes_over];
        if (from >= 0 && may_join(g, from, k)) join(g, from, k);
        /* spans that begin in the same step are added later, because none of them can be the input whose memory an output takes
         * over */
        if (k + 1 < (int)tl->n_spans && tl->spans[k + 1].begin == span->begin) continue;
        for (; done <= k; done++) newest[tl->spans[done].storage] = done;
    }
}

/* Appends a piece to the last item of the list. If the piece begins before the item's last piece ends, its begin is moved to
 * that end. */
static void add_piece(mp_arena_item *item, mp_pack_piece *pieces, mp_pack_piece piece)
{
    mp_pack_piece *before = item->n_pieces ? &pieces[item->piece + item->n_pieces - 1] : NULL;
    if (piece.size > item->size) item->size = piece.size;
    if (before && piece.begin < before->end) piece.begin = before->end;
    if (piece.begin >= piece.end) return;
    if (before && before->end == piece.begin && before->size == piece.size)
        before->end = piece.end;
    else
        pieces[item->piece + item->n_pieces++] = piece;
    if (item->n_pieces == 1) item->begin = (int)pieces[item->piece].begin;
    item->end = (int)piece.end;
}

/* bytes_of returns the bytes of a storage in this arena, workspace_of the bytes of a node's workspace. Both return 0 if the
 * memory is in another tier. */
static int64_t bytes_of(const mp_arena_items *g, int storage)
{
    return g->graph->storages[storage].tier == g->tier ? g->graph->storages[storage].bytes : 0;
}

static int64_t workspace_of(const mp_arena_items *g, const mp_plan *plan, int t)
{
    const mp_node *node = &g->graph->nodes[plan->steps[t].node];
    return g->tier == MP_TIER_DEVICE ? node->alternatives[plan->steps[t].alternative].workspace_bytes : 0;
}

/* Converts bytes to multiples of the alignment. `node` is the first node that needs these bytes, for the error message. */
static mp_status count_units(const mp_arena_items *g, int64_t bytes, int node, int64_t *units, mp_error *err)
{
    int64_t rounded;
    if (!mp_round_up(bytes, g->alignment, &rounded))
        return MP_FAIL(err, MP_INVALID, "%lld bytes of %s are too many for an arena", (long long)bytes,
                       mp_node_label(g->graph, node).text);
    *units = rounded / g->alignment;
    return MP_OK;
}

/* Numbers the rings in the order of their first spans. Rings of 0 bytes get no number. Returns the number of rings. */
static size_t number_rings(mp_arena_items *g)
{
    size_t n = 0;
    const int n_spans = (int)g->timeline->n_spans;
    for (int k = 0; k < n_spans; k++) g->item[k] = -1;
    for (int k = 0; k < n_spans; k++) { /* either all spans of a ring have 0 bytes, or none has */
        if (g->item[k] >= 0 || !bytes_of(g, g->timeline->spans[k].storage)) continue;
        const int number = (int)n++;
        for (int at = k; g->item[at] < 0; at = g->next[at]) g->item[at] = number;
    }
    return n;
}

/* Builds the pieces of every ring, one ring after the other. The pieces of a ring are sorted by time, like its spans. */
static mp_status make_items(const mp_arena_items *g, const mp_step *steps, int *ordered, int *start, mp_arena_problem *x,
                            mp_pack_piece *pieces, mp_error *err)
{
    const int n_spans = (int)g->timeline->n_spans;
    int64_t units = 0;
    for (int k = 0; k < n_spans; k++)
        if (g->item[k] >= 0) start[g->item[k] + 1]++;
    for (size_t i = 0; i < x->n; i++) start[i + 1] += start[i];
    for (int k = 0; k < n_spans; k++)
        if (g->item[k] >= 0)
            ordered[start[g->item[k]]++] =
                k; /* each entry advances start[i], so start[i] is finally the end of item i's entries in `ordered` */
    for (int i = 0, j = 0; i < (int)x->n; i++) {
        mp_arena_item *item = &x->items[i];
        *item = (mp_arena_item){.piece = (int)x->n_pieces};
        for (; j < start[i]; j++) {
            const mp_span *span = &g->timeline->spans[ordered[j]];
            MP_CHECK(count_units(g, bytes_of(g, span->storage), steps[span->begin].node, &units, err));
            if (units) add_piece(item, pieces, (mp_pack_piece){span->begin, span->end, units});
        }
        x->n_pieces += (size_t)item->n_pieces;
    }
    return MP_OK;
}

static mp_status add_workspaces(const mp_arena_items *g, const mp_plan *plan, mp_arena_problem *x, mp_pack_piece *pieces,
                                mp_error *err)
{
    int64_t units = 0, total = 0;
    size_t largest = 0;
    for (int t = 0; t < (int)plan->n_steps; t++) {
        MP_CHECK(count_units(g, workspace_of(g, plan, t), plan->steps[t].node, &units, err));
        if (!units) continue;
        const int end = mp_step_end(plan->steps, t);
        x->items[x->n++] = (mp_arena_item){.size = units, .begin = t, .end = end, .piece = (int)x->n_pieces, .n_pieces = 1};
        pieces[x->n_pieces++] = (mp_pack_piece){t, end, units};
    }
    for (size_t k = 0; k < x->n; k++) {
        if (x->items[k].size > x->items[largest].size) largest = k;
        if (!mp_add(total, x->items[k].size, &total) || total > INT64_MAX / 2 / g->alignment)
            MP_CHECK(MP_FAIL(err, MP_INVALID, "the steps need more bytes than can be counted, most of them from %s on",
                             mp_node_label(g->graph, plan->steps[x->items[largest].begin].node).text));
    }
    return MP_OK;
}

static mp_status gather(mp_arena_items *g, const mp_plan *plan, mp_arena_problem *x, mp_error *err)
{
    const mp_graph *graph = g->graph;
    MP_CHECK(mp_timeline_build(graph, plan->steps, plan->n_steps, &g->timeline, err));
    const mp_timeline *tl = g->timeline;
    const size_t n = tl->n_spans + tl->n_steps;
    g->pool = mp_pool_new();
    g->item = mp_pool_alloc(g->pool, tl->n_spans, sizeof *g->item);
    g->next = mp_pool_alloc(g->pool, tl->n_spans, sizeof *g->next);
    g->outlives = mp_pool_alloc(g->pool, tl->n_spans, sizeof *g->outlives);
    int *newest = mp_pool_alloc(g->pool, graph->n_storages, sizeof *newest);
    int *ordered = mp_pool_alloc(g->pool, tl->n_spans, sizeof *ordered);
    int *start = mp_pool_alloc(g->pool, tl->n_spans + 1, sizeof *start);
    x->items = mp_pool_alloc(g->pool, n, sizeof *x->items);
    mp_pack_piece *pieces = mp_pool_alloc(g->pool, n, sizeof *pieces);
    MP_ENSURE(!mp_pool_failed(g->pool), err, MP_NOMEM, "no memory for the arena of %zu instances", n);
    make_rings(g, newest);
    g->n_rings = x->n = number_rings(g);
    x->pieces = pieces;
    x->n_steps = tl->n_steps;
    x->beside = tl->tiers[g->tier].static_bytes / g->alignment;
    MP_CHECK(make_items(g, plan->steps, ordered, start, x, pieces, err));
    return add_workspaces(g, plan, x, pieces, err);
}

mp_status mp_arena_items_of(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_arena_items *out,
                            mp_arena_problem *problem, mp_error *err)
{
    *out = (mp_arena_items){.graph = graph, .tier = tier, .alignment = alignment};
    return gather(out, plan, problem, err);
}

void mp_arena_items_clear(mp_arena_items *items)
{
    mp_timeline_free(items->timeline);
    mp_pool_free(items->pool);
    *items = (mp_arena_items){0};
}

mp_status mp_arena_items_place(const mp_arena_items *g, const mp_plan *plan, const mp_arena_item *items, mp_tier_layout *out,
                               mp_error *err)
{
    const mp_timeline *tl = g->timeline;
    size_t n = 0, next = g->n_rings;
    mp_place *places = mp_alloc(tl->n_spans + tl->n_steps, sizeof *places);
    MP_ENSURE(places, err, MP_NOMEM, "no memory for %zu offsets", tl->n_spans);
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *s = &tl->spans[k];
        const int64_t bytes = bytes_of(g, s->storage);
        /* A carried gradient may be produced again in step 0. It then has two spans that begin at step 0. Only the second,
         * longer span gets a place. */
        const bool again = k + 1 < tl->n_spans && s[1].storage == s->storage && s[1].begin == s->begin;
        if (!bytes || again) continue;
        places[n++] = (mp_place){s->storage, s->begin, s->end, items[g->item[k]].offset * g->alignment, bytes};
    }
    for (int t = 0; t < (int)tl->n_steps; t++) {
        const int64_t bytes = workspace_of(g, plan, t);
        if (bytes) places[n++] = (mp_place){-1, t, mp_step_end(plan->steps, t), items[next++].offset * g->alignment, bytes};
    }
    int64_t height = 0;
    for (size_t k = 0; k < n; k++)
        if (places[k].offset + places[k].bytes > height) height = places[k].offset + places[k].bytes;
    *out = (mp_tier_layout){places, n, height};
    return MP_OK;
}
