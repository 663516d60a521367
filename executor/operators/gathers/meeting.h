/* meeting.h - what happens where an update meets an element: set, add, multiply, the larger, the smaller. For every backend. */
#pragma once

#include "estimator/model/ops.h"

typedef enum mp_meeting { MP_MEET_SET, MP_MEET_ADD, MP_MEET_MULTIPLY, MP_MEET_MAX, MP_MEET_MIN } mp_meeting;

/* What an update makes of an element; U: unsigned where sums may wrap. A not-a-number on either side stays one. */
#define MP_MEET(how, T, U, a, b)                                         \
    ((how) == MP_MEET_SET        ? (b)                                   \
     : (how) == MP_MEET_ADD      ? (T)((U)(a) + (U)(b))                  \
     : (how) == MP_MEET_MULTIPLY ? (T)((U)(a) * (U)(b))                  \
     : (how) == MP_MEET_MAX      ? ((a) > (b) || (a) != (a) ? (a) : (b)) \
                                 : ((a) < (b) || (a) != (a) ? (a) : (b)))

/* From the attribute `reduction` of a scatter operator: "none", "add", ... False: no such word. */
bool mp_meeting_of(const mp_operator *op, mp_meeting *how);
/* Whether entries of this type can meet so. */
bool mp_meeting_knows(mp_meeting how, mp_dtype dtype);
