/* graph_check_algorithms.c - checks that the algorithms of a node differ in name, seconds and workspace only. */
#include "estimator/graph/graph_check_algorithms.h"

#include <string.h>

static bool same_list(const int *a, size_t n_a, const int *b, size_t n_b)
{
    return n_a == n_b && (!n_a || !memcmp(a, b, n_a * sizeof *a));
}

/* True if two alternatives have the same reads, writes, adds and in-place pairs. */
static bool alike(const mp_alternative *a, const mp_alternative *b)
{
    return same_list(a->reads, a->n_reads, b->reads, b->n_reads) && same_list(a->writes, a->n_writes, b->writes, b->n_writes) &&
           same_list(a->adds, a->n_adds, b->adds, b->n_adds) && a->n_in_place == b->n_in_place &&
           (!a->n_in_place || !memcmp(a->in_place, b->in_place, a->n_in_place * sizeof *a->in_place));
}

mp_status mp_graph_check_algorithms(const mp_graph *graph, int i, mp_error *err)
{
    const mp_node *node = &graph->nodes[i];
    for (size_t k = 0; k < node->n_alternatives; k++) {
        const mp_alternative *alternative = &node->alternatives[k];
        if (alternative->returns) continue;
        MP_ENSURE(!alternative->algorithm == !node->alternatives[0].algorithm, err, MP_PARSE,
                  "%s has alternatives with an algorithm and alternatives without one", mp_node_label(graph, i).text);
        MP_ENSURE(!alternative->algorithm || alike(alternative, &node->alternatives[0]), err, MP_PARSE,
                  "the algorithms of %s may differ in seconds and workspace only", mp_node_label(graph, i).text);
        for (size_t j = 0; alternative->algorithm && j < k; j++)
            MP_ENSURE(node->alternatives[j].returns || strcmp(alternative->algorithm, node->alternatives[j].algorithm) != 0,
                      err, MP_PARSE, "%s has the algorithm '%s' twice", mp_node_label(graph, i).text, alternative->algorithm);
    }
    return MP_OK;
}
