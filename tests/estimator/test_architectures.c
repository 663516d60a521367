/* test_architectures.c - networks known by name: their parameters are the published ones, their layers are equal, their
 * attention is recognised, and a layer keeps what the literature says. */
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

/* Counted by transformers 5.24 on the meta device: GPT2LMHeadModel, LlamaForCausalLM, MixtralForCausalLM, BertModel and
 * ViTForImageClassification of the configurations that shapes.def names, without ties but for GPT-2's. */
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
                     {"llama2-7b", 6738415616},
                     {"llama2-13b", 13015864320},
                     {"llama2-70b", 68976648192},
                     {"llama3-8b", 8030261248},
                     {"llama3-70b", 70553706496},
                     {"llama3-405b", 405853388800},
                     {"mixtral-8x7b", 46702792704},
                     {"bert-base", 109482240},
                     {"bert-large", 335141888},
                     {"vit-base", 86567656},
                     {"vit-large", 304326632},
                     {"vit-huge", 632045800}};
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

/* Compares the name of a tensor or operator with that of one in the layer before: only the number of the layer differs. */
static bool differs_by_layer(const char *name, const char *before, int layer)
{
    char first[32], second[32];
    snprintf(first, sizeof first, "layers.%d", layer - 1);
    snprintf(second, sizeof second, "layers.%d", layer);
    const size_t n = strlen(first);
    return !strncmp(before, first, n) && !strncmp(name, second, strlen(second)) && !strcmp(before + n, name + strlen(second));
}

/* Layers 1 and 2 of three: the same operators in the same order, on tensors of the same names, types and shapes. */
TEST(layers_are_equal)
{
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        mp_architecture a = *mp_architecture_row(k);
        a.layers = 4;
        mp_model *model = built(&a, a.experts ? 8 : 2, a.patch ? 0 : 64);
        size_t start[5] = {0}, n;
        for (size_t op = model->n_operators; op-- > 0;)
            for (int layer = 0; layer < 4; layer++) {
                char prefix[32];
                snprintf(prefix, sizeof prefix, "layers.%d/", layer);
                if (!strncmp(model->operators[op].name, prefix, strlen(prefix))) start[layer] = op;
            }
        n = start[2] - start[1];
        assert_int_equal(start[3] - start[2], n);
        assert_true(n > 10);
        for (size_t j = 0; j < n; j++) {
            const mp_operator *one = &model->operators[start[1] + j], *two = &model->operators[start[2] + j];
            assert_string_equal(one->kind, two->kind);
            assert_true(differs_by_layer(two->name, one->name, 2));
            assert_int_equal(one->n_in, two->n_in);
            for (int i = 0; i < one->n_in; i++) {
                const mp_tensor *x = mp_operator_in(model, one, i), *y = mp_operator_in(model, two, i);
                if (!mp_same_shape(x, y)) fail_msg("%s and %s", x->name, y->name);
                if (x != y && strncmp(x->name, "layers.0", 8) != 0 && !differs_by_layer(y->name, x->name, 2))
                    fail_msg("%s and %s", x->name, y->name);
            }
        }
        mp_model_free(model);
    }
}

/* Also where a mask has too many elements to be folded (512 positions have 262,144), and then it is causal. */
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
                /* PyTorch runs attention with dropout operator by operator */
                const int expected = rules[r] == MP_RULES_PYTORCH && a.dropout > 0 ? 0 : 2;
                if (report.n != expected) fail_msg("%s: %d attentions", a.name, report.n);
                for (size_t j = 0; j < model->n_operators; j++) {
                    const mp_operator *op = &model->operators[j];
                    if (strcmp(op->kind, "ScaledDotProductAttention") != 0) continue;
                    const bool is_causal = a.family == MP_FAMILY_GPT || a.family == MP_FAMILY_LLAMA;
                    assert_int_equal(mp_operator_int(op, "causal", 0), is_causal);
                    assert_true(fabs(mp_operator_float(op, "scale", 1) - 1 / sqrt((double)(a.width / a.heads))) < 1e-6);
                    if (rules[r] == MP_RULES_PYTORCH)
                        assert_int_equal(mp_operator_int(op, "groups", 1), a.heads / a.key_value_heads);
                }
                mp_model_free(model);
            }
}

/* Where a layer runs: attention written out or fused, by the kernels of PyTorch for the CPU or for GPUs. */
typedef struct setting {
    mp_dtype dtype;
    bool fused, for_gpu;
} setting;

/* Returns what is saved for backward without a loss. */
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

/* The bytes of one more layer. */
static int64_t of_a_layer(mp_architecture a, int64_t batch, int64_t sequence, setting as)
{
    a.layers = 2;
    const int64_t two = saved_bytes(&a, batch, sequence, as);
    a.layers = 3;
    return saved_bytes(&a, batch, sequence, as) - two;
}

/* Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", equation 1: a layer keeps
 * s b h (34 + 5 a s / h) bytes with 16 bits per activation. That leaves out "small buffers": of each of two normalizations mean
 * and deviation of a token, in fp32. It has a byte for each element of three dropouts (two of s b h, one of a s s b), as
 * PyTorch's kernel for GPUs; its kernel for the CPU keeps a factor in fp32. */
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

/* A layer of Llama, attention fused, d = width / heads, in elements of 2 bytes per token: inputs of two normalizations and of
 * the products behind them, 4 h; queries h, keys and values d g each for g pairs of heads; attention's result h, which the
 * output's product reads; gate, up, Swish(gate) and the product of both, 4 f. Besides, in fp32, a number per normalization, and
 * per head the logarithm of attention's sum. */
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

/* What autograd of PyTorch 2.15 holds of one more layer of the originals, in fp32 with two samples: tests/architectures.py. */
TEST(a_layer_keeps_what_pytorch_itself_keeps)
{
    const setting on_cpu = {.dtype = MP_DTYPE_FLOAT, .fused = true};
    assert_int_equal(of_a_layer(named("gpt2"), 2, 128, on_cpu), 18878464);
    assert_int_equal(of_a_layer(named("bert-base"), 2, 128, on_cpu), 18878464);
    assert_int_equal(of_a_layer(named("vit-base"), 2, 0, on_cpu), 19391104);
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
    /* tables; qkv, output; up, down; norms: of the layer and the last */
    assert_int_equal(n, (10 + 1024) * 16 + 16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 100 + 100 + 16 + 3 * 2 * 16);
    assert_int_equal(mp_architecture_set(&a, "depth", 1, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "feed-forward"));

    a = named("llama3-8b");
    assert_int_equal(mp_architecture_set(&a, "heads", 16, &err), MP_OK);
    assert_int_equal(a.key_value_heads, 8);
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

TEST(sizes_that_do_not_fit_are_refused)
{
    static const struct {
        const char *name, *size;
        int64_t value, batch, sequence;
        const char *words;
    } cases[] = {{"gpt2", "heads", 7, 1, 0, "7 heads"},
                 {"gpt2", "key-value-heads", 4, 1, 0, "Llama"},
                 {"gpt2", "layers", 0, 1, 0, "layers=0"},
                 {"gpt2", "layers", 1, -1, 0, "batch=-1"},
                 {"gpt2", "layers", 10001, 1, 0, "10000"},
                 {"llama3-8b", "layers", 1, 1, 131073, "131072"},
                 {"vit-base", "layers", 1, 1, INT64_MAX, "131072"},
                 {"llama3-8b", "key-value-heads", 5, 1, 0, "5 pairs"},
                 {"llama3-8b", "width", 32 * 3, 1, 0, "3 is odd"},
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
