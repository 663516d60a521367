/* bound_parts.c - a part of a graph as a graph of its own, and the sum over parts that cover the list. */
#include "planner/bound/bound_parts.h"

#include "estimator/base/memory.h"

typedef struct parting {
    const mp_graph *graph;
    int64_t budget_bytes; /* less what is always live */
    mp_bound_options options;
    int *number; /* per storage: in the part, -1: not there */
} parting;

/* The members of a list that are in the part, as it numbers them. */
static mp_status copy_list(mp_graph *part, const parting *p, const int *list, size_t n, int **out, size_t *n_out, mp_error *err)
{
    mp_status st = MP_OK;
    MP_REQUIRE(*out = mp_pool_alloc(part->pool, n, sizeof **out), err, MP_NOMEM, "no memory for a part of %s", p->graph->name);
    for (size_t i = 0; i < n; i++)
        if (p->number[list[i]] >= 0) (*out)[(*n_out)++] = p->number[list[i]];
done:
    return st;
}

static mp_status copy_alternative(mp_graph *part, const parting *p, const mp_alternative *from, mp_alternative *to,
                                  mp_error *err)
{
    mp_status st = MP_OK;
    *to = (mp_alternative){.workspace_bytes = from->workspace_bytes, .ticks = from->ticks, .algorithm = from->algorithm};
    MP_TRY(copy_list(part, p, from->reads, from->n_reads, &to->reads, &to->n_reads, err));
    MP_TRY(copy_list(part, p, from->writes, from->n_writes, &to->writes, &to->n_writes, err));
    MP_REQUIRE(to->in_place = mp_pool_alloc(part->pool, from->n_in_place, sizeof *to->in_place), err, MP_NOMEM,
               "no memory for a part of %s", p->graph->name);
    for (size_t i = 0; i < from->n_in_place; i++) {
        const mp_in_place pair = {p->number[from->in_place[i].from], p->number[from->in_place[i].to]};
        if (pair.from >= 0 && pair.to >= 0) to->in_place[to->n_in_place++] = pair;
    }
done:
    return st;
}

/* The part of nodes [from, to). */
static mp_status take_part(const parting *p, size_t from, size_t to, mp_graph **out, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = p->graph;
    mp_graph *part = NULL;
    MP_TRY(mp_graph_new(graph->name, &part, err));
    part->tick_seconds = graph->tick_seconds;
    for (size_t s = 0; s < graph->n_storages; s++) {
        const int producer = graph->producer[s];
        mp_storage *storage;
        p->number[s] = -1;
        if (producer < (int)from || producer >= (int)to || mp_storage_is_static(&graph->storages[s])) continue;
        p->number[s] = (int)part->n_storages;
        MP_TRY(mp_graph_storage(part, &storage, err));
        storage->name = graph->storages[s].name;
        storage->bytes = storage->payload_bytes = graph->storages[s].bytes;
        storage->kind = graph->storages[s].kind;
    }
    for (size_t v = from; v < to; v++) {
        const mp_node *node = &graph->nodes[v];
        mp_node *copy;
        MP_TRY(mp_graph_node(part, &copy, err));
        copy->name = node->name;
        copy->op = node->op;
        copy->flags = node->flags;
        copy->forward_of = -1;
        copy->n_alternatives = node->n_alternatives;
        MP_REQUIRE(copy->alternatives = mp_pool_alloc(part->pool, node->n_alternatives, sizeof *copy->alternatives), err,
                   MP_NOMEM, "no memory for a part of %s", graph->name);
        for (size_t k = 0; k < node->n_alternatives; k++)
            MP_TRY(copy_alternative(part, p, &node->alternatives[k], &copy->alternatives[k], err));
    }
    MP_TRY(mp_graph_finish(part, err));
    *out = part;
    part = NULL;
done:
    mp_graph_free(part);
    return st;
}

static bool is_plain(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase != MP_PHASE_FORWARD) return false;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->writer[s] >= 0 || graph->storages[s].carried) return false;
    return true;
}

mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, mp_bound_call bound_part,
                            const mp_bound_options *options, int64_t *ticks, bool *infeasible, mp_bound_work *work,
                            mp_error *err)
{
    mp_status st = MP_OK;
    mp_graph *part = NULL;
    mp_bound_report report = {0};
    parting p = {.graph = graph, .budget_bytes = budget_bytes - mp_graph_static_bytes(graph), .options = *options};
    *ticks = 0;
    *infeasible = false;
    if (!is_plain(graph)) return MP_OK;
    p.options.effort = 1;
    p.options.report = &report;
    p.options.off |= 1u << MP_BOUND_FLOOR | 1u << MP_BOUND_BRANCH | 1u << MP_BOUND_COUPLE | 1u << MP_BOUND_OVERLAP;
    MP_REQUIRE(p.number = mp_alloc(graph->n_storages, sizeof *p.number), err, MP_NOMEM, "no memory for a bound of %s",
               graph->name);
    const size_t n_parts = (graph->n_nodes + part_nodes - 1) / part_nodes;
    for (size_t k = 0; k < n_parts && !*infeasible; k++) {
        mp_bound bound;
        if (options->stop && options->stop(options->data)) break;
        mp_graph_free(part);
        part = NULL;
        MP_TRY(take_part(&p, graph->n_nodes * k / n_parts, graph->n_nodes * (k + 1) / n_parts, &part, err));
        mp_bound_report_init(&report);
        MP_TRY(bound_part(part, p.budget_bytes, &p.options, &bound, err));
        for (int s = 0; s < MP_BOUND_N_STAGES; s++) mp_bound_work_add(work, &report.stages[s].work);
        *ticks += bound.infeasible ? 0 : bound.ticks - report.least_ticks;
        *infeasible = bound.infeasible;
        mp_bound_report_clear(&report);
    }
done:
    mp_bound_report_clear(&report);
    mp_graph_free(part);
    mp_free(p.number);
    return st;
}
