/* test_graph_picture.c - pictures of graphs: blocks partition the forward pass, fates follow from the steps, and names are
 * preserved. */
#include "memplan/pictures/graph_picture.h"

#include <unistd.h>

#include "estimator/base/memory.h"
#include "estimator/base/module_name.h"
#include "formats/base/file.h"
#include "formats/canvas/canvas.h"
#include "formats/drawings/graph_blocks.h"
#include "memplan/plan.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { NAME_SIZE = 128 }; /* of a node's name */

/* ---- fates, compared with a scan of the whole order for every storage ---- */

TEST(fates_are_what_the_steps_say)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *g = random_graph(seed, 6, MP_FUSE_BACKWARD, false);
        size_t n;
        mp_step *steps = random_schedule(g, seed, 5, &n);
        mp_fate *fates = mp_alloc(g->n_storages, sizeof *fates);
        assert_int_equal(mp_fates(g, steps, n, fates, NULL), MP_OK);
        for (size_t s = 0; s < g->n_storages; s++) {
            int made = 0;
            bool kept = false;
            for (size_t t = 0; t < n; t++) {
                const mp_node *node = &g->nodes[steps[t].node];
                const mp_alternative *alternative = &node->alternatives[steps[t].alternative];
                for (size_t i = 0; i < alternative->n_reads; i++)
                    kept |= alternative->reads[i] == (int)s && made == 1 && node->phase == MP_PHASE_BACKWARD;
                for (size_t i = 0; i < alternative->n_writes; i++)
                    made +=
                        alternative->writes[i] == (int)s && (node->phase == MP_PHASE_FORWARD || node->phase == MP_PHASE_LOSS);
            }
            mp_fate expected = made == 0 || mp_storage_is_static(&g->storages[s]) ? MP_FATE_NONE
                               : kept                                             ? MP_FATE_KEPT
                               : made > 1                                         ? MP_FATE_RECOMPUTED
                                                                                  : MP_FATE_FORWARD_ONLY;
            if (fates[s] != expected)
                fail_msg("seed %llu, storage %zu: %d, not %d", (unsigned long long)seed, s, fates[s], expected);
        }
        mp_free(fates);
        mp_free(steps);
        mp_graph_free(g);
    }
}

/* ---- module names ---- */

TEST(module_names_are_read_from_node_names)
{
    static const struct {
        const char *name;
        int depth;
        const char *first, *all, *leaf;
    } cases[] = {{"/layer1/layer1.0/conv1/Conv", 3, "layer1", "layer1.0.conv1", "Conv"},
                 {"/fc/Gemm", 1, "fc", "fc", "Gemm"},
                 {"/Add", 0, "", "", "Add"},
                 {"Add", 0, "", "", "Add"},
                 {"a/b/c", 2, "a", "a.b", "c"},
                 {"/down.1/down.1.0/Relu", 2, "down.1", "down.1.0", "Relu"},
                 {"", 0, "", "", ""},
                 {"/", 0, "", "", "/"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[64];
        assert_int_equal(mp_module_depth(cases[k].name), cases[k].depth);
        assert_string_equal(mp_module_text(cases[k].name, mp_module_length(cases[k].name, 1), text, sizeof text),
                            cases[k].first);
        assert_string_equal(mp_module_text(cases[k].name, mp_module_length(cases[k].name, 99), text, sizeof text),
                            cases[k].all);
        assert_string_equal(mp_module_leaf(cases[k].name), cases[k].leaf);
    }
    char small[6]; /* cut at a character boundary */
    assert_string_equal(mp_module_text("abcd\xc3\xa9/x", 6, small, sizeof small), "abcd");
}

/* ---- blocks ---- */

/* Returns a chain of n nodes whose names are formatted from their numbers. Node k reads nodes k - 1 and k - 2. */
static mp_graph *named_chain(int n, const char *(*name)(int k, char *text))
{
    mp_graph *g;
    assert_int_equal(mp_graph_new("chain", &g, NULL), MP_OK);
    for (int k = 0; k < n; k++) {
        char text[NAME_SIZE];
        mp_storage *s;
        mp_node *node;
        const int reads[2] = {k - 1, k - 2};
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->bytes = s->payload_bytes = 1024 * (k + 1);
        s->kind = MP_KIND_ACTIVATION;
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        name(k, text);
        node->name = mp_pool_text(g->pool, text, strlen(text));
        node->op = (const char *[]){"Conv", "Relu", "Add"}[k % 3];
        node->alternatives[0].n_reads = k < 2 ? (size_t)k : 2;
        node->alternatives[0].reads = mp_graph_list(g, reads, node->alternatives[0].n_reads);
        node->alternatives[0].writes = mp_graph_list(g, &k, node->alternatives[0].n_writes = 1);
        node->alternatives[0].ticks = 1;
    }
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

static const char *in_modules(int k, char *text)
{
    snprintf(text, NAME_SIZE, "/stage%d/stage%d.%d/part%d/Op", k / 60, k / 60, k / 12 % 5, k / 4 % 3);
    return text;
}
static const char *in_one_long_list(int k, char *text)
{
    snprintf(text, NAME_SIZE, "/b/b.%d/Op_%d", k / 3, k % 3);
    return text;
}
static const char *without_modules(int k, char *text)
{
    snprintf(text, NAME_SIZE, "op%d", k);
    return text;
}

static mp_graph_blocks *blocks_of(const mp_graph *g, int depth, size_t most)
{
    mp_graph_blocks *blocks;
    assert_int_equal(mp_graph_blocks_build(g, depth, most, &blocks, NULL), MP_OK);
    return blocks;
}

TEST(blocks_are_as_deep_as_the_limit_allows)
{
    static const struct {
        int n, depth;
        size_t most, blocks;
        const char *title, *subtitle; /* of the second block */
        const char *(*name)(int k, char *text);
    } cases[] = {
        {240, 0, 100, 60, "stage0.0.part1", "4 operators", in_modules}, /* 4 stages x 5 x 3 */
        {240, 0, 59, 20, "stage0.1", "12 operators", in_modules},
        {240, 1, 100, 4, "stage1", "60 operators", in_modules},
        {240, 2, 100, 20, "stage0.1", "12 operators", in_modules},
        {240, 9, 100, 240, "Relu", "stage0.0.part0", in_modules},
        {300, 0, 1000, 300, "Relu", "b.0", in_one_long_list},
        {3000, 0, 100, 100, "b.10 \xe2\x80\x93 b.19", "10 blocks, 30 operators", in_one_long_list},
        {3000, 2, 100, 1000, "b.1", "3 operators", in_one_long_list},
        {900, 0, 100, 100, "op9 \xe2\x80\x93 op17", "9 operators", without_modules}, /* whole repetitions of three */
        {5, 0, 100, 5, "Relu", "op1", without_modules},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_graph *g = named_chain(cases[k].n, cases[k].name);
        mp_graph_blocks *b = blocks_of(g, cases[k].depth, cases[k].most);
        if (b->n != cases[k].blocks) fail_msg("case %zu: %zu blocks", k, b->n);
        assert_string_equal(b->blocks[1].title, cases[k].title);
        assert_string_equal(b->blocks[1].subtitle, cases[k].subtitle);
        mp_graph_blocks_free(b);
        mp_graph_free(g);
    }
}

/* Consecutive equal modules form one block, independent of their names. Two alternating modules do as well. */
TEST(repeats_are_folded_from_the_first)
{
    enum { EQUAL, TWO_SIZES, TWO_RUNS };
    static const struct {
        int n, sizes;
        size_t blocks, repeats;
        const char *title, *subtitle; /* of the first block */
    } cases[] = {
        {3000, EQUAL, 1, 1000, "b.0 \xe2\x80\x93 b.999", "1000 \xc3\x97 3 operators"},
        {6, EQUAL, 1, 2, "b.0 \xe2\x80\x93 b.1", "2 \xc3\x97 3 operators"},
        {24, TWO_SIZES, 1, 4, "b.0 \xe2\x80\x93 b.7", "4 \xc3\x97 2 blocks, 6 operators"},
        {30, TWO_RUNS, 2, 4, "b.0 \xe2\x80\x93 b.3", "4 \xc3\x97 3 operators"}, /* 4 of one size, 6 of the other */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_graph *g = named_chain(cases[k].n, in_one_long_list);
        for (int s = 0; s < cases[k].n; s++) {
            const int block = s / 3, other = cases[k].sizes == TWO_SIZES ? block % 2 : cases[k].sizes == TWO_RUNS && block > 3;
            g->storages[s].bytes = g->storages[s].payload_bytes = other ? 2048 : 1024;
        }
        mp_graph_blocks *b = blocks_of(g, 0, cases[k].blocks);
        if (b->n != cases[k].blocks) fail_msg("case %zu: %zu blocks", k, b->n);
        assert_int_equal(b->blocks[0].repeats, cases[k].repeats);
        assert_string_equal(b->blocks[0].title, cases[k].title);
        assert_string_equal(b->blocks[0].subtitle, cases[k].subtitle);
        mp_graph_blocks_free(b);
        b = blocks_of(g, 2, 2); /* with an explicit depth, every level is shown */
        assert_int_equal(b->n, cases[k].n / 3);
        mp_graph_blocks_free(b);
        mp_graph_free(g);
    }
}

TEST(blocks_partition_the_forward_pass_and_keep_its_edges)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *g = random_graph(seed, 12, MP_FUSE_BACKWARD, false);
        mp_graph_blocks *b = blocks_of(g, 0, 1 + seed % 8);
        size_t next = 0, n_edges = 0;
        for (size_t k = 0; k < b->n; k++) {
            assert_int_equal(b->blocks[k].first, next);
            assert_true(b->blocks[k].n > 0);
            next += b->blocks[k].n;
        }
        assert_int_equal(next, b->n_nodes);
        for (size_t from = 0; from < b->n; from++)
            for (size_t to = 0; to < b->n; to++) {
                bool reads = false, listed = false;
                for (size_t u = 0; u < g->n_nodes; u++)
                    for (size_t v = u + 1; v < g->n_nodes && from != to; v++) {
                        if (b->block_of[u] != (int)from || b->block_of[v] != (int)to) continue;
                        for (size_t i = 0; i < g->nodes[u].alternatives[0].n_writes; i++)
                            for (size_t j = 0; j < g->nodes[v].alternatives[0].n_reads; j++)
                                reads |= g->nodes[u].alternatives[0].writes[i] == g->nodes[v].alternatives[0].reads[j];
                    }
                for (size_t k = 0; k < b->n_edges; k++) listed |= b->edges[k].from == (int)from && b->edges[k].to == (int)to;
                if (reads != listed) fail_msg("seed %llu: %zu -> %zu", (unsigned long long)seed, from, to);
                n_edges += listed;
            }
        assert_int_equal(n_edges, b->n_edges);
        mp_graph_blocks_free(b);
        mp_graph_free(g);
    }
}

/* ---- pictures ---- */

static char folder[] = "/tmp/memplan-picture-XXXXXX", picture[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(picture, sizeof picture, "%s/p.svg", folder);
    return 0;
}
static int remove_folder(void **state)
{
    (void)state;
    unlink(picture);
    return rmdir(folder);
}

static char *drawn(const mp_picture_request *request, bool training)
{
    mp_error err = {0};
    mp_file file;
    if ((training ? mp_training_picture : mp_graph_picture)(request, picture, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(mp_file_open(picture, 1 << 28, &file, &err), MP_OK);
    char *text = mp_alloc(file.size + 1, 1);
    memcpy(text, file.bytes, file.size);
    mp_file_close(&file);
    return text;
}

static const char *with_odd_characters(int k, char *text)
{
    snprintf(text, NAME_SIZE, "/m<%d>&\"\n\xc3\xa9\xff/op]]>%d", k / 2, k);
    return text;
}

TEST(odd_names_survive_and_the_same_picture_is_the_same_file)
{
    mp_graph *g = named_chain(8, with_odd_characters);
    const mp_picture_request request = {.graph = g, .title = "a <title> & \"more\""};
    for (int training = 0; training < 2; training++) {
        char *once = drawn(&request, training), *twice = drawn(&request, training);
        assert_string_equal(once, twice);
        assert_non_null(strstr(once, "a &lt;title&gt; &amp; "));
        assert_non_null(strstr(once, "m&lt;1&gt;&amp;"));
        assert_non_null(strstr(once, "</svg>"));
        assert_null(strstr(once, "\xff"));
        mp_free(once);
        mp_free(twice);
    }
    mp_graph_free(g);
}

TEST(a_plan_is_drawn_in_its_colours)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mp_graph *g = random_graph(seed, 6, MP_FUSE_NONE, false);
        size_t n;
        mp_step *steps = random_schedule(g, seed, 6, &n);
        mp_plan *plan;
        assert_int_equal(mp_plan_new(g, "", steps, n, &plan, NULL), MP_OK);
        const mp_picture_request request = {.graph = g, .plan = plan, .title = "t"};
        bool again = false;
        for (size_t t = 0; t < n; t++) again |= plan->recompute[t] && g->nodes[steps[t].node].phase == MP_PHASE_FORWARD;
        char *text = drawn(&request, true);
        assert_int_equal(again, strstr(text, ">again<") != NULL);
        mp_free(text);
        text = drawn(&request, false);
        assert_int_equal(plan->n_checkpoints > 0, strstr(text, "output is a checkpoint") != NULL);
        mp_free(text);
        mp_plan_free(plan);
        mp_free(steps);
        mp_graph_free(g);
    }
}

static void add_node_of(mp_graph *g, const char *name, mp_phase phase, int forward_of, int reads, int writes, int adds,
                        int also)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
    mp_alternative *a = &node->alternatives[0];
    node->name = node->op = name;
    node->phase = phase;
    node->forward_of = forward_of;
    a->reads = mp_graph_list(g, &reads, 1);
    a->n_reads = 1;
    a->writes = mp_graph_list(g, &writes, 1);
    a->n_writes = writes >= 0;
    a->adds = mp_graph_list(g, (int[]){adds, also}, 2);
    a->n_adds = (size_t)(adds >= 0) + (also >= 0);
}

/* A residual: the gradient of its first tensor is a sum of two, and each contribution has a wire. */
TEST(whoever_adds_to_a_gradient_has_a_wire)
{
    enum { X, A, B, C, GC, GB, GA, GX, N };
    mp_graph *g;
    assert_int_equal(mp_graph_new("residual", &g, NULL), MP_OK);
    for (int s = 0; s < N; s++) {
        mp_storage *storage;
        assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
        storage->name = "s";
        storage->kind = s == X    ? MP_KIND_INPUT
                        : s <= C  ? MP_KIND_ACTIVATION
                        : s == GX ? MP_KIND_GRADIENT
                                  : MP_KIND_ACTIVATION_GRADIENT;
        storage->bytes = storage->payload_bytes = 100;
    }
    add_node_of(g, "first", MP_PHASE_FORWARD, -1, X, A, -1, -1);
    add_node_of(g, "second", MP_PHASE_FORWARD, -1, A, B, -1, -1);
    add_node_of(g, "sum", MP_PHASE_FORWARD, -1, B, C, -1, -1);
    add_node_of(g, "loss", MP_PHASE_LOSS, -1, C, GC, -1, -1);
    add_node_of(g, "back of sum", MP_PHASE_BACKWARD, 2, GC, GB, GA, -1);
    add_node_of(g, "back of second", MP_PHASE_BACKWARD, 1, GB, -1, GA, -1);
    add_node_of(g, "back of first", MP_PHASE_BACKWARD, 0, GA, GX, -1, -1);
    mp_error err = {0};
    if (mp_graph_finish(g, &err) != MP_OK) fail_msg("%s", err.message);
    char *text = drawn(&(mp_picture_request){.graph = g, .title = "t", .depth = -1}, true);
    int wires = 0;
    for (const char *at = text; (at = strstr(at, "stroke=\"" MP_COLOR_GRADIENT "\"")); at++) {
        const char *element = at;
        while (*element != '<') element--;
        wires += strncmp(element, "<polyline", 9) == 0;
    }
    assert_int_equal(wires, 3); /* sum to second, sum to first, second to first */
    mp_free(text);
    mp_graph_free(g);
}

TEST(too_many_boxes_and_no_forward_pass_are_refused)
{
    mp_error err = {0};
    mp_graph *g = named_chain(MP_PICTURE_BOXES_MAX + 1, without_modules), *empty;
    assert_int_equal(mp_graph_new("", &empty, NULL), MP_OK);
    assert_int_equal(mp_graph_finish(empty, NULL), MP_OK);
    mp_picture_request request = {.graph = g, .title = "t", .depth = 1};
    unlink(picture);
    assert_int_equal(mp_graph_picture(&request, picture, &err), MP_LIMIT);
    assert_int_equal(mp_training_picture(&request, picture, NULL), MP_LIMIT);
    request.graph = empty;
    assert_int_equal(mp_graph_picture(&request, picture, NULL), MP_INVALID);
    assert_int_equal(mp_training_picture(&request, picture, NULL), MP_INVALID);
    assert_int_not_equal(access(picture, F_OK), 0);
    mp_graph_free(g);
    mp_graph_free(empty);
}

TEST(drawing_survives_every_allocation_failure)
{
    mp_graph *g = random_graph(3, 3, MP_FUSE_NONE, false);
    size_t n;
    mp_step *steps = random_schedule(g, 3, 3, &n);
    mp_plan *plan;
    assert_int_equal(mp_plan_new(g, "", steps, n, &plan, NULL), MP_OK);
    const mp_picture_request request = {.graph = g, .plan = plan, .title = "t"};
    for (int training = 0; training < 2; training++) {
        mp_status st = MP_NOMEM;
        unlink(picture);
        for (long k = 0; st != MP_OK; k++) {
            long live = mp_alloc_live;
            mp_alloc_budget = k;
            st = (training ? mp_training_picture : mp_graph_picture)(&request, picture, NULL);
            mp_alloc_budget = -1;
            if (st != MP_OK) {
                assert_int_equal(st, MP_NOMEM);
                assert_int_not_equal(access(picture, F_OK), 0);
            }
            assert_int_equal(mp_alloc_live, live);
        }
    }
    mp_plan_free(plan);
    mp_free(steps);
    mp_graph_free(g);
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
