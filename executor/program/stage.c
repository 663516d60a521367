/* stage.c - cuts a program: keeps the nodes and bindings of one pipeline stage, renumbered to the stage's graph. */
#include "executor/program/stage.h"

#include <string.h>

#include "estimator/parallel/pipeline_flow.h"
#include "executor/program/node_list.h"
#include "executor/program/program_nodes.h"

enum { TAG_FORWARD = 1, TAG_BACKWARD, FIRST_TAG_OF_SUMS };

typedef struct cutter {
    mp_program *program;
    const mp_pipeline *pipeline;
    const mp_rank *rank;
    mp_program_stage *stage;
    mp_error *err;
} cutter;

/* ---- messages between stages ---- */

/* Finds the stages that hold a parameter. The stage numbers must have equal distances, because a message describes them as
 * first, stride and count. */
static mp_status find_holders(const cutter *c, int parameter, mp_stage_message *m)
{
    const mp_graph *g = c->pipeline->graph;
    int last = -1;
    m->n = 0;
    for (int q = 0; q < c->pipeline->n_stages; q++) {
        bool reads = false;
        for (int r = g->readers_start[parameter]; r < g->readers_start[parameter + 1]; r++)
            reads |= mp_flow_needs(c->pipeline->flow, q, g->readers[r]);
        if (!reads) continue;
        if (m->n == 0) m->first = q;
        if (m->n == 1) m->stride = q - last;
        MP_ENSURE(m->n < 2 || q - last == m->stride, c->err, MP_UNSUPPORTED,
                  "%s is shared by stages at uneven distances, which cannot be trained yet; choose other --stages",
                  mp_storage_label(g, parameter).text);
        m->n++;
        last = q;
    }
    return MP_OK;
}

/* Sets the workspace of a node that sums a gradient over n stages. The workspace holds the bytes that the node receives. */
static mp_status take_room(const mp_program *p, mp_node *node, int64_t n, int64_t payload_bytes, mp_error *err)
{
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8;
    const int64_t room = mp_leg_workspace(MP_REDUCE_SCATTER, false, n, payload_bytes / element, element);
    MP_ENSURE(mp_round_up(room, p->backend->alignment, &node->alternatives->workspace_bytes), err, MP_INVALID,
              "%s needs too much workspace", node->name);
    return MP_OK;
}

static mp_status describe_sum(const cutter *c, mp_node *node, mp_stage_message *m)
{
    const int gradient = c->rank->whole_storage[m->storages[0]];
    m->is_sum = true;
    m->tag = FIRST_TAG_OF_SUMS;
    for (int s = 0; s < gradient; s++) m->tag += c->pipeline->flow->summed[s] >= 0;
    MP_ENSURE(m->tag < MP_COMMUNICATOR_TAGS / 2, c->err, MP_UNSUPPORTED,
              "too many parameters are shared by several stages; use fewer stages");
    MP_CHECK(find_holders(c, c->pipeline->flow->summed[gradient], m));
    return take_room(c->program, node, m->n, c->pipeline->graph->storages[gradient].payload_bytes, c->err);
}

mp_status mp_stage_sum_parts(mp_program *p, mp_error *err)
{
    for (size_t v = 0; v < p->n_nodes; v++) {
        const int k = p->stage ? mp_program_binding(p, (int)v)->message : 0;
        mp_stage_message *m = k ? &p->stage->messages[k - 1] : NULL;
        if (!m || !m->is_sum) continue;
        m->storages = p->graph->nodes[v].collective->wholes;
        MP_CHECK(take_room(p, &p->graph->nodes[v], m->n, p->graph->storages[m->storages[0]].payload_bytes, err));
    }
    return MP_OK;
}

static mp_status describe(const cutter *c, int v, mp_stage_message *m)
{
    mp_node *node = &c->rank->graph->nodes[v];
    const mp_collective_record *r = node->collective;
    const int own = c->stage->index;
    const bool is_backward = node->phase != MP_PHASE_FORWARD, sends = !r->receives;
    *m = (mp_stage_message){.n_storages = r->n_moved, .storages = r->wholes, .n = 2, .stride = is_backward ? -1 : 1};
    if (r->legs[0].kind == MP_ALL_REDUCE) return describe_sum(c, node, m);
    m->is_ahead = sends && !is_backward;
    m->first = sends ? own : own - m->stride;
    m->tag = is_backward ? TAG_BACKWARD : TAG_FORWARD;
    return MP_OK;
}

/* Describes the message of each node that the pipeline added, and stores the message's index in the node's binding. */
static mp_status describe_messages(const cutter *c)
{
    mp_program_stage *stage = c->stage;
    for (size_t v = 0; v < c->rank->n_nodes; v++) {
        if (!c->rank->graph->nodes[v].collective || c->rank->whole_node[v] >= 0) continue;
        MP_CHECK(describe(c, (int)v, &stage->messages[stage->n_messages++]));
        c->program->bindings->nodes[v].message = (int)stage->n_messages;
    }
    return MP_OK;
}

const mp_stage_message *mp_program_message(const mp_program *p, int node)
{
    const int k = p->stage && mp_program_has_node(p, node) ? mp_program_binding(p, node)->message : 0;
    return k ? &p->stage->messages[k - 1] : NULL;
}

/* ---- renumbering for the stage ---- */

/* Replaces a storage's number in the whole graph by its number in the stage's graph; -1: the stage lacks the storage. Numbers
 * of constants are unchanged. */
static void renumber(const int *to, int *storage)
{
    if (*storage >= 0) *storage = to[*storage];
}

/* Replaces all storage numbers in bindings and operand slots by the numbers of the stage's graph. */
static mp_status renumber_all(const cutter *c, bool *is_elsewhere)
{
    const mp_program *p = c->program;
    const mp_model *model = p->model;
    mp_bindings *bound = p->bindings;
    MP_OWNED int *to = mp_alloc(c->pipeline->graph->n_storages, sizeof *to);
    if (!to) return MP_NO_MEMORY(c->err);
    memset(to, -1, c->pipeline->graph->n_storages * sizeof *to);
    for (size_t s = 0; s < c->rank->n_storages; s++)
        if (c->rank->whole_storage[s] >= 0) to[c->rank->whole_storage[s]] = (int)s;
    for (size_t t = 0; t < model->n_tensors; t++) {
        const bool was_there = bound->storage[t] >= 0;
        renumber(to, &bound->storage[t]);
        renumber(to, &bound->gradient[t]);
        is_elsewhere[t] = was_there && bound->storage[t] < 0;
    }
    for (size_t k = 0; k < model->n_operators; k++)
        for (int e = 0; e < MP_EXTRAS_MAX; e++) renumber(to, &bound->extras[k][e]);
    renumber(to, &bound->clip);
    for (size_t v = 0; v < p->n_nodes; v++) {
        mp_binding *b = &bound->nodes[v];
        renumber(to, &b->source);
        renumber(to, &b->target);
        renumber(to, &b->state);
        for (size_t k = 0; k < p->nodes[v].n_slots; k++) renumber(to, &p->nodes[v].slots[k].storage);
    }
    return MP_OK;
}

/* Makes the stage's first contribution to a parameter's gradient overwrite the gradient. In the whole network, a node of
 * another stage may have been first. */
static void begin_gradient(const mp_graph *g, int storage, bool *has_begun, uint64_t *adds, uint64_t bit)
{
    if (storage < 0 || g->storages[storage].kind != MP_KIND_GRADIENT) return;
    if (!has_begun[storage]) *adds &= ~bit;
    has_begun[storage] = true;
}

static mp_status begin_gradients(const cutter *c)
{
    mp_program *p = c->program;
    const mp_graph *g = c->rank->graph;
    MP_OWNED bool *has_begun = mp_alloc(g->n_storages, sizeof *has_begun);
    if (!has_begun) return MP_NO_MEMORY(c->err);
    for (size_t v = 0; v < p->n_nodes; v++) {
        mp_binding *b = &p->bindings->nodes[v];
        if (b->task == MP_TASK_ACCUMULATE) begin_gradient(g, b->target, has_begun, &b->adds, 1);
        for (int i = b->from; b->task == MP_TASK_BACKWARD && i < b->to && i < 64; i++) {
            const int input = p->model->operators[b->op].in[i];
            const uint64_t bit = UINT64_C(1) << i;
            if (b->targets & bit) begin_gradient(g, p->bindings->gradient[input], has_begun, &b->adds, bit);
        }
    }
    return MP_OK;
}

/* Lists for each node of the whole graph its index in the stage's graph; -1: another stage runs the node. */
static mp_status list_numbers(const cutter *c, int **out)
{
    int *number = *out = mp_alloc(c->program->n_nodes, sizeof *number);
    if (!number) return MP_NO_MEMORY(c->err);
    memset(number, -1, c->program->n_nodes * sizeof *number);
    for (size_t v = 0; v < c->rank->n_nodes; v++)
        if (c->rank->whole_node[v] >= 0) number[c->rank->whole_node[v]] = (int)v;
    return MP_OK;
}

mp_status mp_program_cut(mp_program *p, const mp_pipeline *pipeline, int index, mp_rank *out, mp_error *err)
{
    MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
    MP_OWNED int *number = NULL;
    MP_CHECK(mp_pipeline_rank_graph(pipeline, index, &rank, err));
    mp_program_stage *stage = mp_pool_alloc(p->pool, 1, sizeof *stage);
    bool *is_elsewhere = mp_pool_alloc(p->pool, p->model->n_tensors, sizeof *is_elsewhere);
    mp_stage_message *messages = mp_pool_alloc(p->pool, rank.n_nodes, sizeof *messages);
    const cutter c = {.program = p, .pipeline = pipeline, .rank = &rank, .stage = stage, .err = err};
    if (!stage || !is_elsewhere || !messages) return MP_NO_MEMORY(err);
    *stage = (mp_program_stage){.shape = pipeline->shape,
                                .index = index,
                                .held = rank.held,
                                .send_buffer = rank.send_buffer,
                                .is_elsewhere = is_elsewhere,
                                .messages = messages};
    memcpy(stage->whole_hash, p->graph->hash, sizeof stage->whole_hash);
    MP_CHECK(list_numbers(&c, &number));
    MP_CHECK(mp_node_list_renumber(p, number, rank.n_nodes, err));
    MP_CHECK(renumber_all(&c, is_elsewhere));
    MP_CHECK(begin_gradients(&c));
    MP_CHECK(describe_messages(&c));
    p->stage = stage;
    p->mesh = pipeline->ranks->mesh;
    MP_CHECK(mp_graph_hash(rank.graph, rank.graph->hash, err));
    mp_graph_free(p->graph);
    p->graph = rank.graph;
    *out = rank;
    rank = (mp_rank){0};
    return MP_OK;
}
