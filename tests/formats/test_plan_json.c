/* test_plan_json.c - formats/plan_json: written plans read back equal, ids are the graph file's ids, and faults are named.
 *
 * With MEMPLAN_DUMP=FOLDER set, the faulty files are also written there, for check_plans.sh to compare verdicts. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"
#include "memplan/check.h"
#include "memplan/graph_json.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

static char folder[] = "/tmp/memplan-plan-json-XXXXXX", path[64], path_again[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/plan", folder);
    snprintf(path_again, sizeof path_again, "%s/again", folder);
    return 0;
}
static int drop_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(path_again);
    return rmdir(folder);
}

static void assert_same_files(void)
{
    mp_file x, y;
    assert_int_equal(mp_file_open(path, 1 << 24, &x, NULL), MP_OK);
    assert_int_equal(mp_file_open(path_again, 1 << 24, &y, NULL), MP_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.bytes, y.bytes, x.size);
    mp_file_close(&x);
    mp_file_close(&y);
}

TEST(random_plans_come_back_the_same)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *graph = random_graph(seed, 1 + (int)(seed % 10), (mp_fuse)(seed % MP_N_FUSES), seed % 6 == 0);
        mp_plan *a, *b;
        mp_error err = {0};
        size_t n;
        mp_step *steps = random_schedule(graph, seed, (int)(seed % 4) * 5, &n);
        assert_int_equal(mp_plan_new(graph, "test", steps, n, &a, &err), MP_OK);
        a->seed = seed % 2 ? seed : UINT64_MAX - seed;
        a->cut_short = seed % 5 == 0;
        if (seed % 3) place_first_fit(graph, a);
        if (seed % 4 == 0) {
            a->budget_bytes = INT64_MAX;
            a->floor_bytes = 0;
            a->lower_bound_seconds = a->seconds / 3;
            mp_free(a->bound_covers);
            a->bound_covers = mp_plan_text("any-order");
        }
        assert_int_equal(mp_plan_write(a, graph, path, &err), MP_OK);
        if (mp_plan_read(path, graph, &b, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        assert_string_equal(a->graph_hash, b->graph_hash);
        assert_string_equal(a->solver, b->solver);
        assert_string_equal(a->bound_covers, b->bound_covers);
        assert_true(a->seed == b->seed && a->cut_short == b->cut_short && a->budget_bytes == b->budget_bytes &&
                    a->floor_bytes == b->floor_bytes);
        assert_true(a->static_bytes == b->static_bytes && a->peak_bytes == b->peak_bytes && a->arena_bytes == b->arena_bytes);
        assert_true(a->ticks == b->ticks && a->baseline_ticks == b->baseline_ticks && a->seconds == b->seconds);
        assert_true(a->baseline_peak_bytes == b->baseline_peak_bytes && a->baseline_seconds == b->baseline_seconds);
        assert_true(a->lower_bound_seconds == b->lower_bound_seconds && a->n_checkpoints == b->n_checkpoints);
        assert_true(a->n_steps == b->n_steps && a->n_places == b->n_places);
        assert_memory_equal(a->steps, b->steps, n * sizeof *steps);
        assert_memory_equal(a->recompute, b->recompute, n * sizeof *a->recompute);
        assert_memory_equal(a->frees_start, b->frees_start, (n + 1) * sizeof *a->frees_start);
        if (mp_plan_check(graph, b, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        assert_int_equal(mp_plan_write(b, graph, path_again, &err), MP_OK);
        assert_same_files();
        mp_free(steps);
        mp_plan_free(a);
        mp_plan_free(b);
        mp_graph_free(graph);
    }
    assert_int_equal(mp_alloc_live, 0);
}

/* Storage ids are 10 and 11, node ids 20 and 21. Node 20 writes 10; node 21 reads it and writes 11, with 4 bytes of workspace.
 */
static mp_graph *two_nodes(void)
{
    static const char text[] =
        "{\"format\":\"memplan-graph\",\"name\":\"two\",\"alignment\":4,\"storages\":[{\"id\":10,\"name\":\"a\",\"tensors\":["
        "\"a\",\"a/view\"],\"bytes\":8,\"kind\":\"activation\"},{\"id\":11,\"bytes\":8,\"kind\":\"activation\"}],\"nodes\":[{"
        "\"id\":20,\"name\":\"f\",\"phase\":\"forward\",\"seconds\":1,\"reads\":[],\"writes\":[10]},{\"id\":21,\"phase\":"
        "\"forward\",\"seconds\":0.5,\"workspace_bytes\":4,\"reads\":[10],\"writes\":[11]}]}";
    mp_graph *graph;
    assert_int_equal(mp_file_write(path, text, strlen(text), NULL), MP_OK);
    assert_int_equal(mp_graph_read(path, &graph, NULL), MP_OK);
    return graph;
}

static mp_status read_text(const char *text, const mp_graph *graph, mp_plan **plan, mp_error *err)
{
    assert_int_equal(mp_file_write(path, text, strlen(text), NULL), MP_OK);
    return mp_plan_read(path, graph, plan, err);
}

static void dump(const mp_graph *graph, const char *text, const char *verdict, size_t number)
{
    const char *to = getenv("MEMPLAN_DUMP");
    char name[512];
    if (!to) return;
    snprintf(name, sizeof name, "%s/%s-json-%zu.graph.json", to, verdict, number);
    assert_int_equal(mp_graph_write(graph, name, NULL), MP_OK);
    snprintf(name, sizeof name, "%s/%s-json-%zu.plan.json", to, verdict, number);
    assert_int_equal(mp_file_write(name, text, strlen(text), NULL), MP_OK);
}

#define PLAN(rest) "{\"format\":\"memplan-plan\"," rest "}"
#define CLAIMS "\"peak_bytes\":20,\"seconds\":1.5,"
#define STEPS "\"steps\":[{\"node\":20},{\"node\":21}]"
#define OFFSETS                                                                                                             \
    "\"offsets\":[{\"storage\":10,\"offset\":0,\"bytes\":8,\"first_step\":0,\"last_step\":1},{\"storage\":11,\"offset\":8," \
    "\"bytes\":8,\"first_step\":1,\"last_step\":1},"

TEST(plans_of_others_need_little)
{
    static const char *const texts[] = {
        PLAN(CLAIMS STEPS),
        PLAN(CLAIMS "\"version\":1,\"graph\":{\"name\":\"two\"},\"budget_bytes\":null,\"arena_bytes\":null," STEPS),
        PLAN(CLAIMS "\"budget_bytes\":20,\"checkpoints\":[],\"steps\":[{\"node\":20,\"recompute\":false},{\"node\":21,"
                    "\"alternative\":0,\"frees\":[11,10]}]"),
        PLAN(CLAIMS STEPS "," OFFSETS "{\"node\":21,\"offset\":16,\"bytes\":4,\"first_step\":1,\"last_step\":1}]"),
    };
    mp_graph *graph = two_nodes();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mp_plan *plan;
        mp_error err = {0};
        if (read_text(texts[i], graph, &plan, &err) != MP_OK || mp_plan_check(graph, plan, &err) != MP_OK)
            fail_msg("%zu: %s", i, err.message);
        assert_true(plan->steps[1].node == 1 && plan->ticks == 15);
        mp_plan_free(plan);
        dump(graph, texts[i], "holds", i);
    }
    mp_graph_free(graph);
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *text, *message;
        bool verifier_holds; /* check_plan.py does not check this */
    } cases[] = {
        {PLAN(CLAIMS "\"steps\":[{\"node\":20},{\"node\":22}]"), "steps[1]: the graph has no node 22", false},
        {PLAN(CLAIMS "\"steps\":[{\"node\":20},{}]"), "steps[1]: \"node\" is missing", false},
        {PLAN(CLAIMS "\"steps\":[{\"node\":20},{\"node\":21,\"frees\":[10,11,12]}]"), "steps[1]: the graph has no storage 12",
         false},
        {PLAN(CLAIMS "\"solver\":\"x\""), "\"steps\" is missing", false},
        {PLAN(CLAIMS "\"checkpoints\":[\"c\"]," STEPS), "checkpoint \"c\" is no storage or tensor of the graph", false},
        {PLAN(CLAIMS "\"budget_bytes\":-1," STEPS), "\"budget_bytes\" is negative", false},
        {PLAN(CLAIMS STEPS "," OFFSETS "{\"node\":20,\"offset\":16,\"bytes\":4,\"first_step\":1,\"last_step\":1}]"),
         "offsets[2]: node 20 (f) does not run in step 1", false},
        {PLAN(CLAIMS STEPS "," OFFSETS "{\"node\":21,\"offset\":16,\"bytes\":4,\"first_step\":2,\"last_step\":2}]"),
         "offsets[2]: node 21 does not run in step 2", false},
        {PLAN(CLAIMS STEPS "," OFFSETS "{\"storage\":12,\"offset\":16,\"bytes\":4,\"first_step\":1,\"last_step\":1}]"),
         "offsets[2]: the graph has no storage 12", false},
        {PLAN(CLAIMS STEPS "," OFFSETS "{\"node\":21,\"bytes\":4,\"first_step\":1,\"last_step\":1}]"),
         "offsets[2]: \"offset\" is missing", false},
        {PLAN("\"peak_bytes\":20,\"seconds\":\"1.5\"," STEPS), "\"seconds\" is no number", false},
        {PLAN(CLAIMS "\"baseline_seconds\":-1.5," STEPS), "\"baseline_seconds\" is negative", true},
        {PLAN(CLAIMS "\"lower_bound_seconds\":-1," STEPS), "\"lower_bound_seconds\" is negative", true},
        {PLAN(CLAIMS "\"steps\":[{\"node\":20,\"until\":0},{\"node\":21}]"),
         "steps[0]: \"until\" is 0, but the waiting step must come after this one", true},
        {PLAN(CLAIMS "\"steps\":[{\"node\":20},{\"node\":21,\"until\":1}]"),
         "steps[1]: \"until\" is 1, but the waiting step must come after this one", true},
        {PLAN(CLAIMS "\"graph\":{\"hash\":\"00\"}," STEPS), NULL, true},
        {PLAN(CLAIMS "\"steps\":[{\"node\":20,\"recompute\":0},{\"node\":21}]"),
         "steps[0]: \"recompute\" is neither true nor false", true},
        {PLAN(CLAIMS "\"seed\":1.5," STEPS), "\"seed\" is no whole number", true},
        {PLAN(CLAIMS "\"version\":3," STEPS), "version 3 of memplan-plan is not known, only version 1", true},
    };
    mp_graph *graph = two_nodes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_error err = {0};
        mp_plan *plan = NULL;
        mp_status st = read_text(cases[i].text, graph, &plan, &err);
        assert_true(st == MP_PARSE || st == MP_UNSUPPORTED || (st == MP_INVALID && !cases[i].message));
        assert_null(plan);
        if (cases[i].message) assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.input, path);
        dump(graph, cases[i].text, cases[i].verifier_holds ? "stricter" : "spoilt", i);
    }
    mp_error err = {0};
    mp_plan *plan;
    assert_int_equal(read_text(PLAN("\"graph\":{\"name\":\"other\",\"hash\":\"0123\"}," STEPS), graph, &plan, &err),
                     MP_INVALID);
    assert_non_null(strstr(err.message, "is for the graph 'other' with hash 0123, but this is 'two' with hash "));
    /* and names the differing options among those that both have */
    err = (mp_error){0};
    graph->options = "{\"batch\":2,\"threads\":4,\"loss\":\"mse\",\"here\":1,\"device\":\"cpu\"}";
    assert_int_equal(read_text(PLAN("\"graph\":{\"name\":\"other\",\"hash\":\"0123\"},\"options\":{\"threads\":1,"
                                    "\"loss\":\"mse\",\"batch\":2,\"there\":1,\"device\":\"cuda\"}," STEPS),
                               graph, &plan, &err),
                     MP_INVALID);
    const char *why = strrchr(err.message, ':');
    assert_non_null(why);
    assert_string_equal(why, ": made with threads 1, here 4; device \"cuda\", here \"cpu\"");
    mp_graph_free(graph);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(checkpoints_may_go_by_the_name_of_a_view)
{
    mp_graph *graph = two_nodes();
    mp_plan *plan;
    assert_int_equal(read_text(PLAN(CLAIMS "\"checkpoints\":[\"a/view\"]," STEPS), graph, &plan, NULL), MP_OK);
    assert_true(plan->n_checkpoints == 1 && plan->checkpoints[0] == 0);
    mp_plan_free(plan);
    mp_graph_free(graph);
}

TEST(header_states_every_field_and_null_where_nothing_is_known)
{
    static const char *const keys[] = {"format",
                                       "version",
                                       "graph",
                                       "options",
                                       "solver",
                                       "seed",
                                       "budget_bytes",
                                       "static_bytes",
                                       "peak_bytes",
                                       "arena_bytes",
                                       "baseline_peak_bytes",
                                       "floor_bytes",
                                       "seconds",
                                       "baseline_seconds",
                                       "lower_bound_seconds",
                                       "bound_covers",
                                       "checkpoints"};
    static const char *const unknown[] = {"budget_bytes", "arena_bytes", "floor_bytes", "lower_bound_seconds", "bound_covers"};
    mp_graph *graph = random_graph(2, 4, MP_FUSE_NONE, false);
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    mp_plan *plan;
    mp_keep_all(graph, steps);
    assert_int_equal(mp_plan_new(graph, "none", steps, graph->n_nodes, &plan, NULL), MP_OK);
    json_t *header = mp_plan_header_json(plan, graph), *value;
    const char *key;
    size_t k = 0;
    json_object_foreach(header, key, value) assert_string_equal(key, keys[k++]);
    assert_int_equal(k, sizeof keys / sizeof *keys);
    for (k = 0; k < sizeof unknown / sizeof *unknown; k++) assert_true(json_is_null(json_object_get(header, unknown[k])));
    assert_int_equal(json_integer_value(json_object_get(header, "peak_bytes")), plan->peak_bytes);
    assert_string_equal(json_string_value(json_object_get(json_object_get(header, "graph"), "hash")), graph->hash);
    assert_int_equal(json_array_size(json_object_get(header, "checkpoints")), plan->n_checkpoints);
    json_decref(header);
    mp_plan_free(plan);
    mp_free(steps);
    mp_graph_free(graph);
}

/* A plan of hundreds of megabytes could exceed the reader's limits. Every written plan must be readable; otherwise it is not
 * written. */
TEST(what_is_written_is_read_back)
{
    const mp_json_limits usual = mp_json_most;
    mp_graph *graph = random_graph(5, 9, MP_FUSE_NONE, false);
    mp_plan *plan, *again;
    mp_error err = {0};
    mp_file file;
    size_t n;
    mp_step *steps = random_schedule(graph, 5, 10, &n);
    assert_int_equal(mp_plan_new(graph, "test", steps, n, &plan, &err), MP_OK);
    place_first_fit(graph, plan);
    mp_json_most = (mp_json_limits){1 << 20, 1, 1};
    assert_int_equal(mp_plan_write(plan, graph, path, &err), MP_OK);
    assert_int_equal(mp_plan_read(path, graph, &again, &err), MP_OK);
    mp_plan_free(again);
    assert_int_equal(mp_file_open(path, 1 << 24, &file, NULL), MP_OK);
    const size_t size = file.size;
    mp_file_close(&file);
    mp_json_most.bytes = (int64_t)size - 1;
    plan->seed = 1;
    assert_int_equal(mp_plan_write(plan, graph, path, &err), MP_LIMIT);
    assert_non_null(strstr(err.message, "are not read back"));
    mp_json_most.bytes = (int64_t)size;
    assert_int_equal(mp_plan_read(path, graph, &again, &err), MP_OK); /* the previous plan */
    assert_true(again->seed != 1);
    mp_plan_free(again);
    FILE *dense = fopen(path_again, "w"); /* an equally large file from another source */
    for (size_t k = 0; k < size; k++) fputc("[]"[k % 2], dense);
    fclose(dense);
    err = (mp_error){0};
    assert_int_equal(mp_plan_read(path_again, graph, &again, &err), MP_PARSE);
    assert_string_equal(err.message, "the file holds too many values");
    mp_json_most = usual;
    mp_plan_free(plan);
    mp_free(steps);
    mp_graph_free(graph);
}

TEST(reading_survives_every_allocation_failure)
{
    size_t n;
    mp_graph *graph = random_graph(3, 4, MP_FUSE_NONE, false);
    mp_step *steps = random_schedule(graph, 3, 4, &n);
    mp_plan *plan;
    assert_int_equal(mp_plan_new(graph, "test", steps, n, &plan, NULL), MP_OK);
    place_first_fit(graph, plan);
    assert_int_equal(mp_plan_write(plan, graph, path, NULL), MP_OK);
    mp_plan_free(plan);
    mp_free(steps);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        plan = NULL;
        mp_alloc_budget = k;
        st = mp_plan_read(path, graph, &plan, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || (st == MP_NOMEM && !plan));
        mp_plan_free(plan);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}

/* jansson's memory: the number of further successful allocations (-1: all), and the number of live blocks. */
static long json_budget = -1, json_live;

static void *json_allocate(size_t size)
{
    if (json_budget == 0) return NULL;
    if (json_budget > 0) json_budget--;
    void *p = malloc(size);
    json_live += p != NULL;
    return p;
}

static void json_release(void *p)
{
    json_live -= p != NULL;
    free(p);
}

TEST(writing_survives_every_allocation_failure_of_jansson)
{
    size_t n;
    mp_plan *plan;
    mp_graph *graph = random_graph(3, 4, MP_FUSE_BACKWARD, false);
    mp_step *steps = random_schedule(graph, 3, 4, &n);
    assert_int_equal(mp_plan_new(graph, "test", steps, n, &plan, NULL), MP_OK);
    place_first_fit(graph, plan);
    json_set_alloc_funcs(json_allocate, json_release);
    for (int whole = 0; whole < 2; whole++) {
        mp_status st = MP_NOMEM;
        for (long k = 0; st != MP_OK; k++) {
            json_budget = k;
            st = whole ? mp_graph_write(graph, path_again, NULL) : mp_plan_write(plan, graph, path_again, NULL);
            json_budget = -1;
            assert_true(st == MP_OK || st == MP_NOMEM);
            assert_int_equal(json_live, 0);
        }
    }
    json_set_alloc_funcs(malloc, free);
    mp_plan_free(plan);
    mp_free(steps);
    mp_graph_free(graph);
}

int main(void)
{
    return test_run(make_folder, drop_folder);
}
