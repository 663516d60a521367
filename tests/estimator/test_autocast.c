/* test_autocast.c - mixed precision equals torch.autocast: types, casts and bytes of small models, counted by hand. */
#include "estimator/training/training.h"
#include "memplan/timeline.h"
#include "tests/cases/hand_model.h"
#include "tests/cases/test.h"

typedef struct trained {
    mp_model *model;
    mp_graph *graph;
} trained;

static mp_model *new_model(void)
{
    mp_model *model;
    assert_int_equal(mp_model_new("hand", "", &model, NULL), MP_OK);
    return model;
}

/* Trains with mean squared error, SGD and bf16. Without alignment, bytes are exactly the elements' bytes. */
static trained train(mp_model *model, mp_rules rules)
{
    mp_error err = {0};
    trained t = {.model = model};
    const mp_training_options options = {
        .loss = MP_LOSS_MSE, .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT, .amp = MP_DTYPE_BFLOAT16, .rules = rules};
    int loss;
    mp_device device = *mp_device_find("a100");
    device.alignment = 1;
    const mp_target target = mp_roofline(&device);
    if (mp_model_add_loss(model, &options, &loss, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_training_graph(model, &options, loss, &target, &t.graph, &err) != MP_OK) fail_msg("%s", err.message);
    return t;
}

static void end(trained *t)
{
    mp_graph_free(t->graph);
    mp_model_free(t->model);
}

static int storage_named(const mp_graph *graph, const char *name)
{
    for (size_t s = 0; s < graph->n_storages; s++)
        if (!strcmp(graph->storages[s].name, name)) return (int)s;
    return -1;
}

static int64_t bytes_of(const trained *t, const char *name)
{
    const int s = storage_named(t->graph, name);
    if (s < 0) fail_msg("no storage '%s'", name);
    return t->graph->storages[s].bytes;
}

static mp_dtype type_of(const trained *t, const char *name)
{
    return t->model->tensors[mp_model_find(t->model, name)].dtype;
}

/* Returns whether a node of this kind and phase reads the storage. */
static bool is_read(const trained *t, const char *kind, mp_phase phase, const char *storage)
{
    const int s = storage_named(t->graph, storage);
    if (s < 0) fail_msg("no storage '%s'", storage);
    for (size_t k = 0; k < t->graph->n_nodes; k++) {
        const mp_node *node = &t->graph->nodes[k];
        if (strcmp(node->op, kind) != 0 || node->phase != phase) continue;
        for (size_t r = 0; r < node->alternatives[0].n_reads; r++)
            if (node->alternatives[0].reads[r] == s) return true;
    }
    return false;
}

static size_t count_kind(const trained *t, const char *kind, mp_phase phase)
{
    size_t n = 0;
    for (size_t k = 0; k < t->graph->n_nodes; k++)
        n += !strcmp(t->graph->nodes[k].op, kind) && t->graph->nodes[k].phase == phase;
    return n;
}

static void check_peak(const trained *t, int64_t static_bytes, int64_t others)
{
    mp_step *steps = mp_alloc(t->graph->n_nodes, sizeof *steps);
    mp_timeline *timeline;
    mp_keep_all(t->graph, steps);
    assert_int_equal(mp_timeline_build(t->graph, steps, t->graph->n_nodes, &timeline, NULL), MP_OK);
    assert_int_equal(timeline->static_bytes, static_bytes);
    assert_int_equal(timeline->peak_bytes - timeline->static_bytes, others);
    mp_timeline_free(timeline);
    mp_free(steps);
}

/* x (2, 8) w (8, 4) -> y -> mse */
static mp_model *one_product(void)
{
    mp_model *m = new_model();
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 2, 8);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 8, 4);
    hand_operator(m, "MatMul", "x w", "y");
    hand_output(m, "y");
    return m;
}

TEST(a_product_is_counted_by_hand)
{
    for (int rules = 0; rules < MP_N_RULES; rules++) {
        trained t = train(one_product(), (mp_rules)rules);
        /* Always live: x 2*8*4 = 64, w 8*4*4 = 128, target 2*4*4 = 32, loss 4. Then, step by step:
         *     cast x       x16 32
         *     cast w       x16 32, w16 64
         *     product      x16 32, w16 64, y16 16                   112
         *     cast y       x16 32, (w16 64), y16 16, y32 32         144 with PyTorch's cache, 80 without
         *     loss         x16 32, (w16 64), y32 32
         *     its backward x16 32, y32 32, dy32 32 (in the memory of y32 under the executor's rules)
         *     cast's       x16 32, dy32 32, dy16 16
         *     product's    x16 32, dy16 16, dw16 64                 112
         *     cast's       dw16 64, dw 128                          192: the peak
         *     update       dw 128 */
        check_peak(&t, 64 + 128 + 32 + 4, 192);
        assert_int_equal(bytes_of(&t, "x:bfloat16"), 32);
        assert_int_equal(bytes_of(&t, "w:bfloat16"), 64);
        assert_int_equal(bytes_of(&t, "gradient of w:bfloat16"), 64);
        assert_int_equal(bytes_of(&t, "w"), 128);
        assert_int_equal(bytes_of(&t, "gradient of w"), 128);
        assert_int_equal(bytes_of(&t, "y"), 16);
        assert_int_equal(bytes_of(&t, "y:float32"), 32);
        end(&t);
    }
}

TEST(the_cache_holds_copies_of_parameters_until_the_loss)
{
    trained pytorch = train(one_product(), MP_RULES_PYTORCH), ours = train(one_product(), MP_RULES_EXECUTOR);
    assert_true(is_read(&pytorch, "MeanSquaredError", MP_PHASE_LOSS, "w:bfloat16"));
    assert_false(is_read(&ours, "MeanSquaredError", MP_PHASE_LOSS, "w:bfloat16"));
    assert_false(is_read(&pytorch, "MeanSquaredError", MP_PHASE_LOSS, "x:bfloat16")); /* only casts of parameters are cached */
    assert_false(is_read(&pytorch, "MatMul", MP_PHASE_BACKWARD, "w:bfloat16"));       /* x has no gradient */
    end(&pytorch);
    end(&ours);
}

/* Two products of one activation with one parameter: y = r w + r w, r = x * s. */
static mp_model *shared(void)
{
    mp_model *m = new_model();
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 2, 4);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 4, 4);
    hand_tensor(m, "s", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 1, 4);
    hand_operator(m, "Mul", "x s", "r");
    hand_operator(m, "MatMul", "r w", "a");
    hand_operator(m, "MatMul", "r w", "b");
    hand_operator(m, "Add", "a b", "y");
    hand_output(m, "y");
    return m;
}

TEST(copies_of_activations_are_not_shared_in_pytorch)
{
    trained pytorch = train(shared(), MP_RULES_PYTORCH), ours = train(shared(), MP_RULES_EXECUTOR);
    /* casts of w, r, r again, and y for the loss; the executor's rules need no second cast of r */
    assert_int_equal(count_kind(&pytorch, "Cast", MP_PHASE_FORWARD), 4);
    assert_int_equal(count_kind(&ours, "Cast", MP_PHASE_FORWARD), 3);
    assert_int_equal(count_kind(&pytorch, "Cast", MP_PHASE_BACKWARD), 4);
    assert_true(is_read(&pytorch, "Mul", MP_PHASE_BACKWARD, "gradient of r")); /* float32, like r */
    assert_int_equal(bytes_of(&pytorch, "gradient of r"), 2 * 4 * 4);
    assert_int_equal(bytes_of(&pytorch, "y"), 2 * 4 * 2); /* y sums two 16-bit tensors */
    end(&pytorch);
    end(&ours);
}

TEST(lists_say_what_is_wide)
{
    mp_model *m = new_model();
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 2, 8);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 8, 4);
    hand_tensor(m, "scale", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 1, 4);
    hand_tensor(m, "two", MP_ROLE_CONSTANT, MP_DTYPE_FLOAT, 0);
    hand_operator(m, "MatMul", "x w", "h");
    hand_operator(m, "Relu", "h", "r");
    hand_operator(m, "Mul", "two r", "m"); /* a scalar does not widen the type */
    hand_operator(m, "Softmax", "m", "p");
    hand_operator(m, "Pow", "m two", "q");
    hand_operator(m, "Mul", "m scale", "n");
    hand_operator_with(m, "LayerNormalization", "", 17, "n scale scale", "l", NULL, 0);
    hand_operator(m, "Add", "p q", "o");
    hand_operator(m, "Add", "o l", "k");
    hand_operator(m, "Concat", "k r", "y"); /* axis 1 */
    hand_output(m, "y");
    trained t = train(m, MP_RULES_PYTORCH);
    assert_int_equal(type_of(&t, "h"), MP_DTYPE_BFLOAT16);
    assert_int_equal(type_of(&t, "r"), MP_DTYPE_BFLOAT16);
    assert_int_equal(type_of(&t, "m"), MP_DTYPE_BFLOAT16);
    assert_int_equal(type_of(&t, "p"), MP_DTYPE_FLOAT); /* WIDENED: reads m itself, without a cast */
    assert_int_equal(type_of(&t, "q"), MP_DTYPE_FLOAT); /* FULL: reads a cast copy */
    assert_int_equal(type_of(&t, "n"), MP_DTYPE_FLOAT); /* promoted, because scale has dimensions */
    assert_true(is_read(&t, "Softmax", MP_PHASE_FORWARD, "m"));
    assert_false(is_read(&t, "Pow", MP_PHASE_FORWARD, "m"));
    assert_true(is_read(&t, "Pow", MP_PHASE_BACKWARD, "m:float32"));
    assert_true(is_read(&t, "Concat", MP_PHASE_FORWARD, "r:float32")); /* cat needs operands of one type */
    assert_int_equal(bytes_of(&t, "gradient of m"), 2 * 4 * 2);
    end(&t);
}

TEST(products_are_timed_in_the_type_they_run_in)
{
    mp_model *m = new_model();
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4096, 4096);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 4096, 4096);
    hand_operator(m, "MatMul", "x w", "y");
    hand_output(m, "y");
    trained t = train(m, MP_RULES_PYTORCH);
    for (size_t k = 0; k < t.graph->n_nodes; k++) {
        const mp_node *node = &t.graph->nodes[k];
        /* 2 * 4096^3 FLOPs at 312 TFLOP/s, 5 us to launch, a tick of 1 ns */
        if (!strcmp(node->op, "MatMul"))
            assert_int_equal(node->alternatives[0].ticks, (int64_t)(2.0 * 4096 * 4096 * 4096 / 312e12 * 1e9 + 5000.5));
    }
    end(&t);
}
