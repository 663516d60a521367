/* public_calls_without.c - calls the public functions without allocations. The hash of a graph uses only memory of xxHash. */
#include "tests/cases/public_calls.h"

#include "executor/ranks/communicator.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

static mp_status try_nothing(void *data, int64_t budget_bytes, int64_t *excess_bytes, bool *goes_on, mp_error *err)
{
    (void)data;
    (void)err;
    *excess_bytes = budget_bytes - 4;
    *goes_on = true;
    return MP_OK;
}

/* Calls within a search. */
#define SEARCH_CALLS(X)                   \
    X(mp_search_request(search))          \
    X(mp_search_moves(search))            \
    X(mp_search_effort(search))           \
    X(mp_search_best(search, &steps, &n)) \
    X(mp_search_best_ticks(search))       \
    X(mp_search_baseline_ticks(search))   \
    X(mp_search_stopped(search))          \
    X(mp_search_elapsed(search))          \
    X(mp_search_count_moves(search, 1))   \
    X(mp_search_enough(search))           \
    X(mp_search_proved(search))           \
    X(mp_search_settled(search))          \
    X(mp_search_await_proof(search))      \
    X(mp_search_is_within(search, 0.1))   \
    X(mp_search_will_do(search))          \
    X(mp_search_is_infeasible(search))    \
    X(mp_search_claim_bound(search, 1))   \
    X(mp_search_claim_infeasible(search))

#define OTHER_CALLS(X)                                                                                   \
    X(mp_collective_name(MP_SEND))                                                                       \
    X(mp_collective_find("send"))                                                                        \
    X(mp_algorithm_name(MP_ALGORITHM_RING))                                                              \
    X(mp_algorithm_find("ring"))                                                                         \
    X(mp_fabric_count())                                                                                 \
    X(mp_fabric_row(0))                                                                                  \
    X(mp_fabric_find("nvlink4"))                                                                         \
    X(mp_network_read("nvlink4+ib400", &network, &err))                                                  \
    X(mp_network_of_device("h100"))                                                                      \
    X(mp_collective_seconds(&network, MP_ALL_REDUCE, MP_ALGORITHM_AUTO, (mp_rank_group){8, 1}, 1 << 20)) \
    X(mp_collective_sent_bytes(MP_ALL_REDUCE, 8, 1 << 20))                                               \
    X(mp_dim_name(MP_DIM_TP))                                                                            \
    X(mp_dim_find("tp"))                                                                                 \
    X(mp_mesh_read("dp=2", &mesh, &err))                                                                 \
    X(mp_mesh_read_some("dp=2", &mesh, &err))                                                            \
    X(mp_mesh_write(&mesh))                                                                              \
    X(mp_mesh_is_same(&mesh, &mesh))                                                                     \
    X(mp_mesh_of_one())                                                                                  \
    X(mp_mesh_devices(&mesh))                                                                            \
    X(mp_mesh_scatters(&mesh))                                                                           \
    X(mp_mesh_group(&mesh, MP_DIM_DP))                                                                   \
    X(mp_mesh_expert_group(&mesh, MP_DIM_DP))                                                            \
    X(mp_communicator_close(NULL))                                                                       \
    X(mp_communicator_rank(&alone))                                                                      \
    X(mp_communicator_size(&alone))                                                                      \
    X(mp_communicator_number_here(&alone))                                                               \
    X(mp_communicator_join_devices(&alone, mp_backend_find("cpu"), &err))                                \
    X(mp_communicator_name(&alone))                                                                      \
    X(mp_schedule_name(MP_SCHEDULE_1F1B))                                                                \
    X(mp_schedule_find("1f1b"))                                                                          \
    X(mp_schedule_check(&shape, &err))                                                                   \
    X(mp_schedule_turns(&shape))                                                                         \
    X(mp_schedule_order(&shape, 0, of_rank))                                                             \
    X(mp_schedule_in_flight(&shape, 0))                                                                  \
    X(mp_schedule_postpones(&shape, 0))                                                                  \
    X(mp_schedule_free(NULL))                                                                            \
    X(mp_pipeline_free(NULL))                                                                            \
    X(mp_rank_free(&rank))                                                                               \
    X(mp_rank_most_held(&rank))                                                                          \
    X(mp_verdict_name(MP_VERDICT_FLOOR))                                                                 \
    X(mp_mesh_judge_name(MP_JUDGE_BLOCKS))                                                               \
    X(mp_meshes_free(NULL))                                                                              \
    X(mp_architecture_count())                                                                           \
    X(mp_architecture_row(0))                                                                            \
    X(mp_architecture_find("Llama 3 8B"))                                                                \
    X(mp_architecture_block_path(&architecture, "layers.3", hash, sizeof hash))                          \
    X(mp_architecture_set(&architecture, "layers", 2, &err))                                             \
    X(mp_plan_need(w->plan))                                                                             \
    X(mp_share_way_name(MP_SHARE_TURNS))                                                                 \
    X(mp_share_goal_name(MP_SHARE_LONGEST))                                                              \
    X(mp_plan_tier_need(w->graph, w->plan, 0))                                                           \
    X(mp_backend_name(0))                                                                                \
    X(mp_backend_is_name("cpu"))                                                                         \
    X(mp_backend_open("cpu", &backend, &err))                                                            \
    X(mp_backend_find("cpu"))                                                                            \
    X(mp_bound_orders_text(MP_BOUND_ANY_ORDER))                                                          \
    X(mp_bound_stage_name(MP_BOUND_TREE))                                                                \
    X(mp_bound_stage_find("tree", &stage))                                                               \
    X(mp_bound_work_add(&work, &work))                                                                   \
    X(mp_bound_report_init(&reports[0]))                                                                 \
    X(mp_bound_report_merge(&reports[0], &reports[1], true))                                             \
    X(mp_bound_report_clear(&reports[0]))                                                                \
    X(mp_bound_is_on(&bound_options, MP_BOUND_TREE))                                                     \
    X(mp_status_text(MP_IO))                                                                             \
    X(mp_raise(&err, MP_IO, __FILE__, __LINE__, "%s", "raised"))                                         \
    X(mp_error_locate(&err, "file", 1, 1))                                                               \
    X(mp_error_end_about(&(mp_error_about){&err, "file"}))                                               \
    X(mp_feed_is_source("x=y"))                                                                          \
    X(mp_kind_name(MP_KIND_SAVED))                                                                       \
    X(mp_phase_name(MP_PHASE_LOSS))                                                                      \
    X(mp_fuse_name(MP_FUSE_NONE))                                                                        \
    X(mp_kind_find("saved"))                                                                             \
    X(mp_phase_find("loss"))                                                                             \
    X(mp_fuse_find("none"))                                                                              \
    X(mp_kind_is_static(MP_KIND_INPUT))                                                                  \
    X(mp_node_label(w->graph, 0))                                                                        \
    X(mp_storage_label(w->graph, 0))                                                                     \
    X(mp_storage_title(w->graph, 0, &label))                                                             \
    X(mp_node_has_algorithms(w->graph->nodes))                                                           \
    X(mp_may_be_copied(w->graph, 0, 1))                                                                  \
    X(mp_storage_is_static(w->graph->storages))                                                          \
    X(mp_node_may_rerun(w->graph->nodes))                                                                \
    X(mp_storage_is_sum(w->graph, 0))                                                                    \
    X(mp_graph_hash(w->graph, hash, &err))                                                               \
    X(mp_graph_static_bytes(w->graph))                                                                   \
    X(mp_graph_kind_bytes(w->graph, between))                                                            \
    X(mp_graph_static_bytes_in(w->graph, 0))                                                             \
    X(mp_graph_tier_alignment(w->graph, 0))                                                              \
    X(mp_traffic_of(w->graph, NULL, 0, 1, NULL, &sent))                                                  \
    X(mp_graph_n_required(w->graph))                                                                     \
    X(mp_graph_dot_is("a.dot"))                                                                          \
    X(mp_dtype_name(MP_DTYPE_INT4))                                                                      \
    X(mp_dtype_bits(MP_DTYPE_INT4))                                                                      \
    X(mp_dtype_is_float(MP_DTYPE_INT4))                                                                  \
    X(mp_dtype_is_integer(MP_DTYPE_INT4))                                                                \
    X(mp_model_resolve(t.model, 0))                                                                      \
    X(mp_rate_schedule_name(MP_RATE_COSINE))                                                             \
    X(mp_rate_schedule_find("cosine"))                                                                   \
    X(mp_hyper_default(MP_OPTIMIZER_ADAM))                                                               \
    X(mp_hyper_check(&hyper, &err))                                                                      \
    X(mp_learning_rate(&hyper, 3))                                                                       \
    X(mp_parameter_source_count(t.source, &n, &n))                                                       \
    X(mp_plan_live_bytes(w->plan))                                                                       \
    X(mp_budget_parse("min+50%", &budget, &why))                                                         \
    X(mp_budget_is_of_device(&budget))                                                                   \
    X(mp_budget_resolve(&budget, 2, 1))                                                                  \
    X(mp_workload_defaults())                                                                            \
    X(mp_workload_is_graph("a.dot"))                                                                     \
    X(mp_workload_passes(&workload))                                                                     \
    X(mp_workload_rules(&workload))                                                                      \
    X(mp_workload_batch(&workload))                                                                      \
    X(mp_workload_ranks_of_graph(&workload, &alone))                                                     \
    X(mp_workload_searches(&workload, &alone))                                                           \
    X(mp_planning_interface())                                                                           \
    X(mp_planning_device(0))                                                                             \
    X(mp_planning_roofline("h100", "float16", 1, 1))                                                     \
    X(mp_planning_achieved("h100", "float16", "pointwise", NULL, 0, 1, NULL, NULL))                      \
    X(mp_planning_accuracy(NULL, NULL, 0, (char[256]){0}))                                               \
    X(mp_planning_capacity("h100"))                                                                      \
    X(mp_planning_reserve("h100"))                                                                       \
    X(mp_planning_budget("60%", 2, 1, &between[0]))                                                      \
    X(mp_planning_link_rate("24GB/s"))                                                                   \
    X(mp_planning_network("h100"))                                                                       \
    X(mp_planning_collective("h100", "all-reduce", 8, 1, 1))                                             \
    X(mp_planning_flag(handle, node, "once"))                                                            \
    X(mp_planning_set(handle, "solver", "segments"))                                                     \
    X(mp_planning_message(handle))                                                                       \
    X(mp_planning_error(handle))                                                                         \
    X(mp_planning_hash(handle))                                                                          \
    X(mp_planning_graph(handle))                                                                         \
    X(mp_planning_plan(handle))                                                                          \
    X(mp_planning_on_progress(handle, NULL, NULL))                                                       \
    X(mp_planning_steps(handle, &node, 1))                                                               \
    X(mp_planning_copies(handle, &node, &node, 1))                                                       \
    X(mp_planning_offsets(handle, NULL, 0))                                                              \
    X(mp_program_graph(t.program))                                                                       \
    X(mp_effort_name(MP_EFFORT_QUICK))                                                                   \
    X(mp_effort_find("quick"))                                                                           \
    X(mp_solver_count())                                                                                 \
    X(mp_solver_row(0))                                                                                  \
    X(mp_solver_find("auto"))                                                                            \
    X(mp_device_count())                                                                                 \
    X(mp_device_row(0))                                                                                  \
    X(mp_device_find("RTX 3090"))                                                                        \
    X(mp_device_of_card("NVIDIA GeForce RTX 4090"))                                                      \
    X(mp_rates_name(MP_RATES_PEAK))                                                                      \
    X(mp_rates_of("peak"))                                                                               \
    X(mp_device_at_tf32(mp_device_row(0)))                                                               \
    X(mp_link_count())                                                                                   \
    X(mp_link_row(0))                                                                                    \
    X(mp_link_find("PCIe 4"))                                                                            \
    X(mp_link_parse("24GB/s", NULL, &link))                                                              \
    X(mp_link_beyond(mp_link_row(0), mp_link_row(1)))                                                    \
    X(mp_roofline(mp_device_row(0)))                                                                     \
    X(mp_step_end(w->plan->steps, 0))                                                                    \
    X(mp_span_counts_from(timeline->spans))                                                              \
    X(mp_node_copies_state(w->graph, 0))                                                                 \
    X(mp_copy_way_of(w->graph, 0, 0))                                                                    \
    X(mp_graph_n_state_copies(w->graph))                                                                 \
    X(mp_keep_all(w->graph, steps))                                                                      \
    X(mp_timeline_holders(w->graph, timeline, 1, spans, 8))                                              \
    X(mp_timeline_between(w->graph, timeline, between))                                                  \
    X(mp_request_fits(&request, timeline))                                                               \
    X(mp_request_fits_plan(&request, w->plan))                                                           \
    X(mp_loss_name(MP_LOSS_MSE))                                                                         \
    X(mp_optimizer_name(MP_OPTIMIZER_SGD))                                                               \
    X(mp_rules_name(MP_RULES_PYTORCH))                                                                   \
    X(mp_loss_find("mse"))                                                                               \
    X(mp_optimizer_find("sgd"))                                                                          \
    X(mp_rules_find("pytorch"))                                                                          \
    X(mp_pipeline_report_peak(&pipeline))                                                                \
    X(mp_pipeline_report_free(&pipeline))                                                                \
    X(mp_workload_tier_is_file(&offloaded, 1))                                                           \
    X(mp_workload_use_tiers(&workload, &execution))                                                      \
    X(mp_workload_untrained(&of_program, &why))                                                          \
    X(mp_workload_copied_bytes(&of_program, 1, 1))                                                       \
    X(mp_workload_inputs_free(&inputs))                                                                  \
    X(mp_workload_check_trains(&workload, &err))                                                         \
    X(mp_sweep_is_cheapest(&sweep, &sweep.curves[0].points[0]))                                          \
    X(mp_sweep_bound_at(&sweep, 1))                                                                      \
    X(mp_sweep_best_above(&sweep, 1, &why))                                                              \
    X(mp_sweep_least(&sweep))                                                                            \
    X(mp_sweep_is_refuted(&sweep))                                                                       \
    X(mp_floor_storages(w->graph, 0, spans, 8, between))                                                 \
    X(mp_workload_parameters(&workload, &settings, &between[0], &between[1]))                            \
    X(mp_own_device_read("a100,memory=40GiB", &device))                                                  \
    X(mp_process_memory_of("a100", "other", 1, &of_process))                                             \
    X(mp_card_budget(8, true, try_nothing, NULL, &err))                                                  \
    X(mp_process_room("a100", "other", 0, 1))                                                            \
    X(mp_allocator_defaults())                                                                           \
    X(mp_needs_room(&needs, 1))                                                                          \
    X(mp_nccl_bytes("nvlink4", 1))                                                                       \
    X(mp_workload_terms_of(&workload, &settings, &terms))                                                \
    X(mp_visible_bytes_of_options(&settings))                                                            \
    X(mp_capacity_take_needs(&workload, &settings, &needs, 1, &room))                                    \
    X(mp_own_device_is("a100"))                                                                          \
    X(mp_device_is_file("a.json"))                                                                       \
    X(mp_workload_device(&settings, &backend, &device, &err))                                            \
    X(mp_budget_lacks_unit(&budget, 1))                                                                  \
    X(mp_budget_ends_free(&ends))                                                                        \
    X(mp_capacity_of_workload(&workload, &settings, &room))                                              \
    X(mp_capacity_of_options(&settings, &room, &err))                                                    \
    X(mp_capacity_bytes(&room))                                                                          \
    X(mp_capacity_text(&room))                                                                           \
    X(mp_capacity_budget(&workload, &settings, &budget, &ends, &room, &between[0], &err))                \
    X(mp_other_rules_options(&settings))                                                                 \
    X(mp_sharing_job_of(&sharing, 0))                                                                    \
    X(mp_sharing_processes(MP_SHARE_TURNS, 2))                                                           \
    X(mp_sharing_capacity(&sharing, MP_SHARE_TURNS, 2))                                                  \
    X(mp_sharing_goal(&sharing, MP_SHARE_TURNS))                                                         \
    X(mp_sharing_free(&(mp_sharing){.n_jobs = 0}))                                                       \
    X(mp_sharing_run_is_same(&jobs_run))                                                                 \
    X(mp_sharing_run_is_as_planned(&jobs_run))                                                           \
    X(mp_sharing_run_free(&jobs_run))                                                                    \
    X(mp_workload_take_graph(&workload))                                                                 \
    X(mp_workload_free(&workload))                                                                       \
    X(mp_workload_options_free(&settings))                                                               \
    X(mp_text_list_free(&texts))                                                                         \
    X(mp_problem_free(problem))                                                                          \
    X(mp_timeline_free(timeline))                                                                        \
    X(mp_answer_free(&answer))                                                                           \
    X(mp_summary_free(&summary))                                                                         \
    X(mp_sweep_free(&sweep))                                                                             \
    X(mp_share_split_free(&split))                                                                       \
    X(mp_share_plans_free(&plans))                                                                       \
    X(mp_reports_are_same(&report, &report))                                                             \
    X(mp_rank_reports_sum(NULL, 0))                                                                      \
    X(mp_rank_report_hidden(&(mp_rank_report){.wait_seconds = 1}))                                       \
    X(mp_report_free(&report))                                                                           \
    X(mp_turns_free(&turns))                                                                             \
    X(mp_framework_name(MP_FRAMEWORK_JAX))                                                               \
    X(mp_framework_find("jax"))                                                                          \
    X(mp_framework_code_free(&code))                                                                     \
    X(mp_costs_by_operator(w->graph, NULL, &sum, 1))                                                     \
    X(mp_measured_costs_free(&costs))                                                                    \
    X(mp_tier_study_too_small(&(mp_tier_study){.has_worth = false}, w->graph, between))                  \
    X(mp_checkpoints_free(&(mp_checkpoints_to_set){.n = 0}))                                             \
    X(mp_solver_of_modules())                                                                            \
    X(mp_request_switch_off(&(mp_request){.moves = 1}, "chen"))                                          \
    X(mp_summary_column_name(MP_SUMMARY_TIME))                                                           \
    X(mp_summary_column_find("time"))                                                                    \
    X(mp_module_summary_title(&(mp_module_summary){.n_others = 2}, hash, sizeof hash))                   \
    X(mp_pack_table_free(&table))                                                                        \
    X(mp_feed_free(t.feed))                                                                              \
    X(mp_parameter_source_free(t.source))                                                                \
    X(mp_program_free(t.program))                                                                        \
    X(mp_model_free(t.model))                                                                            \
    X(mp_planning_free(handle))                                                                          \
    X(mp_plan_free(plan))                                                                                \
    X(mp_graph_free(graph))                                                                              \
    X(mp_free(block))                                                                                    \
    X(mp_free_owned(&owned))                                                                             \
    X(mp_pool_failed(pool))                                                                              \
    X(mp_pool_free(pool))

#define TEXT(call) #call,
const char *const public_without[] = {SEARCH_CALLS(TEXT) OTHER_CALLS(TEXT) NULL};

#define COUNTED(call)                                                  \
    {                                                                  \
        const long before = mp_alloc_count;                            \
        (void)(call);                                                  \
        if (mp_alloc_count != before) fail_msg("%s allocates", #call); \
    }

static mp_status search_calls(mp_search *search, mp_error *err)
{
    const mp_step *steps;
    size_t n;
    (void)err;
    SEARCH_CALLS(COUNTED)
    return MP_OK;
}

void public_call_without(public_world *w)
{
    const mp_solver own = {.name = "own", .summary = "", .source = "", .run = search_calls};
    const mp_request request = {.graph = w->graph, .budget_bytes = INT64_MAX, .own = &own};
    const mp_sweep_request swept = {.graph = w->graph, .n_budgets = 1, .moves = 5};
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    const mp_bound_options bound_options = {0};
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAM);
    const mp_backend *backend;
    mp_error err = {0};
    mp_bound_stage stage;
    mp_bound_work work = {0};
    mp_bound_report reports[2];
    mp_label label;
    mp_architecture architecture = *mp_architecture_row(0);
    mp_interconnect network;
    mp_communicator alone = {.name = "alone", .n = 1};
    mp_mesh mesh;
    const mp_pipeline_shape shape = {MP_SCHEDULE_1F1B, 2, 1, 2};
    mp_turn of_rank[4];
    mp_rank rank = {0};
    mp_rank_traffic sent;
    mp_answer answer;
    mp_problem *problem;
    mp_timeline *timeline;
    void *owned = NULL;
    mp_summary summary;
    mp_sweep sweep;
    mp_share_split split = {0};
    mp_turns turns = {0};
    mp_share_plans plans = {0};
    mp_report report;
    mp_pack_table table;
    mp_measured_costs costs = {0};
    mp_operator_seconds sum;
    mp_framework_code code = {0};
    mp_plan *plan;
    mp_graph *graph;
    mp_step steps[64];
    int spans[8], node;
    int64_t between[65];
    char hash[33];
    size_t n;
    mp_budget budget;
    mp_link link;
    const char *why;
    mp_workload_options settings = mp_workload_defaults();
    mp_workload workload;
    mp_execution_options execution = {0};
    mp_workload_inputs inputs = {0};
    mp_own_device device;
    mp_process_memory of_process;
    mp_needs needs = {.likely_bytes = -1};
    mp_workload_terms terms;
    mp_budget_ends ends = {.peak_bytes = 1};
    mp_device_capacity room;
    mp_sharing_job job = {.n_steps = 1, .as = 0};
    const mp_sharing sharing = {.n_jobs = 1, .jobs = &job};
    mp_sharing_run jobs_run = {0};
    mp_pipeline_report pipeline = {0};
    mp_graph tiers = {.tiers = {"device", "host"}, .n_tiers = 2};
    const mp_workload offloaded = {.graph = &tiers};
    mp_text_list texts = {0};
    training_case t = training_begin("tests/gradients/mlp.onnx", 0, &options);
    mp_planning *handle = mp_planning_new("handle", 1);
    void *block = mp_alloc(1, 1);
    mp_pool *pool = mp_pool_new();
    node = mp_planning_add_node(handle, "n", "", "forward", 1, 0);
    mp_bound_report_init(&reports[1]);
    assert_non_null(mp_pool_alloc(pool, 1, 1));
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_int_equal(mp_problem_new(w->graph, &problem, NULL), MP_OK);
    assert_int_equal(mp_timeline_build(w->graph, w->plan->steps, w->plan->n_steps, &timeline, NULL), MP_OK);
    assert_int_equal(mp_summarize(w->graph, MP_RULES_EXECUTOR, &summary, NULL), MP_OK);
    assert_int_equal(mp_sweep_budgets(&swept, &sweep, NULL), MP_OK);
    assert_int_equal(mp_pack_csv_read(w->csv_file, &table, NULL), MP_OK);
    assert_int_equal(mp_graph_read(w->graph_file, &graph, NULL), MP_OK);
    assert_int_equal(mp_plan_new(w->graph, "test", w->plan->steps, w->plan->n_steps, &plan, NULL), MP_OK);
    assert_int_equal(mp_workload_load("tests/gradients/mlp.onnx", &settings, &workload, NULL), MP_OK);
    mp_graph *of_workload = workload.graph;
    const mp_workload of_program = {.graph = workload.graph, .program = t.program};
    mp_plan *kept = training_keep_all(&t);
    const mp_train_request train = training_request(&t, kept, 1);
    assert_int_equal(mp_train(&train, &report, NULL), MP_OK);
    mp_plan_free(kept);
    OTHER_CALLS(COUNTED)
    mp_graph_free(of_workload);
}
