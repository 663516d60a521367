/* ilp_model.c - the columns and rows of the integer programme of recomputation. */
#include "planner/ilp.h"

#include <stdlib.h>
#include <string.h>

static mp_status no_memory(const mp_ilp_model *m, mp_error *err)
{
    return MP_FAIL(err, MP_NOMEM, "out of memory for the integer programme of %s", m->graph->name);
}

/* One past the last place of a stage; the last stage has the place after all places besides. */
static int stage_end(const mp_ilp_model *m, int i)
{
    return i + 1 == m->n_stages ? m->n_places + 1 : m->first[i + 1];
}

static const mp_form *form_at(const mp_ilp_model *m, int place)
{
    return &m->graph->nodes[m->node[place]].forms[0];
}

/* ---- births and uses ---- */

typedef struct use {
    int storage, place;
} use;

typedef struct builder {
    mp_ilp_model *m;
    use *uses;
    size_t n_uses, uses_capacity;
    bool *needed; /* per place, for one stage: running it again can be of use */
    mp_error *err;
} builder;

static mp_status add_use(builder *b, int storage, int place)
{
    if (!mp_grow(&b->uses, &b->uses_capacity, b->n_uses + 1, sizeof *b->uses)) return no_memory(b->m, b->err);
    b->uses[b->n_uses++] = (use){storage, place};
    return MP_OK;
}

static int compare_uses(const void *a, const void *b)
{
    const use *x = a, *y = b;
    if (x->storage != y->storage) return x->storage < y->storage ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* An update that is fused into backward waits for the readers of what it writes, so that its gradients are held for them: they
 * count as users of what it reads. Otherwise what updates read is held to the end. */
static mp_status add_uses_of_update(builder *b, const mp_form *update, const int *place_of)
{
    mp_status st = MP_OK;
    const mp_graph *graph = b->m->graph;
    for (size_t r = 0; r < update->n_reads; r++) {
        const int s = update->reads[r];
        if (b->m->birth[s] < 0) continue;
        if (graph->fuse == MP_FUSE_NONE) MP_TRY(add_use(b, s, b->m->n_places));
        for (size_t w = 0; w < update->n_writes && graph->fuse == MP_FUSE_BACKWARD; w++) {
            const int p = update->writes[w];
            for (int k = graph->readers_start[p]; k < graph->readers_start[p + 1]; k++) {
                const int place = place_of[graph->readers[k]];
                if (place < 0) continue;
                const mp_form *form = form_at(b->m, place);
                bool reads = false;
                for (size_t i = 0; i < form->n_reads; i++) reads |= form->reads[i] == p;
                if (reads) MP_TRY(add_use(b, s, place));
            }
        }
    }
done:
    return st;
}

static mp_status collect_uses(builder *b)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    int *place_of = mp_alloc(graph->n_nodes, sizeof *place_of);
    if (!place_of) return no_memory(m, b->err);
    for (size_t s = 0; s < graph->n_storages; s++) m->birth[s] = -1;
    for (size_t i = 0; i < graph->n_nodes; i++) place_of[i] = -1;
    for (int p = 0; p < m->n_places; p++) {
        const mp_form *form = form_at(m, p);
        place_of[m->node[p]] = p;
        for (size_t i = 0; i < form->n_writes + form->n_adds; i++) {
            const int s = i < form->n_writes ? form->writes[i] : form->adds[i - form->n_writes];
            if (mp_storage_is_static(&graph->storages[s])) continue;
            if (m->birth[s] < 0)
                m->birth[s] = p;
            else
                MP_TRY(add_use(b, s, p)); /* a further contribution to a sum */
        }
        for (size_t i = 0; i < form->n_reads; i++)
            if (m->birth[form->reads[i]] >= 0) MP_TRY(add_use(b, form->reads[i], p));
    }
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].carried && m->birth[s] >= 0) MP_TRY(add_use(b, (int)s, m->n_places));
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].phase == MP_PHASE_UPDATE) MP_TRY(add_uses_of_update(b, &graph->nodes[i].forms[0], place_of));
    if (b->n_uses) qsort(b->uses, b->n_uses, sizeof *b->uses, compare_uses);
    m->uses = mp_alloc(b->n_uses, sizeof *m->uses);
    if (!m->uses) {
        st = no_memory(m, b->err);
        goto done;
    }
    size_t n = 0;
    for (size_t s = 0, k = 0; s < graph->n_storages; s++) {
        m->uses_start[s] = (int)n;
        for (int last = -1; k < b->n_uses && b->uses[k].storage == (int)s; k++) {
            if (b->uses[k].place != last) m->uses[n++] = b->uses[k].place;
            last = b->uses[k].place;
        }
    }
    m->uses_start[graph->n_storages] = (int)n;
done:
    mp_free(place_of);
    return st;
}

/* ---- columns ---- */

static int *run_of(const mp_ilp_model *m, int stage, int place)
{
    return &m->run[(size_t)stage * (size_t)m->n_places + (size_t)place];
}
static int *held_of(const mp_ilp_model *m, int stage, int storage)
{
    return &m->held[(size_t)stage * m->graph->n_storages + (size_t)storage];
}
static int *used_of(const mp_ilp_model *m, int stage, int storage)
{
    return &m->used[(size_t)stage * m->graph->n_storages + (size_t)storage];
}

static bool has_fixed_use(const mp_ilp_model *m, int i, int s, int place)
{
    const int from = place > m->first[i] ? place : m->first[i], end = stage_end(m, i);
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1]; u++)
        if (m->uses[u] >= from && m->uses[u] < end) return true;
    return false;
}

int mp_ilp_used_from(const mp_ilp_model *m, int i, int s, int place)
{
    int column = *used_of(m, i, s);
    if (has_fixed_use(m, i, s, place)) return MP_ILP_ALWAYS;
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1] && m->uses[u] < m->first[i]; u++) {
        if (*run_of(m, i, m->uses[u]) < 0) continue;
        if (m->uses[u] >= place) return column;
        column++;
    }
    return i + 1 < m->n_stages && *held_of(m, i + 1, s) >= 0 ? *held_of(m, i + 1, s) : MP_ILP_NEVER;
}

static mp_status add_column(builder *b, mp_ilp_column column, int *index)
{
    mp_ilp_model *m = b->m;
    if (!mp_grow(&m->columns, &m->columns_capacity, m->n_columns + 1, sizeof *m->columns)) return no_memory(m, b->err);
    *index = (int)m->n_columns;
    m->columns[m->n_columns++] = column;
    return MP_OK;
}

/* Whether an instance of s can be of use in stage i or later, with what may run again there. */
static bool is_wanted(const builder *b, int i, int s)
{
    const mp_ilp_model *m = b->m;
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1]; u++) {
        const int place = m->uses[u];
        if (place >= m->first[i] || (m->again[place] && b->needed[place])) return true;
    }
    return false;
}

static mp_status add_decisions(builder *b, int i)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    for (int p = m->first[i] - 1; p >= 0; p--) {
        const mp_form *form = form_at(m, p);
        b->needed[p] = false;
        for (size_t w = 0; w < form->n_writes && m->again[p] && !b->needed[p]; w++)
            b->needed[p] = m->birth[form->writes[w]] >= 0 && is_wanted(b, i, form->writes[w]);
    }
    for (int p = 0; p < m->first[i]; p++)
        if (b->needed[p]) MP_TRY(add_column(b, (mp_ilp_column){.kind = MP_ILP_RUN, .stage = i, .place = p}, run_of(m, i, p)));
    for (int s = 0; s < (int)m->graph->n_storages; s++)
        if (m->birth[s] >= 0 && m->birth[s] < m->first[i] && is_wanted(b, i, s))
            MP_TRY(add_column(b, (mp_ilp_column){.kind = MP_ILP_HELD, .stage = i, .storage = s}, held_of(m, i, s)));
done:
    return st;
}

static mp_status add_used(builder *b, int i)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    for (int s = 0; s < (int)m->graph->n_storages; s++) {
        if (m->birth[s] < 0 || m->birth[s] >= m->first[i] || has_fixed_use(m, i, s, 0)) continue;
        for (int u = m->uses_start[s]; u < m->uses_start[s + 1] && m->uses[u] < m->first[i]; u++) {
            int column;
            if (*run_of(m, i, m->uses[u]) < 0) continue;
            MP_TRY(add_column(b, (mp_ilp_column){.kind = MP_ILP_USED, .stage = i, .place = m->uses[u], .storage = s}, &column));
            if (*used_of(m, i, s) < 0) *used_of(m, i, s) = column;
        }
    }
done:
    return st;
}

/* ---- rows ---- */

static mp_status begin_row(builder *b, int64_t bound, bool memory)
{
    mp_ilp_model *m = b->m;
    if (!mp_grow(&m->rows, &m->rows_capacity, m->n_rows + 1, sizeof *m->rows)) return no_memory(m, b->err);
    m->rows[m->n_rows++] = (mp_ilp_row){m->n_entries, 0, bound, memory};
    return MP_OK;
}

/* Adds coefficient * (a column, 0 or 1) to the row begun last. A column stands at most once in a row. */
static mp_status put(builder *b, int column, int64_t coefficient)
{
    mp_ilp_model *m = b->m;
    mp_ilp_row *row = &m->rows[m->n_rows - 1];
    if (column == MP_ILP_ALWAYS) row->bound -= coefficient;
    if (column < 0 || coefficient == 0) return MP_OK;
    if (!mp_grow(&m->entries, &m->entries_capacity, m->n_entries + 1, sizeof *m->entries)) return no_memory(m, b->err);
    m->entries[m->n_entries++] = (mp_ilp_entry){column, coefficient};
    row->n++;
    return MP_OK;
}

/* a <= b + c */
static mp_status at_most(builder *b, int x, int y, int z)
{
    mp_status st = MP_OK;
    MP_TRY(begin_row(b, 0, false));
    MP_TRY(put(b, x, 1));
    MP_TRY(put(b, y, -1));
    MP_TRY(put(b, z, -1));
done:
    return st;
}

/* What is read is there, what is held was there or is made, and what is used later is used now. */
static mp_status add_flow(builder *b, int i)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    for (int s = 0; s < (int)m->graph->n_storages; s++) {
        const int birth = m->birth[s];
        if (birth < 0 || birth >= m->first[i]) continue;
        const int held = *held_of(m, i, s), made = *run_of(m, i, birth);
        const int beyond = i + 1 < m->n_stages ? *held_of(m, i + 1, s) : MP_ILP_NEVER;
        int next = beyond;
        if (has_fixed_use(m, i, s, 0)) {
            MP_TRY(at_most(b, MP_ILP_ALWAYS, made, held));
            continue;
        }
        for (int u = m->uses_start[s + 1] - 1; u >= m->uses_start[s]; u--) {
            const int place = m->uses[u], run = place < m->first[i] ? *run_of(m, i, place) : -1;
            if (run < 0) continue;
            const int used = mp_ilp_used_from(m, i, s, place);
            MP_TRY(at_most(b, run, made, held));
            MP_TRY(at_most(b, run, used, MP_ILP_NEVER));
            if (next >= 0) MP_TRY(at_most(b, next, used, MP_ILP_NEVER));
            next = used;
        }
        if (beyond >= 0) MP_TRY(at_most(b, beyond, made, held));
    }
done:
    return st;
}

/* The in-place pairs of the node at a place: their columns with what they save go into the memory row begun last; how they
 * exclude each other into rows after it. */
static mp_status add_pairs(builder *b, int i, int place)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    const mp_form *form = form_at(m, place);
    const mp_storage *storages = m->graph->storages;
    const size_t before = m->n_columns;
    for (size_t k = 0; k < form->n_in_place; k++) {
        const mp_in_place pair = form->in_place[k];
        int column;
        if (m->birth[pair.from] < 0 || m->birth[pair.to] != place || storages[pair.from].bytes < storages[pair.to].bytes)
            continue;
        if (m->birth[pair.from] >= place || mp_ilp_used_from(m, i, pair.from, place + 1) == MP_ILP_ALWAYS) continue;
        MP_TRY(add_column(b, (mp_ilp_column){MP_ILP_IN_PLACE, i, place, pair.from, pair.to}, &column));
        MP_TRY(put(b, column, -storages[pair.to].bytes));
    }
    const size_t end = m->n_columns;
    for (size_t c = before; c < end; c++) {
        const int from = m->columns[c].storage, to = m->columns[c].to;
        bool first_from = true, first_to = true;
        for (size_t d = before; d < c; d++) {
            first_from &= m->columns[d].storage != from;
            first_to &= m->columns[d].to != to;
        }
        if (first_from) {
            MP_TRY(begin_row(b, 1, false));
            MP_TRY(put(b, mp_ilp_used_from(m, i, from, place + 1), 1));
            for (size_t d = c; d < end; d++)
                if (m->columns[d].storage == from) MP_TRY(put(b, (int)d, 1));
        }
        if (first_to) {
            MP_TRY(begin_row(b, 0, false));
            MP_TRY(put(b, place < m->first[i] ? *run_of(m, i, place) : MP_ILP_ALWAYS, -1));
            for (size_t d = c; d < end; d++)
                if (m->columns[d].to == to) MP_TRY(put(b, (int)d, 1));
        }
    }
done:
    return st;
}

/* What is live while the node at `place` runs in stage i. For a node that runs again the row counts, if it does not run, no
 * more than the row of the next that does: all that is counted here is used there or later. */
static mp_status add_memory(builder *b, int i, int place)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const bool fixed = place >= m->first[i];
    const int run = fixed ? MP_ILP_ALWAYS : *run_of(m, i, place);
    int64_t own_bytes = form_at(m, place)->workspace_bytes;
    MP_TRY(begin_row(b, 0, true));
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int birth = m->birth[s];
        const int64_t bytes = graph->storages[s].bytes;
        if (birth < 0 || bytes == 0 || (fixed ? birth > place : birth >= m->first[i])) continue;
        const int held = birth < m->first[i] ? *held_of(m, i, s) : -1, made = fixed ? -1 : *run_of(m, i, birth);
        if (birth == place) own_bytes += bytes;
        if (birth == place && (fixed || held < 0)) continue;
        MP_TRY(put(b, made >= 0 && place <= birth ? held : mp_ilp_used_from(m, i, s, place), bytes));
    }
    MP_TRY(put(b, run, own_bytes));
    MP_TRY(add_pairs(b, i, place));
done:
    return st;
}

/* ---- the whole ---- */

static mp_status add_stages(builder *b, size_t most_columns)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    for (int i = 0; i < m->n_stages; i++) {
        MP_TRY(add_decisions(b, i));
        MP_REQUIRE(m->n_columns <= most_columns, b->err, MP_NOT_APPLICABLE,
                   "the integer programme of %s has more than %zu columns", m->graph->name, most_columns);
    }
    for (int i = 0; i < m->n_stages; i++) MP_TRY(add_used(b, i));
    MP_REQUIRE(m->n_columns <= most_columns, b->err, MP_NOT_APPLICABLE, "the integer programme of %s has more than %zu columns",
               m->graph->name, most_columns);
    for (int i = 0; i < m->n_stages; i++) {
        const int end = i + 1 < m->n_stages ? m->first[i + 1] : m->n_places;
        MP_TRY(add_flow(b, i));
        for (int p = 0; p < end; p++)
            if (p >= m->first[i] || *run_of(m, i, p) >= 0) MP_TRY(add_memory(b, i, p));
    }
done:
    return st;
}

mp_status mp_ilp_model_new(const mp_graph *graph, const int *first, int n_stages, size_t most_columns, mp_ilp_model **out,
                           mp_error *err)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = mp_alloc(1, sizeof *m);
    builder b = {.m = m, .err = err};
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
               "the integer programme of %s has more than %zu columns", graph->name, most_columns);
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
    if (!m->node || !m->first || !m->again || !m->birth || !m->uses_start || !m->run || !m->held || !m->used || !b.needed) {
        st = no_memory(m, err);
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
    MP_TRY(collect_uses(&b));
    MP_TRY(add_stages(&b, most_columns));
    *out = m;
    m = NULL;
done:
    mp_free(b.uses);
    mp_free(b.needed);
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
