/* part.c - builds the graph of a part (part.h): copies the entries of the whole graph's lists that belong to the part. In a
 * closed part, adds a first and a last node, and ensures that all other nodes run between the two. */
#include "planner/order/part.h"

#include "estimator/graph/liveness.h"

/* A part (part.h: successive nodes of the list as a separate graph) while it is being built. */
typedef struct parting {
    const mp_graph *graph;
    mp_part *part;
    int *number; /* per storage of the whole graph: its index in the part; -1: it is not in the part */
    /* for a closed part. in: the storages that its first node writes. out: the storages that its last node reads */
    int *in, *out;
    size_t n_in, n_out;
    /* a storage of 0 bytes that the first node writes; other nodes read it so that they cannot run before the first node */
    int begins;
} parting;

bool mp_graph_has_parts(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase != MP_PHASE_FORWARD) return false;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->writer[s] >= 0 || graph->storages[s].carried) return false;
    return true;
}

/* ---- storages ---- */

static bool is_inside(const mp_part *part, int node)
{
    return node >= 0 && (size_t)node >= part->from && (size_t)node < part->to;
}

/* Returns the last node of the whole list that reads s; -1: no node reads it. */
static int last_reader(const mp_graph *graph, int s)
{
    const int end = graph->readers_start[s + 1];
    return end > graph->readers_start[s] ? graph->readers[end - 1] : -1;
}

static mp_status add_part_storage(parting *p, const mp_storage *like, int *number, mp_error *err)
{
    mp_storage *storage;
    *number = (int)p->part->graph->n_storages;
    MP_CHECK(mp_graph_storage(p->part->graph, &storage, err));
    storage->name = like ? like->name : "";
    storage->bytes = storage->payload_bytes = like ? like->bytes : 0;
    storage->kind = like ? like->kind : MP_KIND_SAVED;
    return MP_OK;
}

static mp_status add_storages(parting *p, mp_error *err)
{
    const mp_graph *graph = p->graph;
    const int from = (int)p->part->from, to = (int)p->part->to;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int producer = graph->producer[s], last = last_reader(graph, s);
        const bool crosses_in = p->part->is_closed && producer < from && last >= from;
        p->number[s] = -1;
        if (producer < 0 || producer >= to || mp_storage_is_static(&graph->storages[s])) continue;
        if (producer < from && !crosses_in) continue;
        MP_CHECK(add_part_storage(p, &graph->storages[s], &p->number[s], err));
        if (crosses_in) p->in[p->n_in++] = p->number[s];
        if (p->part->is_closed && last >= to) p->out[p->n_out++] = p->number[s];
    }
    if (p->part->is_closed) MP_CHECK(add_part_storage(p, NULL, &p->begins, err));
    return MP_OK;
}

/* ---- nodes ---- */

/* True if this node runs after the part's first node in every order of the part. Otherwise the node must read the additional
 * storage `begins` of 0 bytes. */
static bool certainly_begins(const parting *p, const mp_node *node)
{
    bool reads = false;
    for (size_t k = 0; k < node->alternatives[0].n_reads; k++) reads |= p->number[node->alternatives[0].reads[k]] >= 0;
    return reads && node->n_alternatives == 1;
}

/* True if this node runs before the part's last node in every order of the part. Otherwise the node must write an additional
 * storage of 0 bytes, which the last node reads. */
static bool certainly_ends(const parting *p, const mp_node *node)
{
    const mp_graph *graph = p->graph;
    bool is_read = false;
    for (size_t k = 0; k < node->alternatives[0].n_writes; k++) {
        const int s = node->alternatives[0].writes[k];
        if (p->number[s] < 0) continue; /* static storage */
        is_read |= last_reader(graph, s) >= (int)p->part->to;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
            is_read |= is_inside(p->part, graph->readers[r]) && graph->nodes[graph->readers[r]].n_alternatives == 1;
    }
    return is_read && node->n_alternatives == 1;
}

/* Converts a list of storages of the whole graph to the part's numbers, and omits storages outside of the part. Appends the
 * part's storage `more` (-1: none). */
static mp_status copy_list(const parting *p, const int *list, size_t n, int more, int **out, size_t *n_out, mp_error *err)
{
    MP_ENSURE(*out = mp_pool_alloc(p->part->graph->pool, n + 1, sizeof **out), err, MP_NOMEM, "no memory for a part of %s",
              p->graph->name);
    for (size_t i = 0; i < n; i++)
        if (p->number[list[i]] >= 0) (*out)[(*n_out)++] = p->number[list[i]];
    if (more >= 0) (*out)[(*n_out)++] = more;
    return MP_OK;
}

static mp_status copy_alternative(const parting *p, const mp_alternative *from, int begins, int ends, mp_alternative *to,
                                  mp_error *err)
{
    *to = (mp_alternative){.workspace_bytes = from->workspace_bytes, .ticks = from->ticks, .algorithm = from->algorithm};
    MP_CHECK(copy_list(p, from->reads, from->n_reads, begins, &to->reads, &to->n_reads, err));
    MP_CHECK(copy_list(p, from->writes, from->n_writes, ends, &to->writes, &to->n_writes, err));
    return mp_in_place_copy(p->part->graph, from, p->number, to, err);
}

static mp_status add_node(parting *p, const mp_node *node, mp_error *err)
{
    mp_graph *graph = p->part->graph;
    int begins = -1, ends = -1;
    mp_node *copy;
    if (p->part->is_closed && !certainly_begins(p, node)) begins = p->begins;
    if (p->part->is_closed && !certainly_ends(p, node)) {
        MP_CHECK(add_part_storage(p, NULL, &ends, err));
        p->out[p->n_out++] = ends;
    }
    MP_CHECK(mp_graph_node(graph, &copy, err));
    copy->name = node->name;
    copy->op = node->op;
    copy->flags = node->flags;
    copy->forward_of = -1;
    copy->n_alternatives = node->n_alternatives;
    MP_ENSURE(copy->alternatives = mp_pool_alloc(graph->pool, node->n_alternatives, sizeof *copy->alternatives), err, MP_NOMEM,
              "no memory for a part of %s", graph->name);
    for (size_t k = 0; k < node->n_alternatives; k++)
        MP_CHECK(copy_alternative(p, &node->alternatives[k], begins, ends, &copy->alternatives[k], err));
    return MP_OK;
}

/* Adds the first node or the last node of a closed part. The first node (`writes`) writes the storages that nodes before the
 * part produce. The last node reads the storages that nodes after the part read. */
static mp_status add_end(const parting *p, const char *name, bool writes, const int *storages, size_t n, mp_error *err)
{
    mp_graph *graph = p->part->graph;
    mp_node *node;
    MP_CHECK(mp_graph_node(graph, &node, err));
    node->name = node->op = name;
    node->flags = MP_NODE_ONCE;
    node->forward_of = -1;
    mp_alternative *only = &node->alternatives[0];
    *(writes ? &only->n_writes : &only->n_reads) = n;
    int *list = mp_graph_list(graph, storages, n);
    MP_ENSURE(list, err, MP_NOMEM, "no memory for a part of %s", p->graph->name);
    *(writes ? &only->writes : &only->reads) = list;
    return MP_OK;
}

/* ---- the part ---- */

mp_status mp_part_init(mp_part *part, const mp_graph *graph, size_t from, size_t to, bool is_closed, int *number, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    parting p = {.graph = graph, .part = part, .number = number};
    *part = (mp_part){.from = from, .to = to, .is_closed = is_closed};
    MP_CHECK(mp_graph_new(graph->name, &part->graph, err));
    part->graph->tick_seconds = graph->tick_seconds;
    p.in = mp_pool_alloc(pool, is_closed ? graph->n_storages + 1 : 0, sizeof *p.in);
    p.out = mp_pool_alloc(pool, is_closed ? graph->n_storages + to - from : 0, sizeof *p.out);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a part of %s", graph->name);
    MP_CHECK(add_storages(&p, err));
    if (is_closed) {
        p.in[p.n_in++] = p.begins;
        MP_CHECK(add_end(&p, "first", true, p.in, p.n_in, err));
    }
    for (size_t v = from; v < to; v++) MP_CHECK(add_node(&p, &graph->nodes[v], err));
    if (is_closed) MP_CHECK(add_end(&p, "last", false, p.out, p.n_out, err));
    return mp_graph_finish(part->graph, err);
}

void mp_part_clear(mp_part *part)
{
    mp_graph_free(part->graph);
    *part = (mp_part){0};
}

int mp_part_node(const mp_part *part, int node)
{
    const int inside = node - part->is_closed;
    return inside >= 0 && (size_t)inside < part->to - part->from ? (int)part->from + inside : -1;
}
