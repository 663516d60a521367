/* ilp_plan.c - converts column values of the integer programme to executions of nodes, and executions of nodes back to column
 * values. Computes the recomputations that a given set of resident storages requires. */
#include "planner/ilp/ilp.h"

#include <string.h>

#include "planner/order/updates.h"

static bool is_resident(const mp_ilp_model *m, int stage, int s, const double *x, double threshold)
{
    const int column = stage < m->n_stages ? *mp_ilp_resident(m, stage, s) : -1;
    return column >= 0 && x[column] >= threshold;
}

static void demand(const mp_ilp_model *m, int s, const bool *present, bool *demanded)
{
    const int produced_at = m->produced_at[s];
    if (produced_at >= 0 && !present[s]) demanded[produced_at] = true;
}

static void demand_reads(const mp_ilp_model *m, int place, int before, const bool *present, bool *demanded)
{
    const mp_alternative *base = mp_ilp_base(m, place);
    for (size_t k = 0; k < base->n_reads; k++)
        if (m->produced_at[base->reads[k]] < before) demand(m, base->reads[k], present, demanded);
}

void mp_ilp_complete(const mp_ilp_model *m, const double *x, double threshold, bool *runs, bool *present)
{
    const int n_storages = (int)m->graph->n_storages;
    memset(present, 0, (size_t)n_storages * sizeof *present);
    memset(runs, 0, (size_t)m->n_stages * (size_t)m->n_places * sizeof *runs);
    for (int i = 0; i < m->n_stages; i++) {
        bool *demanded = runs + (size_t)i * (size_t)m->n_places;
        const int first = m->first[i], end = m->first[i + 1];
        for (int s = 0; s < n_storages; s++) /* a storage that cannot be recomputed stays resident once it was produced */
            present[s] = present[s] && (!m->repeatable[m->produced_at[s]] || is_resident(m, i, s, x, threshold));
        for (int s = 0; s < n_storages; s++)
            if (m->produced_at[s] < first && is_resident(m, i + 1, s, x, threshold)) demand(m, s, present, demanded);
        for (int p = first; p < end; p++) demand_reads(m, p, first, present, demanded);
        for (int p = first - 1; p >= 0; p--)
            if (demanded[p]) demand_reads(m, p, first, present, demanded);
        for (int p = 0; p < end; p++) {
            const mp_alternative *base = mp_ilp_base(m, p);
            if (p < first && !demanded[p]) continue;
            for (size_t k = 0; k < base->n_writes; k++) present[base->writes[k]] = m->produced_at[base->writes[k]] >= 0;
            for (size_t k = 0; k < base->n_adds; k++) present[base->adds[k]] = m->produced_at[base->adds[k]] >= 0;
        }
    }
}

mp_status mp_ilp_steps(const mp_ilp_model *m, const bool *runs, mp_step **steps, size_t *n, mp_error *err)
{
    MP_OWNED mp_step *list = NULL;
    const size_t n_runs = (size_t)m->n_stages * (size_t)m->n_places;
    size_t n_list = (size_t)m->n_places;
    for (size_t k = 0; k < n_runs; k++) n_list += runs[k];
    MP_ENSURE(list = mp_alloc(n_list, sizeof *list), err, MP_NOMEM, "out of memory for a schedule of %zu steps", n_list);
    n_list = 0;
    for (int i = 0; i < m->n_stages; i++) {
        const bool *again = runs + (size_t)i * (size_t)m->n_places;
        for (int p = 0; p < m->first[i + 1]; p++)
            if (p >= m->first[i] || again[p]) list[n_list++] = (mp_step){.node = m->node[p]};
    }
    return mp_updates_place(m->graph, list, n_list, steps, n, err);
}

/* True if a node that runs in stage i of the integer programme, at `place` or later, uses s. `again` marks the nodes that the
 * stage recomputes. */
static bool is_used(const mp_ilp_model *m, const bool *again, int i, int s, int place)
{
    const int end = mp_ilp_stage_end(m, i);
    for (int u = m->uses_start[s]; u < m->uses_start[s + 1] && m->uses[u] < end; u++)
        if (m->uses[u] >= place && (m->uses[u] >= m->first[i] || again[m->uses[u]])) return true;
    return false;
}

static double resident_value(const mp_ilp_model *m, int stage, int s, const double *x)
{
    const int column = stage < m->n_stages ? *mp_ilp_resident(m, stage, s) : -1;
    return column >= 0 ? x[column] : 0;
}

/* Sets the columns of in-place pairs. The pairs of a node are applied in the order in which the node lists them, unless one of
 * the two storages is already in an applied pair. */
static void fill_pairs(const mp_ilp_model *m, const bool *runs, double *x, bool *taken)
{
    const size_t n_storages = m->graph->n_storages;
    int stage = -1, place = -1;
    for (size_t c = 0; c < m->n_columns; c++) {
        const mp_ilp_column *column = &m->columns[c];
        if (column->kind != MP_ILP_IN_PLACE) continue;
        if (column->stage != stage || column->place != place) memset(taken, 0, 2 * n_storages * sizeof *taken);
        stage = column->stage;
        place = column->place;
        const bool runs_here = place >= m->first[stage] || runs[(size_t)stage * (size_t)m->n_places + (size_t)place];
        const int after = mp_ilp_used_from(m, stage, column->storage, place + 1);
        const bool ends = after == MP_ILP_NEVER || (after >= 0 && x[after] < 0.5);
        bool *from = &taken[column->storage], *to = &taken[n_storages + (size_t)column->to];
        x[c] = runs_here && ends && !*from && !*to;
        if (x[c] > 0) *from = *to = true;
    }
}

bool mp_ilp_columns(const mp_ilp_model *m, const bool *runs, int64_t budget_bytes, double *x, bool *work)
{
    for (size_t c = 0; c < m->n_columns; c++) x[c] = 0;
    for (int i = m->n_stages - 1; i >= 0; i--) {
        const bool *again = runs + (size_t)i * (size_t)m->n_places;
        for (int s = 0; s < (int)m->graph->n_storages; s++) {
            const int column = *mp_ilp_resident(m, i, s);
            if (column >= 0 && !again[m->produced_at[s]])
                x[column] = is_used(m, again, i, s, 0) || resident_value(m, i + 1, s, x) > 0;
        }
    }
    for (size_t c = 0; c < m->n_columns; c++) {
        const mp_ilp_column *column = &m->columns[c];
        const bool *again = runs + (size_t)column->stage * (size_t)m->n_places;
        if (column->kind == MP_ILP_RUN) x[c] = again[column->place];
        if (column->kind == MP_ILP_USED)
            x[c] = is_used(m, again, column->stage, column->storage, column->place) ||
                   resident_value(m, column->stage + 1, column->storage, x) > 0;
    }
    fill_pairs(m, runs, x, work);
    for (size_t r = 0; r < m->n_rows; r++) {
        const mp_ilp_row *row = &m->rows[r];
        int64_t sum = 0;
        for (size_t k = row->start; k < row->start + row->n; k++)
            if (x[m->entries[k].column] > 0) sum += m->entries[k].coefficient;
        if (sum > row->bound + (row->memory ? budget_bytes - m->static_bytes : 0)) return false;
    }
    return true;
}
