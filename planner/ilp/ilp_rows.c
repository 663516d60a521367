/* ilp_rows.c - the rows of the integer programme of recomputation: data flow, and what is live at every node. */
#include "planner/ilp/ilp_build.h"

#include "estimator/base/memory.h"

static mp_status begin_row(mp_ilp_builder *b, int64_t bound, bool memory)
{
    mp_ilp_model *m = b->m;
    if (!mp_grow(&m->rows, &m->rows_capacity, m->n_rows + 1, sizeof *m->rows)) return MP_NO_MEMORY(b->err);
    m->rows[m->n_rows++] = (mp_ilp_row){m->n_entries, 0, bound, memory};
    return MP_OK;
}

/* Adds coefficient * (a column, 0 or 1) to the row begun last. A column stands at most once in a row. */
static mp_status put(mp_ilp_builder *b, int column, int64_t coefficient)
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

/* a <= b + c */
static mp_status at_most(mp_ilp_builder *b, int x, int y, int z)
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
static mp_status add_flow(mp_ilp_builder *b, int i)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    for (int s = 0; s < (int)m->graph->n_storages; s++) {
        const int birth = m->birth[s];
        if (birth < 0 || birth >= m->first[i]) continue;
        const int held = *mp_ilp_held(m, i, s), made = *mp_ilp_run(m, i, birth);
        const int beyond = i + 1 < m->n_stages ? *mp_ilp_held(m, i + 1, s) : MP_ILP_NEVER;
        int next = beyond;
        if (mp_ilp_has_fixed_use(m, i, s, 0)) {
            MP_TRY(at_most(b, MP_ILP_ALWAYS, made, held));
            continue;
        }
        for (int u = m->uses_start[s + 1] - 1; u >= m->uses_start[s]; u--) {
            const int place = m->uses[u], run = place < m->first[i] ? *mp_ilp_run(m, i, place) : -1;
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
static mp_status add_pairs(mp_ilp_builder *b, int i, int place)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    const mp_form *form = mp_ilp_form(m, place);
    const mp_storage *storages = m->graph->storages;
    const size_t before = m->n_columns;
    for (size_t k = 0; k < form->n_in_place; k++) {
        const mp_in_place pair = form->in_place[k];
        int column;
        if (m->birth[pair.from] < 0 || m->birth[pair.to] != place || storages[pair.from].bytes < storages[pair.to].bytes)
            continue;
        if (m->birth[pair.from] >= place || mp_ilp_used_from(m, i, pair.from, place + 1) == MP_ILP_ALWAYS) continue;
        MP_TRY(mp_ilp_add_column(b, (mp_ilp_column){MP_ILP_IN_PLACE, i, place, pair.from, pair.to}, &column));
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
            MP_TRY(put(b, place < m->first[i] ? *mp_ilp_run(m, i, place) : MP_ILP_ALWAYS, -1));
            for (size_t d = c; d < end; d++)
                if (m->columns[d].to == to) MP_TRY(put(b, (int)d, 1));
        }
    }
done:
    return st;
}

/* What is live while the node at `place` runs in stage i. For a node that runs again the row counts, if it does not run, no
 * more than the row of the next that does: all that is counted here is used there or later. */
static mp_status add_memory(mp_ilp_builder *b, int i, int place)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const bool fixed = place >= m->first[i];
    const int run = fixed ? MP_ILP_ALWAYS : *mp_ilp_run(m, i, place);
    int64_t own_bytes = mp_ilp_form(m, place)->workspace_bytes;
    MP_TRY(begin_row(b, 0, true));
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int birth = m->birth[s];
        const int64_t bytes = graph->storages[s].bytes;
        if (birth < 0 || bytes == 0 || (fixed ? birth > place : birth >= m->first[i])) continue;
        const int held = birth < m->first[i] ? *mp_ilp_held(m, i, s) : -1, made = fixed ? -1 : *mp_ilp_run(m, i, birth);
        if (birth == place) own_bytes += bytes;
        if (birth == place && (fixed || held < 0)) continue;
        MP_TRY(put(b, made >= 0 && place <= birth ? held : mp_ilp_used_from(m, i, s, place), bytes));
    }
    MP_TRY(put(b, run, own_bytes));
    MP_TRY(add_pairs(b, i, place));
done:
    return st;
}

/* An update that runs right after this place, fused into backward, and needs room of its own: it does so if nothing it waits
 * for comes later. (Without room of its own it takes no more than the node before it.) */
static mp_status add_memory_of_update(mp_ilp_builder *b, int i, int place, int update)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const mp_form *form = &graph->nodes[update].forms[0];
    const int held_for = b->held_for[update] - 1, run = place >= m->first[i] ? MP_ILP_ALWAYS : *mp_ilp_run(m, i, place);
    int64_t own_bytes = form->workspace_bytes, read_bytes = 0;
    bool waits = held_for >= 0 && m->birth[held_for] == place;
    if (held_for < 0 || own_bytes == 0) return MP_OK;
    for (int u = m->uses_start[held_for]; u < m->uses_start[held_for + 1]; u++) waits |= m->uses[u] == place;
    if (!waits || m->birth[held_for] > (place < m->first[i] ? m->first[i] - 1 : place)) return MP_OK;
    MP_TRY(begin_row(b, 0, true));
    for (int s = 0; s < (int)graph->n_storages; s++) {
        bool reads = false;
        if (m->birth[s] < 0 || (place >= m->first[i] ? m->birth[s] > place : m->birth[s] >= m->first[i])) continue;
        for (size_t r = 0; r < form->n_reads; r++) reads |= form->reads[r] == s;
        if (reads) read_bytes += graph->storages[s].bytes;
        const int birth = m->birth[s], made = birth < m->first[i] ? *mp_ilp_run(m, i, birth) : -1;
        const int beyond = mp_ilp_used_from(m, i, s, place + 1);
        if (!reads) MP_TRY(put(b, made >= 0 && place < birth ? *mp_ilp_held(m, i, s) : beyond, graph->storages[s].bytes));
    }
    MP_TRY(put(b, run, own_bytes + read_bytes));
    MP_TRY(put(b, mp_ilp_used_from(m, i, held_for, place + 1), -own_bytes));
done:
    return st;
}

mp_status mp_ilp_add_rows(mp_ilp_builder *b)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    for (int i = 0; i < m->n_stages; i++) {
        const int end = i + 1 < m->n_stages ? m->first[i + 1] : m->n_places;
        MP_TRY(add_flow(b, i));
        for (int p = 0; p < end; p++)
            if (p >= m->first[i] || *mp_ilp_run(m, i, p) >= 0) {
                MP_TRY(add_memory(b, i, p));
                for (size_t u = 0; u < m->graph->n_nodes && m->graph->fuse == MP_FUSE_BACKWARD; u++)
                    MP_TRY(add_memory_of_update(b, i, p, (int)u));
            }
    }
done:
    return st;
}
