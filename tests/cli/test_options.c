/* test_options.c - cli/options: every option that affects a graph is stored in the files made with it. */
#include <fcntl.h>
#include <unistd.h>

#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "estimator/base/memory.h"
#include "executor/workload/options_json.h"
#include "executor/workload/workload.h"
#include "formats/json/json.h"
#include "tests/cases/test.h"

static char folder[] = "/tmp/memplan-options-XXXXXX", plan[64], costs[64];
static mp_pool *pool;

#define CNN "examples/fashion_cnn.onnx"
#define BERT "tests/gradients/bert.onnx"
#define GCN "tests/networks/files/gcn.dynamo.onnx"

/* For each option with a key: words that set a value other than the default, a model that the option affects, and further
 * options that it needs (`with`). @costs and @plan are replaced by files. */
static const struct {
    const char *model, *with, *words;
} rows[N_OPTIONS] = {
    [OPT_BATCH] = {CNN, "", "--batch 3"},
    [OPT_DIM] = {CNN, "", "--dim N=3"},
    [OPT_DATA] = {CNN, "--batch 3", "--data image --data 0.0.weight"},
    [OPT_OUTPUT] = {CNN, "--batch 3 --loss mse", "--output /2/MaxPool_output_0"},
    [OPT_LOSS] = {CNN, "--batch 3", "--loss mse"},
    [OPT_LABEL_SMOOTHING] = {CNN, "--batch 3", "--label-smoothing 0.1"},
    [OPT_IGNORE_INDEX] = {CNN, "--batch 3", "--ignore-index -1"},
    [OPT_CLASS_WEIGHTS] = {CNN, "--batch 3", "--class-weights 1,2,3,4,5,6,7,8,9,10"},
    [OPT_POS_WEIGHT] = {CNN, "--batch 3 --loss bce", "--pos-weight 2"},
    [OPT_BETA] = {CNN, "--batch 3 --loss huber", "--beta 0.5"},
    [OPT_OPTIMIZER] = {CNN, "--batch 3", "--optimizer momentum"},
    [OPT_TRAIN] = {GCN, "", "--train zeros* --train ones"},
    [OPT_AMP] = {CNN, "--batch 3", "--amp bf16"},
    [OPT_LORA] = {BERT, "", "--lora 4:*qkv.weight --lora 2:*proj*"},
    [OPT_FREEZE] = {CNN, "--batch 3", "--freeze 0.* --freeze *.bias"},
    [OPT_FUSE] = {CNN, "--batch 3", "--fuse backward"},
    [OPT_DTYPE] = {CNN, "--batch 3", "--dtype bf16"},
    [OPT_DEVICE] = {CNN, "--batch 3", "--device h100,memory=40GiB,bandwidth=2000"},
    [OPT_RATES] = {CNN, "--batch 300 --device h100", "--rates peak"},
    [OPT_RULES] = {CNN, "--batch 3", "--rules pytorch"},
    [OPT_KEEP_INFERENCE_NORMS] = {"tests/gradients/fixed.onnx", "", "--keep-inference-norms"},
    [OPT_NO_SIMPLIFY] = {BERT, "", "--no-simplify"},
    [OPT_ACCUMULATE] = {CNN, "--batch 3", "--accumulate 4"},
    [OPT_CLIP_NORM] = {CNN, "--batch 3", "--clip-norm 0.1"},
    [OPT_INEXACT] = {CNN, "--batch 3", "--inexact"},
    [OPT_NO_FUSED_ATTENTION] = {BERT, "", "--no-fused-attention"},
    [OPT_TF32] = {CNN, "--batch 300 --device h100", "--tf32"},
    [OPT_FAST] = {CNN, "--batch 3 --device cuda", "--fast"},
    [OPT_WORKSPACE_LIMIT] = {CNN, "--batch 3 --device cuda", "--workspace-limit 1MiB"},
    [OPT_ROW_CHUNKS] = {CNN, "--batch 30", "--row-chunks head=2"},
    [OPT_CHUNK_STEPS] = {"tests/gradients/recurrent.onnx", "", "--chunk-steps 2"},
    [OPT_COSTS] = {CNN, "--batch 3 --device cpu", "--costs @costs"},
    [OPT_OFFLOAD] = {CNN, "--batch 300", "--offload host:1GiB --offload ."},
    [OPT_OFFLOAD_STATE] = {"examples/mlp4.onnx", "--batch 64 --offload host", "--offload-state"},
    [OPT_MESH] = {CNN, "--batch 3", "--mesh dp=2,shard=4,zero=2,tp=2"},
    [OPT_NETWORK] = {CNN, "--batch 3 --mesh dp=2", "--network pcie"},
    [OPT_REDUCE] = {CNN, "--batch 3 --mesh dp=2 --device cpu", "--reduce fast"},
    [OPT_SYNC_BATCHNORM] = {CNN, "--batch 3 --mesh dp=2 --device cpu", "--sync-batchnorm"},
    [OPT_BUCKET] = {CNN, "--batch 3 --mesh dp=2", "--bucket 1MiB"},
    [OPT_FSDP_UNIT] = {BERT, "--mesh shard=2 --rules pytorch", "--fsdp-unit tokens"},
    [OPT_MICRO_BATCHES] = {CNN, "--batch 4 --mesh pp=2 --rank 0 --stash 100MiB", "--micro-batches 2"},
    [OPT_PIPELINE] = {CNN, "--batch 4 --mesh pp=2 --rank 0 --stash 100MiB", "--pipeline-schedule gpipe"},
    [OPT_CHUNKS] = {CNN, "--batch 4 --mesh pp=2 --rank 0 --stash 100MiB --pipeline-schedule interleaved", "--chunks 3"},
    [OPT_STAGES] = {CNN, "--batch 4 --mesh pp=2 --rank 0 --stash 100MiB", "--stages 0,2"},
    [OPT_RANK] = {CNN, "--batch 4 --mesh pp=2 --stash 100MiB", "--rank 1"},
    [OPT_STASH] = {CNN, "--batch 4 --mesh pp=2 --rank 0", "--stash 100MiB"},
    [OPT_LINK] = {CNN, "--batch 300 --offload host", "--link 3GB/s"},
};

/* The words of a command line after the command. */
typedef struct line {
    char *argv[24];
    int argc;
} line;

static void add(line *l, const char *words)
{
    for (size_t n; *words; words += n + strspn(words + n, " ")) {
        n = strcspn(words, " ");
        char *word = mp_pool_text(pool, words, n);
        l->argv[l->argc++] = !strcmp(word, "@costs") ? costs : !strcmp(word, "@plan") ? plan : word;
    }
}

static void parse(command_id command, line *l, options *o)
{
    if (options_parse(command, l->argc, l->argv, o) != EXIT_DONE) fail_msg("%s is refused", commands[command].name);
}

/* Runs a command without standard output and returns its exit status. */
static int run(command_id command, line *l)
{
    options o;
    parse(command, l, &o);
    fflush(stdout);
    int out = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    int status = commands[command].run(&o);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    close(nowhere);
    options_free(&o);
    return status;
}

static int start(void **state)
{
    char modules[4096], *slash;
    line profile = {.argc = 0};
    ssize_t n = readlink("/proc/self/exe", modules, sizeof modules - 1);
    (void)state;
    pool = mp_pool_new();
    if (n < 0 || !pool || !mkdtemp(folder)) return -1;
    modules[n] = 0;
    slash = strrchr(modules, '/');
    snprintf(slash, (size_t)(modules + sizeof modules - slash), "/modules");
    setenv("MEMPLAN_MODULES", modules, 1);
    snprintf(plan, sizeof plan, "%s/plan.json", folder);
    snprintf(costs, sizeof costs, "%s/costs.json", folder);
    add(&profile, CNN " --batch 3 --device cpu --steps 1 -o @costs");
    return run(CMD_PROFILE, &profile);
}

static int stop(void **state)
{
    (void)state;
    unlink(plan);
    unlink(costs);
    mp_pool_free(pool);
    return rmdir(folder);
}

TEST(every_option_with_a_key_has_a_row_here)
{
    for (int k = 0; k < N_OPTIONS; k++) {
        const char *key = option_rows[k].key;
        if (key && !rows[k].words) fail_msg("--%s has the key %s, and this test no words for it", option_rows[k].name, key);
        if (!key && rows[k].words) fail_msg("--%s has no key", option_rows[k].name);
    }
}

/* Returns the options of a command line as JSON in the pool. */
static const char *said_options(line *l)
{
    options o;
    parse(CMD_PLAN, l, &o);
    json_t *json = mp_workload_options_json(&o.model);
    char *text = mp_json_print(json, 0);
    const char *kept = mp_pool_text(pool, text, strlen(text));
    mp_free(text);
    json_decref(json);
    options_free(&o);
    return kept;
}

/* Makes the graph of a command line, with the options of a plan if one is given. Returns its hash, and its options as text in
 * the pool. */
static const char *graph_options(line *l, const char *plan_path, char hash[33])
{
    options o;
    mp_workload s;
    mp_error err = {0};
    parse(CMD_PLAN, l, &o);
    if (load_workload_as_planned(l->argv[0], plan_path, &o, &s, &err) != MP_OK) fail_msg("%s", err.message);
    const char *text = mp_pool_text(pool, s.graph->options, strlen(s.graph->options));
    memcpy(hash, s.graph->hash, 33);
    mp_workload_free(&s);
    options_free(&o);
    return text;
}

/* Makes a plan with the option. It must be valid for its model with and without repeating the option. */
static void survives_in_a_plan(option_id id)
{
    const char *name = option_rows[id].name;
    char hash[33], hash_planned[33];
    line model = {.argc = 0}, without, with, make, check, repeat;
    add(&model, rows[id].model);
    without = check = model;
    add(&without, rows[id].with);
    with = without;
    add(&with, rows[id].words);
    make = repeat = with;
    add(&make, "--solver none -o @plan");
    add(&check, "@plan");
    add(&repeat, "@plan");
    const char *said = graph_options(&with, NULL, hash);
    if (!strcmp(said, said_options(&without))) fail_msg("--%s: these words say its default", name);
    if (run(CMD_PLAN, &make) != EXIT_DONE) fail_msg("--%s: there is no plan", name);
    if (run(CMD_CHECK, &check) != EXIT_DONE) fail_msg("--%s: the plan does not hold for its model", name);
    if (run(CMD_CHECK, &repeat) != EXIT_DONE) fail_msg("--%s: the plan does not hold where the option is repeated", name);
    assert_string_equal(graph_options(&model, plan, hash_planned), said);
    assert_string_equal(hash_planned, hash);
}

TEST(every_option_with_a_key_survives_in_a_plan)
{
    for (int k = 0; k < N_OPTIONS; k++)
        if (option_rows[k].key) survives_in_a_plan((option_id)k);
}

/* Returns the seconds of a keep-all step, and whether the answer states their accuracy. */
static double keep_all_seconds(const char *words, bool *has_accuracy)
{
    line l = {.argc = 0};
    options o;
    mp_workload s;
    mp_error err = {0};
    double seconds = 0;
    add(&l, CNN " --batch 300");
    add(&l, words);
    parse(CMD_PLAN, &l, &o);
    if (load_workload_as_planned(l.argv[0], NULL, &o, &s, &err) != MP_OK) fail_msg("%s", err.message);
    for (size_t k = 0; k < s.graph->n_nodes; k++)
        seconds += (double)s.graph->nodes[k].alternatives[0].ticks * s.graph->tick_seconds;
    *has_accuracy = *mp_workload_accuracy(&s) != 0;
    mp_workload_free(&s);
    options_free(&o);
    return seconds;
}

TEST(a_device_that_runs_plans_obeys_rates_like_its_profile)
{
    bool of_usual, of_achieved, of_peak, of_profile, of_cpu;
    const double usual = keep_all_seconds("--device cuda", &of_usual),
                 achieved = keep_all_seconds("--device cuda --rates achieved", &of_achieved),
                 peak = keep_all_seconds("--device cuda --rates peak", &of_peak),
                 profile = keep_all_seconds("--device h100 --rules executor", &of_profile);
    assert_true(of_usual && of_achieved && of_profile && !of_peak);
    assert_float_equal(usual, achieved, 0);
    assert_true(peak < 0.8 * achieved);
    /* the stand-in has the CPU's layouts, so its graph also has nodes that reorder tensors */
    assert_float_equal(achieved, profile, 0.3 * profile);
    assert_float_equal(keep_all_seconds("--device cpu", &of_cpu), keep_all_seconds("--device cpu --rates peak", &of_cpu), 0);
    assert_false(of_cpu);
}

int main(void)
{
    return test_run(start, stop);
}
