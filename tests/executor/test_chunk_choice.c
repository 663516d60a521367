/* test_chunk_choice.c - the choice of the numbers of chunks of rows on larger networks, for which no oracle exists. Proofs hold
 * for plans with other numbers. The search after the choice takes the plans of the choice's trial. */
#include <stdio.h>

#include "executor/workload/chunk_choice.h"
#include "memplan/memplan.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

/* GPT-2 with a batch of 8. */
static mp_workload_options options_with(const char *chunks)
{
    mp_workload_options o = mp_workload_defaults();
    o.batch = 8;
    o.row_chunks = chunks;
    return o;
}

/* Returns a budget in per cent of keep-all's peak. */
static int64_t budget_of(const mp_workload *w, int percent)
{
    const mp_step *steps;
    const mp_timeline *keep_all;
    assert_int_equal(mp_problem_keep_all(w->problem, &steps, &keep_all, NULL), MP_OK);
    return keep_all->peak_bytes * percent / 100;
}

static mp_row_chunks_choice choose(const mp_workload *whole, const mp_request *request)
{
    const mp_workload_options o = options_with("auto");
    mp_row_chunks_choice choice;
    mp_error err = {0};
    if (mp_row_chunks_choose(whole, &o, request, &choice, &err) != MP_OK) fail_msg("%s", err.message);
    return choice;
}

/* Counts the schedules of a search in *data. */
static bool count(const mp_progress *progress, void *data)
{
    int64_t *n = data;
    if (progress->n_offers > *n) *n = progress->n_offers;
    return true;
}

/* Plans with other numbers of chunks, found by a searcher for each number alone, refute neither the bound nor the floor. */
TEST(proofs_hold_for_plans_with_other_numbers)
{
    static const char *const others[] = {"off", "head=2", "head=8", "head=64", "head=8,mlp=2"};
    for (int percent = 45; percent <= 75; percent += 30) {
        mp_workload_options o = options_with("auto");
        mp_workload whole = training_workload("gpt2", &o);
        mp_request request = {.budget_bytes = budget_of(&whole, percent), .effort = MP_EFFORT_QUICK};
        MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = choose(&whole, &request);
        assert_true(choice.other_ticks > 0 && choice.other_ticks < INT64_MAX);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            mp_answer answer;
            if (!strcmp(others[k], choice.setting)) continue;
            o.row_chunks = others[k];
            mp_workload other = training_workload("gpt2", &o);
            request.graph = other.graph;
            request.solver = "lagrange";
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            if (answer.plan && answer.plan->ticks < choice.other_ticks)
                fail_msg("%d %%, %s: a plan takes %lld ticks, and the bound is %lld", percent, others[k],
                         (long long)answer.plan->ticks, (long long)choice.other_ticks);
            if (answer.floor_bytes < choice.floor_bytes) fail_msg("%d %%, %s: a smaller floor", percent, others[k]);
            mp_answer_free(&answer);
            mp_workload_free(&other);
        }
        mp_workload_free(&whole);
    }
}

/* A candidate's bound without plans equals its bound with plans. If the candidate's floor is not computed, floor_bytes is the
 * floor of all candidates. With chunks of the head alone, a budget of 30 % is below the floor. */
TEST(the_bound_of_a_candidate_needs_no_plans)
{
    enum { WITHOUT_FLOOR, WITH_FLOOR, WITH_PLANS, N_WAYS };
    const mp_workload_options o = options_with("auto");
    mp_workload whole = training_workload("gpt2", &o);
    for (int percent = 30; percent <= 60; percent += 15)
        for (int index = 1; index < MP_CHUNK_NUMBERS; index += 2) {
            mp_chunk_choice c[N_WAYS];
            const mp_request request = {.budget_bytes = budget_of(&whole, percent)};
            for (int way = 0; way < N_WAYS; way++) {
                assert_int_equal(mp_chunk_choice_begin(&whole, &o, &request, &c[way], NULL), MP_OK);
                assert_int_equal(way == WITH_PLANS ? mp_chunk_score(&c[way], index)
                                                   : mp_chunk_bound(&c[way], index, way == WITH_FLOOR),
                                 MP_OK);
            }
            const mp_chunk_candidate *without = &c[WITHOUT_FLOOR].all[index], *with = &c[WITH_FLOOR].all[index],
                                     *scored = &c[WITH_PLANS].all[index];
            assert_int_equal(scored->state, MP_CHUNK_SCORED);
            assert_int_equal(with->state, MP_CHUNK_BOUNDED);
            assert_true(with->bound_ticks == scored->bound_ticks);
            assert_int_equal(with->floor_bytes, scored->floor_bytes);
            assert_int_equal(without->floor_bytes, c[WITHOUT_FLOOR].shared_bytes);
            assert_true(without->floor_bytes <= with->floor_bytes);
            assert_true(with->floor_bytes > request.budget_bytes ? with->bound_ticks == INT64_MAX
                                                                 : without->bound_ticks == with->bound_ticks);
            for (int way = 0; way < N_WAYS; way++) mp_chunk_choice_clear(&c[way]);
        }
    mp_workload_free(&whole);
}

/* The search after the choice takes the plans of the choice's trial. It judges fewer schedules, and its answer is the same as
 * without these plans. With another budget, it does not take them. */
TEST(the_search_takes_the_plans_of_the_trial)
{
    mp_workload_options o = options_with("auto");
    mp_workload whole = training_workload("gpt2", &o);
    mp_request request = {.budget_bytes = budget_of(&whole, 70), .wants_bound = true, .progress = count};
    MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = choose(&whole, &request);
    assert_true(choice.n > 1);
    assert_non_null(choice.trial.plan);
    o.row_chunks = choice.setting;
    mp_workload w = training_workload("gpt2", &o);
    const mp_card_search how = {.options = &o};
    enum { WITH, WITHOUT, LESS_ROOM, N_WAYS };
    mp_card_plan found[N_WAYS];
    int64_t n_offers[N_WAYS] = {0};
    for (int way = 0; way < N_WAYS; way++) {
        mp_row_chunks_choice given = choice;
        if (way == WITHOUT) given.trial = (mp_answer){0};
        if (way == LESS_ROOM) request.budget_bytes -= 1 << 20;
        request.progress_data = &n_offers[way];
        assert_int_equal(mp_row_chunks_search(&w, &whole, &how, &request, &given, &found[way], NULL), MP_OK);
        assert_non_null(found[way].answer.plan);
    }
    const mp_plan *with = found[WITH].answer.plan, *without = found[WITHOUT].answer.plan;
    assert_int_equal(with->n_steps, without->n_steps);
    assert_memory_equal(with->steps, without->steps, with->n_steps * sizeof *with->steps);
    assert_string_equal(with->solver, without->solver);
    assert_int_equal(found[WITH].answer.bound.ticks, found[WITHOUT].answer.bound.ticks);
    assert_int_equal(found[WITH].answer.smallest->peak_bytes, found[WITHOUT].answer.smallest->peak_bytes);
    print_message("%lld schedules with the trial, %lld without, %lld with less room\n", (long long)n_offers[WITH],
                  (long long)n_offers[WITHOUT], (long long)n_offers[LESS_ROOM]);
    assert_true(n_offers[WITH] < n_offers[WITHOUT] / 2 && n_offers[LESS_ROOM] > n_offers[WITHOUT] / 2);
    for (int way = 0; way < N_WAYS; way++) mp_card_plan_free(&found[way]);
    mp_workload_free(&w);
    mp_workload_free(&whole);
}

/* Under PyTorch's rules, exchanges of gradients run beside compute. A stage of the search plans a graph in which exchanges
 * block. This stage must not take plans of the trial, because these plans contain exchanges beside compute. */
TEST(stages_with_other_graphs_take_no_plans_of_the_trial)
{
    mp_workload_options o = options_with("auto");
    mp_error err = {0};
    o.rules = "pytorch";
    o.device = "a100";
    assert_int_equal(mp_mesh_read("tp=2", &o.mesh, NULL), MP_OK);
    mp_workload whole = training_workload("gpt2", &o);
    const mp_request request = {.budget_bytes = budget_of(&whole, 45), .wants_bound = true};
    mp_row_chunks_plan found;
    const mp_card_search how = {.options = &o};
    if (mp_row_chunks_solve(&whole, &how, &request, &found, &err) != MP_OK) fail_msg("%s", err.message);
    assert_non_null(found.choice.trial.plan);
    size_t n_beside = 0;
    for (size_t t = 0; t < found.choice.trial.plan->n_steps; t++) n_beside += found.choice.trial.plan->steps[t].until > 0;
    assert_true(n_beside > 0);
    assert_non_null(found.found.answer.plan);
    assert_true(found.found.answer.plan->ticks <= found.choice.trial.plan->ticks);
    mp_row_chunks_plan_free(&found);
    mp_workload_free(&whole);
}

static int n_searches;

static mp_status count_search(mp_search *search, mp_error *err)
{
    (void)search, (void)err;
    n_searches++;
    return MP_OK;
}

/* If a network has no regions, memplan has nothing to choose and makes no search. */
TEST(without_regions_no_search_is_made)
{
    static const mp_solver counting = {.name = "counting", .run = count_search};
    onnx_builder b;
    for (int rows = 1; rows <= 2; rows++) {
        char text[160];
        snprintf(text, sizeof text,
                 "input x float %d,8; weight u 8,16; weight v 16,4; MatMul x u -> a; Tanh a -> b; MatMul b v -> y; out y",
                 rows);
        onnx_text_start(&b, 17, text);
        const char *path = onnx_save(&b);
        mp_workload_options o = mp_workload_defaults();
        o.row_chunks = "auto";
        mp_workload whole = training_workload(path, &o);
        int64_t floor_bytes;
        const mp_request request = {.budget_bytes = budget_of(&whole, 100), .own = &counting};
        MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = choose(&whole, &request);
        assert_int_equal(mp_problem_floor(whole.problem, &floor_bytes, NULL, NULL), MP_OK);
        assert_int_equal(n_searches > 0, rows > 1);
        if (rows == 1) {
            assert_int_equal(choice.n, 1);
            assert_string_equal(choice.setting, "off");
            assert_int_equal(choice.floor_bytes, floor_bytes);
            assert_true(choice.other_ticks == INT64_MAX);
        }
        mp_workload_free(&whole);
        onnx_end(&b);
    }
}

/* Over tensor-parallel ranks, the logits of a tied embedding cannot be cut under PyTorch's rules. Then the other kinds remain.
 */
TEST(a_head_that_cannot_be_cut_is_no_candidate)
{
    const char *dims[] = {"layers=2"};
    mp_workload_options o = options_with("auto");
    o.dims = (mp_text_list){.n = 1, .items = dims};
    assert_int_equal(mp_mesh_read("tp=2", &o.mesh, NULL), MP_OK);
    o.rules = "pytorch";
    o.device = "a100";
    o.batch = 64;
    mp_workload whole = training_workload("gpt2", &o);
    const mp_request request = {.budget_bytes = budget_of(&whole, 40)};
    mp_row_chunks_choice choice;
    mp_error err = {0};
    if (mp_row_chunks_choose(&whole, &o, &request, &choice, &err) != MP_OK) fail_msg("%s", err.message);
    assert_null(strstr(choice.setting, "head"));
    mp_row_chunks_choice_free(&choice);
    mp_workload_free(&whole);
}
