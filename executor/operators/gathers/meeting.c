/* meeting.c - the words for how updates meet elements, and the types that can. */
#include "executor/operators/gathers/meeting.h"

#include <string.h>

bool mp_meeting_of(const mp_operator *op, mp_meeting *how)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *name = mp_operator_text(op, "reduction", "none");
    for (int k = 0; k < (int)(sizeof names / sizeof *names); k++)
        if (!strcmp(names[k], name)) {
            *how = (mp_meeting)k;
            return true;
        }
    return false;
}

bool mp_meeting_knows(mp_meeting how, mp_dtype dtype)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT:
    case MP_DTYPE_BFLOAT16:
    case MP_DTYPE_DOUBLE:
    case MP_DTYPE_INT64:
    case MP_DTYPE_INT32:
    case MP_DTYPE_INT8:
    case MP_DTYPE_UINT8:
        return true;
    default:
        return how == MP_MEET_SET;
    }
}
