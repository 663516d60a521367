/* test_workload_train.c - workloads that are trained: refusals, inputs, the keep-all run, copied bytes, traces, and the end of
 * work on all ranks. */
#include <jansson.h>

#include "executor/program/program.h"
#include "executor/ranks/communicator.h"
#include "formats/pages/run_trace.h"
#include "memplan/memplan.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

#define MLP "tests/gradients/mlp.onnx"

enum { STEPS = 3 };

static mp_workload_options on_cpu(void)
{
    mp_workload_options o = mp_workload_defaults();
    o.device = "cpu";
    o.optimizer = "sgd";
    return o;
}

/* Loads a workload with keep-all, with offsets, as its plan. */
static void load(const char *path, const mp_workload_options *o, mp_workload *out)
{
    mp_error err = {0};
    *out = training_workload(path, o);
    assert_int_equal(mp_keep_all_plan(out->graph, NULL, &out->plan, &err), MP_OK);
}

static mp_train_request request_of(const mp_workload *w, const mp_workload_inputs *in, uint64_t seed)
{
    mp_train_request request = {.program = w->program,
                                .plan = w->plan,
                                .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .seed = seed},
                                .feed = in->feed,
                                .parameters = in->parameters,
                                .n_steps = STEPS};
    mp_workload_use_tiers(w, &request.execution);
    return request;
}

static mp_report trained(const mp_workload *w, uint64_t seed)
{
    const mp_workload_inputs_request from = {.seed = seed, .draws_missing = true};
    mp_workload_inputs in;
    mp_report report;
    mp_error err = {0};
    assert_int_equal(mp_workload_open_inputs(w, &from, &in, &err), MP_OK);
    assert_true(in.n_parameters > 0 && in.n_drawn <= in.n_parameters && in.n_test_samples == -1);
    const mp_train_request request = request_of(w, &in, seed);
    if (mp_workload_try_tiers(w, &request.execution, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_train(&request, &report, &err) != MP_OK) fail_msg("%s", err.message);
    mp_workload_inputs_free(&in);
    return report;
}

TEST(workloads_that_cannot_be_trained_are_refused)
{
    static const struct {
        const char *device, *loss, *rules;
        mp_status status;
        const char *words;
    } rows[] = {{"cpu", "auto", NULL, MP_OK, ""},
                {"cpu", "auto", "pytorch", MP_INVALID, "cannot run --rules pytorch"},
                {"cpu", "none", NULL, MP_INVALID, "training needs a loss"},
                {"a100", "auto", NULL, MP_UNSUPPORTED, "the device 'a100' is a profile"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        mp_workload_options o = on_cpu();
        mp_workload w;
        mp_error err = {0};
        o.device = rows[k].device;
        o.loss = rows[k].loss;
        if (rows[k].rules) o.rules = rows[k].rules;
        assert_int_equal(mp_workload_load(MLP, &o, &w, &err), MP_OK);
        assert_int_equal(mp_workload_check_trains(&w, &err), rows[k].status);
        assert_non_null(strstr(err.message, rows[k].words));
        mp_workload_free(&w);
    }
}

TEST(equal_trainings_have_equal_reports)
{
    const mp_workload_options o = on_cpu();
    mp_workload w;
    const char *first;
    load(MLP, &o, &w);
    mp_report a = trained(&w, 1), b = trained(&w, 1), c = trained(&w, 2);
    assert_true(mp_reports_are_same(&a, &b));
    assert_false(mp_reports_are_same(&a, &c));
    b.losses[STEPS - 1] += 1;
    assert_false(mp_reports_are_same(&a, &b));
    assert_int_equal(mp_workload_untrained(&w, &first), 0);
    assert_null(first);
    mp_report_free(&a);
    mp_report_free(&b);
    mp_report_free(&c);
    mp_workload_free(&w);
}

/* The bytes that are computed from a pass are those that the training has copied, with and without accumulation. */
TEST(copied_bytes_are_those_that_a_training_copies)
{
    const char *host[] = {"host"}, *sizes[] = {"layers=1", "width=256", "heads=2", "vocabulary=64", "sequence=256"};
    for (int accumulate = 1; accumulate <= 3; accumulate += 2)
        for (int state = 0; state < 2; state++) {
            mp_workload_options o = on_cpu();
            mp_workload w;
            mp_answer answer;
            mp_copying copying;
            mp_error err = {0};
            o.offload = (mp_text_list){.n = 1, .items = host};
            o.offload_state = state;
            o.optimizer = "adamw";
            o.accumulate = accumulate;
            o.dims = (mp_text_list){.n = sizeof sizes / sizeof *sizes, .items = sizes};
            o.batch = 4;
            if (mp_workload_load("gpt2", &o, &w, &err) != MP_OK) fail_msg("%s", err.message);
            const mp_request least = {.graph = w.graph, .budget_bytes = 1, .solver = "auto", .moves = 5};
            assert_false(mp_workload_tier_is_file(&w, 1));
            assert_int_equal(mp_solve(&least, &answer, &err), MP_OK);
            w.plan = answer.smallest;
            answer.smallest = NULL;
            mp_answer_free(&answer);
            assert_int_equal(mp_arena_layout(w.graph, w.plan, &err), MP_OK);
            assert_int_equal(mp_makespan_copying(w.graph, w.plan->steps, w.plan->n_steps, &copying, &err), MP_OK);
            mp_report report = trained(&w, 1);
            assert_int_equal(mp_workload_copied_bytes(&w, copying.out_bytes, STEPS), report.out_bytes);
            assert_int_equal(mp_workload_copied_bytes(&w, copying.in_bytes, STEPS), report.in_bytes);
            assert_true(report.out_bytes > 0);
            mp_report_free(&report);
            mp_workload_free(&w);
        }
}

/* A plan with other algorithms is compared with the keep-all that has the same algorithms. */
TEST(keep_all_has_the_algorithms_of_the_plan)
{
    mp_workload_options o = on_cpu();
    mp_workload w;
    mp_plan *keep_all;
    mp_error err = {0};
    load("tests/gradients/cnn.onnx", &o, &w);
    assert_int_equal(mp_workload_keep_all_like(&w, &keep_all, &err), MP_OK);
    assert_null(keep_all); /* no algorithms are listed */
    assert_int_equal(mp_program_list_algorithms(w.program, &err), MP_OK);
    int n_other = 0;
    for (size_t k = 0; k < w.plan->n_steps; k++) {
        mp_step *step = &w.plan->steps[k];
        if (!mp_node_has_algorithms(&w.graph->nodes[step->node])) continue;
        step->alternative = (int)w.graph->nodes[step->node].n_alternatives - 1;
        n_other += step->alternative > 0;
    }
    assert_true(n_other > 0);
    assert_int_equal(mp_workload_keep_all_like(&w, &keep_all, &err), MP_OK);
    assert_int_equal(keep_all->n_steps, w.plan->n_steps);
    for (size_t k = 0; k < keep_all->n_steps; k++)
        assert_int_equal(keep_all->steps[k].alternative, w.plan->steps[k].alternative);
    assert_int_equal(mp_workload_hold_for(&w, keep_all, &err), MP_OK); /* there is no pipeline */
    mp_plan_free(keep_all);
    mp_workload_free(&w);
}

TEST(a_trace_has_an_event_per_step)
{
    static const char path[] = "/tmp/memplan-test-trace.json";
    const mp_workload_options o = on_cpu();
    mp_workload w;
    mp_error err = {0};
    size_t n_steps = 0;
    load(MLP, &o, &w);
    mp_step_time *times = calloc(w.plan->n_steps, sizeof *times);
    for (size_t k = 0; k < w.plan->n_steps; k++) times[k] = (mp_step_time){.begin = 1 + (double)k, .end = 2 + (double)k};
    assert_int_equal(mp_workload_write_trace(&w, NULL, times, path, 1, &err), MP_OK);
    json_t *trace = json_load_file(path, 0, NULL);
    const json_t *events = json_object_get(trace, "traceEvents");
    for (size_t k = 0; k < json_array_size(events); k++) {
        const json_t *event = json_array_get(events, k);
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X")) continue;
        assert_true(json_real_value(json_object_get(event, "ts")) == 1e6 * (double)n_steps);
        assert_true(json_real_value(json_object_get(event, "dur")) == 1e6);
        n_steps++;
    }
    assert_int_equal(n_steps, w.plan->n_steps);
    json_decref(trace);
    remove(path);
    free(times);
    mp_workload_free(&w);
}

/* ---- ranks ---- */

TEST(a_failed_rank_is_named)
{
    static mp_awaited open[2];
    mp_communicator alone = {.name = "alone", .n = 1, .open = open};
    for (int code = 0; code < 128; code += 127) {
        mp_work_end end = {.code = code};
        mp_error err = {0};
        assert_int_equal(mp_ranks_end_together(&alone, &end, "the test", 1, &err), code ? MP_IO : MP_OK);
        assert_int_equal(end.failed, code);
        assert_false(end.is_other);
        if (code) assert_string_equal(err.message, "rank 0 of 1 has failed; its own message gives the cause");
    }
}

TEST(measurements_of_ranks_are_added_up)
{
    const mp_rank_report ranks[] = {{.planned_peak_bytes = 10,
                                     .measured_peak_bytes = 9,
                                     .process_bytes = 100,
                                     .sent_bytes = 3,
                                     .planned_sent_bytes = 3,
                                     .network_seconds = 2,
                                     .wait_seconds = 1},
                                    {.planned_peak_bytes = 20,
                                     .measured_peak_bytes = 20,
                                     .process_bytes = 50,
                                     .sent_bytes = 4,
                                     .planned_sent_bytes = 4,
                                     .network_seconds = 4,
                                     .wait_seconds = 5}};
    mp_rank_report unknown[] = {ranks[0], ranks[1]};
    const mp_rank_report sum = mp_rank_reports_sum(ranks, 2);
    assert_int_equal(sum.planned_peak_bytes, 30);
    assert_int_equal(sum.measured_peak_bytes, 29);
    assert_int_equal(sum.process_bytes, 150);
    assert_int_equal(sum.sent_bytes, 7);
    assert_true(sum.network_seconds == 3 && sum.wait_seconds == 3);
    unknown[0].process_bytes = -1;
    assert_int_equal(mp_rank_reports_sum(unknown, 2).process_bytes, -1);
    assert_true(mp_rank_report_hidden(&ranks[0]) == 0.5);
    assert_true(mp_rank_report_hidden(&ranks[1]) == 0);
    assert_true(mp_rank_report_hidden(&(mp_rank_report){0}) == -1);
    assert_int_equal(mp_rank_reports_sum(NULL, 2).sent_bytes, 0);
}

/* ---- parameters and updates ---- */

/* The counts are the elements of the model; the effects are those of graphs that are loaded one by one. */
TEST(updates_are_compared_for_each_position)
{
    const char *freeze[] = {"*"};
    mp_workload_options o = on_cpu();
    mp_update_effects found;
    int64_t all, trained, elements = 0;
    mp_error err = {0};
    assert_int_equal(mp_workload_update_effects(MLP, &o, &found, &err), MP_OK);
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
        mp_update_effect effect;
        o.fuse = mp_fuse_name((mp_fuse)fuse);
        assert_int_equal(mp_workload_load(MLP, &o, &w, &err), MP_OK);
        assert_int_equal(mp_update_effect_of(w.graph, found.cache_bytes, &effect, &err), MP_OK);
        assert_true(found.is_possible[fuse]);
        assert_memory_equal(&effect, &found.effects[fuse], sizeof effect);
        if (fuse) continue;
        for (size_t s = 0; s < w.graph->n_storages; s++)
            if (w.graph->storages[s].kind == MP_KIND_PARAMETER) elements += w.graph->storages[s].payload_bytes / 4;
        mp_workload_parameters(&w, &o, &all, &trained);
        assert_true(all == elements && trained == elements);
        o.freeze = (mp_text_list){.n = 1, .items = freeze};
        mp_workload_parameters(&w, &o, &all, &trained);
        assert_true(all == elements && trained == 0);
        o.freeze.n = 0;
    }
    o.clip_norm = 1;
    assert_int_equal(mp_workload_update_effects(MLP, &o, &found, &err), MP_OK);
    assert_false(found.is_possible[MP_FUSE_BACKWARD]);
    mp_workload_parameters(&(mp_workload){.model = NULL}, &o, &all, &trained);
    assert_true(all == -1 && trained == -1);
}

/* ---- jobs that share a card ---- */

/* The options that a split chooses fit the card, and its time is the sum of theirs. Below the floor of a job nothing fits. */
TEST(jobs_share_a_card)
{
    const char *paths[] = {MLP, "tests/gradients/cnn.onnx"};
    const mp_workload_options o = on_cpu();
    const mp_request search = {.solver = "segments", .moves = 50};
    int64_t memory_bytes = 1 << 30;
    for (int k = 0; k < 4; k++) {
        mp_sharing s = {.n_jobs = 2, .jobs = mp_alloc(2, sizeof *s.jobs), .way = MP_SHARE_TURNS, .goal = MP_SHARE_TOTAL};
        const mp_sharing_request request = {.options = &o, .search = &search, .memory_bytes = memory_bytes};
        mp_error err = {0};
        for (int i = 0; i < 2; i++) s.jobs[i].n_steps = 2 + i;
        if (mp_sharing_load(&s, paths, &request, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(mp_sharing_search(&s, &request, &err), MP_OK);
        const int64_t all = s.jobs[0].plans.keep_all_bytes + s.jobs[1].plans.keep_all_bytes;
        const int64_t floors = s.jobs[0].plans.floor_bytes + s.jobs[1].plans.floor_bytes;
        const mp_share_split *split = &s.ways[MP_SHARE_BESIDE].split;
        assert_int_equal(s.is_searched, all > mp_sharing_capacity(&s, MP_SHARE_BESIDE, 2));
        if (split->fits) {
            int64_t bytes = 0, ticks = 0;
            for (size_t i = 0; i < 2; i++) {
                bytes += s.jobs[i].plans.options[split->chosen[i]].bytes;
                ticks += s.jobs[i].plans.options[split->chosen[i]].ticks;
            }
            assert_true(bytes <= mp_sharing_capacity(&s, MP_SHARE_BESIDE, 2));
            assert_int_equal(bytes, split->bytes);
            assert_int_equal(ticks, split->ticks);
        }
        assert_true(k > 0 || split->fits);
        assert_true(k < 3 || (!split->fits && !s.ways[MP_SHARE_BESIDE].bound.fits));
        memory_bytes = (k == 0 ? all : k == 1 ? (all + floors) / 2 : floors - 1) + 2 * s.room.reserve_bytes;
        mp_sharing_free(&s);
    }
}

/* Each saving is the peak of the workload that is loaded with the option. */
TEST(savings_are_the_peaks_of_other_settings)
{
    mp_workload_options o = on_cpu();
    mp_workload w, other;
    mp_savings savings;
    const mp_step *steps;
    const mp_timeline *keep_all, *alone;
    mp_error err = {0};
    int n_found = 0;
    o.optimizer = "adamw";
    assert_int_equal(mp_workload_load(MLP, &o, &w, &err), MP_OK);
    assert_int_equal(mp_problem_keep_all(w.problem, &steps, &keep_all, &err), MP_OK);
    assert_int_equal(mp_savings_find(&o, &w, keep_all->peak_bytes, &savings, &err), MP_OK);
    assert_int_equal(savings.peak_bytes, keep_all->peak_bytes);
    o.optimizer = "sgd";
    assert_int_equal(mp_workload_load(MLP, &o, &other, &err), MP_OK);
    assert_int_equal(mp_problem_keep_all(other.problem, &steps, &alone, &err), MP_OK);
    for (size_t k = 0; k < savings.n; k++) {
        if (strcmp(savings.rows[k].what, "--optimizer sgd") != 0) continue;
        assert_int_equal(savings.rows[k].peak_bytes, alone->peak_bytes);
        n_found++;
    }
    assert_int_equal(n_found, 1);
    mp_workload_free(&other);
    mp_workload_free(&w);
}
