/* test_stage_sums.c - the all-reduce of a weight that several pipeline stages hold. It waits for all ranks, and rank 0 computes
 * its summand last. So no rank may begin it before this rank has sent its gradients to the previous stage. */
#include "estimator/base/memory.h"
#include "memplan/model.h"
#include "memplan/ranks/pipeline_cut.h"
#include "memplan/simplify.h"
#include "memplan/training.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

/* Two weights, v and w, are each used by the first layers and the last ones. */
static const char tied[] = "data x 8 16; param v 16 16; param w 16 16; param a 16 16; param b 16 16; "
                           "MatMul x v -> x1; Tanh x1 -> y1; MatMul y1 w -> x2; Tanh x2 -> y2; MatMul y2 a -> x3; "
                           "Tanh x3 -> y3; MatMul y3 b -> x4; Tanh x4 -> y4; MatMul y4 w -> x5; Tanh x5 -> y5; "
                           "MatMul y5 v -> x6; Tanh x6 -> y6; out y6";

static bool starts_with(const mp_node *node, const char *text)
{
    return !strncmp(node->name, text, strlen(text));
}

/* Sets waits[u] for each node u that must end before node v begins: it writes or adds to what a node already in the set reads.
 * Nodes are listed in an order that runs. */
static void find_waits(const mp_graph *g, int v, bool *waits)
{
    memset(waits, 0, g->n_nodes * sizeof *waits);
    waits[v] = true;
    for (int late = v; late >= 0; late--)
        for (int early = 0; waits[late] && early < late; early++) {
            const mp_alternative *reader = g->nodes[late].alternatives, *maker = g->nodes[early].alternatives;
            for (size_t k = 0; k < reader->n_reads; k++) {
                for (size_t i = 0; i < maker->n_writes; i++) waits[early] |= maker->writes[i] == reader->reads[k];
                for (size_t i = 0; i < maker->n_adds; i++) waits[early] |= maker->adds[i] == reader->reads[k];
            }
        }
}

/* Checks the sums of a rank. Returns how many there are. */
static int check_sums(const mp_graph *g, int rank)
{
    MP_OWNED bool *waits = mp_alloc(g->n_nodes, sizeof *waits);
    int n_sums = 0;
    for (int v = 0; v < (int)g->n_nodes; v++) {
        if (!starts_with(&g->nodes[v], "sum over stages of")) continue;
        find_waits(g, v, waits);
        for (int u = 0; u < (int)g->n_nodes; u++) {
            const bool is_exchange = starts_with(&g->nodes[u], rank ? "send gradients to" : "receive gradients from");
            const bool is_earlier_sum = u < v && starts_with(&g->nodes[u], "sum over stages of");
            if ((is_exchange || is_earlier_sum) && !waits[u])
                fail_msg("rank %d: %s does not wait for %s", rank, g->nodes[v].name, g->nodes[u].name);
        }
        n_sums++;
    }
    return n_sums;
}

TEST(sums_over_stages_wait_for_the_gradients_sent_to_earlier_stages)
{
    static const mp_pipeline_shape shapes[] = {{MP_SCHEDULE_GPIPE, 2, 1, 3}, {MP_SCHEDULE_1F1B, 2, 1, 4},
                                               {MP_SCHEDULE_1F1B, 3, 1, 4},  {MP_SCHEDULE_ZB_H1, 2, 1, 4},
                                               {MP_SCHEDULE_ZB_H1, 3, 1, 6}, {MP_SCHEDULE_INTERLEAVED, 2, 2, 4}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int for_execution = 0; for_execution < 2; for_execution++) {
            mp_error err = {0};
            mp_ranks ranks = {.bucket_bytes = 0};
            MP_OWNED_BY(mp_graph_free)
            mp_graph *whole = model_text_graph(
                tied, (mp_training_options){.dtype = MP_DTYPE_FLOAT, .optimizer = MP_OPTIMIZER_ADAMW, .accumulate = 2});
            MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = NULL;
            assert_int_equal(mp_mesh_read("dp=1", &ranks.mesh, NULL), MP_OK);
            assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
            ranks.mesh.size[MP_DIM_PP] = shapes[k].n_ranks;
            const mp_pipeline_request request = {
                .graph = whole, .ranks = &ranks, .shape = shapes[k], .for_execution = for_execution};
            if (mp_pipeline_new(&request, &pipeline, &err) != MP_OK) fail_msg("%s", err.message);
            int n_sums = 0;
            for (int r = 0; r < shapes[k].n_ranks; r++) {
                MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
                if (mp_pipeline_rank_graph(pipeline, r, &rank, &err) != MP_OK) fail_msg("%s", err.message);
                n_sums += check_sums(rank.graph, r);
            }
            assert_true(n_sums >= 2); /* at least one weight, on two ranks */
        }
}
