/* public_studies.c - calls of the allocating public functions about plans and meshes: tiers, checkpoints, fates,
 * proofs, seconds of a step. */
#include "tests/cases/chain_graph.h"
#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_offload.h"

#define MUST(call) assert_int_equal((call), MP_OK)
#define MLP "tests/gradients/mlp.onnx"

/* A chain whose activations can be copied, and the answer of a search. */
typedef struct offloaded {
    mp_graph *graph;
    mp_request request;
    mp_answer answer;
} offloaded;

/* `fits`: there is a plan, otherwise the tier is too small for one. */
static offloaded offloaded_chain(bool fits)
{
    offloaded x = {.graph = NULL};
    MUST(chain_graph(8, 64, 16, true, &x.graph, NULL));
    assert_true(offload_all(x.graph) > 0);
    x.request = (mp_request){.graph = x.graph,
                             .budget_bytes = chain_keep_all_bytes(8, 64, 16) - 5 * 64,
                             .tier_bytes = {0, fits ? 64 : 1},
                             .solver = fits ? "auto" : "anneal",
                             .moves = 5};
    MUST(mp_solve(&x.request, &x.answer, NULL));
    return x;
}

static void offloaded_free(offloaded *x)
{
    mp_answer_free(&x->answer);
    mp_graph_free(x->graph);
}

static mp_status studied(public_world *w, bool fits, mp_error *err)
{
    MP_CLEARED_BY(offloaded_free) offloaded x = offloaded_chain(fits);
    mp_tier_study study;
    PUBLIC_OUTPUT(w, study, mp_tier_study_of(&x.request, &x.answer, false, true, &study, err), PUBLIC_NOTHING);
}

static mp_status tier_study(public_world *w, mp_error *err)
{
    return studied(w, true, err);
}

static mp_status tier_study_without(public_world *w, mp_error *err)
{
    return studied(w, false, err);
}

static mp_status worth(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(offloaded_free) offloaded x = offloaded_chain(true);
    mp_worth found;
    assert_non_null(x.answer.plan);
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_worth_of(&x.request, x.answer.plan, &found, err));
    return st;
}

static mp_status tier_enough(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(offloaded_free) offloaded x = offloaded_chain(false);
    int64_t bytes;
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_tier_enough(&x.request, 1, 1, false, &bytes, err));
    return st;
}

static mp_status checkpoints_find(public_world *w, mp_error *err)
{
    mp_checkpoints_to_set set;
    PUBLIC_OUTPUT(w, set, mp_checkpoints_find(w->graph, w->plan, &set, err), mp_checkpoints_free(&set));
}

static mp_status fate_bytes(public_world *w, mp_error *err)
{
    int64_t bytes[MP_N_KINDS][MP_N_FATES];
    PUBLIC_OUTPUT(w, bytes, mp_plan_fate_bytes(w->graph, w->plan, bytes, err), PUBLIC_NOTHING);
}

static mp_status check_proofs(public_world *w, mp_error *err)
{
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_plan_check_proofs(w->graph, w->plan, false, err));
    return st;
}

static mp_status unwrapped(public_world *w, mp_error *err)
{
    char names[72];
    int n, n_named;
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_framework_unwrapped(w->graph, names, sizeof names, &n, &n_named, err));
    return st;
}

static mp_status earliest(public_world *w, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    const mp_step *steps;
    const mp_timeline *timeline;
    MUST(mp_problem_new(w->updates, &problem, NULL));
    PUBLIC_OUTPUT(w, steps, mp_problem_earliest(problem, &steps, &timeline, err), PUBLIC_NOTHING);
}

static mp_status cuts(public_world *w, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    const int *storages;
    size_t n;
    MUST(mp_problem_new(w->graph, &problem, NULL));
    PUBLIC_OUTPUT(w, storages, mp_problem_cuts(problem, &storages, &n, err), PUBLIC_NOTHING);
}

/* Settings of a mesh for a small gpt2. */
static mp_workload_options of_mesh(const char *mesh)
{
    static const char *sizes[] = {"layers=2", "width=64", "heads=2", "vocabulary=64", "sequence=8"};
    mp_workload_options o = mp_workload_defaults();
    o.dims = (mp_text_list){.n = sizeof sizes / sizeof *sizes, .items = sizes};
    MUST(mp_mesh_read(mesh, &o.mesh, NULL));
    return o;
}

static mp_status step_seconds(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = of_mesh("dp=2");
    double seconds;
    MUST(mp_workload_load("gpt2", &o, &workload, NULL));
    MP_OWNED mp_step *steps = mp_alloc(workload.graph->n_nodes, sizeof *steps);
    const size_t n = mp_keep_all(workload.graph, steps);
    PUBLIC_OUTPUT(w, seconds, mp_workload_step_seconds(&workload, 2, steps, n, &seconds, err), PUBLIC_NOTHING);
}

/* Judges the mesh of these settings, whose pipeline has a stage before each of the blocks 0 and 1. */
static mp_status judged(public_world *w, const mp_workload_options *o, mp_error *err)
{
    mp_stage stages[] = {{.begin = 0}, {.begin = 1}};
    mp_exact_mesh exact = {.path = "gpt2", .options = o, .memory_bytes = INT64_MAX};
    mp_mesh_choice choice = {.mesh = o->mesh,
                             .micro_batch = 1,
                             .n_micro_batches = 2,
                             .schedule = MP_SCHEDULE_1F1B,
                             .n_chunks = 1,
                             .seconds = 7,
                             .n_stages = (size_t)o->mesh.size[MP_DIM_PP],
                             .stages = stages};
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_exact_mesh_judge(&exact, &choice, err));
    const bool is_new = choice.seconds != 7 || choice.judge != MP_JUDGE_BLOCKS || stages[0].peak_bytes;
    if (is_new != (st == MP_OK)) public_wrong("changes the choice although it fails, or leaves it as it was");
    return st;
}

static mp_status judge_mesh(public_world *w, mp_error *err)
{
    const mp_workload_options o = of_mesh("shard=2");
    return judged(w, &o, err);
}

static mp_status judge_pipeline(public_world *w, mp_error *err)
{
    const mp_workload_options o = of_mesh("pp=2");
    return judged(w, &o, err);
}

static mp_status judge_program(public_world *w, mp_error *err)
{
    mp_workload_options o = of_mesh("pp=2");
    o.device = "cpu";
    return judged(w, &o, err);
}

static mp_status arena_repack(public_world *w, mp_error *err)
{
    mp_plan *plan = NULL;
    mp_pack_result result;
    mp_status st;
    MUST(mp_plan_new(w->graph, "test", w->plan->steps, w->plan->n_steps, &plan, NULL));
    MUST(mp_arena_layout(w->graph, plan, NULL));
    const int64_t before = plan->arena_bytes;
    PUBLIC_LIMITED(w, st, mp_arena_repack(w->graph, plan, NULL, &result, err));
    if (plan->arena_bytes != before || !plan->places) public_wrong("loses the offsets of the plan");
    mp_plan_free(plan);
    return st;
}

static mp_status update_effects(public_world *w, mp_error *err)
{
    const mp_workload_options o = public_sgd();
    mp_update_effects effects;
    PUBLIC_OUTPUT(w, effects, mp_workload_update_effects(MLP, &o, &effects, err), PUBLIC_NOTHING);
}

/* ---- workloads on a device ---- */

static mp_status device_file_read(public_world *w, mp_error *err)
{
    char *text;
    FILE *file = fopen(w->written, "w");
    assert_non_null(file);
    fputs("{\"format\": \"memplan-device\", \"version\": 1, \"like\": \"a100\"}", file);
    assert_int_equal(fclose(file), 0);
    PUBLIC_OUTPUT(w, text, mp_device_file_read(w->written, &text, err), mp_free(text));
}

static mp_status budget_ends(public_world *w, mp_error *err)
{
    const mp_budget budget = {.kind = MP_BUDGET_ABOVE_MIN};
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    mp_request request = {.graph = w->graph, .solver = "segments", .moves = 5};
    mp_budget_ends ends;
    mp_status st;
    MUST(mp_problem_new(w->graph, &problem, NULL));
    request.problem = problem;
    PUBLIC_LIMITED(w, st, mp_budget_ends_of(&budget, 1, true, &request, &ends, err));
    if (st == MP_OK) mp_budget_ends_free(&ends);
    return st;
}

static mp_status allocator_replay(public_world *w, mp_error *err)
{
    const mp_memory_request requests[] = {{0, 1 << 20}, {1, 9 << 20}, {0, 0}, {1, 0}};
    const mp_allocator_settings settings = mp_allocator_defaults();
    mp_allocator_use use;
    PUBLIC_OUTPUT(w, use, mp_allocator_replay(&settings, requests, 4, NULL, &use, err), PUBLIC_NOTHING);
}

static mp_status needs_of(public_world *w, mp_error *err)
{
    const mp_needs_terms terms = {.card = "a100", .family = "other", .arena_bytes = -1, .network = ""};
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    mp_needs needs;
    MUST(mp_timeline_build(w->graph, w->plan->steps, w->plan->n_steps, &timeline, NULL));
    PUBLIC_OUTPUT(w, needs, mp_needs_of(w->graph, w->plan->steps, timeline, &terms, &needs, err), PUBLIC_NOTHING);
}

/* A workload under PyTorch's rules, and its plan with everything kept. */
static mp_status needs_of_workload(public_world *w, bool of_plan, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    mp_workload_options o = public_sgd();
    const mp_step *steps;
    const mp_timeline *timeline;
    mp_needs needs;
    o.rules = "pytorch";
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    MUST(mp_problem_keep_all(workload.problem, &steps, &timeline, NULL));
    MUST(mp_plan_new(workload.graph, "none", steps, timeline->n_steps, &plan, NULL));
    PUBLIC_OUTPUT(w, needs,
                  of_plan ? mp_workload_needs_of_plan(&workload, &o, plan, &needs, err)
                          : mp_workload_needs(&workload, &o, steps, timeline, -1, &needs, err),
                  PUBLIC_NOTHING);
}

static mp_status workload_needs(public_world *w, mp_error *err)
{
    return needs_of_workload(w, false, err);
}

static mp_status workload_needs_of_plan(public_world *w, mp_error *err)
{
    return needs_of_workload(w, true, err);
}

static mp_status other_rules_of(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = public_sgd();
    mp_other_rules other;
    mp_status st;
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    PUBLIC_LIMITED(w, st, mp_other_rules_of(&o, &workload, &other, err));
    return st;
}

static mp_status other_rules_at(public_world *w, mp_error *err)
{
    const mp_workload_options o = public_sgd();
    mp_other_rules other;
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_other_rules_at(&o, MLP, 0, &other, err));
    return st;
}

static mp_status savings_find(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    const mp_workload_options o = public_sgd();
    mp_savings savings;
    mp_status st;
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    PUBLIC_LIMITED(w, st, mp_savings_find(&o, &workload, 1 << 20, &savings, err));
    return st;
}

static mp_status row_chunks_choose(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    mp_workload_options o = public_sgd();
    const mp_request request = {.budget_bytes = 1 << 30, .solver = "segments", .moves = 5};
    MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = {0};
    mp_status st;
    o.row_chunks = "auto";
    assert_true(mp_row_chunks_are_open(&o));
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    PUBLIC_LIMITED(w, st, mp_row_chunks_choose(&workload, &o, &request, &choice, err));
    return st;
}

static mp_status row_chunks_floor(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    mp_workload_options o = public_sgd();
    const mp_request request = {.budget_bytes = 1 << 30, .solver = "segments", .moves = 5};
    int64_t floor_bytes;
    mp_status st;
    o.row_chunks = "auto";
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    PUBLIC_LIMITED(w, st, mp_row_chunks_floor(&workload, &o, &request, &floor_bytes, err));
    return st;
}

/* Searches for a plan of a workload, as a whole or with chosen numbers of chunks. */
static mp_status solved_workload(public_world *w, bool with_chunks, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    mp_workload_options o = public_sgd();
    const mp_request request = {.budget_bytes = 1 << 30, .solver = "segments", .moves = 5};
    const mp_card_search how = {.options = &o, .with_offsets = true, .use = MP_CARD_MEASURED};
    mp_row_chunks_plan found = {0};
    mp_status st;
    if (with_chunks) o.row_chunks = "auto";
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    PUBLIC_LIMITED(w, st,
                   with_chunks ? mp_row_chunks_solve(&workload, &how, &request, &found, err)
                               : mp_workload_solve(&workload, &how, &request, &found.found, err));
    mp_row_chunks_plan_free(&found);
    return st;
}

static mp_status workload_solve(public_world *w, mp_error *err)
{
    return solved_workload(w, false, err);
}

static mp_status row_chunks_solve(public_world *w, mp_error *err)
{
    return solved_workload(w, true, err);
}

static mp_status row_chunks_search(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0}, whole = {0};
    const mp_workload_options o = public_sgd();
    const mp_request request = {.budget_bytes = 1000, .solver = "segments", .moves = 5};
    const mp_card_search how = {.options = &o};
    mp_row_chunks_choice choice = {.n = 2, .other_ticks = 1};
    MP_CLEARED_BY(mp_card_plan_free) mp_card_plan found = {0};
    mp_status st;
    MUST(mp_workload_load(MLP, &o, &workload, NULL));
    MUST(mp_workload_load(MLP, &o, &whole, NULL));
    PUBLIC_LIMITED(w, st, mp_row_chunks_search(&workload, &whole, &how, &request, &choice, &found, err));
    return st;
}

/* ---- jobs that share a card ---- */

static mp_status shared(public_world *w, int how, mp_error *err)
{
    const char *paths[] = {MLP, MLP};
    mp_workload_options o = public_sgd();
    const mp_request search = {.solver = "segments", .moves = 5};
    mp_sharing_job jobs[2] = {{.n_steps = 2}, {.n_steps = 2}};
    mp_sharing *s = mp_alloc(1, sizeof *s);
    mp_sharing_run run = {0};
    mp_status st = MP_OK;
    o.device = "cpu";
    const mp_sharing_request request = {.options = &o, .search = &search, .memory_bytes = 1 << 30, .runs = true};
    *s = (mp_sharing){.n_jobs = 2, .jobs = mp_alloc(2, sizeof *jobs), .way = MP_SHARE_TURNS, .goal = MP_SHARE_TOTAL};
    memcpy(s->jobs, jobs, sizeof jobs);
    if (how == 0)
        PUBLIC_LIMITED(w, st, mp_sharing_load(s, paths, &request, err));
    else
        MUST(mp_sharing_load(s, paths, &request, NULL));
    if (how == 1) PUBLIC_LIMITED(w, st, mp_sharing_search(s, &request, err));
    if (how == 2) {
        MUST(mp_sharing_search(s, &request, NULL));
        PUBLIC_LIMITED(w, st, mp_sharing_run_all(s, &o, 1, &run, err));
        mp_sharing_run_free(&run);
    }
    mp_sharing_free(s);
    mp_free(s);
    return st;
}

static mp_status sharing_load(public_world *w, mp_error *err)
{
    return shared(w, 0, err);
}

static mp_status sharing_search(public_world *w, mp_error *err)
{
    return shared(w, 1, err);
}

static mp_status sharing_run_all(public_world *w, mp_error *err)
{
    return shared(w, 2, err);
}

const public_call public_studies[] = {{"mp_tier_study_of", tier_study},
                                      {"mp_tier_study_of, no plan", tier_study_without},
                                      {"mp_worth_of", worth},
                                      {"mp_tier_enough", tier_enough},
                                      {"mp_checkpoints_find", checkpoints_find},
                                      {"mp_plan_fate_bytes", fate_bytes},
                                      {"mp_plan_check_proofs", check_proofs},
                                      {"mp_framework_unwrapped", unwrapped},
                                      {"mp_problem_earliest", earliest},
                                      {"mp_problem_cuts", cuts},
                                      {"mp_workload_step_seconds", step_seconds},
                                      {"mp_exact_mesh_judge", judge_mesh},
                                      {"mp_exact_mesh_judge, pp", judge_pipeline},
                                      {"mp_exact_mesh_judge, program of pp", judge_program},
                                      {"mp_device_file_read", device_file_read},
                                      {"mp_budget_ends_of", budget_ends},
                                      {"mp_allocator_replay", allocator_replay},
                                      {"mp_needs_of", needs_of},
                                      {"mp_workload_needs", workload_needs},
                                      {"mp_workload_needs_of_plan", workload_needs_of_plan},
                                      {"mp_other_rules_of", other_rules_of},
                                      {"mp_other_rules_at", other_rules_at},
                                      {"mp_savings_find", savings_find},
                                      {"mp_row_chunks_choose", row_chunks_choose},
                                      {"mp_row_chunks_floor", row_chunks_floor},
                                      {"mp_row_chunks_search", row_chunks_search},
                                      {"mp_row_chunks_solve", row_chunks_solve},
                                      {"mp_workload_solve", workload_solve},
                                      {"mp_sharing_load", sharing_load},
                                      {"mp_sharing_search", sharing_search},
                                      {"mp_sharing_run_all", sharing_run_all},
                                      {"mp_arena_repack", arena_repack},
                                      {"mp_workload_update_effects", update_effects},
                                      {NULL, NULL}};
