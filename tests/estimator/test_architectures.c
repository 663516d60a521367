/* test_architectures.c - architectures selected by name: parameter counts equal the published ones, all layers are equal,
 * attention is recognised, and a layer saves as many bytes as the literature states. */
#include "estimator/model/model.h"
#include "memplan/architecture.h"
#include "memplan/memplan.h"
#include "memplan/simplify.h"
#include "tests/cases/test.h"

static mp_architecture named(const char *name)
{
    const mp_architecture *found = mp_architecture_find(name);
    if (!found) fail_msg("there is no '%s'", name);
    return *found;
}

static mp_model *built(const mp_architecture *a, int64_t batch, int64_t sequence)
{
    mp_error err = {0};
    mp_model *model = NULL;
    if (mp_architecture_model(a, batch, sequence, &model, &err) != MP_OK) fail_msg("%s: %s", a->name, err.message);
    return model;
}

/* Counted by transformers 5.24 on the meta device: GPT2LMHeadModel, LlamaForCausalLM, MixtralForCausalLM, BertModel,
 * ViTForImageClassification and T5ForConditionalGeneration. shapes.def names their configurations. Only GPT-2 and T5 tie
 * weights. The count of megatron-7b was computed by hand from the arguments of its test. */
TEST(parameters_are_the_published_ones)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } published[] = {{"gpt2", 124439808},
                     {"gpt2-medium", 354823168},
                     {"gpt2-large", 774030080},
                     {"gpt2-xl", 1557611200},
                     {"gpt3-13b", 12853386240},
                     {"gpt3-175b", 174604259328},
                     {"megatron-22b", 22074273792},
                     {"megatron-175b", 174615846912},
                     {"megatron-530b", 529600819200},
                     {"megatron-1t", 1008038758400},
                     {"megatron-7b", 6747004928},
                     {"llama2-7b", 6738415616},
                     {"llama2-13b", 13015864320},
                     {"llama2-70b", 68976648192},
                     {"llama3-8b", 8030261248},
                     {"llama3-70b", 70553706496},
                     {"llama3-405b", 405853388800},
                     {"qwen3-1.7b", 1720574976},
                     {"mixtral-8x7b", 46702792704},
                     {"bert-base", 109482240},
                     {"bert-large", 335141888},
                     {"vit-base", 86567656},
                     {"vit-large", 304326632},
                     {"vit-huge", 632045800},
                     {"t5-small", 60506624},
                     {"t5-base", 222903552},
                     {"t5-large", 737668096},
                     {"t5-3b", 2851598336},
                     {"t5-11b", 11307321344}};
    assert_int_equal(mp_architecture_count(), sizeof published / sizeof *published);
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        const mp_architecture *a = mp_architecture_row(k);
        mp_error err = {0};
        int64_t n = 0;
        assert_string_equal(a->name, published[k].name);
        if (mp_architecture_parameters(a, &n, &err) != MP_OK) fail_msg("%s: %s", a->name, err.message);
        if (n != published[k].parameters) fail_msg("%s: %" PRId64 ", not %" PRId64, a->name, n, published[k].parameters);
    }
    assert_null(mp_architecture_row(mp_architecture_count()));
}

TEST(names_are_written_as_people_like)
{
    static const char *const written[] = {"gpt3-175b", "GPT-3 175B", "gpt3 175B", "GPT3_175b"};
    for (size_t k = 0; k < sizeof written / sizeof *written; k++) assert_string_equal(named(written[k]).name, "gpt3-175b");
    assert_null(mp_architecture_find("gpt3"));
    assert_null(mp_architecture_find(""));
}

/* Compares the name of a tensor or operator with its counterpart in the previous layer. Only the layer number may differ. */
static bool differs_by_layer(const char *name, const char *before, const char *stack, int layer)
{
    char first[32], second[32];
    snprintf(first, sizeof first, "%slayers.%d", stack, layer - 1);
    snprintf(second, sizeof second, "%slayers.%d", stack, layer);
    const size_t n = strlen(first);
    return !strncmp(before, first, n) && !strncmp(name, second, strlen(second)) && !strcmp(before + n, name + strlen(second));
}

/* Compares layers 1 and 2 of a four-layer model: same operators in the same order, and tensors of the same names, types and
 * shapes. */
static void compare_layers(const mp_model *model, const char *stack)
{
    size_t start[4] = {0}, n;
    char first[32];
    snprintf(first, sizeof first, "%slayers.0", stack);
    for (size_t op = model->n_operators; op-- > 0;)
        for (int layer = 0; layer < 4; layer++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "%slayers.%d/", stack, layer);
            if (!strncmp(model->operators[op].name, prefix, strlen(prefix))) start[layer] = op;
        }
    n = start[2] - start[1];
    assert_int_equal(start[3] - start[2], n);
    assert_true(n > 10);
    for (size_t j = 0; j < n; j++) {
        const mp_operator *one = &model->operators[start[1] + j], *two = &model->operators[start[2] + j];
        assert_string_equal(one->kind, two->kind);
        assert_true(differs_by_layer(two->name, one->name, stack, 2));
        assert_int_equal(one->n_in, two->n_in);
        for (int i = 0; i < one->n_in; i++) {
            const mp_tensor *x = mp_operator_in(model, one, i), *y = mp_operator_in(model, two, i);
            if (!mp_same_shape(x, y)) fail_msg("%s and %s", x->name, y->name);
            if (x != y && strncmp(x->name, first, strlen(first)) != 0 && !differs_by_layer(y->name, x->name, stack, 2))
                fail_msg("%s and %s", x->name, y->name);
        }
    }
}

TEST(layers_are_equal)
{
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        mp_architecture a = *mp_architecture_row(k);
        a.layers = 4;
        mp_model *model = built(&a, a.experts ? 8 : 2, a.patch ? 0 : 64);
        compare_layers(model, a.family == MP_FAMILY_T5 ? "encoder." : "");
        if (a.family == MP_FAMILY_T5) compare_layers(model, "decoder.");
        mp_model_free(model);
    }
}

/* Includes masks with too many elements to be folded (512 positions have 262,144 elements). Such masks must be recognised as
 * causal. */
TEST(attention_is_recognised)
{
    static const mp_rules rules[] = {MP_RULES_EXECUTOR, MP_RULES_PYTORCH};
    for (size_t k = 0; k < mp_architecture_count(); k++)
        for (size_t r = 0; r < 2; r++)
            for (int64_t sequence = 64; sequence <= 512; sequence *= 8) {
                mp_architecture a = *mp_architecture_row(k);
                mp_error err = {0};
                mp_attention_report report;
                a.layers = 2;
                mp_model *model = built(&a, a.experts ? 8 : 1, a.patch ? 0 : sequence);
                if (mp_model_simplify(model, rules[r], true, NULL, &err) != MP_OK ||
                    mp_model_fuse_attention(model, rules[r], false, &report, &err) != MP_OK)
                    fail_msg("%s: %s", a.name, err.message);
                /* PyTorch runs attention with dropout as separate operators. In T5, the two fused ones are the decoder's
                 * cross-attentions. The other attentions add trained position distances to their scores. */
                const int expected = rules[r] == MP_RULES_PYTORCH && a.attention_dropout > 0 ? 0 : 2;
                if (report.n != expected) fail_msg("%s: %d attentions", a.name, report.n);
                for (size_t j = 0; j < model->n_operators; j++) {
                    const mp_operator *op = &model->operators[j];
                    if (strcmp(op->kind, "ScaledDotProductAttention") != 0) continue;
                    const bool is_causal = a.family == MP_FAMILY_GPT || a.family == MP_FAMILY_LLAMA;
                    assert_int_equal(mp_operator_int(op, "causal", 0), is_causal);
                    const double scale = a.family == MP_FAMILY_T5 ? 1 : 1 / sqrt((double)(a.width / a.heads));
                    assert_true(fabs(mp_operator_float(op, "scale", 1) - scale) < 1e-6);
                    if (rules[r] == MP_RULES_PYTORCH)
                        assert_int_equal(mp_operator_int(op, "groups", 1), a.heads / a.key_value_heads);
                }
                mp_model_free(model);
            }
}

/* The positions have more elements than the model folds. A mask of 2^38 elements would be the largest tensor of the step. */
TEST(the_longest_sequences_store_no_mask)
{
    static const char *const names[] = {"gpt2", "llama3-8b"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        mp_architecture a = named(names[k]);
        mp_error err = {0};
        mp_attention_report report;
        a.layers = 1;
        mp_model *model = built(&a, 1, 1 << 19);
        assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
        assert_int_equal(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err), MP_OK);
        assert_int_equal(report.n, 1);
        for (size_t j = 0; j < model->n_operators; j++) {
            const mp_operator *op = &model->operators[j];
            if (strcmp(op->kind, "ScaledDotProductAttention") != 0) continue;
            assert_int_equal(mp_operator_int(op, "causal", 0), 1);
            assert_null(mp_operator_in(model, op, 4));
        }
        mp_model_free(model);
    }
}

/* If attention computes gradients of the tensor added to its scores, all attentions of T5 are fused: with two layers, two in
 * the encoder and four in the decoder. */
TEST(distances_that_learn_are_added_within_attention)
{
    mp_architecture a = named("t5-small");
    mp_error err = {0};
    mp_attention_report report;
    a.layers = 2;
    mp_model *model = built(&a, 2, 64);
    int n_added = 0, n_masked = 0;
    assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
    assert_int_equal(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, true, &report, &err), MP_OK);
    assert_int_equal(report.n, 6);
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (strcmp(op->kind, "ScaledDotProductAttention") != 0) continue;
        n_added += mp_operator_in(model, op, 3) != NULL;
        n_masked += mp_operator_in(model, op, 4) != NULL || mp_operator_int(op, "causal", 0);
        assert_true(mp_operator_float(op, "scale", 1) == 1);
    }
    assert_int_equal(n_added, 4);
    assert_int_equal(n_masked, 2);
    mp_model_free(model);
}

/* Compares the rows of a distance table with the expected starts of each row. Keys range from 511 before a query to 511 after
 * it. */
static void compare_rows(const mp_model *model, const char *constant, const int begins[][2], size_t n)
{
    const mp_attribute *value = NULL;
    for (size_t k = 0; k < model->n_operators; k++)
        if (!strcmp(model->operators[k].name, constant)) value = mp_operator_attribute(&model->operators[k], "value");
    assert_non_null(value);
    assert_int_equal(value->dims[0], 1023);
    for (int distance = -511, at = -1; distance < 512; distance++) {
        if (at + 1 < (int)n && begins[at + 1][0] == distance) at++;
        if (value->value->i[distance + 511] != begins[at][1])
            fail_msg("%s, %d: row %" PRId64 ", not %d", constant, distance, value->value->i[distance + 511], begins[at][1]);
    }
}

/* Computed by T5Attention._relative_position_bucket of transformers 5.24: the first distance of each row, and the row. */
TEST(distances_share_rows_as_in_transformers)
{
    static const int both[][2] = {{-511, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8},
                                  {-7, 7},    {-6, 6},   {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},  {0, 0},
                                  {1, 17},    {2, 18},   {3, 19},   {4, 20},   {5, 21},   {6, 22},   {7, 23},  {8, 24},
                                  {12, 25},   {16, 26},  {23, 27},  {32, 28},  {46, 29},  {64, 30},  {91, 31}};
    static const int before[][2] = {{-511, 31}, {-112, 30}, {-98, 29}, {-86, 28}, {-76, 27}, {-66, 26}, {-58, 25}, {-51, 24},
                                    {-45, 23},  {-39, 22},  {-34, 21}, {-30, 20}, {-26, 19}, {-23, 18}, {-20, 17}, {-18, 16},
                                    {-15, 15},  {-14, 14},  {-13, 13}, {-12, 12}, {-11, 11}, {-10, 10}, {-9, 9},   {-8, 8},
                                    {-7, 7},    {-6, 6},    {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},   {0, 0}};
    mp_architecture a = named("t5-small");
    a.layers = 1;
    mp_model *model = built(&a, 1, 512);
    compare_rows(model, "encoder/distances/Constant", both, sizeof both / sizeof *both);
    compare_rows(model, "decoder/distances/Constant", before, sizeof before / sizeof *before);
    mp_model_free(model);
}

/* Settings of a layer: separate operators or fused attention, and PyTorch's CPU or GPU kernels. */
typedef struct setting {
    mp_dtype dtype;
    bool fused, for_gpu;
} setting;

/* Returns the bytes saved for backward, without a loss. */
static int64_t saved_bytes(const mp_architecture *a, int64_t batch, int64_t sequence, setting as)
{
    mp_error err = {0};
    const mp_training_options options = {.loss = MP_LOSS_NONE,
                                         .optimizer = MP_OPTIMIZER_ADAMW,
                                         .dtype = as.dtype,
                                         .rules = MP_RULES_PYTORCH,
                                         .for_gpu = as.for_gpu};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    mp_model *model = built(a, batch, sequence);
    mp_graph *graph = NULL;
    mp_summary summary;
    int loss;
    if (mp_model_simplify(model, options.rules, true, NULL, &err) != MP_OK ||
        (as.fused && mp_model_fuse_attention(model, options.rules, false, NULL, &err) != MP_OK) ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
        mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK ||
        mp_summarize(graph, options.rules, &summary, &err) != MP_OK)
        fail_msg("%s: %s", a->name, err.message);
    const int64_t bytes = summary.saved_activation_bytes;
    mp_summary_free(&summary);
    mp_graph_free(graph);
    mp_model_free(model);
    return bytes;
}

/* Returns the saved bytes of one additional layer. */
static int64_t of_a_layer(mp_architecture a, int64_t batch, int64_t sequence, setting as)
{
    a.layers = 2;
    const int64_t two = saved_bytes(&a, batch, sequence, as);
    a.layers = 3;
    return saved_bytes(&a, batch, sequence, as) - two;
}

/* Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", equation 1: a layer keeps s b h (34
 * + 5 a s / h) bytes with 16 bits per activation. The formula omits "small buffers": the fp32 mean and deviation of each token
 * in both normalizations. It counts one byte per element of three dropout masks (two of s b h, one of a s s b), like PyTorch's
 * GPU kernel. PyTorch's CPU kernel keeps an fp32 factor instead. */
TEST(a_layer_of_gpt_keeps_what_korthikanti_says)
{
    static const struct {
        const char *name;
        int64_t b, s;
    } cases[] = {
        {"gpt2", 2, 128}, {"gpt2-xl", 3, 512}, {"megatron-22b", 4, 2048}, {"gpt3-175b", 1, 2048}, {"megatron-1t", 1, 2048}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const mp_architecture x = named(cases[k].name);
        const int64_t b = cases[k].b, s = cases[k].s, h = x.width, a = x.heads;
        const int64_t small = 2 * 2 * 4 * s * b, dropped = 2 * s * b * h + a * s * s * b;
        const int64_t published = 34 * s * b * h + 5 * a * s * s * b;
        assert_int_equal(of_a_layer(x, b, s, (setting){.dtype = MP_DTYPE_FLOAT16, .for_gpu = true}), published + small);
        assert_int_equal(of_a_layer(x, b, s, (setting){.dtype = MP_DTYPE_FLOAT16}), published + small + (4 - 1) * dropped);
    }
}

/* Saved by a layer of Llama with fused attention, in elements of 2 bytes per token, with d = width / heads: inputs of two
 * normalizations and of the products after them, 4 h. Queries h. Keys and values d g each, for g key-value heads. Attention's
 * result h, which the output product reads. Gate, up, Swish(gate) and the product of both, 4 f. In addition, in fp32: one
 * number per normalization, and per head the logarithm of attention's sum. */
TEST(a_layer_of_llama_keeps_what_its_operators_read)
{
    static const char *const names[] = {"llama2-7b", "llama3-8b", "llama3-405b"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const mp_architecture x = named(names[k]);
        const int64_t b = 2, s = 1024, h = x.width, d = h / x.heads, g = x.key_value_heads, f = x.feed_forward;
        const int64_t elements = 4 * h + h + 2 * d * g + h + 4 * f, numbers = 2 + x.heads;
        assert_int_equal(of_a_layer(x, b, s, (setting){.dtype = MP_DTYPE_BFLOAT16, .fused = true, .for_gpu = true}),
                         s * b * (2 * elements + 4 * numbers));
    }
}

/* Bytes held by PyTorch 2.15's autograd for one additional layer of the original networks, in fp32 with two samples (see
 * tests/architectures.py). For T5, a layer is added to encoder and decoder, with unfused attention. One tensor per
 * normalization, five in all, is subtracted. transformers writes T5's normalizations as separate operators, whose product with
 * the weight reads a second saved tensor. */
TEST(a_layer_keeps_what_pytorch_itself_keeps)
{
    const setting on_cpu = {.dtype = MP_DTYPE_FLOAT, .fused = true};
    assert_int_equal(of_a_layer(named("gpt2"), 2, 128, on_cpu), 18878464);
    assert_int_equal(of_a_layer(named("bert-base"), 2, 128, on_cpu), 18878464);
    assert_int_equal(of_a_layer(named("vit-base"), 2, 0, on_cpu), 19391104);
    assert_int_equal(of_a_layer(named("t5-small"), 2, 128, on_cpu), 38802432 - 5 * 2 * 128 * 512 * 4);
}

TEST(sizes_are_set_by_name)
{
    mp_architecture a = named("gpt2");
    mp_error err = {0};
    int64_t n;
    assert_int_equal(mp_architecture_set(&a, "heads", 8, &err), MP_OK);
    assert_int_equal(a.key_value_heads, 8);
    assert_int_equal(mp_architecture_set(&a, "feed_forward", 100, &err), MP_OK);
    assert_int_equal(a.feed_forward, 100);
    assert_int_equal(mp_architecture_set(&a, "layers", 1, &err), MP_OK);
    assert_int_equal(mp_architecture_set(&a, "width", 16, &err), MP_OK);
    assert_int_equal(mp_architecture_set(&a, "vocabulary", 10, &err), MP_OK);
    assert_int_equal(mp_architecture_parameters(&a, &n, &err), MP_OK);
    /* tables; qkv, output; up, down; norms: two in the layer and the final one */
    assert_int_equal(n, (10 + 1024) * 16 + 16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 100 + 100 + 16 + 3 * 2 * 16);
    assert_int_equal(mp_architecture_set(&a, "depth", 1, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "feed-forward"));

    a = named("llama3-8b");
    assert_int_equal(mp_architecture_set(&a, "heads", 16, &err), MP_OK);
    assert_int_equal(a.key_value_heads, 8);
}

/* The heads need not divide the width: 3 heads of 10 in a width of 16, with one key-value head for all. */
TEST(heads_have_a_width_of_their_own)
{
    mp_architecture a = named("llama3-8b");
    mp_error err = {0};
    int64_t n;
    const struct {
        const char *size;
        int64_t value;
    } sizes[] = {{"layers", 1},      {"width", 16},     {"heads", 3},       {"key-value-heads", 1},
                 {"head-width", 10}, {"vocabulary", 7}, {"feed-forward", 5}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        assert_int_equal(mp_architecture_set(&a, sizes[k].size, sizes[k].value, &err), MP_OK);
    assert_int_equal(mp_architecture_parameters(&a, &n, &err), MP_OK);
    /* tables; query, output; key, value; gate, up, down; norms */
    assert_int_equal(n, 2 * 7 * 16 + 2 * 16 * 30 + 2 * 16 * 10 + 3 * 16 * 5 + 3 * 16);
}

TEST(a_longer_sequence_has_more_learned_positions)
{
    mp_architecture a = named("gpt2");
    for (int64_t sequence = 512; sequence <= 2048; sequence *= 4) {
        mp_model *model = built(&a, 1, sequence);
        assert_int_equal(model->tensors[mp_model_find(model, "position.weight")].dims[0], sequence > 1024 ? sequence : 1024);
        assert_int_equal(model->tensors[mp_model_find(model, "tokens")].dims[1], sequence);
        mp_model_free(model);
    }
}

/* The paths equal named_modules() of transformers 5.24: GPT2LMHeadModel, MixtralForCausalLM, BertForMaskedLM,
 * ViTForImageClassification and T5ForConditionalGeneration. */
TEST(blocks_have_the_paths_of_transformers)
{
    static const struct {
        const char *name, *block, *path;
    } cases[] = {{"gpt2", "layers.3", "transformer.h.3"},
                 {"mixtral-8x7b", "layers.31", "model.layers.31"},
                 {"bert-large", "layers.0", "bert.encoder.layer.0"},
                 {"vit-base", "layers.11", "vit.layers.11"},
                 {"t5-small", "encoder.layers.5", "encoder.block.5"},
                 {"t5-small", "decoder.layers.0", "decoder.block.0"},
                 {"gpt2", "classifier", "classifier"}};
    char text[32];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const mp_architecture a = named(cases[k].name);
        assert_string_equal(mp_architecture_block_path(&a, cases[k].block, text, sizeof text), cases[k].path);
    }
}

TEST(sizes_that_do_not_fit_are_refused)
{
    static const struct {
        const char *name, *size;
        int64_t value, batch, sequence;
        const char *words;
    } cases[] = {{"gpt2", "heads", 7, 1, 0, "7 heads"},
                 {"bert-base", "key-value-heads", 4, 1, 0, "Llama"},
                 {"gpt2", "layers", 0, 1, 0, "layers=0"},
                 {"gpt2", "layers", 1, -1, 0, "batch=-1"},
                 {"gpt2", "layers", 10001, 1, 0, "10000"},
                 {"llama3-8b", "layers", 1, 1, (1 << 20) + 1, "1048576"},
                 {"vit-base", "layers", 1, 1, INT64_MAX, "1048576"},
                 {"llama3-8b", "key-value-heads", 5, 1, 0, "32 heads are not a multiple of 5"},
                 {"llama3-8b", "width", 32 * 3, 1, 0, "3 is odd"},
                 {"llama3-8b", "head-width", 3, 1, 0, "3 is odd"},
                 {"gpt2", "head-width", -1, 1, 0, "head-width=-1"},
                 {"t5-small", "layers", 1, 1, (1 << 19) + 1, "524288"},
                 {"t5-small", "experts", 4, 1, 0, "Llama"},
                 {"vit-base", "layers", 1, 1, 198, "198"},
                 {"mixtral-8x7b", "experts-per-token", 9, 1, 0, "9 of 8"},
                 {"mixtral-8x7b", "layers", 1, 1, 100, "100 tokens"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_architecture a = named(cases[k].name);
        mp_error err = {0};
        mp_model *model = NULL;
        assert_int_equal(mp_architecture_set(&a, cases[k].size, cases[k].value, &err), MP_OK);
        assert_int_equal(mp_architecture_model(&a, cases[k].batch, cases[k].sequence, &model, &err), MP_INVALID);
        assert_null(model);
        if (!strstr(err.message, cases[k].words)) fail_msg("'%s' is not in: %s", cases[k].words, err.message);
    }
}
