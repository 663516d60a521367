/* mincut.c - minimum cut by the first phase of the push-relabel algorithm. The maximum preflow of this phase already determines
 * the minimum cut. So the second phase, which returns excess to the source, is omitted. */
#include "planner/math/mincut.h"

#include <string.h>

struct mp_mincut_work {
    /* an arc consists of two half-arcs, one per direction; per vertex: the half-arcs that leave it are start[v] .. start[v +
     * 1) */
    int *start;
    /* per half-arc. head: the vertex to which it leads. mate: the opposite half-arc of the same arc */
    int *head, *mate;
    int *forward;                 /* per arc: its half-arc that has the direction of the arc */
    int64_t *left;                /* per half-arc: its residual capacity */
    int64_t *excess, *drain_left; /* per vertex. excess: its excess. drain_left: the residual capacity of its arc to the sink */
    /* per vertex. height: its distance to the sink, n + 1 if the sink is unreachable. next: the half-arc that is tried next */
    int *height, *next;
    /* per height up to n: the first vertex of the list of all vertices with this height; -1: the list is empty */
    int *level;
    /* per vertex, in the list of vertices with its height. after: the next vertex. before: the previous vertex. -1: none */
    int *after, *before;
    int *queue; /* ring buffer with the active vertices; it has space for n */
    bool *queued;
    int first, n_queued, n_relabels;
    int highest; /* the largest height of any vertex that can still reach the sink */
};

mp_status mp_mincut_new(int n, const int *from, const int *to, size_t n_arcs, mp_mincut **out, mp_error *err)
{
    const size_t vertices = (size_t)n;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_mincut *cut = mp_pool_alloc(pool, 1, sizeof *cut);
    struct mp_mincut_work *w = mp_pool_alloc(pool, 1, sizeof *w);
    MP_ENSURE(cut && w, err, MP_NOMEM, "no memory for a cut of %d vertices", n);
    cut->pool = pool;
    cut->work = w;
    cut->n = n;
    cut->n_arcs = n_arcs;
    cut->capacity = mp_pool_alloc(pool, n_arcs, sizeof *cut->capacity);
    cut->supply = mp_pool_alloc(pool, vertices, sizeof *cut->supply);
    cut->drain = mp_pool_alloc(pool, vertices, sizeof *cut->drain);
    cut->source_side = mp_pool_alloc(pool, vertices, sizeof *cut->source_side);
    w->start = mp_pool_alloc(pool, vertices + 2, sizeof *w->start);
    w->head = mp_pool_alloc(pool, 2 * n_arcs, sizeof *w->head);
    w->mate = mp_pool_alloc(pool, 2 * n_arcs, sizeof *w->mate);
    w->forward = mp_pool_alloc(pool, n_arcs, sizeof *w->forward);
    w->left = mp_pool_alloc(pool, 2 * n_arcs, sizeof *w->left);
    w->excess = mp_pool_alloc(pool, vertices, sizeof *w->excess);
    w->drain_left = mp_pool_alloc(pool, vertices, sizeof *w->drain_left);
    w->height = mp_pool_alloc(pool, vertices, sizeof *w->height);
    w->next = mp_pool_alloc(pool, vertices, sizeof *w->next);
    w->level = mp_pool_alloc(pool, vertices + 1, sizeof *w->level);
    w->after = mp_pool_alloc(pool, vertices, sizeof *w->after);
    w->before = mp_pool_alloc(pool, vertices, sizeof *w->before);
    w->queue = mp_pool_alloc(pool, vertices, sizeof *w->queue);
    w->queued = mp_pool_alloc(pool, vertices, sizeof *w->queued);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a cut of %d vertices", n);
    for (size_t k = 0; k < n_arcs; k++) {
        w->start[from[k] + 2]++;
        w->start[to[k] + 2]++;
    }
    for (int v = 0; v < n; v++) w->start[v + 2] += w->start[v + 1];
    for (size_t k = 0; k < n_arcs; k++) {
        int a = w->start[from[k] + 1]++, b = w->start[to[k] + 1]++;
        w->head[a] = to[k];
        w->head[b] = from[k];
        w->mate[a] = b;
        w->mate[b] = a;
        w->forward[k] = a;
    }
    *out = cut;
    pool = NULL;
    return MP_OK;
}

void mp_mincut_free(mp_mincut *cut)
{
    if (cut) mp_pool_free(cut->pool);
}

/* Inserts a vertex into the list of its height, unless it cannot reach the sink. */
static void enter_level(mp_mincut *cut, int v)
{
    struct mp_mincut_work *w = cut->work;
    const int height = w->height[v];
    if (height > cut->n) return;
    if (height > w->highest) w->highest = height;
    w->before[v] = -1;
    w->after[v] = w->level[height];
    if (w->after[v] >= 0) w->before[w->after[v]] = v;
    w->level[height] = v;
}

static void leave_level(mp_mincut *cut, int v)
{
    struct mp_mincut_work *w = cut->work;
    if (w->after[v] >= 0) w->before[w->after[v]] = w->before[v];
    if (w->before[v] >= 0)
        w->after[w->before[v]] = w->after[v];
    else
        w->level[w->height[v]] = w->after[v];
}

/* Global relabelling: sets the height of every vertex to its exact distance from the sink, by a breadth-first search along
 * residual arcs. Then refills the queue of active vertices. */
static void measure_heights(mp_mincut *cut)
{
    struct mp_mincut_work *w = cut->work;
    int n = 0;
    for (int v = 0; v < cut->n; v++) {
        w->height[v] = w->drain_left[v] ? 1 : cut->n + 1;
        if (w->drain_left[v]) w->queue[n++] = v;
    }
    for (int i = 0; i < n; i++) {
        int v = w->queue[i];
        for (int a = w->start[v]; a < w->start[v + 1]; a++) {
            int u = w->head[a];
            if (w->height[u] <= cut->n || !w->left[w->mate[a]]) continue;
            w->height[u] = w->height[v] + 1;
            w->queue[n++] = u;
        }
    }
    w->first = w->n_queued = w->n_relabels = w->highest = 0;
    for (int height = 0; height <= cut->n; height++) w->level[height] = -1;
    for (int v = 0; v < cut->n; v++) {
        enter_level(cut, v);
        w->next[v] = w->start[v];
        w->queued[v] = w->excess[v] > 0 && w->height[v] <= cut->n;
        if (w->queued[v]) w->queue[w->n_queued++] = v;
    }
}

static void push(mp_mincut *cut, int v, int a)
{
    struct mp_mincut_work *w = cut->work;
    int u = w->head[a];
    int64_t flow = w->excess[v] < w->left[a] ? w->excess[v] : w->left[a];
    w->left[a] -= flow;
    w->left[w->mate[a]] += flow;
    w->excess[v] -= flow;
    w->excess[u] += flow;
    if (w->queued[u]) return;
    w->queued[u] = true;
    w->queue[(w->first + w->n_queued++) % cut->n] = u;
}

/* Raises the height of v to one above its lowest residual neighbour. If no other vertex has the old height of v (a gap), no
 * vertex above this height can reach the sink any more. */
static void relabel(mp_mincut *cut, int v)
{
    struct mp_mincut_work *w = cut->work;
    int height = w->drain_left[v] ? 1 : cut->n + 1, old = w->height[v];
    for (int a = w->start[v]; a < w->start[v + 1]; a++)
        if (w->left[a] && w->height[w->head[a]] + 1 < height) height = w->height[w->head[a]] + 1;
    leave_level(cut, v);
    w->height[v] = height;
    enter_level(cut, v);
    w->next[v] = w->start[v];
    w->n_relabels++;
    if (w->level[old] >= 0) return;
    for (int above = old + 1; above <= w->highest; above++) {
        for (int u = w->level[above]; u >= 0; u = w->after[u]) w->height[u] = cut->n + 1;
        w->level[above] = -1;
    }
    w->highest = old;
}

static void discharge(mp_mincut *cut, int v)
{
    struct mp_mincut_work *w = cut->work;
    while (w->excess[v] && w->height[v] <= cut->n) {
        if (w->height[v] == 1 && w->drain_left[v]) {
            int64_t flow = w->excess[v] < w->drain_left[v] ? w->excess[v] : w->drain_left[v];
            w->drain_left[v] -= flow;
            w->excess[v] -= flow;
            continue;
        }
        int a = w->next[v];
        if (a == w->start[v + 1])
            relabel(cut, v);
        else if (w->left[a] && w->height[v] == w->height[w->head[a]] + 1)
            push(cut, v, a);
        else
            w->next[v]++;
    }
}

int64_t mp_mincut_run(mp_mincut *cut)
{
    struct mp_mincut_work *w = cut->work;
    int64_t value = 0;
    memset(w->left, 0, 2 * cut->n_arcs * sizeof *w->left);
    for (size_t k = 0; k < cut->n_arcs; k++) w->left[w->forward[k]] = cut->capacity[k];
    for (int v = 0; v < cut->n; v++) {
        w->excess[v] = cut->supply[v];
        w->drain_left[v] = cut->drain[v];
    }
    measure_heights(cut);
    while (w->n_queued) {
        int v = w->queue[w->first];
        w->first = (w->first + 1) % cut->n;
        w->n_queued--;
        w->queued[v] = false;
        discharge(cut, v);
        if (w->n_relabels > cut->n) measure_heights(cut);
    }
    measure_heights(cut);
    for (int v = 0; v < cut->n; v++) {
        value += cut->drain[v] - w->drain_left[v];
        cut->source_side[v] = w->height[v] > cut->n;
    }
    return value;
}
