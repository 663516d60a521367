/* bound_channels.c - treats each channel other than compute as a machine. For each node on the channel, adds up the ticks of
 * compute that must run before the node (head) and after it (tail). The best preemptive schedule of the machine bounds the
 * makespan. */
#include "planner/bound/bound.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"

/* A job of the one-machine problem: the first run of a node on a channel other than compute. */
typedef struct job {
    int node, channel;
    int64_t head, ticks, tail;
} job;

typedef struct channels {
    const mp_precedence *order;
    job *jobs;
    size_t n;
    bool *waits;   /* per storage: the current job writes or changes it, so later users of the storage must wait for the job */
    bool *is_read; /* per storage: the current job reads it */
    int *behind;   /* the compute nodes that begin after the end of the current job in every plan */
} channels;

/* Returns the least ticks for which the first run of a node occupies the compute channel. */
static int64_t of_compute(const channels *x, int node)
{
    const mp_node *n = &x->order->graph->nodes[node];
    int64_t least = INT64_MAX;
    if (n->flags & MP_NODE_OPTIONAL) return 0;
    for (size_t k = 0; k < n->n_alternatives; k++) {
        const mp_alternative *a = &n->alternatives[k];
        const int64_t ticks = a->channel <= MP_CHANNEL_SECOND_STREAM ? a->ticks : 0;
        if (ticks < least) least = ticks;
    }
    return least;
}

static bool any(const bool *marks, const int *list, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (marks[list[k]]) return true;
    return false;
}

/* True if a compute node must wait for the current job, whichever alternative it runs. It waits if it uses an output of the job
 * or changes an input of the job. */
static bool waits_for(const channels *x, int node)
{
    const mp_node *n = &x->order->graph->nodes[node];
    for (size_t k = 0; k < n->n_alternatives; k++) {
        const mp_alternative *a = &n->alternatives[k];
        const bool uses = any(x->waits, a->reads, a->n_reads) || any(x->waits, a->writes, a->n_writes) ||
                          any(x->waits, a->adds, a->n_adds),
                   changes = any(x->is_read, a->writes, a->n_writes) || any(x->is_read, a->adds, a->n_adds);
        if (a->channel > MP_CHANNEL_SECOND_STREAM || !(uses || changes)) return false;
    }
    return true;
}

static void mark(const channels *x, const job *j, bool value)
{
    const mp_alternative *a = x->order->graph->nodes[j->node].alternatives;
    for (size_t k = 0; k < a->n_reads; k++) x->is_read[a->reads[k]] = value;
    for (size_t k = 0; k < a->n_writes; k++) x->waits[a->writes[k]] = value;
    for (size_t k = 0; k < a->n_adds; k++) x->waits[a->adds[k]] = value;
}

/* Sets head and tail of a job: the compute ticks that run before its begin and after its end in every plan. */
static void measure(const channels *x, job *j)
{
    const mp_precedence *o = x->order;
    const int n_nodes = (int)o->graph->n_nodes;
    int n = 0;
    mark(x, j, true);
    for (int v = 0; v < n_nodes; v++) {
        if (mp_precedes(o, v, j->node)) j->head += of_compute(x, v);
        if (mp_precedes(o, j->node, v) && waits_for(x, v)) x->behind[n++] = v;
    }
    /* adds the compute ticks of the nodes in `behind` and of all their successors to the tail */
    for (int v = 0; v < n_nodes; v++) {
        bool is_behind = false;
        for (int k = 0; k < n && !is_behind; k++) is_behind = x->behind[k] == v || mp_precedes(o, x->behind[k], v);
        if (is_behind) j->tail += of_compute(x, v);
    }
    mark(x, j, false);
}

/* Lists the nodes that run on a channel other than compute in all of their alternatives. */
static void list_jobs(channels *x)
{
    const mp_graph *graph = x->order->graph;
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        const int channel = node->alternatives[0].channel;
        int64_t least = INT64_MAX;
        bool is_alike = channel > MP_CHANNEL_SECOND_STREAM && !(node->flags & MP_NODE_OPTIONAL);
        for (size_t k = 0; k < node->n_alternatives; k++) {
            is_alike &= node->alternatives[k].channel == channel;
            if (node->alternatives[k].ticks < least) least = node->alternatives[k].ticks;
        }
        if (is_alike) x->jobs[x->n++] = (job){.node = v, .channel = channel, .ticks = least};
    }
}

static int by_head(const void *a, const void *b)
{
    const job *x = a, *y = b;
    if (x->channel != y->channel) return x->channel - y->channel;
    return x->head != y->head ? (x->head > y->head) - (x->head < y->head) : x->node - y->node;
}

/* Simulates the jobs of one channel, which are sorted by head. A job may start once its head has passed. At any time the job
 * with the longest tail runs, and interrupts a job with a shorter tail. Returns the largest sum of a job's end and tail. */
static int64_t preemptive(job *jobs, size_t n)
{
    int64_t clock = 0, latest = 0;
    size_t released = 0;
    for (;;) {
        job *next = NULL;
        while (released < n && jobs[released].head <= clock) released++;
        for (size_t k = 0; k < released; k++)
            if (jobs[k].ticks && (!next || jobs[k].tail > next->tail)) next = &jobs[k];
        if (!next && released == n) return latest;
        if (!next) {
            clock = jobs[released].head;
            continue;
        }
        const bool is_cut = released < n && jobs[released].head < clock + next->ticks;
        const int64_t runs = is_cut ? jobs[released].head - clock : next->ticks;
        clock += runs;
        next->ticks -= runs;
        if (!next->ticks && clock + next->tail > latest) latest = clock + next->tail;
    }
}

mp_status mp_bound_channels(const mp_precedence *order, int64_t *ticks, mp_error *err)
{
    const mp_graph *graph = order->graph;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    channels x = {.order = order};
    *ticks = 0;
    if (graph->n_channels <= 2 || graph->n_tiers > 1 || order->only_vertex >= 0) return MP_OK;
    x.jobs = mp_pool_alloc(pool, graph->n_nodes, sizeof *x.jobs);
    x.waits = mp_pool_alloc(pool, graph->n_storages, sizeof *x.waits);
    x.is_read = mp_pool_alloc(pool, graph->n_storages, sizeof *x.is_read);
    x.behind = mp_pool_alloc(pool, graph->n_nodes, sizeof *x.behind);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a bound of %d nodes", order->n);
    list_jobs(&x);
    for (size_t k = 0; k < x.n; k++) measure(&x, &x.jobs[k]);
    qsort(x.jobs, x.n, sizeof *x.jobs, by_head);
    for (size_t first = 0, end; first < x.n; first = end) {
        for (end = first; end < x.n && x.jobs[end].channel == x.jobs[first].channel;) end++;
        const int64_t found = preemptive(x.jobs + first, end - first);
        if (found > *ticks) *ticks = found;
    }
    return MP_OK;
}
