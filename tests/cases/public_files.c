/* public_files.c - calls of the public functions that read, write and draw files, and of the functions for ranks. */
#include <unistd.h>

#include "tests/cases/chain_graph.h"
#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

#define MUST(call) assert_int_equal((call), MP_OK)

static void put_old(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("old", file);
    assert_int_equal(fclose(file), 0);
}

/* Checks that a file is unchanged if writing it failed. */
static mp_status written(const char *path, mp_status st)
{
    char text[8] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_true((strcmp(text, "old") == 0) == (st != MP_OK));
    unlink(path);
    return st;
}

#define WRITTEN(w, path, call)       \
    do {                             \
        mp_status st;                \
        put_old(path);               \
        PUBLIC_LIMITED(w, st, call); \
        return written(path, st);    \
    } while (0)

static mp_status costs_write(public_world *w, mp_error *err)
{
    static const mp_node_cost costs[64];
    WRITTEN(w, w->written, mp_costs_write(w->written, w->graph, costs, err));
}

static mp_status costs_apply(public_world *w, mp_error *err)
{
    const mp_costs_options options = {0};
    mp_graph *graph;
    mp_status st;
    MUST(chain_graph(2, 8, 16, true, &graph, NULL));
    PUBLIC_LIMITED(w, st, mp_costs_apply(w->costs_file, graph, &options, err));
    if (st != MP_OK) assert_string_equal(graph->hash, w->graph->hash);
    mp_graph_free(graph);
    return st;
}

static mp_status graph_read(public_world *w, mp_error *err)
{
    mp_graph *graph;
    PUBLIC_OUTPUT(w, graph, mp_graph_read(w->graph_file, &graph, err), mp_graph_free(graph));
}

static mp_status graph_dot_read(public_world *w, mp_error *err)
{
    mp_graph *graph;
    PUBLIC_OUTPUT(w, graph, mp_graph_dot_read(w->dot_file, &graph, err), mp_graph_free(graph));
}

static mp_status graph_write(public_world *w, mp_error *err)
{
    WRITTEN(w, w->written, mp_graph_write(w->graph, w->written, err));
}

static mp_status plan_read(public_world *w, mp_error *err)
{
    mp_plan *plan;
    PUBLIC_OUTPUT(w, plan, mp_plan_read(w->plan_file, w->graph, &plan, err), mp_plan_free(plan));
}

static mp_status plan_write(public_world *w, mp_error *err)
{
    WRITTEN(w, w->written, mp_plan_write(w->plan, w->graph, w->written, err));
}

static mp_status pack_csv_read(public_world *w, mp_error *err)
{
    mp_pack_table table;
    PUBLIC_OUTPUT(w, table, mp_pack_csv_read(w->csv_file, &table, err), mp_pack_table_free(&table));
}

static mp_status pack_csv_write(public_world *w, mp_error *err)
{
    mp_pack_table table;
    mp_status st;
    MUST(mp_pack_csv_read(w->csv_file, &table, NULL));
    for (size_t k = 0; k < table.packing.n_items; k++) table.packing.items[k].offset = 0;
    put_old(w->written);
    PUBLIC_LIMITED(w, st, mp_pack_csv_write(&table, w->written, err));
    mp_pack_table_free(&table);
    return written(w->written, st);
}

static mp_status onnx_read(public_world *w, mp_error *err)
{
    const mp_onnx_options options = {0};
    mp_model *model;
    PUBLIC_OUTPUT(w, model, mp_onnx_read("tests/gradients/mlp.onnx", &options, &model, err), mp_model_free(model));
}

static mp_status onnx_write(public_world *w, mp_error *err)
{
    const mp_onnx_options options = {0};
    mp_model *model;
    mp_status st;
    MUST(mp_onnx_read("tests/gradients/mlp.onnx", &options, &model, NULL));
    put_old(w->written);
    PUBLIC_LIMITED(w, st, mp_onnx_write(model, false, w->written, err));
    mp_model_free(model);
    return written(w->written, st);
}

/* ---- pictures ---- */

static mp_status curve_picture(public_world *w, mp_error *err)
{
    static mp_sweep_point points[] = {{600, true, 600, 130, 3, 9}, {1000, true, 1000, 100, 12, 0}};
    static mp_sweep_curve curves[] = {{"chen", 600, 2, points}};
    static const mp_sweep sweep = {400, 100, 1000, 100, 1, 1, curves, .n_spread = 0};
    WRITTEN(w, w->picture, mp_curve_picture(&sweep, "curve", w->picture, err));
}

static mp_status loss_picture(public_world *w, mp_error *err)
{
    static const double losses[] = {3, 2, 1};
    WRITTEN(w, w->picture, mp_loss_picture("losses", losses, 3, 0, w->picture, err));
}

static mp_status pipeline_picture(public_world *w, mp_error *err)
{
    static mp_turn turns[] = {{MP_PASS_FORWARD, 0, 0, 0, 1}, {MP_PASS_BACKWARD, 0, 0, 1, 3}};
    static const mp_played played = {.n_turns = 2, .turns = turns, .seconds = 3};
    static const mp_pipeline_shape shape = {MP_SCHEDULE_1F1B, 1, 1, 1};
    WRITTEN(w, w->picture, mp_pipeline_picture(&shape, &played, "pipeline", NULL, w->picture, err));
}

static mp_status timeline_picture(public_world *w, mp_error *err)
{
    WRITTEN(w, w->picture, mp_timeline_picture(w->graph, w->plan, "timeline", MP_VIEW_ALL, w->picture, err));
}

static mp_status graph_picture(public_world *w, mp_error *err)
{
    const mp_picture_request request = {.graph = w->graph, .plan = w->plan, .title = "graph"};
    WRITTEN(w, w->picture, mp_graph_picture(&request, w->picture, err));
}

static mp_status training_picture(public_world *w, mp_error *err)
{
    const mp_picture_request request = {.graph = w->graph, .plan = w->plan, .title = "training"};
    WRITTEN(w, w->picture, mp_training_picture(&request, w->picture, err));
}

/* ---- lists and clocks of a graph ---- */

static mp_status graph_lists(public_world *w, bool tier, mp_error *err)
{
    static char name[100000]; /* more than the free space in a pool's first chunk */
    mp_graph *graph;
    mp_status st;
    int number = -7;
    memset(name, 'x', sizeof name - 1);
    MUST(mp_graph_new("lists", &graph, NULL));
    PUBLIC_LIMITED(w, st, (tier ? mp_graph_tier : mp_graph_channel)(graph, name, &number, err));
    if (st != MP_OK && (number != -7 || graph->n_channels != 2 || graph->n_tiers != 1)) public_wrong("lists a name");
    mp_graph_free(graph);
    return st;
}

static mp_status graph_channel(public_world *w, mp_error *err)
{
    return graph_lists(w, false, err);
}

static mp_status graph_tier(public_world *w, mp_error *err)
{
    return graph_lists(w, true, err);
}

static mp_status makespan(public_world *w, mp_error *err)
{
    mp_graph *graph;
    mp_status st;
    int64_t ticks = -7;
    MUST(chain_graph(2, 8, 8, true, &graph, NULL));
    graph->nodes[0].alternatives[0].channel = 2; /* a channel other than compute */
    PUBLIC_LIMITED(w, st, mp_makespan(graph, &(mp_step){0}, 1, NULL, &ticks, err));
    if (st != MP_OK && ticks != -7) public_wrong("has a makespan");
    mp_graph_free(graph);
    return st;
}

static mp_status makespan_copying(public_world *w, mp_error *err)
{
    const mp_step steps[] = {{0, 0, 0}, {1, 0, 0}};
    mp_copying copying;
    PUBLIC_OUTPUT(w, copying, mp_makespan_copying(w->graph, steps, 2, &copying, err), PUBLIC_NOTHING);
}

static mp_status makespan_recomputation(public_world *w, mp_error *err)
{
    const mp_step steps[] = {{0, 0, 0}, {1, 0, 0}};
    mp_recomputation again;
    PUBLIC_OUTPUT(w, again, mp_makespan_recomputation(w->graph, steps, 2, &again, err), PUBLIC_NOTHING);
}

/* After an error the graph can only be released. */
static mp_status graph_offload(public_world *w, mp_error *err)
{
    const mp_offload offload = {.host = mp_link_find("pcie4"), .least_bytes = 1};
    mp_graph *graph;
    mp_status st;
    size_t n = 7;
    MUST(chain_graph(2, 8, 8, true, &graph, NULL));
    PUBLIC_LIMITED(w, st, mp_graph_offload(graph, &offload, &n, err));
    if (st == MP_OK ? n == 0 : n != 7) public_wrong("counts what may be copied");
    mp_graph_free(graph);
    return st;
}

/* Modules with equal names but a number, for the frameworks that checkpoint blocks. */
static mp_status framework_code(public_world *w, mp_framework framework, mp_error *err)
{
    static const char *const names[] = {"/h.0/a/Relu", "/h.0/b/Relu", "/h.1/a/Relu", "/h.1/b/Relu"};
    mp_graph *graph = NULL;
    mp_plan *plan = NULL;
    mp_framework_code code;
    mp_status st;
    MUST(chain_graph(4, 8, 16, true, &graph, NULL));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) graph->nodes[k].name = names[k];
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MUST(mp_plan_new(graph, "test", steps, mp_keep_all(graph, steps), &plan, NULL));
    plan->budget_bytes = plan->peak_bytes - 8;
    const mp_framework_request request = {.graph = graph, .plan = plan, .title = "chain"};
    public_mark(&code, sizeof code);
    PUBLIC_LIMITED(w, st, mp_framework_code_of(&request, framework, &code, err));
    if (st != MP_OK)
        public_is_marked(&code, sizeof code);
    else
        mp_framework_code_free(&code);
    mp_plan_free(plan);
    mp_graph_free(graph);
    return st;
}

static mp_status code_of_modules(public_world *w, mp_error *err)
{
    return framework_code(w, MP_FRAMEWORK_PYTORCH, err);
}

static mp_status code_of_policies(public_world *w, mp_error *err)
{
    return framework_code(w, MP_FRAMEWORK_PYTORCH_SELECTIVE, err);
}

static mp_status code_of_blocks(public_world *w, mp_error *err)
{
    return framework_code(w, MP_FRAMEWORK_HUGGINGFACE, err);
}

static mp_status code_of_tensors(public_world *w, mp_error *err)
{
    return framework_code(w, MP_FRAMEWORK_JAX, err);
}

const public_call public_files[] = {{"mp_costs_write", costs_write},
                                    {"mp_framework_code_of", code_of_modules},
                                    {"mp_framework_code_of, policies", code_of_policies},
                                    {"mp_framework_code_of, blocks", code_of_blocks},
                                    {"mp_framework_code_of, tensors", code_of_tensors},
                                    {"mp_costs_apply", costs_apply},
                                    {"mp_graph_read", graph_read},
                                    {"mp_graph_dot_read", graph_dot_read},
                                    {"mp_graph_write", graph_write},
                                    {"mp_plan_read", plan_read},
                                    {"mp_plan_write", plan_write},
                                    {"mp_pack_csv_read", pack_csv_read},
                                    {"mp_pack_csv_write", pack_csv_write},
                                    {"mp_onnx_read", onnx_read},
                                    {"mp_onnx_write", onnx_write},
                                    {"mp_curve_picture", curve_picture},
                                    {"mp_loss_picture", loss_picture},
                                    {"mp_pipeline_picture", pipeline_picture},
                                    {"mp_timeline_picture", timeline_picture},
                                    {"mp_graph_picture", graph_picture},
                                    {"mp_training_picture", training_picture},
                                    {"mp_graph_channel", graph_channel},
                                    {"mp_graph_tier", graph_tier},
                                    {"mp_makespan", makespan},
                                    {"mp_makespan_copying", makespan_copying},
                                    {"mp_makespan_recomputation", makespan_recomputation},
                                    {"mp_graph_offload", graph_offload},
                                    {NULL, NULL}};

/* ---- ranks ---- */

static mp_ranks ranks_of(const char *mesh)
{
    mp_ranks ranks = {.bucket_bytes = 8};
    assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    return ranks;
}

static mp_status graph_exchange(public_world *w, mp_error *err)
{
    const mp_ranks ranks = ranks_of("dp=2,shard=2");
    mp_graph *graph = random_graph(7, 4, MP_FUSE_BACKWARD, false);
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_graph_exchange(graph, &ranks, err));
    mp_graph_free(graph);
    return st;
}

/* ---- pipelines ---- */

static const mp_pipeline_shape two_stages = {MP_SCHEDULE_GPIPE, 2, 1, 2};

static mp_status schedule_play(public_world *w, mp_error *err)
{
    static const mp_stage_seconds stages[2] = {{.forward = 1}, {.backward = 1}};
    mp_played *played;
    PUBLIC_OUTPUT(w, played, mp_schedule_play(&two_stages, stages, &played, err), mp_schedule_free(played));
}

static mp_status schedule_held_bytes(public_world *w, mp_error *err)
{
    static const mp_kept kept = {1, 1};
    int64_t held;
    PUBLIC_OUTPUT(w, held, mp_schedule_held_bytes(&two_stages, 0, &kept, &held, err), PUBLIC_NOTHING);
}

/* A chain of layers cut into two stages. */
typedef struct cut_chain {
    mp_graph *graph;
    mp_ranks ranks;
    mp_pipeline *pipeline;
    mp_rank rank;
    mp_step steps[32];
    size_t n;
} cut_chain;

static void cut_chain_free(cut_chain *c)
{
    mp_rank_free(&c->rank);
    mp_pipeline_free(c->pipeline);
    mp_graph_free(c->graph);
}

static mp_pipeline_request cut_request(cut_chain *c)
{
    c->ranks = ranks_of("pp=2");
    assert_int_equal(chain_graph(4, 8, 16, true, &c->graph, NULL), MP_OK);
    return (mp_pipeline_request){.graph = c->graph, .ranks = &c->ranks, .shape = two_stages};
}

static void cut_whole(cut_chain *c)
{
    const mp_pipeline_request request = cut_request(c);
    assert_int_equal(mp_pipeline_new(&request, &c->pipeline, NULL), MP_OK);
    assert_int_equal(mp_pipeline_rank_graph(c->pipeline, 0, &c->rank, NULL), MP_OK);
    c->n = mp_keep_all(c->rank.graph, c->steps);
}

static mp_status pipeline_new(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    const mp_pipeline_request request = cut_request(&c);
    mp_pipeline *pipeline;
    PUBLIC_OUTPUT(w, pipeline, mp_pipeline_new(&request, &pipeline, err), mp_pipeline_free(pipeline));
}

static mp_status pipeline_rank_graph(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    mp_rank rank;
    cut_whole(&c);
    PUBLIC_OUTPUT(w, rank, mp_pipeline_rank_graph(c.pipeline, 1, &rank, err), mp_rank_free(&rank));
}

static mp_status rank_held_bytes(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    int64_t held;
    cut_whole(&c);
    PUBLIC_OUTPUT(w, held, mp_rank_held_bytes(&c.rank, c.steps, c.n, &held, err), PUBLIC_NOTHING);
}

static mp_status rank_turn_around(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    size_t at;
    cut_whole(&c);
    PUBLIC_OUTPUT(w, at, mp_rank_turn_around(c.rank.graph, c.steps, c.n, &at, err), PUBLIC_NOTHING);
}

static mp_status rank_add_repeated(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    mp_rank_traffic sent = {0};
    cut_whole(&c);
    PUBLIC_OUTPUT(w, sent, mp_rank_add_repeated(c.rank.graph, &c.rank.shape, 0, c.steps, c.n, NULL, &sent, err),
                  PUBLIC_NOTHING);
}

static mp_status rank_hold(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    mp_status st;
    cut_whole(&c);
    PUBLIC_LIMITED(w, st, mp_rank_hold(&c.rank, &(int64_t){64}, err));
    return st;
}

static mp_status rank_check(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    mp_status st;
    cut_whole(&c);
    assert_int_equal(mp_rank_hold(&c.rank, &(int64_t){4096}, NULL), MP_OK);
    PUBLIC_LIMITED(w, st, mp_rank_check(&c.rank, c.steps, c.n, err));
    return st;
}

static mp_status rank_seconds(public_world *w, mp_error *err)
{
    MP_CLEARED_BY(cut_chain_free) cut_chain c = {0};
    mp_stage_seconds seconds;
    mp_status st;
    cut_whole(&c);
    PUBLIC_LIMITED(w, st, mp_rank_seconds(&c.rank, c.steps, c.n, &seconds, err));
    return st;
}

static mp_status rank_graph(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, mp_error *err)
{
    (void)data;
    return chain_graph(4, 8 * micro_batch, 16 / mesh->size[MP_DIM_TP], true, out, err);
}

static mp_status meshes_search(public_world *w, mp_error *err)
{
    const mp_meshes_request request = {
        .devices = 2, .memory_bytes = 1000, .global_batch = 4, .ranks = ranks_of("dp=1"), .graph = rank_graph};
    mp_meshes *meshes;
    PUBLIC_OUTPUT(w, meshes, mp_meshes_search(&request, &meshes, err), mp_meshes_free(meshes));
}

static mp_status exact_mesh_search(public_world *w, mp_error *err)
{
    mp_meshes_request request = {
        .devices = 2, .memory_bytes = 1000, .global_batch = 4, .ranks = ranks_of("dp=1"), .graph = rank_graph};
    mp_exact_mesh exact = {.path = "gpt2", .memory_bytes = request.memory_bytes};
    int64_t withheld_bytes;
    mp_meshes *meshes;
    PUBLIC_OUTPUT(w, meshes, mp_exact_mesh_search(&request, &exact, &withheld_bytes, &meshes, err), mp_meshes_free(meshes));
}

const public_call public_ranks[] = {{"mp_graph_exchange", graph_exchange},
                                    {"mp_exact_mesh_search", exact_mesh_search},
                                    {"mp_meshes_search", meshes_search},
                                    {"mp_schedule_play", schedule_play},
                                    {"mp_schedule_held_bytes", schedule_held_bytes},
                                    {"mp_pipeline_new", pipeline_new},
                                    {"mp_pipeline_rank_graph", pipeline_rank_graph},
                                    {"mp_rank_turn_around", rank_turn_around},
                                    {"mp_rank_add_repeated", rank_add_repeated},
                                    {"mp_rank_held_bytes", rank_held_bytes},
                                    {"mp_rank_hold", rank_hold},
                                    {"mp_rank_check", rank_check},
                                    {"mp_rank_seconds", rank_seconds},
                                    {NULL, NULL}};
