/* test_exchanges.c - collectives of a step, computed by hand: experts sharded over ranks, the slowdown of compute during
 * collectives, and sends between stages. */
#include "estimator/graph/collective.h"
#include "planner/parallel/stages.h"
#include "tests/cases/test.h"

/* One block with two parameters of 640 bytes in bf16, and states 6 times as large. All ranks share one; the other belongs to
 * experts. On 8 ranks, ep=4 leaves two ranks with the same experts. */
TEST(experts_are_shared_out_among_ranks_that_have_the_same)
{
    static const struct {
        const char *mesh;
        int shards[2], copies[2]; /* for the common parameter, and for the experts' */
    } cases[] = {{"dp=8,ep=4", {1, 1}, {8, 2}},
                 {"shard=8,ep=4", {8, 2}, {1, 1}},
                 {"shard=8,zero=2,ep=4", {8, 2}, {1, 1}},
                 {"shard=8,zero=1,ep=4", {8, 2}, {1, 1}},
                 {"dp=4,shard=2,ep=4", {2, 1}, {4, 2}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_block_load block = {.forward_ticks = 1, .backward_ticks = 1, .sent_bytes = 48, .n_options = 1};
        mp_parameter_load parameters[2];
        for (int j = 0; j < 2; j++)
            parameters[j] = (mp_parameter_load){
                .widened = 1, .value_bytes = 640, .gradient_bytes = 640, .state_bytes = 3840, .is_spread = j == 1};
        const mp_load load = {.tick_seconds = 1, .n_blocks = 1, .blocks = &block, .n_parameters = 2, .parameters = parameters};
        mp_ranks ranks = {.bucket_bytes = 1 << 20};
        mp_stage stage;
        mp_mesh_choice played = {.stages = &stage};
        bool fits;
        assert_int_equal(mp_mesh_read(cases[k].mesh, &ranks.mesh, NULL), MP_OK);
        assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
        ranks.network.inside.latency_seconds = 0;
        const int zero = ranks.mesh.zero;
        const mp_step_request step = {
            .load = &load, .ranks = &ranks, .n_chunks = 1, .n_micro_batches = 1, .memory_bytes = INT64_C(1) << 40};
        assert_int_equal(mp_step_simulate(&step, &played, &fits, NULL), MP_OK);
        int64_t values = 0, gradients = 0, state = 0, sent = block.sent_bytes;
        for (int j = 0; j < 2; j++) {
            const int64_t n = cases[k].shards[j], pieces = zero == 3 ? 3 : 2; /* rings: one more gather for backward */
            values += 640 / (zero == 3 ? n : 1);
            gradients += 640 / (zero >= 2 ? n : 1);
            state += 3840 / (zero ? n : 1);
            sent += pieces * (640 - 640 / n) + 2 * (640 / n - 640 / n / cases[k].copies[j]);
        }
        assert_int_equal(stage.parameter_bytes, values);
        assert_int_equal(stage.gradient_bytes, gradients);
        assert_int_equal(stage.state_bytes, state);
        assert_int_equal(stage.sent_bytes, sent);
        assert_int_equal(mp_step_floor(&step), values + state + (gradients > 0 ? gradients : 0));
    }
}

/* Backward takes 8 seconds. The overlapping sum takes 2, or 32, 24 of which remain afterwards. */
TEST(a_stated_slowdown_is_counted_where_collectives_run_beside)
{
    for (int k = 0; k < 2; k++) {
        const int64_t bytes = k ? 2048 : 128;
        mp_block_load block = {.forward_ticks = 4, .backward_ticks = 8, .n_options = 1};
        mp_parameter_load parameter = {.widened = 1, .value_bytes = bytes, .gradient_bytes = bytes};
        const mp_load load = {.tick_seconds = 1, .n_blocks = 1, .blocks = &block, .n_parameters = 1, .parameters = &parameter};
        mp_ranks ranks = {.bucket_bytes = bytes / 2, .algorithm = MP_ALGORITHM_RING};
        mp_stage stage;
        mp_mesh_choice played = {.stages = &stage};
        bool fits;
        assert_int_equal(mp_mesh_read("dp=2", &ranks.mesh, NULL), MP_OK);
        assert_int_equal(mp_network_read("nvlink4+ib400,slowdown=0.5", &ranks.network, NULL), MP_OK);
        ranks.network.inside.latency_seconds = 0;
        ranks.network.inside.bytes_per_second = 64;
        const mp_step_request step = {
            .load = &load, .ranks = &ranks, .n_chunks = 1, .n_micro_batches = 1, .memory_bytes = INT64_C(1) << 40};
        assert_int_equal(mp_step_simulate(&step, &played, &fits, NULL), MP_OK);
        assert_true(fits && fabs(played.seconds - (k ? 4 + 8 + 24 + 0.5 * 8 : 4 + 8 + 1 + 0.5 * 2)) < 1e-9);
    }
}

/* Two stages of four ranks of tp, with nodes of four devices. A whole tensor of 514 bytes takes 1 + 514 / 8 seconds between
 * nodes. With scatter=1, each rank sends 129 bytes, and the ranks of the next stage gather the tensor at 64 bytes/s. */
TEST(ranks_of_tp_send_parts_to_the_next_stage)
{
    static const char *const meshes[] = {"tp=4,sp=0,pp=2", "tp=4,sp=0,pp=2,scatter=1"};
    const double sends[] = {1 + 514 / 8.0, 1 + 129 / 8.0 + 3 * 0.25 + 0.75 * 514 / 64.0};
    for (int k = 0; k < 2; k++) {
        mp_block_load blocks[2];
        for (int j = 0; j < 2; j++)
            blocks[j] = (mp_block_load){.forward_ticks = 1, .backward_ticks = 2, .output_bytes = 514, .n_options = 1};
        const mp_load load = {.tick_seconds = 1, .n_blocks = 2, .blocks = blocks};
        mp_ranks ranks = {.network = {.inside = {"in", "within", 4, 64, 0.25}, .across = {"out", "between", 0, 8, 1}}};
        mp_stage stages[2];
        mp_mesh_choice played = {.stages = stages};
        bool fits;
        assert_int_equal(mp_mesh_read(meshes[k], &ranks.mesh, NULL), MP_OK);
        const mp_step_request step = {
            .load = &load, .ranks = &ranks, .n_chunks = 1, .n_micro_batches = 1, .memory_bytes = INT64_C(1) << 40};
        assert_int_equal(mp_step_simulate(&step, &played, &fits, NULL), MP_OK);
        assert_true(fits && fabs(played.seconds - (2 * (1 + 2) + 2 * sends[k])) < 1e-9);
        assert_int_equal(stages[0].sent_bytes, k ? 129 + 385 : 514);
    }
}

/* A rank sends its part of 514 bytes to the next stage. A receiver passes its part on to three other ranks. */
TEST(a_part_counts_once_for_the_send_and_once_per_receiver_of_the_gather)
{
    mp_ranks ranks;
    mp_collective_record record = {.member = -1, .element_bytes = 1};
    int64_t sum = 0;
    assert_int_equal(mp_mesh_read("tp=4,sp=0,pp=2,scatter=1", &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink3+ib100", &ranks.network, NULL), MP_OK);
    mp_collective_add_send(&record, &ranks.network, MP_ALGORITHM_AUTO, &ranks.mesh, (mp_rank_group){2, 4}, 514);
    for (int k = 0; k < 4; k++) {
        const mp_traffic_rank rank = {.index = {[MP_DIM_TP] = k}};
        const int64_t sent = mp_collective_record_sent(NULL, &record, &rank);
        assert_true(sent % 4 == 0 && sent >= 4 * 127 && sent <= 4 * 129);
        sum += sent;
    }
    assert_int_equal(sum, 4 * 514);
}
