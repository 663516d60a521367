/* public_workloads.c - calls of the allocating public functions of workloads: loading a model or graph with various settings,
 * plans, checkpoints, and the agreement of ranks. */
#include "executor/program/program.h"
#include "executor/ranks/communicator.h"
#include "formats/pages/run_trace.h"
#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"

#define MUST(call) assert_int_equal((call), MP_OK)
#define MLP "tests/gradients/mlp.onnx"
#define GPT "tests/gradients/gpt.onnx"

static mp_status loaded(public_world *w, const char *path, const mp_workload_options *o, mp_error *err)
{
    mp_workload workload;
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_workload_load(path, o, &workload, err));
    mp_workload_free(&workload);
    return st;
}

static mp_workload_options of_mesh(const char *mesh)
{
    mp_workload_options o = public_sgd();
    MUST(mp_mesh_read(mesh, &o.mesh, NULL));
    return o;
}

static mp_status load(public_world *w, mp_error *err)
{
    const mp_workload_options o = public_sgd();
    return loaded(w, MLP, &o, err);
}

static mp_status load_json(public_world *w, mp_error *err)
{
    const mp_workload_options o = public_sgd();
    return loaded(w, w->graph_file, &o, err);
}

static mp_status load_dot(public_world *w, mp_error *err)
{
    const mp_workload_options o = public_sgd();
    return loaded(w, w->dot_file, &o, err);
}

/* A program of the CPU with attention and accumulated gradients. */
static mp_status load_program(public_world *w, mp_error *err)
{
    mp_workload_options o = public_sgd();
    o.device = "cpu";
    o.accumulate = 2;
    return loaded(w, GPT, &o, err);
}

/* The rules of PyTorch add notes about guesses. */
static mp_status load_pytorch(public_world *w, mp_error *err)
{
    mp_workload_options o = public_sgd();
    o.rules = "pytorch";
    return loaded(w, GPT, &o, err);
}

/* A file in inference mode adds a note. */
static mp_status load_inference(public_world *w, mp_error *err)
{
    const mp_workload_options o = public_sgd();
    return loaded(w, "tests/gradients/fixed.onnx", &o, err);
}

static mp_status load_costs(public_world *w, mp_error *err)
{
    mp_workload_options o = public_sgd();
    mp_workload workload;
    static const mp_node_cost costs[1024];
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    assert_true(workload.graph->n_nodes <= sizeof costs / sizeof *costs);
    MUST(mp_costs_write(w->written, workload.graph, costs, NULL));
    mp_workload_free(&workload);
    o.costs = w->written;
    const mp_status st = loaded(w, MLP, &o, err);
    remove(w->written);
    return st;
}

static mp_status load_offload(public_world *w, mp_error *err)
{
    const char *host[] = {"host:1GiB", "/tmp"}, *link[] = {"24GB/s"};
    const char *large[] = {"layers=1", "width=256", "heads=2", "vocabulary=64", "sequence=256"};
    mp_workload_options o = public_sgd();
    o.offload = (mp_text_list){.n = 2, .items = host};
    o.link = (mp_text_list){.n = 1, .items = link};
    o.offload_state = true;
    o.optimizer = "adamw";
    o.dims = (mp_text_list){.n = sizeof large / sizeof *large, .items = large};
    o.batch = 16;
    return loaded(w, "gpt2", &o, err);
}

static mp_status load_split(public_world *w, mp_error *err)
{
    mp_workload_options o = of_mesh("dp=2,tp=2");
    o.device = "cpu";
    return loaded(w, GPT, &o, err);
}

static mp_status load_shards(public_world *w, mp_error *err)
{
    const mp_workload_options o = of_mesh("shard=2");
    return loaded(w, MLP, &o, err);
}

static const char *const sizes[] = {"layers=2", "width=64", "heads=2", "vocabulary=64", "sequence=8"};

static mp_workload_options of_stage(void)
{
    mp_workload_options o = of_mesh("dp=2,pp=2");
    o.dims = (mp_text_list){.n = sizeof sizes / sizeof *sizes, .items = (const char **)sizes};
    o.batch = 4;
    o.rank = "0";
    return o;
}

/* Adapters, a loss with settings, and a device that is described in the text. */
static mp_status load_settings(public_world *w, mp_error *err)
{
    const char *lora[] = {"2:*qkv.weight"};
    mp_workload_options o = public_sgd();
    o.dims = (mp_text_list){.n = sizeof sizes / sizeof *sizes, .items = (const char **)sizes};
    o.lora = (mp_text_list){.n = 1, .items = lora};
    o.ignore_index = "3";
    o.label_smoothing = 0.1;
    o.device = "a100,memory=40GiB,name=ours";
    return loaded(w, "gpt2", &o, err);
}

static mp_status load_stage(public_world *w, mp_error *err)
{
    mp_workload_options o = of_stage();
    o.stash = "1MiB";
    return loaded(w, "gpt2", &o, err);
}

static mp_status load_stage_program(public_world *w, mp_error *err)
{
    mp_workload_options o = of_stage();
    o.device = "cpu";
    o.stages = "0,1";
    return loaded(w, "gpt2", &o, err);
}

/* ---- plans ---- */

static mp_status pipeline_smallest_budget(public_world *w, mp_error *err)
{
    const mp_workload_options o = of_stage();
    const mp_request request = {.solver = "segments", .moves = 5};
    int64_t bytes;
    PUBLIC_OUTPUT(w, bytes, mp_pipeline_smallest_budget("gpt2", &o, &request, false, 1 << 20, &bytes, err), PUBLIC_NOTHING);
}

static mp_status pipeline_report_new(public_world *w, mp_error *err)
{
    const mp_workload_options o = of_stage();
    mp_pipeline_report report;
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_pipeline_report_new(&o, &report, err));
    mp_pipeline_report_free(&report);
    return st;
}

/* Both ranks with everything kept, then a step. `plays`: the limit is for the step, otherwise for the second rank. */
static mp_status reported(public_world *w, bool plays, mp_error *err)
{
    MP_CLEARED_BY(mp_pipeline_report_free) mp_pipeline_report report = {0};
    mp_workload_options o = of_stage();
    mp_status st = MP_OK;
    MUST(mp_pipeline_report_new(&o, &report, NULL));
    for (int r = 0; r < 2; r++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
        const mp_step *steps;
        const mp_timeline *keep_all;
        o.rank = r ? "1" : "0";
        MUST(mp_workload_load("gpt2", &o, &workload, NULL));
        MUST(mp_problem_keep_all(workload.problem, &steps, &keep_all, NULL));
        if (plays || !r)
            MUST(mp_pipeline_report_take(&report, &workload, NULL, NULL));
        else
            PUBLIC_LIMITED(w, st, mp_pipeline_report_take(&report, &workload, NULL, err));
    }
    if (plays) PUBLIC_LIMITED(w, st, mp_pipeline_report_play(&report, err));
    return st;
}

static mp_status pipeline_report_take(public_world *w, mp_error *err)
{
    return reported(w, false, err);
}

static mp_status pipeline_report_play(public_world *w, mp_error *err)
{
    return reported(w, true, err);
}

/* Writes keep-all of a workload as a plan file. */
static void write_plan(const public_world *w, const char *path, const mp_workload_options *o)
{
    mp_workload workload;
    mp_plan *plan;
    const mp_step *steps;
    const mp_timeline *keep_all;
    MUST(mp_workload_load(path, o, &workload, NULL));
    MUST(mp_problem_keep_all(workload.problem, &steps, &keep_all, NULL));
    MUST(mp_plan_new(workload.graph, "test", steps, workload.graph->n_nodes, &plan, NULL));
    MUST(mp_plan_write(plan, workload.graph, w->written, NULL));
    mp_plan_free(plan);
    mp_workload_free(&workload);
}

static mp_status planned(public_world *w, bool reads_plan, mp_error *err)
{
    mp_workload_options o = of_stage(), later = mp_workload_defaults();
    mp_workload workload;
    mp_status st;
    write_plan(w, "gpt2", &o);
    PUBLIC_LIMITED(w, st,
                   reads_plan ? mp_workload_load_with_plan("gpt2", w->written, &later, NULL, &workload, err)
                              : mp_workload_load_as_planned("gpt2", w->written, &later, NULL, &workload, err));
    if (st == MP_OK && later.batch != 4) public_wrong("does not take the batch from the plan");
    mp_workload_free(&workload);
    mp_workload_options_free(&later);
    remove(w->written);
    return st;
}

static mp_status load_as_planned(public_world *w, mp_error *err)
{
    return planned(w, false, err);
}

static mp_status load_with_plan(public_world *w, mp_error *err)
{
    return planned(w, true, err);
}

/* ---- a loaded workload ---- */

/* Loads a stage with its plan of keep-all. */
static mp_workload stage_with_plan(void)
{
    const mp_workload_options o = of_stage();
    const mp_step *steps;
    const mp_timeline *keep_all;
    mp_workload workload;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    MUST(mp_problem_keep_all(workload.problem, &steps, &keep_all, NULL));
    MUST(mp_plan_new(workload.graph, "test", steps, workload.graph->n_nodes, &workload.plan, NULL));
    return workload;
}

static const mp_request quick = {.budget_bytes = 1 << 20, .solver = "segments", .moves = 5};

static mp_status plan_workload(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = of_stage();
    mp_plan *plan;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    PUBLIC_OUTPUT(w, plan, mp_workload_plan(&workload, &quick, true, &plan, err), mp_plan_free(plan));
}

static mp_status traffic(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = of_stage();
    mp_rank_traffic sent;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    MP_OWNED mp_step *steps = mp_alloc(workload.graph->n_nodes, sizeof *steps);
    const size_t n = mp_keep_all(workload.graph, steps);
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_workload_traffic(&workload, steps, n, &sent, err));
    return st;
}

static mp_status smallest(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = of_stage();
    int64_t bytes;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    PUBLIC_OUTPUT(w, bytes, mp_workload_smallest(&workload, &quick, false, &bytes, err), PUBLIC_NOTHING);
}

static mp_status floor_of_workload(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = of_stage();
    int64_t bytes;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    PUBLIC_OUTPUT(w, bytes, mp_workload_floor(&workload, &bytes, err), PUBLIC_NOTHING);
}

static mp_status checkpoints(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = public_sgd();
    const char *name = NULL;
    struct {
        int *list;
        size_t n;
    } found;
    mp_status st;
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    const mp_graph *g = workload.graph;
    for (size_t s = 0; s < g->n_storages && !name; s++)
        if (g->producer[s] >= 0 && g->nodes[g->producer[s]].phase == MP_PHASE_FORWARD && g->storages[s].n_tensors)
            name = g->storages[s].tensors[0];
    assert_non_null(name);
    public_mark(&found, sizeof found);
    PUBLIC_LIMITED(w, st, mp_workload_checkpoints(&workload, name, &found.list, &found.n, err));
    if (st != MP_OK)
        public_is_marked(&found, sizeof found);
    else
        mp_free(found.list);
    return st;
}

static mp_communicator alone(void)
{
    static mp_awaited open[2];
    return (mp_communicator){.name = "alone", .n = 1, .open = open};
}

static mp_status agree(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = stage_with_plan();
    const mp_fact fact = {"seed", "7", 1};
    mp_communicator world = alone();
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_workload_agree(&workload, &world, &fact, 1, 1, err));
    return st;
}

static mp_status agree_on_data(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = stage_with_plan();
    const mp_fact fact = {"digest", "7", 1};
    mp_communicator world = alone();
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_workload_agree_on_data(&workload, &world, &fact, 1, &fact, 1, 1, err));
    return st;
}

/* ---- trainings ---- */

/* Loads a model with its plan of keep-all, for the CPU. */
static mp_workload trainable(void)
{
    mp_workload_options o = public_sgd();
    mp_workload workload;
    o.device = "cpu";
    MUST(mp_workload_load("tests/gradients/cnn.onnx", &o, &workload, NULL));
    MUST(mp_keep_all_plan(workload.graph, NULL, &workload.plan, NULL));
    return workload;
}

static mp_status open_inputs(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = trainable();
    const char *synthetic = "synthetic";
    const mp_workload_inputs_request from = {.test = {.n = 1, .items = &synthetic}, .seed = 1};
    mp_workload_inputs in;
    PUBLIC_OUTPUT(w, in, mp_workload_open_inputs(&workload, &from, &in, err), mp_workload_inputs_free(&in));
}

static mp_status try_tiers(public_world *w, mp_error *err)
{
    const char *host = "host";
    const char *large[] = {"layers=1", "width=256", "heads=2", "vocabulary=64", "sequence=256"};
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    mp_workload_options o = public_sgd();
    mp_execution_options execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD)};
    mp_status st;
    o.device = "cpu";
    o.offload = (mp_text_list){.n = 1, .items = &host};
    o.dims = (mp_text_list){.n = sizeof large / sizeof *large, .items = large};
    o.batch = 4;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    MUST(mp_keep_all_plan(workload.graph, NULL, &workload.plan, NULL));
    mp_workload_use_tiers(&workload, &execution);
    PUBLIC_LIMITED(w, st, mp_workload_try_tiers(&workload, &execution, err));
    return st;
}

static mp_status keep_all_like(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = trainable();
    mp_plan *plan;
    MUST(mp_program_list_algorithms(workload.program, NULL));
    PUBLIC_OUTPUT(w, plan, mp_workload_keep_all_like(&workload, &plan, err), mp_plan_free(plan));
}

static mp_status hold_for(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = stage_with_plan();
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_workload_hold_for(&workload, workload.plan, err));
    return st;
}

static mp_status write_trace(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = trainable();
    mp_step_time times[1024] = {{0}};
    mp_status st;
    assert_true(workload.plan->n_steps <= sizeof times / sizeof *times);
    PUBLIC_LIMITED(w, st, mp_workload_write_trace(&workload, NULL, times, w->written, 1, err));
    remove(w->written);
    return st;
}

static mp_status agree_on_inputs(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = trainable();
    const mp_workload_inputs in = {.n_samples = 1};
    mp_communicator world = alone();
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_workload_agree_on_inputs(&workload, &world, &in, 1, err));
    return st;
}

static mp_status end_together(public_world *w, mp_error *err)
{
    mp_communicator world = alone();
    mp_work_end end = {0};
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_ranks_end_together(&world, &end, "the test", 1, err));
    return st;
}

static mp_status share_plan(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = stage_with_plan();
    const mp_plan *plan = workload.plan;
    mp_communicator world = alone();
    mp_work_end end = {0};
    mp_status st;
    workload.ranks.mesh.size[MP_DIM_PP] = 1; /* one process is the only rank of its graph */
    PUBLIC_LIMITED(w, st, mp_workload_share_plan(&workload, &world, &end, 1, err));
    if (workload.plan != plan) public_wrong("replaces the plan of the rank that searched");
    return st;
}

const public_call public_workloads[] = {{"mp_workload_load", load},
                                        {"mp_workload_load, graph file", load_json},
                                        {"mp_workload_load, DOT file", load_dot},
                                        {"mp_workload_load, settings", load_settings},
                                        {"mp_workload_load, program", load_program},
                                        {"mp_workload_load, rules of PyTorch", load_pytorch},
                                        {"mp_workload_load, inference", load_inference},
                                        {"mp_workload_load, costs", load_costs},
                                        {"mp_workload_load, offload", load_offload},
                                        {"mp_workload_load, tp", load_split},
                                        {"mp_workload_load, shard", load_shards},
                                        {"mp_workload_load, pp", load_stage},
                                        {"mp_workload_load, program of pp", load_stage_program},
                                        {"mp_workload_load_as_planned", load_as_planned},
                                        {"mp_workload_load_with_plan", load_with_plan},
                                        {"mp_pipeline_smallest_budget", pipeline_smallest_budget},
                                        {"mp_pipeline_report_new", pipeline_report_new},
                                        {"mp_pipeline_report_take", pipeline_report_take},
                                        {"mp_pipeline_report_play", pipeline_report_play},
                                        {"mp_workload_plan", plan_workload},
                                        {"mp_workload_traffic", traffic},
                                        {"mp_workload_smallest", smallest},
                                        {"mp_workload_floor", floor_of_workload},
                                        {"mp_workload_checkpoints", checkpoints},
                                        {"mp_workload_agree", agree},
                                        {"mp_workload_agree_on_data", agree_on_data},
                                        {"mp_workload_open_inputs", open_inputs},
                                        {"mp_workload_try_tiers", try_tiers},
                                        {"mp_workload_keep_all_like", keep_all_like},
                                        {"mp_workload_hold_for", hold_for},
                                        {"mp_workload_write_trace", write_trace},
                                        {"mp_workload_agree_on_inputs", agree_on_inputs},
                                        {"mp_ranks_end_together", end_together},
                                        {"mp_workload_share_plan", share_plan},
                                        {NULL, NULL}};
