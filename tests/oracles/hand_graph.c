/* hand_graph.c - adds storages and nodes to small graphs. */
#include "tests/oracles/hand_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

int hand_storage(mp_graph *graph, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    return (int)graph->n_storages - 1;
}

mp_alternative *hand_node(mp_graph *graph, mp_phase phase, int64_t ticks, const int *reads, size_t n, int writes)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->phase = phase;
    mp_alternative *base = &node->alternatives[0];
    base->ticks = ticks;
    base->reads = mp_graph_list(graph, reads, n);
    base->n_reads = n;
    base->writes = mp_graph_list(graph, &writes, 1);
    base->n_writes = 1;
    return base;
}
