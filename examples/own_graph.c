/* own_graph.c - planning without a model: builds the graph of a chain of layers with given costs, and plans it within a budget.
 *
 * Layer k computes activation a_k (100 bytes) from a_(k-1) in one second. Its backward reads a_(k-1) and the gradient of a_k,
 * and computes the gradient of a_(k-1) in two seconds. Keep-all stores all activations at once. The plan recomputes some of
 * them.
 */
#include <stdio.h>

#include <memplan/memplan.h>

enum { LAYERS = 16, BYTES = 100 };

static mp_status storage(mp_graph *graph, mp_kind kind, const char *stem, int k, mp_error *err)
{
    mp_storage *s;
    MP_CHECK(mp_graph_storage(graph, &s, err));
    s->bytes = s->payload_bytes = BYTES;
    s->kind = kind;
    s->name = mp_pool_format(graph->pool, "%s%d", stem, k);
    return s->name ? MP_OK : MP_FAIL(err, MP_NOMEM, "a name");
}

static mp_status node(mp_graph *graph, mp_phase phase, int k, const int *reads, size_t n_reads, int writes, int64_t ticks,
                      mp_error *err)
{
    mp_node *n;
    MP_CHECK(mp_graph_node(graph, &n, err));
    n->phase = phase;
    n->op = "Layer";
    n->name = mp_pool_format(graph->pool, "%s%d", mp_phase_name(phase), k);
    n->forward_of = phase == MP_PHASE_BACKWARD ? k - 1 : -1;
    n->alternatives->ticks = ticks;
    n->alternatives->n_reads = n_reads;
    n->alternatives->reads = mp_graph_list(graph, reads, n_reads);
    n->alternatives->n_writes = 1;
    n->alternatives->writes = mp_graph_list(graph, &writes, 1);
    return n->name && n->alternatives->reads && n->alternatives->writes ? MP_OK : MP_FAIL(err, MP_NOMEM, "a node");
}

/* Storage k is a_k (a_0 is the input). Storage LAYERS + 1 + k is the gradient of a_k. */
static mp_status chain(mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_CHECK(mp_graph_new("chain", &graph, err));
    for (int k = 0; k <= LAYERS; k++) MP_CHECK(storage(graph, k ? MP_KIND_ACTIVATION : MP_KIND_INPUT, "a", k, err));
    for (int k = 0; k <= LAYERS; k++) MP_CHECK(storage(graph, MP_KIND_ACTIVATION_GRADIENT, "gradient of a", k, err));
    for (int k = 1; k <= LAYERS; k++) MP_CHECK(node(graph, MP_PHASE_FORWARD, k, (int[]){k - 1}, 1, k, 1, err));
    MP_CHECK(node(graph, MP_PHASE_LOSS, 0, (int[]){LAYERS}, 1, LAYERS + 1 + LAYERS, 1, err));
    for (int k = LAYERS; k >= 1; k--)
        MP_CHECK(node(graph, MP_PHASE_BACKWARD, k, (int[]){k - 1, LAYERS + 1 + k}, 2, LAYERS + k, 2, err));
    MP_CHECK(mp_graph_finish(graph, err));
    *out = graph;
    graph = NULL;
    return MP_OK;
}

int main(void)
{
    mp_error err = {0};
    mp_graph *graph = NULL;
    mp_answer answer = {0};
    mp_request request = {.budget_bytes = 10 * BYTES};
    mp_status st = chain(&graph, &err);
    request.graph = graph;
    if (st == MP_OK) st = mp_solve(&request, &answer, &err);
    if (st != MP_OK)
        fprintf(stderr, "own_graph: %s\n", err.message);
    else if (!answer.plan)
        printf("no plan in %d bytes; the smallest found needs %lld\n", 10 * BYTES, (long long)answer.smallest->peak_bytes);
    else
        printf("%d layers in %lld of %lld bytes, %lld s instead of %lld s, %zu checkpoints\n", LAYERS,
               (long long)answer.plan->peak_bytes, (long long)answer.plan->baseline_peak_bytes, (long long)answer.plan->ticks,
               (long long)answer.plan->baseline_ticks, answer.plan->n_checkpoints);
    bool found = st == MP_OK && answer.plan;
    mp_answer_free(&answer);
    mp_graph_free(graph);
    return found ? 0 : 1;
}
