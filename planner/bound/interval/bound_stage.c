/* bound_stage.c - the names of the bound's stages, the switches that turn stages off, and the report of each stage's result. */
#include "memplan/bound_stage.h"

#include <string.h>

#include "estimator/base/memory.h"

/* `base`: the stage of the bound without which this stage cannot run; MP_BOUND_NODES: it needs no other stage that can be
 * turned off. */
static const struct {
    const char *name;
    mp_bound_stage base;
    bool has_switch;
} stages[] = {
    [MP_BOUND_NODES] = {"nodes", MP_BOUND_NODES, false},      [MP_BOUND_FLOOR] = {"floor", MP_BOUND_NODES, true},
    [MP_BOUND_INTERVAL] = {"interval", MP_BOUND_NODES, true}, [MP_BOUND_DISJOINT] = {"disjoint", MP_BOUND_INTERVAL, true},
    [MP_BOUND_COUPLE] = {"couple", MP_BOUND_INTERVAL, true},  [MP_BOUND_OVERLAP] = {"overlap", MP_BOUND_INTERVAL, true},
    [MP_BOUND_TREE] = {"tree", MP_BOUND_OVERLAP, true},       [MP_BOUND_SETTLE] = {"settle", MP_BOUND_INTERVAL, true},
    [MP_BOUND_DEMAND] = {"demand", MP_BOUND_NODES, true},     [MP_BOUND_CHANNELS] = {"channels", MP_BOUND_NODES, true},
    [MP_BOUND_SEARCH] = {"search", MP_BOUND_NODES, false},
};

_Static_assert(sizeof stages / sizeof *stages == MP_BOUND_N_STAGES, "a row for every stage");

const char *mp_bound_stage_name(mp_bound_stage stage)
{
    return stages[stage].name;
}

bool mp_bound_stage_find(const char *name, mp_bound_stage *stage)
{
    for (int k = 0; k < MP_BOUND_N_STAGES; k++)
        if (stages[k].has_switch && !strcmp(stages[k].name, name)) {
            *stage = (mp_bound_stage)k;
            return true;
        }
    return false;
}

bool mp_bound_is_on(const mp_bound_options *options, mp_bound_stage stage)
{
    for (; stage != MP_BOUND_NODES; stage = stages[stage].base)
        if (options->off >> stage & 1) return false;
    return true;
}

void mp_bound_report_init(mp_bound_report *report)
{
    *report = (mp_bound_report){0};
    for (int k = 0; k < MP_BOUND_N_STAGES; k++) report->stages[k].ticks = -1;
}

void mp_bound_report_clear(mp_bound_report *report)
{
    mp_free(report->evictions);
    mp_bound_report_init(report);
}

static void take_interval(mp_bound_report *to, mp_bound_report *from)
{
    mp_free(to->evictions);
    to->live_in_bytes = from->live_in_bytes;
    to->free_bytes = from->free_bytes;
    to->ticks = from->ticks;
    to->n = from->n;
    to->evictions = from->evictions;
    from->n = 0;
    from->evictions = NULL;
}

void mp_bound_report_merge(mp_bound_report *to, mp_bound_report *from, bool takes_interval)
{
    for (int k = 0; k < MP_BOUND_N_STAGES; k++) {
        mp_bound_result *r = &to->stages[k];
        const mp_bound_result *found = &from->stages[k];
        if (found->ticks > r->ticks) r->ticks = found->ticks;
        r->is_infeasible = r->is_infeasible || found->is_infeasible;
        mp_bound_work_add(&r->work, &found->work);
    }
    if (from->least_ticks > to->least_ticks) to->least_ticks = from->least_ticks;
    if (takes_interval) take_interval(to, from);
}

void mp_bound_work_add(mp_bound_work *to, const mp_bound_work *work)
{
    to->n_cuts += work->n_cuts;
    to->n_pivots += work->n_pivots;
    to->n_states += work->n_states;
}
