/* test_workload.c - workloads equal the graphs that the functions of the passes build, one call after the other. Options
 * survive a round trip through the `options` object of a plan. */
#include "estimator/model/model.h"
#include "estimator/parallel/split.h"
#include "executor/workload/option_rows.h"
#include "executor/workload/options_json.h"
#include "memplan/memplan.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

#define GPT "tests/gradients/gpt.onnx"

static const char *sizes[] = {"layers=2", "width=64", "heads=2", "vocabulary=64", "sequence=8"};

typedef struct setting {
    const char *path, *mesh, *rank, *offload; /* rank NULL: no pipeline */
    const char *passes;                       /* after "settings, simplify, fuse attention, cut sequences" */
} setting;

static const setting settings[] = {
    {GPT, NULL, NULL, NULL, "mesh, loss, training graph, collectives"},
    {GPT, "dp=2", NULL, NULL, "mesh, loss, training graph, collectives"},
    {GPT, "shard=2", NULL, NULL, "mesh, loss, training graph, collectives"},
    {GPT, "tp=2", NULL, NULL, "mesh, loss, split operators, training graph, collectives"},
    {"gpt2", NULL, NULL, NULL, "mesh, loss, training graph, collectives"},
    {"gpt2", "tp=2", NULL, NULL, "mesh, loss, split operators, training graph, collectives"},
    {"gpt2", "dp=2,pp=2", "0", NULL, "mesh, loss, training graph, cut into stages, collectives, stash"},
    {"gpt2", "dp=2,pp=2", "1", NULL, "mesh, loss, training graph, cut into stages, collectives, stash"},
    {"gpt2", NULL, NULL, "host", "mesh, loss, training graph, collectives, copies"},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings, BATCH = 4 };

static mp_workload_options options_of(const setting *s)
{
    mp_workload_options o = mp_workload_defaults();
    if (s->mesh) assert_int_equal(mp_mesh_read(s->mesh, &o.mesh, NULL), MP_OK);
    o.rank = s->rank;
    if (s->offload) o.offload = (mp_text_list){.n = 1, .items = (const char **)&s->offload};
    o.offload_state = s->offload;
    if (strcmp(s->path, GPT)) {
        o.dims = (mp_text_list){.n = sizeof sizes / sizeof *sizes, .items = sizes};
        o.batch = BATCH;
    }
    return o;
}

static mp_workload load(const setting *s)
{
    const mp_workload_options o = options_of(s);
    return training_workload(s->path, &o);
}

static mp_model *model_of(const setting *s, mp_error *err)
{
    const mp_onnx_options file = {0};
    mp_model *model = NULL;
    mp_architecture a = *mp_architecture_find("gpt2");
    if (!strcmp(s->path, GPT))
        (void)mp_onnx_read(GPT, &file, &model, err);
    else {
        (void)mp_architecture_set(&a, "layers", 2, err);
        (void)mp_architecture_set(&a, "width", 64, err);
        (void)mp_architecture_set(&a, "heads", 2, err);
        (void)mp_architecture_set(&a, "vocabulary", 64, err);
        (void)mp_architecture_model(&a, s->rank ? 1 : BATCH, 8, &model, err); /* a pipeline has micro-batches of one sample */
    }
    return model;
}

/* Builds the graph of a setting without a workload, and copies its hash. */
static mp_status build(const setting *s, char hash[33], mp_error *err)
{
    mp_device device = *mp_device_find("a100");
    device.rates = MP_RATES_ACHIEVED;
    const mp_target own = mp_roofline(&device);
    mp_ranks ranks = {.mesh = mp_mesh_of_one()};
    if (s->mesh) MP_CHECK(mp_mesh_read(s->mesh, &ranks.mesh, err));
    MP_CHECK(mp_network_read(mp_network_of_device("a100"), &ranks.network, err));
    const mp_training_options wanted = {.loss = MP_LOSS_AUTO,
                                        .optimizer = MP_OPTIMIZER_ADAMW,
                                        .dtype = MP_DTYPE_FLOAT,
                                        .for_gpu = true,
                                        .accumulate = s->rank ? BATCH : 0,
                                        .sums_each_pass = ranks.mesh.zero >= 2};
    mp_split_target split = {.own = &own, .ranks = &ranks};
    const mp_target target = mp_target_of_split(&split);
    MP_OWNED_BY(mp_model_free) mp_model *model = model_of(s, err);
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = NULL;
    MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
    MP_CLEARED_BY(mp_split_free) mp_split shared = {0};
    mp_attention_report attention;
    int loss;
    MP_CHECK(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, err));
    MP_CHECK(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &attention, err));
    MP_CHECK(mp_model_add_loss(model, &wanted, &loss, err));
    if (ranks.mesh.size[MP_DIM_TP] > 1) MP_CHECK(mp_model_split(model, &ranks, &shared, err));
    MP_CHECK(mp_training_graph(model, &wanted, loss, &target, &graph, err));
    mp_graph *made = graph;
    if (s->rank) {
        const mp_pipeline_request request = {.graph = graph,
                                             .ranks = &ranks,
                                             .shape = {MP_SCHEDULE_1F1B, 2, 1, BATCH},
                                             .memory_bytes = device.memory_bytes - device.reserve_bytes};
        MP_CHECK(mp_pipeline_new(&request, &pipeline, err));
        MP_CHECK(mp_pipeline_rank_graph(pipeline, *s->rank - '0', &rank, err));
        made = rank.graph;
    }
    MP_CHECK(mp_graph_exchange(made, &ranks, err));
    if (s->rank) {
        mp_step steps[4096];
        int64_t held;
        assert_true(made->n_nodes <= sizeof steps / sizeof *steps);
        MP_CHECK(mp_rank_held_bytes(&rank, steps, mp_keep_all(made, steps), &held, err));
        MP_CHECK(mp_rank_hold(&rank, &held, err));
    }
    if (s->offload) {
        const mp_offload offload = {.host = mp_link_find(device.link), .moves_state = true};
        MP_CHECK(mp_graph_offload(made, &offload, NULL, err));
    }
    memcpy(hash, made->hash, 33);
    return MP_OK;
}

TEST(a_workload_is_the_graph_that_the_passes_build)
{
    for (int k = 0; k < N_SETTINGS; k++) {
        mp_workload w = load(&settings[k]);
        mp_error err = {0};
        char hash[33];
        if (build(&settings[k], hash, &err) != MP_OK) fail_msg("setting %d: %s", k, err.message);
        if (strcmp(hash, w.graph->hash)) print_error("setting %d: %s is not %s\n", k, w.graph->hash, hash);
        assert_string_equal(hash, w.graph->hash);
        mp_workload_free(&w);
    }
}

TEST(passes_are_listed_in_execution_order)
{
    for (int k = 0; k < N_SETTINGS; k++) {
        mp_workload w = load(&settings[k]);
        char list[400] = "", expected[400];
        for (const char *const *pass = mp_workload_passes(&w); *pass; pass++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", *pass);
        snprintf(expected, sizeof expected, "settings, simplify, fuse attention, cut sequences, %s", settings[k].passes);
        assert_string_equal(list, expected);
        mp_workload_free(&w);
    }
}

TEST(settings_that_contradict_each_other_are_refused)
{
    static const struct {
        setting s;
        const char *words;
    } refused[] = {{{"gpt2", "pp=2", NULL, NULL, NULL}, "choose one with --rank 0 to 1"},
                   {{"gpt2", "pp=2", "2", NULL, NULL}, "there is no rank '2'"},
                   {{"gpt2", NULL, "0", NULL, NULL}, "add pp=N to --mesh"},
                   {{"gpt2", NULL, NULL, "/no/such/folder", NULL}, "neither host nor an existing folder"},
                   {{"no-such-network", NULL, NULL, NULL, NULL}, "no network of this name"}};
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        const mp_workload_options o = options_of(&refused[k].s);
        mp_workload w;
        mp_error err = {0};
        assert_int_equal(mp_workload_load(refused[k].s.path, &o, &w, &err), MP_INVALID);
        if (!strstr(err.message, refused[k].words)) fail_msg("%s", err.message);
        mp_workload_free(&w);
    }
}

TEST(a_file_in_inference_mode_has_a_note)
{
    const mp_workload_options o = mp_workload_defaults();
    mp_workload w;
    assert_int_equal(mp_workload_load("tests/gradients/fixed.onnx", &o, &w, NULL), MP_OK);
    assert_int_equal(w.n_notes, 1);
    assert_int_equal(w.notes[0].kind, MP_NOTE_INFERENCE);
    assert_non_null(strstr(w.notes[0].text, "5 batch normalizations are in inference mode"));
    mp_workload_free(&w);
}

/* ---- options ---- */

/* Sets the field of a row to a value that is not its default. */
static void set_field(mp_workload_options *o, const mp_option_row *row)
{
    static const char *texts[] = {"first", "second"}, *bindings[] = {"rows=3", "columns=70"};
    void *field = (char *)o + row->offset;
    size_t last = 0;
    switch (row->kind) {
    case MP_VALUE_FLAG:
    case MP_VALUE_OFF:
        *(bool *)field = row->kind == MP_VALUE_FLAG;
        break;
    case MP_VALUE_TEXT:
        *(const char **)field = "text";
        break;
    case MP_VALUE_CHOICE:
        while (row->choice(last + 1)) last++;
        *(const char **)field = row->choice(last);
        break;
    case MP_VALUE_LIST:
    case MP_VALUE_BINDING:
        *(mp_text_list *)field = (mp_text_list){.n = 2, .items = row->kind == MP_VALUE_LIST ? texts : bindings};
        break;
    case MP_VALUE_MESH:
        assert_int_equal(mp_mesh_read("dp=2,tp=4,pp=2", field, NULL), MP_OK);
        break;
    case MP_VALUE_COUNT:
    case MP_VALUE_BYTES:
        *(int64_t *)field = 4096;
        break;
    case MP_VALUE_PERCENT:
    case MP_VALUE_POSITIVE:
        *(double *)field = 0.25;
        break;
    }
}

static void check_round_trip(const mp_workload_options *o, const char *name)
{
    mp_workload_options adopted = mp_workload_defaults();
    mp_error err = {0};
    json_t *first = mp_workload_options_json(o), *second;
    if (mp_workload_options_adopt(&adopted, NULL, first, &err) != MP_OK) fail_msg("--%s: %s", name, err.message);
    second = mp_workload_options_json(&adopted);
    if (!json_equal(first, second)) fail_msg("--%s changes on its way through a plan", name);
    mp_workload_options_free(&adopted);
    json_decref(first);
    json_decref(second);
}

TEST(every_option_survives_a_plan)
{
    mp_workload_options all = mp_workload_defaults();
    json_t *usual = mp_workload_options_json(&all);
    for (int k = 0; k < MP_N_WORKLOAD_OPTIONS; k++) {
        const mp_option_row *row = &mp_workload_option_rows[k];
        mp_workload_options one = mp_workload_defaults();
        set_field(&one, row);
        set_field(&all, row);
        check_round_trip(&one, row->name);
        json_t *said = mp_workload_options_json(&one);
        if (row->key && json_equal(json_object_get(said, row->key), json_object_get(usual, row->key)))
            fail_msg("--%s is not written", row->name);
        json_decref(said);
    }
    check_round_trip(&all, "all options");
    json_decref(usual);
}

TEST(a_plan_without_rates_is_at_peak_rates)
{
    static const char *const plans[] = {"{}", "{\"rates\": null}", "{\"rates\": \"achieved\"}", "{\"rates\": \"peak\"}"};
    static const mp_rates expected[] = {MP_RATES_PEAK, MP_RATES_PEAK, MP_RATES_ACHIEVED, MP_RATES_PEAK};
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        mp_workload_options o = mp_workload_defaults();
        const mp_backend *backend;
        mp_own_device device;
        json_t *plan = json_loads(plans[k], 0, NULL);
        assert_string_equal(o.rates, "achieved");
        assert_int_equal(mp_workload_options_adopt(&o, NULL, plan, NULL), MP_OK);
        assert_int_equal(mp_workload_device(&o, &backend, &device, NULL), MP_OK);
        assert_int_equal(device.profile.rates, expected[k]);
        mp_workload_options_free(&o);
        json_decref(plan);
    }
}

TEST(a_given_option_that_contradicts_the_plan_is_refused)
{
    bool given[MP_N_WORKLOAD_OPTIONS] = {[MP_OPTION_BATCH] = true};
    mp_workload_options planned = mp_workload_defaults(), asked = planned;
    mp_error err = {0};
    planned.batch = 8;
    asked.batch = 4;
    json_t *plan = mp_workload_options_json(&planned);
    assert_int_equal(mp_workload_options_adopt(&asked, given, plan, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "--batch contradicts the plan, which was made with 8"));
    asked.batch = 8;
    assert_int_equal(mp_workload_options_adopt(&asked, given, plan, NULL), MP_OK);
    mp_workload_options_free(&asked);
    json_decref(plan);
}

/* The plan's list replaces a list of the caller, also if a second plan follows. */
TEST(lists_of_a_plan_replace_the_lists_of_the_caller)
{
    static const char *own[] = {"4:own"}, *other[] = {"8:a", "8:b"};
    mp_workload_options planned = mp_workload_defaults(), asked = planned;
    asked.lora = (mp_text_list){.n = 1, .items = own};
    planned.lora = (mp_text_list){.n = 2, .items = other};
    for (int twice = 0; twice < 2; twice++) {
        json_t *plan = mp_workload_options_json(&planned);
        assert_int_equal(mp_workload_options_adopt(&asked, NULL, plan, NULL), MP_OK);
        json_decref(plan);
        assert_int_equal(asked.lora.n, 2);
        assert_string_equal(asked.lora.items[1], "8:b");
    }
    mp_workload_options_free(&asked);
    assert_int_equal(asked.lora.n, 0);
}

/* ---- the report about a pipeline ---- */

/* The peak of a pipeline is the peak of its fullest rank. Its step is the schedule of the busy seconds of its stages. */
TEST(a_pipeline_is_reported_from_its_ranks)
{
    setting s = {"gpt2", "pp=2", "0", NULL, NULL};
    mp_pipeline_report report;
    mp_workload_options o = options_of(&s);
    mp_stage_seconds seconds[2];
    mp_played *played;
    mp_error err = {0};
    int64_t peak = 0, parameters = 0;
    assert_int_equal(mp_pipeline_report_new(&o, &report, &err), MP_OK);
    assert_int_equal(report.shape.n_ranks, 2);
    for (int r = 0; r < 2; r++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
        const mp_step *steps;
        const mp_timeline *keep_all;
        s.rank = r ? "1" : "0";
        o = options_of(&s);
        assert_int_equal(mp_workload_load(s.path, &o, &w, &err), MP_OK);
        assert_int_equal(mp_problem_keep_all(w.problem, &steps, &keep_all, &err), MP_OK);
        assert_int_equal(mp_rank_seconds(&w.rank, steps, keep_all->n_steps, seconds, &err), MP_OK);
        assert_int_equal(mp_pipeline_report_take(&report, &w, NULL, &err), MP_OK);
        assert_int_equal(report.ranks[r].peak_bytes, keep_all->peak_bytes);
        assert_int_equal(report.begins[r], w.begins[r]);
        if (keep_all->peak_bytes > peak) peak = keep_all->peak_bytes;
        for (size_t k = 0; k < w.graph->n_storages; k++)
            if (w.graph->storages[k].kind == MP_KIND_PARAMETER) parameters += w.graph->storages[k].bytes;
    }
    assert_int_equal(mp_pipeline_report_play(&report, &err), MP_OK);
    assert_int_equal(mp_schedule_play(&report.shape, seconds, &played, &err), MP_OK);
    assert_true(report.played->seconds == played->seconds && report.keep_all_played->seconds == played->seconds);
    assert_int_equal(mp_pipeline_report_peak(&report), peak);
    assert_int_equal(report.ranks[0].parameter_bytes + report.ranks[1].parameter_bytes, parameters);
    assert_int_equal(report.micro_batch * report.shape.n_micro_batches, BATCH);
    mp_schedule_free(played);
    mp_pipeline_report_free(&report);
}

/* With a plan, a rank has the memory of the plan. */
TEST(a_plan_lengthens_the_step_of_its_pipeline)
{
    const setting s = {"gpt2", "pp=2", "0", NULL, NULL};
    const mp_workload_options o = options_of(&s);
    mp_request request = {.budget_bytes = 1, .solver = "segments"};
    MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
    mp_pipeline_report report;
    mp_answer answer;
    mp_error err = {0};
    assert_int_equal(mp_pipeline_report_new(&o, &report, &err), MP_OK);
    assert_int_equal(mp_workload_load(s.path, &o, &w, &err), MP_OK);
    request.graph = w.graph;
    assert_int_equal(mp_solve(&request, &answer, &err), MP_OK);
    const setting other = {"gpt2", "pp=2", "1", NULL, NULL};
    const mp_workload_options of_other = options_of(&other);
    MP_CLEARED_BY(mp_workload_free) mp_workload last = {0};
    assert_int_equal(mp_workload_load(other.path, &of_other, &last, &err), MP_OK);
    assert_int_equal(mp_pipeline_report_take(&report, &last, NULL, &err), MP_OK);
    assert_int_equal(mp_pipeline_report_take(&report, &w, NULL, &err), MP_OK);
    assert_int_equal(mp_pipeline_report_take(&report, &w, answer.smallest, &err), MP_OK);
    assert_int_equal(mp_pipeline_report_play(&report, &err), MP_OK);
    assert_true(answer.smallest->ticks > report.ranks[0].keep_all_ticks);
    assert_true(report.played->seconds > report.keep_all_played->seconds);
    assert_int_equal(report.ranks[0].peak_bytes, mp_plan_need(answer.smallest));
    assert_true(report.ranks[0].has_plan && report.ranks[0].keep_all_peak_bytes > report.ranks[0].peak_bytes);
    mp_answer_free(&answer);
    mp_pipeline_report_free(&report);
}
