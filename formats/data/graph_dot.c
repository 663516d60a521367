/* graph_dot.c - reads DOT graphs through cgraph. Graphviz's layout engines are not used, because DOT files of unknown origin
 * can make them hang or crash. */
#include "memplan/graph_dot.h"

#include <cgraph.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "formats/base/file.h"
#include "formats/base/process.h"
#include "formats/base/ticks.h"
#include "formats/data/dot_scan.h"
#include "planner/math/heap.h"

enum { FILE_MAX = 16 << 20 };

/* Collects the text of an error from cgraph. cgraph passes errors (and earlier warnings) piece by piece to a hook function
 * without a context argument. */
static _Thread_local char heard[256];

static int hear(char *piece)
{
    size_t n = strncmp(piece, "Error", 5) != 0 ? strlen(heard) : 0;
    snprintf(heard + n, sizeof heard - n, "%s", piece);
    return 0;
}

bool mp_graph_dot_is(const char *path)
{
    const char *point = strrchr(path, '.');
    return point && (!strcasecmp(point, ".dot") || !strcasecmp(point, ".gv"));
}

/* Converts cgraph's message "Error: <unknown>: syntax error in line 3 near '}'\n" to a sentence and a line number. The
 * quoted text may span several lines, and warnings may follow. */
static mp_status syntax_error(const char *path, mp_error *err)
{
    char *line = strstr(heard, " in line "), *near = strstr(heard, " near '");
    long number = line ? strtol(line + 9, NULL, 10) : 0;
    if (strstr(heard, "memory exhausted"))
        MP_FAIL(err, MP_PARSE, "statements are too deep within each other or too long");
    else if (near)
        MP_FAIL(err, MP_PARSE, "syntax error near '%.*s'", (int)strcspn(near + 7, "'\n\r"), near + 7);
    else
        MP_FAIL(err, MP_PARSE, "this is no graph in the DOT language");
    if (number > 0) mp_error_locate(err, path, (int)number, 1);
    return MP_PARSE;
}

static mp_status parse(const char *path, const char *text, Agraph_t **out, mp_error *err)
{
    agusererrf hook = agseterrf(hear);
    Agraph_t *g;
    mp_status st = MP_OK;
    heard[0] = '\0';
    agreseterrors();
    mp_library_works++;
    g = agmemread(text);
    if (!g || agerrors() >= AGERR) { /* after an error, cgraph may leave a partial graph */
        st = syntax_error(path, err);
        if (g) agclose(g);
    } else {
        *out = g;
    }
    mp_library_works--;
    agreseterrors();
    agseterrf(hook);
    return st;
}

/* ---- attributes ---- */

typedef struct reader {
    mp_pool *pool; /* memory pool that owns all arrays of the reader */
    Agraph_t *g;
    mp_graph *graph;
    size_t n;
    Agnode_t **nodes;   /* the nodes of the DOT graph, in file order */
    int *index_of_rank; /* per position in the execution order: index of the node in `nodes` */
    double *seconds;    /* per position in the execution order: seconds of the node */
    mp_error *err;
} reader;

/* Returns an attribute of a node; NULL: missing or empty. */
static const char *attribute(Agnode_t *node, const char *key)
{
    const char *text = agget(node, (char *)key);
    return text && *text ? text : NULL;
}

static mp_status bytes_of(Agnode_t *node, const char *key, bool required, int64_t *bytes, mp_error *err)
{
    const char *text = attribute(node, key);
    char *end;
    *bytes = 0;
    if (!text && !required) return MP_OK;
    if (!text) return MP_FAIL(err, MP_PARSE, "node '%.120s' has no attribute '%s'", agnameof(node), key);
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end || end == text || strchr(" \t\n+-", *text))
        return MP_FAIL(err, MP_PARSE, "node '%.120s': %s '%.40s' is no whole number of bytes", agnameof(node), key, text);
    *bytes = value;
    return MP_OK;
}

static mp_status read_seconds(Agnode_t *node, double *seconds, mp_error *err)
{
    const char *text = attribute(node, "seconds");
    char *end;
    if (!text) return MP_FAIL(err, MP_PARSE, "node '%.120s' has no attribute 'seconds'", agnameof(node));
    *seconds = strtod(text, &end);
    if (*end || end == text || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(*seconds) || *seconds < 0)
        return MP_FAIL(err, MP_PARSE, "node '%.120s': seconds '%.40s' is no time", agnameof(node), text);
    return MP_OK;
}

static mp_status phase_of(Agnode_t *node, mp_phase *phase, mp_error *err)
{
    const char *text = attribute(node, "phase");
    int found = text ? mp_phase_find(text) : MP_PHASE_FORWARD;
    MP_ENSURE(found >= 0, err, MP_PARSE, "node '%.120s': phase '%.40s' is unknown; use forward, loss, backward or update",
              agnameof(node), text);
    *phase = (mp_phase)found;
    return MP_OK;
}

/* ---- order ---- */

/* Returns the index of a node. cgraph numbers nodes from 1 in the order in which the text first names them. */
static int index_of(Agnode_t *node)
{
    return (int)AGSEQ(node) - 1;
}

static mp_status list_nodes(reader *r)
{
    int nodes = agnnodes(r->g), edges = agnedges(r->g);
    MP_ENSURE(nodes <= MP_DOT_NODES_MAX, r->err, MP_PARSE, "%d nodes (%d are the most)", nodes, MP_DOT_NODES_MAX);
    MP_ENSURE(edges <= MP_DOT_EDGES_MAX, r->err, MP_PARSE, "%d edges (%d are the most)", edges, MP_DOT_EDGES_MAX);
    MP_ENSURE(nodes > 0, r->err, MP_PARSE, "the graph has no nodes");
    r->n = (size_t)nodes;
    r->pool = mp_pool_new();
    r->nodes = mp_pool_alloc(r->pool, r->n, sizeof *r->nodes);
    r->index_of_rank = mp_pool_alloc(r->pool, r->n, sizeof *r->index_of_rank);
    r->seconds = mp_pool_alloc(r->pool, r->n, sizeof *r->seconds);
    MP_ENSURE(!mp_pool_failed(r->pool), r->err, MP_NOMEM, "no memory for a graph of %d nodes", nodes);
    for (Agnode_t *node = agfstnode(r->g); node; node = agnxtnode(r->g, node)) {
        int k = index_of(node);
        MP_ENSURE(k >= 0 && k < nodes && !r->nodes[k], r->err, MP_PARSE, "node '%.120s' cannot be placed", agnameof(node));
        r->nodes[k] = node;
    }
    return MP_OK;
}

/* Sorts the nodes into an execution order by Kahn's algorithm. Of several nodes that can run, the first in the file is next. */
static mp_status order_nodes(reader *r)
{
    int *waits = mp_pool_alloc(r->pool, r->n, sizeof *waits);
    mp_heap ready = {.items = mp_pool_alloc(r->pool, r->n, sizeof *ready.items)};
    size_t n = 0;
    MP_ENSURE(waits && ready.items, r->err, MP_NOMEM, "no memory for a graph of %zu nodes", r->n);
    for (size_t k = 0; k < r->n; k++) {
        for (Agedge_t *e = agfstin(r->g, r->nodes[k]); e; e = agnxtin(r->g, e)) {
            MP_ENSURE(agtail(e) != r->nodes[k], r->err, MP_PARSE, "node '%.120s' reads its own output", agnameof(r->nodes[k]));
            waits[k]++;
        }
        if (!waits[k]) mp_heap_push(&ready, (int64_t)k, (int)k);
    }
    while (ready.n > 0) {
        int k = mp_heap_pop(&ready);
        r->index_of_rank[n++] = k;
        for (Agedge_t *e = agfstout(r->g, r->nodes[k]); e; e = agnxtout(r->g, e)) {
            int reader = index_of(aghead(e));
            if (--waits[reader] == 0) mp_heap_push(&ready, reader, reader);
        }
    }
    for (size_t k = 0; n < r->n && k < r->n; k++)
        MP_ENSURE(waits[k] == 0, r->err, MP_PARSE, "node '%.120s' is on a cycle of edges, or depends on one",
                  agnameof(r->nodes[k]));
    return MP_OK;
}

/* ---- the graph ---- */

static char *copy_name(reader *r, const char *name)
{
    return mp_pool_text(r->graph->pool, name, strlen(name));
}

static mp_status add_node(reader *r, size_t place, int *place_of, int *reads, int *seen)
{
    Agnode_t *node = r->nodes[r->index_of_rank[place]];
    mp_storage *s;
    mp_node *n;
    mp_phase phase = MP_PHASE_FORWARD;
    const int written = (int)place;
    size_t n_reads = 0;
    place_of[r->index_of_rank[place]] = written;
    MP_CHECK(phase_of(node, &phase, r->err));
    MP_CHECK(mp_graph_storage(r->graph, &s, r->err));
    MP_CHECK(bytes_of(node, "bytes", true, &s->bytes, r->err));
    s->payload_bytes = s->bytes;
    s->kind = phase == MP_PHASE_BACKWARD || phase == MP_PHASE_UPDATE ? MP_KIND_ACTIVATION_GRADIENT : MP_KIND_ACTIVATION;
    MP_CHECK(mp_graph_node(r->graph, &n, r->err));
    n->phase = phase;
    s->name = n->name = copy_name(r, agnameof(node));
    MP_CHECK(bytes_of(node, "workspace", false, &n->alternatives[0].workspace_bytes, r->err));
    MP_CHECK(read_seconds(node, &r->seconds[place], r->err));
    for (Agedge_t *e = agfstin(r->g, node); e;
         e = agnxtin(r->g, e)) { /* several edges between the same two nodes of the DOT graph count as one read */
        int from = place_of[index_of(agtail(e))];
        if (seen[from] == written + 1) continue;
        seen[from] = written + 1;
        reads[n_reads++] = from;
    }
    n->alternatives[0].reads = mp_graph_list(r->graph, reads, n->alternatives[0].n_reads = n_reads);
    n->alternatives[0].writes = mp_graph_list(r->graph, &written, n->alternatives[0].n_writes = 1);
    MP_ENSURE(s->name && n->alternatives[0].reads && n->alternatives[0].writes, r->err, MP_NOMEM,
              "no memory for a graph of %zu nodes", r->n);
    return MP_OK;
}

static mp_status set_ticks(reader *r)
{
    size_t culprit;
    int64_t *ticks = mp_pool_alloc(r->pool, r->n, sizeof *ticks);
    MP_ENSURE(ticks, r->err, MP_NOMEM, "no memory for a graph of %zu nodes", r->n);
    MP_CHECK(mp_ticks_choose(r->seconds, r->n, &r->graph->tick_seconds, &culprit, r->err));
    MP_CHECK(mp_ticks_convert(r->seconds, r->n, r->graph->tick_seconds, ticks, r->err));
    for (size_t k = 0; k < r->n; k++) r->graph->nodes[k].alternatives[0].ticks = ticks[k];
    return MP_OK;
}

static mp_status build(reader *r)
{
    MP_ENSURE(agisdirected(r->g), r->err, MP_PARSE, "the graph is not directed (write digraph and ->)");
    MP_CHECK(list_nodes(r));
    MP_CHECK(order_nodes(r));
    MP_CHECK(mp_graph_new("", &r->graph, r->err));
    int *place_of = mp_pool_alloc(r->pool, r->n, sizeof *place_of), *reads = mp_pool_alloc(r->pool, r->n, sizeof *reads);
    int *seen = mp_pool_alloc(r->pool, r->n, sizeof *seen);
    r->graph->name = copy_name(
        r, agnameof(r->g)[0] == '%'
               ? ""
               : agnameof(r->g)); /* if the file states no name for the graph, cgraph invents one that begins with "%" */
    r->graph->fuse = MP_FUSE_BACKWARD;
    MP_ENSURE(!mp_pool_failed(r->pool) && r->graph->name, r->err, MP_NOMEM, "no memory for a graph of %zu nodes", r->n);
    for (size_t place = 0; place < r->n; place++) MP_CHECK(add_node(r, place, place_of, reads, seen));
    MP_CHECK(set_ticks(r));
    return mp_graph_finish(r->graph, r->err);
}

static void reader_free(reader *r)
{
    mp_library_works++;
    if (r->g) agclose(r->g);
    mp_library_works--;
    mp_graph_free(r->graph);
    mp_pool_free(r->pool);
}

mp_status mp_graph_dot_read(const char *path, mp_graph **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_file_close) mp_file file = {0};
    MP_CLEARED_BY(reader_free) reader r = {.err = err};
    MP_OWNED char *text = NULL;
    MP_CHECK(mp_file_open(path, FILE_MAX, &file, err));
    MP_ENSURE(text = mp_alloc(file.size + 1, 1), err, MP_NOMEM, "no memory for a file of %zu bytes", file.size);
    if (file.size) memcpy(text, file.bytes, file.size);
    size_t mark = strncmp(text, "\xef\xbb\xbf", 3)
                      ? 0
                      : 3; /* a byte order mark is skipped, because cgraph would read it as part of a name */
    MP_CHECK(mp_dot_scan(path, text + mark, file.size - mark, err));
    MP_CHECK(parse(path, text + mark, &r.g, err));
    mp_library_works++; /* if cgraph runs out of memory, it may return an incomplete graph without an error */
    const mp_status st = build(&r);
    mp_library_works--;
    MP_CHECK(st);
    *out = r.graph;
    r.graph = NULL;
    return MP_OK;
}
