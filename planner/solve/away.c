/* away.c - a bound for plans with copies, from the one for plans without: what is away from the device at any moment was copied
 * out before it and comes back after it, so it is no more than the links carry (docs/bound.md, "Graphs with copies"). */
#include "planner/solve/away.h"

#include <math.h>

#include "estimator/graph/plain.h"
#include "memplan/floor.h"
#include "planner/bound/proof.h"

/* How fast storages of the device go to a tier and come back, in bytes per tick over all channels, at best. */
typedef struct link {
    double out[MP_MAX_CHANNELS], in[MP_MAX_CHANNELS]; /* per channel; INFINITY: a copy takes no time */
    double bytes;                                     /* of all storages that can come back */
    double per_byte;                                  /* bytes of the device for each byte there, at most */
} link;

static int64_t bytes_in(const mp_graph *graph, const int *storages, size_t n, int tier)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < n; k++) bytes += graph->storages[storages[k]].tier == tier ? graph->storages[storages[k]].bytes : 0;
    return bytes;
}

static void raise(double *most, double value)
{
    if (value > *most) *most = value;
}

static double ratio(int64_t bytes, int64_t divisor)
{
    return divisor ? (double)bytes / (double)divisor : bytes ? INFINITY : 0;
}

static link link_of(const mp_graph *graph, int tier)
{
    link found = {{0}, {0}, 0, 0};
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        int64_t most = 0;
        for (size_t f = 0; f < node->n_alternatives; f++) {
            const mp_alternative *a = &node->alternatives[f];
            const int64_t made = bytes_in(graph, a->writes, a->n_writes, MP_TIER_DEVICE);
            const int64_t there = bytes_in(graph, a->reads, a->n_reads, tier);
            if (bytes_in(graph, a->writes, a->n_writes, tier))
                raise(&found.out[a->channel], ratio(bytes_in(graph, a->reads, a->n_reads, MP_TIER_DEVICE), a->ticks));
            if (!a->returns || !there) continue;
            raise(&found.in[a->channel], ratio(made, a->ticks));
            raise(&found.per_byte, ratio(made, there));
            if (made > most) most = made;
        }
        found.bytes += (double)most * (double)node->n_alternatives; /* alternatives may bring back other outputs */
    }
    return found;
}

/* Returns the most bytes that are away in one tier: out * t are out by time t, and in * (ticks - t) still come back. */
static double away_in(const mp_graph *graph, const int64_t *tier_bytes, int tier, double ticks)
{
    const link l = link_of(graph, tier);
    double out = 0, in = 0, most = l.bytes;
    for (size_t c = 0; c < graph->n_channels; c++) {
        out += l.out[c];
        in += l.in[c];
    }
    if (out <= 0 || in <= 0) return 0;
    const double carried = ticks / (1 / out + 1 / in);
    if (carried < most) most = carried;
    if (tier_bytes && tier_bytes[tier] && (double)tier_bytes[tier] * l.per_byte < most)
        most = (double)tier_bytes[tier] * l.per_byte;
    return most;
}

mp_status mp_copies_bound(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, int64_t ticks, mp_bound *out,
                          mp_error *err)
{
    MP_CLEARED_BY(mp_plain_free) mp_plain plain = {0};
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    double away = 1; /* more than rounding takes */
    for (int m = 1; m < (int)graph->n_tiers; m++) away += away_in(graph, tier_bytes, m, (double)ticks) * (1 + 1e-12);
    *out = (mp_bound){.ticks = -1, .from = -1, .to = -1};
    if (away >= (double)(MP_NO_LIMIT - budget_bytes)) return MP_OK;
    MP_CHECK(mp_plain_of(graph, &plain, err));
    for (size_t v = 0; v < plain.graph->n_nodes; v++) { /* what is not on compute takes none of its time */
        const mp_node *node = &graph->nodes[plain.nodes[v]];
        bool beside = false;
        for (size_t f = 0; f < node->n_alternatives; f++)
            beside |= !node->alternatives[f].returns && node->alternatives[f].channel > MP_CHANNEL_SECOND_STREAM;
        for (size_t f = 0; beside && f < plain.graph->nodes[v].n_alternatives; f++)
            plain.graph->nodes[v].alternatives[f].ticks = 0;
    }
    MP_CHECK(mp_problem_new(plain.graph, &problem, err));
    const int effort = mp_proof_effort(plain.graph);
    const mp_bound_options options = {.effort = effort > 1 ? 1 : effort};
    MP_CHECK(mp_prove(problem, budget_bytes + (int64_t)away, false, &options, out, err));
    if (out->infeasible || out->ticks > ticks) out->ticks = ticks; /* a plan that takes less would be away for less */
    out->infeasible = false;
    out->from = out->to = -1; /* of another graph */
    return MP_OK;
}

/* True if an optional node copies the storage `from` to `copy`, which is not smaller. */
static bool is_copied_whole(const mp_graph *graph, int from, int copy)
{
    const int node = graph->producer[copy];
    if (node < 0 || !(graph->nodes[node].flags & MP_NODE_OPTIONAL) || graph->nodes[node].n_alternatives > 1) return false;
    const mp_alternative *out = &graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < out->n_reads && i < out->n_writes; i++)
        if (out->reads[i] == from && out->writes[i] == copy) return graph->storages[copy].bytes >= graph->storages[from].bytes;
    return false;
}

/* True if all that comes back to the device was copied from there before, each storage as a whole. */
static bool are_copied_whole(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t f = 0; f < graph->nodes[v].n_alternatives; f++) {
            const mp_alternative *back = &graph->nodes[v].alternatives[f];
            if (back->returns && back->n_reads != back->n_writes) return false;
            for (size_t i = 0; back->returns && i < back->n_writes; i++)
                if (graph->storages[back->writes[i]].tier == MP_TIER_DEVICE &&
                    !is_copied_whole(graph, back->writes[i], back->reads[i]))
                    return false;
        }
    return true;
}

mp_status mp_tier_floors(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes,
                         int64_t floor_bytes[MP_MAX_TIERS], mp_error *err)
{
    MP_CLEARED_BY(mp_plain_free) mp_plain plain = {0};
    int64_t least_bytes;
    int node;
    for (int m = 1; m < (int)graph->n_tiers; m++) floor_bytes[m] = mp_graph_static_bytes_in(graph, m);
    if (budget_bytes == MP_NO_LIMIT || mp_graph_n_state_copies(graph) || !are_copied_whole(graph)) return MP_OK;
    MP_CHECK(mp_plain_of(graph, &plain, err));
    MP_CHECK(mp_floor(plain.graph, &least_bytes, &node, err));
    for (int m = 1; m < (int)graph->n_tiers; m++) {
        int64_t away = least_bytes - budget_bytes;                            /* at some moment, in all tiers ... */
        for (int other = 1; other < (int)graph->n_tiers && away > 0; other++) /* ... less what the others may hold */
            if (other != m) away -= tier_bytes[other] ? tier_bytes[other] : away;
        if (away > floor_bytes[m]) floor_bytes[m] = away;
    }
    return MP_OK;
}
