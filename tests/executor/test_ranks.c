/* test_ranks.c - the program of one rank of many, run by one process. Sums over a single rank change nothing, so losses and
 * weights equal a single device's exactly. Parts of tensors are computed by hand. */
#include "executor/ranks/collectives.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"
#include "tests/oracles/random_offload.h"

enum { STEPS = 4 };

typedef struct outcome {
    double losses[STEPS];
    char hash[33];
} outcome;

static outcome run(training_case *t, const mp_plan *plan, bool profile)
{
    outcome o = {{0}, ""};
    mp_error err = {0};
    mp_execution *e;
    const mp_execution_options options = {
        .hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .seed = 3, .poison = true, .profile = profile};
    if (mp_execution_new(t->program, plan, &options, &e, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_parameters_load(t->source, t->program, e, &err) != MP_OK) fail_msg("%s", err.message);
    training_run(t, e, 0, STEPS, o.losses);
    mp_execution_hash(e, o.hash);
    if (!profile) assert_int_equal(mp_execution_touched_bytes(e), mp_execution_arena_bytes(e));
    assert_int_equal(mp_execution_ranks(e)->collectives.sent_bytes, 0);
    mp_execution_free(e);
    return o;
}

/* Converts a program into the program of one of n ranks, with several small buckets; returns the number of collectives. */
static int make_sharing_rank(mp_program *p, const char *mesh, bool fast, bool shares_statistics)
{
    mp_ranks ranks = {.bucket_bytes = 512, .shares_statistics = shares_statistics};
    mp_error err = {0};
    int n = 0;
    assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, &err), MP_OK);
    assert_int_equal(mp_network_read("sockets", &ranks.network, &err), MP_OK);
    if (mp_program_exchange(p, &ranks, fast, &err) != MP_OK) fail_msg("%s", err.message);
    for (size_t k = 0; k < p->n_nodes; k++) n += p->bindings->nodes[k].task == MP_TASK_COLLECTIVE;
    return n;
}

static int make_rank(mp_program *p, const char *mesh, bool fast)
{
    return make_sharing_rank(p, mesh, fast, false);
}

static const struct {
    const char *network;
    mp_fuse fuse;
    mp_dtype dtype;
    int accumulate;
    double clip_norm;
} cases[] = {{"tests/gradients/mlp.onnx", MP_FUSE_NONE, MP_DTYPE_FLOAT, 1, 0.5},
             {"tests/gradients/cnn.onnx", MP_FUSE_BACKWARD, MP_DTYPE_BFLOAT16, 1, 0},
             {"tests/gradients/cnn.onnx", MP_FUSE_NONE, MP_DTYPE_FLOAT, 2, 0},
             {"tests/gradients/gpt.onnx", MP_FUSE_BACKWARD, MP_DTYPE_FLOAT, 1, 0}};

TEST(collectives_of_one_process_change_nothing)
{
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        const size_t c = k / 2;
        const bool fast = k % 2;
        const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW,
                                             .fuse = cases[c].fuse,
                                             .dtype = cases[c].dtype,
                                             .accumulate = cases[c].accumulate,
                                             .clip_norm = cases[c].clip_norm};
        training_case single = training_begin(cases[c].network, 0, &options),
                      rank = training_begin(cases[c].network, 0, &options);
        mp_plan *plain = training_keep_all(&single), *plans[2];
        assert_true(make_rank(rank.program, "dp=2", fast) > 1);
        plans[0] = training_keep_all(&rank);
        plans[1] = training_plan(&rank, 0.3);
        const outcome expected = run(&single, plain, false);
        for (int p = 0; p < 2; p++) {
            const outcome one = run(&rank, plans[p], false), in_order = run(&rank, plans[p], true);
            if (memcmp(&one, &expected, sizeof one) != 0) fail_msg("%s, plan %d: another result", cases[c].network, p);
            assert_memory_equal(&in_order, &expected, sizeof in_order);
            mp_plan_free(plans[p]);
        }
        mp_plan_free(plain);
        training_end(&single);
        training_end(&rank);
    }
}

TEST(groups_are_those_of_the_mesh)
{
    mp_mesh mesh;
    assert_int_equal(mp_mesh_read("dp=3,shard=2,tp=4", &mesh, NULL), MP_OK);
    for (int rank = 0; rank < 24; rank++) {
        const mp_process_group tp = mp_process_group_along(&mesh, MP_DIM_TP, rank),
                               shard = mp_process_group_along(&mesh, MP_DIM_SHARD, rank),
                               dp = mp_process_group_along(&mesh, MP_DIM_DP, rank);
        assert_int_equal(tp.index + 4 * (shard.index + 2 * dp.index), rank);
        assert_int_equal(tp.first + tp.index * tp.stride, rank);
        assert_int_equal(dp.first + dp.index * dp.stride, rank);
        assert_true(tp.stride == 1 && shard.stride == 4 && dp.stride == 8 && dp.n == 3);
    }
}

/* Parts of 3, 3, 3 and 1 of 10 elements; three other parts are received, each in 64 bytes. */
TEST(a_reduction_receives_what_the_others_have)
{
    assert_int_equal(mp_rank_part(10, 4), 3);
    assert_int_equal(mp_leg_workspace(MP_REDUCE_SCATTER, false, 4, 10, 4), 3 * 64);
    assert_int_equal(mp_leg_workspace(MP_REDUCE_SCATTER, false, 2, 1024, 4), 2048);
    assert_int_equal(mp_leg_workspace(MP_REDUCE_SCATTER, false, 1, 1024, 4), 0);
    assert_int_equal(mp_leg_workspace(MP_ALL_GATHER, false, 4, 10, 4), 0);
}

/* A mesh that only the planner supports is refused before the program runs. */
TEST(what_is_not_run_is_refused)
{
    static const char *const meshes[] = {"pp=2", "dp=2,ep=2"};
    for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) {
        const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
        mp_error err = {0};
        training_case t = training_begin("tests/gradients/mlp.onnx", 0, &options);
        assert_int_equal(mp_program_check_ranks(t.program, &err), MP_OK);
        make_rank(t.program, meshes[k], false);
        assert_int_equal(mp_program_check_ranks(t.program, &err), MP_UNSUPPORTED);
        assert_non_null(strstr(err.message, "not trained yet"));
        training_end(&t);
    }
}

/* ---- copies to another tier ---- */

/* Returns the bytes sent by the first rank in a step of the plan. */
static int64_t sent_by(const training_case *t, const mp_plan *plan)
{
    const int shards = (int)t->program->mesh.size[MP_DIM_SHARD], replicas = (int)t->program->mesh.size[MP_DIM_DP];
    const mp_rank_position first = {
        .n_data = shards * replicas, .data_stride = 1, .n_shards = shards, .n_parts = 1, .n_stages = 1, .stage_stride = 1};
    int64_t bytes;
    assert_int_equal(mp_program_sent_bytes(t->program, plan, &first, &bytes, NULL), MP_OK);
    return bytes;
}

static const struct {
    const char *network, *mesh;
    int accumulate;
    bool shares_statistics; /* batch normalizations send during forward: recomputing them sends again, copying does not */
    bool keeps_all;
} copied_cases[] = {{"tests/gradients/mlp.onnx", "dp=2", 1, false, true},
                    {"tests/gradients/gpt.onnx", "dp=2", 3, false, false},
                    {"tests/gradients/gpt.onnx", "shard=2,zero=1", 1, false, false},
                    {"tests/gradients/mlp.onnx", "shard=2,zero=2", 2, false, true},
                    {"tests/gradients/gpt.onnx", "shard=2,zero=2", 1, false, false},
                    {"tests/gradients/cnn.onnx", "dp=2,shard=2,zero=2", 2, false, true},
                    {"tests/gradients/cnn.onnx", "dp=2", 1, true, true},
                    {"tests/gradients/cnn.onnx", "shard=2,zero=1", 2, true, false}};

/* The same steps with copies of activations or state send the same bytes. */
TEST(copies_to_another_tier_send_nothing)
{
    int n_copies = 0;
    for (size_t k = 0; k < sizeof copied_cases / sizeof *copied_cases; k++) {
        for (int moves_state = 0; moves_state < 2; moves_state++) {
            const mp_training_options options = {
                .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT, .accumulate = copied_cases[k].accumulate};
            training_case t = training_begin(copied_cases[k].network, 0, &options);
            make_sharing_rank(t.program, copied_cases[k].mesh, false, copied_cases[k].shares_statistics);
            mp_plan *plain = copied_cases[k].keeps_all ? training_keep_all(&t) : training_plan(&t, 0.5);
            const int64_t sent = sent_by(&t, plain);
            assert_true(sent > 0);
            if (moves_state)
                assert_true(offload_states(t.program->graph, mp_link_find("pcie4")) > 0);
            else
                assert_true(offload_all(t.program->graph) > 0);
            for (int seed = 0; seed < (moves_state ? 1 : 4); seed++) {
                int64_t bytes[2];
                mp_plan *plan = moves_state
                                    ? copied_cases[k].keeps_all ? training_keep_all(&t) : training_plan(&t, 0.5)
                                    : random_offload(t.program->graph, (uint64_t)seed, plain->steps, plain->n_steps, bytes);
                if (!moves_state || copied_cases[k].keeps_all) /* a newly searched plan may recompute other steps */
                    assert_int_equal(sent_by(&t, plan), sent);
                assert_true(sent_by(&t, plan) > 0);
                n_copies += (int)(plan->n_steps - plain->n_steps);
                mp_plan_free(plan);
            }
            mp_plan_free(plain);
            training_end(&t);
        }
    }
    assert_true(n_copies > 200);
}
