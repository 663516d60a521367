/* test_row_chunks.c - regions in chunks of rows. The chosen numbers are compared with exhaustive search over numbers and
 * recomputation. Other tests cover broken plans, combinations with other settings, and training with the bits of keep-all. */
#include "estimator/training/row_regions.h"
#include "executor/workload/chunk_numbers.h"
#include "memplan/memplan.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"
#include "tests/oracles/auto_tally.h"
#include "tests/oracles/corruptions.h"
#include "tests/oracles/oracle_exact.h"

static mp_workload_options options_with(const char *chunks)
{
    mp_workload_options o = mp_workload_defaults();
    o.optimizer = "none";
    o.device = "a100,fp32=0.01,bandwidth=1,alignment=4"; /* so slow that the launches of small operators cost little */
    o.row_chunks = chunks;
    return o;
}

static uint64_t next(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* Saves a small network of random sizes. Its form is a perceptron with many classes, an MLP with a wide hidden layer, both in
 * one, a run of rows, or attention. */
static const char *save_network(onnx_builder *b, uint64_t seed)
{
    enum { HEAD, MLP, BOTH, ROWS, ATTENTION, N_FORMS };
    char text[512];
    const int form = (int)(seed % N_FORMS);
    const int rows = (int)(form == HEAD ? 4 + next(&seed, 4) : 2 + next(&seed, 2)), in = 8 << next(&seed, 4),
              wide = 32 << next(&seed, 4), narrow = 4 << next(&seed, 3), classes = 64 << next(&seed, 4);
    const char *activation = next(&seed, 2) ? "Relu" : "Sigmoid";
    const bool is_deep = next(&seed, 2);
    if (form == HEAD)
        snprintf(
            text, sizeof text,
            "input x float %d,%d; weight u %d,%d; weight v %d,%d; weight w %d,%d; MatMul x u -> a; %s a -> b; %s MatMul %s "
            "w -> y; out y",
            rows, in, in, narrow, narrow, narrow, narrow, classes, activation, is_deep ? "MatMul b v -> c; Tanh c -> d;" : "",
            is_deep ? "d" : "b");
    else if (form == MLP || form == BOTH)
        snprintf(
            text, sizeof text,
            "input x float %d,%d; weight u %d,%d; weight v %d,%d; weight w %d,%d; MatMul x u -> a; %s a -> b; MatMul b v -> "
            "c; %s out %s",
            rows, in, in, wide, wide, narrow, narrow, classes, activation, form == BOTH ? "MatMul c w -> y;" : "",
            form == BOTH ? "y" : "c");
    else if (form == ROWS)
        snprintf(
            text, sizeof text,
            "input x float %d,%d; weight u %d,%d; ints last 1; MatMul x u -> a; %s a -> b; Mul b b -> c; ReduceSum c last -> "
            "y keepdims=1; out y",
            rows, in, in, wide, activation);
    else
        snprintf(
            text, sizeof text,
            "input x float 1,%d,%d; input k float 1,%d,%d; input v float 1,%d,%d; weight q %d,%d; MatMul x q -> a; MatMul a k "
            "-> d; Softmax d -> e axis=-1; MatMul e v -> y; out y",
            rows, in, narrow, wide, wide, narrow, in, narrow);
    onnx_text_start(b, 17, text);
    return onnx_save(b);
}

/* Returns the fewest ticks of any plan within the budget with these numbers of chunks. -1: no plan fits; -2: too many states;
 * -3: a region is missing or has fewer rows. Lowers *floor_bytes to the floor of the graph. */
static int64_t optimum_of(const char *path, const int n[MP_N_CHUNK_KINDS], int64_t budget_bytes, int64_t *floor_bytes)
{
    int64_t floor = INT64_MAX;
    char setting[MP_ROW_CHUNKS_TEXT];
    mp_chunk_numbers_write(n, setting);
    const mp_workload_options o = options_with(setting);
    mp_workload w = {0};
    int64_t ticks;
    bool is_such = mp_workload_load(path, &o, &w, NULL) == MP_OK;
    for (int k = 0; is_such && k < MP_N_CHUNK_KINDS; k++) is_such = mp_chunk_numbers_of(&w, (mp_chunk_kind)k) == n[k];
    if (is_such) assert_int_equal(mp_problem_floor(w.problem, &floor, NULL, NULL), MP_OK);
    if (floor < *floor_bytes) *floor_bytes = floor;
    const bool is_known = is_such && oracle_exact(w.graph, budget_bytes, true, &ticks);
    mp_workload_free(&w);
    return !is_such ? -3 : !is_known ? -2 : ticks;
}

/* Returns the fewest ticks of any plan within the budget with 1, 2 or 4 chunks per kind. More chunks are impossible, because no
 * region of a small network has 8 rows. -1: no plan fits; -2: too many states. *floor_bytes is the lowest floor of these
 * graphs. */
static int64_t optimum(const char *path, int64_t budget_bytes, int64_t *floor_bytes)
{
    int64_t best = -1;
    *floor_bytes = INT64_MAX;
    for (int index = 0; index < 81; index++) {
        int n[MP_N_CHUNK_KINDS];
        for (int k = 0, rest = index; k < MP_N_CHUNK_KINDS; k++, rest /= 3) n[k] = 1 << rest % 3;
        const int64_t ticks = optimum_of(path, n, budget_bytes, floor_bytes);
        if (ticks == -2) return -2;
        if (ticks >= 0 && (best < 0 || ticks < best)) best = ticks;
    }
    return best;
}

/* Returns the ticks of the plan with the chosen numbers of chunks; -1: none fits. *bound_ticks and *floor_bytes are proved for
 * all numbers. */
static int64_t planned(mp_workload *whole, int64_t budget_bytes, int64_t *bound_ticks, int64_t *floor_bytes, int *n_chunks)
{
    const mp_workload_options o = options_with("auto");
    const mp_request request = {.budget_bytes = budget_bytes, .wants_bound = true};
    const mp_card_search how = {.options = &o};
    const mp_graph *whole_graph = whole->graph;
    mp_row_chunks_plan best;
    mp_error err = {0};
    if (mp_row_chunks_solve(whole, &how, &request, &best, &err) != MP_OK) fail_msg("%s", err.message);
    const mp_plan *plan = best.found.answer.plan;
    const mp_workload *of = best.choice.n > 1 ? &best.own : whole;
    assert_ptr_equal(whole->graph, whole_graph);
    if (plan && mp_plan_check(of->graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = plan ? plan->ticks : -1;
    *n_chunks = best.choice.n;
    *floor_bytes = best.choice.floor_bytes;
    *bound_ticks = best.found.answer.bound.ticks;
    mp_row_chunks_plan_free(&best);
    return ticks;
}

/* MEMPLAN_ORACLE_GRAPHS: the number of graphs; 10 take 12 processor seconds. */
TEST(the_chosen_number_is_nearly_always_the_best)
{
    const int n_graphs = oracle_graphs(10);
    int n = 0, n_optimal = 0, n_chunked = 0, n_floors = 0, n_refuted = 0, n_impossible = 0;
    for (int seed = 1; seed <= n_graphs; seed++) {
        onnx_builder b;
        const char *path = save_network(&b, (uint64_t)seed);
        const mp_workload_options o = options_with("auto");
        mp_workload whole = training_workload(path, &o);
        const mp_step *steps;
        const mp_timeline *keep_all;
        assert_int_equal(mp_problem_keep_all(whole.problem, &steps, &keep_all, NULL), MP_OK);
        for (int percent = 40; percent <= 90; percent += 25) {
            const int64_t static_bytes = keep_all->static_bytes, live = keep_all->peak_bytes - static_bytes;
            int64_t bound, lowest_floor, floor_bytes;
            const int64_t budget = static_bytes + live * percent / 100, best = optimum(path, budget, &lowest_floor);
            int n_chunks;
            if (best < -1) continue;
            const int64_t found = planned(&whole, budget, &bound, &floor_bytes, &n_chunks);
            n++;
            if (floor_bytes > lowest_floor)
                fail_msg("seed %d, %d %%: the floor %lld is above %lld", seed, percent, (long long)floor_bytes,
                         (long long)lowest_floor);
            n_floors += floor_bytes == lowest_floor;
            n_refuted += best < 0 && floor_bytes > budget;
            n_impossible += best < 0;
            if (best < 0) {
                assert_int_equal(found, -1);
                n_optimal++;
                continue;
            }
            if (bound > best)
                fail_msg("seed %d, %d %%: the bound %lld is above %lld", seed, percent, (long long)bound, (long long)best);
            if (found < 0 || (double)found > 1.05 * (double)best)
                fail_msg("seed %d, %d %%: %lld ticks, and the best %lld", seed, percent, (long long)found, (long long)best);
            n_optimal += found == best;
            n_chunked += n_chunks > 1;
        }
        mp_workload_free(&whole);
        onnx_end(&b);
    }
    print_message("%d of %d plans are optimal, %d are in chunks; %d floors are the lowest floor of all numbers\n", n_optimal, n,
                  n_chunked, n_floors);
    print_message("of %d budgets without a plan, %d are below the floor of all numbers\n", n_impossible, n_refuted);
    assert_true(n > 2 * n_graphs && n_chunked > n / 4);
    assert_true((double)n_optimal >= 0.95 * n);
}

/* Long sequences: two chunks of the logits are faster than whole logits, even if memory suffices for whole logits. */
TEST(no_fixed_number_is_faster_if_everything_fits)
{
    const char *dims[] = {"sequence=32768"};
    mp_workload_options o = mp_workload_defaults();
    const mp_request request = {.budget_bytes = MP_NO_LIMIT, .wants_bound = true};
    MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = {0};
    mp_error err = {0};
    o.batch = 1;
    o.dims = (mp_text_list){.n = 1, .items = dims};
    o.dtype = "bf16";
    o.device = "h100";
    o.rules = "executor";
    o.row_chunks = "auto";
    mp_workload whole = training_workload("qwen3-1.7b", &o);
    if (mp_row_chunks_choose(&whole, &o, &request, &choice, &err) != MP_OK) fail_msg("%s", err.message);
    o.row_chunks = choice.setting;
    mp_workload chosen = training_workload("qwen3-1.7b", &o);
    const mp_timeline *best, *other;
    const mp_step *steps;
    assert_int_equal(mp_problem_keep_all(chosen.problem, &steps, &best, NULL), MP_OK);
    for (int n = 1; n <= 64; n *= 2) {
        char setting[16];
        snprintf(setting, sizeof setting, "head=%d", n);
        o.row_chunks = n > 1 ? setting : "off";
        mp_workload fixed = training_workload("qwen3-1.7b", &o);
        assert_int_equal(mp_problem_keep_all(fixed.problem, &steps, &other, NULL), MP_OK);
        if (other->ticks < best->ticks) fail_msg("head=%d is faster than %s", n, choice.setting);
        mp_workload_free(&fixed);
    }
    mp_workload_free(&chosen);
    mp_workload_free(&whole);
}

/* If no plan is found with the chosen chunks, whole regions are searched. The test uses a large network in place of chunks
 * without a plan. */
TEST(without_a_plan_whole_regions_are_searched)
{
    const mp_workload_options o = options_with("off");
    for (int k = 0; k < 2; k++) {
        mp_workload w = training_workload("tests/gradients/gpt.onnx", &o),
                    whole = training_workload("tests/gradients/mlp.onnx", &o);
        const mp_card_search how = {.options = &o, .with_offsets = true};
        mp_row_chunks_choice choice = {.n = k ? 1 : 2, .setting = "head=2", .other_ticks = INT64_MAX};
        mp_card_plan found;
        const mp_graph *graphs[] = {w.graph, whole.graph};
        int64_t floor_bytes;
        assert_int_equal(mp_problem_floor(w.problem, &floor_bytes, NULL, NULL), MP_OK);
        const mp_request request = {.budget_bytes = floor_bytes - 1, .wants_bound = true};
        assert_int_equal(mp_row_chunks_search(&w, &whole, &how, &request, &choice, &found, NULL), MP_OK);
        assert_int_equal(found.answer.plan != NULL, k == 0);
        assert_ptr_equal(w.graph, graphs[1 - k]);
        assert_ptr_equal(whole.graph, graphs[k]);
        assert_int_equal(choice.n, 1);
        if (!k) assert_string_equal(choice.setting, "off");
        if (!k) assert_int_equal(mp_plan_check(w.graph, found.answer.plan, NULL), MP_OK);
        mp_card_plan_free(&found);
        mp_workload_free(&w);
        mp_workload_free(&whole);
    }
}

/* Each fault that can occur in a plan of a chunked network is found by the checker. */
static int n_found(training_case (*begin)(const char *path, int64_t batch, const mp_training_options *options),
                   const corruption *rows, size_t n)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = MP_FUSE_BACKWARD, .dtype = MP_DTYPE_FLOAT};
    training_case t = begin("tests/gradients/gpt.onnx", 0, &options);
    int n_kinds = 0;
    for (size_t k = 0; k < n; k++) {
        bool is_found = false;
        for (uint64_t seed = 1; seed <= 20 && !is_found; seed++) {
            random_source random = {seed * 31 + k};
            mp_error err = {0};
            mp_plan *plan = training_plan(&t, seed % 2 ? 0.5 : 0.9);
            if (rows[k].spoil(t.program->graph, plan, &random)) {
                is_found = mp_plan_check(t.program->graph, plan, &err) != MP_OK;
                if (!is_found && !rows[k].own_claim) fail_msg("%s is not found", rows[k].name);
                if (is_found && !strstr(err.message, rows[k].fault)) fail_msg("%s: %s", rows[k].name, err.message);
            }
            mp_plan_free(plan);
        }
        n_kinds += is_found;
    }
    training_end(&t);
    return n_kinds;
}

TEST(wrong_plans_of_chunked_networks_are_refused)
{
    assert_true(n_found(training_begin_chunked, corruptions, n_corruptions) >= 20);
    assert_true(n_found(training_begin_in_regions, corruptions, n_corruptions) >= 20);
    assert_true(n_found(training_begin_chunked, corruptions_of_places, n_corruptions_of_places) > 0);
    assert_true(n_found(training_begin_in_regions, corruptions_of_places, n_corruptions_of_places) > 0);
}

/* In bfloat16 the parts of the loss stay in float32, like the whole loss. The loss equals the whole loss up to rounding. */
TEST(a_training_in_bfloat16_has_the_loss_of_whole_logits)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_BFLOAT16};
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    double losses[2][3];
    for (int k = 0; k < 2; k++) {
        training_case t = (k ? training_begin_chunked : training_begin)("tests/gradients/gpt.onnx", 0, &options);
        mp_plan *plan = training_plan(&t, 0.5);
        mp_execution *e = training_execution(&t, plan, &hyper);
        training_run(&t, e, 0, 3, losses[k]);
        mp_execution_free(e);
        mp_plan_free(plan);
        training_end(&t);
    }
    for (int step = 0; step < 3; step++) assert_true(fabs(losses[1][step] / losses[0][step] - 1) < 2e-3);
}

/* Trains heads and regions in chunks, in both types and with updates at all places. Over 20 steps, a plan that recomputes and
 * keep-all with the same chunks have bit-identical losses. */
TEST(a_plan_gives_the_bits_of_keep_all_in_the_same_chunks)
{
    enum { STEPS = 20 };
    static training_case (*const begins[])(const char *path, int64_t batch, const mp_training_options *options) = {
        training_begin_chunked, training_begin_in_regions};
    static const mp_dtype types[] = {MP_DTYPE_FLOAT, MP_DTYPE_BFLOAT16};
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    int n_again = 0;
    for (int k = 0; k < 2 * 2 * MP_N_FUSES; k++) {
        const mp_training_options options = {
            .optimizer = MP_OPTIMIZER_ADAMW, .fuse = (mp_fuse)(k / 4), .dtype = types[k / 2 % 2], .accumulate = 1 + k % 2};
        training_case t = begins[k % 2]("tests/gradients/gpt.onnx", 0, &options);
        double losses[3][STEPS];
        for (int part = 0; part < 3; part++) {
            mp_plan *plan = part ? training_plan(&t, part == 1 ? 0.5 : 0) : training_keep_all(&t);
            mp_execution *e = training_execution(&t, plan, &hyper);
            training_run(&t, e, 0, STEPS, losses[part]);
            n_again += plan->n_steps > t.program->graph->n_nodes;
            if (memcmp(losses[part], losses[0], sizeof losses[0]) != 0)
                fail_msg("%s, %s, regions %d, part %d: another result", mp_fuse_name(options.fuse),
                         options.dtype == MP_DTYPE_FLOAT ? "fp32" : "bf16", k % 2, part);
            mp_execution_free(e);
            mp_plan_free(plan);
        }
        assert_true(losses[0][STEPS - 1] < losses[0][0]);
        training_end(&t);
    }
    assert_true(n_again >= 2 * MP_N_FUSES);
}

/* Networks on sequences of 24 positions with 8 numbers each, and the regions that they must have. */
static const struct {
    const char *text;
    int n[MP_N_CHUNK_KINDS]; /* number of regions per kind */
} blocks[] = {
    {"LayerNormalization x s b -> n axis=-1; MatMul n u -> a; Gelu a -> g; MatMul g v -> m; Add x m -> y", {0, 1, 0, 0}},
    {"LayerNormalization x s b -> n axis=2; MatMul n u -> a; Sigmoid a -> g; MatMul n w -> c; Mul g c -> e; MatMul e v -> m; "
     "Add x m -> y",
     {0, 1, 0, 0}},
    {"MatMul x u -> a; Relu a -> g; Split g -> h i axis=2; Mul h i -> j; MatMul j p -> m; Add x m -> y", {0, 1, 0, 0}},
    {"MatMul x u -> a; Tanh a -> g; MatMul g v -> m; Add x m -> c; MatMul c w -> d; Tanh d -> e; MatMul e v -> y",
     {0, 2, 0, 0}},
    {"MatMul x u -> a; Tanh a -> g; Mul g g -> h; ReduceSum h last -> y keepdims=1", {0, 0, 1, 0}},
    {"MatMul x q -> a; MatMul x k -> c; Transpose c -> t perm=[0,2,1]; MatMul a t -> d; Tanh d -> e; Softmax e -> f "
     "axis=2; "
     "MatMul f x -> y",
     {0, 0, 0, 1}},
    {"MatMul x q -> a; MatMul x k -> c; Transpose c -> t perm=[0,2,1]; MatMul a t -> d; Add d mask -> e; Softmax e -> f "
     "axis=-1; "
     "MatMul f x -> y",
     {0, 0, 0, 1}},
    /* no regions: rows depend on each other, or on their position */
    {"MatMul x u -> a; Softmax a -> g axis=1; MatMul g v -> y", {0, 0, 0, 0}},
    {"MatMul x u -> a; Mul a position -> g; MatMul g v -> y", {0, 0, 0, 0}},
    {"MatMul x u -> a; ReduceSum a middle -> g keepdims=1; Sub a g -> h; MatMul h v -> y", {0, 0, 0, 0}},
    {"MatMul x q -> a; MatMul x k -> c; Transpose c -> t perm=[0,2,1]; MatMul a t -> d; Softmax d -> f axis=1; MatMul f x -> y",
     {0, 0, 0, 0}},
};

static training_case begin_block(size_t k, int n_chunks, const char *path, mp_row_regions *regions)
{
    training_case t = {0};
    mp_onnx_options file = {.batch = 0};
    const mp_training_options options = {.loss = MP_LOSS_MSE, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    const int n[MP_N_CHUNK_KINDS] = {0, n_chunks, n_chunks, n_chunks};
    mp_error err = {0};
    int loss;
    if (mp_onnx_read(path, &file, &t.model, &err) != MP_OK) fail_msg("%s: %s", blocks[k].text, err.message);
    assert_int_equal(mp_model_simplify(t.model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
    assert_int_equal(mp_model_add_loss(t.model, &options, &loss, &err), MP_OK);
    if (mp_model_chunk_rows(t.model, n, 4, regions, &err) != MP_OK) fail_msg("%s: %s", blocks[k].text, err.message);
    if (mp_program_build(backend_of_tests(), t.model, &options, loss, &t.program, &err) != MP_OK)
        fail_msg("%s: %s", blocks[k].text, err.message);
    assert_int_equal(mp_parameter_source_open(t.program, path, 1, false, &t.source, &err), MP_OK);
    assert_int_equal(mp_inputs_open_feed(t.program, NULL, 0, 1, &t.feed, &err), MP_OK);
    return t;
}

/* Trains a block for three steps with keep-all and with the most recomputation. Both give the same bits. */
static void train_block(size_t k, int n_chunks, const char *path, double losses[3])
{
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    mp_row_regions regions;
    training_case t = begin_block(k, n_chunks, path, &regions);
    for (int kind = MP_CHUNK_MLP; kind < MP_N_CHUNK_KINDS; kind++)
        if (regions.kinds[kind].n_regions != blocks[k].n[kind] ||
            regions.kinds[kind].n != (n_chunks > 1 && blocks[k].n[kind] ? n_chunks : 0))
            fail_msg("%s: %d regions '%s' in %d chunks", blocks[k].text, regions.kinds[kind].n_regions,
                     mp_chunk_kind_name((mp_chunk_kind)kind), regions.kinds[kind].n);
    for (int part = 0; part < 2; part++) {
        double found[3];
        mp_plan *plan = part ? training_plan(&t, 0) : training_keep_all(&t);
        mp_execution *e = training_execution(&t, plan, &hyper);
        training_run(&t, e, 0, 3, part ? found : losses);
        if (part) assert_memory_equal(found, losses, sizeof found);
        mp_execution_free(e);
        mp_plan_free(plan);
    }
    training_end(&t);
}

TEST(regions_of_independent_rows_are_found_and_give_the_same_training)
{
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
        onnx_builder b;
        char text[1024];
        double whole[3], chunked[3];
        snprintf(text, sizeof text,
                 "input x0 float 2,24,8; input mask float 24,24; weight first 8,8; weight s 8; weight b 8; weight u 8,64; "
                 "weight w 8,64; weight v 64,8; "
                 "weight p 32,8; weight q 8,8; weight k 8,8; weight position 24,64; "
                 "ints last 2; ints middle 1; MatMul x0 first -> z; Softmax z -> x axis=1; %s; out y",
                 blocks[k].text);
        onnx_text_start(&b, 20, text);
        const char *path = onnx_save(&b);
        train_block(k, 1, path, whole);
        for (int n_chunks = 2; n_chunks < 5; n_chunks++) {
            train_block(k, n_chunks, path, chunked);
            for (int step = 0; step < 3; step++)
                if (!(fabs(chunked[step] - whole[step]) <= 1e-5 * fabs(whole[step])))
                    fail_msg("%s in %d chunks: the loss is %.9g, not %.9g", blocks[k].text, n_chunks, chunked[step],
                             whole[step]);
        }
        onnx_end(&b);
    }
}

static bool reads(const mp_node *node, int storage)
{
    for (size_t k = 0; k < node->alternatives->n_reads; k++)
        if (node->alternatives->reads[k] == storage) return true;
    return false;
}

/* PyTorch stores the log-probabilities of a chunk, not its logits. Each chunk adds to the weight's gradient in place. */
TEST(in_pytorch_a_chunk_needs_no_logits_in_backward_and_no_third_gradient)
{
    mp_workload_options o = mp_workload_defaults();
    o.rules = "pytorch";
    o.row_chunks = "head=3";
    mp_workload w = training_workload("tests/gradients/gpt.onnx", &o);
    int n_parts = 0, n_sums = 0, logits = -1;
    for (size_t k = 0; k < w.graph->n_nodes; k++) {
        const mp_node *node = &w.graph->nodes[k];
        const bool is_part = strcmp(node->op, "SoftmaxCrossEntropyPart") == 0;
        if (is_part && node->phase == MP_PHASE_LOSS) logits = node->alternatives->reads[0];
        if (is_part && node->phase == MP_PHASE_BACKWARD) {
            n_parts++;
            assert_false(reads(node, logits));
        }
        if (strcmp(node->op, "Accumulate") == 0 && n_parts < 3) {
            n_sums++;
            assert_int_equal(node->alternatives->workspace_bytes, 0);
        }
    }
    assert_int_equal(n_parts, 3);
    assert_int_equal(n_sums, 1);
    mp_workload_free(&w);
}

/* Refusals, and settings that have no effect on the graph. */
TEST(settings_that_do_not_fit_are_refused)
{
    static const struct {
        const char *path, *chunks, *why;
    } of[] = {{"tests/gradients/gpt.onnx", "head=0", "write auto, off, or a list"},
              {"tests/gradients/gpt.onnx", "head=3x", "write auto, off, or a list"},
              {"tests/gradients/gpt.onnx", "head=3,", "write auto, off, or a list"},
              {"tests/gradients/gpt.onnx", "head=3,mlp", "write auto, off, or a list"},
              {"tests/gradients/gpt.onnx", "tail=3", "write auto, off, or a list"},
              {"tests/gradients/gpt.onnx", "rows=3", "no region 'rows'"},
              {"tests/gradients/unet.onnx", "head=3", "the model's loss is not a cross-entropy"}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        mp_workload_options o = mp_workload_defaults();
        mp_workload w = {0};
        mp_error err = {0};
        o.row_chunks = of[k].chunks;
        assert_int_equal(mp_workload_load(of[k].path, &o, &w, &err), MP_INVALID);
        if (!strstr(err.message, of[k].why)) fail_msg("\"%s\" does not say \"%s\"", err.message, of[k].why);
        mp_workload_free(&w);
    }
}
