/* peak.c - the library in thirty lines: how much memory does one training step of an ONNX model need?
 *
 *     peak MODEL.onnx BATCH
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

static mp_status peak(const char *path, int64_t batch, mp_error *err)
{
    const mp_onnx_options dimensions = {.batch = batch};
    const mp_training_options training = {.loss = MP_LOSS_AUTO, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED mp_step *steps = NULL;
    int loss;
    MP_CHECK(mp_onnx_read(path, &dimensions, &model, err));
    MP_CHECK(mp_model_simplify(model, training.rules, true, NULL, err));
    MP_CHECK(mp_model_add_loss(model, &training, &loss, err));
    MP_CHECK(mp_training_graph(model, &training, loss, &target, &graph, err));
    steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "the steps");
    const size_t n = mp_keep_all(graph, steps); /* keep-all: every activation is kept, no node runs twice */
    MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
    printf("%s: %lld bytes at %s\n", graph->name, (long long)timeline->peak_bytes,
           graph->nodes[steps[timeline->peak_step].node].name);
    return MP_OK;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 3) return fprintf(stderr, "usage: peak MODEL.onnx BATCH\n"), 2;
    if (peak(argv[1], strtoll(argv[2], NULL, 10), &err) == MP_OK) return 0;
    fprintf(stderr, "peak: %s: %s\n", argv[1], err.message);
    return 1;
}
