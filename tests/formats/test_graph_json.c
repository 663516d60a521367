/* test_graph_json.c - formats/graph_json: written graphs read back equal, faults are named, and the published graphs have the
 * published peaks. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "memplan/graph_json.h"
#include "memplan/timeline.h"
#include "tests/cases/data_file.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

static char folder[] = "/tmp/memplan-graph-json-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int drop_folder(void **state)
{
    static const char *const names[] = {"a.json", "b.json", "case.json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
    return rmdir(folder);
}

static mp_status read_text(const char *text, mp_graph **graph, mp_error *err)
{
    const char *path = in_folder("case.json");
    assert_int_equal(mp_file_write(path, text, strlen(text), NULL), MP_OK);
    return mp_graph_read(path, graph, err);
}

static void assert_same_files(const char *a, const char *b)
{
    mp_file x, y;
    assert_int_equal(mp_file_open(a, 1 << 24, &x, NULL), MP_OK);
    assert_int_equal(mp_file_open(b, 1 << 24, &y, NULL), MP_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.bytes, y.bytes, x.size);
    mp_file_close(&x);
    mp_file_close(&y);
}

TEST(random_graphs_come_back_the_same)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *a = random_graph(seed, 1 + (int)(seed % 12), (mp_fuse)(seed % MP_N_FUSES), seed % 6 == 0), *b;
        mp_error err = {0};
        a->options = "{\"batch\":8,\"rate\":0.10000000000000001,\"freeze\":[\"a*\"]}";
        a->target = "a100";
        assert_int_equal(mp_graph_write(a, in_folder("a.json"), &err), MP_OK);
        if (mp_graph_read(in_folder("a.json"), &b, &err) != MP_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        assert_string_equal(a->hash, b->hash);
        assert_string_equal(a->options, b->options);
        assert_string_equal(a->target, b->target);
        assert_string_equal(a->name, b->name);
        assert_true(a->tick_seconds == b->tick_seconds && a->alignment == b->alignment && a->fuse == b->fuse);
        assert_int_equal(mp_graph_write(b, in_folder("b.json"), &err), MP_OK);
        assert_same_files(in_folder("a.json"), in_folder("b.json"));
        mp_graph_free(a);
        mp_graph_free(b);
    }
    assert_int_equal(mp_alloc_live, 0);
}

TEST(names_need_not_be_plain_text)
{
    mp_graph *a = random_graph(1, 2, MP_FUSE_NONE, true), *b;
    a->storages[0].name = "quote \" backslash \\ tab \t ümlaut 名";
    a->nodes[0].name = "cut \xff short";
    assert_int_equal(mp_graph_finish(a, NULL), MP_OK);
    assert_int_equal(mp_graph_write(a, in_folder("a.json"), NULL), MP_OK);
    assert_int_equal(mp_graph_read(in_folder("a.json"), &b, NULL), MP_OK);
    assert_string_equal(a->storages[0].name, b->storages[0].name);
    assert_string_equal(b->nodes[0].name, "cut ? short");
    mp_graph_free(a);
    mp_graph_free(b);
}

#define GRAPH(rest) "{\"format\":\"memplan-graph\"," rest "}"
#define ROWS "\"storages\":[{\"bytes\":4,\"kind\":\"input\"},{\"bytes\":8,\"kind\":\"activation\"}],\"nodes\":"
#define NODE(rest) GRAPH(ROWS "[{\"reads\":[0],\"writes\":[1],\"phase\":\"forward\"," rest "}]")

TEST(a_reader_needs_little)
{
    mp_graph *g;
    assert_int_equal(read_text(NODE("\"seconds\":0.25"), &g, NULL), MP_OK);
    assert_true(g->fuse == MP_FUSE_BACKWARD && g->alignment == 1 && g->tick_seconds == 0.01);
    assert_int_equal(g->nodes[0].alternatives[0].ticks, 25);
    assert_true(g->nodes[0].id == 0 && g->storages[1].id == 1 && g->storages[1].payload_bytes == 8);
    assert_string_equal(g->options, "{}");
    mp_graph_free(g);
    assert_int_equal(read_text(GRAPH("\"storages\":[],\"nodes\":[]"), &g, NULL), MP_OK);
    mp_graph_free(g);
    /* arbitrary ids, nulls as missing values, a repeated read, unknown flags, an outdated hash */
    assert_int_equal(
        read_text(GRAPH("\"hash\":\"00\",\"fuse\":\"none\",\"name\":null,\"storages\":[{\"id\":-7,\"bytes\":4,\"kind\":"
                        "\"input\"},{\"id\":9223372036854775807,\"bytes\":9007199254740993,\"kind\":\"activation\"}],"
                        "\"nodes\":[{\"id\":5,\"reads\":[-7,-7],\"writes\":[9223372036854775807],\"phase\":"
                        "\"forward\",\"seconds\":3,\"flags\":[\"once\",\"new\",\"view\"]}]"),
                  &g, NULL),
        MP_OK);
    assert_true(g->storages[1].bytes == INT64_C(9007199254740993) && g->storages[1].id == INT64_MAX);
    assert_true(g->nodes[0].alternatives[0].n_reads == 1 && g->nodes[0].flags == (MP_NODE_ONCE | MP_NODE_VIEW));
    assert_true(g->fuse == MP_FUSE_NONE && strlen(g->hash) == 32);
    mp_graph_free(g);
}

TEST(alternatives_inherit_what_they_do_not_say)
{
    mp_graph *g;
    assert_int_equal(
        read_text(
            GRAPH("\"storages\":[{\"bytes\":4,\"kind\":\"input\"},{\"bytes\":8,\"kind\":\"activation\"},{\"bytes\":8,\"kind\":"
                  "\"activation\"},{\"bytes\":1,\"kind\":\"saved\"}],\"nodes\":[{\"reads\":[0],\"writes\":[1],\"phase\":"
                  "\"forward\",\"seconds\":1},{\"reads\":[1],\"writes\":[2,3],\"in_place\":[[1,3],[1,2]],\"workspace_bytes\":6,"
                  "\"phase\":\"forward\",\"seconds\":2,\"alternatives\":[{\"writes\":[2],\"seconds\":5},{\"workspace_bytes\":0}"
                  ",{\"in_place\":[]}]}]"),
            &g, NULL),
        MP_OK);
    const mp_alternative *f = g->nodes[1].alternatives;
    assert_int_equal(g->nodes[1].n_alternatives, 4);
    assert_true(f[1].n_writes == 1 && f[1].n_reads == 1 && f[1].ticks == 5 && f[1].workspace_bytes == 6);
    assert_true(f[1].n_in_place == 1 && f[1].in_place[0].to == 2); /* it does not write storage 3 */
    assert_true(f[2].n_writes == 2 && f[2].ticks == 2 && f[2].workspace_bytes == 0 && f[2].n_in_place == 2);
    assert_true(f[3].n_in_place == 0 && f[3].workspace_bytes == 6);
    /* inherited pairs are not written: only the base alternative and the one without pairs have them */
    mp_file file;
    int n_pairs = 0;
    assert_int_equal(mp_graph_write(g, in_folder("a.json"), NULL), MP_OK);
    assert_int_equal(mp_file_open(in_folder("a.json"), 1 << 20, &file, NULL), MP_OK);
    for (size_t i = 0; i + 8 < file.size; i++) n_pairs += !memcmp(file.bytes + i, "in_place", 8);
    assert_int_equal(n_pairs, 2);
    mp_file_close(&file);
    mp_graph_free(g);
}

TEST(ticks_lose_nothing)
{
    static const struct {
        const char *seconds;
        double tick;
        int64_t ticks;
    } cases[] = {
        {"\"seconds\":7", 1, 7},
        {"\"seconds\":0", 1, 0},
        {"\"seconds\":1624437161984.0", 1, 1624437161984},
        {"\"seconds\":0.5", 0.1, 5},
        {"\"seconds\":1.25e-6", 1e-8, 125},
        {"\"seconds\":3e-12", 1e-12, 3},
        {"\"seconds\":0.333333333333333333", 0x1p-52,
         1501199875790165}, /* not a power of ten: 2^51 / 3 rounded to an integer */
        {"\"seconds\":1e17", 0x1p6, 1562500000000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        mp_graph *g;
        mp_error err = {0};
        snprintf(text, sizeof text, NODE("%s"), cases[i].seconds);
        if (read_text(text, &g, &err) != MP_OK) fail_msg("%s: %s", cases[i].seconds, err.message);
        if (g->tick_seconds != cases[i].tick || g->nodes[0].alternatives[0].ticks != cases[i].ticks)
            fail_msg("%s: %lld ticks of %.17g", cases[i].seconds, (long long)g->nodes[0].alternatives[0].ticks,
                     g->tick_seconds);
        mp_graph_free(g);
    }
}

#define LEG(kind, dim, ranks, bytes)                                                                                 \
    NODE("\"seconds\":1,\"collective\":{\"legs\":[{\"kind\":\"" kind "\",\"dimension\":\"" dim "\",\"ranks\":" ranks \
         ",\"bytes\":" bytes "}]}")

/* dp=2,shard=4,zero=1 with 4,000 bytes of gradients: the reduce-scatter sends 3,000 bytes, the all-reduce of a part 1,000. The
 * record returns from a file, and is not part of the hash. */
TEST(a_record_of_collectives_comes_back)
{
    mp_graph *g, *plain, *again;
    mp_rank_traffic sent;
    const mp_step step = {0};
    assert_int_equal(read_text(NODE("\"seconds\":1,\"collective\":{\"once\":true,\"legs\":[{\"kind\":\"reduce-scatter\","
                                    "\"dimension\":\"shard\",\"ranks\":4,\"bytes\":4000,\"seconds\":0.5},{\"kind\":"
                                    "\"all-reduce\",\"dimension\":\"dp\",\"ranks\":2,\"bytes\":1000}]}"),
                               &g, NULL),
                     MP_OK);
    assert_int_equal(read_text(NODE("\"seconds\":1"), &plain, NULL), MP_OK);
    assert_string_equal(g->hash, plain->hash);
    assert_null(plain->nodes->collective);
    assert_int_equal(mp_graph_write(g, in_folder("a.json"), NULL), MP_OK);
    assert_int_equal(mp_graph_read(in_folder("a.json"), &again, NULL), MP_OK);
    for (int n_passes = 1; n_passes <= 3; n_passes += 2) { /* once per training step */
        mp_traffic_of(again, &step, 1, n_passes, NULL, &sent);
        assert_int_equal(sent.sent_bytes, 3000 + 1000);
        assert_int_equal(sent.n_collectives, 1);
        assert_true(fabs(sent.seconds - 0.5) < 1e-12);
    }
    mp_graph_free(again);
    mp_graph_free(plain);
    mp_graph_free(g);
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *text, *message;
        int line, column;
    } cases[] = {
        {"", "JSON: '[' or '{' expected near end of file", 1, 0},
        {"{\n \"format\": nan}", "JSON: invalid token near 'nan'", 2, 14},
        {"{\"format\":\"memplan-graph\",\"format\":1}", "JSON: duplicate object key near '\"format\"'", 1, 34},
        {"{\"format\":\"memplan-graph\"} x", "JSON: end of file expected near 'x'", 1, 28},
        {"[1]", "the file is not a JSON object, so it cannot be a memplan-graph file", 0, 0},
        {"{}", "\"format\" is missing", 0, 0},
        {"{\"format\":\"memplan-plan\"}", "the file's format is \"memplan-plan\", not \"memplan-graph\"", 0, 0},
        {GRAPH("\"version\":2"), "version 2 of memplan-graph is not known, only version 1", 0, 0},
        {GRAPH("\"storages\":[]"), "\"nodes\" is missing", 0, 0},
        {GRAPH("\"storages\":7,\"nodes\":[]"), "\"storages\" is no array", 0, 0},
        {GRAPH("\"storages\":[3],\"nodes\":[]"), "storages[0] is no object", 0, 0},
        {GRAPH("\"fuse\":\"late\",\"storages\":[],\"nodes\":[]"), "\"fuse\" is the unknown \"late\"", 0, 0},
        {GRAPH("\"alignment\":0,\"storages\":[],\"nodes\":[]"), "\"alignment\" is 0", 0, 0},
        {GRAPH("\"options\":[],\"storages\":[],\"nodes\":[]"), "\"options\" is no object", 0, 0},
        {GRAPH("\"storages\":[{\"kind\":\"input\"}],\"nodes\":[]"), "storages[0]: \"bytes\" is missing", 0, 0},
        {GRAPH("\"storages\":[{\"name\":\"x\",\"bytes\":1.5,\"kind\":\"input\"}],\"nodes\":[]"),
         "storages[0] (x): \"bytes\" is no whole number", 0, 0},
        {GRAPH("\"storages\":[{\"bytes\":-4,\"kind\":\"input\"}],\"nodes\":[]"), "storages[0]: \"bytes\" is negative", 0, 0},
        {GRAPH("\"storages\":[{\"bytes\":4,\"kind\":\"weight\"}],\"nodes\":[]"),
         "storages[0]: \"kind\" is the unknown \"weight\"", 0, 0},
        {GRAPH("\"storages\":[{\"bytes\":4,\"kind\":\"saved\",\"carried\":1}],\"nodes\":[]"),
         "storages[0]: \"carried\" is neither true nor false", 0, 0},
        {GRAPH("\"storages\":[{\"bytes\":4,\"kind\":\"saved\",\"sum_order\":\"all\"}],\"nodes\":[]"),
         "storages[0]: \"sum_order\" may only be \"any\"", 0, 0},
        {GRAPH("\"storages\":[{\"bytes\":4,\"kind\":\"saved\",\"tensors\":[1]}],\"nodes\":[]"),
         "storages[0]: \"tensors\"[0] is no text", 0, 0},
        {GRAPH("\"storages\":[{\"bytes\":99999999999999999999,\"kind\":\"input\"}],\"nodes\":[]"),
         "JSON: too big integer near '99999999999999999999'", 1, 67},
        {GRAPH(ROWS "[{}]"), "nodes[0]: \"phase\" is missing", 0, 0},
        {GRAPH(ROWS "[{\"phase\":\"sideways\"}]"), "nodes[0]: \"phase\" is the unknown \"sideways\"", 0, 0},
        {GRAPH(ROWS "[{\"name\":\"n\",\"phase\":\"forward\"}]"), "nodes[0] (n): \"reads\" is missing", 0, 0},
        {NODE("\"seconds\":-1"), "node 0: -1 seconds can't be counted", 0, 0},
        {NODE("\"seconds\":1e300"), "node 0: 1e+300 seconds can't be counted", 0, 0},
        {NODE("\"seconds\":\"1\""), "nodes[0]: \"seconds\" is no number", 0, 0},
        {NODE("\"op\":\"x\""), "nodes[0]: \"seconds\" is missing", 0, 0},
        {NODE("\"seconds\":1,\"workspace_bytes\":-1"), "nodes[0]: \"workspace_bytes\" is negative", 0, 0},
        {NODE("\"seconds\":1,\"in_place\":[[0]]"), "nodes[0]: \"in_place\"[0] is no pair", 0, 0},
        {NODE("\"seconds\":1,\"in_place\":[[0,8]]"), "nodes[0]: \"in_place\"[0] names a storage that does not exist", 0, 0},
        {NODE("\"seconds\":1,\"adds\":[8]"), "nodes[0]: \"adds\" names storage 8, which does not exist", 0, 0},
        {NODE("\"seconds\":1,\"forward_of\":8"), "nodes[0]: \"forward_of\" names node 8, which does not exist", 0, 0},
        {NODE("\"seconds\":1,\"collective\":{\"legs\":[]}"), "nodes[0]: \"legs\" has 0 elements, not 1 to 3", 0, 0},
        {LEG("gossip", "tp", "2", "8"), "nodes[0]: \"kind\" is the unknown \"gossip\"", 0, 0},
        {LEG("send", "cp", "2", "8"), "nodes[0]: \"dimension\" is the unknown \"cp\"", 0, 0},
        {LEG("send", "pp", "0", "8"), "nodes[0]: a collective has 0 ranks, 8 bytes and 0 seconds", 0, 0},
        {LEG("all-reduce", "dp", "4611686018427387904", "8"), "nodes[0]: the collectives up to here have too many bytes", 0, 0},
        {LEG("all-reduce", "dp", "65536", "4611686018427387904"), "nodes[0]: the collectives up to here have too many bytes", 0,
         0},
        {NODE("\"seconds\":1,\"alternatives\":[1]"), "nodes[0]: alternative 1 is no object", 0, 0},
        {NODE("\"seconds\":1,\"alternatives\":[{\"seconds\":-2}]"), "node 0: -2 seconds can't be counted", 0, 0},
        {GRAPH("\"tick_seconds\":-1," ROWS "[]"), "\"tick_seconds\" is -1", 0, 0},
        {GRAPH("\"tick_seconds\":3," ROWS "[{\"reads\":[],\"writes\":[],\"phase\":\"forward\",\"seconds\":4}]"),
         "ticks of 3 seconds are too coarse for the graph's seconds", 0, 0},
        {GRAPH("\"tick_seconds\":1e-30," ROWS "[{\"reads\":[],\"writes\":[],\"phase\":\"forward\",\"seconds\":4}]"),
         "4 seconds are too many ticks of 1e-30 seconds", 0, 0},
        {GRAPH(ROWS "[{\"reads\":[1],\"writes\":[1],\"phase\":\"forward\",\"seconds\":1}]"),
         "node 0 reads and writes storage 1, but only a static storage allows both", 0, 0},
        {GRAPH(
             "\"storages\":[{\"id\":1,\"bytes\":4,\"kind\":\"input\"},{\"id\":1,\"bytes\":4,\"kind\":\"input\"}],\"nodes\":[]"),
         "storage id 1 is listed twice", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_error err = {0};
        mp_graph *g = NULL;
        mp_status st = read_text(cases[i].text, &g, &err);
        if (st != MP_PARSE && st != MP_UNSUPPORTED) fail_msg("case %zu: status %d", i, (int)st);
        assert_string_equal(err.message, cases[i].message);
        if (err.line != cases[i].line || err.column != cases[i].column)
            fail_msg("%s: %d:%d", cases[i].message, err.line, err.column);
        assert_true(strstr(err.input, "case.json") && !g);
    }
    mp_graph *g;
    assert_int_equal(mp_graph_read(in_folder("none.json"), &g, NULL), MP_IO);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(a_file_cut_anywhere_is_refused)
{
    mp_graph *g = random_graph(4, 3, MP_FUSE_FORWARD, false);
    mp_file file;
    assert_int_equal(mp_graph_write(g, in_folder("a.json"), NULL), MP_OK);
    mp_graph_free(g);
    assert_int_equal(mp_file_open(in_folder("a.json"), 1 << 24, &file, NULL), MP_OK);
    for (size_t size = 0; size + 2 < file.size; size += 1 + size / 60) {
        mp_error err = {0};
        assert_int_equal(mp_file_write(in_folder("b.json"), file.bytes, size, NULL), MP_OK);
        assert_int_equal(mp_graph_read(in_folder("b.json"), &g, &err), MP_PARSE);
        assert_true(err.line > 0);
    }
    mp_file_close(&file);
}

TEST(hostile_files_are_refused)
{
    enum { SIZE = 5000000 };
    char *text = malloc(SIZE + 1);
    mp_graph *g = NULL;
    mp_error err = {0};
    memset(text, '[', SIZE);
    text[SIZE] = '\0';
    assert_int_equal(read_text(text, &g, &err), MP_PARSE);
    assert_string_equal(err.message, "the file holds too many values");
    text[100000] = '\0';
    err = (mp_error){0};
    assert_int_equal(read_text(text, &g, &err), MP_PARSE);
    assert_non_null(strstr(err.message, "depth"));
    free(text);
}

TEST(reading_survives_every_allocation_failure)
{
    mp_graph *g = random_graph(6, 3, MP_FUSE_BACKWARD, false);
    assert_int_equal(mp_graph_write(g, in_folder("a.json"), NULL), MP_OK);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) { /* out of memory while writing */
        mp_alloc_budget = k;
        st = mp_graph_write(g, in_folder("b.json"), NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_same_files(in_folder("a.json"), in_folder("b.json"));
    mp_graph_free(g);
    st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        g = NULL;
        mp_alloc_budget = k;
        st = mp_graph_read(in_folder("a.json"), &g, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || (st == MP_NOMEM && !g));
        mp_graph_free(g);
        assert_int_equal(mp_alloc_live, 0);
    }
}

TEST(published_graphs_have_the_published_peaks)
{
    static const struct {
        const char *name;
        int64_t peak_bytes;
    } cases[] = {
        {"kusumoto_vgg19", 2132279296},
        {"kusumoto_unet", 7803387904},
        {"kusumoto_resnet50", 3468165120},
        {"kusumoto_densenet", 7923793920},
        {"RL_n100", 46319},
        {"RL_n500", 284439},
        {"checkmate_resnet50_train_b256", 38059356160},
        {"checkmate_fcn_8_vgg_train_b32", 13484795520},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_error err = {0};
        mp_graph *g;
        mp_timeline *tl;
        const char *path = data_file("bench/graphs/%s.json", cases[i].name);
        if (!path) skip();
        if (mp_graph_read(path, &g, &err) != MP_OK) fail_msg("%s: %s", path, err.message);
        mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
        mp_keep_all(g, steps);
        assert_int_equal(mp_timeline_build(g, steps, g->n_nodes, &tl, NULL), MP_OK);
        if (tl->peak_bytes != cases[i].peak_bytes) fail_msg("%s: %lld", path, (long long)tl->peak_bytes);
        mp_timeline_free(tl);
        mp_free(steps);
        mp_graph_free(g);
    }
}

int main(void)
{
    return test_run(make_folder, drop_folder);
}
