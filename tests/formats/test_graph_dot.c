/* test_graph_dot.c - graphs in DOT: written graphs read back equal, and malicious files do no harm. */
#include "memplan/graph_dot.h"

#include <time.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/data/dot_scan.h"
#include "tests/cases/test.h"

static char path[] = "/tmp/memplan-dot-XXXXXX.dot";

static int make_file(void **state)
{
    (void)state;
    int file = mkstemps(path, 4);
    return file < 0 ? -1 : close(file);
}
static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_bytes(const char *text, size_t size)
{
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, size, to), size);
    assert_int_equal(fclose(to), 0);
}

static mp_status read_bytes(const char *text, size_t size, mp_graph **out, mp_error *err)
{
    *err = (mp_error){0};
    write_bytes(text, size);
    return mp_graph_dot_read(path, out, err);
}

static mp_graph *good(const char *text)
{
    mp_error err;
    mp_graph *graph = NULL;
    if (read_bytes(text, strlen(text), &graph, &err) != MP_OK) fail_msg("%s: %s", text, err.message);
    return graph;
}

static void bad(const char *text, size_t size, const char *message, int line)
{
    mp_error err;
    mp_graph *graph = NULL;
    clock_t from = clock();
    if (read_bytes(text, size, &graph, &err) != MP_PARSE) fail_msg("'%.60s' was not refused: %s", text, err.message);
    assert_null(graph);
    if (!strstr(err.message, message)) fail_msg("'%.60s': '%s', expected '%s'", text, err.message, message);
    assert_null(strchr(err.message, '\n'));
    if (line >= 0) assert_int_equal(err.line, line);
    assert_string_equal(err.input, path);
    if (clock() - from > 5 * CLOCKS_PER_SEC) fail_msg("'%.60s' took %g s", text, (double)(clock() - from) / CLOCKS_PER_SEC);
    mp_graph_free(good("digraph { a [bytes=1, seconds=1] }")); /* after any previous parser state */
}

#define LAYER "node [bytes=1, seconds=1];"

TEST(a_node_writes_one_storage_and_edges_are_reads)
{
    mp_graph *g = good("digraph \"my net\" {\n"
                       "  a [bytes=4096, seconds=0.5]; b [bytes=64, seconds=0.25, workspace=128, color=red];\n"
                       "  subgraph cluster { c [bytes=8, seconds=0, phase=\"loss\"] }\n"
                       "  d [bytes=7, seconds=\"1e-1\", phase=backward];\n"
                       "  a -> b -> c -> d; a -> b; {a b} -> d; }");
    assert_string_equal(g->name, "my net");
    assert_int_equal(g->n_nodes, 4);
    assert_int_equal(g->n_storages, 4);
    static const struct {
        const char *name;
        int64_t bytes, workspace;
        double seconds;
        mp_phase phase;
        mp_kind kind;
        size_t n_reads;
        int reads[3];
    } nodes[] = {{"a", 4096, 0, 0.5, MP_PHASE_FORWARD, MP_KIND_ACTIVATION, 0, {0}},
                 {"b", 64, 128, 0.25, MP_PHASE_FORWARD, MP_KIND_ACTIVATION, 1, {0}},
                 {"c", 8, 0, 0, MP_PHASE_LOSS, MP_KIND_ACTIVATION, 1, {1}},
                 {"d", 7, 0, 0.1, MP_PHASE_BACKWARD, MP_KIND_ACTIVATION_GRADIENT, 3, {2, 0, 1}}};
    for (int k = 0; k < 4; k++) {
        const mp_node *n = &g->nodes[k];
        const mp_alternative *alternative = &n->alternatives[0];
        double seconds = (double)alternative->ticks * g->tick_seconds;
        assert_string_equal(n->name, nodes[k].name);
        assert_string_equal(g->storages[k].name, nodes[k].name);
        assert_int_equal(g->storages[k].bytes, nodes[k].bytes);
        assert_int_equal(g->storages[k].kind, nodes[k].kind);
        assert_int_equal(n->phase, nodes[k].phase);
        assert_int_equal(alternative->workspace_bytes, nodes[k].workspace);
        assert_true(seconds > nodes[k].seconds - 1e-9 && seconds < nodes[k].seconds + 1e-9);
        assert_int_equal(alternative->n_writes, 1);
        assert_int_equal(alternative->writes[0], k);
        assert_int_equal(alternative->n_reads, nodes[k].n_reads);
        for (size_t i = 0; i < alternative->n_reads; i++) {
            bool found = false;
            for (size_t j = 0; j < alternative->n_reads; j++) found |= alternative->reads[i] == nodes[k].reads[j];
            assert_true(found);
        }
    }
    mp_graph_free(g);
}

TEST(nodes_run_in_the_order_of_the_file_as_far_as_edges_allow)
{
    mp_graph *g = good("digraph {" LAYER "last; b; a; first; first -> b; a -> last; b -> last; subgraph x {a; first}}");
    static const char *const order[] = {"a", "first", "b", "last"};
    for (int k = 0; k < 4; k++) assert_string_equal(g->nodes[k].name, order[k]);
    mp_graph_free(g);
}

TEST(names_comments_html_and_odd_spellings_are_fine)
{
    mp_graph_free(good("\xef\xbb\xbf/* { -> */ // \"\n# <\nSTRICT DiGraph { " LAYER
                       "\"a \\\" } -> {\" [label=<<b>-&gt; { } &amp;</b>>]; 1.5; -2 ; \"x\" + \"y\" ; \xc3\xa9 -> _z:port:n;\n"
                       "edge [weight=2]; rank=same; a, b -> c, d; {e f} -> {g h} [k=v]; }"));
    enum { SIZE = 1 << 20 };
    char *chain = mp_alloc(SIZE, 1); /* many statements are allowed, but each must be short */
    int n = snprintf(chain, SIZE, "digraph {" LAYER);
    for (int k = 0; k < 20000; k++) n += snprintf(chain + n, (size_t)(SIZE - n), "n%d->n%d;", k, k + 1);
    snprintf(chain + n, (size_t)(SIZE - n), "}");
    mp_graph *g = good(chain);
    assert_int_equal(g->n_nodes, 20001);
    mp_graph_free(g);
    mp_free(chain);
}

TEST(mistakes_are_told_with_their_node_or_line)
{
    static const struct {
        const char *text, *message;
        int line;
    } cases[] = {
        {"", "no graph", 0},
        {"hello, this is no graph\n", "syntax error near 'hello'", 1},
        {"digraph {\n a [bytes=1, seconds=1];\n b -> ;\n}", "syntax error near ';'", 3},
        {"-> \"d\" [w=1w=1]; }", "syntax error near '->'", 1}, /* the parser also prints a warning */
        {"digraph {\n a [bytes=1, seconds=1]", "no graph", -1},
        {"digraph {}", "has no nodes", 0},
        {"graph {" LAYER " a -- b }", "not directed", 0},
        {"digraph {" LAYER " a -> b -> c -> a }", "node 'a' is on a cycle", 0},
        {"digraph {" LAYER " a -> a }", "node 'a' reads its own output", 0},
        {"digraph { a [bytes=1, seconds=1]; a -> b }", "node 'b' has no attribute 'bytes'", 0},
        {"digraph { a [bytes=1] }", "node 'a' has no attribute 'seconds'", 0},
        {"digraph { a [bytes=-1, seconds=1] }", "is no whole number of bytes", 0},
        {"digraph { a [bytes=1.5, seconds=1] }", "bytes '1.5' is no whole", 0},
        {"digraph { a [bytes=99999999999999999999, seconds=1] }", "is no whole number", 0},
        {"digraph { a [bytes=\" 1\", seconds=1] }", "is no whole number", 0},
        {"digraph { a [bytes=1, seconds=1, workspace=x] }", "workspace 'x'", 0},
        {"digraph { a [bytes=1, seconds=nan] }", "seconds 'nan' is no time", 0},
        {"digraph { a [bytes=1, seconds=-1] }", "is no time", 0},
        {"digraph { a [bytes=1, seconds=\"1e999\"] }", "is no time", 0},
        {"digraph { a [bytes=1, seconds=1, phase=sideways] }", "phase 'sideways' is unknown", 0},
        {"digraph { node [bytes=9223372036854775807, seconds=1] a; b }", "more bytes than can be counted", 0},
        {"digraph {\n a [label=\"x\n", "a quoted text does not end", 2},
        {"digraph {\n/* a", "a comment does not end", 2},
        {"digraph { a [label=<<b>x</b>", "an HTML text does not end", 1},
        {"digraph { a [label=<<!-- > -->>] }", "a comment within an HTML text", 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        bad(cases[k].text, strlen(cases[k].text), cases[k].message, cases[k].line);
    bad("digraph {" LAYER "a}\0", strlen("digraph {" LAYER "a}") + 1, "a zero byte", -1);
}

/* Returns `before`, n numbered pieces separated by `between`, and `after`. */
static char *text_of(const char *before, const char *piece, const char *between, int n, const char *after)
{
    size_t size = strlen(before) + strlen(after) + (size_t)n * (strlen(piece) + strlen(between) + 12) + 1;
    char *text = mp_alloc(size, 1);
    size_t at = (size_t)snprintf(text, size, "%s", before);
    for (int k = 0; k < n; k++) {
        at += (size_t)snprintf(text + at, size - at, "%s%s", k ? between : "", piece);
        if (piece[0] >= 'a' && piece[0] <= 'z') at += (size_t)snprintf(text + at, size - at, "%d", k);
    }
    snprintf(text + at, size - at, "%s", after);
    return text;
}

TEST(hostile_files_are_refused_quickly)
{
    char *left = text_of("digraph {" LAYER "{", "a", " ", 1500, "} -> {"), *both = text_of(left, "b", " ", 1500, "}}");
    char *twice = text_of("digraph {" LAYER "subgraph x {", "a", " ", 3000, "} subgraph x {} -> subgraph x {}}");
    char *named = text_of("digraph {" LAYER "subgraph x {", "a", " ", 3000, "} {subgraph x {}} -> {subgraph x {}}}");
    char *listed = text_of("digraph {" LAYER, "a", ", ", 2000, " -> "), *lists = text_of(listed, "b", ",", 2000, "}");
    char *chain = text_of("digraph {" LAYER, "a", " -> ", 20000, "}");
    char *deep = text_of("digraph {", "{", "", 9000, "");
    char *open = text_of("", "digraph{subgraph{", "", 1, ""), *attributes = text_of("digraph { x [", "k", "=1,", 100, "=1] }");
    char *self = text_of("digraph {" LAYER, "{a b c}", " -> ", 900, "}");
    bad(both, strlen(both), "too many edges", 1);
    bad(twice, strlen(twice), "supported only as { ... }", 1);
    bad(named, strlen(named), "supported only as { ... }", 1);
    bad(lists, strlen(lists), "too many edges", 1);
    bad(chain, strlen(chain), "too many edges in one statement", 1);
    bad(deep, strlen(deep), "too deep", 1);
    bad(open, strlen(open), "no graph", -1);
    bad(attributes, strlen(attributes), "too many different attributes", 1);
    bad(self, strlen(self), "its own output", -1);
    for (char **text = (char *[]){left, both, twice, named, listed, lists, chain, deep, open, attributes, self, NULL}; *text;
         text++)
        mp_free(*text);
    char *zeros = mp_alloc((16 << 20) + 1, 1);
    memset(zeros, ' ', (16 << 20) + 1);
    bad(zeros, (16 << 20) + 1, "", -1);
    mp_free(zeros);
}

/* Changes random bytes of a valid text: any result is allowed except a crash or a hang. */
TEST(damaged_files_never_crash)
{
    static const char text[] =
        "digraph g { node [bytes=12, seconds=0.5]; a -> {b c} -> d [k=\"v\\\"\"]; subgraph s { e; f } e -> f;"
        " g [label=<x<i>y</i>>, phase=backward]; d -> g; /* c */ }";
    static const char alphabet[] = "{}[]<>\"\\/*-;,=:+#\n a1\xc3\x80@%";
    uint64_t seed = 12345;
    for (int k = 0; k < 3000; k++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        for (int i = 0; i <= k % 4; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[(seed >> 33) % (sizeof text - 1)] = alphabet[(seed >> 20) % (sizeof alphabet - 1)];
        }
        mp_error err;
        mp_graph *graph = NULL;
        mp_status st = read_bytes(copy, sizeof text - 1, &graph, &err);
        if (st != MP_OK && st != MP_PARSE) fail_msg("'%s': %s", copy, err.message);
        mp_graph_free(graph);
    }
}

TEST(reading_survives_every_allocation_failure)
{
    static const char text[] = "digraph { node [bytes=1, seconds=1]; a -> {b c} -> d }";
    mp_status st = MP_NOMEM;
    mp_error err = {0};
    write_bytes(text, sizeof text - 1);
    for (long k = 0; st != MP_OK; k++) {
        mp_graph *graph = NULL;
        long live = mp_alloc_live;
        err = (mp_error){0};
        mp_alloc_budget = k;
        st = mp_graph_dot_read(path, &graph, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_graph_free(graph);
        assert_int_equal(mp_alloc_live, live);
    }
}

int main(void)
{
    return test_run(make_file, remove_file);
}
