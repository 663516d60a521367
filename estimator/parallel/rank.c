/* rank.c - one rank of a pipeline: the size of its stash for other micro-batches in flight, and the seconds that each
 * micro-batch keeps it busy. */
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/base/memory.h"
#include "estimator/graph/collective.h"
#include "estimator/graph/liveness.h"
#include "estimator/parallel/pipeline_flow.h"
#include "memplan/makespan.h"
#include "memplan/ranks/rank.h"

void mp_rank_free(mp_rank *rank)
{
    mp_graph_free(rank->graph);
    mp_free(rank->chunk);
    mp_free(rank->batch_bytes);
    mp_free(rank->held_bytes);
    mp_free(rank->whole_node);
    mp_free(rank->whole_storage);
    *rank = (mp_rank){0};
}

/* ---- stash ---- */

mp_status mp_rank_turn_around(const mp_graph *graph, const mp_step *steps, size_t n, size_t *at, mp_error *err)
{
    MP_OWNED bool *has_run = mp_alloc(graph->n_nodes, sizeof *has_run);
    if (!has_run) return MP_NO_MEMORY(err);
    *at = 0;
    for (size_t t = 0; t < n; t++) {
        const int v = steps[t].node;
        if (graph->nodes[v].phase == MP_PHASE_UPDATE) continue;
        if (graph->nodes[v].phase != MP_PHASE_FORWARD) break;
        if (!has_run[v]) *at = t + 1;
        has_run[v] = true;
    }
    return MP_OK;
}

/* Returns the chunk to which a storage belongs; -1: it holds no data of a micro-batch. */
static int chunk_of_storage(const mp_rank *rank, int s)
{
    return (size_t)s < rank->n_storages ? rank->chunk[s] : -1;
}

/* Adds the bytes of the storages in a list to the sums of their chunks. `seen` marks storages that were already added. */
static void keep(const mp_rank *rank, const int *list, size_t n, bool *seen, int64_t *bytes)
{
    for (size_t k = 0; k < n; k++) {
        const int s = list[k], chunk = chunk_of_storage(rank, s);
        if (!seen[s] && chunk >= 0) bytes[chunk] += rank->graph->storages[s].bytes;
        seen[s] = true;
    }
}

/* Adds up, per chunk, the bytes that are live before step `at`. A storage is live if it is read from `at` on before it is
 * written again, or if a copy that is still running uses it. */
static void add_live(const mp_rank *rank, const mp_step *steps, size_t n, size_t at, bool *seen, int64_t *bytes)
{
    memset(seen, 0, rank->graph->n_storages * sizeof *seen);
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *a = &rank->graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        if (t < at && (size_t)mp_step_end(steps, (int)t) <= at) continue;
        keep(rank, a->reads, a->n_reads, seen, bytes);
        if (t < at) keep(rank, a->writes, a->n_writes, seen, bytes);
        for (size_t k = 0; k < a->n_writes; k++) seen[a->writes[k]] = true;
        for (size_t k = 0; k < a->n_adds; k++) seen[a->adds[k]] = true;
    }
}

/* Returns the step after which the remaining backward nodes of a micro-batch are postponed (the weight gradients); n: the
 * schedule postpones none. */
static size_t turn_of(const mp_rank *rank, const mp_step *steps, size_t n)
{
    for (size_t t = 0; t < n && rank->turn >= 0; t++) {
        const mp_alternative *a = &rank->graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        for (size_t k = 0; k < a->n_writes; k++)
            if (a->writes[k] == rank->turn) return t + 1;
    }
    return n;
}

/* True if one of the n steps reads an input of the network. */
static bool reads_batch(const mp_graph *g, const mp_step *steps, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *a = &g->nodes[steps[t].node].alternatives[steps[t].alternative];
        for (size_t k = 0; k < a->n_reads; k++)
            if (g->storages[a->reads[k]].kind == MP_KIND_INPUT) return true;
    }
    return false;
}

mp_status mp_rank_held_bytes(const mp_rank *rank, const mp_step *steps, size_t n, int64_t *bytes, mp_error *err)
{
    const size_t n_chunks = (size_t)rank->shape.n_chunks, turn = turn_of(rank, steps, n);
    MP_OWNED bool *seen = mp_alloc(rank->graph->n_storages, sizeof *seen);
    MP_OWNED int64_t *live = mp_alloc(2 * n_chunks, sizeof *live);
    MP_OWNED mp_kept *kept = mp_alloc(n_chunks, sizeof *kept);
    size_t at;
    if (!seen || !live || !kept) return MP_NO_MEMORY(err);
    MP_CHECK(mp_rank_turn_around(rank->graph, steps, n, &at, err));
    add_live(rank, steps, n, at, seen, live);
    if (turn < n) add_live(rank, steps, n, turn, seen, &live[n_chunks]);
    const bool waits_with_batch = reads_batch(rank->graph, &steps[turn], n - turn);
    for (size_t c = 0; c < n_chunks; c++)
        kept[c] = (mp_kept){.forward_bytes = live[c] + rank->batch_bytes[c],
                            .weights_bytes = live[n_chunks + c] + (waits_with_batch ? rank->batch_bytes[c] : 0)};
    return mp_schedule_held_bytes(&rank->shape, rank->rank, kept, bytes, err);
}

int64_t mp_rank_most_held(const mp_rank *rank)
{
    int64_t most = 0;
    for (int c = 0; c < rank->shape.n_chunks; c++)
        if (rank->held_bytes[c] > most) most = rank->held_bytes[c];
    return most;
}

mp_status mp_rank_check(const mp_rank *rank, const mp_step *steps, size_t n, mp_error *err)
{
    MP_OWNED int64_t *bytes = mp_alloc((size_t)rank->shape.n_chunks, sizeof *bytes);
    if (!bytes) return MP_NO_MEMORY(err);
    MP_CHECK(mp_rank_held_bytes(rank, steps, n, bytes, err));
    for (int c = 0; c < rank->shape.n_chunks; c++)
        MP_ENSURE(bytes[c] <= rank->held_bytes[c], err, MP_REFUTED,
                  "the other micro-batches keep %lld bytes while one runs, but only %lld bytes are reserved for them",
                  (long long)bytes[c], (long long)rank->held_bytes[c]);
    return MP_OK;
}

/* True if a step from `at` on reads a parameter that the gather of step t produced. The gather, or the next copy from its
 * buffer, writes the parameter. No step in between writes it again. */
static bool reads_later(const mp_graph *g, const mp_step *steps, size_t n, size_t t, size_t at, int storage)
{
    bool is_written = false;
    for (size_t u = t; u < n; u++) {
        const mp_alternative *a = &g->nodes[steps[u].node].alternatives[steps[u].alternative];
        if (is_written && u >= at && mp_list_has(a->reads, a->n_reads, storage)) return true;
        if (!mp_list_has(a->writes, a->n_writes, storage)) continue;
        if (is_written) return false;
        is_written = true;
    }
    return false;
}

/* Returns the gather of step t, restricted to the parameters that steps from `at` on still read. `at` is the first step of
 * backward; t is before it. n_moved is 0 if step t gathers no such parameter. The result refers to `kept`. */
static mp_collective_record gather_again(const mp_graph *g, const mp_step *steps, size_t n, size_t t, size_t at, int *kept)
{
    const mp_node *node = &g->nodes[steps[t].node];
    mp_collective_record again = {0};
    if (!node->collective || node->phase != MP_PHASE_FORWARD || node->collective->legs[0].kind != MP_ALL_GATHER) return again;
    if (node->alternatives->channel == MP_CHANNEL_COMPUTE)
        /* a gather on the compute channel belongs to tensor parallelism (tp): it gathers an activation of one micro-batch, and
         * no parameters */
        return again;
    again = *node->collective;
    again.wholes = kept;
    again.n_moved = 0;
    const int64_t all = again.legs[0].bytes;
    int64_t bytes = 0;
    for (size_t k = 0; k < node->collective->n_moved; k++) {
        const int s = node->collective->wholes[k];
        if (!reads_later(g, steps, n, t, at, s)) continue;
        kept[again.n_moved++] = s;
        bytes += g->storages[s].payload_bytes;
    }
    again.legs[0].bytes = bytes;
    again.legs[0].seconds *= all > 0 ? (double)bytes / (double)all : 0;
    return again;
}

mp_status mp_rank_add_repeated(const mp_graph *graph, const mp_pipeline_shape *shape, int rank, const mp_step *steps, size_t n,
                               const mp_traffic_rank *position, mp_rank_traffic *traffic, mp_error *err)
{
    size_t at;
    if (!shape->n_ranks) return MP_OK;
    MP_OWNED int *kept = mp_alloc(graph->n_storages, sizeof *kept);
    if (!kept) return MP_NO_MEMORY(err);
    MP_CHECK(mp_rank_turn_around(graph, steps, n, &at, err));
    const int64_t times = mp_schedule_in_flight(shape, rank) - 1;
    for (size_t t = 0; t < at; t++) {
        const mp_collective_record again = gather_again(graph, steps, n, t, at, kept);
        if (!again.n_moved) continue;
        traffic->n_collectives += (size_t)times;
        traffic->sent_bytes += times * mp_collective_record_sent(graph, &again, position);
        traffic->seconds += (double)times * mp_collective_record_seconds(&again);
    }
    return MP_OK;
}

/* Returns the chunk to which the storages of a node belong; -1: the node uses no data of a micro-batch. */
static int chunk_of(const mp_rank *rank, const mp_alternative *a)
{
    const int *const lists[] = {a->writes, a->adds, a->reads};
    const size_t n[] = {a->n_writes, a->n_adds, a->n_reads};
    for (int l = 0; l < 3; l++)
        for (size_t k = 0; k < n[l]; k++) {
            const int chunk = chunk_of_storage(rank, lists[l][k]);
            if (chunk >= 0) return chunk;
        }
    return -1;
}

/* Increases the workspace of every compute node of chunk c by more[c] bytes. */
static void widen(mp_rank *rank, const int64_t *more)
{
    for (size_t v = 0; v < rank->graph->n_nodes; v++) {
        const mp_node *node = &rank->graph->nodes[v];
        const int chunk = chunk_of(rank, node->alternatives);
        if (chunk < 0 || node->alternatives->channel > MP_CHANNEL_SECOND_STREAM) continue;
        for (size_t f = 0; f < node->n_alternatives; f++) node->alternatives[f].workspace_bytes += more[chunk];
    }
}

mp_status mp_rank_hold(mp_rank *rank, const int64_t *bytes, mp_error *err)
{
    const size_t n = (size_t)rank->shape.n_chunks;
    MP_OWNED int64_t *more = mp_alloc(n, sizeof *more);
    int64_t least = INT64_MAX;
    if (!more) return MP_NO_MEMORY(err);
    if (rank->held < 0) return MP_OK;
    mp_storage *held = &rank->graph->storages[rank->held];
    for (size_t c = 0; c < n; c++) {
        int64_t room;
        MP_ENSURE(mp_round_up(bytes[c], rank->graph->alignment, &room) && room < INT64_MAX / 4, err, MP_INVALID,
                  "the stash of the waiting micro-batches is too large");
        more[c] = room - (rank->held_bytes[c] - held->bytes);
        rank->held_bytes[c] = room;
        if (bytes[c] < least) least = bytes[c];
    }
    held->payload_bytes = least;
    MP_ENSURE(mp_round_up(least, rank->graph->alignment, &held->bytes), err, MP_INVALID,
              "the stash of the waiting micro-batches is too large");
    for (size_t c = 0; c < n; c++) more[c] -= held->bytes;
    if (n > 1) widen(rank, more);
    return mp_graph_finish(rank->graph, err);
}

/* ---- seconds ---- */

/* True if a node sends data of a micro-batch to a neighbouring stage, or receives it from one. */
static bool is_transfer(const mp_node *node)
{
    return node->collective && node->collective->legs[0].kind == MP_SEND;
}

/* True if a node only computes weight gradients. If the schedule postpones weight gradients, true for exactly the postponed
 * nodes. */
static bool is_of_weights(const mp_rank *rank, const mp_node *node)
{
    const mp_alternative *a = node->alternatives;
    if (rank->turn < 0) return mp_makes_weights_alone(rank->graph, node);
    return mp_list_has(a->reads, a->n_reads, rank->turn);
}

/* True if a node sums gradients of parameters over ranks once per training step, after all micro-batches. */
static bool is_sum_of_step(const mp_node *node)
{
    return node->collective && node->collective->once && node->collective->legs[0].kind != MP_ALL_GATHER;
}

/* Copies the graph and sets the ticks of sends and receives to zero. Their time is counted between stages instead. */
static mp_status without_transfers(const mp_rank *rank, mp_pool *pool, mp_graph *out, mp_error *err)
{
    const mp_graph *g = rank->graph;
    *out = *g;
    mp_alternative *none = mp_pool_alloc(pool, g->n_nodes, sizeof *none);
    out->nodes = mp_pool_alloc(pool, g->n_nodes, sizeof *out->nodes);
    if (!out->nodes || !none) return MP_NO_MEMORY(err);
    memcpy(out->nodes, g->nodes, g->n_nodes * sizeof *out->nodes);
    for (size_t v = 0; v < g->n_nodes; v++) {
        if (!is_transfer(&g->nodes[v])) continue;
        none[v] = *g->nodes[v].alternatives;
        none[v].ticks = 0;
        out->nodes[v].alternatives = &none[v];
    }
    return MP_OK;
}

/* Returns the seconds of the send after the forward of a chunk; 0 for the last stage, which sends nothing. */
static double send_seconds(const mp_rank *rank, int chunk)
{
    const mp_graph *g = rank->graph;
    for (size_t v = 0; v < g->n_nodes; v++) {
        const mp_alternative *a = g->nodes[v].alternatives;
        const bool sends =
            is_transfer(&g->nodes[v]) && g->nodes[v].phase == MP_PHASE_FORWARD && !g->nodes[v].collective->receives;
        if (sends && chunk_of(rank, a) == chunk) return (double)a->ticks * g->tick_seconds;
    }
    return 0;
}

/* Returns the step that waits for the gradient that a chunk receives from the next stage; 0: the chunk receives none. */
static size_t awaits_gradient(const mp_rank *rank, const mp_step *steps, size_t n, int chunk)
{
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &rank->graph->nodes[steps[t].node];
        if (is_transfer(node) && node->phase == MP_PHASE_BACKWARD && node->collective->receives &&
            chunk_of(rank, node->alternatives) == chunk)
            return (size_t)mp_step_end(steps, (int)t);
    }
    return 0;
}

mp_status mp_rank_seconds(const mp_rank *rank, const mp_step *steps, size_t n, mp_stage_seconds *seconds, mp_error *err)
{
    const double tick = rank->graph->tick_seconds;
    const int n_chunks = rank->shape.n_chunks, n_ranks = rank->shape.n_ranks;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    bool *has_run = mp_pool_alloc(pool, rank->graph->n_nodes, sizeof *has_run);
    size_t *awaited = mp_pool_alloc(pool, (size_t)n_chunks, sizeof *awaited);
    int64_t *ends = mp_pool_alloc(pool, n, sizeof *ends), makespan, clock = 0;
    mp_graph g;
    size_t at; /* the first step of backward */
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    MP_CHECK(without_transfers(rank, pool, &g, err));
    MP_CHECK(mp_makespan(&g, steps, n, ends, &makespan, err));
    MP_CHECK(mp_rank_turn_around(rank->graph, steps, n, &at, err));
    seconds += rank->rank; /* the first entry of this rank; the entry of the next chunk is n_ranks further */
    for (int c = 0; c < n_chunks; c++) {
        seconds[c * n_ranks] = (mp_stage_seconds){0};
        awaited[c] = awaits_gradient(rank, steps, n, c);
    }
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &g.nodes[steps[t].node];
        const mp_alternative *a = &node->alternatives[steps[t].alternative];
        const int chunk = chunk_of(rank, a);
        mp_stage_seconds *s = &seconds[chunk < 0 ? 0 : chunk * n_ranks];
        if (mp_step_is_issued(steps[t]) && a->channel > MP_CHANNEL_SECOND_STREAM)
            continue; /* an issued transfer runs parallel to compute; if compute must wait, the wait counts at the step `until`
                       */
        const double took = (double)(ends[t] - clock) * tick;
        clock = ends[t];
        if (node->phase == MP_PHASE_UPDATE || is_sum_of_step(node))
            s->tail += took;
        else if (node->phase == MP_PHASE_FORWARD && !has_run[steps[t].node])
            s->forward += took;
        else if (is_of_weights(rank, node))
            s->weights += took;
        else
            s->backward += took;
        if (node->phase == MP_PHASE_FORWARD && has_run[steps[t].node] && chunk >= 0 && t >= at && t < awaited[chunk])
            s->ahead += took;
        has_run[steps[t].node] = true;
    }
    seconds[0].tail += (double)(makespan - clock) * tick;
    for (int c = 0; c < n_chunks; c++) seconds[c * n_ranks].send = send_seconds(rank, c);
    return MP_OK;
}
