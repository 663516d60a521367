/* ilp_model.c - columns, rows and entries as growing arrays, and from which place on a storage is used. */
#include "planner/ilp/ilp_model.h"

#include "estimator/base/memory.h"

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

mp_status mp_ilp_add_row(mp_ilp_model *m, int64_t bound, bool memory, mp_error *err)
{
    if (!mp_grow(&m->rows, &m->rows_capacity, m->n_rows + 1, sizeof *m->rows)) return MP_NO_MEMORY(err);
    m->rows[m->n_rows++] = (mp_ilp_row){m->n_entries, 0, bound, memory};
    return MP_OK;
}

mp_status mp_ilp_add_entry(mp_ilp_model *m, int column, int64_t coefficient, mp_error *err)
{
    mp_ilp_row *row = &m->rows[m->n_rows - 1];
    if (column == MP_ILP_ALWAYS) row->bound -= coefficient;
    if (column < 0 || coefficient == 0) return MP_OK;
    if (!mp_grow(&m->entries, &m->entries_capacity, m->n_entries + 1, sizeof *m->entries)) return MP_NO_MEMORY(err);
    m->entries[m->n_entries++] = (mp_ilp_entry){column, coefficient};
    row->n++;
    return MP_OK;
}

void mp_ilp_model_free(mp_ilp_model *m)
{
    if (!m) return;
    void *blocks[] = {m->node, m->first,    m->repeatable, m->produced_at, m->uses_start, m->uses,
                      m->run,  m->resident, m->used,       m->columns,     m->rows,       m->entries};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mp_free(blocks[i]);
    mp_free(m);
}
