/* handle.c - the starts of the handle's functions. They clear the last error and check the state of the handle. */
#include "planner/interface/handle.h"

mp_status mp_planning_begin(mp_planning *planning, bool has_texts)
{
    if (!planning) return MP_INVALID;
    planning->err = (mp_error){0};
    return has_texts ? MP_OK : MP_FAIL(&planning->err, MP_INVALID, "a text argument of the call is NULL");
}

mp_status mp_planning_begin_change(mp_planning *planning, bool has_texts)
{
    mp_status st = mp_planning_begin(planning, has_texts);
    if (st != MP_OK || !planning->is_finished) return st;
    return MP_FAIL(&planning->err, MP_INVALID, "the graph is finished and cannot be changed");
}

mp_status mp_planning_begin_search(mp_planning *planning)
{
    mp_status st = mp_planning_begin(planning, true);
    if (st != MP_OK || planning->is_finished) return st;
    return MP_FAIL(&planning->err, MP_INVALID, "the graph is not finished");
}
