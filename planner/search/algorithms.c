/* algorithms.c - chooses, for each node, the fastest algorithm whose workspace fits in memory at every run of the node. */
#include "planner/search/algorithms.h"

bool mp_graph_has_algorithms(const mp_graph *graph)
{
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (mp_node_has_algorithms(&graph->nodes[k])) return true;
    return false;
}

/* True if alternative k of the node is an algorithm: the node has several, and the alternative is no copy back. */
static bool is_algorithm(const mp_node *node, size_t k)
{
    return mp_node_has_algorithms(node) && !node->alternatives[k].returns;
}

static int64_t least_workspace(const mp_node *node)
{
    int64_t least = node->alternatives[0].workspace_bytes;
    for (size_t k = 1; k < node->n_alternatives; k++)
        if (is_algorithm(node, k) && node->alternatives[k].workspace_bytes < least)
            least = node->alternatives[k].workspace_bytes;
    return least;
}

/* Returns the fastest algorithm with a workspace of at most room_bytes; of equally fast ones, the one with the smallest
 * workspace. Precondition: at least one algorithm fits. */
static int fastest_within(const mp_node *node, int64_t room_bytes)
{
    int best = -1;
    for (size_t k = 0; k < node->n_alternatives; k++) {
        const mp_alternative *alternative = &node->alternatives[k], *other = best < 0 ? NULL : &node->alternatives[best];
        if (alternative->workspace_bytes > room_bytes || !is_algorithm(node, k)) continue;
        if (!other || alternative->ticks < other->ticks ||
            (alternative->ticks == other->ticks && alternative->workspace_bytes < other->workspace_bytes))
            best = (int)k;
    }
    return best;
}

mp_status mp_algorithms_choose(const mp_graph *graph, mp_step *steps, size_t n, int64_t budget_bytes, int64_t *least_bytes,
                               mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    /* per node: the largest live bytes at any of its runs, not counting its workspace */
    MP_OWNED int64_t *most = mp_alloc(graph->n_nodes, sizeof *most);
    int64_t least = 0;
    MP_ENSURE(most, err, MP_NOMEM, "out of memory for %zu nodes", graph->n_nodes);
    MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const int64_t own = node->alternatives[steps[t].alternative].workspace_bytes;
        const int64_t beside = timeline->static_bytes + timeline->live_bytes[t] - own;
        const bool is_chosen = is_algorithm(node, (size_t)steps[t].alternative);
        const int64_t peak = beside + (is_chosen ? least_workspace(node) : own);
        if (is_chosen && beside > most[steps[t].node]) most[steps[t].node] = beside;
        if (peak > least) least = peak;
    }
    if (least_bytes) *least_bytes = least;
    if (budget_bytes < least) budget_bytes = least;
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        if (is_algorithm(node, (size_t)steps[t].alternative))
            steps[t].alternative = fastest_within(node, budget_bytes - most[steps[t].node]);
    }
    return MP_OK;
}

mp_status mp_relaxed_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err)
{
    MP_CHECK(mp_variant_of(graph, out, err));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        if (!mp_node_has_algorithms(node)) continue;
        const mp_alternative *fastest = &node->alternatives[fastest_within(node, INT64_MAX)];
        for (size_t k = 0; k < node->n_alternatives; k++) {
            if (!is_algorithm(node, k)) continue;
            out->graph.nodes[i].alternatives[k].ticks = fastest->ticks;
            out->graph.nodes[i].alternatives[k].workspace_bytes = least_workspace(node);
        }
    }
    return MP_OK;
}
