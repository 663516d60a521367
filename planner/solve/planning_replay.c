/* planning_replay.c - answers with the steps of a plan for the same graph at other sizes. */
#include "estimator/base/memory.h"
#include "memplan/planning.h"

mp_status mp_planning_replay(mp_planning *planning, int64_t budget_bytes, const mp_plan *plan)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *replayed = NULL;
    const bool is_finished = *mp_planning_hash(planning);
    /* this call fails, and its error message names the missing part: plan or finished graph */
    if (!plan || !is_finished) return mp_planning_take(planning, budget_bytes, NULL);
    MP_CHECK(mp_plan_new(mp_planning_graph(planning), plan->solver, plan->steps, plan->n_steps, &replayed,
                         mp_planning_error(planning)));
    replayed->cut_short = plan->cut_short;
    return mp_planning_take(planning, budget_bytes, replayed);
}
