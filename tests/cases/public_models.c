/* public_models.c - calls of the allocating public functions for models, programs, trainings, searches and planning handles. */
#include <unistd.h>

#include "executor/ranks/communicator.h"
#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

#define MUST(call) assert_int_equal((call), MP_OK)
#define MLP "tests/gradients/mlp.onnx"

static const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};

static mp_model *model_of(const char *path, bool simplified)
{
    const mp_onnx_options file = {0};
    mp_model *model;
    MUST(mp_onnx_read(path, &file, &model, NULL));
    if (simplified) MUST(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, NULL));
    return model;
}

static mp_status simplify(public_world *w, mp_error *err)
{
    mp_model *model = model_of(MLP, false);
    mp_simplify_report report;
    mp_status st;
    public_mark(&report, sizeof report);
    PUBLIC_LIMITED(w, st, mp_model_simplify(model, MP_RULES_EXECUTOR, true, &report, err));
    if (st != MP_OK) public_is_marked(&report, sizeof report);
    mp_model_free(model);
    return st;
}

static mp_status fuse_attention(public_world *w, mp_error *err)
{
    mp_model *model = model_of("tests/gradients/bert.onnx", true);
    mp_attention_report report;
    mp_status st;
    public_mark(&report, sizeof report);
    PUBLIC_LIMITED(w, st, mp_model_fuse_attention(model, MP_RULES_EXECUTOR, true, &report, err));
    if (st != MP_OK) public_is_marked(&report, sizeof report);
    mp_model_free(model);
    return st;
}

/* Returns an architecture that uses all operators of the builders. */
static mp_architecture small_mixture(void)
{
    mp_architecture a = *mp_architecture_find("mixtral-8x7b");
    a.layers = 1;
    a.width = a.feed_forward = 64;
    a.vocabulary = 8;
    return a;
}

static mp_status architecture_model(public_world *w, mp_error *err)
{
    const mp_architecture a = small_mixture();
    mp_model *model;
    PUBLIC_OUTPUT(w, model, mp_architecture_model(&a, 1, 8, &model, err), mp_model_free(model));
}

static mp_status architecture_parameters(public_world *w, mp_error *err)
{
    mp_architecture a = small_mixture();
    int64_t n;
    a.sequence = 8;
    PUBLIC_OUTPUT(w, n, mp_architecture_parameters(&a, &n, err), PUBLIC_NOTHING);
}

static mp_status add_loss(public_world *w, mp_error *err)
{
    mp_model *model = model_of(MLP, true);
    int loss;
    mp_status st;
    public_mark(&loss, sizeof loss);
    PUBLIC_LIMITED(w, st, mp_model_add_loss(model, &options, &loss, err));
    if (st != MP_OK) public_is_marked(&loss, sizeof loss);
    mp_model_free(model);
    return st;
}

/* Builds a graph or a program from a model. If memory runs out, the caller still owns the model. */
static mp_status built(public_world *w, bool program, mp_error *err)
{
    const mp_target target = mp_roofline(mp_device_find("a100"));
    mp_model *model = model_of(MLP, true);
    mp_graph *graph;
    mp_program *made;
    int loss;
    mp_status st;
    MUST(mp_model_add_loss(model, &options, &loss, NULL));
    public_mark(&graph, sizeof graph);
    public_mark(&made, sizeof made);
    if (program)
        PUBLIC_LIMITED(w, st, mp_program_build(mp_backend_find("cpu"), model, &options, loss, &made, err));
    else
        PUBLIC_LIMITED(w, st, mp_training_graph(model, &options, loss, &target, &graph, err));
    if (st != MP_OK || !program) public_is_marked(&made, sizeof made);
    if (st != MP_OK || program) public_is_marked(&graph, sizeof graph);
    if (st == MP_OK && program) mp_program_free(made);
    if (st == MP_OK && !program) mp_graph_free(graph);
    mp_model_free(model);
    return st;
}

static mp_status training_graph(public_world *w, mp_error *err)
{
    return built(w, false, err);
}

static mp_status program_build(public_world *w, mp_error *err)
{
    return built(w, true, err);
}

/* ---- training inputs ---- */

static mp_status trained(public_world *w, int how, mp_error *err)
{
    training_case t = training_begin(MLP, 0, &options);
    mp_plan *plan = training_keep_all(&t);
    mp_parameter_source *source;
    mp_feed *feed;
    mp_report report;
    const mp_train_request request = training_request(&t, plan, 2);
    mp_status st;
    public_mark(&source, sizeof source);
    public_mark(&feed, sizeof feed);
    public_mark(&report, sizeof report);
    if (how == 0)
        PUBLIC_LIMITED(w, st, mp_parameter_source_open(t.program, MLP, 1, false, &source, err));
    else if (how == 1)
        PUBLIC_LIMITED(w, st, mp_inputs_open_feed(t.program, NULL, 0, 1, &feed, err));
    else
        PUBLIC_LIMITED(w, st, mp_train(&request, &report, err));
    if (st != MP_OK || how != 0) public_is_marked(&source, sizeof source);
    if (st != MP_OK || how != 1) public_is_marked(&feed, sizeof feed);
    if (st != MP_OK || how != 2) public_is_marked(&report, sizeof report);
    if (st == MP_OK && how == 0) mp_parameter_source_free(source);
    if (st == MP_OK && how == 1) mp_feed_free(feed);
    if (st == MP_OK && how == 2) mp_report_free(&report);
    mp_plan_free(plan);
    training_end(&t);
    return st;
}

static mp_status parameter_source_open(public_world *w, mp_error *err)
{
    return trained(w, 0, err);
}

static mp_status inputs_open_feed(public_world *w, mp_error *err)
{
    return trained(w, 1, err);
}

static mp_status train(public_world *w, mp_error *err)
{
    return trained(w, 2, err);
}

static mp_status costs_measure(public_world *w, mp_error *err)
{
    training_case t = training_begin(MLP, 0, &options);
    const mp_costs_request request = {
        .program = t.program, .feed = t.feed, .parameters = t.source, .optimizer = MP_OPTIMIZER_SGD, .n_steps = 2};
    mp_measured_costs costs;
    mp_status st;
    public_mark(&costs, sizeof costs);
    PUBLIC_LIMITED(w, st, mp_costs_measure(&request, &costs, err));
    if (st != MP_OK)
        public_is_marked(&costs, sizeof costs);
    else
        mp_measured_costs_free(&costs);
    training_end(&t);
    return st;
}

static mp_status summary_modules(public_world *w, mp_error *err)
{
    mp_summary summary;
    mp_status st;
    struct {
        mp_module_summary *rows;
        size_t n;
    } found;
    MUST(mp_summarize(w->graph, MP_RULES_EXECUTOR, &summary, NULL));
    public_mark(&found, sizeof found);
    PUBLIC_LIMITED(w, st, mp_summary_modules(w->graph, &summary, 3, MP_SUMMARY_TIME, &found.rows, &found.n, err));
    if (st != MP_OK)
        public_is_marked(&found, sizeof found);
    else
        mp_free(found.rows);
    mp_summary_free(&summary);
    return st;
}

static mp_status summary_sorted(public_world *w, mp_error *err)
{
    mp_summary summary;
    mp_operator_summary *rows;
    mp_status st;
    MUST(mp_summarize(w->graph, MP_RULES_EXECUTOR, &summary, NULL));
    public_mark(&rows, sizeof rows);
    PUBLIC_LIMITED(w, st, mp_summary_sorted(w->graph, &summary, MP_SUMMARY_NAME, &rows, err));
    if (st != MP_OK)
        public_is_marked(&rows, sizeof rows);
    else
        mp_free(rows);
    mp_summary_free(&summary);
    return st;
}

static mp_status keep_all_plan(public_world *w, mp_error *err)
{
    mp_plan *plan;
    PUBLIC_OUTPUT(w, plan, mp_keep_all_plan(w->graph, NULL, &plan, err), mp_plan_free(plan));
}

static mp_status train_turns(public_world *w, mp_error *err)
{
    training_case t = training_begin(MLP, 0, &options);
    mp_plan *plan = training_keep_all(&t);
    const mp_train_request request = training_request(&t, plan, 2), both[] = {request, request};
    mp_turns turns;
    mp_status st;
    public_mark(&turns, sizeof turns);
    PUBLIC_LIMITED(w, st, mp_train_turns(both, 2, &turns, err));
    if (st != MP_OK) public_is_marked(&turns, sizeof turns);
    if (st == MP_OK) mp_turns_free(&turns);
    mp_plan_free(plan);
    training_end(&t);
    return st;
}

/* ---- calls of a searcher within a search ---- */

typedef struct searcher {
    public_world *world;
    mp_status status;
    bool delegates;
} searcher;

static _Thread_local searcher now;

static mp_status run_limited(mp_search *search, mp_error *err)
{
    const mp_step *steps = now.world->plan->steps;
    const size_t n = now.world->plan->n_steps;
    int64_t peak, ticks;
    public_mark(&peak, sizeof peak);
    public_mark(&ticks, sizeof ticks);
    if (now.delegates)
        PUBLIC_LIMITED(now.world, now.status, mp_search_delegate(search, mp_solver_row(1), 1, err));
    else
        PUBLIC_LIMITED(now.world, now.status, mp_search_offer(search, steps, n, &peak, &ticks, err));
    if (now.status != MP_OK) public_is_marked(&peak, sizeof peak);
    if (now.status != MP_OK) public_is_marked(&ticks, sizeof ticks);
    return now.status;
}

static mp_status searched(public_world *w, bool delegates, mp_error *err)
{
    const mp_solver own = {.name = "own", .summary = "", .source = "", .run = run_limited};
    const mp_request request = {.graph = w->graph, .budget_bytes = INT64_MAX, .own = &own};
    mp_answer answer;
    now = (searcher){w, MP_OK, delegates};
    const mp_status st = mp_solve(&request, &answer, err);
    if (st == MP_OK) mp_answer_free(&answer);
    assert_int_equal(st, now.status);
    return st;
}

static mp_status search_offer(public_world *w, mp_error *err)
{
    return searched(w, false, err);
}

static mp_status search_delegate(public_world *w, mp_error *err)
{
    return searched(w, true, err);
}

/* ---- the planning handle ---- */

/* ---- several jobs on one card ---- */

static mp_status share_split_of(public_world *w, mp_error *err)
{
    const mp_share_option options[] = {{1, 3}, {2, 2}};
    const mp_share_job jobs[] = {{.options = options, .n = 2}, {.options = options, .n = 2}};
    const mp_share_request request = {.jobs = jobs, .n_jobs = 2, .goal = MP_SHARE_LONGEST, .capacity_bytes = 4};
    mp_share_split split;
    PUBLIC_OUTPUT(w, split, mp_share_split_of(&request, &split, err), mp_share_split_free(&split));
}

static mp_share_plans_request share_request_of(const public_world *w)
{
    return (mp_share_plans_request){.graph = w->graph, .solver = "segments", .n_budgets = 2, .moves = 5};
}

static mp_status share_plans_of(public_world *w, mp_error *err)
{
    const mp_share_plans_request request = share_request_of(w);
    mp_share_plans plans;
    PUBLIC_OUTPUT(w, plans, mp_share_plans_of(&request, &plans, err), mp_share_plans_free(&plans));
}

static mp_status share_plans_keep_all(public_world *w, mp_error *err)
{
    const mp_share_plans_request request = share_request_of(w);
    mp_share_plans plans;
    PUBLIC_OUTPUT(w, plans, mp_share_plans_keep_all(&request, &plans, err), mp_share_plans_free(&plans));
}

static mp_status share_plans_more(public_world *w, mp_error *err)
{
    const mp_share_plans_request request = share_request_of(w);
    mp_share_plans plans;
    mp_status st;
    assert_int_equal(mp_share_plans_keep_all(&request, &plans, NULL), MP_OK);
    PUBLIC_LIMITED(w, st, mp_share_plans_more(&request, &plans, err));
    mp_share_plans_free(&plans);
    return st;
}

static mp_status share_plans_add(public_world *w, mp_error *err)
{
    const mp_share_plans_request request = share_request_of(w);
    mp_share_plans plans;
    mp_status st;
    assert_int_equal(mp_share_plans_of(&request, &plans, NULL), MP_OK);
    PUBLIC_LIMITED(w, st, mp_share_plans_add(&request, w->plan->peak_bytes - 1, &plans, err));
    mp_share_plans_free(&plans);
    return st;
}

static mp_status planning_new(public_world *w, mp_error *err)
{
    mp_planning *p;
    PUBLIC_LIMITED(w, p, mp_planning_new("short", 1));
    mp_planning_free(p);
    return p ? MP_OK : MP_NO_MEMORY(err);
}

enum { ADD_STORAGE, ADD_NODE, CONNECT, FINISH, SMALLEST, SOLVE, TAKE, REPLAY, NUMBER, HOLDERS, OFFLOAD };

/* Builds a handle up to `stage`, whose call is limited. A failure must leave its message, and the same call may be repeated. */
static mp_status handled(public_world *w, int stage, mp_error *err)
{
    mp_planning *p = mp_planning_new("short", 1);
    mp_status st = MP_OK;
    int s = 0, n = 0, node;
    long answer = 0;
    static int many[20000]; /* more than the free space in a pool's first chunk */
    size_t n_many = stage == CONNECT ? sizeof many / sizeof *many : 1;
    for (size_t k = 0; k + 1 < n_many; k++) many[k + 1] = mp_planning_add_storage(p, "s", "activation", 8);
    for (int k = 0; k <= stage; k++) {
        const bool limited = k == stage;
        if (!limited && (k == NUMBER || (stage == NUMBER && k > FINISH))) continue; /* a search also computes the floor */
        const long allowed = w->allowed, made = w->made;
        for (int again = 0; again < (limited ? 2 : 1); again++) {
            if (!limited || again) w->allowed = -1;
            switch (k) {
            case ADD_STORAGE:
                PUBLIC_LIMITED(w, answer, many[0] = s = mp_planning_add_storage(p, "s", "activation", 8));
                break;
            case ADD_NODE:
                PUBLIC_LIMITED(w, answer, n = mp_planning_add_node(p, "n", "", "forward", 1, 0));
                break;
            case CONNECT:
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_connect(p, n, "writes", many, n_many));
                break;
            case FINISH:
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_finish(p));
                break;
            case SMALLEST:
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_solve_smallest(p));
                break;
            case SOLVE:
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_solve(p, 100));
                break;
            case TAKE:
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_take(p, 100, mp_planning_plan(p)));
                break;
            case REPLAY:
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_replay(p, 100, mp_planning_plan(p)));
                break;
            case NUMBER:
                PUBLIC_LIMITED(w, answer, mp_planning_number(p, "floor_bytes"));
                break;
            case OFFLOAD: /* if memory runs out in this call, the handle can only be freed */
                PUBLIC_LIMITED(w, answer, -(long)mp_planning_offload(p, &s, 1, "pcie4", 0));
                if (answer < 0) st = MP_FAIL(err, MP_NOMEM, "%s", mp_planning_message(p));
                mp_planning_free(p);
                return st;
            default:
                PUBLIC_LIMITED(w, answer, (long)mp_planning_holders(p, &node, &s, 1) - 1);
                break;
            }
            w->allowed = allowed;
            if (!limited || again) {
                assert_true(answer >= 0);
                w->made = limited ? w->made : made;
            } else if (answer >= 0) {
                break;
            } else {
                st = MP_FAIL(err, MP_NOMEM, "%s", mp_planning_message(p));
                w->made = -1000000; /* ignored, because the call failed */
            }
        }
    }
    mp_planning_free(p);
    return st;
}

#define HANDLED(name, stage)                              \
    static mp_status name(public_world *w, mp_error *err) \
    {                                                     \
        return handled(w, stage, err);                    \
    }
HANDLED(planning_add_storage, ADD_STORAGE)
HANDLED(planning_add_node, ADD_NODE)
HANDLED(planning_connect, CONNECT)
HANDLED(planning_finish, FINISH)
HANDLED(planning_solve_smallest, SMALLEST)
HANDLED(planning_solve, SOLVE)
HANDLED(planning_take, TAKE)
HANDLED(planning_replay, REPLAY)
HANDLED(planning_number, NUMBER)
HANDLED(planning_holders, HOLDERS)
HANDLED(planning_offload, OFFLOAD)

/* ---- processes of ranks ---- */

/* Opens a communicator of one process, from a test module instead of MPI's. */
static mp_status communicator_open(public_world *w, mp_error *err)
{
    mp_communicator *world;
    char folder[4096];
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - sizeof "/modules");
    assert_true(n > 0);
    folder[n] = 0;
    memcpy(strrchr(folder, '/'), "/modules", sizeof "/modules");
    setenv("MEMPLAN_MODULES", folder, 1);
    PUBLIC_OUTPUT(w, world, mp_communicator_open("ranks", &world, err), mp_communicator_close(world));
}

static mp_status communicator_agree(public_world *w, mp_error *err)
{
    mp_communicator alone = {.n = 1};
    const mp_fact fact = {"seed", "7", 1};
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_communicator_agree(&alone, &fact, 1, 1, err));
    return st;
}

const public_call public_models[] = {{"mp_communicator_open", communicator_open},
                                     {"mp_communicator_agree", communicator_agree},
                                     {"mp_model_simplify", simplify},
                                     {"mp_share_split_of", share_split_of},
                                     {"mp_share_plans_of", share_plans_of},
                                     {"mp_share_plans_keep_all", share_plans_keep_all},
                                     {"mp_share_plans_more", share_plans_more},
                                     {"mp_share_plans_add", share_plans_add},
                                     {"mp_model_fuse_attention", fuse_attention},
                                     {"mp_architecture_model", architecture_model},
                                     {"mp_architecture_parameters", architecture_parameters},
                                     {"mp_model_add_loss", add_loss},
                                     {"mp_training_graph", training_graph},
                                     {"mp_program_build", program_build},
                                     {"mp_parameter_source_open", parameter_source_open},
                                     {"mp_inputs_open_feed", inputs_open_feed},
                                     {"mp_train", train},
                                     {"mp_costs_measure", costs_measure},
                                     {"mp_keep_all_plan", keep_all_plan},
                                     {"mp_summary_modules", summary_modules},
                                     {"mp_summary_sorted", summary_sorted},
                                     {"mp_train_turns", train_turns},
                                     {"mp_search_offer", search_offer},
                                     {"mp_search_delegate", search_delegate},
                                     {"mp_planning_new", planning_new},
                                     {"mp_planning_add_storage", planning_add_storage},
                                     {"mp_planning_add_node", planning_add_node},
                                     {"mp_planning_connect", planning_connect},
                                     {"mp_planning_finish", planning_finish},
                                     {"mp_planning_solve_smallest", planning_solve_smallest},
                                     {"mp_planning_solve", planning_solve},
                                     {"mp_planning_take", planning_take},
                                     {"mp_planning_replay", planning_replay},
                                     {"mp_planning_number", planning_number},
                                     {"mp_planning_holders", planning_holders},
                                     {"mp_planning_offload", planning_offload},
                                     {NULL, NULL}};
