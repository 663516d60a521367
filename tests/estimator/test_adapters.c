/* test_adapters.c - low-rank adapters beside products: trained parameters and saved activations, counted by hand. */
#include "estimator/training/adapters.h"
#include "estimator/training/training.h"
#include "memplan/summary.h"
#include "tests/cases/hand_model.h"
#include "tests/cases/test.h"

/* x (4, 8) -> relu(x w + b) -> v -> y (4, 2). */
static mp_model *two_layers(void)
{
    mp_model *m;
    assert_int_equal(mp_model_new("hand", "", &m, NULL), MP_OK);
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 8);
    hand_tensor(m, "w.weight", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 8, 16);
    hand_tensor(m, "b", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 1, 16);
    hand_tensor(m, "v", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 16, 2);
    hand_operator(m, "Gemm", "x w.weight b", "h");
    hand_operator(m, "Relu", "h", "r");
    hand_operator(m, "MatMul", "r v", "y");
    hand_output(m, "y");
    return m;
}

static mp_status add(mp_model *m, mp_rules rules, const char *train, mp_error *err, size_t n, ...)
{
    const char *wanted[4];
    va_list args;
    va_start(args, n);
    for (size_t k = 0; k < n; k++) wanted[k] = va_arg(args, const char *);
    va_end(args);
    const mp_adapters adapters = {.wanted = wanted, .n = n, .train = &train, .n_train = train ? 1 : 0, .rules = rules};
    return mp_model_add_adapters(m, &adapters, err);
}

static mp_graph *train(mp_model *m, mp_rules rules)
{
    mp_error err = {0};
    mp_graph *g = NULL;
    mp_device device = *mp_device_find("a100");
    int loss;
    device.alignment = 1;
    const mp_target target = mp_roofline(&device);
    const mp_training_options options = {
        .loss = MP_LOSS_MSE, .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT, .rules = rules};
    if (mp_model_add_loss(m, &options, &loss, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_training_graph(m, &options, loss, &target, &g, &err) != MP_OK) fail_msg("%s", err.message);
    return g;
}

static size_t count_phase(const mp_graph *g, mp_phase phase)
{
    size_t n = 0;
    for (size_t k = 0; k < g->n_nodes; k++) n += g->nodes[k].phase == phase;
    return n;
}

static const mp_tensor *tensor(const mp_model *m, const char *name)
{
    const int t = mp_model_find(m, name);
    if (t < 0) fail_msg("there is no tensor '%s'", name);
    return &m->tensors[t];
}

static void check_two_layers(mp_rules rules, size_t n_forward)
{
    mp_error err = {0};
    mp_summary sum;
    mp_model *m = two_layers();
    if (add(m, rules, NULL, &err, 2, "2:w*", "3:v") != MP_OK) fail_msg("%s", err.message);
    mp_graph *g = train(m, rules);
    assert_int_equal(mp_summarize(g, rules, &sum, NULL), MP_OK);
    /* frozen: w 8 x 16, b 16, v 16 x 2; adapters of w: 8 x 2 and 2 x 16; of v: 16 x 3 and 3 x 2 */
    const int64_t frozen = 8 * 16 + 16 + 16 * 2, adapters = 8 * 2 + 2 * 16 + 16 * 3 + 3 * 2;
    assert_int_equal(sum.kind_bytes[MP_KIND_PARAMETER], 4 * (frozen + adapters));
    assert_int_equal(sum.kind_bytes[MP_KIND_GRADIENT], 4 * adapters);
    /* saved: x A of w and of v, the relu's result (A of v reads it too), and the prediction for mse. PyTorch's count includes x
     * and the target. */
    assert_int_equal(sum.saved_activation_bytes, 4 * 4 * (2 + 3 + 16 + 2 + (rules == MP_RULES_PYTORCH ? 8 + 2 : 0)));
    assert_int_equal(count_phase(g, MP_PHASE_FORWARD), n_forward);
    assert_int_equal(count_phase(g, MP_PHASE_UPDATE), 4);
    mp_summary_free(&sum);
    mp_graph_free(g);
    mp_model_free(m);
}

TEST(bytes_of_two_layers_are_as_counted_by_hand)
{
    check_two_layers(MP_RULES_EXECUTOR, 3 + 2 * 3); /* per adapter, two products and a sum */
    check_two_layers(MP_RULES_PYTORCH, 3 + 2 * 4);  /* per adapter, also the scaling */
}

/* Backward nodes: mse 1. For v: one for its input, two each for A and B. Relu 1. For w: B two, A one, because x is data. If b
 * is trained: one more. */
TEST(backward_passes_what_is_frozen)
{
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        mp_error err = {0};
        mp_model *m = two_layers();
        if (add(m, MP_RULES_EXECUTOR, with_bias ? "b" : NULL, &err, 1, "2:[vw]*") != MP_OK) fail_msg("%s", err.message);
        mp_graph *g = train(m, MP_RULES_EXECUTOR);
        assert_int_equal(count_phase(g, MP_PHASE_BACKWARD), 10 + with_bias);
        assert_int_equal(count_phase(g, MP_PHASE_UPDATE), 4 + with_bias);
        assert_int_equal(tensor(m, "b")->is_frozen, !with_bias);
        assert_true(tensor(m, "w.weight")->is_frozen && tensor(m, "v")->is_frozen);
        mp_graph_free(g);
        mp_model_free(m);
    }
}

TEST(adapters_stand_behind_their_product_under_its_names)
{
    static const char *const kinds[] = {"Gemm", "MatMul", "FusedMatMul", "Add", "Relu", "MatMul"};
    mp_error err = {0};
    mp_model *m = two_layers();
    if (add(m, MP_RULES_EXECUTOR, NULL, &err, 1, "4:w.weight") != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(m->n_operators, 6);
    for (size_t k = 0; k < 6; k++) {
        assert_string_equal(m->operators[k].kind, kinds[k]);
        assert_int_equal(m->tensors[m->operators[k].out[0]].producer, k);
    }
    assert_true(mp_operator_float(&m->operators[2], "alpha", 1) == 2); /* alpha 8 over rank 4 */
    assert_int_equal(tensor(m, "h")->producer, 3);
    assert_int_equal(m->operators[4].in[0], mp_model_find(m, "h"));
    const mp_tensor *a = tensor(m, "w.lora_A.weight"), *b = tensor(m, "w.lora_B.weight");
    assert_true(a->rank == 2 && a->dims[0] == 8 && a->dims[1] == 4 && !a->starts_at_zero && !a->is_frozen);
    assert_true(b->rank == 2 && b->dims[0] == 4 && b->dims[1] == 16 && b->starts_at_zero && !b->is_frozen);
    mp_model_free(m);
}

/* Two products read the same matrix, one of them transposed. It gets one adapter, from the first matching pattern. */
TEST(a_shared_matrix_has_one_adapter)
{
    mp_error err = {0};
    mp_model *m;
    assert_int_equal(mp_model_new("hand", "", &m, NULL), MP_OK);
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 4, 8);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, 8, 8);
    hand_operator(m, "MatMul", "x w", "h");
    hand_operator(m, "MatMul", "h w", "y");
    hand_output(m, "y");
    assert_int_equal(mp_adapter_matrices(m, "w"), 2);
    assert_int_equal(mp_adapter_matrices(m, "x"), 0);
    if (add(m, MP_RULES_EXECUTOR, NULL, &err, 2, "3:w", "5:*") != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(m->n_operators, 8);
    assert_int_equal(m->operators[1].in[1], m->operators[5].in[1]);
    assert_int_equal(tensor(m, "w.lora_A")->dims[1], 3);
    assert_int_equal(mp_model_find(m, "w.lora_A_1"), -1);
    mp_model_free(m);
}

/* y = x w with w stored as out x in: A has as many rows as x has columns. */
TEST(a_matrix_that_is_read_transposed_keeps_its_sides)
{
    const mp_attribute turned = {.name = "transB", .kind = MP_ATTRIBUTE_INT, .i = 1},
                       wrong = {.name = "transA", .kind = MP_ATTRIBUTE_INT, .i = 1};
    for (int fails = 0; fails < 2; fails++) {
        mp_error err = {0};
        mp_model *m;
        assert_int_equal(mp_model_new("hand", "", &m, NULL), MP_OK);
        hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 2, 8, 8);
        hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT, 2, fails ? 8 : 5, 8);
        hand_operator_with(m, "Gemm", "", 13, "x w", "y", fails ? &wrong : &turned, 1);
        hand_output(m, "y");
        const mp_status st = add(m, MP_RULES_EXECUTOR, NULL, &err, 1, "2:w");
        assert_int_equal(st, fails ? MP_UNSUPPORTED : MP_OK);
        if (fails) assert_non_null(strstr(err.message, "transposed"));
        if (!fails) assert_int_equal(tensor(m, "w.lora_A")->dims[0], 8);
        if (!fails) assert_int_equal(tensor(m, "w.lora_B")->dims[1], 5);
        mp_model_free(m);
    }
}

TEST(what_cannot_be_meant_is_refused)
{
    static const struct {
        const char *wanted, *says;
    } cases[] = {
        {"8", "RANK:PATTERN"},  {"w", "RANK:PATTERN"},       {"0:w", "RANK:PATTERN"}, {"-1:w", "RANK:PATTERN"},
        {"8:", "RANK:PATTERN"}, {"65537:v", "RANK:PATTERN"}, {"8:b", "'b' is read"},  {"8:nosuch", "one of the matrices is"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        mp_model *m = two_layers();
        assert_int_equal(add(m, MP_RULES_EXECUTOR, NULL, &err, 1, cases[k].wanted), MP_INVALID);
        if (!strstr(err.message, cases[k].says)) fail_msg("%s: %s", cases[k].wanted, err.message);
        assert_int_equal(m->n_operators, 3);
        mp_model_free(m);
    }
}
