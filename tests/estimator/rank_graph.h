/* rank_graph.h - helpers of the tests of rank graphs: a small network, its mesh, and its graph with collectives. */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/training.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

static const char mlp[] = "data x 8 16; param a 16 33; param b 33; param c 33 5; param d 5;"
                          "Gemm x a b -> h; Relu h -> r; Gemm r c d -> y; out y";

static inline mp_ranks ranks_of(int64_t dp, int64_t shard, int zero, int64_t bucket_bytes)
{
    mp_ranks ranks = {.bucket_bytes = bucket_bytes};
    char text[64];
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    snprintf(text, sizeof text, zero ? "dp=%d,shard=%d,zero=%d" : "dp=%d", (int)dp, (int)shard, zero);
    assert_int_equal(mp_mesh_read(text, &ranks.mesh, NULL), MP_OK);
    return ranks;
}

static inline mp_graph *graph_of(const char *text, mp_training_options options)
{
    if (!options.dtype) options.dtype = MP_DTYPE_BFLOAT16;
    return model_text_graph(text, options);
}

static inline mp_rank_traffic exchanged(mp_graph *graph, const mp_ranks *ranks)
{
    mp_error err = {0};
    if (mp_graph_exchange(graph, ranks, &err) != MP_OK) fail_msg("%s: %s", mp_mesh_write(&ranks->mesh).text, err.message);
    return traffic_of_keep_all(graph);
}

static inline int64_t payload(const mp_graph *graph, mp_kind kind)
{
    int64_t bytes = 0;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].kind == kind) bytes += graph->storages[s].payload_bytes;
    return bytes;
}

static inline bool is_collective(const mp_graph *graph, int node)
{
    return graph->nodes[node].alternatives[0].channel > MP_CHANNEL_SECOND_STREAM;
}

static inline int64_t up(int64_t bytes, int64_t n)
{
    return (bytes + n - 1) / n;
}
