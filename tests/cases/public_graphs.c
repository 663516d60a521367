/* public_graphs.c - calls of the allocating public functions of estimator and planner. */
#include "tests/cases/chain_graph.h"
#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"

#define MUST(call) assert_int_equal((call), MP_OK)

static mp_plan *fresh_plan(const public_world *w)
{
    mp_plan *plan;
    MUST(mp_plan_new(w->graph, "test", w->plan->steps, w->plan->n_steps, &plan, NULL));
    return plan;
}

/* Computes offsets. If memory runs out, the plan must have none. */
static mp_status laid_out(public_world *w, int how, mp_error *err)
{
    mp_plan *plan = fresh_plan(w);
    mp_pack_result result;
    mp_status st;
    const mp_arena_options options = {.capacity_bytes = 1};
    const mp_pack_options exact = {.node_limit = 50};
    public_mark(&result, sizeof result);
    if (how == 0)
        PUBLIC_LIMITED(w, st, mp_arena_layout(w->graph, plan, err));
    else if (how == 1)
        PUBLIC_LIMITED(w, st, mp_arena_layout_within(w->graph, plan, &options, err));
    else
        PUBLIC_LIMITED(w, st, mp_arena_pack(w->graph, plan, &exact, &result, err));
    if (st != MP_OK) {
        assert_null(plan->places);
        assert_int_equal(plan->arena_bytes, -1);
        public_is_marked(&result, sizeof result);
    }
    mp_plan_free(plan);
    return st;
}

static mp_status arena_layout(public_world *w, mp_error *err)
{
    return laid_out(w, 0, err);
}

static mp_status arena_layout_within(public_world *w, mp_error *err)
{
    return laid_out(w, 1, err);
}

static mp_status arena_pack(public_world *w, mp_error *err)
{
    return laid_out(w, 2, err);
}

static mp_status arena_layout_tier(public_world *w, mp_error *err)
{
    mp_tier_layout layout;
    PUBLIC_OUTPUT(w, layout, mp_arena_layout_tier(w->graph, w->plan, MP_TIER_DEVICE, 64, &layout, err), mp_free(layout.places));
}

static mp_status arena_bound(public_world *w, mp_error *err)
{
    int64_t bytes;
    PUBLIC_OUTPUT(w, bytes, mp_arena_bound(w->graph, w->plan, &bytes, err), PUBLIC_NOTHING);
}

static mp_request request_of(const public_world *w)
{
    return (mp_request){.graph = w->graph, .budget_bytes = w->plan->peak_bytes - 1, .solver = "segments", .moves = 5};
}

static mp_status solve(public_world *w, mp_error *err)
{
    const mp_request request = request_of(w);
    mp_answer answer;
    PUBLIC_OUTPUT(w, answer, mp_solve(&request, &answer, err), mp_answer_free(&answer));
}

static mp_status solve_with_arena(public_world *w, mp_error *err)
{
    mp_request request = request_of(w);
    mp_answer answer;
    request.wants_bound = request.explains_bound = true;
    PUBLIC_OUTPUT(w, answer, mp_solve_with_arena(&request, &answer, err), mp_answer_free(&answer));
}

static mp_status smallest_plan(public_world *w, mp_error *err)
{
    const mp_request request = request_of(w);
    mp_plan *plan;
    PUBLIC_OUTPUT(w, plan, mp_smallest_plan(&request, true, &plan, err), mp_plan_free(plan));
}

static mp_status solve_or_smallest(public_world *w, mp_error *err)
{
    mp_request request = request_of(w);
    mp_answer answer;
    request.budget_bytes = 1; /* a budget that no plan meets */
    PUBLIC_OUTPUT(w, answer, mp_solve_or_smallest(&request, &answer, err), mp_answer_free(&answer));
}

static mp_status bound_within(public_world *w, mp_error *err)
{
    mp_bound_report report;
    const mp_bound_options options = {.effort = 1, .report = &report};
    mp_bound bound;
    mp_status st;
    mp_bound_report_init(&report);
    public_mark(&bound, sizeof bound);
    PUBLIC_LIMITED(w, st, mp_bound_within(w->graph, w->plan->peak_bytes - 1, &options, &bound, err));
    if (st != MP_OK) public_is_marked(&bound, sizeof bound);
    mp_bound_report_clear(&report);
    return st;
}

static mp_status plan_check(public_world *w, mp_error *err)
{
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_plan_check(w->graph, w->plan, err));
    return st;
}

static mp_status floor_explained(public_world *w, mp_error *err)
{
    int64_t bytes;
    mp_floor_reason reason;
    public_mark(&reason, sizeof reason);
    PUBLIC_OUTPUT(w, bytes, mp_floor_explained(w->graph, &bytes, &reason, err), PUBLIC_NOTHING);
}

static mp_status problem_new(public_world *w, mp_error *err)
{
    mp_problem *problem;
    PUBLIC_OUTPUT(w, problem, mp_problem_new(w->graph, &problem, err), mp_problem_free(problem));
}

static mp_status problem_keep_all(public_world *w, mp_error *err)
{
    mp_problem *problem = NULL;
    const mp_step *steps;
    const mp_timeline *timeline;
    mp_status st;
    MUST(mp_problem_new(w->graph, &problem, NULL));
    public_mark(&steps, sizeof steps);
    public_mark(&timeline, sizeof timeline);
    PUBLIC_LIMITED(w, st, mp_problem_keep_all(problem, &steps, &timeline, err));
    if (st != MP_OK) {
        public_is_marked(&steps, sizeof steps);
        public_is_marked(&timeline, sizeof timeline);
    }
    mp_problem_free(problem);
    return st;
}

static mp_status problem_floor(public_world *w, mp_error *err)
{
    mp_problem *problem = NULL;
    int64_t bytes;
    mp_floor_reason reason;
    mp_status st;
    MUST(mp_problem_new(w->graph, &problem, NULL));
    public_mark(&bytes, sizeof bytes);
    public_mark(&reason, sizeof reason);
    PUBLIC_LIMITED(w, st, mp_problem_floor(problem, &bytes, &reason, err));
    if (st != MP_OK) {
        public_is_marked(&bytes, sizeof bytes);
        public_is_marked(&reason, sizeof reason);
    }
    mp_problem_free(problem);
    return st;
}

static mp_status floor_of(public_world *w, mp_error *err)
{
    int64_t bytes;
    int node;
    PUBLIC_OUTPUT(w, bytes, mp_floor(w->graph, &bytes, &node, err), PUBLIC_NOTHING);
}

static mp_status chain_of(void *data, int64_t batch, mp_graph **out, mp_error *err)
{
    (void)data;
    return chain_graph(2, 8 * batch, 16, true, out, err);
}

static mp_status fit_batch(public_world *w, mp_error *err)
{
    const mp_fit_request request = {.graph_at = chain_of, .memory_bytes = 64, .overhead = 1, .solver = "segments", .moves = 5};
    mp_fit fit;
    PUBLIC_OUTPUT(w, fit, mp_fit_batch(&request, &fit, err), PUBLIC_NOTHING);
}

static mp_status graph_new(public_world *w, mp_error *err)
{
    mp_graph *graph;
    PUBLIC_OUTPUT(w, graph, mp_graph_new("new", &graph, err), mp_graph_free(graph));
}

/* Appends storages or nodes until the array must grow. */
static mp_status graph_grows(public_world *w, bool nodes, mp_error *err)
{
    mp_graph *graph;
    mp_storage *storage;
    mp_node *node;
    mp_status st = MP_OK;
    const long allowed = w->allowed;
    MUST(mp_graph_new("grows", &graph, NULL));
    for (int k = 0; k < 20 && st == MP_OK; k++) {
        const size_t n = nodes ? graph->n_nodes : graph->n_storages;
        public_mark(&storage, sizeof storage);
        public_mark(&node, sizeof node);
        if (nodes)
            PUBLIC_LIMITED(w, st, mp_graph_node(graph, &node, err));
        else
            PUBLIC_LIMITED(w, st, mp_graph_storage(graph, &storage, err));
        if (allowed >= 0) w->allowed = allowed - w->made;
        if (st == MP_OK) continue;
        public_is_marked(nodes ? (void *)&node : (void *)&storage, sizeof node);
        assert_int_equal(nodes ? graph->n_nodes : graph->n_storages, n);
    }
    mp_graph_free(graph);
    return st;
}

static mp_status graph_storage(public_world *w, mp_error *err)
{
    return graph_grows(w, false, err);
}

static mp_status graph_node(public_world *w, mp_error *err)
{
    return graph_grows(w, true, err);
}

static mp_status graph_list(public_world *w, mp_error *err)
{
    mp_graph *graph;
    static const int storages[20000]; /* more than the free space in a pool's first chunk */
    int *list;
    MUST(mp_graph_new("list", &graph, NULL));
    PUBLIC_LIMITED(w, list, mp_graph_list(graph, storages, sizeof storages / sizeof *storages));
    mp_graph_free(graph);
    return list ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status graph_collective(public_world *w, mp_error *err)
{
    mp_graph *graph;
    static const int storages[20000];
    const mp_collective_record record = {.n_moved = sizeof storages / sizeof *storages, .wholes = storages};
    const mp_collective_record *copy;
    MUST(mp_graph_new("record", &graph, NULL));
    PUBLIC_LIMITED(w, copy, mp_graph_collective(graph, &record));
    mp_graph_free(graph);
    return copy ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status graph_finish(public_world *w, mp_error *err)
{
    mp_graph *graph;
    mp_status st;
    MUST(chain_graph(2, 8, 8, true, &graph, NULL));
    graph->hash[0] = '\0';
    PUBLIC_LIMITED(w, st, mp_graph_finish(graph, err));
    if (st != MP_OK) assert_string_equal(graph->hash, "");
    if (st != MP_OK) MUST(mp_graph_finish(graph, NULL)); /* a second try must succeed */
    mp_graph_free(graph);
    return st;
}

/* ---- packing ---- */

static mp_status packed(public_world *w, int how, mp_error *err)
{
    const mp_pack_piece pieces[] = {{0, 4, 3}, {2, 6, 2}, {5, 9, 4}};
    mp_pack_item items[] = {{0, 1, 1, -1, -7}, {1, 1, 1, -1, -7}, {2, 1, 1, -1, -7}};
    mp_pack_problem problem = {items, 3, pieces, 3};
    const mp_pack_options options = {.node_limit = 1000};
    mp_pack_result result;
    int64_t bytes;
    mp_status st;
    public_mark(&result, sizeof result);
    public_mark(&bytes, sizeof bytes);
    for (int k = 0; how == 3 && k < 3; k++) items[k].offset = 4 * k;
    if (how == 0)
        PUBLIC_LIMITED(w, st, mp_pack_solve(&problem, 7, &options, &result, err));
    else if (how == 1)
        PUBLIC_LIMITED(w, st, mp_pack_minimize(&problem, -1, &options, &result, err));
    else if (how == 2)
        PUBLIC_LIMITED(w, st, mp_pack_bound(&problem, &bytes, err));
    else
        PUBLIC_LIMITED(w, st, mp_pack_check(&problem, 20, err));
    if (st == MP_OK) return st;
    public_is_marked(&result, sizeof result);
    public_is_marked(&bytes, sizeof bytes);
    for (int k = 0; how < 3 && k < 3; k++) assert_int_equal(items[k].offset, -7);
    return st;
}

static mp_status pack_solve(public_world *w, mp_error *err)
{
    return packed(w, 0, err);
}

static mp_status pack_minimize(public_world *w, mp_error *err)
{
    return packed(w, 1, err);
}

static mp_status pack_bound(public_world *w, mp_error *err)
{
    return packed(w, 2, err);
}

static mp_status pack_check(public_world *w, mp_error *err)
{
    return packed(w, 3, err);
}

/* ---- plans ---- */

static mp_status plan_new(public_world *w, mp_error *err)
{
    mp_plan *plan;
    PUBLIC_OUTPUT(w, plan, mp_plan_new(w->graph, "test", w->plan->steps, w->plan->n_steps, &plan, err), mp_plan_free(plan));
}

static mp_status plan_text(public_world *w, mp_error *err)
{
    char *text;
    PUBLIC_LIMITED(w, text, mp_plan_text("text"));
    mp_free(text);
    return text ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status plan_checkpoints(public_world *w, mp_error *err)
{
    int storages[64];
    size_t n;
    PUBLIC_OUTPUT(w, n, mp_plan_checkpoints(w->graph, w->plan->steps, w->plan->n_steps, storages, &n, err), PUBLIC_NOTHING);
}

static mp_status fates(public_world *w, mp_error *err)
{
    mp_fate all[64];
    PUBLIC_OUTPUT(w, all, mp_fates(w->graph, w->plan->steps, w->plan->n_steps, all, err), PUBLIC_NOTHING);
}

static mp_status segments_on(public_world *w, mp_error *err)
{
    int64_t peak, ticks;
    const int kept[] = {3};
    PUBLIC_OUTPUT(w, peak, mp_segments_on(w->graph, kept, 1, &peak, &ticks, err), PUBLIC_NOTHING);
}

static mp_status spread(public_world *w, mp_error *err)
{
    mp_spread_point *points;
    size_t n;
    PUBLIC_OUTPUT(w, points, mp_spread(w->graph, 3, &points, &n, err), mp_free(points));
}

static mp_status summarize(public_world *w, mp_error *err)
{
    mp_summary summary;
    PUBLIC_OUTPUT(w, summary, mp_summarize(w->graph, MP_RULES_EXECUTOR, &summary, err), mp_summary_free(&summary));
}

static mp_status sweep_budgets(public_world *w, mp_error *err)
{
    static const char *const solvers[] = {"segments"};
    const mp_sweep_request request = {.graph = w->graph, .solvers = solvers, .n_solvers = 1, .n_budgets = 2, .moves = 5};
    mp_sweep sweep;
    PUBLIC_OUTPUT(w, sweep, mp_sweep_budgets(&request, &sweep, err), mp_sweep_free(&sweep));
}

static mp_status timeline_build(public_world *w, mp_error *err)
{
    mp_timeline *timeline;
    PUBLIC_OUTPUT(w, timeline, mp_timeline_build(w->graph, w->plan->steps, w->plan->n_steps, &timeline, err),
                  mp_timeline_free(timeline));
}

static mp_status update_effect_of(public_world *w, mp_error *err)
{
    mp_update_effect effect;
    PUBLIC_OUTPUT(w, effect, mp_update_effect_of(w->updates, 1 << 20, &effect, err), PUBLIC_NOTHING);
}

/* ---- memory ---- */

static mp_status alloc(public_world *w, mp_error *err)
{
    void *p;
    PUBLIC_LIMITED(w, p, mp_alloc(1, 1));
    mp_free(p);
    return p ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status pool_new(public_world *w, mp_error *err)
{
    mp_pool *pool;
    PUBLIC_LIMITED(w, pool, mp_pool_new());
    mp_pool_free(pool);
    return pool ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status from_pool(public_world *w, int how, mp_error *err)
{
    mp_pool *pool = mp_pool_new();
    void *p;
    if (how == 0)
        PUBLIC_LIMITED(w, p, mp_pool_alloc(pool, 1, 1));
    else if (how == 1)
        PUBLIC_LIMITED(w, p, mp_pool_text(pool, "text", 4));
    else
        PUBLIC_LIMITED(w, p, mp_pool_format(pool, "%d", 7));
    mp_pool_free(pool);
    return p ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status pool_alloc(public_world *w, mp_error *err)
{
    return from_pool(w, 0, err);
}

static mp_status pool_text(public_world *w, mp_error *err)
{
    return from_pool(w, 1, err);
}

static mp_status pool_format(public_world *w, mp_error *err)
{
    return from_pool(w, 2, err);
}

const public_call public_graphs[] = {{"mp_arena_layout", arena_layout},
                                     {"mp_arena_layout_within", arena_layout_within},
                                     {"mp_arena_pack", arena_pack},
                                     {"mp_arena_bound", arena_bound},
                                     {"mp_arena_layout_tier", arena_layout_tier},
                                     {"mp_solve", solve},
                                     {"mp_solve_with_arena", solve_with_arena},
                                     {"mp_smallest_plan", smallest_plan},
                                     {"mp_solve_or_smallest", solve_or_smallest},
                                     {"mp_bound_within", bound_within},
                                     {"mp_plan_check", plan_check},
                                     {"mp_floor_explained", floor_explained},
                                     {"mp_floor", floor_of},
                                     {"mp_problem_new", problem_new},
                                     {"mp_problem_keep_all", problem_keep_all},
                                     {"mp_problem_floor", problem_floor},
                                     {"mp_fit_batch", fit_batch},
                                     {"mp_graph_new", graph_new},
                                     {"mp_graph_storage", graph_storage},
                                     {"mp_graph_node", graph_node},
                                     {"mp_graph_list", graph_list},
                                     {"mp_graph_collective", graph_collective},
                                     {"mp_graph_finish", graph_finish},
                                     {"mp_pack_solve", pack_solve},
                                     {"mp_pack_minimize", pack_minimize},
                                     {"mp_pack_bound", pack_bound},
                                     {"mp_pack_check", pack_check},
                                     {"mp_plan_new", plan_new},
                                     {"mp_plan_text", plan_text},
                                     {"mp_plan_checkpoints", plan_checkpoints},
                                     {"mp_fates", fates},
                                     {"mp_segments_on", segments_on},
                                     {"mp_spread", spread},
                                     {"mp_summarize", summarize},
                                     {"mp_sweep_budgets", sweep_budgets},
                                     {"mp_timeline_build", timeline_build},
                                     {"mp_update_effect_of", update_effect_of},
                                     {"mp_alloc", alloc},
                                     {"mp_pool_new", pool_new},
                                     {"mp_pool_alloc", pool_alloc},
                                     {"mp_pool_text", pool_text},
                                     {"mp_pool_format", pool_format},
                                     {NULL, NULL}};
