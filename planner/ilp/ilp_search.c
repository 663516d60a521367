/* ilp_search.c - branch and bound over the integer programme, by GLPK. The struct `search` owns everything that must be freed
 * after an error in GLPK. GLPK accepts a start solution without a check. So a start solution is first checked against all rows
 * in integer arithmetic. Each integer solution of GLPK is converted to a plan, which the timeline judges. Solutions of
 * relaxations are rounded to plans and judged as well. */
#include "planner/ilp/ilp.h"

#include <math.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "estimator/base/integers.h"
#include "planner/math/linear.h"

#include <glpk.h>

typedef struct search {
    const mp_ilp_model *m;
    const mp_ilp_limits *limits;
    mp_ilp_result *result;
    int64_t budget_bytes, ticks_unit, base_ticks;
    /* start: clock time in seconds at which the search began. incumbent: GLPK's objective value of the last integer solution
     * that was judged */
    double start, incumbent;
    bool useless; /* true: it is proved that no plan has fewer than good_ticks ticks, so the search can end */
    mp_status status;
    mp_error *err;
    glp_prob *problem;
    double *x;         /* per column: its value; the array begins at index 0 */
    double *values;    /* per column: its value for GLPK; the array begins at index 1 */
    int *indices;      /* column numbers for GLPK; the array begins at index 1 */
    bool *runs, *last; /* runs: the runs of the plan that is judged now; last: the runs of the plan that was judged before */
    bool *work;
} search;

static bool is_stopped(search *s)
{
    const mp_ilp_limits *limits = s->limits;
    if (s->result->stopped) return true;
    s->result->stopped = (limits->stopped && limits->stopped(limits->data)) ||
                         (limits->seconds > 0 && mp_clock_now() - s->start >= limits->seconds);
    return s->result->stopped;
}

/* Returns the remaining time in milliseconds, in the integer type that GLPK uses. */
static int time_left(const search *s)
{
    if (s->limits->seconds <= 0) return INT32_MAX;
    const double left = 1000 * (s->limits->seconds - (mp_clock_now() - s->start));
    return left < 1 ? 1 : left > 1e9 ? 1000000000 : (int)left;
}

/* ---- plans ---- */

/* Judges the plan of s->runs. */
static mp_status judge(search *s, int64_t *peak_bytes)
{
    mp_ilp_result *best = s->result;
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n = 0;
    MP_CHECK(mp_ilp_steps(s->m, s->runs, &steps, &n, s->err));
    MP_CHECK(mp_timeline_build(s->m->graph, steps, n, &timeline, s->err));
    *peak_bytes = timeline->peak_bytes;
    if (*peak_bytes <= s->budget_bytes && (!best->steps || timeline->ticks < best->ticks ||
                                           (timeline->ticks == best->ticks && timeline->peak_bytes < best->peak_bytes))) {
        mp_free(best->steps);
        best->steps = steps;
        best->n = n;
        best->peak_bytes = timeline->peak_bytes;
        best->ticks = timeline->ticks;
        steps = NULL;
    }
    return MP_OK;
}

/* Rounds the values of the RESIDENT columns: a storage with a value >= threshold is kept resident. Builds and judges the plan.
 * Returns false if the plan equals the plan judged before, or exceeds the budget. */
static bool round_to_plan(search *s, double threshold)
{
    int64_t peak_bytes = 0;
    const size_t n = (size_t)s->m->n_stages * (size_t)s->m->n_places;
    mp_ilp_complete(s->m, s->x, threshold, s->runs, s->work);
    if (!memcmp(s->runs, s->last, n * sizeof *s->runs)) return false;
    memcpy(s->last, s->runs, n * sizeof *s->runs);
    s->status = judge(s, &peak_bytes);
    return s->status == MP_OK && peak_bytes <= s->budget_bytes;
}

/* ---- GLPK callbacks ---- */

static double objective(const search *s)
{
    int64_t ticks = 0;
    for (size_t c = 0; c < s->m->n_columns; c++)
        if (s->m->columns[c].kind == MP_ILP_RUN && s->x[c] > 0)
            ticks += s->m->graph->nodes[s->m->node[s->m->columns[c].place]].alternatives[0].ticks / s->ticks_unit;
    return (double)ticks;
}

/* Rounds the solution of the current relaxation to plans. Many thresholds are used at the root of the search tree, one at other
 * nodes. */
static void try_rounding(search *s, glp_tree *tree)
{
    static const double thresholds[] = {0.5, 0.9, 0.1, 0.7, 0.3, 0.99, 0.01};
    const size_t n = glp_ios_curr_node(tree) == 1 ? sizeof thresholds / sizeof *thresholds : 1;
    glp_prob *problem = glp_ios_get_prob(tree);
    for (size_t k = 0; k < n && s->status == MP_OK; k++) {
        for (size_t c = 0; c < s->m->n_columns; c++) s->x[c] = glp_get_col_prim(problem, (int)c + 1);
        if (!round_to_plan(s, thresholds[k])) continue;
        if (!mp_ilp_columns(s->m, s->runs, s->budget_bytes - s->limits->tighter_bytes, s->x, s->work)) continue;
        if (glp_mip_status(problem) == GLP_FEAS && objective(s) >= glp_mip_obj_val(problem)) continue;
        for (size_t c = 0; c < s->m->n_columns; c++) s->values[c + 1] = s->x[c];
        if (glp_ios_heur_sol(tree, s->values) == 0) s->incumbent = glp_mip_obj_val(problem);
    }
}

/* If GLPK has found a new integer solution since the last call, builds and judges its plan. */
static void take_incumbent(search *s, glp_prob *problem)
{
    if (glp_mip_status(problem) != GLP_FEAS && glp_mip_status(problem) != GLP_OPT) return;
    if (glp_mip_obj_val(problem) == s->incumbent || s->status != MP_OK) return;
    s->incumbent = glp_mip_obj_val(problem);
    for (size_t c = 0; c < s->m->n_columns; c++) s->x[c] = glp_mip_col_val(problem, (int)c + 1);
    mp_ilp_complete(s->m, s->x, 0.5, s->runs, s->work);
    int64_t peak_bytes = 0;
    s->status = judge(s, &peak_bytes);
    const int64_t excess = peak_bytes - s->budget_bytes;
    if (excess > 0 && (!s->result->excess_bytes || excess < s->result->excess_bytes)) s->result->excess_bytes = excess;
}

static bool can_improve(const search *s, glp_tree *tree)
{
    const int best = glp_ios_best_node(tree);
    if (!best || s->limits->good_ticks == INT64_MAX) return true;
    const double good = (double)(s->limits->good_ticks - s->base_ticks) / (double)s->ticks_unit;
    return glp_ios_node_bound(tree, best) < good - 1e-6 * (1 + fabs(good));
}

static void call_back(glp_tree *tree, void *data)
{
    search *s = data;
    const int reason = glp_ios_reason(tree);
    mp_glpk_point();
    take_incumbent(s, glp_ios_get_prob(tree));
    if (reason == GLP_IPREPRO) s->result->n_nodes++;
    if (reason == GLP_IHEUR && s->status == MP_OK) try_rounding(s, tree);
    if (reason == GLP_ISELECT && !can_improve(s, tree)) s->useless = true;
    if (s->status != MP_OK || s->useless || s->result->n_nodes > s->limits->most_nodes || is_stopped(s))
        glp_ios_terminate(tree);
}

/* ---- the problem ---- */

/* Returns the factor by which bytes are divided in the coefficients of memory rows. Large byte counts are scaled so that right
 * sides are about 1000. Small numbers are not scaled and remain exact. */
static double bytes_unit(const search *s)
{
    const mp_ilp_model *m = s->m;
    int64_t unit = 0, most = 1;
    for (size_t r = 0; r < m->n_rows; r++)
        for (size_t k = m->rows[r].start; m->rows[r].memory && k < m->rows[r].start + m->rows[r].n; k++) {
            const int64_t c = m->entries[k].coefficient < 0 ? -m->entries[k].coefficient : m->entries[k].coefficient;
            unit = mp_gcd(unit, c);
            if (c > most) most = c;
        }
    if (unit == 0) unit = 1;
    return most / unit <= 1000 ? (double)unit : (double)most / 1000;
}

static void load_rows(search *s)
{
    const mp_ilp_model *m = s->m;
    const double unit = bytes_unit(s);
    for (size_t r = 0; r < m->n_rows; r++) {
        const mp_ilp_row *row = &m->rows[r];
        int64_t most = 0, bound = row->bound;
        for (size_t k = row->start; k < row->start + row->n; k++)
            if (m->entries[k].coefficient > 0) most += m->entries[k].coefficient;
        if (row->memory) bound += s->budget_bytes - s->limits->tighter_bytes - m->static_bytes;
        if (most <= bound) continue; /* a row that all values of its columns satisfy is not passed to GLPK */
        const double scale = row->memory ? unit : 1;
        const int index = glp_add_rows(s->problem, 1);
        double limit = (double)bound / scale;
        if (row->memory && scale == floor(scale)) limit = floor(limit);
        for (size_t k = 0; k < row->n; k++) {
            s->indices[k + 1] = m->entries[row->start + k].column + 1;
            s->values[k + 1] = (double)m->entries[row->start + k].coefficient / scale;
        }
        glp_set_mat_row(s->problem, index, (int)row->n, s->indices, s->values);
        glp_set_row_bnds(s->problem, index, GLP_UP, 0, limit);
    }
}

static void load(search *s)
{
    const mp_ilp_model *m = s->m;
    s->problem = glp_create_prob();
    if (m->n_columns) glp_add_cols(s->problem, (int)m->n_columns);
    for (size_t c = 0; c < m->n_columns; c++) {
        const mp_ilp_column *column = &m->columns[c];
        const int index = (int)c + 1;
        if (column->kind == MP_ILP_RUN || column->kind == MP_ILP_RESIDENT)
            glp_set_col_kind(s->problem, index, GLP_BV);
        else
            glp_set_col_bnds(s->problem, index, GLP_DB, 0, 1);
        if (column->kind == MP_ILP_RUN)
            glp_set_obj_coef(s->problem, index,
                             (double)(m->graph->nodes[m->node[column->place]].alternatives[0].ticks / s->ticks_unit));
    }
    load_rows(s);
}

/* Solves the first relaxation in slices of some iterations, and checks the clock after each. */
static int relax(search *s)
{
    glp_smcp how;
    int rc;
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.meth = GLP_DUALP;
    how.it_lim = 200; /* iterations per slice */
    glp_adv_basis(s->problem, 0);
    do {
        how.tm_lim = time_left(s);
        rc = glp_simplex(s->problem, &how);
    } while (rc == GLP_EITLIM && !is_stopped(s));
    return rc;
}

static void branch_and_bound(search *s)
{
    glp_iocp how;
    glp_init_iocp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.sr_heur = GLP_OFF;
    how.mir_cuts = GLP_ON;
    how.cov_cuts = GLP_ON;
    how.tm_lim = time_left(s);
    how.cb_func = call_back;
    how.cb_info = s;
    const int rc = glp_intopt(s->problem, &how);
    take_incumbent(s, s->problem);
    if (rc == GLP_ETMLIM) s->result->stopped = true;
    const int status = glp_mip_status(s->problem);
    const bool ended = (rc == 0 && (status == GLP_OPT || status == GLP_NOFEAS)) || (rc == GLP_ESTOP && s->useless);
    s->result->proved = s->status == MP_OK && ended && !s->result->excess_bytes && !s->limits->tighter_bytes;
}

static void solve(void *data)
{
    search *s = data;
    load(s);
    const int rc = relax(s), status = glp_get_status(s->problem);
    if (rc == GLP_ETMLIM || rc == GLP_EITLIM)
        s->result->stopped = true;
    else if (rc == 0 && status == GLP_OPT && !s->result->stopped)
        branch_and_bound(s);
    else
        s->result->proved = rc == 0 && status == GLP_NOFEAS && !s->limits->tighter_bytes;
    glp_delete_prob(s->problem);
}

static void clear(mp_ilp_result *found)
{
    mp_free(found->steps);
}

mp_status mp_ilp_search(const mp_ilp_model *model, int64_t budget_bytes, const mp_ilp_limits *limits, mp_ilp_result *result,
                        mp_error *err)
{
    MP_CLEARED_BY(clear) mp_ilp_result found = {0};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    search s = {.m = model,
                .limits = limits,
                .result = &found,
                .budget_bytes = budget_bytes,
                .start = mp_clock_now(),
                .incumbent = HUGE_VAL,
                .err = err};
    const size_t n_runs = (size_t)model->n_stages * (size_t)model->n_places, n_columns = model->n_columns + 1;
    s.x = mp_pool_alloc(pool, n_columns, sizeof *s.x);
    s.values = mp_pool_alloc(pool, n_columns + 1, sizeof *s.values);
    s.indices = mp_pool_alloc(pool, n_columns + 1, sizeof *s.indices);
    s.runs = mp_pool_alloc(pool, n_runs, sizeof *s.runs);
    s.last = mp_pool_alloc(pool, n_runs, sizeof *s.last);
    s.work = mp_pool_alloc(pool, 2 * model->graph->n_storages, sizeof *s.work);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for the integer programme of %s", model->graph->name);
    for (int p = 0; p < model->n_places; p++)
        s.ticks_unit = mp_gcd(s.ticks_unit, model->graph->nodes[model->node[p]].alternatives[0].ticks);
    if (s.ticks_unit == 0) s.ticks_unit = 1;
    for (size_t i = 0; i < model->graph->n_nodes; i++) s.base_ticks += model->graph->nodes[i].alternatives[0].ticks;
    const mp_status session = mp_glpk_session(solve, &s, err);
    MP_CHECK(s.status);
    MP_ENSURE(session == MP_OK, err, MP_LIMIT, "GLPK failed on %s", model->graph->name);
    *result = found;
    found.steps = NULL;
    return MP_OK;
}
