/* test_copies_run.c - plans with copies to another tier and back give exactly the losses and weights of plans without copies.
 * Dead storages are overwritten, each step reuses all addresses, and copied bytes are as planned. */

#include "executor/run/calls.h"
#include "executor/run/channels.h"
#include "memplan/check.h"
#include "memplan/training.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/deferring_backend.h"
#include "tests/cases/recording_backend.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"
#include "tests/oracles/random_beside.h"
#include "tests/oracles/random_offload.h"

enum { STEPS = 20, SEEDS = 6 };

typedef struct outcome {
    double losses[STEPS];
    char hash[33];
} outcome;

static const char *folder(void)
{
    const char *place = getenv("TMPDIR");
    return place ? place : "/tmp";
}

/* Runs a plan. Checks the bytes copied in each direction per pass, and the tier's peak of the timeline. In a file they are
 * rounded up to blocks; otherwise they are exact if `is_tight`. */
static outcome run(training_case *t, const mp_plan *plan, const mp_execution_options *options, const int64_t bytes[2],
                   bool *is_tight)
{
    outcome o = {{0}, ""};
    mp_error err = {0};
    mp_execution *e;
    const int64_t passes = STEPS * (t->program->options.accumulate > 1 ? t->program->options.accumulate : 1);
    if (mp_execution_new(t->program, plan, options, &e, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_parameters_load(t->source, t->program, e, &err) != MP_OK) fail_msg("%s", err.message);
    training_run(t, e, 0, STEPS, o.losses);
    mp_execution_hash(e, o.hash);
    const mp_copied copied = mp_execution_copied(e);
    const int64_t state = t->program->graph->n_tiers > 1 ? mp_graph_static_bytes_in(t->program->graph, 1) : 0;
    assert_int_equal(copied.out_bytes, passes * bytes[0] + STEPS * state); /* one copy of the state per update */
    assert_int_equal(copied.in_bytes, passes * bytes[1] + STEPS * state);
    const int64_t planned = plan->tiers[1].peak_bytes > 0 ? plan->tiers[1].peak_bytes : 0,
                  taken = mp_execution_tier_bytes(e, 1);
    assert_true(taken >= planned);
    if (!options->tiers[1].folder && t->program->graph->n_tiers > 1)
        assert_int_equal(taken, mp_plan_tier_need(t->program->graph, plan, 1));
    *is_tight = taken == planned;
    if (options->poison && !options->guards) assert_int_equal(mp_execution_touched_bytes(e), mp_execution_arena_bytes(e));
    mp_execution_free(e);
    return o;
}

/* Execution options of mode k. All modes poison dead memory, so that copies made too early or too late change the result. */
static mp_execution_options way(int k)
{
    mp_execution_options o = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .seed = 3, .poison = true};
    o.tiers[1].folder = k % 3 && !backend_of_tests()->side_begin ? folder() : NULL; /* streams copy only to memory */
    o.plain_files = k % 3 == 2;
    o.guards = k == 3;
    o.one_by_one = k == 4;
    o.profile = k == 5;
    for (int c = 0; c < MP_MAX_CHANNELS; c++) o.bytes_per_second[c] = k == 0 || k == 1 ? 20e6 : 0;
    return o;
}

/* Cases with keeps_all use keep-all; the others use a plan for half of its memory. */
static const struct {
    const char *network;
    mp_fuse fuse;
    mp_dtype dtype;
    int accumulate;
    bool keeps_all;
    training_case (*begin)(const char *path, int64_t batch, const mp_training_options *options);
} cases[] = {{"tests/gradients/mlp.onnx", MP_FUSE_FORWARD, MP_DTYPE_FLOAT, 1, true, training_begin},
             {"tests/gradients/cnn.onnx", MP_FUSE_NONE, MP_DTYPE_BFLOAT16, 1, false, training_begin},
             {"tests/gradients/gpt.onnx", MP_FUSE_BACKWARD, MP_DTYPE_FLOAT, 2, true, training_begin},
             {"tests/gradients/gpt.onnx", MP_FUSE_FORWARD, MP_DTYPE_FLOAT, 1, false, training_begin_chunked},
             {"tests/gradients/gpt.onnx", MP_FUSE_BACKWARD, MP_DTYPE_BFLOAT16, 1, true, training_begin_in_regions}};

TEST(what_is_copied_changes_nothing)
{
    int n_tight = 0, n_copies = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bool is_tight;
        mp_training_options options = {
            .optimizer = MP_OPTIMIZER_ADAMW, .fuse = cases[k].fuse, .dtype = cases[k].dtype, .accumulate = cases[k].accumulate};
        training_case t = cases[k].begin(cases[k].network, 0, &options);
        mp_plan *plain = cases[k].keeps_all ? training_keep_all(&t) : training_plan(&t, 0.5);
        mp_execution_options usual = way(0);
        const outcome without = run(&t, plain, &usual, (int64_t[2]){0}, &is_tight);
        assert_true(offload_all(t.program->graph) > 0);
        for (int seed = 0; seed < SEEDS; seed++) {
            int64_t bytes[2];
            mp_plan *plan = random_offload(t.program->graph, (uint64_t)seed, plain->steps, plain->n_steps, bytes);
            const mp_execution_options options_of_run = way(seed);
            const outcome with = run(&t, plan, &options_of_run, bytes, &is_tight);
            if (memcmp(&without, &with, sizeof with) != 0) fail_msg("%s, seed %d: another result", cases[k].network, seed);
            n_tight += is_tight && !options_of_run.tiers[1].folder && bytes[0];
            n_copies += (int)(plan->n_steps - plain->n_steps);
            mp_plan_free(plan);
        }
        mp_plan_free(plain);
        training_end(&t);
    }
    assert_true(n_copies > 200 && n_tight >= 3);
}

/* ---- state ---- */

/* Settings of trainings with state in another tier. */
static const struct {
    int network;
    mp_optimizer optimizer;
    mp_fuse fuse;
    mp_dtype dtype;
    int accumulate;
    double clip_norm;
} state_cases[] = {{0, MP_OPTIMIZER_ADAM, MP_FUSE_FORWARD, MP_DTYPE_FLOAT, 2, 0},
                   {1, MP_OPTIMIZER_ADAMW, MP_FUSE_NONE, MP_DTYPE_BFLOAT16, 1, 0.5},
                   {1, MP_OPTIMIZER_MOMENTUM, MP_FUSE_FORWARD, MP_DTYPE_FLOAT, 1, 0.5},
                   {2, MP_OPTIMIZER_MOMENTUM, MP_FUSE_BACKWARD, MP_DTYPE_FLOAT, 1, 0},
                   {2, MP_OPTIMIZER_ADAMW, MP_FUSE_BACKWARD, MP_DTYPE_BFLOAT16, 2, 0}};

static mp_training_options training_of(size_t k)
{
    return (mp_training_options){.optimizer = state_cases[k].optimizer,
                                 .fuse = state_cases[k].fuse,
                                 .dtype = state_cases[k].dtype,
                                 .accumulate = state_cases[k].accumulate,
                                 .clip_norm = state_cases[k].clip_norm};
}

/* Returns the number of issued state copies in a plan. */
static int n_issued(const mp_graph *graph, const mp_plan *plan)
{
    int n = 0;
    for (size_t t = 0; t < plan->n_steps; t++) n += mp_node_copies_state(graph, plan->steps[t].node) && plan->steps[t].until;
    return n;
}

TEST(state_in_another_tier_changes_nothing)
{
    int n_ahead = 0;
    for (size_t k = 0; k < sizeof state_cases / sizeof *state_cases; k++) {
        bool is_tight;
        const mp_training_options options = training_of(k);
        const int64_t none[2] = {0};
        training_case t = training_begin_on(backend_of_tests(), cases[state_cases[k].network].network, 0, &options);
        mp_plan *plain = training_keep_all(&t);
        mp_execution_options used = way(0);
        used.hyper = mp_hyper_default(options.optimizer);
        const outcome without = run(&t, plain, &used, none, &is_tight);
        mp_plan_free(plain);
        const int64_t state = mp_graph_static_bytes(t.program->graph);
        assert_true(offload_states(t.program->graph, mp_link_find("pcie4")) > 2);
        assert_int_equal(mp_graph_static_bytes(t.program->graph) + mp_graph_static_bytes_in(t.program->graph, 1), state);
        for (int w = 0; w < 6; w++) {
            mp_plan *plan = w % 3 == 0 ? training_keep_all(&t) : training_plan(&t, w % 3 == 1 ? 0.4 : 0);
            used = way(w);
            used.hyper = mp_hyper_default(options.optimizer);
            for (int c = 0; c < MP_MAX_CHANNELS; c++) used.bytes_per_second[c] *= 20; /* more bytes are copied */
            const outcome with = run(&t, plan, &used, none, &is_tight);
            if (memcmp(&without, &with, sizeof with) != 0) fail_msg("case %d, way %d: another result", (int)k, w);
            n_ahead += n_issued(t.program->graph, plan);
            mp_plan_free(plan);
        }
        training_end(&t);
    }
    if (n_ahead < 100) fail_msg("%d copies of state run beside others", n_ahead);
}

/* Checks that calls run each step once, in order. The program waits for each copy after the call containing the planned end. A
 * later copy of the channel with the same end may cover this wait. */
static void check_calls(const mp_plan *plan, const mp_addresses *at, const mp_calls *calls, bool in_order, int *n_within)
{
    size_t next = 0;
    int n_marks[MP_MAX_CHANNELS] = {0}, n_awaited[MP_MAX_CHANNELS] = {0};
    for (size_t k = 0; k < calls->n; k++) {
        const mp_pass_call *call = &calls->list[k];
        const int t = (int)next, until = plan->steps[t].until;
        assert_true(call->step == next && call->n_steps > 0 && call->is_transfer == at->steps[next].is_copy);
        assert_true((call->channel != MP_CHANNEL_COMPUTE) == call->is_transfer && call->mark == n_marks[call->channel]++);
        if (call->is_transfer) assert_int_equal(call->end, in_order || !until ? t + 1 : until);
        next += call->n_steps;
        for (size_t i = 0; i < call->n_awaited; i++) {
            const mp_pass_call *other = &calls->list[call->awaited[i]];
            assert_true(call->awaited[i] <= (int)k && other->is_transfer && other->end == (int)next);
            *n_within += call->is_update && k + 1 < calls->n && calls->list[k + 1].is_update;
        }
        for (size_t j = 0; j <= k; j++) {
            const mp_pass_call *other = &calls->list[j];
            bool is_awaited = !other->is_transfer || other->end != (int)next;
            for (size_t i = 0; i < call->n_awaited; i++) {
                const mp_pass_call *stands = &calls->list[call->awaited[i]];
                is_awaited |= stands->channel == other->channel && stands->mark >= other->mark;
            }
            assert_true(is_awaited);
            n_awaited[other->channel] += other->is_transfer && other->end == (int)next;
        }
    }
    assert_int_equal(next, plan->n_steps);
    for (int c = 1; c < MP_MAX_CHANNELS; c++) assert_int_equal(n_awaited[c], n_marks[c]);
}

TEST(every_copy_is_waited_for_where_the_plan_says)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .fuse = MP_FUSE_NONE, .dtype = MP_DTYPE_FLOAT};
    training_case t = training_begin_on(backend_of_tests(), cases[2].network, 0, &options);
    mp_plan *plain = training_keep_all(&t);
    int n_within = 0; /* waits between two updates, which could otherwise share a call */
    offload_all(t.program->graph);
    for (uint64_t seed = 0; seed < 60; seed++) {
        int64_t bytes[2];
        mp_error err = {0};
        mp_addresses at;
        mp_calls calls;
        const mp_execution_options none = {0};
        mp_plan *plan = random_offload(t.program->graph, seed, plain->steps, plain->n_steps, bytes);
        mp_pool *pool = mp_pool_new();
        if (mp_addresses_of(t.program, plan, &none, pool, &at, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(mp_calls_of(&at, false, false, seed % 4 == 0, false, pool, &calls, &err), MP_OK);
        check_calls(plan, &at, &calls, seed % 4 == 0, &n_within);
        mp_addresses_free(&at);
        mp_pool_free(pool);
        mp_plan_free(plan);
    }
    assert_true(n_within > 10);
    mp_plan_free(plain);
    training_end(&t);
}

/* Omitted or repeated copies: the copied bytes differ from the plan's. */
TEST(what_is_not_copied_as_planned_is_an_error)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .fuse = MP_FUSE_NONE, .dtype = MP_DTYPE_FLOAT};
    training_case t = training_begin_on(backend_of_tests(), cases[0].network, 0, &options);
    mp_plan *plain = training_keep_all(&t);
    int64_t bytes[2];
    offload_all(t.program->graph);
    mp_plan *plan = random_offload(t.program->graph, 1, plain->steps, plain->n_steps, bytes);
    for (int times = 0; times < 3; times++) {
        mp_error err = {0};
        mp_addresses at;
        mp_channels channels = {0};
        mp_calls calls;
        const mp_execution_options none = {0};
        mp_pool *pool = mp_pool_new();
        int n = 0;
        if (mp_addresses_of(t.program, plan, &none, pool, &at, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(mp_channels_open(&at, &none, pool, &channels, &err), MP_OK);
        assert_int_equal(mp_calls_of(&at, false, false, true, false, pool, &calls, &err), MP_OK);
        for (size_t c = 0; c < calls.n; c++) {
            if (!calls.list[c].is_transfer) continue;
            for (int k = n++ ? 1 : times; k > 0; k--) {
                assert_int_equal(mp_channels_issue(&channels, &calls.list[c], &err), MP_OK);
                assert_int_equal(mp_channels_wait(&channels, &calls.list[c], &err), MP_OK);
            }
        }
        assert_int_equal(mp_channels_end_pass(&channels, true, true, &err), times == 1 ? MP_OK : MP_REFUTED);
        if (times != 1) assert_non_null(strstr(err.message, " bytes were copied out and "));
        mp_channels_close(&channels);
        mp_addresses_free(&at);
        mp_pool_free(pool);
    }
    mp_plan_free(plan);
    mp_plan_free(plain);
    training_end(&t);
}

/* A node with algorithms also has its copy back as an alternative, which has no kernel call. */
TEST(what_an_algorithm_computes_is_copied_too)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = MP_FUSE_NONE, .dtype = MP_DTYPE_FLOAT};
    mp_error err = {0};
    bool is_tight;
    int64_t bytes[2];
    int n_both = 0;
    const mp_execution_options usual = way(0);
    training_case t = training_begin_on(backend_of_tests(), cases[1].network, 0, &options);
    assert_int_equal(mp_program_list_algorithms(t.program, &err), MP_OK);
    mp_plan *plain = training_keep_all(&t);
    const outcome without = run(&t, plain, &usual, (int64_t[2]){0}, &is_tight);
    offload_all(t.program->graph);
    if (mp_program_take_algorithms(t.program, &err) != MP_OK) fail_msg("%s", err.message);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        mp_plan *plan = random_offload(t.program->graph, seed, plain->steps, plain->n_steps, bytes);
        const outcome with = run(&t, plan, &usual, bytes, &is_tight);
        assert_memory_equal(&without, &with, sizeof with);
        for (size_t k = 0; k < plan->n_steps; k++) {
            const mp_node *node = &t.program->graph->nodes[plan->steps[k].node];
            n_both += mp_node_has_algorithms(node) && node->alternatives[plan->steps[k].alternative].returns;
        }
        mp_plan_free(plan);
    }
    assert_true(n_both > 0);
    mp_plan_free(plain);
    training_end(&t);
}

/* Copies run together with updates on a second stream that starts work only when awaited. Each is awaited separately. */
TEST(copies_and_a_second_stream_run_beside)
{
    static deferrer deferred_by;
    if (!backend_of_tests()->is_host) skip(); /* a deferrer needs a backend in host memory */
    mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = MP_FUSE_BACKWARD, .dtype = MP_DTYPE_FLOAT};
    bool is_tight;
    int64_t bytes[2];
    const mp_execution_options usual = way(0);
    training_case t = training_begin_on(deferring_backend(&deferred_by, backend_of_tests()), cases[2].network, 0, &options);
    mp_plan *plain = training_keep_all(&t);
    const outcome without = run(&t, plain, &usual, (int64_t[2]){0}, &is_tight);
    offload_all(t.program->graph);
    assert_true(random_beside(t.program->graph, 1, 50, plain->steps, plain->n_steps) > 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        mp_plan *plan = random_offload(t.program->graph, seed, plain->steps, plain->n_steps, bytes);
        const outcome with = run(&t, plan, &usual, bytes, &is_tight);
        assert_memory_equal(&without, &with, sizeof with);
        mp_plan_free(plan);
    }
    assert_true(deferred_by.counted.n_issued > 0 && deferred_by.counted.n_updates > 0);
    assert_int_equal(deferred_by.counted.n_faults, 0);
    mp_plan_free(plain);
    training_end(&t);
}

/* Adds `bytes` to all offsets of the plan in the tier. */
static void move_up(mp_plan *plan, int64_t bytes)
{
    for (size_t k = 0; k < plan->tiers[1].n_places; k++) plan->tiers[1].places[k].offset += bytes;
    plan->tiers[1].arena_bytes += bytes;
}

/* The plan contains the offset of each copy in the tier. For a disk plan, files use these offsets, in whole blocks. */
TEST(the_planned_offsets_of_a_tier_are_used)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .fuse = MP_FUSE_NONE, .dtype = MP_DTYPE_FLOAT};
    for (int is_disk = 0; is_disk < 2; is_disk++) {
        training_case t = training_begin_on(backend_of_tests(), cases[0].network, 0, &options);
        mp_plan *plain = training_keep_all(&t);
        mp_execution_options how = way(is_disk);
        int64_t bytes[2];
        int n_copies = 0;
        mp_addresses at;
        const mp_offload offload = {
            .host = is_disk ? NULL : mp_link_find("pcie4"), .disk = is_disk ? mp_link_find("nvme4") : NULL, .least_bytes = 1};
        assert_int_equal(mp_graph_offload(t.program->graph, &offload, NULL, NULL), MP_OK);
        mp_plan *plan = random_offload(t.program->graph, 5, plain->steps, plain->n_steps, bytes);
        mp_pool *pool = mp_pool_new();
        const int64_t block = is_disk ? MP_TIER_ALIGNMENT : 64;
        move_up(plan, 3 * block);
        assert_int_equal(mp_plan_check(t.program->graph, plan, NULL), MP_OK);
        assert_int_equal(mp_addresses_of(t.program, plan, &how, pool, &at, NULL), MP_OK);
        assert_int_equal(at.tiers[1].bytes, plan->tiers[1].arena_bytes);
        for (size_t k = 0; k < plan->n_steps; k++)
            for (size_t c = 0; c < at.steps[k].n_copies; c++, n_copies++)
                assert_true(at.steps[k].copies[c].offset >= 3 * block && at.steps[k].copies[c].offset % block == 0);
        assert_true(n_copies > 0);
        mp_addresses_free(&at);
        mp_pool_free(pool);
        mp_plan_free(plan);
        mp_plan_free(plain);
        training_end(&t);
    }
}

/* Training on side streams of a device with its own memory, like plans on a GPU. */
typedef struct streamed {
    training_case t;
    mp_plan *plain;
    outcome without;
} streamed;

static deferrer streams;
static recorder recorded_by;

static streamed begin_streamed(const mp_backend *backend, int k, const mp_execution_options *options)
{
    streamed s;
    bool is_tight;
    const mp_training_options training = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = cases[k].fuse, .dtype = cases[k].dtype};
    s.t = training_begin_on(backend, cases[k].network, 0, &training);
    s.plain = training_keep_all(&s.t);
    s.without = run(&s.t, s.plain, options, (int64_t[2]){0}, &is_tight);
    offload_all(s.t.program->graph);
    return s;
}

static void end_streamed(streamed *s)
{
    mp_plan_free(s->plain);
    training_end(&s->t);
}

TEST(copies_on_streams_change_nothing)
{
    if (!backend_of_tests()->is_host) skip();
    const mp_execution_options usual = way(2), plain = {.hyper = usual.hyper, .seed = usual.seed}, profiled = way(5);
    for (int turn = 0; turn < 3; turn++) {
        const mp_backend *deferring = deferring_backend(&streams, backend_of_tests());
        deferring_backend_is_away(&streams);
        /* by single calls and poisoned; in order; recorded */
        mp_execution_options options = turn == 0 ? usual : turn == 1 ? profiled : plain;
        options.tiers[1].folder = NULL;
        streamed s = begin_streamed(turn == 2 ? recording_backend(&recorded_by, deferring) : deferring, 1 + turn % 2, &options);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            bool is_tight;
            int64_t bytes[2];
            mp_plan *plan = random_offload(s.t.program->graph, seed, s.plain->steps, s.plain->n_steps, bytes);
            const outcome with = run(&s.t, plan, &options, bytes, &is_tight);
            assert_memory_equal(&s.without, &with, sizeof with);
            mp_plan_free(plan);
        }
        assert_true(streams.counted.n_copies > STEPS && (turn != 2 || recorded_by.counted.n_replayed > STEPS));
        assert_int_equal(streams.counted.n_faults + streams.counted.n_pinned, 0);
        if (turn == 2) assert_int_equal(recorded_by.counted.n_faults, 0);
        end_streamed(&s);
    }
}

TEST(state_on_streams_changes_nothing)
{
    if (!backend_of_tests()->is_host) skip();
    for (size_t k = 0; k < sizeof state_cases / sizeof *state_cases; k++) {
        bool is_tight;
        const int64_t none[2] = {0};
        const mp_training_options training = training_of(k);
        const mp_execution_options options = {.hyper = mp_hyper_default(training.optimizer), .seed = 3};
        const mp_backend *deferring = deferring_backend(&streams, backend_of_tests());
        deferring_backend_is_away(&streams);
        training_case t =
            training_begin_on(recording_backend(&recorded_by, deferring), cases[state_cases[k].network].network, 0, &training);
        mp_plan *plain = training_keep_all(&t);
        const outcome without = run(&t, plain, &options, none, &is_tight);
        assert_true(offload_states(t.program->graph, mp_link_find("pcie4")) > 2);
        mp_plan *plan = training_plan(&t, 0.4);
        const outcome with = run(&t, plan, &options, none, &is_tight);
        assert_memory_equal(&without, &with, sizeof with);
        assert_true(streams.counted.n_copies > 0 && recorded_by.counted.n_replayed > STEPS);
        assert_int_equal(streams.counted.n_faults + streams.counted.n_pinned + recorded_by.counted.n_faults, 0);
        mp_plan_free(plan);
        mp_plan_free(plain);
        training_end(&t);
    }
}

/* A program without a required wait fails on deferring streams: the error is detected. */
TEST(a_wait_that_is_left_out_is_seen)
{
    int n_seen = 0;
    if (!backend_of_tests()->is_host) skip();
    mp_execution_options options = way(0);
    const mp_backend *deferring = deferring_backend(&streams, backend_of_tests());
    deferring_backend_is_away(&streams);
    streamed s = begin_streamed(deferring, 1, &options);
    for (int k = 2; k <= 6; k++) {
        int64_t bytes[2];
        bool is_tight;
        mp_plan *plan = random_offload(s.t.program->graph, 1, s.plain->steps, s.plain->n_steps, bytes);
        streams.counted = (deferring_counts){0};
        streams.n_waits = 0;
        streams.skips_waits = k;
        const outcome with = run(&s.t, plan, &options, bytes, &is_tight);
        n_seen += streams.counted.n_faults > 0 || memcmp(&s.without, &with, sizeof with) != 0;
        mp_plan_free(plan);
    }
    assert_int_equal(n_seen, 5);
    end_streamed(&s);
}

TEST(streams_copy_to_no_folder)
{
    mp_error err = {0};
    mp_execution *e = NULL;
    int64_t bytes[2];
    if (!backend_of_tests()->is_host) skip();
    mp_execution_options options = way(1);
    const mp_backend *deferring = deferring_backend(&streams, backend_of_tests());
    streamed s = begin_streamed(deferring, 0, &(mp_execution_options){.hyper = options.hyper});
    mp_plan *plan = random_offload(s.t.program->graph, 1, s.plain->steps, s.plain->n_steps, bytes);
    assert_int_equal(mp_execution_new(s.t.program, plan, &options, &e, &err), MP_UNSUPPORTED);
    assert_non_null(strstr(err.message, "backend copies to memory, not to the folder "));
    mp_plan_free(plan);
    end_streamed(&s);
}
