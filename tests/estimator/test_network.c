/* test_network.c - costs of collectives, by formulas computed by hand, and networks as text. */
#include "memplan/planning.h"
#include "memplan/ranks/network.h"
#include "tests/cases/test.h"

/* Rates and latencies are powers of two, so that expected times are exact: 4 devices per node, 64 and 8 bytes/s. */
static const mp_interconnect small = {.inside = {"in", "within", 4, 64, 0.25}, .across = {"out", "between", 0, 8, 1}};

static double seconds(mp_collective collective, mp_algorithm algorithm, int64_t n, int64_t stride, int64_t bytes)
{
    return mp_collective_seconds(&small, collective, algorithm, (mp_rank_group){n, stride}, bytes);
}

static void close_to(double is, double wanted, const char *what)
{
    if (fabs(is - wanted) > 1e-12 * (fabs(wanted) + 1)) fail_msg("%s: %.15g, by hand %.15g", what, is, wanted);
}

TEST(rings_within_a_node)
{
    /* four ranks: three messages with 1/4 of 512 bytes at 64 bytes/s; twice as many for an all-reduce */
    close_to(seconds(MP_REDUCE_SCATTER, MP_ALGORITHM_RING, 4, 1, 512), 3 * 0.25 + 3 * 128 / 64.0, "reduce-scatter");
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_RING, 4, 1, 512), 3 * 0.25 + 3 * 128 / 64.0, "all-gather");
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_RING, 4, 1, 512), 2 * (3 * 0.25 + 3 * 128 / 64.0), "all-reduce");
    close_to(seconds(MP_ALL_TO_ALL, MP_ALGORITHM_RING, 4, 1, 512), 3 * 0.25 + 3 * 128 / 64.0, "all-to-all");
    close_to(seconds(MP_BROADCAST, MP_ALGORITHM_AUTO, 4, 1, 512), 3 * 0.25 + 512 / 64.0, "broadcast");
    close_to(seconds(MP_SEND, MP_ALGORITHM_AUTO, 4, 1, 512), 0.25 + 512 / 64.0, "send");
    /* ranks 0 and 2, or 0 and 3, of a node have the same link as 0 and 1 */
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_RING, 2, 2, 512), 2 * (0.25 + 256 / 64.0), "every second rank");
}

TEST(rings_across_nodes)
{
    /* eight ranks on two nodes: four rails of 8 bytes/s, slower in sum than the 64 within a node */
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_RING, 8, 1, 1024), 7 + 7 * 128 / 32.0, "four rails");
    /* every second rank of four nodes: two rails */
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_RING, 8, 2, 1024), 7 + 7 * 128 / 16.0, "two rails");
    /* one rank per node: one rail each, with a stride of one node or more */
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_RING, 8, 4, 1024), 7 + 7 * 128 / 8.0, "one rail");
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_RING, 8, 32, 1024), 7 + 7 * 128 / 8.0, "a rail of distant nodes");
    close_to(seconds(MP_SEND, MP_ALGORITHM_AUTO, 2, 4, 512), 1 + 512 / 8.0, "send to the next node");
    /* of 8 ranks, 4 are in the node: 4/8 of the bytes leave it over one rail; this takes longer than the 3/8 inside */
    close_to(seconds(MP_ALL_TO_ALL, MP_ALGORITHM_AUTO, 8, 1, 1024), 7 + 512 / 8.0, "all-to-all");
    /* rails faster than a device's own rate do not help */
    mp_interconnect wide = small;
    wide.across.bytes_per_second = 32;
    close_to(mp_collective_seconds(&wide, MP_ALL_GATHER, MP_ALGORITHM_RING, (mp_rank_group){8, 1}, 1024), 7 + 7 * 128 / 64.0,
             "the device is slower than four rails");
}

TEST(trees_and_two_levels)
{
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_TREE, 4, 1, 512), 2 * 2 * 0.25 + 2 * 512 / 64.0, "tree");
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_TREE, 3, 1, 512), 2 * 2 * 0.25 + 2 * 512 / 64.0,
             "three ranks, two levels deep");
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_TREE, 16, 4, 512), 2 * 4 + 2 * 512 / 8.0, "tree of nodes");
    /* three steps within four ranks, and one step between two nodes for a quarter of the bytes */
    const double two = 3 * 0.25 + 3 * 256 / 64.0 + 1 + 128 / 8.0;
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_TWO_LEVELS, 8, 1, 1024), two, "all-gather of two levels");
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_TWO_LEVELS, 8, 1, 1024), 2 * two, "all-reduce of two levels");
    close_to(seconds(MP_ALL_REDUCE, MP_ALGORITHM_TWO_LEVELS, 4, 1, 512), seconds(MP_ALL_REDUCE, MP_ALGORITHM_RING, 4, 1, 512),
             "two levels within a node are a ring");
    close_to(seconds(MP_ALL_GATHER, MP_ALGORITHM_TREE, 8, 1, 1024), seconds(MP_ALL_GATHER, MP_ALGORITHM_AUTO, 8, 1, 1024),
             "an all-gather has no tree");
}

TEST(the_cheapest_is_taken_and_a_group_of_one_costs_nothing)
{
    int taken[MP_N_ALGORITHMS] = {0};
    for (int c = 0; c < MP_N_COLLECTIVES; c++) {
        for (int a = 0; a < MP_N_ALGORITHMS; a++)
            close_to(seconds((mp_collective)c, (mp_algorithm)a, 1, 4, 512), 0, "one rank");
        assert_int_equal(mp_collective_sent_bytes((mp_collective)c, 1, 512), 0);
    }
    for (int64_t n = 2; n <= 64; n++)
        for (int64_t stride = 1; stride <= 8; stride *= 2)
            for (int64_t bytes = 0; bytes <= 1 << 20; bytes = bytes ? bytes * 4 : 1) {
                const double automatic = seconds(MP_ALL_REDUCE, MP_ALGORITHM_AUTO, n, stride, bytes);
                double least = INFINITY;
                int best = -1;
                for (int a = MP_ALGORITHM_RING; a < MP_N_ALGORITHMS; a++) {
                    const double one = seconds(MP_ALL_REDUCE, (mp_algorithm)a, n, stride, bytes);
                    if (one < least) least = one, best = a;
                }
                close_to(automatic, least, "the cheapest");
                taken[best]++;
            }
    for (int a = MP_ALGORITHM_RING; a < MP_N_ALGORITHMS; a++) assert_true(taken[a] > 10);
}

TEST(bytes_that_a_rank_sends)
{
    assert_int_equal(mp_collective_sent_bytes(MP_ALL_REDUCE, 4, 1024), 2 * 768);
    assert_int_equal(mp_collective_sent_bytes(MP_REDUCE_SCATTER, 4, 1024), 768);
    assert_int_equal(mp_collective_sent_bytes(MP_ALL_GATHER, 8, 1024), 896);
    assert_int_equal(mp_collective_sent_bytes(MP_ALL_TO_ALL, 8, 1024), 896);
    assert_int_equal(mp_collective_sent_bytes(MP_BROADCAST, 8, 1024), 1024);
    assert_int_equal(mp_collective_sent_bytes(MP_SEND, 2, 1024), 1024);
}

TEST(networks_are_read)
{
    mp_interconnect network;
    assert_int_equal(mp_network_read("nvlink4+ib400", &network, NULL), MP_OK);
    assert_string_equal(network.inside.name, "nvlink4");
    assert_string_equal(network.across.name, "ib400");
    assert_int_equal(network.inside.devices, 8);
    assert_int_equal(mp_network_read("IB 400+NVLink-4", &network, NULL), MP_OK); /* names are accepted in any order */
    assert_string_equal(network.inside.name, "nvlink4");
    assert_string_equal(network.across.name, "ib400");
    assert_int_equal(mp_network_read("pcie", &network, NULL), MP_OK); /* a single level connects all devices */
    assert_string_equal(network.across.name, "pcie");
    assert_int_equal(mp_network_read("nvlink4+ib400,slowdown=0.25", &network, NULL), MP_OK);
    assert_string_equal(network.across.name, "ib400");
    assert_true(network.slowdown > 0.24 && network.slowdown < 0.26);
    assert_int_equal(mp_network_read("eth10", &network, NULL), MP_OK);
    assert_true(network.slowdown <= 0);
    assert_string_equal(network.inside.name, "eth10");
    assert_int_equal(network.inside.devices, 1);
    close_to(mp_collective_seconds(&network, MP_ALL_GATHER, MP_ALGORITHM_RING, (mp_rank_group){4, 1}, 1 << 20),
             3 * 50e-6 + 0.75 * (1 << 20) / 0.14e9, "each device a node of its own");
    for (size_t k = 0; k < mp_fabric_count(); k++) {
        const mp_fabric *row = mp_fabric_row(k);
        assert_ptr_equal(mp_fabric_find(row->name), row);
        assert_true(row->bytes_per_second > 0 && row->latency_seconds > 0 && row->devices >= 0 && row->title[0]);
        assert_int_equal(mp_network_read(row->name, &network, NULL), MP_OK);
    }
    assert_null(mp_fabric_row(mp_fabric_count()));
    assert_null(mp_fabric_find("token ring"));
    static const char *const devices[] = {"v100", "a100", "h100", "h200", "b200", "mi300x", "cpu", "one of tomorrow"};
    for (size_t k = 0; k < sizeof devices / sizeof *devices; k++)
        assert_int_equal(mp_network_read(mp_network_of_device(devices[k]), &network, NULL), MP_OK);
    assert_string_equal(mp_network_of_device("H100"), "nvlink4+ib400");
}

TEST(what_is_no_network_is_refused)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "there is no network ''"},
        {"nvlink9", "there is no network 'nvlink9'; 'memplan devices' lists the networks"},
        {"nvlink4+", "there is no network ''"},
        {"nvlink4+ib400+eth10", "there is no network 'ib400+eth10'"},
        {"nvlink4+pcie", "'nvlink4+pcie' names two networks within nodes; name one within nodes and one between nodes"},
        {"ib400+ib200", "'ib400+ib200' names two networks between nodes"},
        {"ib400,slowdown=fast",
         "'slowdown=fast' of the network 'ib400,slowdown=fast' is invalid; the slowdown must be from 0 to 10"},
        {"ib400,slowdown=-1", "is invalid"}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        mp_interconnect network = small;
        mp_error err = {0};
        assert_int_equal(mp_network_read(wrong[k].text, &network, &err), MP_INVALID);
        if (!strstr(err.message, wrong[k].message)) fail_msg("'%s': %s", wrong[k].text, err.message);
        assert_string_equal(network.inside.name, "in"); /* the output is unchanged */
    }
}

TEST(collectives_and_algorithms_have_names)
{
    for (int c = 0; c < MP_N_COLLECTIVES; c++) assert_int_equal(mp_collective_find(mp_collective_name((mp_collective)c)), c);
    for (int a = 0; a < MP_N_ALGORITHMS; a++) assert_int_equal(mp_algorithm_find(mp_algorithm_name((mp_algorithm)a)), a);
    assert_int_equal(mp_collective_find("gossip"), -1);
    assert_int_equal(mp_algorithm_find("gossip"), -1);
    assert_string_equal(mp_collective_name(MP_ALL_TO_ALL), "all-to-all");
    assert_string_equal(mp_algorithm_name(MP_ALGORITHM_TWO_LEVELS), "two-levels");
}

/* Rings on NVLink 4 (365 GB/s, 10 microseconds per step): each of 8 ranks sends 7/8 of the gathered bytes, twice as many for a
 * sum. */
TEST(networks_are_asked_by_their_devices)
{
    const double gather = mp_planning_collective("h100", "all-gather", 8, 1, INT64_C(365) << 30),
                 sum = mp_planning_collective("h100", "all-reduce", 8, 1, INT64_C(365) << 30);
    const double sending = 7.0 / 8 * 1.073741824;
    assert_string_equal(mp_planning_network("H100"), "nvlink4+ib400");
    assert_true(gather > sending && gather < sending + 100e-6);
    assert_true(sum > 2 * sending && sum < 2 * sending + 200e-6);
    assert_true(mp_planning_collective("h100", "all-gather", 8, 8, 365) >
                mp_planning_collective("h100", "all-gather", 8, 1, 365));
    assert_true(mp_planning_collective("h100", "all-gather", 1, 1, 365) == 0);
    assert_true(!mp_planning_network("t5") && !mp_planning_network(NULL));
    assert_true(mp_planning_collective("t5", "all-gather", 2, 1, 1) == -1);
    assert_true(mp_planning_collective("h100", NULL, 2, 1, 1) == -1 && mp_planning_collective("h100", "gather", 2, 1, 1) == -1);
    assert_true(mp_planning_collective("h100", "all-gather", 0, 1, 1) == -1);
    assert_true(mp_planning_collective("h100", "all-gather", 2, 0, 1) == -1);
    assert_true(mp_planning_collective("h100", "all-gather", 2, 1, -1) == -1);
}
