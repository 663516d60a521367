/* peak.c - the library in thirty lines: how much memory does one training step of an ONNX model need?
 *
 *     peak MODEL.onnx BATCH
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

static mp_status peak(const char *path, int64_t batch, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_onnx_options dimensions = {.batch = batch};
    const mp_training_options training = {.loss = MP_LOSS_AUTO, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    mp_model *model = NULL;
    mp_graph *graph = NULL;
    mp_timeline *timeline = NULL;
    mp_step *steps = NULL;
    int loss;
    MP_TRY(mp_onnx_read(path, &dimensions, &model, err));
    MP_TRY(mp_model_simplify(model, training.rules, true, NULL, err));
    MP_TRY(mp_model_add_loss(model, &training, &loss, err));
    MP_TRY(mp_training_graph(model, &training, loss, &target, &graph, err));
    steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_REQUIRE(steps, err, MP_NOMEM, "the steps");
    mp_keep_all(graph, steps); /* everything kept, nothing run twice */
    MP_TRY(mp_timeline_build(graph, steps, graph->n_nodes, &timeline, err));
    printf("%s: %lld bytes at %s\n", graph->name, (long long)timeline->peak_bytes,
           graph->nodes[steps[timeline->peak_step].node].name);
done:
    mp_timeline_free(timeline);
    mp_free(steps);
    mp_graph_free(graph);
    mp_model_free(model);
    return st;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 3) return fprintf(stderr, "usage: peak MODEL.onnx BATCH\n"), 2;
    if (peak(argv[1], strtoll(argv[2], NULL, 10), &err) == MP_OK) return 0;
    fprintf(stderr, "peak: %s: %s\n", argv[1], err.message);
    return 1;
}
