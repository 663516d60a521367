/* test_training.c - the training graph of small models, compared with graphs derived by hand. */
#include "estimator/training/target.h"
#include "memplan/simplify.h"
#include "memplan/timeline.h"
#include "tests/cases/hand_model.h"
#include "tests/cases/test.h"

static mp_model *new_model(void)
{
    mp_model *model;
    assert_int_equal(mp_model_new("hand", "", &model, NULL), MP_OK);
    return model;
}

static mp_graph *train(mp_model *model, const mp_training_options *options)
{
    mp_error err = {0};
    mp_graph *graph = NULL;
    int loss;
    mp_device device = *mp_device_find("a100");
    device.alignment = 1;
    mp_target target = mp_roofline(&device);
    if (mp_model_add_loss(model, options, &loss, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_training_graph(model, options, loss, &target, &graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

static const mp_training_options plain = {.loss = MP_LOSS_MSE, .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};

static int storage_named(const mp_graph *graph, const char *name)
{
    for (size_t s = 0; s < graph->n_storages; s++)
        if (!strcmp(graph->storages[s].name, name)) return (int)s;
    return -1;
}

static const mp_node *node_named(const mp_graph *graph, const char *name)
{
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (!strcmp(graph->nodes[k].name, name)) return &graph->nodes[k];
    fail_msg("no node '%s'", name);
    return NULL;
}

static bool lists(const int *list, size_t n, int item)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == item) return true;
    return false;
}

static bool reads(const mp_graph *graph, const char *node, const char *storage)
{
    int s = storage_named(graph, storage);
    if (s < 0) fail_msg("no storage '%s'", storage);
    const mp_alternative *alternative = node_named(graph, node)->alternatives;
    return lists(alternative->reads, alternative->n_reads, s);
}

static size_t count_phase(const mp_graph *graph, mp_phase phase)
{
    size_t n = 0;
    for (size_t k = 0; k < graph->n_nodes; k++) n += graph->nodes[k].phase == phase;
    return n;
}

/* x (4, 8) -> relu(x w + b) -> v -> mse, with weights as in a framework. */
static mp_model *two_layers(void)
{
    mp_model *m = new_model();
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 8);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 8, 16);
    hand_tensor(m, "b", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 1, 16);
    hand_tensor(m, "v", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 16, 2);
    hand_operator(m, "Gemm", "x w b", "h");
    hand_operator(m, "Relu", "h", "r");
    hand_operator(m, "MatMul", "r v", "y");
    hand_output(m, "y");
    return m;
}

TEST(backward_reads_what_it_needs_and_no_more)
{
    mp_model *m = two_layers();
    mp_graph *g = train(m, &plain);
    const char *first = m->operators[0].name, *relu = m->operators[1].name, *second = m->operators[2].name;
    char name[128];
    assert_int_equal(count_phase(g, MP_PHASE_FORWARD), 3);
    assert_int_equal(count_phase(g, MP_PHASE_LOSS), 1);
    assert_int_equal(count_phase(g, MP_PHASE_UPDATE), 3);
    /* mse 1, second product 2, relu 1, first product 1 (its input needs no gradient) */
    assert_int_equal(count_phase(g, MP_PHASE_BACKWARD), 5);
    snprintf(name, sizeof name, "%s: backward of parameters", second);
    assert_true(reads(g, name, "r"));
    assert_false(reads(g, name, "v"));
    snprintf(name, sizeof name, "%s: backward of data", second);
    assert_true(reads(g, name, "v"));
    assert_false(reads(g, name, "r"));
    snprintf(name, sizeof name, "%s: backward", relu);
    assert_true(reads(g, name, "r"));
    assert_false(reads(g, name, "h"));
    snprintf(name, sizeof name, "%s: backward of parameters", first);
    assert_true(reads(g, name, "x"));
    /* 2 multiply-adds per element and product */
    assert_true(node_named(g, first)->flops == 2.0 * 4 * 8 * 16);
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(keep_all_peak_of_two_layers_is_as_counted_by_hand)
{
    mp_model *m = two_layers();
    mp_graph *g = train(m, &plain);
    mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    mp_timeline *t;
    mp_keep_all(g, steps);
    assert_int_equal(mp_timeline_build(g, steps, g->n_nodes, &t, NULL), MP_OK);
    /* always live: x 128, target 32, w 512, b 64, v 128, loss 4 bytes. The last product's parameter gradient is computed first:
     * r (256, in place of h), dy (32, in place of y) and dv (128) are live. Then its data gradient: dy, r, dv, dr = 672. The
     * backward of r is in place. The first product's parameters: dv 128, dh 256, dw 512, db 64 = 960. */
    assert_int_equal(t->static_bytes, 128 + 32 + 4 * (8 * 16 + 16 + 16 * 2) + 4);
    assert_int_equal(t->peak_bytes - t->static_bytes, 128 + 256 + 512 + 64);
    mp_timeline_free(t);
    mp_free(steps);
    mp_graph_free(g);
    mp_model_free(m);
}

/* y = x + f(f(x)): the gradient of y exists only once across the branch. */
TEST(a_residual_connection_moves_its_gradient_in_place)
{
    mp_model *m = new_model();
    hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 64, 64);
    hand_tensor(m, "w0", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 64, 64);
    hand_tensor(m, "w1", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 64, 64);
    hand_tensor(m, "w2", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 64, 64);
    hand_operator(m, "MatMul", "data w0", "x");
    hand_operator(m, "MatMul", "x w1", "a");
    hand_operator(m, "MatMul", "a w2", "b");
    hand_operator(m, "Add", "x b", "y");
    hand_output(m, "y");
    mp_graph *g = train(m, &plain);
    assert_int_equal(storage_named(g, "gradient of b"), -1); /* an alias of the gradient of y */
    int dx = storage_named(g, "gradient of x"), dy = storage_named(g, "gradient of y");
    assert_true(dx >= 0 && dy >= 0);
    const mp_node *move = node_named(g, "x: accumulate");
    assert_int_equal(move->alternatives[0].n_in_place, 1);
    assert_int_equal(move->alternatives[0].in_place[0].from, dy);
    assert_int_equal(move->alternatives[0].in_place[0].to, dx);
    mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    mp_timeline *t;
    bool taken = false;
    mp_keep_all(g, steps);
    assert_int_equal(mp_timeline_build(g, steps, g->n_nodes, &t, NULL), MP_OK);
    for (size_t k = 0; k < t->n_spans; k++) taken |= t->spans[k].storage == dx && t->spans[k].takes_over == dy;
    assert_true(taken);
    mp_timeline_free(t);
    mp_free(steps);
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(what_needs_only_a_shape_keeps_nothing_alive)
{
    static const char *const kinds[] = {"AveragePool", "GlobalAveragePool", "Add"};
    for (int k = 0; k < 3; k++) {
        mp_model *m = new_model();
        int64_t ones[] = {2, 2};
        mp_attribute kernel = {.name = "kernel_shape", .kind = MP_ATTRIBUTE_INTS, .n = 2, .ints = ones};
        hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 4, 2, 3, 8, 8);
        hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 4, 5, 3, 3, 3);
        hand_operator(m, "Conv", "data w", "c");
        hand_operator_with(m, kinds[k], "", 17, k == 2 ? "c c" : "c", "y", &kernel, k == 0);
        hand_output(m, "y");
        mp_graph *g = train(m, &plain);
        int c = storage_named(g, "c");
        for (size_t n = 0; n < g->n_nodes; n++)
            if (g->nodes[n].phase == MP_PHASE_BACKWARD)
                assert_false(lists(g->nodes[n].alternatives[0].reads, g->nodes[n].alternatives[0].n_reads, c));
        mp_graph_free(g);
        mp_model_free(m);
    }
}

TEST(views_share_a_storage_and_a_gradient)
{
    mp_model *m = new_model();
    hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 6);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 6, 6);
    hand_tensor(m, "v", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 3, 3);
    hand_integers(m, "shape", 2, 8, 3);
    hand_operator(m, "MatMul", "data w", "h");
    hand_operator(m, "Reshape", "h shape", "r");
    hand_operator(m, "MatMul", "r v", "y");
    hand_output(m, "y");
    mp_graph *g = train(m, &plain);
    int h = storage_named(g, "h");
    assert_int_equal(storage_named(g, "r"), -1);
    assert_int_equal(g->storages[h].n_tensors, 2);
    assert_string_equal(g->storages[h].tensors[1], "r");
    assert_int_equal(storage_named(g, "gradient of r"), -1);
    assert_true(storage_named(g, "gradient of h") >= 0);
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(adam_in_mixed_precision_takes_sixteen_bytes_per_parameter)
{
    mp_model *m = two_layers();
    mp_training_options options = plain;
    options.optimizer = MP_OPTIMIZER_ADAM;
    options.dtype = MP_DTYPE_BFLOAT16;
    mp_graph *g = train(m, &options);
    int64_t bytes = 0, parameters = 8 * 16 + 16 + 16 * 2;
    for (size_t s = 0; s < g->n_storages; s++) {
        mp_kind kind = g->storages[s].kind;
        if (kind == MP_KIND_PARAMETER || kind == MP_KIND_GRADIENT || kind == MP_KIND_OPTIMIZER_STATE)
            bytes += g->storages[s].payload_bytes;
    }
    assert_int_equal(bytes, 16 * parameters);
    assert_int_equal(g->storages[storage_named(g, "r")].payload_bytes, 2 * 4 * 16);
    mp_graph_free(g);
    mp_model_free(m);
}

/* Computed by hand from bitsandbytes 0.50's allocation: 100 x 41 = 4100 elements need 2 x (4100 + 17 x 4) bytes, 4095 need 2 x
 * 4 x 4095. */
TEST(moments_of_8_bits_are_a_byte_and_the_largest_of_256)
{
    assert_int_equal(mp_optimizer_state_bytes(MP_OPTIMIZER_ADAMW_8BIT, 4095), 32760);
    assert_int_equal(mp_optimizer_state_bytes(MP_OPTIMIZER_ADAMW_8BIT, 4096), 2 * (4096 + 16 * 4));
    assert_int_equal(mp_optimizer_state_bytes(MP_OPTIMIZER_ADAMW_8BIT, INT64_MAX / 2), -1);
    mp_model *m = new_model();
    hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 8, 100);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 100, 41);
    hand_operator(m, "MatMul", "data w", "y");
    hand_output(m, "y");
    mp_training_options options = plain;
    options.optimizer = MP_OPTIMIZER_ADAMW_8BIT;
    mp_graph *g = train(m, &options);
    assert_int_equal(g->storages[storage_named(g, "optimizer state of w")].payload_bytes, 2 * (4100 + 17 * 4));
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(frozen_parameters_have_no_gradient_and_keep_no_input)
{
    mp_model *m = two_layers();
    mp_training_options options = plain;
    const char *patterns[] = {"v"};
    options.freeze = patterns;
    options.n_freeze = 1;
    mp_graph *g = train(m, &options);
    assert_int_equal(storage_named(g, "gradient of v"), -1);
    assert_int_equal(count_phase(g, MP_PHASE_UPDATE), 2);
    assert_int_equal(count_phase(g, MP_PHASE_BACKWARD), 4);
    mp_graph_free(g);
    mp_model_free(m);

    m = two_layers();
    patterns[0] = "nothing*";
    mp_error err = {0};
    int loss;
    mp_target target = mp_roofline(mp_device_find("cpu"));
    assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_OK);
    assert_int_equal(mp_training_graph(m, &options, loss, &target, &g, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "nothing*"));
    mp_model_free(m);
}

TEST(shared_weights_have_one_gradient_that_is_a_sum)
{
    mp_model *m = new_model();
    hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 6);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 6, 6);
    hand_operator(m, "MatMul", "data w", "a");
    hand_operator(m, "MatMul", "a w", "b");
    hand_output(m, "b");
    mp_graph *g = train(m, &plain);
    int dw = storage_named(g, "gradient of w");
    assert_int_equal(g->adders_start[dw + 1] - g->adders_start[dw], 2);
    assert_int_equal(g->producer[dw], -1);
    mp_graph_free(g);
    mp_model_free(m);
}

/* x = data w (6x6), y = x w' or x w. Under PyTorch's rules the second contribution is a separate tensor. If the first is a
 * transposed weight's gradient, the sum is a third tensor: autograd never adds in place to a view. */
TEST(pytorch_sums_the_gradients_of_a_shared_weight)
{
    for (int is_turned = 0; is_turned < 2; is_turned++) {
        const mp_attribute turn = {.name = "transB", .kind = MP_ATTRIBUTE_INT, .i = 1};
        mp_training_options options = plain;
        options.rules = MP_RULES_PYTORCH;
        mp_model *m = new_model();
        hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 6);
        hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 6, 6);
        hand_operator(m, "Gemm", "data w", "a");
        hand_operator_with(m, "Gemm", "", 13, "a w", "b", &turn, (size_t)is_turned);
        hand_output(m, "b");
        mp_graph *g = train(m, &options);
        const int part = storage_named(g, "gradient of w, part");
        assert_true(part >= 0);
        assert_int_equal(g->storages[part].payload_bytes, 6 * 6 * 4);
        const mp_alternative *sum = node_named(g, "w: accumulate")->alternatives;
        assert_true(lists(sum->reads, sum->n_reads, part));
        assert_true(lists(sum->adds, sum->n_adds, storage_named(g, "gradient of w")));
        assert_int_equal(sum->workspace_bytes, is_turned ? 6 * 6 * 4 : 0);
        mp_graph_free(g);
        mp_model_free(m);
    }
}

TEST(updates_stand_in_front_when_fused_into_forward)
{
    mp_model *m = two_layers();
    mp_training_options options = plain;
    options.fuse = MP_FUSE_FORWARD;
    mp_graph *g = train(m, &options);
    for (int k = 0; k < 3; k++) assert_int_equal(g->nodes[k].phase, MP_PHASE_UPDATE);
    assert_true(g->storages[storage_named(g, "gradient of w")].carried);
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(without_a_loss_the_gradients_of_the_outputs_are_inputs)
{
    mp_model *m = two_layers();
    const mp_training_options options = {.loss = MP_LOSS_NONE, .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    hand_operator(m, "Split", "y", "first second");
    hand_output(m, "second"); /* no operator reads it */
    mp_graph *g = train(m, &options);
    assert_true(storage_named(g, "second") >= 0);
    int given = storage_named(g, "gradient of y, given");
    assert_true(given >= 0);
    assert_int_equal(g->storages[given].kind, MP_KIND_INPUT);
    assert_int_equal(g->storages[storage_named(g, "y")].kind, MP_KIND_INPUT);
    assert_int_equal(count_phase(g, MP_PHASE_LOSS), 0);
    mp_graph_free(g);
    mp_model_free(m);
}

/* If a parameter, or a view of it, is an output, it gets the given gradient in addition to its reader's gradient. */
TEST(a_parameter_that_is_an_output_gets_the_given_gradient)
{
    for (int rules = 0; rules < MP_N_RULES; rules++)
        for (int is_read = 0; is_read < 2; is_read++)
            for (int is_view = 0; is_view < 2; is_view++) {
                const mp_training_options options = {
                    .loss = MP_LOSS_NONE, .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT, .rules = (mp_rules)rules};
                mp_model *m = new_model();
                hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 3, 4);
                hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 4, 5);
                if (is_view) hand_operator(m, "Identity", "w", "shown");
                hand_output(m, is_view ? "shown" : "w");
                if (is_read) {
                    hand_operator(m, "MatMul", "data w", "y");
                    hand_output(m, "y");
                }
                mp_graph *g = train(m, &options);
                int n = 0, given = storage_named(g, is_view ? "gradient of shown, given" : "gradient of w, given");
                const int gradient = storage_named(g, "gradient of w");
                for (size_t k = 0; k < g->n_nodes; k++) {
                    const mp_alternative *a = g->nodes[k].alternatives;
                    const int *to = is_read ? a->adds : a->writes;
                    const size_t n_to = is_read ? a->n_adds : a->n_writes;
                    n += a->n_reads == 1 && a->reads[0] == given && n_to == 1 && to[0] == gradient;
                }
                assert_int_equal(n, 1);
                mp_graph_free(g);
                mp_model_free(m);
            }
}

/* A single number that the network does not compute is no loss. The loss is another output, or is computed from a target. */
TEST(a_parameter_that_is_an_output_is_no_loss)
{
    for (int form = 0; form < 4; form++) {
        mp_model *m = new_model();
        hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 3, 4);
        hand_tensor(m, "scale", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 0);
        hand_operator(m, "Identity", "scale", "shown");
        hand_operator(m, "Mul", "data scale", "y");
        hand_output(m, form % 2 ? "shown" : "scale");
        if (form / 2) hand_output(m, "y");
        mp_graph *g = train(m, &(mp_training_options){.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT});
        assert_true(reads(g, "update of scale", "gradient of scale"));
        mp_graph_free(g);
        mp_model_free(m);
    }
}

TEST(a_sequence_gets_its_loss_per_position)
{
    mp_model *m = new_model();
    mp_training_options options = plain;
    int loss;
    options.loss = MP_LOSS_AUTO;
    hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 3, 2, 5, 6);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 6, 10);
    hand_operator(m, "MatMul", "data w", "logits");
    hand_output(m, "logits");
    mp_error err = {0};
    if (mp_model_add_loss(m, &options, &loss, &err) != MP_OK) fail_msg("%s", err.message);
    const mp_tensor *target = &m->tensors[mp_model_find(m, "target")];
    assert_int_equal(target->rank, 2);
    assert_true(target->dims[0] == 2 && target->dims[1] == 5);
    assert_int_equal(target->dtype, MP_DTYPE_INT64);
    assert_int_equal(m->tensors[loss].rank, 0);
    mp_model_free(m);
}

TEST(a_scalar_named_as_output_is_the_loss)
{
    mp_model *m = two_layers();
    mp_training_options options = plain;
    mp_error err = {0};
    size_t n = m->n_operators + 1;
    int loss;
    mp_attribute keepdims = {.name = "keepdims", .kind = MP_ATTRIBUTE_INT, .i = 0};
    hand_operator_with(m, "ReduceMean", "", 17, "y", "mean", &keepdims, 1);
    options.output = "mean";
    options.loss = MP_LOSS_AUTO;
    assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_OK);
    assert_int_equal(loss, mp_model_find(m, "mean"));
    assert_int_equal(m->n_operators, n);
    /* cross-entropy, requested by name, cannot be applied to one number */
    options.loss = MP_LOSS_CROSS_ENTROPY;
    assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "'mean'"));
    /* the loss may be a view of the computed number */
    hand_operator(m, "Identity", "mean", "total");
    options.output = "total";
    options.loss = MP_LOSS_AUTO;
    mp_graph *g = train(m, &options);
    assert_int_equal(count_phase(g, MP_PHASE_LOSS), 1);
    for (size_t k = 0; k < g->n_nodes; k++)
        if (g->nodes[k].phase == MP_PHASE_LOSS) assert_string_equal(g->nodes[k].op, "ReduceMean");
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(an_output_without_classes_gets_a_squared_error)
{
    mp_model *m = new_model();
    mp_training_options options = plain;
    int loss;
    options.loss = MP_LOSS_AUTO;
    hand_tensor(m, "data", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 8);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 8, 1);
    hand_operator(m, "MatMul", "data w", "y");
    hand_output(m, "y");
    assert_int_equal(mp_model_add_loss(m, &options, &loss, NULL), MP_OK);
    assert_string_equal(m->operators[m->tensors[loss].producer].kind, "MeanSquaredError");
    mp_model_free(m);
}

TEST(an_operator_without_gradient_is_named)
{
    mp_model *m = two_layers();
    mp_error err = {0};
    mp_graph *g = NULL;
    int loss;
    mp_target target = mp_roofline(mp_device_find("cpu"));
    hand_tensor(m, "d", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 2, 4);
    hand_operator(m, "MatMul", "y d", "s");
    hand_operator(m, "Det", "s", "z");
    const mp_training_options options = {.output = "z", .loss = MP_LOSS_MSE, .dtype = MP_DTYPE_FLOAT};
    assert_int_equal(mp_model_add_loss(m, &options, &loss, &err), MP_OK);
    assert_int_equal(mp_training_graph(m, &options, loss, &target, &g, &err), MP_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Det"));
    assert_null(g);
    mp_model_free(m);
}

TEST(the_roofline_is_the_slower_of_compute_and_memory_plus_the_launch)
{
    const mp_device *a100 = mp_device_find("a100");
    mp_target target = mp_roofline(a100);
    mp_cost cost;
    mp_work work = {.flops = 19.5e12, .moved_bytes = 2039, .dtype = MP_DTYPE_FLOAT};
    assert_int_equal(target.cost(&target, &work, &cost, NULL), MP_OK);
    assert_true(fabs(cost.seconds - 1.000005) < 1e-9);
    work = (mp_work){.flops = 1, .moved_bytes = 2039000000000, .dtype = MP_DTYPE_BFLOAT16};
    assert_int_equal(target.cost(&target, &work, &cost, NULL), MP_OK);
    assert_true(fabs(cost.seconds - 1.000005) < 1e-9);
    const mp_device rounding = mp_device_at_tf32(a100); /* 156 instead of 19.5 TFLOP/s, only for FLOAT */
    work = (mp_work){.flops = 156e12, .moved_bytes = 2039, .dtype = MP_DTYPE_FLOAT};
    assert_true(fabs(mp_roofline_seconds(&rounding, &work) - 1.000005) < 1e-9);
    assert_true(fabs(mp_roofline_seconds(a100, &work) - 8.000005) < 1e-9);
    work.dtype = MP_DTYPE_BFLOAT16;
    assert_true(fabs(mp_roofline_seconds(&rounding, &work) - 0.500005) < 1e-9);
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        assert_true(d->tf32_flops >= d->fp32_flops && d->tf32_flops <= d->bf16_flops);
        assert_true(strcmp(d->name, "cpu") ? d->reserve_bytes >= INT64_C(1) << 30 : !d->reserve_bytes);
        assert_true(d->reserve_bytes < d->memory_bytes / 7);
    }
    assert_null(mp_device_find("abacus"));
}
