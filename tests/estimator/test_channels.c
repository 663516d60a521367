/* test_channels.c - channels, tiers and copies: the timeline equals the simulator, files round-trip, and invalid graphs are
 * refused. */
#include <stdio.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "memplan/graph_json.h"
#include "memplan/makespan.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/same_timeline.h"

TEST(timeline_equals_the_simulator_on_graphs_with_copies)
{
    int refused = 0, issued = 0, returned = 0;
    for (uint64_t seed = 1; seed <= 1275; seed++) { /* random_schedule finds no order for graph 1276 */
        mp_graph *graph = random_copies(seed);
        for (uint64_t k = 0; k < 5; k++) {
            size_t n;
            mp_timeline *tl = NULL;
            mp_step *steps = random_copies_schedule(graph, seed, k, &n);
            const mp_status st = mp_timeline_build(graph, steps, n, &tl, NULL);
            const bool obey = steps_obey(graph, steps, n);
            if ((st == MP_OK) != obey) fail_msg("seed %d, %d: the simulator says %d", (int)seed, (int)k, obey);
            refused += !obey;
            for (size_t t = 0; t < n; t++) {
                issued += obey && steps[t].until > (int)t + 1;
                returned += obey && graph->nodes[steps[t].node].alternatives[steps[t].alternative].returns;
            }
            mp_timeline_free(tl);
            if (obey) same_timeline(graph, steps, n, seed);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
    if (refused < 300 || refused > 3000 || issued < 2000 || returned < 2000)
        fail_msg("%d refused, %d issued, %d returned", refused, issued, returned);
    assert_int_equal(mp_alloc_live, 0);
}

/* Writes the graph and returns the text of the file. The file must read back with the same hash. */
static const char *written(const mp_graph *graph)
{
    static char text[1 << 17];
    char path[] = "/tmp/memplan-copies-XXXXXX";
    const int file = mkstemp(path);
    mp_graph *again;
    mp_error err = {0};
    assert_true(file >= 0);
    if (mp_graph_write(graph, path, &err) != MP_OK || mp_graph_read(path, &again, &err) != MP_OK) fail_msg("%s", err.message);
    assert_string_equal(again->hash, graph->hash);
    assert_int_equal(again->has_copies, graph->has_copies);
    FILE *in = fopen(path, "r"); /* mp_graph_write has replaced the temporary file */
    assert_non_null(in);
    const size_t n = fread(text, 1, sizeof text - 1, in);
    assert_true(n > 0 && n < sizeof text - 1 && !fclose(in));
    text[n] = '\0';
    mp_graph_free(again);
    close(file);
    unlink(path);
    return text;
}

TEST(files_keep_channels_tiers_and_copies_and_name_none_without)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *graph = random_copies(seed), *plain = random_graph(seed, 4, (mp_fuse)(seed % MP_N_FUSES), false);
        assert_non_null(strstr(written(graph), "\"channels\""));
        const char *text = written(plain);
        assert_true(!plain->has_copies && !strstr(text, "channel") && !strstr(text, "tier") && !strstr(text, "returns") &&
                    !strstr(text, "optional"));
        mp_graph_free(graph);
        mp_graph_free(plain);
    }
}

/* The graph with eight steps from docs/internals/plan-rules.md. */
enum { STORE_A, STORE_B, STORE_C, STORE_D, STORE_GA, STORE_AH, N_STORES };
enum { NODE_A, NODE_B, NODE_C, NODE_D, NODE_E, NODE_F, NODE_OUT, N_NODES };

static mp_graph *eight_steps(void)
{
    static const int64_t bytes[N_STORES] = {8, 4, 4, 1, 8, 8}, ticks[N_NODES] = {3, 4, 2, 3, 5, 2, 5};
    static const int reads[N_NODES][2] = {{-1, -1},           {STORE_A, -1},  {STORE_B, -1}, {STORE_C, -1},
                                          {STORE_A, STORE_D}, {STORE_GA, -1}, {STORE_A, -1}};
    static const int writes[N_NODES] = {STORE_A, STORE_B, STORE_C, STORE_D, STORE_GA, -1, STORE_AH};
    mp_graph *g;
    mp_storage *storage;
    mp_node *node;
    int host, out, in;
    assert_int_equal(mp_graph_new("eight steps", &g, NULL), MP_OK);
    assert_int_equal(mp_graph_tier(g, "host", &host, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(g, "copy out", &out, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(g, "copy in", &in, NULL), MP_OK);
    for (int s = 0; s < N_STORES; s++) {
        assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
        storage->bytes = storage->payload_bytes = bytes[s];
        storage->kind = s == STORE_GA ? MP_KIND_ACTIVATION_GRADIENT : MP_KIND_ACTIVATION;
        storage->tier = s == STORE_AH ? host : MP_TIER_DEVICE;
    }
    for (int i = 0; i < N_NODES; i++) {
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        node->phase = i == NODE_D ? MP_PHASE_LOSS : i == NODE_E || i == NODE_F ? MP_PHASE_BACKWARD : MP_PHASE_FORWARD;
        mp_alternative *f = &node->alternatives[0];
        f->n_reads = (size_t)((reads[i][0] >= 0) + (reads[i][1] >= 0));
        f->n_writes = writes[i] >= 0;
        f->reads = mp_graph_list(g, reads[i], f->n_reads);
        f->writes = mp_graph_list(g, &writes[i], f->n_writes);
        f->ticks = ticks[i];
    }
    g->nodes[NODE_OUT].flags = MP_NODE_OPTIONAL;
    g->nodes[NODE_OUT].alternatives[0].channel = out;
    const int a = STORE_A, ah = STORE_AH;
    mp_alternative *two = mp_pool_alloc(g->pool, 2, sizeof *two);
    two[0] = g->nodes[NODE_A].alternatives[0];
    two[1] = (mp_alternative){.reads = mp_graph_list(g, &ah, 1),
                              .writes = mp_graph_list(g, &a, 1),
                              .n_reads = 1,
                              .n_writes = 1,
                              .ticks = 4,
                              .channel = in,
                              .returns = true};
    g->nodes[NODE_A].alternatives = two;
    g->nodes[NODE_A].n_alternatives = 2;
    return g;
}

TEST(the_eight_steps_are_as_in_the_document)
{
    mp_graph *g = eight_steps();
    mp_step steps[] = {{NODE_A, 0, 0}, {NODE_OUT, 0, 3}, {NODE_B, 0, 0}, {NODE_C, 0, 0},
                       {NODE_A, 1, 6}, {NODE_D, 0, 0},   {NODE_E, 0, 0}, {NODE_F, 0, 0}};
    const int64_t device[] = {8, 8, 12, 8, 12, 13, 17, 8}, host[] = {0, 8, 8, 8, 8, 8, 0, 0},
                  end[] = {3, 8, 7, 10, 14, 13, 19, 21};
    mp_timeline *tl;
    mp_step all[N_NODES];
    int64_t ends[8], ticks;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_int_equal(mp_timeline_build(g, steps, 8, &tl, NULL), MP_OK);
    assert_memory_equal(tl->live_bytes, device, sizeof device);
    assert_memory_equal(tl->tiers[1].live_bytes, host, sizeof host);
    assert_int_equal(tl->ticks, 21);
    mp_timeline_free(tl);
    assert_int_equal(mp_makespan(g, steps, 8, ends, &ticks, NULL), MP_OK);
    assert_memory_equal(ends, end, sizeof end);
    same_timeline(g, steps, 8, 0);
    steps[1].until = 4; /* saves a tick, but uses 8 bytes more in step 3 */
    assert_int_equal(mp_timeline_build(g, steps, 8, &tl, NULL), MP_OK);
    assert_int_equal(tl->live_bytes[3], 16);
    mp_timeline_free(tl);
    steps[1].until = steps[4].until = 0;
    assert_int_equal(mp_makespan(g, steps, 8, NULL, &ticks, NULL), MP_OK);
    assert_int_equal(ticks, 28);
    assert_int_equal(mp_graph_n_required(g), 6);
    assert_int_equal(mp_keep_all(g, all), 6);
    assert_int_equal(mp_timeline_build(g, all, 6, &tl, NULL), MP_OK);
    assert_true(tl->ticks == 19 && tl->peak_bytes == 17 && tl->live_bytes[2] == 16);
    mp_timeline_free(tl);
    mp_graph_free(g);
}

enum wrong {
    BASE_RETURNS,
    RETURN_ADDS,
    RETURN_WRITES_ANOTHER,
    RETURN_WRITES_NOTHING,
    RETURN_NAMES_AN_ALGORITHM,
    OPTIONAL_BACKWARD,
    OPTIONAL_WRITES_WHAT_LASTS,
    OPTIONAL_RETURNS,
    NO_SUCH_TIER,
    NEGATIVE_TIER,
    NO_SUCH_CHANNEL,
    NEGATIVE_CHANNEL,
    PAIR_ACROSS_TIERS,
    NEEDS_A_COPY,
    N_WRONG
};

static const char *make_wrong(mp_graph *g, enum wrong wrong)
{
    static int ga = STORE_GA, b = STORE_B, ah = STORE_AH;
    static mp_in_place pair = {STORE_A, STORE_AH};
    mp_alternative *back = &g->nodes[NODE_A].alternatives[1], *out = &g->nodes[NODE_OUT].alternatives[0];
    switch (wrong) {
    case BASE_RETURNS:
        g->nodes[NODE_B].alternatives[0].returns = true;
        return "but only later alternatives may";
    case RETURN_ADDS:
        back->adds = &ga, back->n_adds = 1;
        return "writes no storage, adds to one";
    case RETURN_WRITES_ANOTHER:
        back->writes = &b;
        return "but its first alternative does not write it";
    case RETURN_WRITES_NOTHING:
        back->n_writes = 0;
        return "returning alternative of";
    case RETURN_NAMES_AN_ALGORITHM:
        back->algorithm = "x";
        return "names an algorithm";
    case OPTIONAL_BACKWARD:
        g->nodes[NODE_OUT].phase = MP_PHASE_BACKWARD;
        return "is optional, but only forward nodes";
    case OPTIONAL_WRITES_WHAT_LASTS:
        g->storages[STORE_AH].kind = MP_KIND_INPUT;
        return "is optional, but it writes";
    case OPTIONAL_RETURNS:
        g->nodes[NODE_A].flags |= MP_NODE_OPTIONAL;
        return "is optional, but it has a returning alternative";
    case NO_SUCH_TIER:
        g->storages[STORE_C].tier = 2;
        return "is in a tier that does not exist";
    case NEGATIVE_TIER:
        g->storages[STORE_C].tier = -1;
        return "is in a tier that does not exist";
    case NO_SUCH_CHANNEL:
        out->channel = 4;
        return "runs on a channel that does not exist";
    case NEGATIVE_CHANNEL:
        out->channel = -1;
        return "runs on a channel that does not exist";
    case PAIR_ACROSS_TIERS:
        out->in_place = &pair, out->n_in_place = 1;
        return "storages in different tiers";
    default:
        g->nodes[NODE_F].alternatives[0].reads = &ah;
        return "produces, an optional node";
    }
}

TEST(wrong_copies_are_refused)
{
    for (int k = 0; k < N_WRONG; k++) {
        mp_graph *g = eight_steps();
        mp_error err = {0};
        const char *message = make_wrong(g, (enum wrong)k);
        assert_int_equal(mp_graph_finish(g, &err), MP_PARSE);
        if (!strstr(err.message, message)) fail_msg("%d: '%s' is not in '%s'", k, message, err.message);
        mp_graph_free(g);
    }
}

TEST(names_of_channels_and_tiers_are_distinct_and_few)
{
    mp_graph *g = eight_steps();
    char name[] = "more a";
    int number = -7;
    assert_int_equal(mp_graph_channel(g, "copy in", &number, NULL), MP_PARSE);
    assert_int_equal(mp_graph_channel(g, "compute", &number, NULL), MP_PARSE);
    assert_int_equal(mp_graph_tier(g, "host", &number, NULL), MP_PARSE);
    assert_int_equal(number, -7);
    for (int c = 4; c < MP_MAX_CHANNELS; c++, name[5]++) {
        assert_int_equal(mp_graph_channel(g, name, &number, NULL), MP_OK);
        assert_int_equal(number, c);
    }
    for (int m = 2; m < MP_MAX_TIERS; m++, name[5]++) assert_int_equal(mp_graph_tier(g, name, &number, NULL), MP_OK);
    assert_int_equal(number, MP_MAX_TIERS - 1);
    assert_int_equal(mp_graph_channel(g, "one more", &number, NULL), MP_PARSE);
    assert_int_equal(mp_graph_tier(g, "one more", &number, NULL), MP_PARSE);
    mp_graph_free(g);
}
