/* test_split_data.c - tp that splits the batch: unsplit operators run as data parallelism, and operators are split if this
 * saves traffic. */
#include "estimator/parallel/split.h"

#include <math.h>

#include "memplan/memplan.h"
#include "memplan/simplify.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

typedef struct rank_case {
    mp_model *model;
    mp_graph *graph;
    mp_split split;
    mp_rank_traffic traffic;
    mp_interconnect network;
} rank_case;

/* Makes one rank with summed gradients and takes ownership of `model`. */
static rank_case rank_of(mp_model *model, const char *mesh)
{
    mp_error err = {0};
    rank_case r = {.model = model};
    mp_ranks ranks = {.rules = MP_RULES_EXECUTOR};
    const mp_training_options options = {.loss = MP_LOSS_CROSS_ENTROPY, .optimizer = MP_OPTIMIZER_ADAMW};
    const mp_target own = mp_roofline(mp_device_find("a100"));
    mp_split_target space = {.own = &own, .ranks = &ranks};
    const mp_target target = mp_target_of_split(&space);
    int loss;
    assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("pcie+eth100", &ranks.network, NULL), MP_OK);
    if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK || mp_model_split(model, &ranks, &r.split, &err) != MP_OK ||
        mp_training_graph(model, &options, loss, &target, &r.graph, &err) != MP_OK ||
        mp_graph_exchange(r.graph, &ranks, &err) != MP_OK)
        fail_msg("%s: %s", mesh, err.message);
    r.traffic = traffic_of_keep_all(r.graph);
    r.network = ranks.network;
    return r;
}

static mp_model *read(const char *path, int64_t batch)
{
    const mp_onnx_options options = {.batch = batch};
    mp_error err = {0};
    mp_model *model;
    if (mp_onnx_read(path, &options, &model, &err) != MP_OK) fail_msg("%s: %s", path, err.message);
    return model;
}

static void end(rank_case *r)
{
    mp_split_free(&r->split);
    mp_graph_free(r->graph);
    mp_model_free(r->model);
}

static int64_t ticks(const mp_graph *graph)
{
    int64_t sum = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) sum += graph->nodes[i].alternatives[0].ticks;
    return sum;
}

static int64_t bytes(const mp_graph *graph)
{
    int64_t sum = 0;
    for (size_t s = 0; s < graph->n_storages; s++) sum += graph->storages[s].bytes;
    return sum;
}

/* No weight of these networks is large enough to be split. All storages, nodes and sent bytes equal dp's. Each rank normalizes
 * its own samples. */
TEST(without_a_large_weight_it_is_data_parallelism)
{
    static const char *const files[] = {"examples/resnet50.onnx", "examples/fashion_cnn.onnx"};
    enum { SAMPLES = 1024 }; /* their features have more bytes than resnet50's classifier */
    for (size_t k = 0; k < 2; k++)
        for (int n = 2; n <= 6; n += 2) {
            char shared[32], copied[32];
            snprintf(shared, sizeof shared, "tp=%d,data=1", n);
            snprintf(copied, sizeof copied, "dp=%d", n);
            rank_case data = rank_of(read(files[k], SAMPLES * n), shared), dp = rank_of(read(files[k], SAMPLES), copied);
            assert_int_equal(data.split.part_bytes, data.split.whole_bytes);
            assert_int_equal(data.graph->n_nodes, dp.graph->n_nodes);
            assert_int_equal(data.graph->n_storages, dp.graph->n_storages);
            assert_int_equal(bytes(data.graph), bytes(dp.graph));
            /* the ranks of tp compute one mean over all targets, so they gather the number of targets that count, once for the
             * loss and once for its gradient */
            enum { COUNTED = 2, COUNT_BYTES = sizeof(double) };
            const double gather = mp_collective_seconds(&data.network, MP_ALL_GATHER, MP_ALGORITHM_AUTO, (mp_rank_group){n, 1},
                                                        n * COUNT_BYTES),
                         more = COUNTED * gather / data.graph->tick_seconds;
            assert_true(fabs((double)(ticks(data.graph) - ticks(dp.graph)) - more) <= COUNTED);
            assert_int_equal(data.traffic.sent_bytes, dp.traffic.sent_bytes + COUNTED * (n - 1) * COUNT_BYTES);
            assert_int_equal(data.traffic.n_collectives, dp.traffic.n_collectives + COUNTED);
            end(&data);
            end(&dp);
        }
}

/* A trunk of small weights and a large classifier, for 32 samples on each of 6 ranks. The samples' features are gathered, the
 * classes are split, and only the trunk's gradients are summed. */
TEST(a_large_classifier_is_split_alone)
{
    enum { SAMPLES = 32, RANKS = 6, INPUTS = 8, WIDTH = 512, CLASSES = 12000, SHARE = RANKS - 1 };
    static const char text[] = "data x %d 8; param a 8 512; param b 512; param c 512 12000; param d 12000;"
                               "Gemm x a b -> h; Tanh h -> t; Gemm t c d -> y; out y";
    char model[256];
    snprintf(model, sizeof model, text, RANKS * SAMPLES);
    rank_case data = rank_of(model_text(model), "tp=6,data=1");
    snprintf(model, sizeof model, text, SAMPLES);
    rank_case dp = rank_of(model_text(model), "dp=6");
    const int64_t trunk = 4 * (INPUTS + 1) * WIDTH, classifier = 4 * (WIDTH + 1) * CLASSES,
                  features = 4 * WIDTH * RANKS * SAMPLES;
    assert_int_equal(data.split.whole_bytes, trunk + classifier);
    assert_int_equal(data.split.part_bytes, trunk + classifier / RANKS);
    assert_int_equal(dp.traffic.sent_bytes, 2 * SHARE * (trunk + classifier) / RANKS);
    /* the trunk's gradients are summed, features gathered and features' gradients scattered; for each sample, every rank sends
     * the largest score, the sum of exponentials and the score of the target */
    enum { PART_BYTES = 16 };
    const int64_t classes = SHARE * RANKS * SAMPLES * PART_BYTES;
    assert_int_equal(data.traffic.sent_bytes, 2 * SHARE * trunk / RANKS + 2 * SHARE * features / RANKS + classes);
    assert_true(data.traffic.sent_bytes < dp.traffic.sent_bytes / 50);
    for (size_t k = 0; k < data.model->n_operators; k++)
        assert_true(data.model->operators[k].removed || strcmp(data.model->operators[k].kind, "Replicate") != 0);
    end(&data);
    end(&dp);
}

TEST(a_batch_that_cannot_be_shared_out_is_refused)
{
    mp_model *model = read("examples/fashion_cnn.onnx", 9);
    mp_ranks ranks = {0};
    mp_split split = {0};
    mp_error err = {0};
    assert_int_equal(mp_mesh_read("tp=2,data=1", &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("pcie+eth100", &ranks.network, NULL), MP_OK);
    assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
    assert_int_equal(mp_model_split(model, &ranks, &split, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "data=1 splits the batch over 2 ranks, but 'image' has 9 samples"));
    mp_split_free(&split);
    mp_model_free(model);
}
