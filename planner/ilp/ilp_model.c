/* ilp_model.c - stores the columns, rows and coefficients of the integer programme in growing arrays. Some rows state that a
 * storage that is read is resident or recomputed. The memory rows state that the live bytes at each node fit in the budget. */
#include "planner/ilp/ilp.h"

#include "estimator/base/list.h"
#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"

int mp_ilp_stage_end(const mp_ilp_model *m, int i)
{
    return i + 1 == m->n_stages ? m->n_places + 1 : m->first[i + 1];
}

bool mp_ilp_has_fixed_use(const mp_ilp_model *m, int i, int s, int place)
{
    const int from = place > m->first[i] ? place : m->first[i], end = mp_ilp_stage_end(m, i);
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
    return i + 1 < m->n_stages && *mp_ilp_resident(m, i + 1, s) >= 0 ? *mp_ilp_resident(m, i + 1, s) : MP_ILP_NEVER;
}

mp_status mp_ilp_add_column(mp_ilp_model *m, mp_ilp_column column, int *index, mp_error *err)
{
    if (!mp_grow(&m->columns, &m->columns_capacity, m->n_columns + 1, sizeof *m->columns)) return MP_NO_MEMORY(err);
    *index = (int)m->n_columns;
    m->columns[m->n_columns++] = column;
    return MP_OK;
}

void mp_ilp_model_free(mp_ilp_model *m)
{
    if (!m) return;
    mp_free(m->columns);
    mp_free(m->rows);
    mp_free(m->entries);
    mp_pool_free(m->pool);
    mp_free(m);
}

typedef struct builder {
    mp_ilp_model *m;
    const int *resident_for;
    mp_error *err;
} builder;

static mp_status begin_row(builder *b, int64_t bound, bool memory)
{
    mp_ilp_model *m = b->m;
    if (!mp_grow(&m->rows, &m->rows_capacity, m->n_rows + 1, sizeof *m->rows)) return MP_NO_MEMORY(b->err);
    m->rows[m->n_rows++] = (mp_ilp_row){m->n_entries, 0, bound, memory};
    return MP_OK;
}

/* Adds coefficient * column to the last row. The row must not contain the column yet. The column MP_ILP_NEVER stands for 0,
 * MP_ILP_ALWAYS for 1. */
static mp_status put(builder *b, int column, int64_t coefficient)
{
    mp_ilp_model *m = b->m;
    mp_ilp_row *row = &m->rows[m->n_rows - 1];
    if (column == MP_ILP_ALWAYS) row->bound -= coefficient;
    if (column < 0 || coefficient == 0) return MP_OK;
    if (!mp_grow(&m->entries, &m->entries_capacity, m->n_entries + 1, sizeof *m->entries)) return MP_NO_MEMORY(b->err);
    m->entries[m->n_entries++] = (mp_ilp_entry){column, coefficient};
    row->n++;
    return MP_OK;
}

/* Adds the constraint x <= y + z on three columns as a row. */
static mp_status at_most(builder *b, int x, int y, int z)
{
    MP_CHECK(begin_row(b, 0, false));
    MP_CHECK(put(b, x, 1));
    MP_CHECK(put(b, y, -1));
    return put(b, z, -1);
}

/* Adds two kinds of rows for stage i of the integer programme. The first states: if a storage is read in the stage or resident
 * at its end, then it is resident at its begin or recomputed. The second states: if the L column of a storage is 1 at a place,
 * it is 1 at every earlier place of the stage. */
static mp_status add_flow(builder *b, int i)
{
    const mp_ilp_model *m = b->m;
    for (int s = 0; s < (int)m->graph->n_storages; s++) {
        const int produced_at = m->produced_at[s];
        if (produced_at < 0 || produced_at >= m->first[i]) continue;
        const int resident = *mp_ilp_resident(m, i, s), produced = *mp_ilp_run(m, i, produced_at);
        const int beyond = i + 1 < m->n_stages ? *mp_ilp_resident(m, i + 1, s) : MP_ILP_NEVER;
        int next = beyond;
        if (mp_ilp_has_fixed_use(m, i, s, 0)) {
            MP_CHECK(at_most(b, MP_ILP_ALWAYS, produced, resident));
            continue;
        }
        for (int u = m->uses_start[s + 1] - 1; u >= m->uses_start[s]; u--) {
            const int place = m->uses[u], run = place < m->first[i] ? *mp_ilp_run(m, i, place) : -1;
            if (run < 0) continue;
            const int used = mp_ilp_used_from(m, i, s, place);
            MP_CHECK(at_most(b, run, produced, resident));
            MP_CHECK(at_most(b, run, used, MP_ILP_NEVER));
            if (next >= 0) MP_CHECK(at_most(b, next, used, MP_ILP_NEVER));
            next = used;
        }
        if (beyond >= 0) MP_CHECK(at_most(b, beyond, produced, resident));
    }
    return MP_OK;
}

/* Adds the columns of the in-place pairs of the node at `place`, in stage i of the integer programme. Each column subtracts the
 * saved bytes in the last row, which is the memory row of the node. Additional rows allow each storage in at most one pair. */
static mp_status add_pairs(builder *b, int i, int place)
{
    mp_ilp_model *m = b->m;
    const mp_alternative *base = mp_ilp_base(m, place);
    const mp_storage *storages = m->graph->storages;
    const size_t before = m->n_columns;
    mp_in_place pair;
    for (size_t at = 0; mp_pair_next(m->graph, base, &at, &pair);) {
        const int from_place = m->produced_at[pair.from];
        int column;
        if (from_place < 0 || from_place >= place || m->produced_at[pair.to] != place) continue;
        if (mp_ilp_used_from(m, i, pair.from, place + 1) == MP_ILP_ALWAYS) continue;
        MP_CHECK(mp_ilp_add_column(m, (mp_ilp_column){MP_ILP_IN_PLACE, i, place, pair.from, pair.to}, &column, b->err));
        MP_CHECK(put(b, column, -storages[pair.to].bytes));
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
            MP_CHECK(begin_row(b, 1, false));
            MP_CHECK(put(b, mp_ilp_used_from(m, i, from, place + 1), 1));
            for (size_t d = c; d < end; d++)
                if (m->columns[d].storage == from) MP_CHECK(put(b, (int)d, 1));
        }
        if (first_to) {
            MP_CHECK(begin_row(b, 0, false));
            MP_CHECK(put(b, place < m->first[i] ? *mp_ilp_run(m, i, place) : MP_ILP_ALWAYS, -1));
            for (size_t d = c; d < end; d++)
                if (m->columns[d].to == to) MP_CHECK(put(b, (int)d, 1));
        }
    }
    return MP_OK;
}

/* Adds the memory row of the node at `place`, in stage i of the integer programme. The row also exists for a node that may be
 * recomputed. Without this recomputation, the memory row of the next node that runs implies the row. The reason: that node or
 * later nodes use all storages that the row counts. */
static mp_status add_memory(builder *b, int i, int place)
{
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const bool fixed = place >= m->first[i];
    const int run = fixed ? MP_ILP_ALWAYS : *mp_ilp_run(m, i, place);
    int64_t own_bytes = mp_ilp_base(m, place)->workspace_bytes;
    MP_CHECK(begin_row(b, 0, true));
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int produced_at = m->produced_at[s];
        const int64_t bytes = graph->storages[s].bytes;
        if (produced_at < 0 || bytes == 0 || (fixed ? produced_at > place : produced_at >= m->first[i])) continue;
        const int resident = produced_at < m->first[i] ? *mp_ilp_resident(m, i, s) : -1,
                  produced = fixed ? -1 : *mp_ilp_run(m, i, produced_at);
        if (produced_at == place) own_bytes += bytes;
        if (produced_at == place && (fixed || resident < 0)) continue;
        MP_CHECK(put(b, produced >= 0 && place <= produced_at ? resident : mp_ilp_used_from(m, i, s, place), bytes));
    }
    MP_CHECK(put(b, run, own_bytes));
    return add_pairs(b, i, place);
}

/* Adds the memory row of an update that is fused into backward and has a workspace. The update runs right after `place` if
 * everything for which it waits has run by then. (An update without workspace needs no more memory than the node before it.) */
static mp_status add_memory_of_update(builder *b, int i, int place, int update)
{
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const mp_alternative *base = &graph->nodes[update].alternatives[0];
    const int resident_for = b->resident_for[update] - 1, run = place >= m->first[i] ? MP_ILP_ALWAYS : *mp_ilp_run(m, i, place);
    int64_t own_bytes = base->workspace_bytes, read_bytes = 0;
    bool waits = resident_for >= 0 && m->produced_at[resident_for] == place;
    if (resident_for < 0 || own_bytes == 0) return MP_OK;
    for (int u = m->uses_start[resident_for]; u < m->uses_start[resident_for + 1]; u++) waits |= m->uses[u] == place;
    if (!waits || m->produced_at[resident_for] > (place < m->first[i] ? m->first[i] - 1 : place)) return MP_OK;
    MP_CHECK(begin_row(b, 0, true));
    for (int s = 0; s < (int)graph->n_storages; s++) {
        if (m->produced_at[s] < 0 || (place >= m->first[i] ? m->produced_at[s] > place : m->produced_at[s] >= m->first[i]))
            continue;
        const bool reads = mp_list_has(base->reads, base->n_reads, s);
        if (reads) read_bytes += graph->storages[s].bytes;
        const int produced_at = m->produced_at[s], produced = produced_at < m->first[i] ? *mp_ilp_run(m, i, produced_at) : -1;
        const int beyond = mp_ilp_used_from(m, i, s, place + 1);
        if (!reads)
            MP_CHECK(
                put(b, produced >= 0 && place < produced_at ? *mp_ilp_resident(m, i, s) : beyond, graph->storages[s].bytes));
    }
    MP_CHECK(put(b, run, own_bytes + read_bytes));
    return put(b, mp_ilp_used_from(m, i, resident_for, place + 1), -own_bytes);
}

mp_status mp_ilp_add_rows(mp_ilp_model *m, const int *resident_for, mp_error *err)
{
    builder b = {m, resident_for, err};
    for (int i = 0; i < m->n_stages; i++) {
        const int end = i + 1 < m->n_stages ? m->first[i + 1] : m->n_places;
        MP_CHECK(add_flow(&b, i));
        for (int p = 0; p < end; p++)
            if (p >= m->first[i] || *mp_ilp_run(m, i, p) >= 0) {
                MP_CHECK(add_memory(&b, i, p));
                for (size_t u = 0; u < m->graph->n_nodes; u++) MP_CHECK(add_memory_of_update(&b, i, p, (int)u));
            }
    }
    return MP_OK;
}
