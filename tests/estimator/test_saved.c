/* test_saved.c - bytes saved for backward under PyTorch's rules, compared with PyTorch's own report (train mode, fp32, CPU,
 * before any loss). The models in examples/ are always checked. All of truth/truth.csv is checked if $DATA has the file of
 * PyTorch 1.13. */
#include "memplan/memplan.h"
#include "memplan/onnx.h"
#include "tests/cases/data_file.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

typedef struct bytes {
    int64_t saved, workspace;
} bytes;

static bytes bytes_of(const char *path, int64_t batch, mp_rules rules, mp_loss appended)
{
    mp_error err = {0};
    mp_onnx_options read = {.batch = batch};
    mp_training_options options = {.loss = appended, .dtype = MP_DTYPE_FLOAT, .rules = rules};
    mp_target target = mp_roofline(mp_device_find("a100"));
    mp_model *model = NULL;
    mp_graph *graph = NULL;
    mp_summary summary;
    int loss;
    if (mp_onnx_read(path, &read, &model, &err) != MP_OK || mp_model_simplify(model, rules, true, NULL, &err) != MP_OK ||
        (rules == MP_RULES_PYTORCH && mp_model_fuse_attention(model, rules, false, NULL, &err) != MP_OK) ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
        mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK ||
        mp_summarize(graph, rules, &summary, &err) != MP_OK)
        fail_msg("%s: %s", path, err.message);
    const bytes found = {summary.saved_activation_bytes, summary.workspace_bytes};
    mp_summary_free(&summary);
    mp_graph_free(graph);
    mp_model_free(model);
    return found;
}

static int64_t saved_bytes(const char *path, int64_t batch, mp_rules rules)
{
    return bytes_of(path, batch, rules, MP_LOSS_NONE).saved;
}

TEST(pytorch_keeps_these_bytes_of_the_examples)
{
    assert_int_equal(saved_bytes("examples/mlp4.onnx", 128, MP_RULES_PYTORCH), 1976320);
    assert_int_equal(saved_bytes("examples/resnet50.onnx", 2, MP_RULES_PYTORCH), 172031488);
    assert_int_equal(saved_bytes("examples/resnet50.onnx", 8, MP_RULES_PYTORCH), 687488512);
}

/* Activations and equivalent formulas, a recurrent layer before a linear one, group normalization, products of transposed
 * tensors, layouts and masks of attention, functions that exporters write as several operators, contiguous copies. The bytes
 * are PyTorch 2.15's report: tests/exports.py --only saved own/formulas own/calls, and so on. */
TEST(pytorch_keeps_these_bytes_of_what_it_runs_as_one_or_as_many)
{
    static const struct {
        const char *network;
        int64_t bytes;
        const char *exporters; /* the exporters whose file has every operator that PyTorch runs */
    } rows[] = {{"own_formulas", 15872, "dynamo torchscript"},
                {"own_lstm_into_linear", 97792, "dynamo torchscript"},
                {"own_group_norms", 49280, "dynamo torchscript"},
                {"own_turned_products", 21504, "dynamo torchscript"},
                {"own_attention_by_columns", 2627712, "dynamo torchscript"},
                {"own_attention_layouts", 217344, "dynamo torchscript"},
                {"own_attention_masks", 179712, "dynamo torchscript"},
                {"calls/own_padded_encoder", 127488, "dynamo torchscript"},
                {"calls/own_many_rows", 131200, "dynamo torchscript"},
                {"calls/own_calls", 29968, "dynamo torchscript"},
                {"calls/own_largest", 7424, "dynamo"},
                {"calls/own_normalized", 12416, "torchscript"},
                {"own_contiguous", 49920, "dynamo"}};
    static const char *const exporters[] = {"dynamo", "torchscript"};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (size_t e = 0; e < 2; e++) {
            if (!strstr(rows[k].exporters, exporters[e])) continue;
            char path[128];
            snprintf(path, sizeof path, "tests/networks/files/%s.%s.onnx", rows[k].network, exporters[e]);
            const int64_t found = saved_bytes(path, 0, MP_RULES_PYTORCH);
            if (found != rows[k].bytes) fail_msg("%s: %" PRId64 " bytes, not %" PRId64, path, found, rows[k].bytes);
        }
}

typedef struct formula {
    const char *text;
    int64_t bytes;
} formula;

static void check_formulas(const formula *rows, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        mp_graph *graph = NULL;
        mp_summary summary;
        mp_error err = {0};
        mp_training_options options = {.loss = MP_LOSS_NONE, .dtype = MP_DTYPE_FLOAT, .rules = MP_RULES_PYTORCH};
        mp_target target = mp_roofline(mp_device_find("a100"));
        mp_model *model = model_text(rows[k].text);
        int loss;
        if (mp_model_simplify(model, MP_RULES_PYTORCH, true, NULL, &err) != MP_OK ||
            mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
            mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK ||
            mp_summarize(graph, MP_RULES_PYTORCH, &summary, &err) != MP_OK)
            fail_msg("%s: %s", rows[k].text, err.message);
        if (summary.saved_activation_bytes != rows[k].bytes)
            fail_msg("%s: %" PRId64 " bytes, not %" PRId64, rows[k].text, summary.saved_activation_bytes, rows[k].bytes);
        mp_summary_free(&summary);
        mp_graph_free(graph);
        mp_model_free(model);
    }
}

/* PyTorch stores the result of an elementwise operator, and of attention, in the order in which an operand is stored. A
 * product or reshape then copies it. The bytes are PyTorch 2.15's report on these formulas: 60 elements per tensor, of 4
 * bytes. */
TEST(results_are_stored_in_the_order_of_their_operands)
{
#define TURNED "data x 3 5 4; param w 4 4; param u 4 4; data z 5 3 4; MatMul x w -> a; Transpose a -> t perm=[1,0,2]; "
#define HEADS                                                                                              \
    "data x 1 5 12; param w 12 12; param u 12 12; ints split 1 5 3 4; ints flat 1 5 12; MatMul x w -> a; " \
    "Reshape a split -> h; Transpose h -> t perm=[0,2,1,3]; memplan:ScaledDotProductAttention@1 t t t -> s; "
    enum { WHOLE = 240, SUMS = 60 };
    static const formula rows[] = {
        {TURNED "MatMul t u -> y; out y", 2 * WHOLE},
        {TURNED "Relu t -> r; MatMul r u -> y; out y", 3 * WHOLE},
        {TURNED "Softmax t -> r axis=-1; MatMul r u -> y; out y", 2 * WHOLE},
        {TURNED "Add t z -> r; MatMul r u -> y; out y", 2 * WHOLE},
        {TURNED "Relu t -> r; Transpose r -> b perm=[1,0,2]; MatMul b u -> y; out y", 2 * WHOLE},
        {TURNED "Identity t -> r copies=1; Relu r -> q; MatMul q u -> y; out y", 2 * WHOLE},
        {HEADS "Transpose s -> b perm=[0,2,1,3]; Reshape b flat -> r; MatMul r u -> y; out y", 3 * WHOLE + SUMS},
        {HEADS "Reshape s flat -> r; MatMul r u -> y; out y", 4 * WHOLE + SUMS},
        {HEADS "Relu s -> c; Transpose c -> b perm=[0,2,1,3]; Reshape b flat -> r; MatMul r u -> y; out y", 4 * WHOLE + SUMS}};
#undef TURNED
#undef HEADS
    check_formulas(rows, sizeof rows / sizeof *rows);
}

/* rsqrt saves its result only. If another operator reads the square root, or the sigmoid of a gated linear unit, PyTorch has
 * called that function alone, and it saves its result too. The bytes follow from derivatives.yaml of PyTorch: 12 elements of 4
 * bytes per tensor. */
TEST(values_within_a_call_are_saved_if_others_read_them)
{
#define ROOT "data x 3 4; param w 4 4; param u 4 4; data z 3 4; const one 1; MatMul x w -> a; Sqrt a -> r; "
#define GATE \
    "data x 3 4; param w 4 8; param u 4 4; data z 3 4; MatMul x w -> a; Split a -> b c axis=1; Sigmoid c -> g; Mul b g -> p; "
    enum { WHOLE = 48 };
    static const formula rows[] = {{ROOT "Div one r -> i; Add i z -> s; MatMul s u -> y; out y", 3 * WHOLE},    /* x, i, s */
                                   {ROOT "Reciprocal r -> i; Add i z -> s; MatMul s u -> y; out y", 3 * WHOLE}, /* x, i, s */
                                   {ROOT "Div one r -> i; Add i r -> s; MatMul s u -> y; out y", 3 * WHOLE},    /* x, r, s */
                                   {GATE "Add p z -> s; MatMul s u -> y; out y", 4 * WHOLE},  /* x, a, s; a is twice as large */
                                   {GATE "Add p g -> s; MatMul s u -> y; out y", 5 * WHOLE}}; /* x, a, g, s */
#undef ROOT
#undef GATE
    check_formulas(rows, sizeof rows / sizeof *rows);
}

TEST(our_executor_keeps_less)
{
    assert_true(saved_bytes("examples/resnet50.onnx", 8, MP_RULES_EXECUTOR) < 687488512);
}

/* PyTorch holds nll_loss's gradient together with log_softmax's: 128 samples of 1000 scores. The executor's loss writes only
 * the latter. */
TEST(cross_entropy_holds_two_gradients_of_the_scores)
{
    const char *const path = "examples/resnet50.onnx";
    assert_int_equal(bytes_of(path, 128, MP_RULES_PYTORCH, MP_LOSS_CROSS_ENTROPY).workspace, 128 * 1000 * 4);
    assert_int_equal(bytes_of(path, 128, MP_RULES_EXECUTOR, MP_LOSS_CROSS_ENTROPY).workspace, 0);
    assert_int_equal(bytes_of(path, 128, MP_RULES_PYTORCH, MP_LOSS_MSE).workspace, 0);
}

/* Stochastic depth draws one number per sample and block. PyTorch saves it; these exports do not contain it. */
static int64_t noise_bytes(const char *model, int64_t batch)
{
    if (!strcmp(model, "efficientnet_b0")) return 9 * 4 * batch;
    if (!strcmp(model, "convnext_tiny")) return 17 * 4 * batch;
    return 0;
}

/* The table was made with PyTorch 1.13.1, whose mean saved its input. Since 2.0 it saves only the sizes. The rows list PyTorch
 * 2.15's bytes for torchvision networks in which no other operator saves this input. */
static int64_t reported_since(const char *model, int64_t batch, int64_t bytes)
{
    static const struct {
        const char *model;
        int64_t of_two, of_eight;
    } rows[] = {{"inception_v3", 196499032, 785582944},
                {"mobilenet_v2", 156555520, 625812736},
                {"mobilenet_v3_large", 88325504, 353009216},
                {"efficientnet_b0", 176556168, 705720480},
                {"convnext_tiny", 218311752, 873247008}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(model, rows[k].model)) return batch == 2 ? rows[k].of_two : rows[k].of_eight;
    return bytes;
}

TEST(pytorch_keeps_what_the_table_says)
{
    enum { MODEL, BATCH, SAVED = 6, N_COLUMNS };
    const char *path = data_file("truth/truth.csv");
    if (!path) skip();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    int n = 0, wrong = 0;
    assert_non_null(fgets(line, sizeof line, file)); /* skips the header */
    if (!strstr(line, "saved_tensor_count")) {
        fclose(file);
        print_message("SKIPPED: %s is of another PyTorch than 1.13, which writes other files and keeps other bytes\n", path);
        skip();
    }
    while (fgets(line, sizeof line, file)) {
        char *columns[N_COLUMNS], *rest = line;
        for (int k = 0; k < N_COLUMNS; k++) assert_non_null(columns[k] = strsep(&rest, ","));
        int64_t batch = strtoll(columns[BATCH], NULL, 10), truth = strtoll(columns[SAVED], NULL, 10);
        truth = reported_since(columns[MODEL], batch, truth);
        path = data_file("models/%s.onnx", columns[MODEL]);
        assert_non_null(path);
        int64_t found = saved_bytes(path, batch, MP_RULES_PYTORCH) + noise_bytes(columns[MODEL], batch);
        n++;
        if (found == truth) continue;
        wrong++;
        print_error("%s, batch %" PRId64 ": %" PRId64 " bytes, not %" PRId64 "\n", path, batch, found, truth);
    }
    fclose(file);
    print_message("%d rows of truth.csv compared\n", n);
    assert_int_equal(wrong, 0);
    assert_true(n >= 44);
}
