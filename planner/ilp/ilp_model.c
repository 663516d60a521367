/* ilp_model.c - the integer programme of recomputation: its stages and columns. */
#include "planner/ilp/ilp_build.h"

#include "estimator/base/memory.h"

#include <string.h>

/* One past the last place of a stage; the last stage has the place after all places besides. */
static int stage_end(const mp_ilp_model *m, int i)
{
    return i + 1 == m->n_stages ? m->n_places + 1 : m->first[i + 1];
}

/* ---- columns ---- */

bool mp_ilp_has_fixed_use(const mp_ilp_model *m, int i, int s, int place)
{
    const int from = place > m->first[i] ? place : m->first[i], end = stage_end(m, i);
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1]; u++)
        if (m->uses[u] >= from && m->uses[u] < end) return true;
    return false;
}

int mp_ilp_used_from(const mp_ilp_model *m, int i, int s, int place)
{
    int column = *mp_ilp_used(m, i, s);
    if (mp_ilp_has_fixed_use(m, i, s, place)) return MP_ILP_ALWAYS;
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1] && m->uses[u] < m->first[i]; u++) {
        if (*mp_ilp_run(m, i, m->uses[u]) < 0) continue;
        if (m->uses[u] >= place) return column;
        column++;
    }
    return i + 1 < m->n_stages && *mp_ilp_held(m, i + 1, s) >= 0 ? *mp_ilp_held(m, i + 1, s) : MP_ILP_NEVER;
}

mp_status mp_ilp_add_column(mp_ilp_builder *b, mp_ilp_column column, int *index)
{
    mp_ilp_model *m = b->m;
    if (!mp_grow(&m->columns, &m->columns_capacity, m->n_columns + 1, sizeof *m->columns)) return MP_NO_MEMORY(b->err);
    *index = (int)m->n_columns;
    m->columns[m->n_columns++] = column;
    return MP_OK;
}

/* Whether an instance of s can be of use in stage i or later, with what may run again there. */
static bool is_wanted(const mp_ilp_builder *b, int i, int s)
{
    const mp_ilp_model *m = b->m;
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1]; u++) {
        const int place = m->uses[u];
        if (place >= m->first[i] || (m->again[place] && b->needed[place])) return true;
    }
    return false;
}

static mp_status add_decisions(mp_ilp_builder *b, int i)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    for (int p = m->first[i] - 1; p >= 0; p--) {
        const mp_form *form = mp_ilp_form(m, p);
        b->needed[p] = false;
        for (size_t w = 0; w < form->n_writes && m->again[p] && !b->needed[p]; w++)
            b->needed[p] = m->birth[form->writes[w]] >= 0 && is_wanted(b, i, form->writes[w]);
    }
    for (int p = 0; p < m->first[i]; p++)
        if (b->needed[p])
            MP_TRY(mp_ilp_add_column(b, (mp_ilp_column){.kind = MP_ILP_RUN, .stage = i, .place = p}, mp_ilp_run(m, i, p)));
    for (int s = 0; s < (int)m->graph->n_storages; s++)
        if (m->birth[s] >= 0 && m->birth[s] < m->first[i] && is_wanted(b, i, s))
            MP_TRY(mp_ilp_add_column(b, (mp_ilp_column){.kind = MP_ILP_HELD, .stage = i, .storage = s}, mp_ilp_held(m, i, s)));
done:
    return st;
}

static mp_status add_used(mp_ilp_builder *b, int i)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    for (int s = 0; s < (int)m->graph->n_storages; s++) {
        if (m->birth[s] < 0 || m->birth[s] >= m->first[i] || mp_ilp_has_fixed_use(m, i, s, 0)) continue;
        for (int u = m->uses_start[s]; u < m->uses_start[s + 1] && m->uses[u] < m->first[i]; u++) {
            int column;
            if (*mp_ilp_run(m, i, m->uses[u]) < 0) continue;
            MP_TRY(mp_ilp_add_column(b, (mp_ilp_column){.kind = MP_ILP_USED, .stage = i, .place = m->uses[u], .storage = s},
                                     &column));
            if (*mp_ilp_used(m, i, s) < 0) *mp_ilp_used(m, i, s) = column;
        }
    }
done:
    return st;
}

/* ---- the whole ---- */

static mp_status add_stages(mp_ilp_builder *b, size_t most_columns)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    for (int i = 0; i < m->n_stages; i++) {
        MP_TRY(add_decisions(b, i));
        MP_REQUIRE(m->n_columns <= most_columns, b->err, MP_NOT_APPLICABLE,
                   "%s is too large for an integer programme of %zu columns", m->graph->name, most_columns);
    }
    for (int i = 0; i < m->n_stages; i++) MP_TRY(add_used(b, i));
    MP_REQUIRE(m->n_columns <= most_columns, b->err, MP_NOT_APPLICABLE,
               "%s is too large for an integer programme of %zu columns", m->graph->name, most_columns);
    MP_TRY(mp_ilp_add_rows(b));
done:
    return st;
}

mp_status mp_ilp_model_new(const mp_graph *graph, const int *first, int n_stages, size_t most_columns, mp_ilp_model **out,
                           mp_error *err)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = mp_alloc(1, sizeof *m);
    mp_ilp_builder b = {.m = m, .err = err};
    bool backward = false;
    if (!m) return MP_FAIL(err, MP_NOMEM, "out of memory for the integer programme of %s", graph->name);
    m->graph = graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        m->n_places += graph->nodes[i].phase != MP_PHASE_UPDATE;
        backward |= graph->nodes[i].phase == MP_PHASE_BACKWARD;
    }
    MP_REQUIRE(backward, err, MP_NOT_APPLICABLE, "%s has no backward phase to recompute for", graph->name);
    m->n_stages = first ? n_stages : m->n_places;
    /* the maps alone take more than columns do */
    MP_REQUIRE((size_t)m->n_stages <= 64 * most_columns / (graph->n_nodes + graph->n_storages) + 1, err, MP_NOT_APPLICABLE,
               "%s is too large for an integer programme of %zu columns", graph->name, most_columns);
    const size_t stages = (size_t)m->n_stages, places = (size_t)m->n_places, storages = graph->n_storages;
    m->node = mp_alloc(places, sizeof *m->node);
    m->first = mp_alloc(stages + 1, sizeof *m->first);
    m->again = mp_alloc(places + 1, sizeof *m->again);
    m->birth = mp_alloc(storages, sizeof *m->birth);
    m->uses_start = mp_alloc(storages + 1, sizeof *m->uses_start);
    m->run = mp_alloc(stages * places, sizeof *m->run);
    m->held = mp_alloc(stages * storages, sizeof *m->held);
    m->used = mp_alloc(stages * storages, sizeof *m->used);
    b.needed = mp_alloc(places + 1, sizeof *b.needed);
    b.waits = mp_alloc(2 * places + 2, sizeof *b.waits);
    b.held_for = mp_alloc(graph->n_nodes, sizeof *b.held_for);
    if (!m->node || !m->first || !m->again || !m->birth || !m->uses_start || !m->run || !m->held || !m->used || !b.needed ||
        !b.waits || !b.held_for) {
        st = MP_NO_MEMORY(b.err);
        goto done;
    }
    m->static_bytes = mp_graph_static_bytes(graph);
    for (size_t i = 0, p = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        if (node->phase == MP_PHASE_UPDATE) continue;
        m->again[p] = node->phase == MP_PHASE_FORWARD && !(node->flags & MP_NODE_ONCE);
        m->node[p++] = (int)i;
    }
    for (int i = 0; i < m->n_stages; i++) m->first[i] = first ? first[i] : i;
    m->first[m->n_stages] = m->n_places;
    memset(m->run, -1, stages * places * sizeof *m->run);
    memset(m->held, -1, stages * storages * sizeof *m->held);
    memset(m->used, -1, stages * storages * sizeof *m->used);
    MP_TRY(mp_ilp_collect_uses(&b));
    MP_TRY(add_stages(&b, most_columns));
    *out = m;
    m = NULL;
done:
    mp_free(b.uses);
    mp_free(b.needed);
    mp_free(b.waits);
    mp_free(b.held_for);
    mp_ilp_model_free(m);
    return st;
}

void mp_ilp_model_free(mp_ilp_model *m)
{
    if (!m) return;
    void *blocks[] = {m->node, m->first, m->again, m->birth,   m->uses_start, m->uses,
                      m->run,  m->held,  m->used,  m->columns, m->rows,       m->entries};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mp_free(blocks[i]);
    mp_free(m);
}
