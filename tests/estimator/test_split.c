/* test_split.c - operators split over ranks: conserved totals, Megatron's exchanges, and the bytes saved by a layer. */
#include "estimator/parallel/split.h"

#include "memplan/architecture.h"
#include "memplan/memplan.h"
#include "memplan/simplify.h"
#include "tests/cases/test.h"

/* The model and graph of one rank. */
typedef struct rank_case {
    mp_model *model;
    mp_split split;
    mp_graph *graph;
    mp_rank_traffic traffic;
    int64_t saved_bytes;
} rank_case;

/* Makes the graph of one rank and takes ownership of `model`. `mesh` NULL: no split. */
static rank_case rank_of_model(mp_model *model, const char *mesh, mp_rules rules, bool fused)
{
    mp_error err = {0};
    rank_case r = {.model = model};
    mp_ranks ranks = {.rules = rules};
    const mp_training_options options = {
        .loss = MP_LOSS_AUTO, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_BFLOAT16, .rules = rules};
    const mp_target own = mp_roofline(mp_device_find("h100"));
    mp_split_target space = {.own = &own, .ranks = &ranks};
    mp_summary summary;
    int loss;
    assert_int_equal(mp_mesh_read(mesh ? mesh : "dp=1", &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    if (mp_model_simplify(model, rules, true, NULL, &err) != MP_OK ||
        (fused && mp_model_fuse_attention(model, rules, false, NULL, &err) != MP_OK) ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
        (mesh && mp_model_split(model, &ranks, &r.split, &err) != MP_OK))
        fail_msg("%s", err.message);
    const mp_target target = mesh ? mp_target_of_split(&space) : own;
    if (mp_training_graph(model, &options, loss, &target, &r.graph, &err) != MP_OK ||
        mp_summarize(r.graph, rules, &summary, &err) != MP_OK)
        fail_msg("%s", err.message);
    r.traffic = traffic_of_keep_all(r.graph);
    r.saved_bytes = summary.saved_activation_bytes;
    mp_summary_free(&summary);
    return r;
}

static mp_architecture named(const char *name, int64_t layers)
{
    mp_architecture a = *mp_architecture_find(name);
    a.layers = layers;
    return a;
}

static rank_case rank_of(const mp_architecture *a, int64_t batch, int64_t sequence, const char *mesh, bool fused)
{
    mp_error err = {0};
    mp_model *model;
    if (mp_architecture_model(a, batch, sequence, &model, &err) != MP_OK) fail_msg("%s", err.message);
    return rank_of_model(model, mesh, MP_RULES_PYTORCH, fused);
}

static rank_case rank_of_file(const char *path, const char *mesh)
{
    const mp_onnx_options options = {.batch = strstr(path, "bytes") ? 0 : 16}; /* models on bytes have a fixed batch of 16 */
    mp_error err = {0};
    mp_model *model;
    if (mp_onnx_read(path, &options, &model, &err) != MP_OK) fail_msg("%s: %s", path, err.message);
    return rank_of_model(model, mesh, MP_RULES_EXECUTOR, true);
}

static void end(rank_case *r)
{
    mp_split_free(&r->split);
    mp_graph_free(r->graph);
    mp_model_free(r->model);
}

static int count(const rank_case *r, const char *kind)
{
    int n = 0;
    for (size_t k = 0; k < r->model->n_operators; k++)
        n += !r->model->operators[k].removed && !strcmp(r->model->operators[k].kind, kind);
    return n;
}

static double flops(const rank_case *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->graph->n_nodes; i++) sum += r->graph->nodes[i].flops;
    return sum;
}

static const char *mesh_text(int64_t tp, bool sequence)
{
    static char text[32];
    snprintf(text, sizeof text, "tp=%d,sp=%d", (int)tp, sequence);
    return text;
}

static const char *const files[] = {"examples/mlp4.onnx", "examples/fashion_cnn.onnx", "examples/gpt_bytes.onnx",
                                    "examples/lstm_bytes.onnx", "examples/resnet50.onnx"};
enum { N_FILES = sizeof files / sizeof *files };

/* ---- conservation ---- */

/* Each parameter is whole, or split in one dimension. The parts of all ranks together are at least the whole, and exceed it by
 * at most one part. */
static void check_parameters(const rank_case *whole, const rank_case *rank, int64_t n, const char *name)
{
    int64_t parts = 0, all = 0;
    for (size_t t = 0; t < rank->model->n_tensors; t++) {
        const mp_tensor *part = &rank->model->tensors[t], *full = NULL;
        if (part->role != MP_ROLE_PARAMETER) continue;
        for (size_t u = 0; u < whole->model->n_tensors && !full; u++)
            if (!strcmp(whole->model->tensors[u].name, part->name)) full = &whole->model->tensors[u];
        assert_non_null(full);
        assert_true(t < rank->split.n_tensors);
        const int dim = rank->split.placements[t].dim;
        for (int d = 0; d < part->rank; d++)
            if (part->dims[d] != (d == dim ? (full->dims[d] + n - 1) / n : full->dims[d]))
                fail_msg("%s: %s has %d of %d in dimension %d", name, part->name, (int)part->dims[d], (int)full->dims[d], d);
        parts += mp_tensor_bytes(part);
        all += mp_tensor_bytes(full);
    }
    assert_int_equal(rank->split.whole_bytes, all);
    assert_int_equal(rank->split.part_bytes, parts);
    if (n * parts < all || parts >= all) fail_msg("%s: %" PRId64 " bytes in %d parts of %" PRId64, name, all, (int)n, parts);
}

/* Heads, tokens, inner widths, classes and table rows are divisible. So every product is split: each rank has 1/n of its FLOPs.
 * Only norms, biases after a sum and a router are on every rank; none of them is a product. */
TEST(floating_point_operations_are_shared_out)
{
    static const struct {
        const char *name;
        int64_t vocabulary, batch, sequence, most;
    } cases[] = {{"gpt2", 50304, 8, 128, 4}, /* 12 heads, 50,257 rows */
                 {"megatron-22b", 0, 8, 128, 8},  {"llama3-8b", 0, 8, 128, 8}, {"mixtral-8x7b", 0, 8, 128, 8},
                 {"bert-base", 30528, 8, 128, 4}, {"vit-base", 0, 8, 0, 4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int fused = 0; fused < 2; fused++) {
            mp_architecture a = named(cases[k].name, 2);
            if (cases[k].vocabulary) a.vocabulary = cases[k].vocabulary;
            rank_case whole = rank_of(&a, cases[k].batch, cases[k].sequence, NULL, fused);
            for (int64_t n = 2; n <= cases[k].most; n *= 2)
                for (int sp = 0; sp < 2; sp++) {
                    rank_case rank = rank_of(&a, cases[k].batch, cases[k].sequence, mesh_text(n, sp), fused);
                    const double of_all = (double)n * flops(&rank);
                    if (fabs(of_all - flops(&whole)) > 1e-9 * flops(&whole))
                        fail_msg("%s over %d ranks: %.10g, whole %.10g", a.name, (int)n, of_all, flops(&whole));
                    check_parameters(&whole, &rank, n, a.name);
                    end(&rank);
                }
            end(&whole);
        }
}

/* Indivisible operators run on every rank: 12 heads on 8 ranks. This costs more FLOPs, never fewer. Parameters are still split.
 */
TEST(what_does_not_divide_is_on_every_rank)
{
    const mp_architecture a = named("gpt2", 2);
    rank_case whole = rank_of(&a, 8, 128, NULL, true), rank = rank_of(&a, 8, 128, "tp=8", true);
    assert_true(8 * flops(&rank) > 1.05 * flops(&whole) && flops(&rank) < flops(&whole) / 4);
    assert_true(rank.split.n_gathered > 0);
    assert_non_null(strstr(rank.split.gathered_for, "attention"));
    check_parameters(&whole, &rank, 8, "gpt2");
    /* 50,257 rows of the table: of 8 ranks, the first 7 have 6,283 and the last has 2 fewer */
    for (size_t t = 0; t < rank.model->n_tensors; t++)
        if (!strcmp(rank.model->tensors[t].name, "embedding.weight")) assert_int_equal(rank.model->tensors[t].dims[0], 6283);
    end(&rank);
    end(&whole);
}

/* Files of every kind: keep-all runs, parameters are split, and the ranks together compute at least as much as one device. */
TEST(files_are_split)
{
    for (size_t k = 0; k < N_FILES; k++) {
        rank_case whole = rank_of_file(files[k], NULL);
        for (int64_t n = 2; n <= 8; n *= 2)
            for (int sp = 0; sp < 2; sp++) {
                rank_case rank = rank_of_file(files[k], mesh_text(n, sp));
                mp_step *steps = mp_alloc(rank.graph->n_nodes, sizeof *steps);
                mp_timeline *tl;
                assert_int_equal(mp_timeline_build(rank.graph, steps, mp_keep_all(rank.graph, steps), &tl, NULL), MP_OK);
                if ((double)n * flops(&rank) < (1 - 1e-9) * flops(&whole))
                    fail_msg("%s over %d ranks: %.10g, whole %.10g", files[k], (int)n, (double)n * flops(&rank), flops(&whole));
                check_parameters(&whole, &rank, n, files[k]);
                mp_timeline_free(tl);
                mp_free(steps);
                end(&rank);
            }
        end(&whole);
    }
}

TEST(a_group_of_one_changes_nothing)
{
    for (size_t k = 0; k < N_FILES; k++) {
        rank_case whole = rank_of_file(files[k], NULL), rank = rank_of_file(files[k], "tp=1");
        assert_string_equal(whole.graph->hash, rank.graph->hash);
        assert_int_equal(rank.traffic.n_collectives, 0);
        end(&whole);
        end(&rank);
    }
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        const mp_architecture a = named(mp_architecture_row(k)->name, 1);
        rank_case whole = rank_of(&a, 8, a.patch ? 0 : 64, NULL, true),
                  rank = rank_of(&a, 8, a.patch ? 0 : 64, "tp=1,sp=0", true);
        assert_string_equal(whole.graph->hash, rank.graph->hash);
        end(&whole);
        end(&rank);
    }
}

/* ---- Megatron ---- */

/* Returns the number of parameters with partial gradients on each rank. */
static int summed(const rank_case *r)
{
    int n = 0;
    for (size_t s = 0; s < r->graph->n_storages; s++) n += r->graph->storages[s].is_part;
    return n;
}

/* Exchanges of one additional layer. Shoeybi et al. 2019: two all-reduces in forward, after attention's output and the mlp's
 * output, and two in backward. Korthikanti et al. 2022: sequence parallelism replaces each with a pair of all-gather and
 * reduce-scatter. Each rank then normalizes a part of the sequence, so the gradients of scale and shift are summed. */
TEST(a_layer_exchanges_as_megatron_does)
{
    static const struct {
        const char *name;
        int n_norms; /* parameters of the normalizations in a layer */
        int n_parts; /* attention and mlp; for T5 in encoder and decoder */
        int n_taken; /* parts taken of T5's position bias */
    } cases[] = {{"gpt2", 4, 2, 0},      {"megatron-22b", 4, 2, 0}, {"bert-base", 4, 2, 0},
                 {"llama3-8b", 2, 2, 0}, {"vit-base", 4, 2, 0},     {"t5-small", 5, 5, 2}};
    static const char *const kinds[] = {"AllReduce", "Replicate", "AllGather", "ReduceScatter", "Assemble", "TakePart"};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int sp = 0; sp < 2; sp++)
            for (int64_t n = 2; n <= 4; n *= 2) {
                const mp_architecture two = named(cases[k].name, 2), three = named(cases[k].name, 3);
                const int64_t sequence = two.patch ? 0 : 128, tokens = two.patch ? 197 : 128; /* or the batch of 8 is split */
                rank_case less = rank_of(&two, 8, sequence, mesh_text(n, sp), true),
                          more = rank_of(&three, 8, sequence, mesh_text(n, sp), true);
                const int norms = sp ? cases[k].n_norms : 0, parts = cases[k].n_parts, summing = sp ? 0 : parts,
                          gathering = sp ? parts : 0,
                          expected[] = {summing, summing, gathering, gathering, 0, cases[k].n_taken};
                for (int j = 0; j < 6; j++)
                    if (count(&more, kinds[j]) - count(&less, kinds[j]) != expected[j])
                        fail_msg("%s, sp=%d: %d more of %s", two.name, sp, count(&more, kinds[j]) - count(&less, kinds[j]),
                                 kinds[j]);
                /* equal bytes either way: two all-reduces of s b h for each part, or as many pairs. The tensor added to scores
                 * is whole on each rank, and its gradient is gathered from the heads' gradients. */
                const int64_t h = two.width, sent = more.traffic.sent_bytes - less.traffic.sent_bytes,
                              pair = 2 * (n - 1) * (2 * 8 * tokens * h) / n,
                              gathered = (n - 1) * (2 * two.heads * tokens * tokens) / n;
                assert_int_equal(more.traffic.n_collectives - less.traffic.n_collectives,
                                 (sp ? 4 : 2) * parts + cases[k].n_taken);
                assert_int_equal(sent, 2 * parts * pair + cases[k].n_taken * gathered);
                assert_int_equal(summed(&more) - summed(&less), norms);
                end(&less);
                end(&more);
            }
}

static int64_t saved_by_a_layer(const char *name, int64_t b, int64_t s, const char *mesh)
{
    const mp_architecture two = named(name, 2), three = named(name, 3);
    rank_case less = rank_of(&two, b, s, mesh, false), more = rank_of(&three, b, s, mesh, false);
    const int64_t bytes = more.saved_bytes - less.saved_bytes;
    end(&less);
    end(&more);
    return bytes;
}

/* Korthikanti et al. 2022, equations 2 and 4, in bytes: a rank saves s b h (10 + 24/t + 5 a s/(h t)) per layer, and s b h (34/t
 * + 5 a s/(h t)) with sequence parallelism. Three differences are accounted for exactly:
 *
 * - The paper omits the normalizations' fp32 mean and deviation per token as small.
 *
 * - Dropout saves an fp32 factor here, as on PyTorch's CPU, and one byte in the paper.
 *
 * - Megatron gathers the inputs of both first products again in backward. Here a gathered tensor is an ordinary activation:
 *   keep-all keeps two of 2 s b h, where the formula has 1/t of them. A plan may drop it and gather it again. */
TEST(a_layer_keeps_what_korthikanti_says)
{
    static const struct {
        const char *name;
        int64_t b, s, most;
    } cases[] = {{"gpt2", 8, 128, 4}, {"megatron-22b", 4, 2048, 8}, {"gpt3-175b", 1, 2048, 8}, {"megatron-1t", 1, 2048, 8}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int64_t t = 2; t <= cases[k].most; t *= 2) {
            const mp_architecture x = named(cases[k].name, 2);
            const int64_t b = cases[k].b, s = cases[k].s, sbh = s * b * x.width, scores = x.heads * s * s * b,
                          small = 2 * 2 * 4 * s * b;
            assert_int_equal(saved_by_a_layer(x.name, b, s, mesh_text(t, false)),
                             sbh * 10 + sbh * 24 / t + 5 * scores / t + small + (4 - 1) * (2 * sbh + scores / t));
            assert_int_equal(saved_by_a_layer(x.name, b, s, mesh_text(t, true)),
                             sbh * 34 / t + 5 * scores / t + (small + (4 - 1) * (2 * sbh + scores)) / t + 4 * sbh -
                                 4 * sbh / t);
        }
}

/* Attention and mlp of a block are each split in the middle. Their weights are split in one dimension: columns of the first
 * product, rows of the second. */
TEST(columns_come_first_and_rows_second)
{
    static const struct {
        const char *name;
        int dim;
    } weights[] = {{"layers.0.attention.query.weight", 1}, {"layers.0.attention.key.weight", 1},
                   {"layers.0.attention.value.weight", 1}, {"layers.0.attention.output.weight", 0},
                   {"layers.0.mlp.gate.weight", 1},        {"layers.0.mlp.up.weight", 1},
                   {"layers.0.mlp.down.weight", 0},        {"layers.0.attention.norm.weight", -1}};
    const mp_architecture a = named("llama3-8b", 2);
    rank_case r = rank_of(&a, 8, 128, "tp=8", true);
    for (size_t k = 0; k < sizeof weights / sizeof *weights; k++) {
        bool is_found = false;
        for (size_t t = 0; t < r.model->n_tensors; t++)
            if (!strcmp(r.model->tensors[t].name, weights[k].name)) {
                is_found = true;
                if (r.split.placements[t].dim != weights[k].dim)
                    fail_msg("%s has its dimension %d in parts", weights[k].name, r.split.placements[t].dim);
            }
        if (!is_found) fail_msg("there is no %s", weights[k].name);
    }
    end(&r);
}
