/* gradient_exchanges.c - lets the exchanges of gradients over tp run beside recomputation, under PyTorch's rules.
 *
 * In PyTorch, one operator issues an exchange of tp, and another operator waits for its result. memplan.compile places the wait
 * before the first reader of the result. So recomputation that the plan lists between the two operators runs during the
 * exchange. memplan's executor waits in the exchange itself, so its exchanges stay on the compute channel.
 *
 * Exchanges of forward stay on the compute channel, too, because forward recomputes nothing. All exchanges of operators share
 * one link between the ranks. So an exchange on the compute channel waits until no exchange of a gradient runs. A static
 * storage of 0 bytes represents the link. Exchanges of gradients write this storage, and the other exchanges read it. */
#include "estimator/parallel/gradient_exchanges.h"

#include "estimator/graph/collective.h"
#include "estimator/graph/liveness.h"

/* True if a node exchanges data with other ranks on the compute channel. */
static bool blocks_compute(const mp_node *node)
{
    return node->collective && node->collective->n_legs && node->alternatives->channel == MP_CHANNEL_COMPUTE;
}

/* Appends the number of the link's storage to a list of *n storages. */
static mp_status add_link(mp_graph *graph, int link, int **list, size_t *n, mp_error *err)
{
    int *longer = mp_pool_alloc(graph->pool, *n + 1, sizeof *longer);
    MP_ENSURE(longer, err, MP_NOMEM, "out of memory for the graph '%s'", graph->name);
    for (size_t k = 0; k < *n; k++) longer[k] = (*list)[k];
    longer[(*n)++] = link;
    *list = longer;
    return MP_OK;
}

/* Lets an exchange read the link. An exchange of a gradient also writes the link and moves to `channel`. */
static mp_status use_link(mp_graph *graph, mp_node *node, int link, int channel, mp_error *err)
{
    mp_alternative *copies = mp_pool_alloc(graph->pool, node->n_alternatives, sizeof *copies);
    MP_ENSURE(copies, err, MP_NOMEM, "out of memory for the graph '%s'", graph->name);
    for (size_t f = 0; f < node->n_alternatives; f++) {
        mp_alternative *a = &copies[f];
        *a = node->alternatives[f];
        MP_CHECK(add_link(graph, link, &a->reads, &a->n_reads, err));
        if (!mp_exchanges_gradient(node)) continue;
        MP_CHECK(add_link(graph, link, &a->writes, &a->n_writes, err));
        a->channel = channel;
    }
    node->alternatives = copies;
    return MP_OK;
}

static mp_status issue_exchanges(mp_graph *graph, mp_error *err)
{
    mp_storage *link;
    int channel;
    MP_CHECK(mp_graph_channel_named(graph, "exchanges", &channel, err));
    MP_CHECK(mp_graph_storage(graph, &link, err));
    const int number = (int)graph->n_storages - 1;
    for (int s = 0; s < number; s++)
        if (graph->storages[s].id >= link->id) link->id = graph->storages[s].id + 1;
    link->name = "link between the ranks of tp";
    link->kind = MP_KIND_BUFFER;
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (blocks_compute(&graph->nodes[k])) MP_CHECK(use_link(graph, &graph->nodes[k], number, channel, err));
    return mp_graph_finish(graph, err);
}

mp_status mp_gradient_exchanges_issue(mp_graph *graph, const mp_ranks *ranks, mp_error *err)
{
    bool any = false;
    for (size_t k = 0; k < graph->n_nodes; k++)
        any |= mp_exchanges_gradient(&graph->nodes[k]) && blocks_compute(&graph->nodes[k]);
    return any && ranks->rules == MP_RULES_PYTORCH ? issue_exchanges(graph, err) : MP_OK;
}
