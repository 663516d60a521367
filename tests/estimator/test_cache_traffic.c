/* test_cache_traffic.c - bytes between memory and the processor, compared with counts by hand, and the effect on them of fused
 * updates. */
#include "estimator/graph/cache_traffic.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "memplan/onnx.h"
#include "memplan/simplify.h"
#include "memplan/studies/update_effect.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

/* out = f(w); d_w = b(out, w); w, state = u(d_w, w, state). */
enum { W, OUT, D_W, STATE, N_STORAGES };

static void storage(mp_graph *g, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    s->bytes = s->payload_bytes = bytes;
    s->kind = kind;
}

static void node(mp_graph *g, mp_phase phase, const int *reads, size_t n_reads, const int *writes, size_t n_writes)
{
    mp_node *n;
    assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
    n->phase = phase;
    n->forward_of = -1;
    n->alternatives[0].n_reads = n_reads;
    n->alternatives[0].reads = mp_graph_list(g, reads, n_reads);
    n->alternatives[0].n_writes = n_writes;
    n->alternatives[0].writes = mp_graph_list(g, writes, n_writes);
}

static int64_t traffic(int64_t cache_bytes)
{
    mp_graph *g;
    mp_error err = {0};
    mp_step steps[3];
    int64_t bytes;
    assert_int_equal(mp_graph_new("three nodes", &g, NULL), MP_OK);
    storage(g, MP_KIND_PARAMETER, 100);
    storage(g, MP_KIND_ACTIVATION, 80);
    storage(g, MP_KIND_GRADIENT, 50);
    storage(g, MP_KIND_OPTIMIZER_STATE, 200);
    node(g, MP_PHASE_FORWARD, (int[]){W}, 1, (int[]){OUT}, 1);
    node(g, MP_PHASE_BACKWARD, (int[]){OUT, W}, 2, (int[]){D_W}, 1);
    node(g, MP_PHASE_UPDATE, (int[]){D_W, W, STATE}, 3, (int[]){W, STATE}, 2);
    if (mp_graph_finish(g, &err) != MP_OK) fail_msg("%s", err.message);
    mp_keep_all(g, steps);
    assert_int_equal(mp_cache_traffic(g, steps, 3, cache_bytes, &bytes, &err), MP_OK);
    mp_graph_free(g);
    return bytes;
}

TEST(a_cache_that_holds_everything_moves_nothing)
{
    assert_int_equal(traffic(430), 0);
}

TEST(without_a_cache_every_access_moves)
{
    assert_int_equal(traffic(0), (100 + 80) + (80 + 100 + 50) + (50 + 100 + 200 + 100 + 200));
}

/* A cache of 250 bytes. f: reads w (100) and evicts the changed state (200). b: all operands are cached. u: reads the state
 * (200) and evicts d_w (50, changed) and w (clean). Writing w evicts the clean state. Writing the state evicts w (100). */
TEST(a_small_cache_moves_what_it_gives_up)
{
    assert_int_equal(traffic(250), 100 + 200 + 200 + 50 + 100);
}

static mp_update_effect effect(mp_fuse fuse, int64_t *gradient_bytes)
{
    mp_model *model;
    mp_graph *g;
    mp_error err = {0};
    mp_update_effect e;
    mp_onnx_options file = {.batch = 8};
    mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = fuse, .dtype = MP_DTYPE_FLOAT};
    mp_target target = mp_roofline(mp_device_find("cpu"));
    int loss;
    assert_int_equal(mp_onnx_read("examples/resnet50.onnx", &file, &model, &err), MP_OK);
    assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
    assert_int_equal(mp_model_add_loss(model, &options, &loss, &err), MP_OK);
    assert_int_equal(mp_training_graph(model, &options, loss, &target, &g, &err), MP_OK);
    if (mp_update_effect_of(g, mp_device_find("cpu")->cache_bytes, &e, &err) != MP_OK) fail_msg("%s", err.message);
    *gradient_bytes = 0;
    for (size_t s = 0; s < g->n_storages; s++)
        if (g->storages[s].kind == MP_KIND_GRADIENT) *gradient_bytes += g->storages[s].payload_bytes;
    mp_graph_free(g);
    mp_model_free(model);
    return e;
}

/* ResNet-50 has 25,557,032 parameters; the largest is a convolution of 512 x 512 x 3 x 3. */
TEST(updates_within_backward_leave_few_gradients)
{
    int64_t all;
    const mp_update_effect none = effect(MP_FUSE_NONE, &all), backward = effect(MP_FUSE_BACKWARD, &all),
                           forward = effect(MP_FUSE_FORWARD, &all);
    assert_int_equal(all, 4 * 25557032);
    assert_int_equal(none.gradient_bytes, all);
    assert_int_equal(forward.gradient_bytes, all);
    assert_int_equal(backward.largest_gradient_bytes, 4 * 512 * 512 * 9);
    assert_true(backward.gradient_bytes >= 4 * 512 * 512 * 9 && backward.gradient_bytes <= 2 * 4 * 512 * 512 * 9);
    assert_true(backward.peak_bytes < none.peak_bytes && backward.moved_bytes < none.moved_bytes);
    assert_true(none.peak_bytes - backward.peak_bytes <= none.peak_gradient_bytes);
}

/* Picks 4096 rows of 4 KiB from a table of 2 rows, or of 8192. The bytes read are limited by the table and by the picked rows.
 */
TEST(picking_rows_moves_what_is_picked)
{
    static const char *const texts[] = {"data:7 i 4096; param t 2 1024; Gather t i -> y axis=0; out y",
                                        "data:7 i 4096; param t 8192 1024; Gather t i -> y axis=0; out y"};
    const double rows = 4096.0 * 4096, bytes[] = {2 * 4096 + 8 * 4096 + rows, rows + 8 * 4096 + rows};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    const mp_training_options options = {.loss = MP_LOSS_NONE, .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    for (int k = 0; k < 2; k++) {
        mp_model *model = model_text(texts[k]);
        mp_graph *g;
        mp_error err = {0};
        int loss;
        assert_int_equal(mp_model_add_loss(model, &options, &loss, &err), MP_OK);
        if (mp_training_graph(model, &options, loss, &target, &g, &err) != MP_OK) fail_msg("%s", err.message);
        const double seconds = (double)g->nodes[0].alternatives[0].ticks * g->tick_seconds;
        assert_string_equal(g->nodes[0].op, "Gather");
        assert_true(fabs(seconds - (5e-6 + bytes[k] / 2.039e12)) < 1e-8); /* the device's launch time and bandwidth */
        mp_graph_free(g);
        mp_model_free(model);
    }
}
